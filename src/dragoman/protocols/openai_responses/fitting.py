"""The members of a Responses client's request that a Responses upstream does not take as they
are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Raw, Struct

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.options import Capabilities
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.raw import holds, messages_in
from dragoman.protocols.system_text import SYSTEM_ROLES

_TRIGGER = b'"compaction_trigger"'
_SAMPLING = frozenset({"temperature", "top_p"})


class _Item(Struct, gc=False):
    type: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None


class _Object(Struct, gc=False):
    """An object with any members."""


class Checked(Struct):
    """The validated part of a body: the types of well-known fields. Vocabularies that grow (items,
    tools, models' limits) are the upstream's to judge."""

    input: str | list[_Item] | None = None
    instructions: str | list[_Item] | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[_Object] | None = None
    tool_choice: str | _Object | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    given = members.get("input")
    if holds(given, b'"compaction"') and holds(given, PREFIX.encode()):
        names.update(("input", "instructions"))
    if not capabilities.of(ResponsesCapabilities).compaction and holds(given, _TRIGGER):
        names.update(("input", "tool_choice"))
    places = capabilities.late_system != "message"
    looks = places or not capabilities.final_assistant
    # Of a conversation only what is new is in `checked`.
    roles = [item.role for item in messages_in(given)] if looks else []
    if (places and any(role in SYSTEM_ROLES for role in roles)) or (
        not capabilities.images and holds(given, b'"input_image"')
    ):
        names.update(("input", "instructions"))
    if not capabilities.final_assistant and roles[-1:] == ["assistant"]:
        names.add("input")
    if not capabilities.output_limit:
        names.update({"max_output_tokens"} & members.keys())
    effort = (checked.reasoning or {}).get("effort")
    if isinstance(effort, str) and effort and effort not in capabilities.efforts:
        names.add("reasoning")
    if not capabilities.sampling:
        names.update(_SAMPLING & members.keys())
    if not capabilities.structured_output and holds(members.get("text"), b'"json_schema"'):
        names.add("text")
    if not capabilities.strict_tools and holds(members.get("tools"), b'"strict"'):
        names.add("tools")
    return names

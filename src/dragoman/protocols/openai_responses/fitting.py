"""The members of a Responses client's request that a Responses upstream does not take as they
are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.options import Capabilities
from dragoman.protocols.openai_responses.compaction import COMPACTION, TRIGGER
from dragoman.protocols.openai_responses.repeated_items import GIVEN_BY_TYPE
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.raw import holds, text_of
from dragoman.protocols.system_text import SYSTEM_ROLES

_SAMPLING = frozenset({"temperature", "top_p"})


class _Item(Struct, gc=False):
    type: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    encrypted_content: Raw = Raw()
    created_by: Raw = Raw()


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

    @property
    def items(self) -> Sequence[_Item]:
        """The items of the input; none if that is a text."""
        return self.input if isinstance(self.input, list) else ()


def may_have_envelopes(checked: Checked) -> bool:
    """Whether there is encrypted content, which may be in an envelope."""
    return any(bool(item.encrypted_content) for item in checked.items)


def is_given_alone(checked: Checked) -> bool:
    """Whether items may have members that are for answers alone."""
    return any(bool(item.created_by) or item.type in GIVEN_BY_TYPE for item in checked.items)


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    given = members.get("input")
    for item in checked.items:
        if item.type == COMPACTION and text_of(item.encrypted_content).startswith(PREFIX):
            names.update(("input", "instructions"))
        elif item.type == TRIGGER and not capabilities.of(ResponsesCapabilities).compaction:
            names.update(("input", "tool_choice"))
    places = capabilities.late_system != "message"
    if (places and any(item.role in SYSTEM_ROLES for item in checked.items)) or (
        not capabilities.images and holds(given, b'"input_image"')
    ):
        names.update(("input", "instructions"))
    if not capabilities.final_assistant and checked.items:
        names.update(("input",) if checked.items[-1].role == "assistant" else ())
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

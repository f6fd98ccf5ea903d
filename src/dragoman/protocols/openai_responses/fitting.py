"""The members of a Responses client's request that a Responses upstream does not take as they
are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
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
_COMPACTED = frozenset({COMPACTION, TRIGGER})


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


_type = attrgetter("type")
_role = attrgetter("role")
_created_by = attrgetter("created_by")


def is_given_alone(checked: Checked) -> bool:
    """Whether items may have members that are for answers alone."""
    items = checked.items
    return any(map(_created_by, items)) or not GIVEN_BY_TYPE.keys().isdisjoint(map(_type, items))


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    given, items = members.get("input"), checked.items
    if not _COMPACTED.isdisjoint(map(_type, items)):
        names.update(_unfit_compaction(items, capabilities))
    places = capabilities.late_system != "message"
    if (places and not SYSTEM_ROLES.isdisjoint(map(_role, items))) or (
        not capabilities.images and holds(given, b'"input_image"')
    ):
        names.update(("input", "instructions"))
    if not capabilities.final_assistant and items:
        names.update(("input",) if items[-1].role == "assistant" else ())
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


def _unfit_compaction(items: Sequence[_Item], capabilities: Capabilities) -> Iterator[str]:
    for item in items:
        if item.type == COMPACTION and text_of(item.encrypted_content).startswith(PREFIX):
            yield from ("input", "instructions")
        elif item.type == TRIGGER and not capabilities.of(ResponsesCapabilities).compaction:
            yield from ("input", "tool_choice")

"""The members of a Responses client's request that a Responses upstream does not take as they
are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.options import Capabilities
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.raw import has_role, holds, last_role, split_object, text_of

_TRIGGER = b'"compaction_trigger"'
_SAMPLING = frozenset({"temperature", "top_p"})


def unfit(members: Mapping[str, Raw], capabilities: Capabilities) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    given = members.get("input")
    if holds(given, b'"compaction"') and holds(given, PREFIX.encode()):
        names.update(("input", "instructions"))
    if not capabilities.of(ResponsesCapabilities).compaction and holds(given, _TRIGGER):
        names.update(("input", "tool_choice"))
    places = capabilities.late_system != "message"
    if (places and has_role(given, "system", "developer")) or (
        not capabilities.images and holds(given, b'"input_image"')
    ):
        names.update(("input", "instructions"))
    if not capabilities.final_assistant and last_role(given) == "assistant":
        names.add("input")
    if not capabilities.output_limit:
        names.update({"max_output_tokens"} & members.keys())
    effort = text_of((split_object(members.get("reasoning")) or {}).get("effort"))
    if effort and effort not in capabilities.efforts:
        names.add("reasoning")
    if not capabilities.sampling:
        names.update(_SAMPLING & members.keys())
    if not capabilities.structured_output and holds(members.get("text"), b'"json_schema"'):
        names.add("text")
    if not capabilities.strict_tools and holds(members.get("tools"), b'"strict"'):
        names.add("tools")
    return names

"""The members of a Messages client's request that a Messages upstream does not take as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.thinking import FORCED
from dragoman.protocols.raw import holds

_CONVERSATION = ("messages", "system")
_THINKING = ("thinking", "output_config", "max_tokens")
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})


class _Message(Struct, gc=False):
    role: Literal["user", "assistant", "system"]
    content: Raw = Raw()


class _Object(Struct, gc=False):
    """An object with any members."""


class Checked(Struct):
    """The validated part of a body that is passed through: the types of well-known fields.

    Vocabularies that grow (blocks, tools, models' limits) are the upstream's to judge. `max_tokens`
    may be missing: counting tokens does without.
    """

    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: int | None = None
    system: str | list[_Object] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[_Object] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    messages = members.get("messages")
    places = capabilities.late_system != "message"
    if (places and any(message.role == "system" for message in checked.messages)) or (
        not capabilities.images and holds(messages, b'"image"')
    ):
        names.update(_CONVERSATION)
    if checked.thinking or checked.output_config or checked.tool_choice:
        names.update(_unfit_thinking(members, checked, capabilities))
    if not capabilities.final_assistant and checked.messages[-1].role == "assistant":
        names.update(_CONVERSATION)
    if not capabilities.sampling:
        names.update(_SAMPLING & members.keys())
    if not capabilities.structured_output and holds(members.get("output_config"), b'"format"'):
        names.update(_THINKING)
    if not capabilities.strict_tools and holds(members.get("tools"), b'"strict"'):
        names.add("tools")
    return names


def _unfit_thinking(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    own = capabilities.of(MessagesCapabilities)
    forced = _word(checked.tool_choice, "type") in FORCED
    if forced and own.thinks_unasked and "thinking" not in members:
        return _THINKING
    effort = _word(checked.output_config, "effort")
    mode = _word(checked.thinking, "type")
    takes_mode = own.adaptive_thinking or not (effort or mode == "adaptive")
    if not takes_mode or (mode == "disabled" and not own.disable_thinking):
        return _THINKING
    if not effort or effort in capabilities.efforts:
        return ()
    return ("output_config", *({"thinking"} & members.keys()))


def _word(given: Mapping[str, Any] | None, name: str) -> str:
    word = (given or {}).get(name)
    return word if isinstance(word, str) else ""

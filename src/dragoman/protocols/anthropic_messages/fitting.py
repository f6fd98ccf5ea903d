"""The members of a Messages client's request that a Messages upstream does not take as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Raw

from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.thinking import FORCED
from dragoman.protocols.raw import has_role, holds, last_role, split_object, text_of

_CONVERSATION = ("messages", "system")
_THINKING = ("thinking", "output_config", "max_tokens")
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})


def unfit(members: Mapping[str, Raw], capabilities: Capabilities) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    messages = members.get("messages")
    places = capabilities.late_system != "message"
    if (places and has_role(messages, "system")) or (
        not capabilities.images and holds(messages, b'"image"')
    ):
        names.update(_CONVERSATION)
    names.update(_unfit_thinking(members, capabilities))
    if not capabilities.final_assistant and last_role(messages) == "assistant":
        names.update(_CONVERSATION)
    if not capabilities.sampling:
        names.update(_SAMPLING & members.keys())
    if not capabilities.structured_output and holds(members.get("output_config"), b'"format"'):
        names.update(_THINKING)
    if not capabilities.strict_tools and holds(members.get("tools"), b'"strict"'):
        names.add("tools")
    return names


def _unfit_thinking(members: Mapping[str, Raw], capabilities: Capabilities) -> Collection[str]:
    own = capabilities.of(MessagesCapabilities)
    if own.thinks_unasked and "thinking" not in members:
        choice = split_object(members.get("tool_choice")) or {}
        if text_of(choice.get("type")) in FORCED:
            return _THINKING
    effort = text_of((split_object(members.get("output_config")) or {}).get("effort"))
    mode = text_of((split_object(members.get("thinking")) or {}).get("type"))
    takes_mode = own.adaptive_thinking or not (effort or mode == "adaptive")
    if not takes_mode or (mode == "disabled" and not own.disable_thinking):
        return _THINKING
    if not effort or effort in capabilities.efforts:
        return ()
    return ("output_config", *({"thinking"} & members.keys()))

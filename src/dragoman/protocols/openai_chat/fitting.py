"""The members of a Chat client's request that a Chat upstream does not take as they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.options import Capabilities
from dragoman.jsontext import JsonError
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.raw import holds, last_role, text_of
from dragoman.protocols.system_text import SYSTEM_ROLES

_EFFORT = ("reasoning_effort", "chat_template_kwargs", "enable_thinking")
_LIMITS = ("max_tokens", "max_completion_tokens")
_TOOLS = ("tools", "tool_choice", "functions", "function_call")


class _Message(Struct):
    role: str
    tool_calls: Raw = Raw()
    reasoning_content: Raw = Raw()


class _Tool(Struct):
    name: Raw = Raw()


_messages = jsontext.decoder(list[_Message])
_named_tools = jsontext.decoder(list[_Tool])


def unfit(members: Mapping[str, Raw], capabilities: Capabilities) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    own = capabilities.of(ChatCapabilities)
    names: set[str] = set()
    if _has_unfit_messages(members.get("messages"), capabilities, own):
        names.add("messages")
    if "tools" in members and _has_unfit_tools(members["tools"], capabilities, own):
        names.update(_TOOLS, ("messages",))
    if "tools" in members and not own.reasoning_with_tools:
        names.update(_EFFORT)
    if "reasoning_effort" in members and _is_unfit_effort(members, capabilities, own):
        names.update(_EFFORT)
    if not capabilities.sampling:
        names.update({"temperature", "top_p"} & members.keys())
    if not capabilities.output_limit:
        names.update(members.keys() & set(_LIMITS))
    elif "max_tokens_field" in capabilities.given and own.max_tokens_field not in members:
        names.update(_LIMITS if not members.keys().isdisjoint(_LIMITS) else ())
    if not own.stream_usage and "stream_options" in members:
        names.add("stream_options")
    if not capabilities.structured_output and holds(
        members.get("response_format"), b'"json_schema"'
    ):
        names.add("response_format")
    return names


def _has_unfit_messages(raw: Raw | None, capabilities: Capabilities, own: ChatCapabilities) -> bool:
    if raw is None:
        return False
    if (not capabilities.images and holds(raw, b'"image_url"')) or (
        not own.chat_files and holds(raw, b'"file"')
    ):
        return True
    if own.short_call_ids and _LONG_ID.search(bytes(raw)):
        return True
    if not capabilities.final_assistant and last_role(raw) == "assistant":
        return True
    places = capabilities.late_system != "message"
    replays = own.replay_reasoning != "never"
    if not places and not replays and not own.alternating_turns:
        return False
    try:
        messages = _messages(raw)
    except JsonError:
        return False
    if places and _is_misplaced(messages, own.system_role):
        return True
    if own.alternating_turns and _has_neighbours([message.role for message in messages]):
        return True
    return replays and any(map(_lacks_reasoning, messages))


_LONG_ID = re.compile(rb'"tool_call_id"\s*:\s*"(?![A-Za-z0-9]{9}")')


def _has_neighbours(roles: Sequence[str]) -> bool:
    """Whether a user's message follows another, or the results of tools."""
    return any(role == "user" and before in ("user", "tool") for before, role in pairwise(roles))


def _lacks_reasoning(message: _Message) -> bool:
    """Whether a message has calls, and no reasoning beside them."""
    return bool(message.tool_calls) and not message.reasoning_content


def _is_misplaced(messages: Sequence[_Message], role: str) -> bool:
    """Whether there is a system message other than one of this role at the beginning."""
    first = messages[:1]
    return any(message.role in SYSTEM_ROLES for message in messages[1:]) or any(
        message.role in SYSTEM_ROLES and message.role != role for message in first
    )


def _has_unfit_tools(raw: Raw, capabilities: Capabilities, own: ChatCapabilities) -> bool:
    lacks_custom = "custom_tools_native" in capabilities.given and not own.custom_tools_native
    return (
        (lacks_custom and holds(raw, b'"custom"'))
        or (not capabilities.strict_tools and holds(raw, b'"strict"'))
        or _has_flat_tools(raw)
    )


def _has_flat_tools(raw: Raw) -> bool:
    """Whether members of a tool stand beside its type."""
    try:
        return any(bool(tool.name) for tool in _named_tools(raw))
    except JsonError:
        return False


def _is_unfit_effort(
    members: Mapping[str, Raw], capabilities: Capabilities, own: ChatCapabilities
) -> bool:
    effort = text_of(members["reasoning_effort"])
    return bool(effort) and (own.effort != "effort" or effort not in capabilities.efforts)

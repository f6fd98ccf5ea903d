"""The members of a Chat client's request that a Chat upstream does not take as they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman.canonical.options import Capabilities
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.raw import holds
from dragoman.protocols.system_text import SYSTEM_ROLES

_EFFORT = ("reasoning_effort", "chat_template_kwargs", "enable_thinking")
_LIMITS = ("max_tokens", "max_completion_tokens")
_TOOLS = ("tools", "tool_choice", "functions", "function_call")


class _Message(Struct, gc=False):
    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    tool_calls: Raw = Raw()
    reasoning_content: Raw = Raw()
    reasoning_details: Raw = Raw()


class _Tool(Struct, gc=False):
    type: Any = None
    name: Raw = Raw()


class Checked(Struct):
    """The validated part of a body that is passed through: the types of well-known fields.

    Vocabularies that grow (parts, tools, models' limits) are the upstream's to judge.
    """

    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Raw] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None


_role = attrgetter("role")
_name = attrgetter("name")
_type = attrgetter("type")


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    own = capabilities.of(ChatCapabilities)
    names: set[str] = set()
    if _has_unfit_messages(members["messages"], checked.messages, capabilities, own):
        names.add("messages")
    if checked.tools and _has_unfit_tools(members["tools"], checked.tools, capabilities, own):
        names.update(_TOOLS, ("messages",))
    if "tools" in members and not own.reasoning_with_tools:
        names.update(_EFFORT)
    effort = checked.reasoning_effort
    if effort and (own.effort != "effort" or effort not in capabilities.efforts):
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


def _has_unfit_messages(
    raw: Raw, messages: Sequence[_Message], capabilities: Capabilities, own: ChatCapabilities
) -> bool:
    if (not capabilities.images and holds(raw, b'"image_url"')) or (
        not own.chat_files and holds(raw, b'"file"')
    ):
        return True
    if own.short_call_ids and _LONG_ID.search(bytes(raw)):
        return True
    if not capabilities.final_assistant and messages[-1].role == "assistant":
        return True
    if capabilities.late_system != "message" and _is_misplaced(messages, own.system_role):
        return True
    if own.alternating_turns and _has_neighbours(map(_role, messages)):
        return True
    return own.replay_reasoning != "never" and any(map(_lacks_reasoning, messages))


_LONG_ID = re.compile(rb'"tool_call_id"\s*:\s*"(?![A-Za-z0-9]{9}")')


def _has_neighbours(roles: Iterable[str]) -> bool:
    """Whether a user's message follows another, or the results of tools."""
    return any(role == "user" and before in ("user", "tool") for before, role in pairwise(roles))


def _lacks_reasoning(message: _Message) -> bool:
    """Whether a message has calls, and no reasoning beside them."""
    return bool(message.tool_calls) and not message.reasoning_content


def _is_misplaced(messages: Sequence[_Message], role: str) -> bool:
    """Whether there is a system message other than one of this role at the beginning."""
    if SYSTEM_ROLES.isdisjoint(map(_role, messages)):
        return False
    return messages[0].role != role or not SYSTEM_ROLES.isdisjoint(map(_role, messages[1:]))


def _has_unfit_tools(
    raw: Raw, tools: Sequence[_Tool], capabilities: Capabilities, own: ChatCapabilities
) -> bool:
    """Whether there is a tool that the upstream does not take, or whose members stand beside its
    type."""
    lacks_custom = "custom_tools_native" in capabilities.given and not own.custom_tools_native
    return (
        (not capabilities.strict_tools and holds(raw, b'"strict"'))
        or any(map(_name, tools))
        or (lacks_custom and "custom" in map(_type, tools))
    )

"""What servers of open models, and vendors other than OpenAI, refuse in a Chat request, as a table.

The messages are those of the chat templates and services themselves.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.view import JsonObject

_SYSTEM = ("system", "developer")
_NINE = re.compile("[a-zA-Z0-9]{9}")

Rule = tuple[str, Callable[[list[JsonObject]], bool]]
"""A message, and which conversations are refused with it."""


def _calls(messages: list[JsonObject]) -> Iterator[Any]:
    for message in messages:
        yield from message.get("tool_calls") or ()


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _alternates(messages: list[JsonObject]) -> bool:
    before = "assistant"
    for message in messages:
        role = message["role"]
        if role in _SYSTEM:
            continue
        if role == "user" and before != "assistant":
            return False
        before = "called" if message.get("tool_calls") else role
    return True


_TEXT: Rule = (
    'can only concatenate str (not "list") to str',
    lambda messages: any(
        one["role"] in _SYSTEM and not isinstance(one["content"], str) for one in messages
    ),
)
_ROLES: Rule = (
    "Unexpected message role.",
    lambda messages: any(one["role"] == "developer" for one in messages),
)
_ARGUMENTS: Rule = (
    "the arguments of a tool call must be a JSON object",
    lambda messages: (
        not all(
            call["type"] == "function" and _is_object(call["function"]["arguments"])
            for call in _calls(messages)
        )
    ),
)
_SYSTEM_FIRST: Rule = (
    "System message must be at the beginning.",
    lambda messages: any(one["role"] in _SYSTEM for one in messages[1:]),
)
_SYSTEM_LOST: Rule = (
    "The template would leave out every system message but the first.",
    _SYSTEM_FIRST[1],
)
_USER: Rule = (
    "No user query found in messages.",
    lambda messages: all(one["role"] != "user" for one in messages),
)
_ALTERNATING: Rule = (
    "After the optional system message, conversation roles must alternate user and assistant roles"
    " except for tool calls and results.",
    lambda messages: not _alternates(messages),
)
_SHORT_IDS: Rule = (
    "Tool call IDs should be alphanumeric strings with length 9!",
    lambda messages: not all(_NINE.fullmatch(call["id"]) for call in _calls(messages)),
)
_REASONING: Rule = (
    "thinking is enabled but reasoning_content is missing in assistant tool call message",
    lambda messages: any(
        one.get("tool_calls") and "reasoning_content" not in one for one in messages
    ),
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server with a model.

    ``rules`` are those of the model's chat template and of the service besides those of all,
    ``efforts`` the words for reasoning that it takes and ``refusal`` its message for any other;
    ``status`` is that of a refusal, and ``quirks`` how its answers differ.
    """

    rules: tuple[Rule, ...] = ()
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    refusal: str = "Unexpected reasoning effort: {word}. Supported types are {words}."
    status: int = 400
    quirks: frozenset[str] = frozenset()


_OPEN = (_TEXT, _ROLES, _ARGUMENTS)
"""What servers of open models have in common."""
_LEVELS = ("low", "medium", "high")
_NAMED, _TAGS = frozenset({"reasoning_field"}), frozenset({"think_tags"})

SERVERS: Mapping[str, Server] = {
    "qwen": Server((*_OPEN, _SYSTEM_FIRST, _USER), ("low", "medium", "xhigh"), status=500),
    "tags": Server((*_OPEN, _SYSTEM_FIRST, _USER), quirks=_TAGS),
    "gptoss": Server((*_OPEN, _SYSTEM_LOST), _LEVELS, quirks=_NAMED),
    "mistral": Server((*_OPEN, _SYSTEM_FIRST, _ALTERNATING, _SHORT_IDS)),
    "deepseek": Server((*_OPEN, _SYSTEM_LOST, _REASONING)),
    "kimi": Server((*_OPEN, _REASONING)),
    "glm": Server((*_OPEN, _SYSTEM_LOST)),
    "minimax": Server((*_OPEN, _SYSTEM_LOST), quirks=_TAGS),
    "hunyuan": Server((*_OPEN, _SYSTEM_LOST), ("low", "high")),
    "groq": Server(
        _OPEN,
        ("none", "default"),
        "`reasoning_effort` must be one of `none` or `default`",
        quirks=_NAMED,
    ),
    "xai": Server(_OPEN, (), "Model grok-4 does not support parameter reasoningEffort."),
    "sglang": Server(
        (*_OPEN, _SYSTEM_FIRST),
        _LEVELS,
        "1 validation error: 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low',"
        " 'medium' or 'high'\", 'input': '{word}'",
    ),
    "open": Server(_OPEN, quirks=_NAMED),
    "azure": Server(quirks=frozenset({"azure_preamble"})),
}
"""The servers by their names in keys, ``sk-sim-like-NAME``."""


def check_server(body: JsonObject, server: Server) -> None:
    """Check a request that OpenAI would take as this server does.

    Raises:
        ApiError: with the server's own message.
    """
    messages, word = body["messages"], body.get("reasoning_effort")
    problem = next((text for text, refuses in server.rules if refuses(messages)), None)
    if server.rules and any(tool["type"] != "function" for tool in body.get("tools") or ()):
        problem = "tools: Input should be 'function'"
    if problem is None and word is not None and word not in server.efforts:
        problem = server.refusal.format(word=word, words=", ".join(server.efforts))
    if problem is not None:
        raise ApiError(server.status, problem)

"""Whole messages in a stream: in place of deltas, or after them as a repetition."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.jsontext import mended
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.reasoning import TEXT_FIELDS, text_in, text_of
from dragoman.protocols.openai_chat.tool_fragments import ToolFragments


class Parts(NamedTuple):
    """The text and reasoning in a `content` list of parts, as some servers send, and the types of
    unread parts."""

    text: str
    thought: str
    refusal: str
    unknown: tuple[str, ...]


def split_parts(content: list[Any] | JsonObject) -> Parts:
    """The parts of a content that is a list of them, or one."""
    thoughts, texts, refusals, unknown = [], [], [], []
    for part in content if isinstance(content, list) else (content,):
        if type(part) is str:
            texts.append(part)
        if type(part) is not dict:
            continue
        thinking, text = part.get("thinking"), part.get("text")
        if type(text) is dict:
            text = text.get("value")
        if thinking or part.get("type") == "reasoning":
            thoughts.append(text_in(thinking or part))
        elif type(part.get("refusal")) is str:
            refusals.append(part["refusal"])
        elif type(text) is str:
            texts.append(text)
        elif part:
            unknown.append(str(part.get("type"))[:60])
    return Parts("".join(texts), "".join(thoughts), "".join(refusals), tuple(unknown))


_OWN = {"content": "text", "reasoning_content": "thinking_blocks"}
FOREIGN_FIELDS = frozenset(_OWN.values())
"""Members in which some servers have a message's text or reasoning."""


def as_known(message: JsonObject) -> JsonObject:
    """The message or delta in this protocol's form if its text or reasoning is under names of other
    protocols only; else unchanged."""
    moved = {
        name: other for name, other in _OWN.items() if message.get(other) and not message.get(name)
    }
    if not moved or ("content" not in moved and text_of(message)):
        return message
    remaining = {name: value for name, value in message.items() if name not in moved.values()}
    return remaining | {name: message[other] for name, other in moved.items()}


def texts_of(message: JsonObject) -> tuple[str, Any, Any]:
    """Reasoning, text and refusal of a whole message."""
    thought, content, refusal = text_of(message), message.get("content"), message.get("refusal")
    if isinstance(content, list | dict):
        parts = split_parts(content)
        return thought or parts.thought, parts.text, refusal or parts.refusal
    return thought, content, refusal


def numbered(message: JsonObject) -> JsonObject:
    """A whole message as a delta: whole calls have no index; their order is their index."""
    calls = message.get("tool_calls")
    if type(calls) is not list or not calls:
        return message
    indexed = [
        {**call, "index": number} if type(call) is dict else call
        for number, call in enumerate(calls)
    ]
    return {**message, "tool_calls": indexed}


class Received(Struct, eq=False):
    """The content received in a stream, compared with whole messages that may come after its
    deltas, with each, or in their place.

    A delta is a piece of the answer; a message is the whole answer so far. What exceeds the content
    received is new, the rest is a repetition, and a message that does not begin with the content
    received is a contradiction, which fails the answer; so do deltas after a message with new
    content. Calls and annotations are matched by position."""

    text: list[str] = []
    refusal: list[str] = []
    reasoning: list[str] = []
    cited: int = 0
    """Annotations."""

    def __bool__(self) -> bool:
        """Whether any content was received."""
        return bool(self.text or self.refusal or self.reasoning)

    def rest(
        self, message: JsonObject, delta: JsonObject, calls: ToolFragments | None
    ) -> JsonObject:
        """The content of a message beyond what was received; `delta` is in the same chunk.

        Raises:
            UpstreamError: it contradicts what was received.
        """
        thought, content, refusal = texts_of(message)
        fragments = numbered(message).get("tool_calls")
        if type(fragments) is not list or message.get("tool_calls") == delta.get("tool_calls"):
            fragments = []
        annotations = message.get("annotations")
        rest = {
            "reasoning_content": _after(self.reasoning, thought, delta),
            "content": _after(self.text, content, delta),
            "refusal": _after(self.refusal, refusal, delta),
            "annotations": annotations[self.cited :] if type(annotations) is list else None,
            "tool_calls": fragments if calls is None else calls.after(fragments),
        }
        if not self.reasoning:
            rest["reasoning_details"] = message.get("reasoning_details")
        if calls is None:
            rest["function_call"] = message.get("function_call")
        known = rest.keys() | {"role", *TEXT_FIELDS}
        others = {name: value for name, value in message.items() if name not in known}
        return {**others, **{name: value for name, value in rest.items() if value}}


def _after(received: list[str], whole: Any, delta: JsonObject) -> str:
    """The rest of a complete text after `received`. The complete text may be trimmed."""
    if type(whole) is not str or not whole or whole in delta.values():
        return ""
    before, text = mended("".join(received)), mended(whole)
    if text.startswith(before):
        return text[len(before) :]
    if text.strip() == before.strip():
        return ""
    raise UpstreamError.unreadable("a whole message is not what its deltas said")

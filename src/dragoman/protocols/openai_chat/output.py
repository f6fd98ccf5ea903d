"""The two outputs of an answer: the chunks of a stream, and one `chat.completion` object.

`stream_writer` decides what the client is shown and calls either in the same way. Chunks have what
the strictest client reads: one id, `created` and `model` in all of them; the role once; id, name
and type once per tool call, indexes without gaps; usage only when asked for, and then in a chunk of
its own; `[DONE]` last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from dragoman.canonical.usage import Usage
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.usage import write_usage
from dragoman.sse import DONE, encode, escape

CONTENT = ("content",)
REFUSAL = ("refusal",)
"""Members of a message that text goes into."""

_DONE = encode(DONE)
_ROLE = b'{"role":"assistant","content":"","refusal":null}'
_encode = msgspec.json.Encoder().encode


class Chunks(Struct, eq=False):
    """The answer as chunks. Byte strings around a delta's text are built once per block; no content
    is stored."""

    _asks_usage: bool
    _opening: bytes = b""
    """The members at the start of every chunk."""
    _head: bytes = b""
    _tail: bytes = b""
    """The bytes before and after the delta of a chunk."""
    _around: tuple[bytes, ...] = ()
    """The bytes before and after the text of a delta of the open block."""
    _names: Sequence[str] = CONTENT
    _calls: int = 0
    _first_tier: str | None = None

    def begin(self, identifier: str, model: str, created: int, tier: str | None) -> bytes:
        """The first chunk, with the role and the service tier known so far."""
        head: JsonObject = {
            "id": identifier,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        opening = self._opening = b"data: " + escape(to_json(head))[:-1]
        self._first_tier = tier
        self._head = opening + _tier_member(tier) + b',"choices":[{"index":0,"delta":'
        closing = b',"usage":null}\n\n' if self._asks_usage else b"}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}]' + closing
        return self._chunk(_ROLE)

    def _chunk(self, delta: bytes) -> bytes:
        return escape(self._head + delta + self._tail)

    def open(self, names: Sequence[str]) -> None:
        """Text that follows goes into the members `names` of the message."""
        first, *others = names
        self._names = (first,)
        self._around = (
            self._head + b'{"%b":' % first.encode(),
            *(b',"%b":' % name.encode() for name in others),
            b"}" + self._tail,
        )

    def open_call(self, call: JsonObject, kind: str, field: str) -> bytes:
        """A tool call of type `kind` begins; text that follows goes into its `field`."""
        index = self._calls
        self._calls += 1
        names = (index, kind.encode(), field.encode())
        before = self._head + b'{"tool_calls":[{"index":%d,"%b":{"%b":' % names
        self._around = (before, b"}}]}" + self._tail)
        return self._chunk(to_json({"tool_calls": [{"index": index, **call}]}))

    def text(self, text: str) -> bytes:
        """More text."""
        encoded = _encode(text)
        return (encoded if encoded.isascii() else escape(encoded)).join(self._around)

    def text_with_logprobs(self, text: str, records: tuple[Any, ...]) -> bytes:
        """More content or refusal, with the log probabilities of its tokens."""
        (name,) = self._names
        logprobs = to_json({"content": None, "refusal": None, name: records})
        tail = self._tail.replace(b'"logprobs":null', b'"logprobs":' + logprobs, 1)
        return escape(self._head + to_json({name: text}) + tail)

    def details(self, entry: JsonObject) -> bytes:
        """A `reasoning_details` entry."""
        return self._chunk(to_json({"reasoning_details": [entry]}))

    def finish(self, word: str, annotations: Sequence[JsonObject]) -> bytes:
        """The finish reason; before it all citations, once and in the last chunk with content:
        clients that accumulate cannot merge two."""
        cited = b""
        if annotations:
            cited = self._chunk(to_json({"content": "", "annotations": annotations}))
        tail = self._tail.replace(b'"finish_reason":null', b'"finish_reason":' + to_json(word), 1)
        return cited + self._head + b"{}" + tail

    def shows_tier(self, tier: str | None, usage: Usage | None, moderation: object) -> bool:
        """Whether the client has been sent the final service tier, or will be in the last chunk."""
        return tier == self._first_tier or self._has_last(usage, moderation)

    def _has_last(self, usage: Usage | None, moderation: object) -> bool:
        return moderation is not None or (self._asks_usage and usage is not None)

    def end(self, usage: Usage | None, tier: str | None, moderation: JsonObject | None) -> bytes:
        """The last chunk, if it has content, and the terminator. It is a single chunk: clients
        store the usage of the last one, even if it is null."""
        if not self._has_last(usage, moderation):
            return _DONE
        counts = write_usage(usage) if self._asks_usage and usage is not None else None
        last: JsonObject = {"choices": [], "usage": counts}
        if moderation is not None:
            last["moderation"] = _write_moderation(moderation)
        return (
            self._opening + _tier_member(tier) + b"," + escape(to_json(last))[1:] + b"\n\n" + _DONE
        )

    def completion(self) -> JsonObject:
        """Raises RuntimeError: a streamed answer is not stored."""
        raise RuntimeError("a streamed answer is not kept")


class Whole(Struct, eq=False):
    """The answer as one `chat.completion` object. Its methods return no bytes."""

    _metadata: Mapping[str, Any] | None
    _body: JsonObject = {}
    _message: JsonObject = field(
        default_factory=lambda: {"role": "assistant", "content": None, "refusal": None}
    )
    _names: Sequence[str] = CONTENT
    _pieces: list[str] = []
    """Where text goes."""
    _texts: dict[Sequence[str], list[str]] = {}
    """The texts of the message, by the members that they go into."""
    _logprobs: dict[str, list[Any]] = {}
    _calls: list[tuple[JsonObject, str, str, list[str]]] = []
    """Each tool call, its type, and the field of it that its text goes into."""
    _details: list[JsonObject] = []

    def begin(self, identifier: str, model: str, created: int, tier: str | None) -> bytes:
        """The service tier waits for the end."""
        self._body = {
            "id": identifier,
            "object": "chat.completion",
            "created": created,
            "model": model,
            "choices": [],
        }
        return b""

    def open(self, names: Sequence[str]) -> None:
        """Text that follows goes into the members `names` of the message."""
        self._names = names
        self._pieces = self._texts.setdefault(names, [])

    def open_call(self, call: JsonObject, kind: str, field: str) -> bytes:
        """A tool call of type `kind` begins; text that follows goes into its `field`."""
        self._pieces = []
        self._calls.append((call, kind, field, self._pieces))
        return b""

    def text(self, text: str) -> bytes:
        """More text."""
        self._pieces.append(text)
        return b""

    def text_with_logprobs(self, text: str, records: tuple[Any, ...]) -> bytes:
        """More content or refusal, with the log probabilities of its tokens."""
        self._pieces.append(text)
        self._logprobs.setdefault(self._names[0], []).extend(records)
        return b""

    def details(self, entry: JsonObject) -> bytes:
        """A `reasoning_details` entry."""
        self._details.append(entry)
        return b""

    def finish(self, word: str, annotations: Sequence[JsonObject]) -> bytes:
        """Put the message together."""
        message, calls = self._message, self._calls
        for names, pieces in self._texts.items():
            text = "".join(pieces)
            for name in names:
                if text or name == "content":
                    message[name] = text
        if message["content"] is None and not calls and message["refusal"] is None:
            message["content"] = ""
        if self._details:
            message["reasoning_details"] = self._details
        if annotations:
            message["annotations"] = annotations
        if calls:
            for call, kind, field, pieces in calls:
                call[kind][field] = "".join(pieces)
            message["tool_calls"] = [call[0] for call in calls]
        logprobs = {"content": None, "refusal": None, **self._logprobs} if self._logprobs else None
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": word}
        self._body["choices"] = [choice]
        return b""

    def shows_tier(self, tier: str | None, usage: Usage | None, moderation: object) -> bool:
        """Always."""
        return True

    def end(self, usage: Usage | None, tier: str | None, moderation: JsonObject | None) -> bytes:
        """Add what is known only at the end."""
        body = self._body
        body["usage"] = None if usage is None else write_usage(usage)
        if tier is not None:
            body["service_tier"] = tier
        if self._metadata:
            body["metadata"] = self._metadata
        if moderation is not None:
            body["moderation"] = _write_moderation(moderation)
        return b""

    def completion(self) -> JsonObject:
        """The completion."""
        return self._body


Output: TypeAlias = Chunks | Whole


def _tier_member(tier: str | None) -> bytes:
    return b"" if tier is None else b',"service_tier":' + to_json(tier)


def _write_moderation(found: JsonObject) -> JsonObject:
    """The moderation results: Chat has a list where other protocols have one."""
    return {side: _moderated(result) for side, result in found.items()}


def _moderated(result: JsonObject) -> JsonObject:
    if result.get("type") != "moderation_result":
        return result
    return {"type": "moderation_results", "model": result.get("model"), "results": [result]}

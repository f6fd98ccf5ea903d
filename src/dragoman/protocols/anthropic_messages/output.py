"""The two outputs of an answer: the frames of a stream, and one `message` object.

`stream_writer` decides what the client is shown and calls either in the same way. The official SDKs
require a name on every event, one open block at a time, indexes without gaps, no text inside
content_block_start, full usage in message_start and message_delta."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from dragoman import jsontext
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages.usage import write_usage
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.partial_json import read_cut_object
from dragoman.sse import encode, escape

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_DELTA = b"event: content_block_delta\ndata: "
_END = b"}}\n\n"
_encode = msgspec.json.Encoder().encode


class Streamed(NamedTuple):
    """How the text of a block streams: the type of its deltas, their member for the text, and the
    block's own member for it."""

    delta: bytes
    member: bytes
    field: str


TEXT = Streamed(b"text_delta", b"text", "text")
THINKING = Streamed(b"thinking_delta", b"thinking", "thinking")
INPUT = Streamed(b"input_json_delta", b"partial_json", "input")


def _event(name: str, members: JsonObject) -> bytes:
    return encode(to_json({"type": name, **members}), name.encode())


def delta_head(index: int, streamed: Streamed) -> bytes:
    """A delta up to its text."""
    place = index, streamed.delta, streamed.member
    return b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":' % place


class Frames(Struct, eq=False):
    """The answer as frames. None of its content is stored."""

    live: bool = False
    """Whether a block is started and not yet stopped."""
    _index: int = -1
    _head: bytes = b""
    """A delta of the live block up to its text."""
    _tier: str | None = None

    def begin(self, message: JsonObject, usage: Usage | None, tier: str | None) -> bytes:
        """The start of the message, with the usage and the service tier known so far."""
        self._tier = tier
        message["usage"] = write_usage(usage, tier)
        return _event("message_start", {"message": message}) + PING

    def shows_tier(self, tier: str) -> bool:
        """Whether the client has been sent the final service tier: only message_start has it."""
        return tier == self._tier

    def start(self, block: JsonObject, streamed: Streamed | None = None) -> bytes:
        """Start a block, after stopping the one before."""
        stopped = self.stop()
        self._index += 1
        self.live = True
        if streamed is not None:
            self._head = _DELTA + delta_head(self._index, streamed)
        start = {"index": self._index, "content_block": block}
        return stopped + _event("content_block_start", start)

    def resume(self, index: int, streamed: Streamed | None, *, live: bool) -> None:
        """Continue after the client was shown blocks up to `index`; the last one is still open if
        `live`."""
        self._index, self.live = index, live
        if streamed is not None:
            self._head = _DELTA + delta_head(index, streamed)

    def text(self, text: str) -> bytes:
        """More text of the live block."""
        encoded = _encode(text)
        return self._head + (encoded if encoded.isascii() else escape(encoded)) + _END

    def cite(self, citation: JsonObject) -> bytes:
        """A citation of the live text block."""
        return self._delta({"type": "citations_delta", "citation": citation})

    def sign(self, signature: str) -> bytes:
        """The signature of the live thinking block."""
        return self._delta({"type": "signature_delta", "signature": signature})

    def _delta(self, delta: JsonObject) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def stop(self, *, cut: bool = False) -> bytes:
        """Stop the live block, if there is one; `cut`: its input is incomplete."""
        if not self.live:
            return b""
        self.live = False
        return _event("content_block_stop", {"index": self._index})

    def end(self, stop: JsonObject, usage: Usage | None, tier: str | None) -> bytes:
        """End the message; `stop` are the members of its stop reason."""
        ending = {"delta": stop, "usage": write_usage(usage)}
        return self.stop() + _event("message_delta", ending) + _MESSAGE_STOP

    def message(self) -> JsonObject:
        """Raises RuntimeError: a streamed answer is not stored."""
        raise RuntimeError("a streamed answer is not kept")


class Whole(Struct, eq=False):
    """The answer as one `message` object. Its methods return no bytes."""

    live: bool = False
    _message: JsonObject = {}
    _block: JsonObject = {}
    """The block that was started last."""
    _streamed: Streamed | None = None
    _pieces: list[str] = []
    """Its text."""

    def begin(self, message: JsonObject, usage: Usage | None, tier: str | None) -> bytes:
        """The message, whose usage and tier wait for the end."""
        self._message = message
        return b""

    def shows_tier(self, tier: str) -> bool:
        """Always."""
        return True

    def start(self, block: JsonObject, streamed: Streamed | None = None) -> bytes:
        """Start a block, after stopping the one before."""
        if self.live:
            self.stop()
        self._message["content"].append(block)
        self._block, self._streamed, self.live = block, streamed, True
        return b""

    def text(self, text: str) -> bytes:
        """More text of the live block."""
        self._pieces.append(text)
        return b""

    def cite(self, citation: JsonObject) -> bytes:
        """A citation of the live text block."""
        self._block.setdefault("citations", []).append(citation)
        return b""

    def sign(self, signature: str) -> bytes:
        """The signature of the live thinking block."""
        self._block["signature"] = signature
        return b""

    def stop(self, *, cut: bool = False) -> bytes:
        """Stop the live block, if there is one; of a `cut` input the readable part stays."""
        if self._pieces:
            assert self._streamed is not None
            text = "".join(self._pieces)
            self._pieces.clear()
            if self._streamed is not INPUT:
                self._block[self._streamed.field] = text
            else:
                self._block["input"] = read_cut_object(text) if cut else jsontext.decode(text)
        self.live = False
        return b""

    def end(self, stop: JsonObject, usage: Usage | None, tier: str | None) -> bytes:
        """End the message; `stop` are the members of its stop reason."""
        if self.live:
            self.stop()
        self._message.update(stop)
        self._message["usage"] = write_usage(usage, tier)
        return b""

    def message(self) -> JsonObject:
        """The message."""
        return self._message


Output: TypeAlias = Frames | Whole

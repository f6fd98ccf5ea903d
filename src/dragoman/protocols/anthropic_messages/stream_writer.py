"""Writes a client's stream of events.

What the official SDKs need of it: a name on every event, one open block at a time, dense
indexes, text never inside content_block_start, exactly one signature per thinking block, full
usage in message_start and message_delta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Block,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.grammar import State, step
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.tools import wrap_custom
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages.errors import error_event
from dragoman.protocols.anthropic_messages.outcome import write_finish, write_usage
from dragoman.protocols.anthropic_messages.visibility import (
    Reporter,
    Visibility,
    is_redacted,
    own_citation,
    signature_of,
    tool_use_head,
)
from dragoman.protocols.base import Reply, to_json, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.sse import encode, escape

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_END = b"}}\n\n"
_STOPPED = Finish(FinishReason.STOP)
_encode = msgspec.json.Encoder().encode


def _event(name: str, members: JsonObject) -> bytes:
    return encode(to_json({"type": name, **members}), name.encode())


class _Wire:
    """The blocks as the client sees them: one at a time, numbered without gaps."""

    __slots__ = ("head", "index", "live")

    def __init__(self) -> None:
        self.index = -1
        self.live = False
        self.head = b""
        """A delta of the live block up to its text."""

    def start(self, block: JsonObject, delta: bytes = b"", member: bytes = b"") -> bytes:
        """Start a block, after stopping the one before. Its text goes into `member` of deltas
        of type `delta`."""
        written = self.stop()
        self.index += 1
        self.live = True
        self.head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":' % (self.index, delta, member)
        )
        start = {"index": self.index, "content_block": block}
        return written + _event("content_block_start", start)

    def text(self, text: str) -> bytes:
        """More text of the live block."""
        return self.head + escape(_encode(text)) + _END

    def delta(self, delta: JsonObject) -> bytes:
        """A delta of the live block that is not text."""
        return _event("content_block_delta", {"index": self.index, "delta": delta})

    def stop(self) -> bytes:
        """Stop the live block, if there is one."""
        if not self.live:
            return b""
        self.live = False
        return _event("content_block_stop", {"index": self.index})


class _Hidden:
    """A block the client is not shown; what the shown kinds have in common."""

    __slots__ = ("opaque", "wire")

    def __init__(self, wire: _Wire) -> None:
        self.wire = wire
        self.opaque: Opaque | None = None

    def open(self) -> bytes:
        return b""

    def delta(self, text: str) -> bytes:
        return b""

    def part_break(self) -> bytes:
        return b""

    def cite(self, citation: JsonObject) -> bytes:
        return b""

    def close(self) -> bytes:
        return b""


class _TextBlock(_Hidden):
    """Visible text. Started by its first text, for an empty block could not be sent back."""

    __slots__ = ("_single",)

    def __init__(self, wire: _Wire, single: bool) -> None:
        super().__init__(wire)
        self._single = single

    def delta(self, text: str) -> bytes:
        if not text:
            return b""
        wire = self.wire
        if wire.live:
            return wire.head + escape(_encode(text)) + _END
        return self._start() + wire.text(text)

    def cite(self, citation: JsonObject) -> bytes:
        written = b"" if self.wire.live else self._start()
        return written + self.wire.delta({"type": "citations_delta", "citation": citation})

    def close(self) -> bytes:
        # A single text block stays open, for more text may follow: whatever starts next stops it.
        return b"" if self._single else self.wire.stop()

    def _start(self) -> bytes:
        return self.wire.start({"type": "text", "text": ""}, b"text_delta", b"text")


class _RefusalBlock(_TextBlock):
    """The words of a refusal: text, and once more at the end. Beside a JSON answer only there,
    because clients would parse the text."""

    __slots__ = ("_words",)

    def __init__(self, wire: _Wire, single: bool, words: list[str]) -> None:
        super().__init__(wire, single)
        self._words = words

    def delta(self, text: str) -> bytes:
        self._words.append(text)
        return b"" if self._single else super().delta(text)

    def close(self) -> bytes:
        return b"" if self._single else super().close()


class _ThinkingBlock(_Hidden):
    """Reasoning, signed at its end with the upstream's state."""

    __slots__ = ("_head", "_parts", "_pieces", "_sealer", "_shown", "_started")

    def __init__(self, wire: _Wire, head: Reasoning, shown: bool, sealer: Sealer) -> None:
        super().__init__(wire)
        self._head = head
        self._shown = shown and not head.redacted
        self._sealer = sealer
        self._parts: list[str] = []
        self._pieces: list[str] = []
        self._started = False

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        if not self._shown or not text:
            return b""
        return self._start() + self.wire.text(text)

    def part_break(self) -> bytes:
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return self.wire.text("\n\n") if self._started else b""

    def close(self) -> bytes:
        last = "".join(self._pieces)
        parts = (*self._parts, last) if last or self._parts else ()
        block = replace(self._head, parts=parts, opaque=self.opaque or self._head.opaque)
        if block.opaque is not None and is_redacted(block):
            data = {"type": "redacted_thinking", "data": block.opaque.data}
            return self.wire.start(data) + self.wire.stop()
        if block.opaque is None and not block.text:
            return b""
        written = self._start()
        signature = signature_of(block, self._sealer)
        written += self.wire.delta({"type": "signature_delta", "signature": signature})
        return written + self.wire.stop()

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        block = {"type": "thinking", "thinking": "", "signature": ""}
        return self.wire.start(block, b"thinking_delta", b"thinking")


class _ToolBlock(_Hidden):
    """A tool call whose arguments stream."""

    __slots__ = ("_head",)

    def __init__(self, wire: _Wire, head: ToolCall) -> None:
        super().__init__(wire)
        self._head = head

    def open(self) -> bytes:
        block = tool_use_head(self._head)
        return self.wire.start(block, b"input_json_delta", b"partial_json")

    def delta(self, text: str) -> bytes:
        return self.wire.head + escape(_encode(text)) + _END if text else b""

    def close(self) -> bytes:
        return self.wire.stop()


class _CustomBlock(_ToolBlock):
    """A call with free text, which becomes the one argument of a function."""

    __slots__ = ("_pieces",)

    def __init__(self, wire: _Wire, head: ToolCall) -> None:
        super().__init__(wire, head)
        self._pieces: list[str] = []

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        return b""

    def close(self) -> bytes:
        arguments = to_json_text(wrap_custom("".join(self._pieces)))
        return self.wire.text(arguments) + self.wire.stop()


class MessagesWriter:
    """Turns canonical events into the client's bytes; see `base.StreamWriter`."""

    __slots__ = (
        "_block",
        "_calls",
        "_finish",
        "_id",
        "_model",
        "_refusal",
        "_report",
        "_sealer",
        "_state",
        "_tier",
        "_usage",
        "_visibility",
        "_wire",
    )

    def __init__(self, reply: Reply) -> None:
        # Not the reply: it holds the client's whole request, and a stream may be long.
        self._id, self._model, self._sealer = reply.id, reply.model, reply.sealer
        self._report = Reporter(reply.ledger)
        self._visibility = Visibility.of(reply)
        self._state = State.NEW
        self._tier: str | None = None
        self._wire = _Wire()
        self._block = _Hidden(self._wire)
        self._calls = False
        self._refusal: list[str] | None = None
        self._finish = _STOPPED
        self._usage: Usage | None = None

    def write(self, event: Event) -> bytes:
        """The frames of one event, possibly none."""
        self._state = step(self._state, event)
        if type(event) is Delta:
            if event.logprobs is not None:
                self._report.logprobs()
            return self._block.delta(event.text)
        return _WRITERS[type(event)](self, event)

    def answer(self) -> JsonObject:
        """Not kept: the answer is streamed."""
        raise NotImplementedError

    def keepalive(self) -> bytes:
        """The protocol's own `ping`."""
        return PING

    def _write_started(self, event: Started) -> bytes:
        self._usage, self._tier = event.usage, event.service_tier
        usage = write_usage(event.usage, event.service_tier)
        self._report.tier(event.service_tier, "service_tier" in usage)
        message: JsonObject = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event("message_start", {"message": message}) + PING

    def _write_opened(self, event: Opened) -> bytes:
        self._block = self._shown(event.block)
        return self._block.open()

    def _shown(self, head: Block) -> _Hidden:
        """How the client is shown a block."""
        wire, visibility = self._wire, self._visibility
        match head:
            case Text() if visibility.leaves_out(head):
                self._report.remark()
            case Text():
                return _TextBlock(wire, visibility.single_text)
            case Refusal():
                self._refusal = self._refusal or []
                return _RefusalBlock(wire, visibility.single_text, self._refusal)
            case Reasoning() if visibility.reasoning:
                return _ThinkingBlock(wire, head, visibility.reasoning_text, self._sealer)
            case Reasoning():
                self._report.reasoning()
            case ToolCall():
                self._calls = True
                self._report.call(head)
                return _CustomBlock(wire, head) if head.custom else _ToolBlock(wire, head)
            case _:
                self._report.block(head)
        return _Hidden(wire)

    def _write_part_break(self, event: PartBreak) -> bytes:
        return self._block.part_break()

    def _write_annotated(self, event: Annotated) -> bytes:
        citation = own_citation(event.annotation)
        if citation is not None:
            return self._block.cite(citation)
        self._report.citation()
        return b""

    def _write_sealed(self, event: Sealed) -> bytes:
        self._block.opaque = event.opaque
        return b""

    def _write_closed(self, event: Closed) -> bytes:
        return self._block.close()

    def _write_finished(self, event: Finished) -> bytes:
        self._finish = event.finish
        return b""

    def _write_metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        # Only the start can tell the tier.
        self._report.tier(event.service_tier, event.service_tier == self._tier)
        return b""

    def _write_ended(self, event: Ended) -> bytes:
        self._report.moderation(event.moderation)
        refusal = None if self._refusal is None else "".join(self._refusal)
        stop = write_finish(self._finish, self._calls, refusal)
        ending = {"delta": stop.fields(), "usage": write_usage(self._usage)}
        return self._wire.stop() + _event("message_delta", ending) + _MESSAGE_STOP

    def _write_failed(self, event: Failed) -> bytes:
        return error_event(event.fault)


_WRITERS: dict[type, Callable[[MessagesWriter, Any], bytes]] = {
    Started: MessagesWriter._write_started,
    Opened: MessagesWriter._write_opened,
    PartBreak: MessagesWriter._write_part_break,
    Annotated: MessagesWriter._write_annotated,
    Sealed: MessagesWriter._write_sealed,
    Closed: MessagesWriter._write_closed,
    Finished: MessagesWriter._write_finished,
    Metered: MessagesWriter._write_metered,
    Ended: MessagesWriter._write_ended,
    Failed: MessagesWriter._write_failed,
}

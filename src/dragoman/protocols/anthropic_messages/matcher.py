"""Matches answers that are passed through with what Messages allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from dragoman import jsontext
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import is_foreign_reason
from dragoman.protocols.anthropic_messages.loose import as_known, is_hosted
from dragoman.protocols.anthropic_messages.stream_writer import MessagesWriter
from dragoman.protocols.anthropic_messages.usage import merge_usage, read_usage
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.error_body import is_readable, is_typed, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.matching import (
    Arguments,
    Likeness,
    Read,
    Run,
    Watch,
    blank_after,
    is_object,
)
from dragoman.sse import Frame, encode

# --- shapes -------------------------------------------------------------------------------------
#
# A member declared as None has content with some servers: then the stream reader takes over.
# Undeclared members pass.


class Message(Struct):
    """An answer, whole or as it begins."""

    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    id: str | None = None
    model: str | None = None
    content: list[Any] | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: None = None
    text: None = None
    message: None = None


class MessageStart(Struct):
    """A `message_start` event."""

    type: Literal["message_start"]
    message: Message
    error: None = None


class BlockStart(Struct):
    """A `content_block_start` event."""

    type: Literal["content_block_start"]
    index: int
    content_block: dict[str, Any]
    error: None = None


class Piece(Struct):
    """The delta of a block."""

    type: str
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: Any = None


class BlockDelta(Struct):
    """A `content_block_delta` event."""

    type: Literal["content_block_delta"]
    index: int
    delta: Piece


class BlockStop(Struct, forbid_unknown_fields=True):
    """A `content_block_stop` event: nothing else is in it."""

    type: Literal["content_block_stop"]
    index: int


class End(Struct):
    """How an answer ended."""

    stop_reason: str | None = None
    type: None = None
    content: None = None
    text: None = None
    thinking: None = None
    reasoning: None = None
    reasoning_content: None = None
    partial_json: None = None


class MessageDelta(Struct):
    """A `message_delta` event."""

    type: Literal["message_delta"]
    delta: End
    usage: dict[str, Any] | None = None
    error: None = None


class MessageStop(Struct):
    """A `message_stop` event."""

    type: Literal["message_stop"]
    message: None = None
    error: None = None


class Other(Struct):
    """Any other event."""

    type: str = ""


_message = decoder(Message)
_message_start = decoder(MessageStart)
_block_start = decoder(BlockStart)
_block_delta = decoder(BlockDelta)
_block_stop = decoder(BlockStop)
_message_delta = decoder(MessageDelta)
_message_stop = decoder(MessageStop)
_other = decoder(Other)

_TEXT, _THINKING, _TOOL = "text", "thinking", "tool_use"
_PIECES = {
    _TEXT: ("text_delta", "text"),
    _THINKING: ("thinking_delta", "thinking"),
    _TOOL: ("input_json_delta", "partial_json"),
}
"""The delta types for a block's text, and their members for it."""

_OTHER_DELTAS = {_TEXT: "citations_delta", _THINKING: "signature_delta"}
"""The other delta types of a block."""

# --- blocks -------------------------------------------------------------------------------------


def _is_exact(block: JsonObject) -> bool:
    """Whether a block is valid in the protocol, with the members that readers need; one of an
    unknown type with no readable content may be new in it."""
    kind = block.get("type")
    if kind in (_TEXT, _THINKING):
        return isinstance(block.get(kind), str)
    if kind == _TOOL:
        named = _word(block, "id") and _word(block, "name")
        return bool(named) and type(block.get("input")) is dict
    if kind == "redacted_thinking":
        return isinstance(block.get("data"), str)
    return isinstance(kind, str) and (is_hosted(kind) or as_known(block) is block)


def _is_empty(block: JsonObject) -> bool:
    """Whether a block is empty, as its start is: its content comes in pieces."""
    kind = block.get("type")
    return not block.get("input" if kind == _TOOL else str(kind))


def _word(value: JsonObject, name: str) -> str:
    word = value.get(name)
    return word if type(word) is str else ""


class Block(Struct, eq=False):
    """A block received so far: its start, its text, and other deltas."""

    index: int
    start: JsonObject
    run: Run | None
    others: list[Frame] = []
    is_over: bool = False

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.start.get("type"))

    def is_whole(self) -> bool:
        """Whether its input, if it has one, is an object or none at all."""
        if self.kind != _TOOL or self.run is None:
            return True
        return not self.run.text or is_object(self.run.value())

    def frames(self) -> Iterator[Frame]:
        """Equivalent events."""
        place = {"index": self.index}
        yield _event("content_block_start", **place, content_block=self.start)
        if self.run is not None and self.run.text:
            yield self.run.frame(b"content_block_delta")
        yield from self.others
        if self.is_over:
            yield _event("content_block_stop", **place)


def _event(kind: str, **members: Any) -> Frame:
    return Frame(kind.encode(), to_json({"type": kind, **members}), b"")


def _run(index: int, kind: str) -> Run:
    delta, member = _PIECES[kind]
    names = (index, delta.encode(), member.encode())
    head = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"' % names
    return Arguments(head, b'"}}') if kind == _TOOL else Run(head, b'"}}')


# --- streams ------------------------------------------------------------------------------------


class MessagesMatcher(Watch):
    """The Messages matcher; see `base.Matcher`. Only the model name changes in exact events."""

    __slots__ = ("_blocks", "_end", "_id", "_ids", "_likeness", "_model", "_start", "_usage")

    def __init__(
        self,
        model: str | None,
        include_usage: bool = True,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
    ) -> None:
        super().__init__()
        self._model = model
        self._start: bytes = b""
        """The message start as received, before replacements."""
        self._blocks: list[Block] = []
        self._ids: set[str] = set()
        """Ids of the calls."""
        self._usage: JsonObject = {}
        self._end: list[Frame] = []
        """The events with the stop reason and usage."""
        self._likeness = Likeness()
        self._id = ""

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the event is not exact."""
        data, name = frame.data, frame.event
        if name == b"content_block_delta" and self._blocks:
            text = self._likeness.text_in(data)
            if text is not None and self.undo is None:
                self._grow(self._blocks[-1], text)
                return frame.raw
        if not name:
            # Clients ignore events without a name.
            try:
                name = _other(data).type.encode()
            except JsonError:
                return None if data.strip() else b""
            frame = Frame(name, data, b"event: %b\n%b" % (name, frame.raw))
        take = _EVENTS.get(name)
        if self.undo is not None and take is not MessagesMatcher._grow_block and self._is_torn:
            return None
        try:
            return self._unknown_event(frame) if take is None else take(self, frame)
        except JsonError:
            return None

    def _begin(self, frame: Frame) -> bytes | None:
        message = _message_start(frame.data).message
        if self._start or message.content or message.stop_reason is not None:
            return None
        self._start, self._id = frame.data, message.id or ""
        self._count(message.usage)
        if self._model is None or message.model == self._model:
            return frame.raw
        event = jsontext.members(frame.data)
        inner = jsontext.members(event["message"])
        shown: JsonObject = {**event, "message": {**inner, "model": self._model}}
        return encode(to_json(shown), frame.event)

    def _begin_block(self, frame: Frame) -> bytes | None:
        event = _block_start(frame.data)
        block, index = event.content_block, event.index
        if not self._start or self._end or index != len(self._blocks) or self._is_open:
            return None
        if not _is_exact(block):
            return None
        if not _is_empty(block):
            self.begun = True  # the reader holds its text back: pieces may repeat it
            return None
        kind, call_id = block["type"], _word(block, "id")
        if kind == _TOOL:
            if call_id in self._ids:
                return None
            self._ids.add(call_id)
        self._blocks.append(Block(index, block, _run(index, kind) if kind in _PIECES else None))
        self.begun = self.begun or kind not in (_TEXT, _THINKING)
        self._likeness.forget()
        return frame.raw

    @property
    def _is_torn(self) -> bool:
        """Whether the input of the last block ends within an escape."""
        run = self._blocks[-1].run
        return isinstance(run, Arguments) and bool(run.open)

    @property
    def _is_open(self) -> bool:
        return bool(self._blocks) and not self._blocks[-1].is_over

    def _grow_block(self, frame: Frame) -> bytes | None:
        data = frame.data
        event = _block_delta(data)
        if not self._is_open or event.index != len(self._blocks) - 1:
            return None
        block, delta = self._blocks[-1], event.delta
        if block.run is None:
            # Only the client reads such a block.
            is_foreign = block.kind not in wire.BLOCK_FIELDS
            is_read = self._is_readable(delta) and not is_hosted(block.kind)
            return frame.raw if is_foreign and not is_read else None
        kind, member = _PIECES[block.kind]
        if delta.type != kind:
            if delta.type != _OTHER_DELTAS.get(block.kind):
                return None if self._is_readable(delta) else frame.raw
            block.others.append(Frame(frame.event, data, b""))
            self.begun = True
            return frame.raw
        text: str | None = getattr(delta, member)
        if text is None:
            return None
        if isinstance(block.run, Arguments):
            if not block.run.allows(text, is_undoable=self.undo is not None):
                return None
            self.undo = block.run.grow(text)
            self._watch(block, text)
        else:
            self._grow(block, to_json(text)[1:-1])
        if text and self.undo is None:
            self._likeness.learn(data, member.encode(), text)
        return frame.raw

    def _is_readable(self, delta: Piece) -> bool:
        """Whether a reader finds content in a delta of another type."""
        return delta.type in wire.DELTA_FIELDS or any(
            (delta.text, delta.thinking, delta.partial_json, delta.signature)
        )

    def _grow(self, block: Block, text: bytes) -> None:
        assert block.run is not None
        block.run.text += text
        self._watch(block, text)

    def _watch(self, block: Block, text: str | bytes) -> None:
        self.text_bytes += len(text)
        self.begun = self.begun or bool(text)
        if block.kind == _TOOL:
            self.blank = blank_after(self.blank, text)

    def _end_block(self, frame: Frame) -> bytes | None:
        if not self._is_open or _block_stop(frame.data).index != len(self._blocks) - 1:
            return None
        self._blocks[-1].is_over = True
        self.blank = 0
        self._likeness.forget()
        return frame.raw

    def _end_message(self, frame: Frame) -> bytes | None:
        event = _message_delta(frame.data)
        reason = event.delta.stop_reason
        if not self._start or self._is_open:
            return None
        if reason is not None:
            if not reason or reason == "null" or is_foreign_reason(reason):
                return None
            if reason != "max_tokens" and not all(block.is_whole() for block in self._blocks):
                return None
            self.reason = reason
        self._end.append(Frame(frame.event, frame.data, b""))
        self._count(event.usage)
        return frame.raw

    def _stop(self, frame: Frame) -> bytes | None:
        _message_stop(frame.data)
        if not self.reason or self._is_open:
            return None
        self.ended = True
        return frame.raw

    def _ping(self, frame: Frame) -> bytes | None:
        return frame.raw if _other(frame.data).type in ("ping", "") else None

    def _error(self, frame: Frame) -> bytes | None:
        event = jsontext.object_of(frame.data) or {}
        error = stray_error(event)
        is_own = event.get("type") == "error" and error is event.get("error")
        if not is_own or not is_readable(error):
            return None
        self.fault = fault_of(error)
        return frame.raw

    def _unknown_event(self, frame: Frame) -> bytes | None:
        """An event of unknown type: new in the protocol, unless it reports an error."""
        event = jsontext.object_of(frame.data)
        name = frame.event.decode(errors="replace")
        is_new = event is not None and event.get("type") == name and not event.get("error")
        return frame.raw if is_new and is_typed(name) else None

    def _count(self, usage: JsonObject | None) -> None:
        if usage:
            merge_usage(self._usage, usage)
            self.usage = read_usage(self._usage)

    def finish(self) -> bytes | None:
        """Handle the end of the bytes before the end of the message."""
        return None

    def hand_over(self, read: Read, writer: AnswerWriter) -> None:
        """Feed the passed events to the reader, and the index of the last block to the writer."""
        if self.undo is not None:
            self.undo()
        if self._start:
            read(Frame(b"message_start", self._start, b""))
        for block in self._blocks:
            for frame in block.frames():
                read(frame)
        for frame in self._end:
            read(frame)
        if self._blocks:
            assert isinstance(writer, MessagesWriter)
            kind = self._blocks[-1].kind if self._is_open else None
            writer.resume(len(self._blocks) - 1, kind)


_EVENTS = {
    b"message_start": MessagesMatcher._begin,
    b"content_block_start": MessagesMatcher._begin_block,
    b"content_block_delta": MessagesMatcher._grow_block,
    b"content_block_stop": MessagesMatcher._end_block,
    b"message_delta": MessagesMatcher._end_message,
    b"message_stop": MessagesMatcher._stop,
    b"ping": MessagesMatcher._ping,
    b"error": MessagesMatcher._error,
}

# --- whole answers ------------------------------------------------------------------------------


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`."""
    try:
        answer = _message(body)
    except JsonError:
        return None
    content, reason = answer.content, answer.stop_reason
    if content is None or not reason or reason == "null" or is_foreign_reason(reason):
        return None
    blocks = [block for block in content if isinstance(block, dict)]
    calls = [block for block in blocks if block.get("type") == _TOOL]
    if len(blocks) < len(content) or not all(map(_is_exact, blocks)):
        return None
    if len({block["id"] for block in calls}) < len(calls):
        return None
    usage = read_usage(answer.usage) if answer.usage else None
    text_bytes = 0 if usage and usage.output else sum(map(_text_bytes, blocks))
    if answer.model != model:
        body = to_json({**jsontext.members(body), "model": model})
    return Passed(body, usage, reason, text_bytes)


def _text_bytes(block: JsonObject) -> int:
    """The bytes of text in a block."""
    if block.get("type") == _TOOL:
        return len(to_json(block["input"])) + len(block["name"])
    return len((_word(block, "text") + _word(block, "thinking")).encode())

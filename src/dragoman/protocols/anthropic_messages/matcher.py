"""Matches answers that are passed through with what Messages allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from dragoman import jsontext
from dragoman.canonical.requests import Extra
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import is_foreign_reason
from dragoman.protocols.anthropic_messages.loose import as_known, is_hosted
from dragoman.protocols.anthropic_messages.output import INPUT, TEXT, THINKING, Streamed, delta_head
from dragoman.protocols.anthropic_messages.shapes import (
    ANSWER,
    EVENT,
    AnswerBlock,
    AnswerCall,
    AnswerRedacted,
    AnswerText,
    AnswerThinking,
    BlockDelta,
    BlockStart,
    BlockStop,
    CitationsDelta,
    InputDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Other,
    Piece,
    Ping,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from dragoman.protocols.anthropic_messages.stream_writer import MessagesWriter
from dragoman.protocols.anthropic_messages.usage import merge_usage, read_usage
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.error_body import is_readable, is_typed, stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.matching import (
    Arguments,
    Read,
    Run,
    Watch,
    blank_after,
    is_object,
    renamed,
)
from dragoman.protocols.reading import Reader
from dragoman.sse import Frame, encode

T = TypeVar("T")

_READ = SPEAKING | {"error", "partial_json", "type"}
"""Names of members that the reader finds content in. Other unknown members pass."""

_STREAMED: dict[type, Streamed] = {AnswerText: TEXT, AnswerThinking: THINKING, AnswerCall: INPUT}
_PIECES: dict[type, tuple[type, type | None]] = {
    AnswerText: (TextDelta, CitationsDelta),
    AnswerThinking: (ThinkingDelta, SignatureDelta),
    AnswerCall: (InputDelta, None),
}
"""The pieces of a block's text, and its other ones."""

# --- blocks -------------------------------------------------------------------------------------


def _exact(reader: Reader[T], data: bytes) -> T | None:
    """What `data` is exactly, but for unknown members without content; None of anything else."""
    extras: list[Extra] = []
    found = reader.exact(data, extras)
    is_read = extras and any(_is_read(found, extra.path) for extra in extras)
    return None if is_read else found


def _is_read(found: object, path: str) -> bool:
    """Whether the reader finds content in an unknown member of an answer or event."""
    if isinstance(found, BlockDelta | BlockStop):
        return isinstance(found, BlockStop)
    return path.removeprefix("message.").removeprefix("delta.") in _READ


def _is_exact(block: AnswerBlock | str) -> bool:
    """Whether a block is valid in the protocol, with the members that readers need; one of an
    unknown type with no readable content may be new in it."""
    if isinstance(block, AnswerText | AnswerThinking):
        return block.text is not None
    if isinstance(block, AnswerCall):
        return bool(block.id and block.name) and type(block.input) is dict
    if isinstance(block, AnswerRedacted):
        return block.data is not None
    if isinstance(block, str) or not block.kind:
        return False
    return is_hosted(block.kind) or as_known(block, []) is block


def _is_empty(block: AnswerBlock) -> bool:
    """Whether a block is empty, as its start is: its content comes in pieces."""
    if isinstance(block, Other):
        return not block.value.get(block.kind)
    return not (block.input if isinstance(block, AnswerCall) else getattr(block, "text", None))


def _is_readable(piece: Piece) -> bool:
    """Whether a reader finds content in a piece that is not of its block's type."""
    if not isinstance(piece, Other) or not piece.kind:
        return True
    return any(piece.value.get(name) for name in ("text", "thinking", "partial_json", "signature"))


class Block(Struct, eq=False):
    """A block received so far: its start, its text, and other pieces."""

    index: int
    start: bytes
    kind: type
    run: Run | None
    is_hosted: bool = False
    others: list[Frame] = []
    is_over: bool = False

    def is_whole(self) -> bool:
        """Whether its input, if it has one, is an object or none at all."""
        if not isinstance(self.run, Arguments):
            return True
        return not self.run.text or is_object(self.run.value())

    def frames(self) -> Iterator[Frame]:
        """Equivalent events."""
        yield Frame(b"content_block_start", self.start)
        if self.run is not None and self.run.text:
            yield self.run.frame(b"content_block_delta")
        yield from self.others
        if self.is_over:
            stop = b'{"type":"content_block_stop","index":%d}' % self.index
            yield Frame(b"content_block_stop", stop)


def _run(index: int, kind: type) -> Run | None:
    streamed = _STREAMED.get(kind)
    if streamed is None:
        return None
    head, tail = delta_head(index, streamed) + b'"', b'"}}'
    return Arguments(head, tail) if streamed is INPUT else Run(head, tail)


# --- streams ------------------------------------------------------------------------------------


class MessagesMatcher(Watch):
    """The Messages matcher; see `base.Matcher`. Only the model name changes in exact events."""

    __slots__ = ("_blocks", "_end", "_ids", "_model", "_start", "_usage")

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

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the event is not exact."""
        data, name = frame.data, frame.event
        event = _exact(EVENT, data)
        if event is None:
            return None if name or data.strip() else b""
        kind = event.kind.encode() if isinstance(event, Other) else _NAMES[type(event)]
        if not name:
            # Clients ignore events without a name.
            frame = Frame(kind, data)
        elif kind and name != kind:
            return None
        if self.undo is not None and type(event) is not BlockDelta and self._is_torn:
            return None
        return _TAKE[type(event)](self, event, frame)

    def _begin(self, event: MessageStart, frame: Frame) -> bytes | None:
        message = event.message
        if self._start or message is None or message.content or message.stop_reason is not None:
            return None
        self._start = frame.data
        self._count(message.usage)
        if self._model is None or message.model == self._model:
            return frame.raw
        members = jsontext.members(frame.data)
        inner = jsontext.members(members["message"])
        shown: JsonObject = {**members, "message": {**inner, "model": self._model}}
        return encode(to_json(shown), frame.event)

    def _begin_block(self, event: BlockStart, frame: Frame) -> bytes | None:
        block, index = event.content_block, event.index
        if not self._start or self._end or index != len(self._blocks) or self._is_open:
            return None
        if isinstance(block, str) or not _is_exact(block):
            return None
        if not _is_empty(block):
            self.begun = True  # the reader holds its text back: pieces may repeat it
            return None
        if isinstance(block, AnswerCall):
            if block.id in self._ids:
                return None
            self._ids.add(str(block.id))
        kind = type(block)
        hosted = isinstance(block, Other) and is_hosted(block.kind)
        self._blocks.append(Block(index, frame.data, kind, _run(index, kind), hosted))
        self.begun = self.begun or kind not in (AnswerText, AnswerThinking)
        self.forget()
        return frame.raw

    @property
    def _is_torn(self) -> bool:
        """Whether the input of the last block ends within an escape."""
        run = self._blocks[-1].run
        return isinstance(run, Arguments) and bool(run.open)

    @property
    def _is_open(self) -> bool:
        return bool(self._blocks) and not self._blocks[-1].is_over

    def _grow_block(self, event: BlockDelta, frame: Frame) -> bytes | None:
        if not self._is_open or event.index != len(self._blocks) - 1:
            return None
        block, piece = self._blocks[-1], event.delta
        if block.run is None:
            # Only the client reads such a block.
            is_read = _is_readable(piece) and not block.is_hosted
            return frame.raw if block.kind is Other and not is_read else None
        kind, other = _PIECES[block.kind]
        if type(piece) is not kind:
            if type(piece) is not other:
                return None if _is_readable(piece) else frame.raw
            block.others.append(frame)
            self.begun = True
            return frame.raw
        text, run, passed = piece.text, block.run, frame.raw  # type: ignore[union-attr]
        self.forget()
        if type(text) is not str:
            return None
        if not isinstance(run, Arguments):
            run.add(text)
        elif run.allows(text, is_undoable=self.undo is not None):
            self.undo = run.grow(text)
            self.blank = blank_after(self.blank, text)
        else:
            return None
        self.text_bytes += len(text.encode())
        self.begun = self.begun or bool(text)
        if text and self.undo is None:
            self.learn(frame, passed, _STREAMED[block.kind].member, text, run)
        return passed

    def _end_block(self, event: BlockStop, frame: Frame) -> bytes | None:
        if not self._is_open or event.index != len(self._blocks) - 1:
            return None
        self._blocks[-1].is_over = True
        self.blank = 0
        self.forget()
        return frame.raw

    def _end_message(self, event: MessageDelta, frame: Frame) -> bytes | None:
        if not self._start or self._is_open or event.delta is None:
            return None
        reason = event.delta.stop_reason
        if reason is not None:
            if not reason or reason == "null" or is_foreign_reason(reason):
                return None
            if reason != "max_tokens" and not all(block.is_whole() for block in self._blocks):
                return None
            self.reason = reason
        self._end.append(frame)
        self._count(event.usage)
        return frame.raw

    def _stop(self, event: MessageStop, frame: Frame) -> bytes | None:
        if not self.reason or self._is_open:
            return None
        self.ended = True
        return frame.raw

    def _ping(self, event: Ping, frame: Frame) -> bytes | None:
        return frame.raw

    def _other(self, event: Other, frame: Frame) -> bytes | None:
        """An error, or an event of a type that is new in the protocol."""
        value = event.value
        if event.kind == "error":
            error = stray_error(value)
            if error is not value.get("error") or not is_readable(error):
                return None
            self.fault = fault_of(error)
            return frame.raw
        if not event.kind:
            return frame.raw if frame.event == b"ping" else None
        return frame.raw if is_typed(event.kind) and not value.get("error") else None

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
            read(Frame(b"message_start", self._start))
        for block in self._blocks:
            for frame in block.frames():
                read(frame)
        for frame in self._end:
            read(frame)
        if self._blocks:
            assert isinstance(writer, MessagesWriter)
            streamed = _STREAMED.get(self._blocks[-1].kind)
            writer.resume(len(self._blocks) - 1, streamed, live=self._is_open)


_TAKE: dict[type[Struct], Callable[[MessagesMatcher, Any, Frame], bytes | None]] = {
    MessageStart: MessagesMatcher._begin,
    BlockStart: MessagesMatcher._begin_block,
    BlockDelta: MessagesMatcher._grow_block,
    BlockStop: MessagesMatcher._end_block,
    MessageDelta: MessagesMatcher._end_message,
    MessageStop: MessagesMatcher._stop,
    Ping: MessagesMatcher._ping,
    Other: MessagesMatcher._other,
}

_NAMES = {event: str(event.__struct_config__.tag).encode() for event in _TAKE}

# --- whole answers ------------------------------------------------------------------------------


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`."""
    answer = _exact(ANSWER, body)
    if answer is None:
        return None
    content, reason = answer.content, answer.stop_reason
    if not isinstance(content, list) or not reason or reason == "null" or is_foreign_reason(reason):
        return None
    calls = [block for block in content if isinstance(block, AnswerCall)]
    if not all(map(_is_exact, content)) or len({block.id for block in calls}) < len(calls):
        return None
    usage = read_usage(answer.usage) if answer.usage else None
    text_bytes = 0 if usage and usage.output else sum(map(_text_bytes, content))
    if answer.model != model:
        body = renamed(body, model)
    return Passed(body, usage, reason, text_bytes)


def _text_bytes(block: AnswerBlock | str) -> int:
    """The bytes of text in a block."""
    if isinstance(block, AnswerCall):
        return len(to_json(block.input)) + len(block.name or "")
    return len((getattr(block, "text", None) or "").encode())

"""An upstream's streamed answer on its way to the client, without I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.errors import (
    DragomanError,
    Fault,
    FaultKind,
    IllegalEvent,
    UpstreamError,
)
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
    Sealed,
)
from dragoman.canonical.finish import Finish
from dragoman.canonical.halves import Halves
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.masking import Mask
from dragoman.canonical.names import ToolNames
from dragoman.canonical.sequencer import Sequencer
from dragoman.canonical.stops import StopCutter
from dragoman.canonical.stream_mask import StreamMask
from dragoman.canonical.tools import ToolRestorer
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import AnswerWriter, FrameDecoder, Matcher, StreamReader
from dragoman.protocols.finish_words import finish_of
from dragoman.protocols.long_texts import filled, has_placeholder, may_be_long
from dragoman.sse import EventTooLarge, Frame
from dragoman.translation.estimate import estimate_text
from dragoman.translation.searching import Searching
from dragoman.translation.stages import Stage, staged

UNREAD = "it says nothing in a form that is read"
"""The error for an answer with losses of content and nothing else."""


class Outcome(Struct):
    """The outcome of an answer, filled in while it is read: usage, end, failure.

    `estimated`: the usage reported was incomplete. `text_bytes` are the bytes of text in a whole
    answer without usage."""

    usage: Usage | None = None
    finish: Finish | None = None
    fault: Fault | None = None
    ended: bool = False
    estimated: bool = False
    text_bytes: int = 0

    def record(self, event: Event) -> None:
        """Record an `event` about the answer as a whole."""
        if type(event) is Metered:
            self.usage = event.usage
        elif type(event) is Finished:
            self.finish = event.finish
        elif type(event) is Failed:
            self.fault = event.fault
        elif type(event) is Ended:
            self.ended = True


class AnswerStream:
    """An upstream's streamed answer on its way to the client.

    `outcome` is its outcome so far. `begun` becomes true with the first event that has content:
    text, reasoning, a tool call. The bytes before that may be delayed: a later error can still be
    sent with its own status, or another account be tried.

    `blank` is the length of the current run of white space in a tool call's arguments: some models
    never stop."""

    __slots__ = ("_decoder", "_hiding", "_mask", "_repeats", "begun", "blank", "outcome")

    def __init__(self, decoder: FrameDecoder, mask: Mask) -> None:
        self._decoder = decoder
        self._mask = mask
        self._hiding = StreamMask(mask) if mask.secrets.forms else None
        self._repeats = False
        """Whether the bytes written may have placeholders of long texts."""
        self.outcome = Outcome()
        self.begun = False
        self.blank = 0

    @property
    def answer_id(self) -> str:
        """The upstream's own id of the answer, empty if the client cannot use it."""
        return ""

    @property
    def over(self) -> bool:
        """Whether the output is complete: the answer ended, or failed."""
        return self.outcome.ended or self.outcome.fault is not None

    @property
    def cut(self) -> bool:
        """Whether the answer was ended here, although the upstream continues."""
        return False

    @property
    def paused(self) -> bool:
        """Whether the upstream's answer has ended, and goes on when the searches that the model
        wants are made."""
        return False

    @property
    def thinks(self) -> bool:
        """Whether the content so far is only plain reasoning text, without signature or block of
        its own, so that another answer may continue it."""
        return False

    @property
    def unreported(self) -> int:
        """The number of answers in it that ended without usage and were continued by another."""
        return 0

    @property
    def text_bytes(self) -> int:
        """The approximate bytes of the model's text so far."""
        return 0

    @property
    def buffered(self) -> int:
        """The approximate bytes of the answer stored until it ends, as the last events may repeat
        them."""
        return 0

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the upstream; return the bytes for the client."""
        try:
            frames = self._decoder.feed(chunk)
        except EventTooLarge as error:
            return self.fail(Fault(FaultKind.UPSTREAM_FAILED, str(error), code="upstream_error"))
        written = self._take(frames)
        if self._hiding is None and not self._repeats:
            return written
        return self._fill(self._hidden(written))

    def _fill(self, written: bytes) -> bytes:
        """The bytes written, with the long texts in place of their placeholders."""
        return written

    def _hidden(self, written: bytes) -> bytes:
        """The bytes written, with the account's secrets masked."""
        hiding = self._hiding
        if hiding is None or not written:
            return written
        shown = hiding.push(written)
        return shown + hiding.flush() if hiding.waits and self.over else shown

    def finish(self) -> bytes:
        """Handle the end of the upstream's bytes; return the rest for the client (an explicit error
        if the answer is incomplete)."""
        frames = self._decoder.finish()
        rest = self._hidden(self._take(frames) + self._close())
        return self._fill(rest if self._hiding is None else rest + self._hiding.flush())

    def fail(self, fault: Fault) -> bytes:
        """End the client's stream with an error in its own form; nothing if it is over."""
        if self.over:
            return b""
        return self._fill(self._hidden(self._failed(fault)))

    def _failed(self, fault: Fault) -> bytes:
        """The error that ends the client's stream."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether events are delayed, which no numbered keepalive must precede."""
        return self._hiding is not None and bool(self._hiding.waits)

    def keepalive(self) -> bytes:
        """The bytes to send during silence, which clients ignore."""
        raise NotImplementedError

    def _take(self, frames: Iterable[Frame]) -> bytes:
        """Take these events; return the bytes for the client."""
        raise NotImplementedError

    def _close(self) -> bytes:
        """Handle the end of the events; return the rest for the client."""
        raise NotImplementedError


class TranslatedStream(AnswerStream):
    """A stream between two protocols: reader, stages behind it, tool restorer, sequencer,
    writer."""

    __slots__ = (
        "_calls",
        "_carried",
        "_ledger",
        "_pieces",
        "_plain",
        "_reader",
        "_restorer",
        "_sequencer",
        "_stages",
        "_text_bytes",
        "_texts",
        "_writer",
        "halves",
        "speaks",
    )

    def __init__(
        self,
        decoder: FrameDecoder,
        reader: StreamReader,
        stages: Iterable[Stage],
        names: ToolNames,
        writer: AnswerWriter,
        ledger: Ledger,
        mask: Mask,
        halves: Halves,
    ) -> None:
        super().__init__(decoder, mask)
        self._reader = reader
        self._stages = [*stages]
        """Those that may still change something."""
        self.halves = halves
        self._ledger = ledger
        self._restorer = ToolRestorer(names, ledger)
        self._sequencer = Sequencer()
        self._writer = writer
        self._calls: set[int] = set()
        """Indexes of the blocks that are tool calls; the restorer changes nothing else."""
        self._plain: int | None = None
        """Index of the open block, if no stage would change further text of it. If it is a call,
        `_pieces` are those of its arguments."""
        self._pieces: list[str] | None = None
        self.speaks = False
        """Whether there was content other than unsigned reasoning."""
        self._text_bytes = 0
        self._carried = 0
        """Bytes of the frames with more than a piece of text."""
        self._texts: list[bytes] = []
        """The long texts that the writer repeats, with the account's secrets masked."""

    @property
    def text_bytes(self) -> int:
        return self._text_bytes

    @property
    def buffered(self) -> int:
        return self._text_bytes + self._carried

    def _fill(self, written: bytes) -> bytes:
        if not has_placeholder(written):
            return written
        for text in self._writer.long_texts[len(self._texts) :]:
            self._texts.append(self._mask.secrets_in(text))
        return b"".join(filled(written, self._texts))

    def follow(self, matcher: Matcher) -> bytes:
        """Continue a stream after the part that `matcher` passed to the client. Losses in reading
        that part again are not reported, since the client has it. Returns an error if it cannot be
        read."""
        known, outcome = len(self._ledger), self.outcome
        failure = b""

        def read(frame: Frame) -> None:
            nonlocal failure
            written = self._take((frame,))
            if outcome.fault is not None:
                failure = failure or written

        try:
            matcher.hand_over(read, self._writer)
        except UpstreamError as error:
            return self._failed(error.fault)
        self._ledger.truncate(known)
        return failure

    @property
    def paused(self) -> bool:
        return any(type(stage) is Searching and stage.pending for stage in self._stages)

    def go_on(
        self, reader: StreamReader, stages: Iterable[Stage], events: Iterable[Event]
    ) -> bytes:
        """Continue with the answer of another call, after `events`."""
        self._decoder, self._reader, self._stages = type(self._decoder)(), reader, [*stages]
        written: list[bytes] = []
        self._pass_on(events, written)
        return self._fill(self._hidden(b"".join(written)))

    def _take(self, frames: Iterable[Frame]) -> bytes:
        read, halves, outcome = self._reader.read, self.halves, self.outcome
        written: list[bytes] = []
        for frame in frames:
            if outcome.ended or outcome.fault is not None:
                break
            events = read(frame)
            if self._stages or halves.seen:
                events = self._staged(events)
            self._pass_on(events, written, len(frame.data))
        return b"".join(written)

    def keepalive(self) -> bytes:
        return self._writer.keepalive()

    def _close(self) -> bytes:
        written: list[bytes] = []
        if not self.over:
            self._pass_on(self._staged(self._reader.finish()), written)
        return b"".join(written)

    def _failed(self, fault: Fault) -> bytes:
        return b"" if self.over else self._write(Failed(fault))

    def _staged(self, events: Iterable[Event]) -> Iterable[Event]:
        """What the reader's events become behind the stages."""
        for stage in self._stages:
            events = staged(stage, events)
        self._stages = [stage for stage in self._stages if not stage.over]
        if self.halves.seen:
            events = [mended for event in events for mended in self.halves.push(event)]
        return events

    def _pass_on(self, events: Iterable[Event], written: list[bytes], size: int = 0) -> None:
        """Write the events of a frame of that size, one by one: an error must not lose the bytes
        already written."""
        try:
            for event in events:
                if type(event) is Delta:
                    text = event.text
                    # A letter with more bytes is a larger part of a token.
                    self._text_bytes += (
                        len(text) if text.isascii() else len(text.encode(errors="replace"))
                    )
                    if event.index == self._plain:
                        pieces = self._pieces
                        if pieces is None or ("\\" not in text and not text.isspace()):
                            if pieces is not None:
                                pieces.append(text)
                            written.append(self._writer.write(event))
                            continue
                outcome, calls = self.outcome, self._calls
                if outcome.ended or outcome.fault is not None:
                    # What failed in this frame may have been paid for nevertheless.
                    if type(event) is Metered and not size:
                        outcome.record(event)
                    continue
                if type(event) is Metered:
                    written.append(self._write(event))
                    continue
                if type(event) is Delta:
                    if not event.text.isspace():
                        self.blank = 0 if event.text else self.blank
                    elif event.index in calls:
                        self.blank += len(event.text)
                else:
                    if type(event) is Opened:
                        self.speaks = self.speaks or type(event.block) is not Reasoning
                        if type(event.block) is ToolCall:
                            calls.add(event.index)
                    elif type(event) is Sealed:
                        self.speaks = True
                    elif type(event) is Closed:
                        self.blank = 0
                    self._carried += size
                    size = 0
                    self._repeats = may_be_long(self._text_bytes + self._carried)
                for changed in self._restorer.push(event) if calls else (event,):
                    for ordered in self._sequencer.push(changed):
                        written.append(self._write(ordered))  # noqa: PERF401
                self._find_plain()
        except (IllegalEvent, DragomanError) as error:
            fault = error.fault if isinstance(error, DragomanError) else _ILLEGAL
            written.append(self._failed(fault))

    def _find_plain(self) -> None:
        """Find out whether the open block is plain: all that its first text begins has begun."""
        index, self._plain, self._pieces = self._sequencer.current, None, None
        if index is None or not self.begun or self.blank:
            return
        if index in self._calls:
            self._pieces = self._restorer.passing(index)
        if index not in self._calls or self._pieces is not None:
            self._plain = index

    def _write(self, event: Event) -> bytes:
        kind = type(event)
        self.begun = self.begun or has_content(event)
        if kind in RECORDED:
            if kind is Finished and not self.begun and self._ledger.lacks_content:
                raise UpstreamError.unreadable(UNREAD)
            if type(event) is Failed:
                self._plain = None
                event = Failed(self._mask.fault(event.fault))
            self.outcome.record(event)
        return self._writer.write(event)


class CutStream(TranslatedStream):
    """A stream between two protocols that ends at an emulated stop sequence: a further stage
    before the writer.

    The upstream reports no usage of an answer that is cut: the client gets an estimate, starting
    with the tokens of its `prompt`, which is marked as such in the ledger and the outcome."""

    __slots__ = ("_cutter", "_generated", "_prompt")

    def __init__(
        self,
        decoder: FrameDecoder,
        reader: StreamReader,
        stages: Iterable[Stage],
        names: ToolNames,
        writer: AnswerWriter,
        ledger: Ledger,
        mask: Mask,
        halves: Halves,
        stops: Sequence[str],
        prompt: int,
    ) -> None:
        super().__init__(decoder, reader, stages, names, writer, ledger, mask, halves)
        self._cutter = StopCutter(stops)
        self._prompt = prompt
        self._generated: list[str] = []
        """The whole text of the model."""

    @property
    def cut(self) -> bool:
        return self._cutter.over

    def _find_plain(self) -> None:
        """None is: a stop sequence may be in any text."""

    def _write(self, event: Event) -> bytes:
        write, cutter = super()._write, self._cutter
        if cutter.over:
            return b""
        if type(event) is Delta:
            self._generated.append(event.text)
        changed = cutter.push(event)
        if not cutter.over:
            return b"".join([write(one) for one in changed])
        *rest, end = changed
        written = [write(one) for one in rest]
        return b"".join([*written, write(Metered(self._estimate())), write(end)])

    def _estimate(self) -> Usage:
        detail = "estimated: the upstream's call was ended at a stop sequence"
        self._ledger.add("usage", LossKind.CONVERTED, detail)
        self.outcome.estimated = True
        output = math.ceil(estimate_text("".join(self._generated)))
        return completed(self.outcome.usage, self._prompt, output)


def completed(reported: Usage | None, prompt: int, output: int) -> Usage:
    """The usage of an answer with incomplete usage: estimates of its prompt and its output replace
    the rest."""
    if reported is None:
        return Usage(input=prompt, output=output)
    return replace(reported, output=max(reported.output, output))


def has_content(event: Event) -> bool:
    """Whether an event has content. A block that opens empty has none; the name of a tool is
    content."""
    if type(event) is Delta:
        return bool(event.text)
    if type(event) is Opened:
        block = event.block
        if isinstance(block, Text | Refusal):
            return bool(block.text)
        if isinstance(block, Reasoning):
            return bool(block.text) or block.opaque is not None
        return True
    return type(event) is Sealed or type(event) is Annotated


RECORDED = frozenset({Metered, Finished, Failed, Ended})
"""Types of the events that an outcome records."""

_ILLEGAL = Fault(FaultKind.UPSTREAM_FAILED, "The upstream's events came in an impossible order.")


class _Pending(NamedTuple):
    """An exact event not passed on yet, as `passed`."""

    frame: Frame
    passed: bytes
    undo: Callable[[], object]


class PassedStream(AnswerStream):
    """A stream within one protocol: bytes pass as long as a matcher finds them exact. From the
    first inexact event on, the stream is translated: `translate` creates the stream that continues,
    from the id by which the client knows the answer."""

    __slots__ = ("_keepalive_bytes", "_matcher", "_pending", "_rest", "_translate")

    def __init__(
        self,
        decoder: FrameDecoder,
        matcher: Matcher,
        keepalive: bytes,
        translate: Callable[[str], TranslatedStream],
        mask: Mask,
    ) -> None:
        super().__init__(decoder, mask)
        self._matcher = matcher
        self._keepalive_bytes = keepalive
        self._translate = translate
        self._pending: _Pending | None = None
        self._rest: TranslatedStream | None = None
        """The translated stream that continues the answer."""

    @property
    def text_bytes(self) -> int:
        return self._matcher.text_bytes if self._rest is None else self._rest.text_bytes

    @property
    def buffered(self) -> int:
        return 0 if self._rest is None else self._rest.buffered

    @property
    def answer_id(self) -> str:
        return self._matcher.answer_id

    @property
    def thinks(self) -> bool:
        return self._matcher.thinks and (self._rest is None or not self._rest.speaks)

    @property
    def unreported(self) -> int:
        return self._matcher.unreported

    def keepalive(self) -> bytes:
        return self._keepalive_bytes if self._rest is None else self._rest.keepalive()

    def _take(self, frames: Iterable[Frame]) -> bytes:
        more, written = self._matcher.more, []
        for frame in frames:
            passed = more(frame)
            written.append(self._match(frame) if passed is None else passed)
        if self._rest is None:
            self.begun, self.blank = self._matcher.begun, self._matcher.blank
        return b"".join(written)

    def _match(self, frame: Frame) -> bytes:
        """The bytes for the client of an event that is not like the one before."""
        matcher, outcome = self._matcher, self.outcome
        if outcome.ended or outcome.fault is not None:
            return b""
        if self._rest is not None:
            return self._recorded(self._rest, self._rest._take((frame,)))
        data = frame.data
        passed = matcher.match(frame) if data.isascii() or _is_utf8(data) else None
        if passed is None:
            rest, written = self._hand_over()
            return self._recorded(rest, written + rest._take((frame,)))
        if matcher.undo is not None or self._pending is not None:
            passed = self._released(frame, passed)
        if matcher.ended or matcher.fault is not None or matcher.usage is not outcome.usage:
            passed = self._observed(passed)
        return passed

    def _released(self, frame: Frame, passed: bytes) -> bytes:
        """The bytes to pass on after an event: the delayed event, but not one that the matcher can
        still undo."""
        pending, undo = self._pending, self._matcher.undo
        before = b"" if pending is None else pending.passed
        if undo is None or (pending is not None and pending.undo is undo):
            self._pending = self._matcher.undo = None
            return before + passed
        self._pending = _Pending(frame, passed, undo)
        return before

    def _hand_over(self) -> tuple[TranslatedStream, bytes]:
        """The stream that continues, and its output for a delayed event, or an error."""
        if self._rest is not None:
            return self._rest, b""
        matcher = self._matcher
        matcher.forget()
        rest = self._rest = self._translate(matcher.answer_id)
        rest.outcome, rest.begun, rest.blank = self.outcome, matcher.begun, matcher.blank
        written = rest.follow(matcher)
        if self._pending is not None:
            written += rest._take((self._pending.frame,))
        return rest, written

    def _recorded(self, rest: TranslatedStream, written: bytes) -> bytes:
        self.begun, self.blank, self._repeats = rest.begun, rest.blank, rest._repeats
        return written

    def _fill(self, written: bytes) -> bytes:
        return written if self._rest is None else self._rest._fill(written)

    def _close(self) -> bytes:
        if self.over:
            return b""
        if self._rest is None and (end := self._matcher.finish()) is not None:
            return self._observed(end if self._pending is None else self._pending.passed + end)
        rest, written = self._hand_over()
        return self._recorded(rest, written + rest._close())

    def _failed(self, fault: Fault) -> bytes:
        rest, written = self._hand_over()
        return self._recorded(rest, written + rest._failed(fault))

    def _observed(self, passed: bytes) -> bytes:
        """`passed`, the matcher's last output; an error with names of accounts masked."""
        matcher, outcome = self._matcher, self.outcome
        outcome.usage, outcome.ended, outcome.fault = matcher.usage, matcher.ended, matcher.fault
        if self.over:
            matcher.forget()
        if matcher.ended and matcher.reason:
            outcome.finish = finish_of(matcher.reason)
        if outcome.fault is None:
            return passed
        outcome.fault = self._mask.fault(outcome.fault)
        return self._mask.error(passed)


def _is_utf8(data: bytes) -> bool:
    """Whether an event is valid UTF-8, also in members that no type declares."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

"""Writes the client's answer, streamed or whole.

Visibility of each block and reported losses are decided here for both;
`output` renders it as frames or collects it in one object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Annotation,
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
from dragoman.canonical.finish import Finish
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.tools import wrap_custom
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages.annotations import own_citation
from dragoman.protocols.anthropic_messages.errors import error_event
from dragoman.protocols.anthropic_messages.finish import write_finish
from dragoman.protocols.anthropic_messages.output import (
    INPUT,
    PING,
    TEXT,
    THINKING,
    Frames,
    Output,
    Streamed,
    Whole,
)
from dragoman.protocols.anthropic_messages.usage import SHOWN_TIERS
from dragoman.protocols.anthropic_messages.visibility import (
    Reporter,
    Visibility,
    is_redacted,
    signature_of,
    tool_use_head,
)
from dragoman.protocols.base import Reply, to_json_text
from dragoman.protocols.fields import JsonObject

_OPEN = State.OPEN
_STREAMED: dict[str | None, Streamed] = {"text": TEXT, "thinking": THINKING, "tool_use": INPUT}


class _Block:
    """A hidden block, and the base of the kinds that are shown."""

    __slots__ = ("out",)

    def __init__(self, out: Output) -> None:
        self.out = out

    def delta(self, text: str) -> bytes:
        return b""

    def part_break(self) -> bytes:
        return b""

    def annotate(self, annotation: Annotation) -> bytes:
        return b""

    def seal(self, opaque: Opaque) -> None:
        return None

    def close(self, cut: bool) -> bytes:
        return b""


class _TextBlock(_Block):
    """Visible text. It starts with its first text, since clients cannot send an empty block
    back."""

    __slots__ = ("_report", "_single")

    def __init__(self, out: Output, single: bool, report: Reporter) -> None:
        self.out, self._single, self._report = out, single, report

    def delta(self, text: str) -> bytes:
        if not text:
            return b""
        out = self.out
        if out.live:
            return out.text(text)
        return out.start({"type": "text", "text": ""}, TEXT) + out.text(text)

    def annotate(self, annotation: Annotation) -> bytes:
        citation = own_citation(annotation)
        if citation is None:
            self._report.citation()
            return b""
        out = self.out
        begun = b"" if out.live else out.start({"type": "text", "text": ""}, TEXT)
        return begun + out.cite(citation)

    def close(self, cut: bool) -> bytes:
        # A single text block stays open, since more text may follow: the next start stops it.
        return b"" if self._single else self.out.stop()


class _RefusalBlock(_TextBlock):
    """A refusal: a text block, repeated as the explanation of the stop reason. Where the answer is
    to be JSON, only the explanation: clients would parse the text."""

    __slots__ = ("_words",)

    def __init__(self, out: Output, single: bool, report: Reporter, words: list[str]) -> None:
        self.out, self._single, self._report = out, single, report
        self._words = words

    def delta(self, text: str) -> bytes:
        self._words.append(text)
        return b"" if self._single else super().delta(text)


class _ThinkingBlock(_Block):
    """Reasoning, signed at its end with the upstream's state."""

    __slots__ = ("_head", "_opaque", "_parts", "_pieces", "_sealer", "_shown", "_started")

    def __init__(self, out: Output, head: Reasoning, shown: bool, sealer: Sealer) -> None:
        self.out = out
        self._head = head
        self._opaque = head.opaque
        self._shown = shown and not head.redacted
        self._sealer = sealer
        self._parts: list[str] = []
        self._pieces: list[str] = []
        self._started = False

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        if not self._shown or not text:
            return b""
        return self._start() + self.out.text(text)

    def part_break(self) -> bytes:
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return self.out.text("\n\n") if self._started else b""

    def seal(self, opaque: Opaque) -> None:
        self._opaque = opaque

    def close(self, cut: bool) -> bytes:
        last = "".join(self._pieces)
        parts = (*self._parts, last) if last or self._parts else ()
        block = replace(self._head, parts=parts, opaque=self._opaque)
        if self._opaque is not None and is_redacted(block):
            data = {"type": "redacted_thinking", "data": self._opaque.data}
            return self.out.start(data) + self.out.stop()
        if self._opaque is None and not any(parts):
            return b""
        begun = self._start()
        signed = self.out.sign(signature_of(block, self._sealer))
        return begun + signed + self.out.stop()

    def resume(self) -> None:
        """Continue after the client was shown the start."""
        self._started = True

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        return self.out.start({"type": "thinking", "thinking": "", "signature": ""}, THINKING)


class _ToolBlock(_Block):
    """A tool call whose arguments stream."""

    __slots__ = ()

    def delta(self, text: str) -> bytes:
        return self.out.text(text) if text else b""

    def close(self, cut: bool) -> bytes:
        return self.out.stop(cut=cut)


class _CustomBlock(_Block):
    """A call with free text, which becomes the one argument of a function."""

    __slots__ = ("_pieces",)

    def __init__(self, out: Output) -> None:
        self.out = out
        self._pieces: list[str] = []

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        return b""

    def close(self, cut: bool) -> bytes:
        arguments = to_json_text(wrap_custom("".join(self._pieces)))
        return self.out.text(arguments) + self.out.stop()


class MessagesWriter:
    """The writer of one answer; see `base.AnswerWriter`."""

    long_texts: Sequence[bytes] = ()
    """No event repeats a text."""

    __slots__ = (
        "_block",
        "_calls",
        "_cut",
        "_finish",
        "_id",
        "_model",
        "_out",
        "_refusal",
        "_report",
        "_request_id",
        "_sealer",
        "_state",
        "_tier",
        "_usage",
        "_visibility",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        # Not the reply, which refers to the client's whole request: a stream may be long.
        self._id, self._model, self._sealer = reply.id, reply.model, reply.sealer
        self._request_id = reply.request_id
        self._report = Reporter(reply.ledger)
        self._visibility = Visibility.of(reply)
        self._state = State.NEW
        self._out: Output = Frames() if streamed else Whole()
        self._block = _Block(self._out)
        self._calls = False
        self._cut = False
        """Whether the arguments of a tool call were cut."""
        self._refusal: list[str] | None = None
        self._finish: Finish
        self._usage: Usage | None
        self._tier: str | None

    def write(self, event: Event) -> bytes:
        """The frames of one event, possibly none."""
        if type(event) is Delta and self._state is _OPEN:
            if event.logprobs is not None:
                self._report.logprobs()
            return self._block.delta(event.text)
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def resume(self, index: int, kind: str | None) -> None:
        """Continue after the client was shown the blocks up to `index`, under the upstream's
        indexes; `kind` is the type of the open one, None if it is over."""
        assert isinstance(self._out, Frames)
        self._out.resume(index, _STREAMED.get(kind), live=kind is not None)
        if kind is not None and isinstance(self._block, _ThinkingBlock):
            self._block.resume()

    def answer(self) -> JsonObject:
        """The `message` object. Raises RuntimeError where the answer is streamed."""
        return self._out.message()

    def keepalive(self) -> bytes:
        """The protocol's own `ping`."""
        return PING

    def _write_started(self, event: Started) -> bytes:
        self._usage, self._tier = event.usage, event.service_tier
        message: JsonObject = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        return self._out.begin(message, event.usage, event.service_tier)

    def _write_opened(self, event: Opened) -> bytes:
        head, out, visibility = event.block, self._out, self._visibility
        # By exact type, the most frequent first: a pattern that does not match costs more.
        if type(head) is Text:
            if not (visibility.single_text and visibility.leaves_out(head)):
                self._block = _TextBlock(out, visibility.single_text, self._report)
                return b""
            self._report.remark()
        elif type(head) is ToolCall:
            self._calls = True
            self._report.call(head)
            self._block = _CustomBlock(out) if head.custom else _ToolBlock(out)
            return out.start(tool_use_head(head), INPUT)
        elif type(head) is Reasoning:
            if visibility.reasoning:
                shown = visibility.reasoning_text
                self._block = _ThinkingBlock(out, head, shown, self._sealer)
                return b""
            self._report.reasoning()
        elif type(head) is Refusal:
            if self._refusal is None:
                self._refusal = []
            single = visibility.single_text
            self._block = _RefusalBlock(out, single, self._report, self._refusal)
            return b""
        else:
            self._report.block(head)
        self._block = _Block(out)
        return b""

    def _write_part_break(self, event: PartBreak) -> bytes:
        return self._block.part_break()

    def _write_annotated(self, event: Annotated) -> bytes:
        return self._block.annotate(event.annotation)

    def _write_sealed(self, event: Sealed) -> bytes:
        self._block.seal(event.opaque)
        return b""

    def _write_closed(self, event: Closed) -> bytes:
        self._cut = self._cut or event.cut
        return self._block.close(event.cut)

    def _write_finished(self, event: Finished) -> bytes:
        self._finish = event.finish
        if self._cut:
            self._report.cut()
        return b""

    def _write_metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        self._tier = event.service_tier or self._tier
        return b""

    def _write_ended(self, event: Ended) -> bytes:
        out, tier = self._out, self._tier
        if tier is not None:
            self._report.tier(tier in SHOWN_TIERS, out.shows_tier(tier))
        if event.moderation is not None:
            self._report.moderation()
        refusal = None if self._refusal is None else "".join(self._refusal)
        return out.end(write_finish(self._finish, self._calls, refusal), self._usage, tier)

    def _write_failed(self, event: Failed) -> bytes:
        return error_event(event.fault, self._request_id)


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
_STEPS = steps(_WRITERS)

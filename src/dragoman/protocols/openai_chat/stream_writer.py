"""Writes the client's answer, streamed or whole.

What the client is shown of each block, and what is reported as lost, is decided here for both;
`output` renders it as chunks or collects it in one object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import Annotation, Opaque, Reasoning, Refusal, Text, ToolCall
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
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Reply
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.annotations import write_annotations
from dragoman.protocols.openai_chat.errors import error_frames
from dragoman.protocols.openai_chat.finish import write_finish
from dragoman.protocols.openai_chat.output import CONTENT, REFUSAL, Chunks, Output, Whole
from dragoman.protocols.openai_chat.reasoning import BREAK, details_entry, is_foreign_state
from dragoman.protocols.openai_chat.visibility import (
    Reporter,
    call_fields,
    call_head,
    reasoning_fields,
    tier_name,
)
from dragoman.sse import COMMENT

_OPEN = State.OPEN


class _ReasoningBlocks:
    """The reasoning blocks, which share the text fields of one message."""

    __slots__ = (
        "_fields",
        "_gap",
        "_has_text",
        "_head",
        "_keeps_state",
        "_number",
        "_opaque",
        "_out",
        "_parts",
        "_pieces",
        "_report",
        "_sealer",
    )

    def __init__(self, out: Output, options: Options, sealer: Sealer, report: Reporter) -> None:
        self._out, self._sealer, self._report = out, sealer, report
        self._fields = reasoning_fields(options)
        self._keeps_state = options.reasoning_details
        self._number = 0
        """Entries of `reasoning_details` so far."""
        self._has_text = False
        """Whether there has been any text."""
        self._gap = False
        """Whether a blank line is due before the next piece of text."""
        self._head: Reasoning
        self._opaque: Opaque | None
        self._parts: list[str] = []
        self._pieces: list[str] = []
        """Complete parts of the open block and the pieces of its last part; stored only if the
        client is given its state."""

    def open(self, head: Reasoning) -> None:
        self._head, self._opaque = head, head.opaque
        self._parts.clear()
        self._pieces.clear()
        self._gap = self._has_text
        self._out.open(self._fields)

    def delta(self, text: str) -> bytes:
        if not text:
            return b""
        if self._keeps_state:
            self._pieces.append(text)
        if self._gap:
            # One text field shows all pieces: a blank line parts them.
            self._gap = False
            text = BREAK + text
        self._has_text = True
        return self._out.text(text)

    def part_break(self) -> None:
        self._gap = self._has_text
        self._parts.append("".join(self._pieces))
        self._pieces.clear()

    def seal(self, opaque: Opaque) -> None:
        self._opaque = opaque

    def close(self) -> bytes:
        if not is_foreign_state(self._opaque):
            return b""
        if not self._keeps_state:
            self._report.state()
            return b""
        text = "".join(self._pieces)
        parts = (*self._parts, text) if text or self._parts else ()
        block = replace(self._head, parts=parts, opaque=self._opaque)
        entry = details_entry(block, self._number, self._sealer)
        self._number += 1
        return self._out.details(entry)


class ChatWriter:
    """Writes one answer; see `base.AnswerWriter`."""

    long_texts: Sequence[bytes] = ()
    """No event repeats a text."""

    __slots__ = (
        "_annotations",
        "_citations",
        "_created",
        "_first_tier",
        "_has_calls",
        "_id",
        "_kind",
        "_length",
        "_model",
        "_options",
        "_out",
        "_reasoning",
        "_report",
        "_sealer",
        "_shows_logprobs",
        "_start",
        "_state",
        "_tier",
        "_usage",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        # Not the reply, which refers to the client's whole request: a stream may be long.
        self._shows_logprobs = reply.request.logprobs
        self._id, self._created, self._model = reply.id, reply.created, reply.model
        self._options, self._sealer = reply.options, reply.sealer
        self._report = Reporter(reply.ledger)
        self._out: Output = Chunks(reply) if streamed else Whole(reply)
        self._state = State.NEW
        self._usage: Usage | None = None
        self._tier: str | None
        """The latest service tier of the upstream, and the client's name for its first one."""
        self._first_tier: str | None
        self._kind: type | None
        """Type of the open block; None if the client is not shown it."""
        self._has_calls = False
        self._length = 0
        """Characters of visible text so far: citations count in the whole message."""
        self._start: int
        """Offset of the open text block."""
        self._citations: list[Annotation] = []
        """Those of the open text block."""
        self._annotations: list[JsonObject] = []
        self._reasoning: _ReasoningBlocks | None = None

    def write(self, event: Event) -> bytes:
        """The frames of one event, ready to be sent in one piece."""
        if type(event) is Delta and self._state is _OPEN:
            return self._delta(event)
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def answer(self) -> JsonObject:
        """The `chat.completion`. Raises RuntimeError where the answer is streamed."""
        return self._out.completion()

    def keepalive(self) -> bytes:
        """A comment."""
        return COMMENT

    # --- the answer as a whole ------------------------------------------------------------------

    def _started(self, event: Started) -> bytes:
        tier = self._tier = event.service_tier
        self._first_tier = None if tier is None else tier_name(tier)
        created = event.created or self._created
        return self._out.begin(self._id, self._model, created, self._first_tier)

    def _finished(self, event: Finished) -> bytes:
        self._report.finish(event.finish)
        word = write_finish(event.finish, has_calls=self._has_calls)
        return self._out.finish(word, self._annotations)

    def _metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        self._tier = event.service_tier or self._tier
        return b""

    def _ended(self, event: Ended) -> bytes:
        out, usage, moderation = self._out, self._usage, event.moderation
        tier = None
        if self._tier is not None:
            tier = tier_name(self._tier)
            self._report.tier(tier is not None, out.shows_tier(tier, usage, moderation))
        return out.end(usage, tier or self._first_tier, moderation)

    def _failed(self, event: Failed) -> bytes:
        return error_frames(event.fault)

    # --- blocks ---------------------------------------------------------------------------------

    def _opened(self, event: Opened) -> bytes:
        block = event.block
        kind = self._kind = type(block)
        if kind is Text or kind is Refusal:
            if self._has_calls:
                self._report.order()
            self._start = self._length
            self._out.open(CONTENT if kind is Text else REFUSAL)
        elif type(block) is ToolCall:
            self._has_calls = True
            return self._out.open_call(call_head(block), *call_fields(block))
        elif type(block) is Reasoning:
            self._open_reasoning(block)
        else:
            self._kind = None
            self._report.block(block)
        return b""

    def _open_reasoning(self, block: Reasoning) -> None:
        if self._options.show_reasoning == "never":
            self._kind = None
            self._report.reasoning()
            return
        if self._reasoning is None:
            self._reasoning = _ReasoningBlocks(self._out, self._options, self._sealer, self._report)
        self._reasoning.open(block)

    def _delta(self, event: Delta) -> bytes:
        kind, text = self._kind, event.text
        if kind is Text:
            self._length += len(text)
        elif kind is Reasoning and self._reasoning is not None:
            return self._reasoning.delta(text)
        elif kind is None:
            return b""
        if event.logprobs and not self._shows_logprobs:
            detail = "token probabilities were not asked for"
            self._report.ledger.add("logprobs", LossKind.KNOB, detail)
        elif event.logprobs and kind is not ToolCall:
            return self._out.text_with_logprobs(text, event.logprobs)
        return self._out.text(text) if text else b""

    def _annotated(self, event: Annotated) -> bytes:
        if self._kind is Text:
            self._citations.append(event.annotation)
        return b""

    def _closed(self, event: Closed) -> bytes:
        if self._citations:
            self._annotations += write_annotations(
                self._citations, self._start, self._length, self._report
            )
            self._citations.clear()
        if self._kind is Reasoning and self._reasoning is not None:
            return self._reasoning.close()
        return b""

    def _part_break(self, event: PartBreak) -> bytes:
        if self._kind is Reasoning and self._reasoning is not None:
            self._reasoning.part_break()
        return b""

    def _sealed(self, event: Sealed) -> bytes:
        if self._kind is Reasoning and self._reasoning is not None:
            self._reasoning.seal(event.opaque)
        return b""


_WRITERS: dict[type, Callable[[ChatWriter, Any], bytes]] = {
    Started: ChatWriter._started,
    Opened: ChatWriter._opened,
    PartBreak: ChatWriter._part_break,
    Annotated: ChatWriter._annotated,
    Sealed: ChatWriter._sealed,
    Closed: ChatWriter._closed,
    Finished: ChatWriter._finished,
    Metered: ChatWriter._metered,
    Ended: ChatWriter._ended,
    Failed: ChatWriter._failed,
}
_STEPS = steps(_WRITERS)

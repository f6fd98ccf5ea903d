"""Writes the client's answer, streamed or whole.

Here is decided, block by block, what the client is shown and what is lost; `output` gives it the
form of chunks or of one object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import Annotation, Opaque, Reasoning, Refusal, Text, ToolCall
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
    tier_word,
)
from dragoman.sse import COMMENT

_OPEN = State.OPEN


class ChatWriter:
    """Writes one answer; see `base.AnswerWriter`."""

    __slots__ = (
        "_annotations",
        "_citations",
        "_created",
        "_details",
        "_gap",
        "_has_calls",
        "_head",
        "_id",
        "_keeps_details",
        "_kind",
        "_length",
        "_model",
        "_opaque",
        "_out",
        "_parts",
        "_pieces",
        "_reasoned",
        "_reasoning_fields",
        "_report",
        "_sealer",
        "_shows_reasoning",
        "_start",
        "_state",
        "_tier",
        "_told_tier",
        "_usage",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        # Not the reply: it holds the client's whole request, and a stream may be long.
        self._id, self._created, self._model = reply.id, reply.created, reply.model
        self._report, self._sealer = Reporter(reply.ledger), reply.sealer
        self._out: Output = Chunks(reply) if streamed else Whole(reply)
        self._state = State.NEW
        self._usage: Usage | None = None
        self._tier: str | None = None
        """The service tier last told, and the word for the one told at the start."""
        self._told_tier: str | None = None
        self._kind: type | None = None
        """Type of the open block; None if it is not shown."""
        self._has_calls = False
        self._length = 0
        """Characters of visible text so far: citations count in the whole message."""
        self._start = 0
        """Where the open text block begins."""
        self._citations: list[Annotation] = []
        """Those of the open text block."""
        self._annotations: list[JsonObject] = []
        self._reasoning_fields = reasoning_fields(reply)
        self._shows_reasoning = reply.options.show_reasoning != "never"
        self._keeps_details = reply.options.reasoning_details
        self._reasoned = False
        self._gap = False
        """Whether a blank line is due before the next piece of reasoning."""
        self._head: Reasoning | None = None
        self._opaque: Opaque | None = None
        self._parts: list[str] = []
        self._pieces: list[str] = []
        """Whole parts, and pieces of the last part, of the open reasoning block; kept only if
        the client is given its state."""
        self._details = 0

    def write(self, event: Event) -> bytes:
        """The frames of one event, ready to be sent in one piece."""
        if type(event) is Delta and self._state is _OPEN:
            return self._delta(event)
        self._state = step(self._state, event)
        return _WRITERS[type(event)](self, event)

    def answer(self) -> JsonObject:
        """The `chat.completion`. Raises RuntimeError where the answer is streamed."""
        return self._out.completion()

    def keepalive(self) -> bytes:
        """A comment."""
        return COMMENT

    # --- the answer as a whole ------------------------------------------------------------------

    def _started(self, event: Started) -> bytes:
        self._tier = event.service_tier
        tier = self._told_tier = tier_word(event.service_tier)
        return self._out.begin(self._id, self._model, event.created or self._created, tier)

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
        tier = tier_word(self._tier)
        if self._tier is not None:
            self._report.tier(tier is not None, out.shows_tier(tier, usage, moderation))
        return out.end(usage, tier or self._told_tier, moderation)

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

    def _delta(self, event: Delta) -> bytes:
        kind, text = self._kind, event.text
        if kind is Text:
            self._length += len(text)
        elif kind is Reasoning:
            return self._reasoning_delta(text)
        elif kind is None:
            return b""
        if event.logprobs and kind is not ToolCall:
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
        return self._close_reasoning() if self._kind is Reasoning else b""

    # --- reasoning ------------------------------------------------------------------------------

    def _open_reasoning(self, head: Reasoning) -> None:
        if not self._shows_reasoning:
            self._kind = None
            self._report.reasoning()
            return
        self._head, self._opaque = head, head.opaque
        self._parts.clear()
        self._pieces.clear()
        self._gap = self._reasoned
        self._out.open(self._reasoning_fields)

    def _reasoning_delta(self, text: str) -> bytes:
        if not text:
            return b""
        if self._keeps_details:
            self._pieces.append(text)
        if self._gap:
            # One text field shows all pieces: a blank line parts them.
            self._gap = False
            text = BREAK + text
        self._reasoned = True
        return self._out.text(text)

    def _part_break(self, event: PartBreak) -> bytes:
        self._gap = self._reasoned
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return b""

    def _sealed(self, event: Sealed) -> bytes:
        self._opaque = event.opaque
        return b""

    def _close_reasoning(self) -> bytes:
        if self._head is None or not is_foreign_state(self._opaque):
            return b""
        if not self._keeps_details:
            self._report.state()
            return b""
        text = "".join(self._pieces)
        parts = (*self._parts, text) if text or self._parts else ()
        block = replace(self._head, parts=parts, opaque=self._opaque)
        entry = details_entry(block, self._details, self._sealer)
        self._details += 1
        return self._out.details(entry)


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

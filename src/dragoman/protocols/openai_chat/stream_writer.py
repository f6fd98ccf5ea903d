"""Writes the client's answer, streamed or whole.

What the client is shown of each block, and what is reported as lost, is decided here for both;
`output` renders it as chunks or collects it in one object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Annotation,
    Foreign,
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
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Reply
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.annotations import NO_COUNTERPART, write_annotations
from dragoman.protocols.openai_chat.call_state import signed
from dragoman.protocols.openai_chat.errors import error_frames
from dragoman.protocols.openai_chat.finish import write_finish
from dragoman.protocols.openai_chat.output import CONTENT, REFUSAL, Chunks, Output, Whole
from dragoman.protocols.openai_chat.reasoning import BREAK, details_entry, is_foreign_state
from dragoman.protocols.openai_chat.settings import ChatOptions
from dragoman.sse import COMMENT

_OPEN = State.OPEN


class _ReasoningBlocks(Struct, eq=False):
    """The reasoning blocks, which share the text fields of one message."""

    _out: Output
    _fields: Sequence[str]
    _keeps_state: bool
    _sealer: Sealer
    _ledger: Ledger
    _number: int = 0
    """Entries of `reasoning_details` so far."""
    _has_text: bool = False
    """Whether there has been any text."""
    _gap: bool = False
    """Whether a blank line is due before the next piece of text."""
    _head: Reasoning = Reasoning()
    _opaque: Opaque | None = None
    of_call: str = ""
    """The envelope with the state of the call that follows."""
    _parts: list[str] = []
    _pieces: list[str] = []
    """Complete parts of the open block and the pieces of its last part; stored only if the client
    is given its state."""

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
        opaque = self._opaque
        if opaque is None or not is_foreign_state(opaque):
            return b""
        if opaque.anchor == "next":
            self.of_call = self._sealer.seal(replace(self._head, opaque=opaque))
            if not self._keeps_state:
                return b""
        if not self._keeps_state:
            detail = "signatures and encrypted reasoning are not shown"
            self._ledger.add("reasoning", LossKind.KNOB, detail)
            return b""
        text = "".join(self._pieces)
        parts = (*self._parts, text) if text or self._parts else ()
        block = replace(self._head, parts=parts, opaque=self._opaque)
        entry = details_entry(block, self._number, self._sealer)
        self._number += 1
        return self._out.details(entry)


class ChatWriter(Struct, eq=False):
    """Writes one answer; see `base.AnswerWriter`."""

    _shows_logprobs: bool
    _id: str
    _created: int
    _model: str
    _options: Options
    _sealer: Sealer
    _ledger: Ledger
    _out: Output
    _state: State = State.NEW
    _usage: Usage | None = None
    _tier: str | None = None
    """The latest service tier of the upstream, and the client's name for its first one."""
    _first_tier: str | None = None
    _kind: type | None = None
    """Type of the open block; None if the client is not shown it."""
    _has_calls: bool = False
    _length: int = 0
    """Characters of visible text so far: citations count in the whole message."""
    _start: int = 0
    """Offset of the open text block."""
    _citations: list[Annotation] = []
    """Those of the open text block."""
    _annotations: list[JsonObject] = []
    _reasoning: _ReasoningBlocks | None = None

    @classmethod
    def of(cls, reply: Reply, streamed: bool) -> ChatWriter:
        """The writer of an answer. It does not store the reply, which refers to the client's whole
        request: a stream may be long."""
        return cls(
            _shows_logprobs=reply.request.logprobs,
            _id=reply.id,
            _created=reply.created,
            _model=reply.model,
            _options=reply.options,
            _sealer=reply.sealer,
            _ledger=reply.ledger,
            _out=Chunks(reply.request.include_usage) if streamed else Whole(reply.request.metadata),
        )

    @property
    def long_texts(self) -> Sequence[bytes]:
        """None: no event repeats a text."""
        return ()

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
        self._first_tier = None if tier is None else _tier_name(tier)
        created = event.created or self._created
        return self._out.begin(self._id, self._model, created, self._first_tier)

    def _finished(self, event: Finished) -> bytes:
        self._report_finish(event.finish)
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
            tier = _tier_name(self._tier)
            if tier is None:
                self._lose("service_tier", NO_COUNTERPART)
            elif not out.shows_tier(tier, usage, moderation):
                self._lose("service_tier", "it was known only at the end")
        return out.end(usage, tier or self._first_tier, moderation)

    def _failed(self, event: Failed) -> bytes:
        return error_frames(event.fault)

    # --- blocks ---------------------------------------------------------------------------------

    def _opened(self, event: Opened) -> bytes:
        block = event.block
        kind = self._kind = type(block)
        if kind is Text or kind is Refusal:
            if self._has_calls:
                # A message does not keep their order.
                detail = "text is put before tool calls"
                self._ledger.add("content", LossKind.CONVERTED, detail)
            self._start = self._length
            self._out.open(CONTENT if kind is Text else REFUSAL)
        elif type(block) is ToolCall:
            self._has_calls = True
            return self._open_call(block)
        elif type(block) is Reasoning:
            self._open_reasoning(block)
        else:
            self._kind = None
            loss, name = LossKind.KNOB, "content"
            if isinstance(block, Foreign):
                loss, name = block.loss, block.type
            self._ledger.add(block.path or name, loss, "has no place in a Chat message")
        return b""

    def _open_call(self, call: ToolCall) -> bytes:
        kind, field = ("custom", "input") if call.custom else ("function", "arguments")
        # Chat has no namespaces: they are prefixed to the name.
        name = f"{call.namespace}__{call.name}" if call.namespace else call.name
        head: JsonObject = {"id": call.id, "type": kind, kind: {"name": name, field: ""}}
        if self._reasoning is not None and self._reasoning.of_call:
            head |= signed(self._reasoning.of_call)
            self._reasoning.of_call = ""
        return self._out.open_call(head, kind, field)

    def _open_reasoning(self, block: Reasoning) -> None:
        if self._options.show_reasoning == "never":
            self._kind = None
            self._lose("reasoning", "reasoning is not shown")
            return
        if self._reasoning is None:
            name = self._options.of(ChatOptions).reasoning_field
            fields = ("reasoning_content", "reasoning") if name == "both" else (name,)
            keeps_state = self._options.reasoning_details
            self._reasoning = _ReasoningBlocks(
                self._out, fields, keeps_state, self._sealer, self._ledger
            )
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
            self._lose("logprobs", "token probabilities were not asked for")
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
                self._citations, self._start, self._length, self._ledger
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

    # --------------------------------------------------------------------------------------------

    def _report_finish(self, finish: Finish) -> None:
        if finish.stop_sequence is not None and finish.reason is FinishReason.STOP_SEQUENCE:
            self._lose("stop_sequence", "the matched stop sequence is not named")
        if finish.reason is FinishReason.PAUSE:
            self._ledger.add("stop_reason", LossKind.CONVERTED, "the paused turn ends here")
        if finish.category is not None:
            self._lose("stop_details.category", NO_COUNTERPART)

    def _lose(self, path: str, detail: str) -> None:
        self._ledger.add(path, LossKind.KNOB, detail)


def _tier_name(tier: str) -> str | None:
    """The tier by its name in Chat; None if it has none."""
    if tier in wire.SERVICE_TIERS:
        return tier
    return "priority" if tier == "ultrafast" else None


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

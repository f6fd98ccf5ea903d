"""Writes the client's answer, streamed or whole.

Visibility of each block and reported losses are decided here for both;
`output` renders it as frames or collects it in one object.
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
    UrlCitation,
    WebSearch,
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
from dragoman.canonical.losses import Ledger, LossKind
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
    Visibility,
    is_redacted,
    signature_of,
    tool_use_head,
)
from dragoman.protocols.anthropic_messages.web_search import shown_call, shown_result
from dragoman.protocols.base import Reply, to_json_text
from dragoman.protocols.fields import JsonObject

_OPEN = State.OPEN
_SEARCH_ID = "srvtoolu_"


class _Block(Struct, eq=False):
    """A hidden block, and the base of the kinds that are shown."""

    out: Output

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

    _single: bool
    _ledger: Ledger

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
            # This protocol's citations have an index that only its maker can write.
            detail = "citations of another vendor were left out"
            self._ledger.add("annotations", LossKind.KNOB, detail)
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

    _words: list[str]

    def delta(self, text: str) -> bytes:
        self._words.append(text)
        return b"" if self._single else super().delta(text)


class _ThinkingBlock(_Block):
    """Reasoning, signed at its end with the upstream's state."""

    _head: Reasoning
    _shown: bool
    _sealer: Sealer
    _ledger: Ledger
    _parts: list[str] = []
    _pieces: list[str] = []
    _started: bool = False

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        if not self._shown or self._head.redacted or not text:
            return b""
        return self._start() + self.out.text(text)

    def part_break(self) -> bytes:
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return self.out.text("\n\n") if self._started else b""

    def seal(self, opaque: Opaque) -> None:
        self._head = replace(self._head, opaque=opaque)

    def close(self, cut: bool) -> bytes:
        last = "".join(self._pieces)
        parts = (*self._parts, last) if last or self._parts else ()
        block = replace(self._head, parts=parts)
        if block.opaque is not None and is_redacted(block):
            data = {"type": "redacted_thinking", "data": block.opaque.data}
            return self.out.start(data) + self.out.stop()
        if block.opaque is None and not any(parts):
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


class _HiddenThinking(_ThinkingBlock):
    """Reasoning that the client did not ask for. Only the state of the call that follows is given,
    which the upstream wants back with it."""

    def close(self, cut: bool) -> bytes:
        opaque = self._head.opaque
        if opaque is not None and opaque.anchor == "next":
            return super().close(cut)
        self._ledger.add("reasoning", LossKind.KNOB, "reasoning is not shown")
        return b""


class _ToolBlock(_Block):
    """A tool call whose arguments stream."""

    def delta(self, text: str) -> bytes:
        return self.out.text(text) if text else b""

    def close(self, cut: bool) -> bytes:
        return self.out.stop(cut=cut)


class _CustomBlock(_Block):
    """A call with free text, which becomes the one argument of a function."""

    _pieces: list[str] = []

    def delta(self, text: str) -> bytes:
        self._pieces.append(text)
        return b""

    def close(self, cut: bool) -> bytes:
        arguments = to_json_text(wrap_custom("".join(self._pieces)))
        return self.out.text(arguments) + self.out.stop()


class _SearchBlock(_Block):
    """A web search that the gateway makes: a call, and a block with what it found."""

    _id: str
    _sealer: Sealer
    _found: list[UrlCitation] = []
    _is_called: bool = False

    def delta(self, text: str) -> bytes:
        """The whole query."""
        self._is_called = True
        query = to_json_text({"query": text})
        return self.out.start(shown_call(self._id), INPUT) + self.out.text(query) + self.out.stop()

    def annotate(self, annotation: Annotation) -> bytes:
        if isinstance(annotation, UrlCitation):
            self._found.append(annotation)
        return b""

    def close(self, cut: bool) -> bytes:
        called = b"" if self._is_called else self.delta("")
        result = shown_result(self._id, self._found, self._sealer, failed=cut)
        return called + self.out.start(result) + self.out.stop()


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
        "_ledger",
        "_mint",
        "_model",
        "_out",
        "_refusal",
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
        self._request_id, self._mint = reply.request_id, reply.mint
        self._ledger = reply.ledger
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
                self._lose("logprobs", "token probabilities have no counterpart for the client")
            return self._block.delta(event.text)
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def resume(self, index: int, streamed: Streamed | None, *, live: bool) -> None:
        """Continue after the client was shown the blocks up to `index`, under the upstream's
        indexes; `live`: the last one is still open."""
        assert isinstance(self._out, Frames)
        self._out.resume(index, streamed, live=live)
        if live and isinstance(self._block, _ThinkingBlock):
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
                self._block = _TextBlock(out, visibility.single_text, self._ledger)
                return b""
            # No client could parse it.
            self._lose("content", "remarks beside the JSON answer were left out")
        elif type(head) is ToolCall:
            self._calls = True
            if head.namespace is not None:
                self._lose("namespace", "namespaces of tools have no counterpart for the client")
            if head.custom:
                detail = "the text of a free-text call became its one argument"
                self._ledger.add("content", LossKind.CONVERTED, detail)
            self._block = _CustomBlock(out) if head.custom else _ToolBlock(out)
            return out.start(tool_use_head(head), INPUT)
        elif type(head) is Reasoning:
            thinking = _ThinkingBlock if visibility.reasoning else _HiddenThinking
            shown = visibility.reasoning and visibility.reasoning_text
            self._block = thinking(out, head, shown, self._sealer, self._ledger)
            return b""
        elif type(head) is WebSearch:
            self._block = _SearchBlock(out, self._mint(_SEARCH_ID), self._sealer)
            return b""
        elif type(head) is Refusal:
            if self._refusal is None:
                self._refusal = []
            single = visibility.single_text
            self._block = _RefusalBlock(out, single, self._ledger, self._refusal)
            return b""
        else:
            name, kind = type(head).__name__.lower(), LossKind.CONTENT
            if isinstance(head, Foreign):
                name, kind = head.type, head.loss
            detail = f"a block of type {name} cannot be shown to the client"
            self._ledger.add("content", kind, detail)
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
            # Clients read the valid part.
            detail = "the output limit cut the arguments of a tool call"
            self._ledger.add("content", LossKind.REPAIRED, detail)
        return b""

    def _write_metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        self._tier = event.service_tier or self._tier
        return b""

    def _write_ended(self, event: Ended) -> bytes:
        out, tier = self._out, self._tier
        if tier is not None and tier not in SHOWN_TIERS:
            self._lose("service_tier", "the service tier has no counterpart for the client")
        elif tier is not None and not out.shows_tier(tier):
            self._lose("service_tier", "the service tier was known only at the end")
        if event.moderation is not None:
            self._lose("moderation", "moderation has no counterpart for the client")
        refusal = None if self._refusal is None else "".join(self._refusal)
        return out.end(write_finish(self._finish, self._calls, refusal), self._usage, tier)

    def _write_failed(self, event: Failed) -> bytes:
        return error_event(event.fault, self._request_id)

    def _lose(self, path: str, detail: str) -> None:
        self._ledger.add(path, LossKind.KNOB, detail)


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

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
    Audio,
    Base64,
    Block,
    Document,
    Foreign,
    Image,
    Media,
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
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.losses import LossKind
from dragoman.canonical.tools import wrap_custom
from dragoman.canonical.usage import reported_tier
from dragoman.jsontext import object_of
from dragoman.protocols import google_wire
from dragoman.protocols.base import Reply
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.errors import error_frame
from dragoman.protocols.google_generate_content.finish import write_block, write_finish
from dragoman.protocols.google_generate_content.grounding import Grounding
from dragoman.protocols.google_generate_content.output import (
    Chunks,
    Output,
    Whole,
    write_logprobs,
)
from dragoman.protocols.google_signatures import write_signature
from dragoman.protocols.google_thinking import shows_thoughts

KEEPALIVE = b"\n"
"""An empty line between two chunks: all clients ignore it, while comments break some."""

_OPEN = State.OPEN
_NO_COUNTERPART = "has no counterpart for the client"
_SIGNATURE = "thoughtSignature"


class _Signatures(Struct, eq=False):
    """The opaque state that waits for the part it goes on: envelopes of other vendors' for the next
    call, or the end; the vendor's own for the part where it stood."""

    envelopes: list[str] = []
    own: str = ""

    def taken(self) -> JsonObject:
        """The member of a part, and nothing waits after that; none if nothing did."""
        signature = self.own
        if not signature and self.envelopes:
            signature = write_signature(self.envelopes)
        self.own = ""
        self.envelopes.clear()
        return {_SIGNATURE: signature} if signature else {}


class GoogleWriter:
    """The writer of one answer; see `base.AnswerWriter`."""

    long_texts: Sequence[bytes] = ()
    """No event repeats a text."""

    __slots__ = (
        "_annotations",
        "_block",
        "_finish",
        "_grounding",
        "_held",
        "_ledger",
        "_names",
        "_opaque",
        "_out",
        "_part_bytes",
        "_parts",
        "_pieces",
        "_readable",
        "_refusal",
        "_request_id",
        "_sealer",
        "_shows_logprobs",
        "_shows_reasoning",
        "_signatures",
        "_state",
        "_tier",
        "_visible",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        # Not the reply, which refers to the client's whole request: a stream may be long.
        self._names = reply.id, reply.model
        self._request_id = reply.request_id
        self._ledger = reply.ledger
        self._sealer: Sealer = reply.sealer
        self._shows_reasoning = shows_thoughts(reply)
        self._readable = reply.options.show_reasoning != "never"
        """Whether the client may be given other vendors' reasoning at all."""
        self._shows_logprobs = reply.request.logprobs
        self._out: Output = Chunks() if streamed else Whole()
        self._state = State.NEW
        self._block: Block | None = None
        """The open block; None if the client is shown nothing of it."""
        self._pieces: list[str] = []
        """The text of the open block, where it is needed as a whole."""
        self._parts: list[str] = []
        """Parts of the open reasoning before the last."""
        self._opaque: Opaque | None = None
        self._annotations: list[Annotation] = []
        self._grounding: Grounding | None = None
        self._signatures = _Signatures()
        self._held: JsonObject | None = None
        """A part whose signature may follow."""
        self._visible: tuple[int, str] = -1, ""
        """Number of parts so far less one, as clients join them, and the kind of the last."""
        self._part_bytes = 0
        """Bytes of the last part, if it is a text."""
        self._refusal: list[str] = []
        self._finish = Finish(FinishReason.STOP)
        self._tier: str | None = None

    def write(self, event: Event) -> bytes:
        """The frames of one event, possibly none."""
        if type(event) is Delta and self._state is _OPEN:
            return self._delta(event)
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def answer(self) -> JsonObject:
        """The whole answer. Raises RuntimeError where it is streamed."""
        return self._out.answer()

    def keepalive(self) -> bytes:
        """An empty line."""
        return KEEPALIVE

    # --- the answer as a whole ------------------------------------------------------------------

    def _started(self, event: Started) -> bytes:
        self._out.begin(*self._names)
        self._tier = event.service_tier
        if event.usage is not None:
            self._out.meter(event.usage)
        return b""

    def _metered(self, event: Metered) -> bytes:
        self._out.meter(event.usage)
        self._tier = event.service_tier or self._tier
        return b""

    def _finished(self, event: Finished) -> bytes:
        self._finish = event.finish
        return b""

    def _ended(self, event: Ended) -> bytes:
        finish = self._finish
        if finish.reason is FinishReason.PAUSE:
            self._ledger.add("stop_reason", LossKind.CONVERTED, "the paused turn ends here")
        if finish.stop_sequence is not None:
            self._lose("stop_sequence", "the matched stop sequence is not named")
        if reported_tier(self._tier) is not None:
            self._lose("service_tier", f"the service tier {_NO_COUNTERPART}")
        if event.moderation is not None:
            self._lose("moderation", f"moderation {_NO_COUNTERPART}")
        if finish.of_prompt and self._visible[0] < 0:
            return self._out.block({"blockReason": write_block(finish)})
        members: JsonObject = {"finishReason": write_finish(finish)}
        if self._refusal:
            members = {"finishReason": "SAFETY", "finishMessage": "".join(self._refusal)}
        grounding = None if self._grounding is None else self._grounding.written()
        if grounding is not None:
            members["groundingMetadata"] = grounding
        released = self._release()
        return released + self._out.end({"text": "", **self._signatures.taken()}, members)

    def _failed(self, event: Failed) -> bytes:
        return error_frame(event.fault, self._request_id)

    # --- blocks ---------------------------------------------------------------------------------

    def _opened(self, event: Opened) -> bytes:
        block = event.block
        self._block = block
        self._pieces.clear()
        if type(block) is Reasoning:
            self._parts.clear()
            self._opaque = block.opaque
            return b""
        released = self._release()
        if self._signatures.own and type(block) is not ToolCall:
            # It stood on a text before: on a part of its own, since that is sent.
            released += self._part({"text": "", **self._signatures.taken()}, "signature")
        if type(block) is ToolCall or type(block) is WebSearch:
            return released
        if type(block) is Text:
            self._begin("text")
        elif type(block) is Refusal:
            detail = "the refusal became text and the message of the finish reason"
            self._ledger.add("content", LossKind.CONVERTED, detail)
            self._begin("text")
        elif isinstance(block, Foreign) and block.origin == wire.NAME:
            self._held = dict(block.raw)
        else:
            self._held = _file_part(block)
            if self._held is None:
                self._lose_block(block)
        return released

    def _lose_block(self, block: Block) -> None:
        self._block = None
        kind, name = LossKind.CONTENT, type(block).__name__.lower()
        if isinstance(block, Foreign):
            kind, name = block.loss, block.type
        self._ledger.add(block.path or "content", kind, f"{name} cannot be shown to the client")

    def _begin(self, kind: str) -> None:
        """Count the parts as clients join them."""
        number, last = self._visible
        if last != kind or kind not in ("text", "thought"):
            self._visible = number + 1, kind
            self._part_bytes = 0

    def _part(self, part: JsonObject, kind: str) -> bytes:
        self._begin(kind)
        return self._out.part(part)

    def _release(self) -> bytes:
        """The held part, with its signature if that came."""
        held, self._held = self._held, None
        if held is None:
            return b""
        signature = self._signatures.taken() if self._signatures.own else {}
        return self._part({**held, **signature}, "part")

    def _delta(self, event: Delta) -> bytes:
        kind, text = type(self._block), event.text
        if kind is Text:
            self._pieces.append(text)
            if event.logprobs is not None:
                if self._shows_logprobs and text:
                    return self._out.text_with_logprobs(text, write_logprobs(event.logprobs))
                self._lose("logprobs", "token probabilities of no text, or not asked for")
            return self._out.text(text, thought=False) if text else b""
        self._pieces.append(text)
        if kind is Reasoning and self._shows_reasoning and text:
            released = self._release()
            self._begin("thought")
            return released + self._out.text(text, thought=True)
        if kind is Refusal and text:
            self._refusal.append(text)
            return self._out.text(text, thought=False)
        return b""

    def _part_break(self, event: PartBreak) -> bytes:
        if type(self._block) is not Reasoning:
            return b""
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return self._out.text("\n\n", thought=True) if self._shows_reasoning else b""

    def _annotated(self, event: Annotated) -> bytes:
        if type(self._block) is Text:
            self._annotations.append(event.annotation)
        elif type(self._block) is WebSearch and isinstance(event.annotation, UrlCitation):
            self._sources().found(event.annotation.url, event.annotation.title)
        return b""

    def _sealed(self, event: Sealed) -> bytes:
        if type(self._block) is Reasoning:
            self._opaque = event.opaque
        return b""

    def _closed(self, event: Closed) -> bytes:
        block, self._block = self._block, None
        text = "".join(self._pieces)
        self._pieces.clear()
        if type(block) is Text or type(block) is Refusal:
            if self._annotations:
                number, _ = self._visible
                self._sources().cite(self._annotations, text, number, self._part_bytes)
                self._annotations.clear()
            self._part_bytes += len(text.encode("utf-8", "surrogatepass"))
        elif type(block) is ToolCall:
            return self._close_call(block, text, event.cut)
        elif type(block) is Reasoning:
            return self._close_reasoning(block, text)
        elif type(block) is WebSearch:
            self._sources().searched(block.query + text)
            for url in block.sources:
                self._sources().found(url)
        return b""

    def _sources(self) -> Grounding:
        if self._grounding is None:
            self._grounding = Grounding(self._ledger)
        return self._grounding

    def _close_call(self, call: ToolCall, text: str, cut: bool) -> bytes:
        if cut:
            detail = "the output limit cut the arguments of a tool call, which was left out"
            self._ledger.add("content", LossKind.REPAIRED, detail)
            return b""
        if call.namespace is not None:
            self._lose("namespace", "namespaces of tools have no counterpart for the client")
        arguments: Any
        if call.custom:
            detail = "the text of a free-text call became its one argument"
            self._ledger.add("content", LossKind.CONVERTED, detail)
            arguments = wrap_custom(text)
        else:
            arguments = object_of(text) if text.strip() else {}
        if arguments is None:
            detail = "the arguments are not a JSON object: wrapped in one"
            self._ledger.add("content", LossKind.CONVERTED, detail)
            arguments = {"invalid_arguments": text}
        function: JsonObject = {"name": call.name, "args": arguments}
        if call.id:
            function["id"] = call.id
        part = {"functionCall": function, **self._signatures.taken()}
        return self._part(part, "call")

    def _close_reasoning(self, block: Reasoning, text: str) -> bytes:
        opaque = self._opaque
        if opaque is None:
            return b""
        if opaque.origin == wire.NAME:
            return self._sign(opaque, bool(text or self._parts))
        if not self._readable:
            self._lose("reasoning", "reasoning is not shown")
            return b""
        parts = (*self._parts, text) if text or self._parts else ()
        sealed = self._sealer.seal(replace(block, parts=parts, opaque=opaque))
        self._signatures.envelopes.append(sealed)
        return b""

    def _sign(self, opaque: Opaque, has_text: bool) -> bytes:
        """Put the vendor's own signature where it stood: on the part that follows, on the one
        before, on the thought that ends here, or on a part of its own."""
        on_last = opaque.anchor == "previous" or (has_text and self._shows_reasoning)
        if on_last and self._held is None and self._out.sign(opaque.data):
            return b""
        self._signatures.own = opaque.data
        if opaque.anchor or not has_text:
            return b""
        return self._part({"text": "", "thought": True, **self._signatures.taken()}, "sign")

    def _lose(self, path: str, detail: str) -> None:
        self._ledger.add(path, LossKind.KNOB, detail)


def _file_part(block: Block) -> JsonObject | None:
    """The part of a picture, recording or file in an answer; None if it cannot be shown."""
    match block:
        case Image(source=Base64(media_type, data)) | Document(source=Base64(media_type, data)):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case Media(source=Base64(_, data), media_type=media_type):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case Audio():
            media_type = google_wire.AUDIO_TYPES.get(block.format, f"audio/{block.format}")
            return {"inlineData": {"mimeType": media_type, "data": block.data}}
    return None


_WRITERS: dict[type, Callable[[GoogleWriter, Any], bytes]] = {
    Started: GoogleWriter._started,
    Opened: GoogleWriter._opened,
    PartBreak: GoogleWriter._part_break,
    Annotated: GoogleWriter._annotated,
    Sealed: GoogleWriter._sealed,
    Closed: GoogleWriter._closed,
    Finished: GoogleWriter._finished,
    Metered: GoogleWriter._metered,
    Ended: GoogleWriter._ended,
    Failed: GoogleWriter._failed,
}
_STEPS = steps(_WRITERS)

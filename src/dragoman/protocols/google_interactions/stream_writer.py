"""Writes the client's answer, streamed or whole: each block is a step.

The state is the interaction; the events of a stream show its steps piece by piece. A step starts
with its first content, and what belongs to all of it (citations, a signature) comes last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

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
from dragoman.canonical.call_ids import made_id
from dragoman.canonical.errors import UpstreamError
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
from dragoman.canonical.finish import FinishReason
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.losses import LossKind
from dragoman.canonical.tools import wrap_custom
from dragoman.canonical.usage import Usage, reported_tier
from dragoman.jsontext import object_of
from dragoman.protocols import google_wire
from dragoman.protocols.base import Reply, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.errors import END, blocked, error_in_stream, frame
from dragoman.protocols.google_interactions.usage import write_usage
from dragoman.protocols.google_signatures import write_signature
from dragoman.protocols.google_thinking import shows_thoughts
from dragoman.protocols.partial_json import read_cut_object
from dragoman.sse import COMMENT

_NO_COUNTERPART: Final = "has no counterpart for the client"
_STATUSES: Final = {
    FinishReason.STOP: "completed",
    FinishReason.STOP_SEQUENCE: "completed",
    FinishReason.PAUSE: "completed",
    FinishReason.TOOL_CALLS: "requires_action",
    FinishReason.LENGTH: "incomplete",
    FinishReason.CONTEXT_WINDOW: "incomplete",
}
_TIERS: Final = {tier: word for word, tier in google_wire.SERVICE_TIERS.items()}


class InteractionsWriter:
    """The writer of one answer; see `base.AnswerWriter`."""

    long_texts: Sequence[bytes] = ()
    """No event repeats a text."""

    __slots__ = (
        "_annotations",
        "_answer",
        "_block",
        "_events",
        "_index",
        "_ledger",
        "_opaque",
        "_parts",
        "_pieces",
        "_readable",
        "_sealer",
        "_searches",
        "_shows_reasoning",
        "_state",
        "_step",
        "_streamed",
        "_usage",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        self._streamed = streamed
        self._ledger = reply.ledger
        self._sealer = reply.sealer
        self._shows_reasoning = shows_thoughts(reply)
        self._readable = reply.options.show_reasoning != "never"
        """Whether the client may be given other vendors' reasoning at all."""
        time = time_of(reply.created)
        self._answer: JsonObject = {
            "id": reply.id,
            "object": "interaction",
            "model": reply.model,
            "status": "in_progress",
            "created": time,
            "updated": time,
            "steps": [],
        }
        self._answer |= reply.request.source
        self._state = State.NEW
        self._events = 0
        self._index = 0
        """Index of the open step, or of the next."""
        self._step: JsonObject | None = None
        """The open step; its texts and arguments are in `_pieces`."""
        self._block: Block | None = None
        """The open block; None if the client is shown nothing of it."""
        self._pieces: list[str] = []
        self._parts: list[str] = []
        """Parts of the open reasoning before the last."""
        self._opaque: Opaque | None = None
        self._annotations: list[Annotation] = []
        self._searches = 0
        self._usage: Usage | None = None

    def write(self, event: Event) -> bytes:
        """The frames of one event, possibly none."""
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def resume(self, index: int, events: int) -> None:
        """Continue after the client was shown so many events, the last step of that index."""
        self._index = index if self._step is not None else index + 1
        self._events = events

    def answer(self) -> JsonObject:
        """The whole answer."""
        return self._answer

    def keepalive(self) -> bytes:
        """A comment."""
        return COMMENT

    # --- events ---------------------------------------------------------------------------------

    def _event(self, kind: str, members: JsonObject) -> bytes:
        """The frame of one event, with the next id."""
        if not self._streamed:
            return b""
        self._events += 1
        return frame({"event_type": kind, **members, "event_id": f"e{self._events}"})

    def _piece(self, delta: JsonObject) -> bytes:
        return self._event("step.delta", {"index": self._index, "delta": delta})

    def _begin(self, step: JsonObject, **shown: Any) -> bytes:
        """Begin a step. The event shows it with these members besides."""
        self._step = step
        return self._event("step.start", {"index": self._index, "step": {**step, **shown}})

    def _end(self, **members: Any) -> bytes:
        """End the open step, which has these members in a whole answer."""
        step, self._step = self._step, None
        if step is None:
            return b""
        if not self._streamed:
            self._answer["steps"].append({**step, **members})
        frames = self._event("step.stop", {"index": self._index})
        self._index += 1
        return frames

    def _all(self, step: JsonObject, deltas: Iterable[JsonObject] = (), **members: Any) -> bytes:
        """A step that is known as a whole."""
        frames = self._begin(step)
        return frames + b"".join([*map(self._piece, deltas), self._end(**members)])

    # --- the answer as a whole ------------------------------------------------------------------

    def _started(self, event: Started) -> bytes:
        if event.created:
            self._answer["created"] = self._answer["updated"] = time_of(event.created)
        self._note_tier(event.service_tier)
        return self._announced()

    def _announced(self) -> bytes:
        shown = {name: value for name, value in self._answer.items() if name != "steps"}
        created = self._event("interaction.created", {"interaction": shown})
        return created + self._status()

    def _status(self) -> bytes:
        members = {"interaction_id": self._answer["id"], "status": self._answer["status"]}
        return self._event("interaction.status_update", members)

    def _note_tier(self, tier: str | None) -> None:
        if tier in _TIERS and tier != "default":
            self._answer["service_tier"] = _TIERS[tier]
        elif reported_tier(tier) is not None:
            self._lose("service_tier", f"the service tier {_NO_COUNTERPART}")

    def _metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        self._note_tier(event.service_tier)
        return b""

    def _finished(self, event: Finished) -> bytes:
        """Note the end.

        Raises:
            UpstreamError: a filter withheld the answer, which the protocol has an error for.
        """
        finish = event.finish
        if finish.reason is FinishReason.CONTENT_FILTER:
            raise UpstreamError(blocked(finish.category))
        if finish.reason is FinishReason.PAUSE:
            self._ledger.add("stop_reason", LossKind.CONVERTED, "the paused turn ends here")
        if finish.stop_sequence is not None:
            self._lose("stop_sequence", "the matched stop sequence is not named")
        self._answer["status"] = _STATUSES[finish.reason]
        return b""

    def _ended(self, event: Ended) -> bytes:
        if event.moderation is not None:
            self._lose("moderation", f"moderation {_NO_COUNTERPART}")
        self._answer["usage"] = write_usage(self._usage)
        if not self._streamed:
            return b""
        shown = {name: value for name, value in self._answer.items() if name != "steps"}
        frames = self._status()
        return frames + self._event("interaction.completed", {"interaction": shown}) + END

    def _failed(self, event: Failed) -> bytes:
        return self._event("error", error_in_stream(event.fault)) + END if self._streamed else b""

    # --- blocks ---------------------------------------------------------------------------------

    def _opened(self, event: Opened) -> bytes:
        self._block = block = event.block
        self._pieces.clear()
        match block:
            case Reasoning():
                self._parts.clear()
                self._opaque = block.opaque
            case Text():
                return self._begin({"type": "model_output"})
            case Refusal():
                self._ledger.add("content", LossKind.CONVERTED, "the refusal became text")
                return self._begin({"type": "model_output"})
            case ToolCall():
                if block.namespace is not None:
                    detail = "namespaces of tools have no counterpart for the client"
                    self._lose("namespace", detail)
                call = {"type": "function_call", "id": block.id, "name": block.name}
                return self._begin(call, arguments={})
            case Foreign(origin=wire.NAME):
                return self._all(dict(block.raw))
            case WebSearch():
                pass
            case _:
                return self._file(block)
        return b""

    def _file(self, block: Block) -> bytes:
        content = _file_content(block)
        if content is not None:
            return self._all({"type": "model_output"}, [content], content=[content])
        self._block = None
        kind, name = LossKind.CONTENT, type(block).__name__.lower()
        if isinstance(block, Foreign):
            kind, name = block.loss, block.type
        self._ledger.add(block.path or "content", kind, f"{name} cannot be shown to the client")
        return b""

    def _delta(self, event: Delta) -> bytes:
        text, block = event.text, self._block
        if event.logprobs is not None:
            self._lose("logprobs", "token probabilities have no counterpart for the client")
        if not text:
            return b""
        self._pieces.append(text)
        if type(block) is Text or type(block) is Refusal:
            return self._piece({"type": "text", "text": text})
        if type(block) is ToolCall and not block.custom:
            return self._piece({"type": "arguments_delta", "arguments": text})
        if type(block) is Reasoning and self._shows_reasoning:
            return self._thought(text)
        return b""

    def _thought(self, text: str) -> bytes:
        """A piece of a thought, which begins its step if it is the first."""
        begun = self._begin({"type": "thought"}) if self._step is None else b""
        content = {"type": "text", "text": text}
        return begun + self._piece({"type": "thought_summary", "content": content})

    def _part_break(self, event: PartBreak) -> bytes:
        if type(self._block) is not Reasoning:
            return b""
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return self._thought("\n\n") if self._shows_reasoning else b""

    def _annotated(self, event: Annotated) -> bytes:
        if type(self._block) is Text:
            self._annotations.append(event.annotation)
        elif type(self._block) is WebSearch:
            self._lose("sources", "the pages that a search found have no counterpart")
        return b""

    def _sealed(self, event: Sealed) -> bytes:
        if type(self._block) is Reasoning:
            self._opaque = event.opaque
        return b""

    def _closed(self, event: Closed) -> bytes:
        block, self._block = self._block, None
        text = "".join(self._pieces)
        self._pieces.clear()
        match block:
            case Text() | Refusal():
                return self._close_text(text)
            case ToolCall():
                return self._close_call(block, text, event.cut)
            case Reasoning():
                return self._close_thought(block, text)
            case WebSearch():
                return self._close_search(block, block.query + text)
        return b""

    def _close_text(self, text: str) -> bytes:
        content: JsonObject = {"type": "text", "text": text}
        cited = [
            written
            for annotation in self._annotations
            if (written := self._citation(annotation, text)) is not None
        ]
        self._annotations.clear()
        frames = b""
        if cited:
            content["annotations"] = cited
            frames = self._piece({"type": "text_annotation_delta", "annotations": cited})
        return frames + self._end(content=[content])

    def _citation(self, annotation: Annotation, text: str) -> JsonObject | None:
        """A citation, whose place counts bytes."""
        if not isinstance(annotation, UrlCitation):
            self._lose("annotations", "only citations of pages can be shown")
            return None
        if annotation.cited_text is not None:
            self._lose("citations", "citations do not quote")
        start, end = annotation.start, annotation.end
        if start is None or end is None or not 0 <= start <= end <= len(text):
            start, end = 0, len(text)
        first = len(text[:start].encode())
        return {
            "type": "url_citation",
            "url": annotation.url,
            **({"title": annotation.title} if annotation.title else {}),
            "start_index": first,
            "end_index": first + len(text[start:end].encode()),
        }

    def _close_call(self, call: ToolCall, text: str, cut: bool) -> bytes:
        frames = b""
        arguments: Any
        if call.custom:
            detail = "the text of a free-text call became its one argument"
            self._ledger.add("content", LossKind.CONVERTED, detail)
            arguments = wrap_custom(text)
            frames = self._piece({"type": "arguments_delta", "arguments": to_json_text(arguments)})
        elif cut:
            detail = "the output limit cut the arguments of a tool call"
            self._ledger.add("content", LossKind.REPAIRED, detail)
            arguments = read_cut_object(text)
        else:
            arguments = object_of(text) or {}
        return frames + self._end(arguments=arguments)

    def _close_thought(self, block: Reasoning, text: str) -> bytes:
        """The signature of a thought, which is its last piece: the vendor's own as it is, the state
        of another's in an envelope."""
        parts = (*self._parts, text) if text or self._parts else ()
        opaque, signature = self._opaque, ""
        if opaque is not None and opaque.origin == wire.NAME:
            signature = opaque.data.translate(google_wire.STANDARD)
        elif opaque is not None and self._readable:
            sealed = self._sealer.seal(replace(block, parts=parts, opaque=opaque))
            signature = write_signature([sealed])
        elif opaque is not None:
            self._lose("reasoning", "reasoning is not shown")
        if self._step is None and not signature:
            return b""
        frames = b"" if self._step is not None else self._begin({"type": "thought"})
        members: JsonObject = {}
        if parts and self._shows_reasoning:
            members["summary"] = [{"type": "text", "text": "\n\n".join(parts)}]
        if signature:
            members["signature"] = signature
            frames += self._piece({"type": "thought_signature", "signature": signature})
        return frames + self._end(**members)

    def _close_search(self, block: WebSearch, query: str) -> bytes:
        self._searches += 1
        call_id = made_id("search_", f"{self._answer['id']}:{self._searches}")
        if block.sources:
            self._lose("sources", "the pages that a search found have no counterpart")
        arguments = {"queries": [query] if query else []}
        called = self._all({"type": wire.SEARCH_CALL, "id": call_id, "arguments": arguments})
        return called + self._all({"type": wire.SEARCH_RESULT, "call_id": call_id, "result": []})

    def _lose(self, path: str, detail: str) -> None:
        self._ledger.add(path, LossKind.KNOB, detail)


def time_of(seconds: int) -> str:
    """A time as the service writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _file_content(block: Block) -> JsonObject | None:
    """The content of a picture, recording or file in an answer; None if it cannot be shown."""
    match block:
        case Image(source=Base64(media_type, data)):
            return {"type": "image", "mime_type": media_type, "data": data}
        case Document(source=Base64(media_type, data)):
            return {"type": "document", "mime_type": media_type, "data": data}
        case Media(source=Base64(_, data), media_type=media_type):
            family = media_type.partition("/")[0]
            kind = family if family in wire.MEDIA else "document"
            return {"type": kind, "mime_type": media_type, "data": data}
        case Audio():
            media_type = google_wire.AUDIO_TYPES.get(block.format, f"audio/{block.format}")
            return {"type": "audio", "mime_type": media_type, "data": block.data}
    return None


_WRITERS: dict[type, Callable[[InteractionsWriter, Any], bytes]] = {
    Started: InteractionsWriter._started,
    Opened: InteractionsWriter._opened,
    Delta: InteractionsWriter._delta,
    PartBreak: InteractionsWriter._part_break,
    Annotated: InteractionsWriter._annotated,
    Sealed: InteractionsWriter._sealed,
    Closed: InteractionsWriter._closed,
    Finished: InteractionsWriter._finished,
    Metered: InteractionsWriter._metered,
    Ended: InteractionsWriter._ended,
    Failed: InteractionsWriter._failed,
}
_STEPS = steps(_WRITERS)

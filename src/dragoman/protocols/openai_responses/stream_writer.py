"""Writes a stream for a Responses client (grammar: protocols 2.3; what strict clients check:
protocols 5.3 to 5.6).

Items open when their first content comes and are finished when the next one opens or the answer
ends, for only then it is known whether the last one was cut. Blocks of text that follow each
other are one part, and a refusal is a further part of the same message.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from dragoman.canonical.blocks import (
    Annotation,
    Block,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
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
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.grammar import State, step
from dragoman.canonical.losses import LossKind
from dragoman.canonical.responses import FinishReason
from dragoman.protocols.base import Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.annotations import write_annotation
from dragoman.protocols.openai_responses.errors import error_object, failed_object
from dragoman.protocols.openai_responses.outcome import Status, write_finish, write_usage
from dragoman.protocols.openai_responses.output_items import call_prefix
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.openai_responses.skeleton import Skeleton, required_action
from dragoman.protocols.openai_responses.stream_items import (
    CallItem,
    DeltaLine,
    Frames,
    HiddenReasoning,
    Item,
    MessageItem,
    ReasoningItem,
    SearchItem,
)
from dragoman.protocols.openai_responses.web_search import tells_sources, tool_usage
from dragoman.sse import COMMENT, DONE, encode

_IN_PROGRESS: Final = Status("in_progress", None, "in_progress")
_FAILED: Final = Status("failed", None, "incomplete")


class ResponsesWriter:
    """Turns events in grammatical order into the bytes of one stream."""

    __slots__ = (
        "_block_start",
        "_frames",
        "_head",
        "_item",
        "_ledger",
        "_line",
        "_mint",
        "_options",
        "_pending",
        "_pieces",
        "_sealer",
        "_skeleton",
        "_state",
        "_status",
        "_tells_sources",
        "_usage",
        "_waits",
    )

    def __init__(self, reply: Reply) -> None:
        # The reply holds the client's whole request and must not live as long as the stream.
        self._skeleton = Skeleton(reply)
        self._ledger = reply.ledger
        self._sealer = reply.sealer
        self._mint = reply.mint
        self._options = reply.options
        self._frames = Frames()
        self._state = State.NEW
        self._status = _IN_PROGRESS
        self._waits = False
        self._usage = write_usage(None)
        self._item: Item | None = None
        self._head: Block = Text(text="")
        self._block_start = 0
        self._tells_sources = tells_sources(reply)
        self._pending: list[UrlCitation] = []
        self._line: DeltaLine | None = None
        self._pieces: list[str] = []

    def write(self, event: Event) -> bytes:
        """The frames of one event, possibly none.

        Raises:
            IllegalEvent: the event is out of order.
        """
        before = self._state
        self._state = step(before, event)
        match event:
            case Delta():
                text = event.text
                if self._line is not None and text and event.logprobs is None:
                    self._pieces.append(text)
                    return self._line.write(text)
                return self._delta(event)
            case Opened():
                return self._opened(event.block)
            case Closed():
                return self._closed()
            case PartBreak():
                return self._part_break()
            case Annotated():
                return self._annotated(event.annotation)
            case Sealed():
                if isinstance(self._item, ReasoningItem | HiddenReasoning):
                    self._item.opaque = event.opaque
                return b""
            case Started():
                return self._started(event)
            case Metered():
                self._usage = write_usage(event.usage)
                if event.usage.searches:
                    self._skeleton.tool_usage = tool_usage(event.usage.searches)
                self._skeleton.tier = event.service_tier or self._skeleton.tier
                return b""
            case Finished():
                return self._finished(event)
            case Ended():
                return self._ended(event)
            case Failed():
                return self._failed(event, begun=before is not State.NEW)

    def _started(self, event: Started) -> bytes:
        self._skeleton.created = event.created or self._skeleton.created
        self._skeleton.tier = event.service_tier or self._skeleton.tier
        return self._announce()

    def _announce(self) -> bytes:
        members = b'"response":' + self._skeleton.render(_IN_PROGRESS, [])
        created = self._frames.write_raw("response.created", members)
        return created + self._frames.write_raw("response.in_progress", members)

    def _opened(self, block: Block) -> bytes:
        self._head = block
        item = self._item
        match block:
            case Text() | Refusal() if isinstance(item, MessageItem):
                if isinstance(block, Refusal) or block.phase == item.phase:
                    self._block_start = item.length()
                    return b""
        finished = self._finish_item("completed")
        self._block_start = 0
        match block:
            case ToolCall():
                call = CallItem(self._frames, self._mint(call_prefix(block)), block)
                self._item = call
                self._line, self._pieces = call.line, call.pieces
                return finished + call.opening
            case Reasoning():
                return finished + self._open_reasoning(block)
            case Text() | Refusal():
                return finished
            case WebSearch():
                search = SearchItem(
                    self._frames, self._mint("ws_"), block, tells_sources=self._tells_sources
                )
                self._item = search
                return finished + search.opening
        detail = f"{type(block).__name__.lower()} blocks have no counterpart"
        self._ledger.add("content", LossKind.KNOB, detail)
        return finished

    def _open_reasoning(self, block: Reasoning) -> bytes:
        opaque = block.opaque
        item_id = self._mint("rs_")
        if self._options.show_reasoning == "never":
            self._ledger.add("reasoning", LossKind.KNOB, "reasoning is not shown")
            self._item = HiddenReasoning(self._frames, item_id, block, self._sealer)
            return b""
        as_summary = (
            block.style == "summary" or self._options.of(ResponsesOptions).reasoning_as == "summary"
        )
        item = ReasoningItem(self._frames, item_id, block, self._sealer, as_summary=as_summary)
        item.opaque = opaque
        self._item = item
        return item.opening

    def _delta(self, event: Delta) -> bytes:
        """A delta that opens something, or that is unusual."""
        text, logprobs = event.text, event.logprobs
        if not text and not logprobs:
            return b""
        match self._head:
            case Text():
                opened, item = self._open_text(refusing=False)
                if logprobs:
                    return opened + item.with_logprobs(text, logprobs)
            case Refusal():
                opened, item = self._open_text(refusing=True)
            case Reasoning():
                return self._reasoning_delta(text)
            case ToolCall():
                return self._grow(text)
            case _:
                return self._item.search(text) if isinstance(self._item, SearchItem) else b""
        self._line, self._pieces = item.line, item.pieces
        return opened + self._grow(text)

    def _grow(self, text: str) -> bytes:
        self._pieces.append(text)
        return b"" if self._line is None else self._line.write(text)

    def _reasoning_delta(self, text: str) -> bytes:
        item = self._item
        if isinstance(item, HiddenReasoning):
            item.pieces.append(text)
            return b""
        if not isinstance(item, ReasoningItem):
            return b""
        opened = item.open_part()
        self._line, self._pieces = item.line, item.pieces
        return opened + self._grow(text)

    def _open_text(self, *, refusing: bool) -> tuple[bytes, MessageItem]:
        """The message that the current block belongs to, with a part of its kind open."""
        opened = b""
        item = self._item
        if not isinstance(item, MessageItem):
            phase = self._head.phase if isinstance(self._head, Text) else None
            item = MessageItem(self._frames, self._mint("msg_"), phase)
            self._item = item
            opened = item.opening
        before = item.line
        opened += item.open_part(refusing=refusing)
        if item.line is not before:
            self._block_start = 0
        return opened, item

    def _part_break(self) -> bytes:
        item = self._item
        self._line = None
        if isinstance(item, HiddenReasoning):
            item.end_part()
            return b""
        if not isinstance(item, ReasoningItem):
            return b""
        broken = item.open_part() + item.end_part() + item.open_part()
        self._line, self._pieces = item.line, item.pieces
        return broken

    def _annotated(self, annotation: Annotation) -> bytes:
        if not isinstance(self._head, Text):
            if isinstance(self._item, SearchItem) and isinstance(annotation, UrlCitation):
                self._item.sources.append(annotation.url)
            return b""
        if isinstance(annotation, UrlCitation):
            if annotation.cited_text is not None:
                self._ledger.add("citations", LossKind.KNOB, "citations do not quote")
            if annotation.start is None or annotation.end is None:
                # The span is the whole block, whose end is not known yet.
                self._pending.append(annotation)
                return b""
        return self._annotate(annotation)

    def _annotate(self, annotation: Annotation) -> bytes:
        opened, item = self._open_text(refusing=False)
        length = item.length() - self._block_start
        written = write_annotation(annotation, self._block_start, length)
        if written is None:
            detail = "such a citation has no counterpart for the client"
            self._ledger.add("citations", LossKind.KNOB, detail)
            return opened
        return opened + item.annotate(written)

    def _closed(self) -> bytes:
        self._line = None
        written = b"".join([self._annotate(annotation) for annotation in self._pending])
        self._pending.clear()
        return written

    def _finish_item(self, status: str) -> bytes:
        item, self._item = self._item, None
        self._line = None
        return b"" if item is None else item.finish(status)

    def answer(self) -> JsonObject:
        """Not kept: the answer is streamed."""
        raise NotImplementedError

    def keepalive(self) -> bytes:
        """A sign of life: a comment, or an event that counts where the client wants one."""
        if self._options.keepalive == "usual" or self._state is State.NEW:
            return COMMENT
        return self._frames.write_raw("ping", b"")

    def _finished(self, event: Finished) -> bytes:
        self._waits = event.finish.reason is FinishReason.TOOL_CALLS
        self._status = write_finish(event.finish, self._options, self._ledger)
        finished = self._finish_item(self._status.last_item)
        if self._frames.done:
            return finished
        # Clients expect at least one item.
        item = MessageItem(self._frames, self._mint("msg_"), None)
        part = item.open_part(refusing=False)
        return finished + item.opening + part + item.finish(self._status.last_item)

    def _ended(self, event: Ended) -> bytes:
        status = self._status
        completed = status.response == "completed"
        action = None
        if self._waits and self._options.of(ResponsesOptions).tool_turn == "required_action":
            action = required_action(map(msgspec.json.decode, self._frames.done))
        at = max(self._skeleton.created, int(time.time())) if completed and not action else None
        response = self._skeleton.render(
            status,
            self._frames.done,
            usage=self._usage,
            completed_at=at,
            moderation=event.moderation,
            action=action,
        )
        asked = b"" if action is None else self._ask(action, response)
        return asked + self._terminal(status, response)

    def _ask(self, action: JsonObject, response: bytes) -> bytes:
        members = b'"response":%b,"required_action":%b' % (response, to_json(action))
        return self._frames.write_raw("response.required_action", members)

    def _failed(self, event: Failed, *, begun: bool) -> bytes:
        announced = b"" if begun else self._announce()
        told = b""
        if self._options.of(ResponsesOptions).failure_events == "error_and_failed":
            error = error_object(event.fault, self._options)
            # Some clients read the flat form, some the nested one.
            flat = {name: error[name] for name in ("code", "message", "param")}
            told = self._frames.write_raw("error", to_json({**flat, "error": error})[1:-1])
        response = self._skeleton.render(
            _FAILED, self._frames.done, error=failed_object(event.fault, self._options)
        )
        return announced + told + self._terminal(_FAILED, response)

    def _terminal(self, status: Status, response: bytes) -> bytes:
        event = self._frames.write_raw(f"response.{status.response}", b'"response":' + response)
        return event + encode(DONE) if self._options.of(ResponsesOptions).responses_done else event

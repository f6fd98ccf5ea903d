"""Writes the answer of a Responses client (grammar of streams: protocols 2.3; what strict clients
check: protocols 5.3 to 5.6).

The state is the response object, from which the frames of a stream are rendered; a whole answer is
its final value. Items start with their first content and end when the next one starts or the answer
ends, since only then it is known whether the last one was cut. Blocks of text that follow each
other are one part, and a refusal is a further part of the same message."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.blocks import (
    Annotation,
    Block,
    Foreign,
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
from dragoman.canonical.finish import FinishReason
from dragoman.canonical.grammar import State, illegal, steps
from dragoman.canonical.losses import LossKind
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.long_texts import filled
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_writer import write_annotation
from dragoman.protocols.openai_responses.errors import (
    error_members,
    failed_in_stream,
    failed_object,
)
from dragoman.protocols.openai_responses.finish import write_finish
from dragoman.protocols.openai_responses.frames import Frames, TextInProgress
from dragoman.protocols.openai_responses.output_writer import (
    CallItem,
    ForeignItem,
    Item,
    MessageItem,
    Output,
    PartsItem,
    ReasoningItem,
    SearchItem,
)
from dragoman.protocols.openai_responses.response_object import (
    begun,
    echo,
    required_action,
    selected,
)
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.openai_responses.usage import write_usage
from dragoman.protocols.openai_responses.web_search import SOURCES, tool_usage
from dragoman.sse import COMMENT, DONE, encode


class ResponsesWriter:
    """The writer of one answer from events in grammatical order. If it is `streamed`, the members
    that repeat the request are encoded once, and the request is released."""

    __slots__ = (
        "_awaits_tools",
        "_begun",
        "_block_start",
        "_echo",
        "_frames",
        "_head",
        "_included",
        "_item",
        "_ledger",
        "_mint",
        "_options",
        "_output",
        "_own",
        "_pending",
        "_raw_as_summary",
        "_refused",
        "_response",
        "_sealer",
        "_shows_logprobs",
        "_state",
        "_text",
        "_usage",
    )

    def __init__(self, reply: Reply, streamed: bool) -> None:
        source, tools = reply.request.source, reply.request.tools
        self._shows_logprobs = reply.request.logprobs
        self._ledger = reply.ledger
        self._sealer = reply.sealer
        self._mint = reply.mint
        self._options = reply.options
        self._own = own = reply.options.of(ResponsesOptions)
        self._included = source.get("include") or ()
        self._raw_as_summary = _raw_as_summary(own, reply)
        self._refused = False
        self._frames = Frames(is_silent=not streamed)
        self._output = Output(self._frames)
        self._response = begun(
            reply.id,
            reply.created,
            reply.model,
            "in_progress",
            source,
            whole=not streamed,
            tools=tools,
        )
        self._response["output"] = self._output.items
        self._echo = to_json(selected(echo(source, tools), own))[1:] if streamed else b""
        """The members that repeat the request, in a stream."""
        self._state = State.NEW
        self._begun = False
        self._usage: Usage | None = None
        self._awaits_tools = False
        """Whether the model waits for the results of its calls."""
        self._head: Block = Text(text="")
        self._item: Item | None = None
        self._text: TextInProgress | None = None
        """The handler of the open block's deltas, after the first."""
        self._block_start = 0
        """The offset of the open block in its part, in characters."""
        self._pending: list[UrlCitation] = []
        """Citations of the whole open block, the end of which is not known yet."""

    def write(self, event: Event) -> bytes:
        """Take one event; its frames, if the answer is streamed.

        Raises:
            IllegalEvent: the event is out of order.
        """
        if type(event) is Delta:
            open_text, text = self._text, event.text
            if open_text is not None and text and event.logprobs is None:
                return open_text.write(text)  # legal, for a block is open
        try:
            self._state, write = _STEPS[self._state][type(event)]
        except KeyError:
            raise illegal(self._state, event) from None
        return write(self, event)

    def resume(self, output: Sequence[Raw], number: int, item_id: str | None) -> None:
        """Continue after the client was shown the items `output`; `number` is that of the next
        event, and `item_id` the id of the open item, if there is one."""
        self._output.items[:] = output
        self._frames.number = number
        self._item = self._text = None
        if item_id:
            mint, ids = self._mint, [item_id]
            self._mint = lambda prefix: ids.pop() if ids else mint(prefix)

    def resume_item(self, kind: str, phase: str | None, part: str | None, number: int) -> None:
        """Continue after the client was shown the start of the open item, of the type `kind`;
        `part` is the type of its open part, None if none is open."""
        if self._item is None and kind == "message":
            self._item = MessageItem.new(self._output, self._mint("msg_"), phase)
        elif self._item is None and kind == "reasoning":
            self._item = self._reasoning(Reasoning(style=_STYLES.get(part, "summary")))
        item = self._item
        if isinstance(item, PartsItem):
            if part is None:
                item.end_part()
                self._text = None
            else:
                item.open_part(item.kind if isinstance(item, ReasoningItem) else part)
        self._frames.number = number

    def answer(self) -> JsonObject:
        """The whole answer, once `Ended` was written."""
        if self._frames.is_silent:
            return selected(self._response, self._own)
        answer: JsonObject = jsontext.decode(self._filled(self._rendered()))
        return answer

    @property
    def long_texts(self) -> Sequence[bytes]:
        """The texts that the last events repeat."""
        return self._frames.long_texts

    def _filled(self, written: bytes) -> bytes:
        return b"".join(filled(written, self.long_texts))

    def keepalive(self) -> bytes:
        """A keepalive: a comment, or a numbered event if the client wants one."""
        if self._options.keepalive == "usual" or not self._begun:
            return COMMENT
        return self._frames.encoded_event("ping", b"")

    def _rendered(self) -> bytes:
        """The current response object, for a stream."""
        return to_json(selected(self._response, self._own))[:-1] + b"," + self._echo

    def _sealed(self, event: Sealed) -> bytes:
        if isinstance(self._item, ReasoningItem):
            self._item.opaque = event.opaque
        return b""

    def _metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        if event.service_tier:
            self._response["service_tier"] = event.service_tier
        return b""

    def _started(self, event: Started) -> bytes:
        if event.created:
            self._response["created_at"] = event.created
        if event.service_tier:
            self._response["service_tier"] = event.service_tier
        return self._announced()

    def _announced(self) -> bytes:
        frames = self._frames
        if frames.is_silent:
            return b""
        self._begun = True
        members = b'"response":' + self._rendered()
        created = frames.encoded_event("response.created", members)
        return created + frames.encoded_event("response.in_progress", members)

    def _opened(self, event: Opened) -> bytes:
        self._head = block = event.block
        item = self._item
        if isinstance(item, MessageItem) and _joins(block, item):
            self._block_start = item.length()
            return b""
        finished = b"" if item is None else self._finish_item("completed")
        self._block_start = 0
        match block:
            case Text() | Refusal():
                return finished
            case ToolCall():
                self._item = item = call = CallItem.new(self._output, self._mint, block)
                opened = call.begin()
                self._text = call.text
                return finished + opened
            case Reasoning():
                self._item = item = self._reasoning(block)
            case WebSearch():
                with_sources = self._options.maps_searches and SOURCES in self._included
                self._item = item = SearchItem.new(
                    self._output, self._mint("ws_"), block, with_sources=with_sources
                )
            case Foreign(origin=wire.NAME):
                self._item = item = ForeignItem(self._output, block.raw)
            case _:
                self._lose("content", f"{type(block).__name__.lower()} blocks have no counterpart")
                return finished
        return finished + item.begin()

    def _reasoning(self, block: Reasoning) -> ReasoningItem:
        as_summary = block.style == "summary" or self._raw_as_summary
        output, name = self._output, self._mint("rs_")
        item = ReasoningItem.new(output, name, block, self._sealer, as_summary=as_summary)
        if self._options.show_reasoning == "never":
            self._lose("reasoning", "reasoning is not shown")
            return item.hidden()
        return item

    def _delta(self, event: Delta) -> bytes:
        """A delta that opens something, or that is unusual."""
        text, logprobs, item = event.text, event.logprobs, self._item
        if logprobs and isinstance(self._head, Refusal):
            self._lose("logprobs", "token probabilities have no counterpart for the client")
            logprobs = None
        if logprobs and not self._shows_logprobs:
            self._lose("logprobs", "token probabilities were not asked for")
            logprobs = None
        if not text and not logprobs:
            return b""
        opened = b""
        match self._head:
            case Text() | Refusal():
                opened, message = self._open_text()
                item = message
                if logprobs:
                    return opened + message.with_logprobs(text, logprobs)
            case Reasoning() if isinstance(item, ReasoningItem):
                opened = item.open_part(item.kind)
            case WebSearch() if isinstance(item, SearchItem):
                return item.search(text)
        if item is None or item.text is None:
            return b""
        self._text = item.text
        return opened + item.text.write(text)

    def _open_text(self) -> tuple[bytes, MessageItem]:
        """The message that the open block belongs to, with a part of its kind open."""
        head, item, opened = self._head, self._item, b""
        if not isinstance(item, MessageItem):
            phase = head.phase if isinstance(head, Text) else None
            self._item = item = MessageItem.new(self._output, self._mint("msg_"), phase)
            opened = item.begin()
        before = item.text
        kind = "output_text"
        if isinstance(head, Refusal):
            kind, self._refused = "refusal", True
        opened += item.open_part(kind)
        if item.text is not before:
            self._block_start = 0
        return opened, item

    def _part_break(self, event: PartBreak) -> bytes:
        item = self._item
        if not isinstance(item, ReasoningItem):
            return b""
        broken = item.open_part(item.kind) + item.end_part() + item.open_part(item.kind)
        self._text = item.text
        return broken

    def _annotated(self, event: Annotated) -> bytes:
        annotation = event.annotation
        if not isinstance(self._head, Text):
            if isinstance(self._item, SearchItem) and isinstance(annotation, UrlCitation):
                self._item.found(annotation.url)
            return b""
        if isinstance(annotation, UrlCitation):
            if annotation.cited_text is not None:
                self._lose("citations", "citations do not quote")
            if annotation.start is None or annotation.end is None:
                self._pending.append(annotation)
                return b""
        return self._annotate(annotation)

    def _annotate(self, annotation: Annotation) -> bytes:
        opened, message = self._open_text()
        length = message.length() - self._block_start
        written = write_annotation(annotation, self._block_start, length)
        if written is None:
            self._lose("citations", "such a citation has no counterpart for the client")
            return opened
        return opened + message.annotate(written)

    def _closed(self, event: Closed) -> bytes:
        self._text = None
        if not self._pending:
            return b""
        written = b"".join([self._annotate(annotation) for annotation in self._pending])
        self._pending.clear()
        return written

    def _finish_item(self, status: str) -> bytes:
        item, self._item = self._item, None
        if item is None:
            return b""
        if isinstance(item, CallItem) and item.is_cut():
            detail = "the output limit cut the arguments of a tool call"
            self._ledger.add("content", LossKind.REPAIRED, detail)
        return item.finish(status)

    def _lose(self, path: str, detail: str) -> None:
        self._ledger.add(path, LossKind.KNOB, detail)

    def _finished(self, event: Finished) -> bytes:
        status = write_finish(event.finish, self._options, self._ledger)
        self._awaits_tools = event.finish.reason is FinishReason.TOOL_CALLS
        self._response["status"] = status.response
        self._response["incomplete_details"] = status.details
        unsaid = b""
        if event.finish.declined and not self._refused:
            unsaid = self._opened(Opened(0, Refusal(text=""))) + self._delta(Delta(0, _DECLINED))
        finished = unsaid + self._finish_item(status.last_item)
        if self._output.items:
            return finished
        # Clients expect at least one item.
        item = MessageItem.new(self._output, self._mint("msg_"), None)
        opened = item.begin() + item.open_part("output_text")
        return finished + opened + item.finish(status.last_item)

    def _ended(self, event: Ended) -> bytes:
        response, usage = self._response, self._usage
        response["usage"] = write_usage(usage)
        if usage is not None and usage.searches:
            response["tool_usage"] = tool_usage(usage.searches)
        if event.moderation is not None:
            response["moderation"] = event.moderation
        action = None
        if self._awaits_tools and self._own.tool_turn == "required_action":
            action = required_action(jsontext.decode(self._filled(to_json(self._output.items))))
        if action is not None:
            response["status"] = "incomplete"
            response["required_action"] = action
        elif response["status"] == "completed":
            response["completed_at"] = max(response["created_at"], int(time.time()))
        if action is None:
            return self._terminal(response["status"])
        if self._frames.is_silent:
            return b""
        members = b'"response":%b,"required_action":%b' % (self._rendered(), to_json(action))
        asked = self._frames.encoded_event("response.required_action", members)
        # The response waits, but its stream is complete.
        return asked + self._terminal("completed")

    def _failed(self, event: Failed) -> bytes:
        self._text = None
        response, frames = self._response, self._frames
        announced = b"" if self._begun else self._announced()
        response["status"], response["incomplete_details"] = "failed", None
        if frames.is_silent:
            response["error"] = failed_object(event.fault, self._options)
            return b""
        response["error"] = failed_in_stream(event.fault, self._options)
        error_event = b""
        if self._own.failure_events == "error_and_failed":
            members = error_members(event.fault, self._options)
            error_event = frames.encoded_event("error", to_json(members)[1:-1])
        return announced + error_event + self._terminal("failed")

    def _terminal(self, end: str) -> bytes:
        """The last event, with the response object."""
        if self._frames.is_silent:
            return b""
        members = b'"response":' + self._rendered()
        event = self._frames.encoded_event(f"response.{end}", members)
        return event + encode(DONE) if self._own.responses_done else event


_DECLINED = "The model declined to answer."
"""The text of a refusal without words."""


def _raw_as_summary(own: ResponsesOptions, reply: Reply) -> bool:
    """Whether raw reasoning is shown as a summary."""
    if own.reasoning_as != "auto":
        return own.reasoning_as == "summary"
    thinking = reply.request.thinking
    return thinking is not None and thinking.summary is not None


def _joins(block: Block, message: MessageItem) -> bool:
    """Whether a block goes on with a message."""
    if isinstance(block, Text):
        return block.phase == message.value.get("phase")
    return isinstance(block, Refusal)


_STYLES: dict[str | None, Literal["summary", "raw"]] = {"reasoning_text": "raw"}

_HANDLERS: dict[type, Callable[[ResponsesWriter, Any], bytes]] = {
    Delta: ResponsesWriter._delta,
    Opened: ResponsesWriter._opened,
    Closed: ResponsesWriter._closed,
    PartBreak: ResponsesWriter._part_break,
    Annotated: ResponsesWriter._annotated,
    Sealed: ResponsesWriter._sealed,
    Started: ResponsesWriter._started,
    Metered: ResponsesWriter._metered,
    Finished: ResponsesWriter._finished,
    Ended: ResponsesWriter._ended,
    Failed: ResponsesWriter._failed,
}
_STEPS = steps(_HANDLERS)

"""Reads an upstream's stream of events: the life of its message."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.canonical.blocks import Refusal
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import (
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.losses import LossKind, Policy
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.anthropic_messages.blocks import Blocks
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import (
    explanation_of,
    is_known_reason,
    read_finish,
)
from dragoman.protocols.anthropic_messages.loose import (
    NO_COUNTERPART,
    as_known,
    named_delta,
    report_unknown,
)
from dragoman.protocols.anthropic_messages.usage import (
    lost_tier_field,
    merge_usage,
    read_tier,
    read_usage,
)
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import is_typed, stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.finish_words import is_failure, unknown_finish
from dragoman.sse import DONE, Frame

_SAYING = SPEAKING | {"delta"}
"""Members of events with content of an answer."""

_delta = decoder(shapes.BlockDelta)

_SECOND = "a second message begins in it"


class MessagesReader:
    """The reader of one stream; see `base.StreamReader`. The end waits for `message_stop`: only
    then is the answer complete."""

    __slots__ = ("_blocks", "_first", "_id", "_inbound", "_over", "_started", "_stop", "_usage")

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._blocks = Blocks(inbound)
        self._first: JsonObject = {}
        """The message start, if it had content."""
        self._id = ""
        self._stop: JsonObject = {}
        self._usage: JsonObject = {}
        self._started = False
        self._over = False

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        if self._started and frame.event == b"content_block_delta":
            piece = self._piece(frame.data)
            if piece is not None:
                return piece
        try:
            try:
                event = self._inbound.decode(frame.data)
            except JsonError:
                if frame.data.strip() == DONE:
                    return ()
                if frame.data.strip():
                    raise UpstreamError.unreadable("an event of its stream is not JSON") from None
                event = {}
            if type(event) is not dict:
                raise UpstreamError.unreadable("an event of its stream is not an object")
            kind = event.get("type")
            if type(kind) is not str:
                kind = frame.event.decode(errors="replace")
            if kind == "content_block_delta" and self._started:
                return self._blocks.delta(event)
            return self._take(kind, event)
        except UpstreamError as error:
            self._over = True
            return (Failed(error.fault),)

    def _piece(self, data: bytes) -> Iterable[Event] | None:
        """The events of nearly every frame: a further piece of a block. None for any other."""
        try:
            return self._blocks.piece(_delta(data))
        except JsonError:
            return None

    def exact(self, answer: shapes.Answer) -> list[Event]:
        """The canonical events of a whole answer in the exact form."""
        merge_usage(self._usage, answer.usage)
        events = self._begin(answer.id, answer.model)
        events += self._blocks.take_exact(answer.content)
        self._stop = {"stop_reason": answer.stop_reason, "stop_sequence": answer.stop_sequence}
        return events + self._message_stop({})

    def whole(self, message: JsonObject, stop: JsonObject) -> list[Event]:
        """The canonical events of a whole message that ended as in `stop`.

        Raises:
            UpstreamError: it is unusable.
        """
        events = self._message_start({"message": message})
        events += self._message_delta({"delta": stop})
        events += self._message_stop({})
        return events

    def finish(self) -> Iterable[Event]:
        """Handle the end of the bytes."""
        if self._over:
            return ()
        self._over = True
        return (Failed(UpstreamError.unreadable("it ends before message_stop").fault),)

    def _take(self, kind: str, event: JsonObject) -> list[Event]:
        """The canonical events of an event of type `kind`."""
        if kind == "ping" or not (kind or event):
            return []
        if kind == "error" or event.get("error"):
            raise UpstreamError(fault_of(stray_error(event)))
        handler = _HANDLERS.get(kind)
        if handler is None:
            if not is_typed(kind) and (error := stray_error(event)) is not None:
                raise UpstreamError(fault_of(error))
            has_content = not event.keys().isdisjoint(_SAYING)
            loss = LossKind.CONTENT if has_content else LossKind.KNOB
            self._inbound.ledger.add(kind[:60], loss, NO_COUNTERPART)
            return []
        if self._started or kind == "message_start":
            return handler(self, event)
        self._started = True
        return [Started("", ""), *handler(self, event)]

    def _block_start(self, event: JsonObject) -> list[Event]:
        return self._blocks.start(event)

    def _block_delta(self, event: JsonObject) -> list[Event]:
        return list(self._blocks.delta(event))

    def _block_stop(self, event: JsonObject) -> list[Event]:
        return self._blocks.stop(event)

    def _message_start(self, event: JsonObject) -> list[Event]:
        ledger = self._inbound.ledger
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        merge_usage(self._usage, message.get("usage"))
        if self._started:
            identifier = message.get("id")
            if (
                self._blocks.count
                and isinstance(identifier, str)
                and identifier not in ("", self._id)
            ):
                raise UpstreamError.unreadable(_SECOND)
            return self._content(message)
        report_unknown(ledger, message, wire.MESSAGE_FIELDS)
        if message.get("stop_reason") is not None:
            self._stop["stop_reason"] = message["stop_reason"]
        identifier, model = message.get("id"), message.get("model")
        events = self._begin(
            identifier if isinstance(identifier, str) else "",
            model if isinstance(model, str) else "",
        )
        return events + self._content(message)

    def _begin(self, identifier: str, model: str) -> list[Event]:
        """The beginning of the answer, with the usage known so far."""
        self._started = True
        self._id = self._blocks.message_id = identifier
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        usage = self._counted() if self._usage else None
        events: list[Event] = [Started(identifier, model, service_tier=tier, usage=usage)]
        if usage is not None:
            ledger = self._inbound.ledger
            report_unknown(ledger, self._usage, wire.USAGE_FIELDS, "usage.")
            lost = lost_tier_field(self._usage, tier)
            if lost is not None:
                ledger.add(f"usage.{lost}", LossKind.KNOB, NO_COUNTERPART)
            events.append(Metered(usage, tier))
        return events

    def _content(self, message: JsonObject) -> list[Event]:
        """Read the blocks in a message start. Events that spell them again are repetitions."""
        content = message.get("content")
        if not isinstance(content, list) or not content or message == self._first:
            return []
        if self._first:
            raise UpstreamError.unreadable(_SECOND)
        self._first = message
        return self._blocks.take_all(content)

    def _message_delta(self, event: JsonObject) -> list[Event]:
        ledger = self._inbound.ledger
        report_unknown(ledger, event, wire.MESSAGE_DELTA_FIELDS)
        delta = event.get("delta")
        events: list[Event] = []
        if isinstance(delta, dict):
            if not wire.STOP_FIELDS.issuperset(delta):
                events, delta = self._missing_at_end(delta)
            details = delta.get("stop_details")
            if isinstance(details, dict):
                report_unknown(ledger, details, wire.STOP_DETAILS_FIELDS, "stop_details.")
            for name, item in delta.items():
                if item is not None:
                    self._stop[name] = item
        usage = event.get("usage")
        if not isinstance(usage, dict) or not usage:
            return events
        merge_usage(self._usage, usage)
        report_unknown(ledger, usage, wire.USAGE_FIELDS, "usage.")
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        return [*events, Metered(self._counted(), tier)]

    def _missing_at_end(self, message: JsonObject) -> tuple[list[Event], JsonObject]:
        """The events for content in a message's end that was not received before, and the remaining
        members. A delta there is always a piece."""
        ledger = self._inbound.ledger
        piece = self._blocks.end_piece(message)
        if piece is not None:
            return piece, {name: message[name] for name in wire.STOP_FIELDS if name in message}
        content = message.get("content")
        if not content and named_delta(message) is not None:
            content = [as_known({name: message[name] for name in message if name in SPEAKING})]
        if isinstance(content, str) and content:
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            report_unknown(ledger, message, wire.MESSAGE_FIELDS)
            return [], message
        rest = {name: value for name, value in message.items() if name not in SPEAKING}
        report_unknown(ledger, rest, wire.MESSAGE_FIELDS)
        if self._blocks.count:
            return self._blocks.complete(content), rest
        return self._content({"content": content}), rest

    def _counted(self) -> Usage:
        return read_usage(self._usage, searches=self._inbound.counts_searches)

    def _message_stop(self, event: JsonObject) -> list[Event]:
        events: list[Event] = []
        message = event.get("message")
        if isinstance(message, dict):
            events, _ = self._missing_at_end(message)
            self._stop = {**message, **self._stop}
        events += self._blocks.end()
        reason = self._stop.get("stop_reason")
        if reason == "compaction":
            problem = "it compacted the conversation instead of answering"
            raise UpstreamError.unreadable(problem)
        if reason is None or reason == "null":
            raise UpstreamError.unreadable("it ends without a reason")
        if not is_known_reason(reason):
            is_strict = self._inbound.options.policy is Policy.STRICT
            if is_strict or not isinstance(reason, str) or not reason or is_failure(reason):
                raise UpstreamError(unknown_finish(reason))
            detail = f"{reason[:60]}, which nobody knows, is an ordinary end"
            self._inbound.ledger.add("stop_reason", LossKind.CONVERTED, detail)
        explanation = explanation_of(self._stop)
        if explanation:
            index = self._blocks.take_number()
            head = Refusal(text="")
            events += [Opened(index, head), Delta(index, explanation), Closed(index)]
        self._over = True
        events.append(Finished(read_finish(self._stop, self._blocks.has_calls())))
        events.append(Ended())
        return events


_HANDLERS = {
    "message_start": MessagesReader._message_start,
    "content_block_start": MessagesReader._block_start,
    "content_block_delta": MessagesReader._block_delta,
    "content_block_stop": MessagesReader._block_stop,
    "message_delta": MessagesReader._message_delta,
    "message_stop": MessagesReader._message_stop,
}

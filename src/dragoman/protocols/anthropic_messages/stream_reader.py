"""Reads an upstream's answer: the life of a message in a stream of events, or whole."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.canonical.blocks import Refusal
from dragoman.canonical.errors import InvalidRequest, UpstreamError
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
from dragoman.canonical.requests import Extra
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.blocks import Blocks
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import (
    explanation_of,
    is_known_reason,
    read_finish,
)
from dragoman.protocols.anthropic_messages.loose import (
    NO_COUNTERPART,
    named_piece,
    report_extras,
    report_unknown,
)
from dragoman.protocols.anthropic_messages.shapes import (
    ANSWER,
    EVENT,
    Answer,
    AnswerText,
    AnyEvent,
    BlockDelta,
    BlockStart,
    BlockStop,
    MessageDelta,
    MessageStart,
    Other,
    Ping,
    Stop,
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
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_SAYING = SPEAKING | {"delta"}
"""Members of events with content of an answer."""

_SECOND = "a second message begins in it"


class MessagesReader:
    """The reader of one stream; see `base.StreamReader`. The end waits for `message_stop`: only
    then is the answer complete."""

    __slots__ = ("_blocks", "_first", "_id", "_inbound", "_over", "_started", "_stop", "_usage")

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._blocks = Blocks(inbound)
        self._first: Answer | None = None
        """The message start, if it had content."""
        self._id = ""
        self._stop = Stop()
        self._usage: JsonObject = {}
        self._started = False
        self._over = False

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        extras: list[Extra] = []
        try:
            try:
                event = EVENT.decode(frame.data)
            except REFUSED:
                event = self._loose(frame, extras)
            if type(event) is BlockDelta and self._started:
                return self._blocks.piece(event, extras)
            return self._take(event, extras)
        except InvalidRequest:
            failure = UpstreamError.unreadable("an event of its stream is malformed")
        except UpstreamError as error:
            failure = error
        self._over = True
        return (Failed(failure.fault),)

    def _loose(self, frame: Frame, extras: list[Extra]) -> AnyEvent:
        """An event that is not in the exact form."""
        try:
            value = self._inbound.decode(frame.data)
        except JsonError:
            if frame.data.strip() == DONE:
                return Ping()
            if frame.data.strip():
                raise UpstreamError.unreadable("an event of its stream is not JSON") from None
            value = {}
        if type(value) is not dict:
            raise UpstreamError.unreadable("an event of its stream is not an object")
        kind = value.get("type")
        if type(kind) is not str:
            kind = frame.event.decode(errors="replace")
        if kind == "ping" or not (kind or value):
            return Ping()
        if kind == "error" or value.get("error"):
            raise UpstreamError(fault_of(stray_error(value)))
        return EVENT.tolerate({**value, "type": kind}, extras)

    def whole(self, answer: Answer, extras: list[Extra]) -> list[Event]:
        """The canonical events of a whole answer, with its unknown members.

        Raises:
            UpstreamError: it is unusable.
        """
        content, answer.content = answer.content or (), None
        if isinstance(content, str):
            content = [AnswerText(content)]
        events = self._message_start(MessageStart(answer), extras)
        return events + self._blocks.take_whole(content) + self._message_stop([])

    def finish(self) -> Iterable[Event]:
        """Handle the end of the bytes."""
        if self._over:
            return ()
        self._over = True
        return (Failed(UpstreamError.unreadable("it ends before message_stop").fault),)

    def _take(self, event: AnyEvent, extras: list[Extra]) -> list[Event]:
        """The canonical events of an event, with its unknown members."""
        if isinstance(event, MessageStart):
            return self._message_start(event, extras)
        if isinstance(event, Ping):
            return []
        if isinstance(event, Other):
            return self._other(event)
        events: list[Event] = [] if self._started else [Started("", "")]
        self._started = True
        if isinstance(event, BlockStart):
            return events + self._blocks.start(event.index, event.content_block, extras)
        if isinstance(event, BlockDelta):
            return [*events, *self._blocks.piece(event, extras)]
        if isinstance(event, BlockStop):
            unknown = {extra.path: extra.value for extra in extras}
            return events + self._blocks.stop(event.index, unknown)
        if isinstance(event, MessageDelta):
            return events + self._message_delta(event, extras)
        return events + self._message_stop(extras)

    def _other(self, event: Other) -> list[Event]:
        """An event of a type that is not the protocol's, or new in it."""
        kind = event.kind
        if not is_typed(kind) and (error := stray_error(event.value)) is not None:
            raise UpstreamError(fault_of(error))
        has_content = not event.value.keys().isdisjoint(_SAYING)
        loss = LossKind.CONTENT if has_content else LossKind.KNOB
        self._inbound.ledger.add(kind[:60], loss, NO_COUNTERPART)
        return []

    def _message_start(self, event: MessageStart, extras: list[Extra]) -> list[Event]:
        message = event.message or Answer()
        merge_usage(self._usage, message.usage)
        if self._started:
            if self._blocks.count and message.id not in (None, "", self._id):
                raise UpstreamError.unreadable(_SECOND)
            return self._content(message)
        report_extras(self._inbound.ledger, extras)
        self._note_stop(message)
        return self._begin(message.id or "", message.model or "") + self._content(message)

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

    def _content(self, message: Answer) -> list[Event]:
        """Read the blocks in a message start. Events that spell them again are repetitions."""
        content = message.content
        if not content or isinstance(content, str) or message == self._first:
            return []
        if self._first is not None:
            raise UpstreamError.unreadable(_SECOND)
        self._first = message
        return self._blocks.take_all(content)

    def _note_stop(self, stop: Stop) -> None:
        for name in Stop.__struct_fields__:
            if (value := getattr(stop, name)) is not None:
                setattr(self._stop, name, value)

    def _message_delta(self, event: MessageDelta, extras: list[Extra]) -> list[Event]:
        events: list[Event] = []
        if extras:
            beside = {extra.path: extra.value for extra in extras}
            events = self._missing_at_end(
                {
                    path.removeprefix("delta."): beside.pop(path)
                    for path in list(beside)
                    if path.startswith("delta.")
                }
            )
            report_unknown(self._inbound.ledger, beside, frozenset())
        if event.delta is not None:
            self._note_stop(event.delta)
        usage = event.usage
        if not usage:
            return events
        merge_usage(self._usage, usage)
        report_unknown(self._inbound.ledger, usage, wire.USAGE_FIELDS, "usage.")
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        return [*events, Metered(self._counted(), tier)]

    def _missing_at_end(self, message: JsonObject) -> list[Event]:
        """The events for content in the members of a message's end that was not received before. A
        delta there is always a piece."""
        ledger = self._inbound.ledger
        piece = self._blocks.end_piece(message)
        if piece is not None:
            return piece
        if not message.get("content") and named_piece(message) is not None:
            block = {name: message[name] for name in message if name in SPEAKING}
            message = {**message, "content": [block]}
        extras: list[Extra] = []
        answer = ANSWER.tolerate(message, extras)
        if not answer.content:
            report_extras(ledger, extras)
            return []
        report_unknown(ledger, {extra.path: extra.value for extra in extras}, SPEAKING)
        content = answer.content
        if isinstance(content, str):
            content = [AnswerText(content)]
        if not self._blocks.count:
            return self._content(Answer(content=content))
        return self._blocks.complete(content)

    def _counted(self) -> Usage:
        return read_usage(self._usage, searches=self._inbound.counts_searches)

    def _message_stop(self, extras: list[Extra]) -> list[Event]:
        events: list[Event] = []
        for extra in extras:
            if extra.path == "message" and isinstance(extra.value, dict):
                events = self._missing_at_end(extra.value)
                stop, self._stop = self._stop, ANSWER.tolerate(extra.value, [])
                self._note_stop(stop)
        events += self._blocks.end()
        reason = self._stop.stop_reason
        if reason == "compaction":
            problem = "it compacted the conversation instead of answering"
            raise UpstreamError.unreadable(problem)
        if reason is None or reason == "null":
            raise UpstreamError.unreadable("it ends without a reason")
        if not is_known_reason(reason):
            is_strict = self._inbound.options.policy is Policy.STRICT
            if is_strict or not reason or is_failure(reason):
                raise UpstreamError(unknown_finish(reason))
            detail = f"{reason[:60]}, which nobody knows, is an ordinary end"
            self._inbound.ledger.add("stop_reason", LossKind.CONVERTED, detail)
        explanation = explanation_of(self._stop)
        if explanation:
            index = self._blocks.take_number()
            head = Refusal(text="")
            events += [Opened(index, head), Delta(index, explanation), Closed(index)]
        self._over = True
        events.append(Finished(read_finish(self._stop, self._blocks.has_calls)))
        events.append(Ended())
        return events


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """A `message` object as the events of its stream.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    extras: list[Extra] = []
    try:
        answer = ANSWER.decode(body)
    except REFUSED:
        value = inbound.decode_answer(body)
        if value.get("type") == "error" or value.get("content") is None:
            error = stray_error(value)
            if error is not None or value.get("type") == "error":
                raise UpstreamError(fault_of(error)) from None
        try:
            answer = ANSWER.tolerate(value, extras)
        except InvalidRequest:
            raise UpstreamError.unreadable("it is malformed") from None
    if answer.content is None:
        raise UpstreamError.unreadable("it has no content")
    return MessagesReader(inbound).whole(answer, extras)

"""Reads a stream of a Responses upstream (grammar: protocols 2.3).

It accepts deviations of servers: events without names, indexes or ids, pieces without
announcements, items in the last event only. Unknown content is reported, not refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from msgspec import Struct, field, json

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Delta, Ended, Event, Failed, Finished, Metered, Started
from dragoman.canonical.losses import LossKind
from dragoman.jsontext import JsonError
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import is_error, is_typed, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import unknown_finish
from dragoman.protocols.initial_text import InitialText
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses import loose, shapes, wire
from dragoman.protocols.openai_responses.finish import read_finish
from dragoman.protocols.openai_responses.items import Item, Items, OpenBlock
from dragoman.protocols.openai_responses.output_reader import OutputReader
from dragoman.protocols.openai_responses.shapes import DELTAS, WHOLES, OutputPart, Response
from dragoman.protocols.openai_responses.shown import is_lifecycle
from dragoman.protocols.openai_responses.usage import read_usage, unread_counts
from dragoman.protocols.openai_responses.web_search import counts_only_searches, searches_of
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_event = json.Decoder(shapes.Event).decode
_response = json.Decoder(Response).decode
_IN_PROGRESS = b"response.in_progress"


def started(response: Response) -> Started:
    """The beginning of an answer, from a response object."""
    return Started(
        id=response.id or "",
        model=response.model or "",
        created=_seconds(response.created_at),
        service_tier=_word(response.service_tier),
    )


def _seconds(created: int | float | None) -> int:
    """A timestamp, which some servers give with fractions."""
    if type(created) is float and 0 <= created < 1e15:
        created = int(created)
    return whole_number(created) or 0


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def metered(response: Response, inbound: Inbound) -> list[Event]:
    """The usage of an answer, if its response object has it."""
    tier = _word(response.service_tier)
    searches = searches_of(response.tool_usage) if inbound.counts_searches else None
    usage = read_usage(response.usage, tier, searches)
    return [] if usage is None else [Metered(usage, tier)]


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream.

    Raises:
        UpstreamError: the answer failed, is not finished, or is not an answer.
    """
    try:
        response = _response(body)
    except REFUSED:
        response = Response()
    if response.output is not None and response.status in _FINISHED and not response.error:
        return answer_reader(inbound).whole(response)
    value = inbound.decode_answer(body)
    status, error = value.get("status"), value.get("error")
    if status not in _FAILED and not (error and is_error(error)):
        has_output = isinstance(value.get("output"), list)
        if not has_output and (error := stray_error(value)) is not None:
            raise UpstreamError(fault_of(error))
        if status not in _FINISHED:
            raise UpstreamError(unknown_finish(status))
        if not has_output:
            raise UpstreamError.unreadable("it has no output")
    return answer_reader(inbound).whole(loose.read_object(value))


def answer_reader(inbound: Inbound) -> ResponsesReader:
    """The reader of one stream."""
    return ResponsesReader(inbound, OutputReader(inbound))


_FAILED = ("failed", "cancelled")
"""Statuses of a response that ended without an answer."""

_FINISHED = (None, "completed", "incomplete")
_UNFINISHED = ("in_progress",)
"""Statuses that an event may override: a whole answer has no other sign that it is complete."""


class ResponsesReader(Struct, eq=False):
    """The reader of one stream: its frames as events."""

    _inbound: Inbound
    _answer: OutputReader
    _started: bool = False
    _over: bool = False
    _items: Items = field(default_factory=Items)
    _place: tuple[str, int | None, int | None, str | None] | None = None
    _block: OpenBlock | None = None
    """The block of the last event, if that was a delta of a text or of arguments, and its place."""
    _initial_texts: dict[tuple[int, int], tuple[Item, InitialText, int]] = {}
    """The initial texts of parts, by the number of the item and the part's index, and the length
    of the text under that index before."""

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        event, block = None, self._block
        try:
            event = _event(frame.data)
            place = (event.type, event.output_index, event.content_index, event.item_id)
            if place == self._place and block is not None and not block.ended:
                piece = event.delta
                if piece and not event.logprobs:
                    block.pieces.append(piece)
                    return (Delta(block.index, piece),)
        except REFUSED:
            if self._started and frame.event == _IN_PROGRESS and is_lifecycle(frame.data):
                return ()  # it repeats the first event, which may have all of a large request
        self._block = None
        try:
            return self._read_event(frame, event)
        except UpstreamError as error:
            self._over = True
            return (Failed(error.fault),)

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes: none if the answer had ended, else a failure."""
        if self._over:
            return ()
        self._over = True
        return (Failed(UpstreamError.unreadable("its stream ends before the answer does").fault),)

    def _read_event(self, frame: Frame, event: shapes.Event | None) -> list[Event]:
        if event is None or event.type not in _EVENTS:
            event = self._odd_event(frame)
        if event is None:
            return []
        events = _EVENTS[event.type](self, event)
        if not self._started:
            self._started = True
            events.insert(0, Started("", ""))
        return events

    def _odd_event(self, frame: Frame) -> shapes.Event | None:
        """An event that is not exactly of the protocol; None for one that is not read."""
        try:
            value = self._inbound.decode(frame.data)
        except JsonError:
            data = frame.data.strip()
            if data == DONE or not (data or frame.event):
                return None
            if data:
                raise UpstreamError.unreadable("an event is not JSON") from None
            value = {}
        if not isinstance(value, dict):
            raise UpstreamError.unreadable("an event is not a JSON object")
        kind = _word(value.get("type")) or frame.event.decode(errors="replace")
        if kind == "error" or (is_error(value.get("error")) and not kind.startswith("response.")):
            raise UpstreamError(fault_of(stray_error(value)))
        if kind not in _EVENTS:
            if not is_typed(kind) and (error := stray_error(value)) is not None:
                raise UpstreamError(fault_of(error))
            if kind not in wire.IGNORED_EVENTS:
                hosted = kind.startswith(wire.HOSTED_PROGRESS)
                detail = "progress of a hosted item" if hosted else "unknown event"
                is_content = not hosted and not value.keys().isdisjoint(_SAYING)
                loss = LossKind.CONTENT if is_content else LossKind.KNOB
                self._inbound.ledger.add(kind or "event", loss, detail)
            return None
        for name in value:
            if name not in _MEMBERS:
                self._lose(f"{kind}.{name}", "unknown field of an event")
        return loose.read_event(value, kind)

    def _created(self, event: shapes.Event) -> list[Event]:
        name = None if event.response is None else event.response.id
        if name and name != self._answer.answer_id and any(map(Item.has_content, self._items)):
            raise UpstreamError.unreadable("a second response begins in it")
        return self._begin(event)

    def _begin(self, event: shapes.Event) -> list[Event]:
        response = event.response
        if self._started or response is None:
            return []
        self._started = True
        self._answer.answer_id = response.id or ""
        report_unread(response, "response.", self._inbound)
        return [started(response)]

    def _item_added(self, event: shapes.Event) -> list[Event]:
        if event.item is None:
            return []
        item = self._items.announced(event.output_index, event.item)
        path = f"response.output_item.added[{item.number}].item"
        return self._answer.announce(item, event.item, path)

    def _item_done(self, event: shapes.Event) -> list[Event]:
        if event.item is None:
            return []
        item = self._items.finished(event.output_index, event.item)
        path = f"response.output_item.done[{item.number}].item"
        return self._answer.complete(item, event.item, path)

    def _item(self, event: shapes.Event, kind: str, *, more: bool = True) -> Item:
        """The item an event belongs to."""
        return self._items.touched(event.output_index, event.item_id, kind, more=more)

    def _delta(self, event: shapes.Event) -> list[Event]:
        kind = _PIECES[event.type]
        item, at = self._item(event, _ITEMS.get(kind, kind)), event.at(kind) or 0
        text = (event.text if event.delta is None else event.delta) or ""
        if kind in _STYLES:
            return self._answer.reasoning(item, _STYLES[kind], at, text)
        self._place = (event.type, event.output_index, event.content_index, event.item_id)
        if kind not in _ITEMS:
            events = self._answer.arguments(item, text)
            self._block = item.block if item.arguments() else None
            return events
        if kind == "refusal":
            return self._answer.text(item, at, text, refuses=True)
        if self._initial_texts:
            text = self._after_head(item, at, text)
        events = self._answer.text(item, at, text, event.logprobs)
        self._block = self._answer.text_block(item, at)
        return events

    def _whole(self, event: shapes.Event) -> list[Event]:
        """The whole text of a part, or of a call's arguments or input."""
        kind = _PIECES[event.type]
        text = event.whole(kind) or ""
        if kind in _STYLES:
            return self._rest_of_reasoning(event, kind, text, over=False)
        if kind not in _ITEMS:
            return self._answer.rest_of_arguments(self._item(event, kind, more=False), text)
        if kind == "refusal":
            return self._rest(event, OutputPart(type="refusal", refusal=text), over=False)
        part = OutputPart(type="output_text", text=text, logprobs=event.logprobs)
        return self._rest(event, part, over=False)

    def _part_done(self, event: shapes.Event) -> list[Event]:
        part = event.part
        if part is None:
            return []
        if event.type == _SUMMARY_PART_DONE:
            return self._rest_of_reasoning(event, "summary_text", part.text or "", over=True)
        if part.type == "reasoning_text":
            return self._rest_of_reasoning(event, part.type, part.text or "", over=True)
        return self._rest(event, part, over=True)

    def _rest(self, event: shapes.Event, part: OutputPart, *, over: bool) -> list[Event]:
        """The remainder of a text or refusal part."""
        item, at = self._item(event, "message", more=False), event.content_index or 0
        return self._answer.part(item, at, part, f"{event.type}.part", over=over)

    def _rest_of_reasoning(
        self, event: shapes.Event, kind: str, text: str, *, over: bool
    ) -> list[Event]:
        item, at = self._item(event, "reasoning", more=False), event.at(kind) or 0
        return self._answer.rest_of_reasoning(item, _STYLES[kind], at, text, over=over)

    def _part_added(self, event: shapes.Event) -> list[Event]:
        part = event.part
        if part is None or not part.text or part.type != "output_text":
            return []  # its place is that of its first piece
        item, at = self._item(event, "message"), event.content_index or 0
        events: list[Event] = []
        if (item.number, at) in self._initial_texts:
            # Another part with its index.
            events = self._end_initial(*self._initial_texts.pop((item.number, at)), at)
        self._initial_texts[item.number, at] = item, InitialText(part.text), item.length_at(at)
        return events

    def _after_head(self, item: Item, at: int, piece: str) -> str:
        """The text to pass on for a piece of a part that may have an initial text."""
        place = item.number, at
        if place not in self._initial_texts:
            return piece
        head = self._initial_texts[place][1]
        text = head.add(piece)
        if head.is_over:
            del self._initial_texts[place]
            if head.repeated:
                self._lose("response.content_part.added.part", "its pieces say again what it has")
        return text

    def _ended_initial(self) -> list[Event]:
        """The initial texts of parts without pieces."""
        waiting = self._initial_texts.items()
        return [event for (_, at), head in waiting for event in self._end_initial(*head, at)]

    def _end_initial(self, item: Item, head: InitialText, length: int, at: int) -> list[Event]:
        """The initial text of a part, unless its end repeated it."""
        return [] if item.length_at(at) > length else self._answer.text(item, at, head.end())

    def _annotation(self, event: shapes.Event) -> list[Event]:
        item, at = self._item(event, "message", more=False), event.content_index or 0
        path = "response.output_text.annotation.added.annotation"
        return self._answer.annotation(item, at, event.annotation, path)

    def _end(self, event: shapes.Event) -> list[Event]:
        """The end of the answer."""
        response = event.response or Response()
        begun = self._begin(event)
        self._over = True
        missing = self._missing(response, "response.") + self._ended_initial()
        if self._items.has_strays():
            raise UpstreamError.unreadable("pieces of it are of no item that it has")
        open_ = [event for item in self._items for event in self._answer.close(item)]
        complete = event.type != "response.incomplete"
        return [*begun, *missing, *open_, *self._ended(response, "response.", complete=complete)]

    def whole(self, response: Response) -> list[Event]:
        """The events of an answer without earlier events.

        Raises:
            UpstreamError: it failed, or is unusable.
        """
        self._answer.answer_id = response.id or ""
        items = self._missing(response, "")
        return [started(response), *items, *self._ended(response, "", complete=True)]

    def _missing(self, response: Response, path: str) -> list[Event]:
        """The remainder of the items in the response object at `path`."""
        error = response.error
        if (error and is_error(error)) or response.status in _FAILED:
            raise UpstreamError(fault_of(stray_error({"error": error, **response.odd})))
        events: list[Event] = []
        output, text = response.output or [], response.output_text
        for position, whole in enumerate(output):
            item = self._items.listed(position, whole)
            events += self._answer.complete(item, whole, f"{path}output[{position}]")
        if not isinstance(text, str) or not text:
            return events
        if not any(item.kind == "message" and item.has_content() for item in self._items):
            # Libraries assemble it from the output; some servers send only this.
            alone = loose.message_of(text)
            item = self._items.listed(len(output), alone)
            events += self._answer.complete(item, alone, f"{path}output_text")
        return events

    def _ended(self, response: Response, path: str, *, complete: bool) -> list[Event]:
        """The end of the answer, and its usage."""
        report_unread(response, path, self._inbound)
        status, details = response.status, response.incomplete_details
        if status in _UNFINISHED and not self._answer.goes_on:
            # Some servers repeat the initial response object.
            detail = "taken for completed, as its event says"
            self._inbound.ledger.add(f"{path}status", LossKind.CONVERTED, detail)
        elif status not in _FINISHED:
            raise UpstreamError(unknown_finish(status))
        if status == "incomplete" or self._answer.cut or (type(details) is dict and details):
            complete = False
        finish = read_finish(complete, details, self._answer.has_calls)
        cost = metered(response, self._inbound)
        return [Finished(finish), *cost, Ended(_moderation(response.moderation))]

    def _failed(self, event: shapes.Event) -> NoReturn:
        raise UpstreamError(fault_of(None if event.response is None else event.response.error))

    def _lose(self, path: str, detail: str) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)


_SAYING = frozenset({"delta", "text", "refusal", "part", "item", "arguments", "input"})
"""Members of events with content of an answer."""

_MEMBERS = frozenset(shapes.Event.__struct_fields__)

_ITEMS: Final = {
    "output_text": "message",
    "refusal": "message",
    "summary_text": "reasoning",
    "reasoning_text": "reasoning",
}
"""The types of the items with parts, by the types of these."""
_STYLES: Final = {"summary_text": "summary", "reasoning_text": "raw"}

_PIECES: Final = {
    **DELTAS,
    **WHOLES,
    "response.reasoning.delta": "reasoning_text",
    "response.reasoning.done": "reasoning_text",
}
"""Events of texts; the last two are Open Responses' names for those of `reasoning_text`."""

_SUMMARY_PART_DONE: Final = "response.reasoning_summary_part.done"

_EVENTS: Final[dict[str, Callable[[ResponsesReader, shapes.Event], list[Event]]]] = {
    "response.created": ResponsesReader._created,
    "response.queued": ResponsesReader._begin,
    "response.in_progress": ResponsesReader._begin,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.content_part.added": ResponsesReader._part_added,
    "response.content_part.done": ResponsesReader._part_done,
    _SUMMARY_PART_DONE: ResponsesReader._part_done,
    **{
        name: ResponsesReader._delta if name.endswith(".delta") else ResponsesReader._whole
        for name in _PIECES
    },
    "response.completed": ResponsesReader._end,
    "response.incomplete": ResponsesReader._end,
    "response.done": ResponsesReader._end,
    "response.failed": ResponsesReader._failed,
}
"""Events that are read (`response.done` is the Realtime API's for any end, with the status in the
response)."""


def report_unread(response: Response, prefix: str, inbound: Inbound) -> None:
    """Report the unread members of a response object that are not empty."""
    unread = {name: content for name, content in response.odd.items() if content not in _EMPTY}
    usage = response.tool_usage
    if not counts_only_searches(usage) or (usage not in _EMPTY and not inbound.counts_searches):
        unread["tool_usage"] = usage
    if response.moderation and _moderation(response.moderation) != response.moderation:
        unread["moderation"] = response.moderation
    for name in (*unread, *unread_counts(response.usage)):
        detail = "has no counterpart for the client"
        inbound.ledger.add(prefix + name, LossKind.KNOB, detail)


_EMPTY: Final = (None, list[Any](), dict[str, Any]())


def _moderation(found: Any) -> JsonObject | None:
    """The moderation results of input and output; None if there was no moderation."""
    if not isinstance(found, dict):
        return None
    sides = {side: found[side] for side in ("input", "output") if isinstance(found.get(side), dict)}
    return sides or None

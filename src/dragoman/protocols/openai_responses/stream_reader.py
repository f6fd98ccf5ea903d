"""Reads a stream of a Responses upstream (grammar: protocols 2.3).

It accepts deviations of servers: events without names, indexes or ids, pieces without
announcements, items in the last event only. Unknown content is reported, not refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn

import msgspec
from msgspec import Struct

from dragoman import jsontext
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
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.finish import read_finish
from dragoman.protocols.openai_responses.items import (
    Item,
    Items,
    OpenBlock,
)
from dragoman.protocols.openai_responses.loose import (
    arguments_of,
    as_known,
    as_message,
    text_in,
    word,
)
from dragoman.protocols.openai_responses.output_reader import OutputReader
from dragoman.protocols.openai_responses.shapes import (
    ARGUMENTS_DELTA,
    TEXT_DELTA,
    read_arguments_delta,
    read_text_delta,
)
from dragoman.protocols.openai_responses.usage import read_usage
from dragoman.protocols.openai_responses.web_search import counts_only_searches, searches_of
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_IN_PROGRESS = b"response.in_progress"
_PART_ADDED = b"response.content_part.added"


class _Progress(Struct, forbid_unknown_fields=True):
    """The event that repeats the first one, which may have all of a large request."""

    type: Literal["response.in_progress"]
    response: msgspec.Raw
    sequence_number: int = 0


_progress = jsontext.decoder(_Progress)


def _adds_nothing(data: bytes) -> bool:
    """Whether an event is one of those, without unusual members."""
    try:
        _progress(data)
        if not data.isascii():
            data.decode()  # the response was not decoded
    except (JsonError, UnicodeDecodeError):
        return False
    return True


def _begins_empty(data: bytes) -> bool:
    """Whether an event that starts a part has a single, empty text."""
    return b'"text":""' in data and data.count(b'"text":') == 1 and data.endswith(b"}")


def started(response: JsonObject) -> Started:
    """The beginning of an answer, from a response object."""
    return Started(
        id=word(response, "id") or "",
        model=word(response, "model") or "",
        created=_seconds(response.get("created_at")),
        service_tier=word(response, "service_tier"),
    )


def _seconds(created: Any) -> int:
    """A timestamp, which some servers give with fractions."""
    if type(created) is float and 0 <= created < 1e15:
        created = int(created)
    return whole_number(created) or 0


def metered(response: JsonObject, inbound: Inbound) -> list[Event]:
    """The usage of an answer, if its response object has it."""
    tier, searches = word(response, "service_tier"), None
    if "tool_usage" in response and inbound.counts_searches:
        searches = searches_of(response["tool_usage"])
    usage = read_usage(response.get("usage"), tier, searches)
    return [] if usage is None else [Metered(usage, tier)]


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream.

    Raises:
        UpstreamError: the answer failed, is not finished, or is not an answer.
    """
    response = inbound.decode_answer(body)
    status, error = response.get("status"), response.get("error")
    if status not in _FAILED and not (error and is_error(error)):
        has_output = isinstance(response.get("output"), list)
        if not has_output and (error := stray_error(response)) is not None:
            raise UpstreamError(fault_of(error))
        if status not in _FINISHED:
            raise UpstreamError(unknown_finish(status))
        if not has_output:
            raise UpstreamError.unreadable("it has no output")
    return ResponsesReader(inbound).whole(response)


_FAILED = ("failed", "cancelled")
"""Statuses of a response that ended without an answer."""

_FINISHED = (None, "completed", "incomplete")
_UNFINISHED = ("in_progress",)
"""Statuses that an event may override: a whole answer has no other sign that it is complete."""


class ResponsesReader:
    """The reader of one stream: its frames as events."""

    __slots__ = (
        "_answer",
        "_block",
        "_call",
        "_inbound",
        "_initial_texts",
        "_items",
        "_over",
        "_place",
        "_started",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._answer = OutputReader(inbound)
        self._started = False
        self._over = False
        self._items = Items()
        self._place: tuple[int, int, str | None] = (-1, -1, None)
        self._block: OpenBlock | None = None
        """The text part of the last delta, and its place."""
        self._call: Item | None = None
        """The call of the last event, if that was a delta of its arguments."""
        self._initial_texts: dict[tuple[int, int], tuple[Item, InitialText, int]] = {}
        """The initial texts of parts, by the number of the item and the part's index, and the
        length of the text under that index before."""

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        if frame.event == TEXT_DELTA and self._block is not None:
            block = self._block
            try:
                event = read_text_delta(frame.data)
            except REFUSED:
                return self._read_slowly(frame)
            place = (event.output_index, event.content_index, event.item_id)
            if place == self._place and event.delta and not event.logprobs and not block.ended:
                block.pieces.append(event.delta)
                return (Delta(block.index, event.delta),)
        elif frame.event == ARGUMENTS_DELTA and self._call is not None:
            try:
                further = read_arguments_delta(frame.data)
            except REFUSED:
                return self._read_slowly(frame)
            place = (further.output_index, 0, further.item_id)
            if place == self._place and not self._call.done:
                return self._answer.arguments(self._call, further.delta)
        elif (frame.event == _IN_PROGRESS and self._started and _adds_nothing(frame.data)) or (
            frame.event == _PART_ADDED and self._started and _begins_empty(frame.data)
        ):
            return ()
        return self._read_slowly(frame)

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes: none if the answer had ended, else a failure."""
        if self._over:
            return ()
        self._over = True
        return (Failed(UpstreamError.unreadable("its stream ends before the answer does").fault),)

    def _read_slowly(self, frame: Frame) -> list[Event]:
        self._call = None
        try:
            return self._read_event(frame)
        except UpstreamError as error:
            self._over = True
            return [Failed(error.fault)]

    def _read_event(self, frame: Frame) -> list[Event]:
        try:
            value = self._inbound.decode(frame.data)
        except JsonError:
            data = frame.data.strip()
            if data == DONE or not (data or frame.event):
                return []
            if data:
                raise UpstreamError.unreadable("an event is not JSON") from None
            value = {}
        if not isinstance(value, dict):
            raise UpstreamError.unreadable("an event is not a JSON object")
        kind = word(value, "type") or frame.event.decode(errors="replace")
        if kind == "error" or (is_error(value.get("error")) and not kind.startswith("response.")):
            raise UpstreamError(fault_of(stray_error(value)))
        known = _EVENTS.get(kind)
        if known is None:
            if not is_typed(kind) and (error := stray_error(value)) is not None:
                raise UpstreamError(fault_of(error))
            if kind not in wire.IGNORED_EVENTS:
                hosted = kind.startswith(wire.HOSTED_PROGRESS)
                detail = "progress of a hosted item" if hosted else "unknown event"
                is_content = not hosted and not value.keys().isdisjoint(_SAYING)
                loss = LossKind.CONTENT if is_content else LossKind.KNOB
                self._inbound.ledger.add(kind or "event", loss, detail)
            return []
        if not value.keys() <= wire.EVENT_FIELDS:
            for name in value:
                if name not in wire.EVENT_FIELDS:
                    self._lose(f"{kind}.{name}", "unknown field of an event")
        events = known(self, value)
        if not self._started:
            self._started = True
            events.insert(0, Started("", ""))
        return events

    def _created(self, value: JsonObject) -> list[Event]:
        response = value.get("response")
        name = word(response, "id") if isinstance(response, dict) else None
        if name and name != self._answer.answer_id and any(map(Item.has_content, self._items)):
            raise UpstreamError.unreadable("a second response begins in it")
        return self._begin(value)

    def _begin(self, value: JsonObject) -> list[Event]:
        response = value.get("response")
        if self._started or not isinstance(response, dict):
            return []
        self._started = True
        self._answer.answer_id = word(response, "id") or ""
        report_unread(response, "response.", self._inbound)
        return [started(response)]

    def _item_added(self, value: JsonObject) -> list[Event]:
        head = value.get("item")
        if not isinstance(head, dict):
            return []
        head = as_message(head)
        item = self._items.announced(_number(value), head)
        return self._answer.announce(item, head, f"response.output_item.added[{item.number}].item")

    def _item_done(self, value: JsonObject) -> list[Event]:
        whole = value.get("item")
        if not isinstance(whole, dict):
            return []
        whole = as_message(whole)
        item = self._items.finished(_number(value), whole)
        return self._answer.complete(item, whole, f"response.output_item.done[{item.number}].item")

    def _item(self, value: JsonObject, kind: str, *, more: bool = True) -> Item:
        """The item an event belongs to."""
        return self._items.touched(_number(value), word(value, "item_id"), kind, more=more)

    def _text_delta(self, value: JsonObject) -> list[Event]:
        item, at = self._item(value, "message"), _index(value, "content_index")
        text = _piece(value)
        if self._initial_texts:
            text = self._after_head(item, at, text)
        events = self._answer.text(item, at, text, _list(value, "logprobs"))
        number = _number(value)
        self._place = (-1 if number is None else number, at, word(value, "item_id"))
        self._block = self._answer.text_block(item, at)
        return events

    def _text_done(self, value: JsonObject) -> list[Event]:
        text, logprobs = _text(value, "text"), _list(value, "logprobs")
        part = {"type": "output_text", "text": text, "logprobs": logprobs}
        return self._part(value, part, over=False)

    def _refusal_delta(self, value: JsonObject) -> list[Event]:
        item, at = self._item(value, "message"), _index(value, "content_index")
        return self._answer.text(item, at, _piece(value), refuses=True)

    def _refusal_done(self, value: JsonObject) -> list[Event]:
        part = {"type": "refusal", "refusal": _text(value, "refusal")}
        return self._part(value, part, over=False)

    def _part_added(self, value: JsonObject) -> list[Event]:
        part = value.get("part")
        if not isinstance(part, dict) or not part.get("text"):
            return []  # its place is that of its first piece
        if as_known(part).get("type") != "output_text":
            return []
        item, at = self._item(value, "message"), _index(value, "content_index")
        events: list[Event] = []
        if (item.number, at) in self._initial_texts:
            # Another part with its index.
            events = self._end_initial(*self._initial_texts.pop((item.number, at)), at)
        head = InitialText(text_in(as_known(part)))
        self._initial_texts[item.number, at] = item, head, item.length_at(at)
        self._block = None
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

    def _part_done(self, value: JsonObject) -> list[Event]:
        part = value.get("part")
        return self._part(value, part, over=True) if isinstance(part, dict) else []

    def _part(self, value: JsonObject, part: JsonObject, *, over: bool) -> list[Event]:
        part = as_known(part)
        if part.get("type") == "reasoning_text":
            return self._rest_of_reasoning(
                value, "raw", "content_index", _text(part, "text"), over=over
            )
        item, at = self._item(value, "message", more=False), _index(value, "content_index")
        return self._answer.part(item, at, part, f"{value.get('type')}.part", over=over)

    def _annotation(self, value: JsonObject) -> list[Event]:
        item, at = self._item(value, "message", more=False), _index(value, "content_index")
        path = "response.output_text.annotation.added.annotation"
        return self._answer.annotation(item, at, value.get("annotation"), path)

    def _summary_delta(self, value: JsonObject) -> list[Event]:
        item, at = self._item(value, "reasoning"), _index(value, "summary_index")
        return self._answer.reasoning(item, "summary", at, _piece(value))

    def _summary_done(self, value: JsonObject) -> list[Event]:
        return self._rest_of_reasoning(value, "summary", "summary_index", _text(value, "text"))

    def _summary_part_done(self, value: JsonObject) -> list[Event]:
        part = value.get("part")
        text = _text(part, "text") if isinstance(part, dict) else ""
        return self._rest_of_reasoning(value, "summary", "summary_index", text, over=True)

    def _reasoning_delta(self, value: JsonObject) -> list[Event]:
        item, at = self._item(value, "reasoning"), _index(value, "content_index")
        return self._answer.reasoning(item, "raw", at, _piece(value))

    def _reasoning_done(self, value: JsonObject) -> list[Event]:
        return self._rest_of_reasoning(value, "raw", "content_index", _text(value, "text"))

    def _rest_of_reasoning(
        self, value: JsonObject, style: str, index: str, text: str, *, over: bool = False
    ) -> list[Event]:
        item, at = self._item(value, "reasoning", more=False), _index(value, index)
        return self._answer.rest_of_reasoning(item, style, at, text, over=over)

    def _arguments_delta(self, value: JsonObject) -> list[Event]:
        item, number = self._item(value, "function_call"), _number(value)
        events = self._answer.arguments(item, _piece(value))
        self._block, self._call = None, item
        self._place = (-1 if number is None else number, 0, word(value, "item_id"))
        return events

    def _arguments_done(self, value: JsonObject) -> list[Event]:
        item = self._item(value, "function_call", more=False)
        return self._answer.rest_of_arguments(item, arguments_of(value, "function_call"))

    def _input_delta(self, value: JsonObject) -> list[Event]:
        return self._answer.arguments(self._item(value, "custom_tool_call"), _piece(value))

    def _input_done(self, value: JsonObject) -> list[Event]:
        item = self._item(value, "custom_tool_call", more=False)
        return self._answer.rest_of_arguments(item, _text(value, "input"))

    def _completed(self, value: JsonObject) -> list[Event]:
        return self._terminal(value, complete=True)

    def _incomplete(self, value: JsonObject) -> list[Event]:
        return self._terminal(value, complete=False)

    def _terminal(self, value: JsonObject, *, complete: bool) -> list[Event]:
        response = value.get("response")
        response = response if isinstance(response, dict) else {}
        begun = self._begin(value)
        self._over = True
        missing = self._missing(response, "response.") + self._ended_initial()
        if self._items.has_strays():
            raise UpstreamError.unreadable("pieces of it are of no item that it has")
        open_ = [event for item in self._items for event in self._answer.close(item)]
        return [*begun, *missing, *open_, *self._end(response, "response.", complete=complete)]

    def whole(self, response: JsonObject) -> list[Event]:
        """The events of an answer without earlier events.

        Raises:
            UpstreamError: it failed, or is unusable.
        """
        self._answer.answer_id = word(response, "id") or ""
        items = self._missing(response, "")
        return [started(response), *items, *self._end(response, "", complete=True)]

    def _missing(self, response: JsonObject, path: str) -> list[Event]:
        """The remainder of the items in the response object at `path`."""
        error = response.get("error")
        if (error and is_error(error)) or response.get("status") in _FAILED:
            raise UpstreamError(fault_of(stray_error(response)))
        if response.get("output") and not isinstance(response["output"], list):
            raise UpstreamError.unreadable("its output is no list")
        events: list[Event] = []
        for position, whole in enumerate(_list(response, "output")):
            if not isinstance(whole, dict):
                raise UpstreamError.unreadable("an output item is not an object")
            whole = as_message(whole)
            item = self._items.listed(position, whole)
            events += self._answer.complete(item, whole, f"{path}output[{position}]")
        text = _text(response, "output_text")
        if text and not any(item.kind == "message" and item.has_content() for item in self._items):
            # Libraries assemble it from the output; some servers send only this.
            alone = {"type": "message", "content": text}
            item = self._items.listed(len(_list(response, "output")), alone)
            events += self._answer.complete(item, alone, f"{path}output_text")
        return events

    def _end(self, response: JsonObject, path: str, *, complete: bool) -> list[Event]:
        """The end of the answer, and its usage."""
        report_unread(response, path, self._inbound)
        status, details = response.get("status"), response.get("incomplete_details")
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
        return [Finished(finish), *cost, Ended(_moderation(response))]

    def _failed(self, value: JsonObject) -> NoReturn:
        response = value.get("response")
        error = response.get("error") if isinstance(response, dict) else None
        raise UpstreamError(fault_of(error))

    def _lose(self, path: str, detail: str) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)


_SAYING = frozenset({"delta", "text", "refusal", "part", "item", "arguments", "input"})
"""Members of events with content of an answer."""

_EVENTS: dict[str, Callable[[ResponsesReader, JsonObject], list[Event]]] = {
    "response.created": ResponsesReader._created,
    "response.queued": ResponsesReader._begin,
    "response.in_progress": ResponsesReader._begin,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    "response.output_text.delta": ResponsesReader._text_delta,
    "response.output_text.done": ResponsesReader._text_done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.refusal.delta": ResponsesReader._refusal_delta,
    "response.refusal.done": ResponsesReader._refusal_done,
    "response.content_part.added": ResponsesReader._part_added,
    "response.content_part.done": ResponsesReader._part_done,
    "response.reasoning_summary_text.delta": ResponsesReader._summary_delta,
    "response.reasoning_summary_text.done": ResponsesReader._summary_done,
    "response.reasoning_summary_part.done": ResponsesReader._summary_part_done,
    "response.reasoning_text.delta": ResponsesReader._reasoning_delta,
    "response.reasoning_text.done": ResponsesReader._reasoning_done,
    "response.reasoning.delta": ResponsesReader._reasoning_delta,
    "response.reasoning.done": ResponsesReader._reasoning_done,
    "response.function_call_arguments.delta": ResponsesReader._arguments_delta,
    "response.function_call_arguments.done": ResponsesReader._arguments_done,
    "response.custom_tool_call_input.delta": ResponsesReader._input_delta,
    "response.custom_tool_call_input.done": ResponsesReader._input_done,
    "response.completed": ResponsesReader._completed,
    "response.incomplete": ResponsesReader._incomplete,
    "response.done": ResponsesReader._completed,
    "response.failed": ResponsesReader._failed,
}
"""Events that are read (the `reasoning.*` pair is Open Responses' name for `reasoning_text.*`,
`response.done` the Realtime API's for any end, with the status in the response)."""


def report_unread(response: JsonObject, prefix: str, inbound: Inbound) -> None:
    """Report the unread fields of a response object that are not empty."""
    detail = "has no counterpart for the client"
    if not wire.RESPONSE_FIELDS.issuperset(response):
        for name, content in response.items():
            if name == "tool_usage" and inbound.counts_searches:
                if not counts_only_searches(content):
                    inbound.ledger.add(prefix + name, LossKind.KNOB, detail)
            elif name not in wire.RESPONSE_FIELDS and content not in (None, [], {}):
                inbound.ledger.add(prefix + name, LossKind.KNOB, detail)
    if response.get("moderation") and _moderation(response) != response["moderation"]:
        inbound.ledger.add(f"{prefix}moderation", LossKind.KNOB, detail)
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return
    for name, fields in wire.USAGE_FIELDS.items():
        counts = usage.get(name)
        if isinstance(counts, dict) and not fields.issuperset(counts):
            for unread, count in counts.items():
                if unread not in fields and count:
                    inbound.ledger.add(f"{prefix}usage.{name}.{unread}", LossKind.KNOB, detail)


def _moderation(response: JsonObject) -> JsonObject | None:
    """The moderation results of input and output; None if there was no moderation."""
    found = response.get("moderation")
    if not isinstance(found, dict):
        return None
    sides = {side: found[side] for side in ("input", "output") if isinstance(found.get(side), dict)}
    return sides or None


def _number(value: JsonObject) -> int | None:
    number = value.get("output_index")
    return number if type(number) is int else None


def _text(value: JsonObject, name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _piece(value: JsonObject) -> str:
    """The text of a delta, in `delta` or, from few servers, in `text`.

    Raises:
        UpstreamError: there is none, and content would be lost.
    """
    piece = value["delta"] if "delta" in value else value.get("text")
    if isinstance(piece, str):
        return piece
    if piece:
        raise UpstreamError.unreadable("a delta of its stream is no text")
    return ""


def _list(value: JsonObject, name: str) -> list[Any]:
    items = value.get(name)
    return items if isinstance(items, list) else []


def _index(value: JsonObject, name: str) -> int:
    index = value.get(name)
    return index if type(index) is int else 0

"""Matches answers that are passed through with what Responses allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw, Struct, json

from dragoman import jsontext
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.usage import Usage, summed
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.error_body import is_error, is_typed
from dragoman.protocols.finish_words import is_failure
from dragoman.protocols.matching import (
    Arguments,
    Read,
    Run,
    Watch,
    blank_after,
    has_lone_escape,
    is_object,
)
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses.additions import ANSWERS, CREATED, Additions, retargeted
from dragoman.protocols.openai_responses.loose import CALLS, as_message
from dragoman.protocols.openai_responses.shapes import (
    DELTAS,
    OUTPUT_MEMBERS,
    WHOLES,
    AnyEvent,
    OutputItem,
)
from dragoman.protocols.openai_responses.shown import ABSENT, Seen, changed_in, of_next, showing
from dragoman.protocols.openai_responses.stream_writer import ResponsesWriter
from dragoman.protocols.openai_responses.usage import read_usage
from dragoman.protocols.openai_responses.web_search import searches_of
from dragoman.protocols.reading import REFUSED
from dragoman.sse import Frame, encode

# --- shapes -------------------------------------------------------------------------------------
#
# What passes is what is read, and it may have further members.


class Item(OutputItem, forbid_unknown_fields=False, kw_only=True):
    """An item of one of the types that are read. Other servers have content in the members that
    are None."""

    text: None = None
    output_text: None = None
    reasoning: None = None
    reasoning_content: None = None
    thinking: None = None

    @property
    def texts(self) -> list[tuple[str, str | None]]:
        """The types and texts of its parts; a call is one."""
        if self.type in CALLS:
            return [(self.type, self.payload)]
        return [(part.type, part.value) for part in (*(self.summary or ()), *(self.content or ()))]

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What does not change from its start to its end, but for its id."""
        return self.type, self.call_id, self.name, self.namespace

    def is_exact(self) -> bool:
        """Whether it has the members that readers require."""
        if self.type in CALLS and not (self.name and self.call_id):
            return False
        known = _PARTS[self.type]
        return all(kind in known and text is not None for kind, text in self.texts)

    def is_whole(self) -> bool:
        """Whether it is exact, and its arguments are an object if it is a call that was not cut."""
        if not self.is_exact():
            return False
        if self.type != "function_call":
            return True
        arguments = self.arguments or ""
        if has_lone_escape(arguments):
            return False
        return self.status == "incomplete" or is_object(arguments)


_PARTS = {
    "message": ("output_text", "refusal"),
    "reasoning": ("summary_text", "reasoning_text"),
    "function_call": ("function_call",),
    "custom_tool_call": ("custom_tool_call",),
}
"""The types of the parts of an item."""

_SUMMARY = "summary_text"
_INDEXES = {_SUMMARY: b"summary_index"}
"""The members of events with the index of a part, where that is not `content_index`."""


class Event(AnyEvent, kw_only=True):
    """An event about an item. The item's bytes are repeated at the end."""

    item: Raw = ABSENT


class Other(Struct):
    """Any event or item."""

    type: str
    sequence_number: Any = -1


_other = decoder(Other)
_event = json.Decoder(Event).decode
_item = decoder(Item)
_items = decoder(list[Raw])

_LIFECYCLE = frozenset(
    {
        b"response.created",
        b"response.queued",
        b"response.in_progress",
        b"response.completed",
        b"response.incomplete",
        b"response.failed",
    }
)
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}

# --- items --------------------------------------------------------------------------------------


class OpenPart(Struct, eq=False):
    """A part, or the arguments or the input of a call: its type, where its events say that it is
    (`at` is its index among the parts of the summary or of the content), and its text."""

    type: str
    index: int
    item_id: str | None
    at: int | None
    run: Run


class OpenItem(Struct, eq=False):
    """An item in progress. `log` is its record for a reader, in order."""

    index: int
    head: Item
    log: list[Frame | Run]
    parts: list[OpenPart] = []

    def begin_part(self, kind: str, at: int | None) -> OpenPart:
        """Start a part of type `kind`."""
        index = b"" if at is None else b',"%b":%d' % (_INDEXES.get(kind, b"content_index"), at)
        names = _DELTAS_OF[kind], to_json(self.head.id), self.index, index
        head = b'{"type":"%b","item_id":%b,"output_index":%d%b,"delta":"' % names
        run = Arguments(head, b'"}') if kind == "function_call" else Run(head, b'"}')
        part = OpenPart(kind, self.index, self.head.id, at, run)
        self.parts.append(part)
        self.log.append(run)
        return part

    def is_matched_by(self, item: Item) -> bool:
        """Whether the complete item equals the content received."""
        texts = item.texts
        return (
            (item.id, item.identity) == (self.head.id, self.head.identity)
            and len(texts) == len(self.parts)
            and all(
                kind == part.type and _is_same(part.run, text)
                for (kind, text), part in zip(texts, self.parts, strict=True)
            )
        )

    def frames(self) -> Iterator[Frame]:
        """Equivalent events."""
        for one in self.log:
            if isinstance(one, Frame):
                yield one
            elif one.text:
                yield one.frame(b"response.delta")


def _is_same(run: Run, whole: str | None) -> bool:
    """Whether a complete text equals its pieces."""
    return whole is not None and to_json(whole)[1:-1] == run.text


_DELTAS = {name.encode(): kind for name, kind in DELTAS.items()}
_DELTAS_OF = {kind: name for name, kind in _DELTAS.items()}

# --- streams ------------------------------------------------------------------------------------


class ResponsesMatcher(Watch):
    """The Responses matcher; see `base.Matcher`. In exact events only members of the response
    object change."""

    __slots__ = (
        "_added",
        "_calls",
        "_done",
        "_is_begun",
        "_names",
        "_number",
        "_open",
        "_part",
        "_shown",
        "_spent",
        "_start",
        "_unread_items",
        "unreported",
    )

    def __init__(
        self,
        model: str | None,
        include_usage: bool,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
    ) -> None:
        super().__init__()
        self._shown = shown if model is None else {"model": model, **shown}
        self._start: dict[str, Any] = {}
        """The members of the first response object that readers use."""
        self._is_begun = False
        """Whether the current response was created."""
        self._number = 0
        """Sequence number of the next event."""
        self._done: dict[int, Raw] = {}
        """The complete items, by index."""
        self._unread_items: set[int] = set()
        """Indexes of the open items of other types, which only the client reads."""
        self._open: OpenItem | None = None
        self._part: OpenPart | None = None
        """The part in progress of the open item."""
        self._calls: set[str | None] = set()
        """The ids of the calls."""
        self._added: Additions | None = None
        """The additions to the response; None before one was accepted."""
        self._names: dict[str, str] = {}
        """The ids shown to the client, by the upstream's ids, where they differ."""
        self._spent: Usage | None = None
        """Usage of the responses before the current one."""
        self.unreported = 0

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the event is not exact."""
        data, name = frame.data, frame.event
        try:
            if not name:
                name = _other(data).type.encode()
                frame = Frame(name, data)
            if self.undo is not None and name not in _DELTAS and self._is_torn:
                return None
            known = _EVENTS.get(name)
            if known is not None:
                event, (kind, take) = _event(data), known
                if event.type != kind or not take(self, event, frame):
                    return None
                self._number = _after(event.sequence_number, self._number)
                return frame.raw
            if name in _LIFECYCLE:
                return self._lifecycle(frame)
            return self._pass(frame)
        except (JsonError, *REFUSED):
            return None if data.strip() or name else b""

    def _grow_arguments(self, run: Arguments, piece: str) -> bool:
        if run.text and not run.open and self.undo is None and "\\" not in piece:
            run.add(piece)  # its meaning does not depend on others
        elif run.allows(piece, is_undoable=self.undo is not None):
            self.undo = run.grow(piece)
        else:
            return False
        self.text_bytes += len(piece)
        self.blank = blank_after(self.blank, piece)
        return True

    @property
    def _is_torn(self) -> bool:
        """Whether the arguments of the open item end within an escape."""
        part = self._part
        return part is not None and isinstance(part.run, Arguments) and bool(part.run.open)

    # Events of items.

    def _begin_item(self, event: Event, frame: Frame) -> bool:
        index = len(self._done) + len(self._unread_items)
        if not self._is_begun or self._open is not None or event.output_index != index:
            return False
        if _is_foreign(event.item):
            self._unread_items.add(index)
            self.begun = True
            return True
        item = _item(event.item)
        is_call = item.type in CALLS
        if not item.id or not item.is_exact() or item.texts != ([(item.type, "")] * is_call):
            return False  # its content comes in pieces
        if is_call and item.call_id in self._calls:
            return False
        self._open = OpenItem(index, item, [frame])
        self.begun = self.begun or bool(item.encrypted_content) or is_call
        if is_call:
            self._calls.add(item.call_id)
            self._part = self._open.begin_part(item.type, None)
        return True

    def _touched(self, event: Event) -> OpenItem | None:
        """The open item, if an event belongs to it."""
        item = self._open
        is_its = item is not None and event.output_index == item.index
        return item if is_its and item is not None and event.item_id == item.head.id else None

    def _begin_part(self, event: Event, frame: Frame) -> bool:
        item, part = self._touched(event), event.part
        if item is None or part is None or part.type not in _PARTS[item.head.type]:
            return False
        is_summary = part.type == _SUMMARY
        at = sum((one.type == _SUMMARY) is is_summary for one in item.parts)
        if event.at(part.type) != at or part.value != "" or self._part is not None:
            return False
        item.log.append(frame)
        self._part = item.begin_part(part.type, at)
        return True

    def _part_of(self, event: Event, kind: str) -> OpenPart | None:
        """The part in progress of the type `kind` that an event is about."""
        part = self._part
        if part is None or part.type != kind or event.item_id != part.item_id:
            return None
        if event.output_index != part.index:
            return None
        return part if part.at is None or event.at(kind) == part.at else None

    def _grow(self, event: Event, frame: Frame) -> bool:
        part, text = self._part_of(event, DELTAS[event.type]), event.delta
        if part is None or text is None:
            return False
        run = part.run
        if isinstance(run, Arguments):
            return self._grow_arguments(run, text)
        raw = to_json(text)[1:-1]
        run.text += raw
        self.blank = 0
        self.text_bytes += len(raw)
        if text:
            self.begun = True
        return True

    def _whole_text(self, event: Event, frame: Frame) -> bool:
        kind = WHOLES[event.type]
        return self._is_whole(frame, self._part_of(event, kind), event.whole(kind))

    def _end_part(self, event: Event, frame: Frame) -> bool:
        whole = event.part
        part = None if whole is None else self._part_of(event, whole.type)
        if part is None or whole is None or not self._is_whole(frame, part, whole.value):
            return False
        self._part = None
        return True

    def _is_whole(self, frame: Frame, part: OpenPart | None, text: str | None) -> bool:
        """Whether an event has the whole text of a part in progress."""
        if self._open is None or part is None or not _is_same(part.run, text):
            return False
        self._open.log.append(frame)
        return True

    def _end_item(self, event: Event, frame: Frame) -> bool:
        index = event.output_index
        if index in self._unread_items:
            if not _is_foreign(event.item):
                return False
            self._unread_items.remove(index)
        elif self._open is None or index != self._open.index:
            return False
        else:
            item = _item(event.item)
            if item.status == "in_progress" or not item.is_whole():
                return False
            if not self._open.is_matched_by(item):
                return False
            self._open = self._part = None
            self.blank = 0
        self._done[index] = Raw(bytes(event.item))
        return True

    def _annotate(self, event: Event, frame: Frame) -> bool:
        item = self._touched(event)
        if item is None or not item.parts or event.content_index != item.parts[-1].at:
            return False
        item.log.append(frame)
        return True

    def _pass(self, frame: Frame) -> bytes | None:
        """Pass on an event of an unread type."""
        name, event = frame.event, _other(frame.data)
        if event.type.encode() != name or name == b"error" or name in _READ:
            return None
        if not is_typed(event.type):
            return None
        self.begun = self.begun or name.startswith(b"response.")
        if name in ANSWERS:
            return self._answered(frame)
        self._number = _after(event.sequence_number, self._number)
        return frame.raw

    # The life of the response.

    def _lifecycle(self, frame: Frame) -> bytes | None:
        data, event = showing(frame.data, self._shown)
        response = event.response
        if response is None or event.type.encode() != frame.event:
            return None
        name, is_end = response.id, event.type in _ENDS
        is_new = not self._is_begun
        if not is_new and name != self.answer_id and self.begun and self._added is None:
            return None  # a second response
        # A steered response ends in the middle of an item.
        if is_end and self._added is None and not self._ends(response, _ENDS[event.type]):
            return None
        if is_new:
            self._begin(response)
        raw = frame.raw if data is frame.data else encode(data, frame.event)
        self._number = _after(event.sequence_number, self._number)
        reported = usage_of(response)
        if reported is not None:
            self.usage = reported if self._spent is None else summed(self._spent, reported)
        if self._added is not None and event.type == "response.created":
            self._added.take(CREATED, data)
        if is_end or event.type == "response.failed":
            self._end(response, frame.event, data, has_usage=reported is not None)
        return raw

    def _begin(self, response: Seen) -> None:
        self._is_begun = True
        self.answer_id = response.id or ""
        names = ("id", "created_at", "service_tier")
        self._start = {name: getattr(response, name) for name in names}
        self._start["model"] = response.model or None
        if "id" in self._shown:
            self._names[self.answer_id] = self._shown["id"]

    def _ends(self, response: Seen, status: str) -> bool:
        """Whether a complete response equals the content received."""
        if self._open is not None or self._unread_items or has_failed(response):
            return False
        if response.status not in (None, status):
            return False
        try:
            output = _items(response.output)
        except JsonError:
            return False
        if len(output) != len(self._done) or (response.output_text and not output):
            return False
        return all(
            bytes(whole) == bytes(self._done[index]) or _is_same_item(whole, self._done[index])
            for index, whole in enumerate(output)
        )

    def _end(self, response: Seen, name: bytes, data: bytes, *, has_usage: bool) -> None:
        self.reason = reason_in(response, has_calls=bool(self._calls))
        self.ended = self._added is None or self._added.take(name, data)
        self._is_begun = False
        self._calls.clear()
        if not self.ended:
            # The next response continues this one, and not its predecessor.
            self._spent = self.usage
            self.unreported += not has_usage
            self._shown = of_next(self._shown, len(self._names))
            self._open = self._part = None
            self._done.clear()
            self._unread_items.clear()
        if name == b"response.failed":
            self.fault = fault_of(response.error)

    def _answered(self, frame: Frame) -> bytes:
        """Pass on an event about additional input."""
        self._added = self._added or Additions()
        self.ended = self._added.take(frame.event, frame.data)
        written = retargeted(frame.data, self._names) if self._names else frame.data
        return frame.raw if written is frame.data else encode(written, frame.event)

    def finish(self) -> bytes | None:
        """The bytes are over."""
        if self._added is None or not self._added.ended:
            return None
        self.ended = True
        return b""

    def hand_over(self, read: Read, writer: AnswerWriter) -> None:
        """Feed the received items to the reader, and the state shown to the client to the
        writer."""
        if self.undo is not None:
            self.undo()
        if self._added is not None:
            raise UpstreamError.unreadable("an event is not what the protocol allows")
        if not self._is_begun:
            return
        start = {"type": "response.created", "response": self._start}
        read(Frame(b"response.created", to_json(start)))
        for index, whole in self._done.items():
            if not _is_foreign(whole):
                event = {"type": _DONE.decode(), "output_index": index, "item": whole}
                read(Frame(_DONE, to_json(event)))
        assert isinstance(writer, ResponsesWriter)
        output, item = [self._done[index] for index in sorted(self._done)], self._open
        writer.resume(output, self._number, None if item is None else item.head.id)
        if item is not None:
            for frame in item.frames():
                read(frame)
            kind = None if self._part is None else self._part.type
            writer.resume_item(item.head.type, item.head.phase, kind, self._number)


def _is_foreign(raw: Raw) -> bool:
    """Whether only the client reads an item.

    Raises:
        JsonError: it is of an unknown type, and readers know how to read it.
    """
    if _other(raw).type in OUTPUT_MEMBERS:
        return False
    item = jsontext.object_of(raw) or {}
    if as_message(item) is not item:
        raise JsonError("an item of an unknown type that readers know how to read")
    return True


def _after(number: Any, expected: int) -> int:
    """The number of the event after one; some servers give none."""
    return (number if type(number) is int and number > expected else expected) + 1


def _is_same_item(whole: Raw, item: Raw) -> bool:
    """Whether two items of the read types have equal content."""
    try:
        one, other = _item(whole), _item(item)
        return (one.identity, one.texts) == (other.identity, other.texts)
    except JsonError:
        return jsontext.object_of(whole) == jsontext.object_of(item)


_DONE = b"response.output_item.done"

_EVENTS = {
    kind.encode(): (kind, take)
    for kind, take in (
        ("response.output_item.added", ResponsesMatcher._begin_item),
        (_DONE.decode(), ResponsesMatcher._end_item),
        ("response.content_part.added", ResponsesMatcher._begin_part),
        ("response.content_part.done", ResponsesMatcher._end_part),
        ("response.reasoning_summary_part.added", ResponsesMatcher._begin_part),
        ("response.reasoning_summary_part.done", ResponsesMatcher._end_part),
        ("response.output_text.annotation.added", ResponsesMatcher._annotate),
        *((kind, ResponsesMatcher._grow) for kind in DELTAS),
        *((kind, ResponsesMatcher._whole_text) for kind in WHOLES),
    )
}
_READ = frozenset({b"response.done", b"response.reasoning.delta", b"response.reasoning.done"})
"""Events of other servers that are read."""

# --- whole answers ------------------------------------------------------------------------------

_response = decoder(Seen)
_STATUSES = (None, "completed", "incomplete", "queued", "in_progress")


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`. A background response has no output yet."""
    try:
        answer = _response(body)
        output = _items(answer.output)
        items = [_item(item) for item in output if not _is_foreign(item)]
        calls = [item.call_id for item in items if item.type in CALLS]
        if has_failed(answer) or answer.status not in _STATUSES or len({*calls}) < len(calls):
            return None
        if (answer.output_text and not output) or not all(item.is_whole() for item in items):
            return None
        if answer.model != Raw(to_json(model)) or shown:
            members = jsontext.members(body)
            changed = changed_in(members, {"model": model, **shown})
            body = to_json({**members, **changed}) if changed else body
    except JsonError:
        return None
    usage, text_bytes = usage_of(answer), 0
    if usage is None or not usage.output:
        texts = [text for item in items for _, text in item.texts]
        text_bytes = sum(len(text.encode()) for text in texts if text)
    return Passed(body, usage, reason_in(answer, has_calls=bool(calls)), text_bytes)


def has_failed(answer: Seen) -> bool:
    """Whether a response failed, regardless of its event. In any other status it may be a
    background response."""
    return is_error(answer.error) or is_failure(answer.status)


def reason_in(answer: Seen, *, has_calls: bool) -> str:
    """The finish reason of an answer."""
    if isinstance(answer.incomplete_details, dict):
        return str(answer.incomplete_details.get("reason"))
    return "tool_calls" if has_calls and answer.status == "completed" else str(answer.status)


def usage_of(answer: Seen) -> Usage | None:
    """The usage of a response, None if it has none."""
    return read_usage(answer.usage, answer.service_tier, searches_of(answer.tool_usage))

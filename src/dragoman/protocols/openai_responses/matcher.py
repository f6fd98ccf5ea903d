"""Matches answers that are passed through with what Responses allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

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
    ARGUMENTS_DELTA,
    TEXT_DELTA,
    ItemDelta,
    read_arguments_delta,
    read_text_delta,
)
from dragoman.protocols.openai_responses.shown import ABSENT, Seen, changed_in, of_next, showing
from dragoman.protocols.openai_responses.stream_writer import ResponsesWriter
from dragoman.protocols.openai_responses.usage import read_usage
from dragoman.protocols.openai_responses.web_search import searches_of
from dragoman.protocols.reading import REFUSED
from dragoman.sse import Frame, encode

# --- shapes -------------------------------------------------------------------------------------


class Part(Struct):
    """A part of a message or of reasoning."""

    type: str
    text: Raw = ABSENT
    refusal: Raw = ABSENT

    @property
    def value(self) -> Raw:
        """Its text."""
        return self.refusal if self.type == "refusal" else self.text


class Item(Struct):
    """An item of one of the types with text or arguments."""

    type: Literal["message", "reasoning", "function_call", "custom_tool_call"]
    id: str = ""
    role: Literal["assistant", None] = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Raw = ABSENT
    input: Raw = ABSENT
    content: list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: Any = None
    text: None = None
    output_text: None = None
    reasoning: None = None
    reasoning_content: None = None
    thinking: None = None

    @property
    def parts(self) -> list[Part]:
        """Its parts."""
        return [*(self.summary or ()), *(self.content or ())]

    @property
    def payload(self) -> Raw:
        """The arguments or the input of a call."""
        return self.input if self.type == "custom_tool_call" else self.arguments

    def is_exact(self) -> bool:
        """Whether it has the members that readers require."""
        if self.type in CALLS:
            return bool(self.name and self.call_id) and _is_text(self.payload)
        known = _PARTS[self.type]
        return all(part.type in known and _is_text(part.value) for part in self.parts)

    def is_empty(self) -> bool:
        """Whether it is empty, as at its start: its content comes in pieces."""
        return not self.parts if self.type not in CALLS else bytes(self.payload) == b'""'

    def compared(self) -> tuple[Any, ...]:
        """Its type, identity and content, to compare items."""
        texts = [jsontext.decode(part.value) for part in self.parts]
        payload = jsontext.decode(self.payload) if self.payload else ""
        return self.type, self.call_id, self.name, self.namespace, texts, payload


_PARTS = {
    "message": frozenset({"output_text", "refusal"}),
    "reasoning": frozenset({"summary_text", "reasoning_text"}),
}
"""The types of the parts of an item."""

_SUMMARY = "summary_text"


class Other(Struct):
    """Any event."""

    type: str = ""
    sequence_number: Any = -1


class Event(Other):
    """An event about an item."""

    output_index: int = -1
    content_index: int = -1
    summary_index: int = -1
    item_id: str = ""
    item: Raw = ABSENT
    part: Part | None = None
    delta: Raw = ABSENT
    text: Raw = ABSENT
    refusal: Raw = ABSENT
    arguments: Raw = ABSENT
    input: Raw = ABSENT

    @property
    def at(self) -> int:
        """The index of the part."""
        return max(self.content_index, self.summary_index)


class Kind(Struct):
    """The type of an item."""

    type: str


_other = decoder(Other)
_event = decoder(Event)
_item = decoder(Item)
_kind = decoder(Kind)
_items = decoder(list[Raw])
_text = decoder(str)


def _is_text(raw: Raw) -> bool:
    """Whether a value is a text that strict readers take."""
    data = bytes(raw)
    if not data.startswith(b'"'):
        return False
    if data.isascii() and data.find(b"\\u") < 0:
        return True
    try:
        _text(raw)
    except JsonError:
        return False
    return True


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
    """A part in progress."""

    type: str
    at: int
    """Its index among the parts of the summary, or of the content."""
    run: Run
    is_over: bool = False


class OpenItem(Struct, eq=False):
    """An item in progress. `log` is its record for a reader, in order."""

    index: int
    head: Item
    log: list[Frame | Run]
    parts: list[OpenPart] = []
    run: Run | None = None
    """The arguments or the input of a call."""

    def begin_part(self, kind: str, at: int, frame: Frame) -> None:
        """Start a part of type `kind`, with its event."""
        index = b"summary_index" if kind == _SUMMARY else b"content_index"
        run = self.text_run(_DELTAS_OF[kind], b',"%b":%d' % (index, at))
        self.parts.append(OpenPart(kind, at, run))
        self.log += (_recorded(frame), run)

    def text_run(self, delta: str, place: bytes = b"") -> Run:
        """The text of the item that deltas of a type extend."""
        names = delta.encode(), to_json(self.head.id), self.index, place
        head = b'{"type":"%b","item_id":%b,"output_index":%d%b,"delta":"' % names
        is_json = self.head.type == "function_call"
        return Arguments(head, b'"}') if is_json else Run(head, b'"}')

    def is_matched_by(self, item: Item) -> bool:
        """Whether the complete item equals the content received."""
        head, parts = self.head, item.parts
        return (
            (item.type, item.id, item.call_id, item.name, item.namespace)
            == (head.type, head.id, head.call_id, head.name, head.namespace)
            and len(parts) == len(self.parts)
            and all(
                whole.type == part.type and _is_same(part.run, whole.value)
                for whole, part in zip(parts, self.parts, strict=True)
            )
            and (self.run is None or _is_same(self.run, item.payload))
        )

    def frames(self) -> Iterator[Frame]:
        """Equivalent events."""
        for one in self.log:
            if isinstance(one, Frame):
                yield one
            elif one.text:
                yield one.frame(b"response.delta")


def _is_same(run: Run, whole: Raw) -> bool:
    """Whether a complete text equals its pieces."""
    data = bytes(whole)
    if data[1:-1] == run.text:
        return True
    return _is_text(whole) and _text(whole) == run.value()


_DELTAS = {
    b"response.output_text.delta": "output_text",
    b"response.refusal.delta": "refusal",
    b"response.reasoning_summary_text.delta": "summary_text",
    b"response.reasoning_text.delta": "reasoning_text",
    b"response.function_call_arguments.delta": "function_call",
    b"response.custom_tool_call_input.delta": "custom_tool_call",
}
"""Delta events, and the type of the part or call that they extend."""

_DELTAS_OF = {kind: name.decode() for name, kind in _DELTAS.items()}
_COMPLETE_EVENTS = {name.removesuffix(b"delta") + b"done": kind for name, kind in _DELTAS.items()}

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
        data = frame.data
        if frame.event == TEXT_DELTA and self._continues_text(data):
            return frame.raw
        if frame.event == ARGUMENTS_DELTA and self._continues_call(data):
            return frame.raw
        try:
            if not frame.event:
                name = _other(data).type.encode()
                frame = Frame(name, data, b"event: %b\n%b" % (name, frame.raw))
            take = _EVENTS.get(frame.event)
            if self.undo is not None and take is not ResponsesMatcher._grow and self._is_torn:
                return None
            if frame.event in _LIFECYCLE:
                return self._lifecycle(frame)
            event: Other
            if take is None:
                event = _other(data)
                passes = self._pass(frame)
            else:
                event = about = _event(data)
                passes = about.type.encode() == frame.event and take(self, about, frame)
            if event.type.encode() != frame.event:
                return None
            if frame.event in ANSWERS:
                return self._answered(frame)
        except JsonError:
            return None if data.strip() or frame.event else b""
        if not passes:
            return None
        number = event.sequence_number
        self._number = max(self._number, number if type(number) is int else -1) + 1
        return frame.raw

    def _continues_text(self, data: bytes) -> bool:
        """Take a further piece of the open text; False for an event that is unusual."""
        item = self._open
        part = item.parts[-1] if item is not None and item.parts else None
        if item is None or part is None or part.type != "output_text" or part.is_over:
            return False
        try:
            event = read_text_delta(data)
        except REFUSED:
            return False
        if event.content_index != part.at or not _is_of(event, item):
            return False
        text = to_json(event.delta)[1:-1]
        part.run.text += text
        self.blank = 0
        self._watch(text)
        self._number = max(self._number, event.sequence_number) + 1
        return True

    def _continues_call(self, data: bytes) -> bool:
        """The same for the arguments of the open call."""
        item = self._open
        if item is None or self.undo is not None or not isinstance(item.run, Arguments):
            return False
        try:
            event = read_arguments_delta(data)
        except REFUSED:
            return False
        if not _is_of(event, item) or not self._grow_arguments(item.run, event.delta):
            return False
        self._number = max(self._number, event.sequence_number) + 1
        return True

    def _grow_arguments(self, run: Arguments, piece: str) -> bool:
        if not run.allows(piece, is_undoable=self.undo is not None):
            return False
        self.undo = run.grow(piece)
        self._watch(piece)
        self.blank = blank_after(self.blank, piece)
        return True

    @property
    def _is_torn(self) -> bool:
        """Whether the arguments of the open item end within an escape."""
        run = None if self._open is None else self._open.run
        return isinstance(run, Arguments) and bool(run.open)

    # Events of items.

    def _begin_item(self, event: Event, frame: Frame) -> bool:
        index = len(self._done) + len(self._unread_items)
        if not self._is_begun or self._open is not None or event.output_index != index:
            return False
        if self._is_foreign(event.item):
            self._unread_items.add(index)
            self.begun = True
            return True
        item = _item(event.item)
        if not item.id or not item.is_exact() or not item.is_empty():
            return False
        if item.type in CALLS and item.call_id in self._calls:
            return False
        self._open = OpenItem(index, item, [_recorded(frame)])
        self.begun = self.begun or bool(item.encrypted_content)
        if item.type in CALLS:
            self._calls.add(item.call_id)
            self._open.run = self._open.text_run(_DELTAS_OF[item.type])
            self._open.log.append(self._open.run)
            self.begun = True
        return True

    def _is_foreign(self, raw: Raw) -> bool:
        """Whether only the client reads an item."""
        if _is_read(raw):
            return False
        item = jsontext.object_of(raw) or {}
        if as_message(item) is not item:
            raise JsonError("an item of an unknown type that readers know how to read")
        return True

    def _touched(self, event: Event) -> OpenItem | None:
        """The open item, if an event belongs to it."""
        item = self._open
        is_its = item is not None and event.output_index == item.index
        return item if is_its and item is not None and event.item_id == item.head.id else None

    def _begin_part(self, event: Event, frame: Frame) -> bool:
        item, part = self._touched(event), event.part
        if item is None or part is None or part.type not in _PARTS.get(item.head.type, ()):
            return False
        is_summary = part.type == _SUMMARY
        before = (one for one in reversed(item.parts) if (one.type == _SUMMARY) is is_summary)
        last = next(before, None)
        if event.at != (0 if last is None else last.at + 1) or bytes(part.value) != b'""':
            return False
        if item.parts and not item.parts[-1].is_over:
            return False
        item.begin_part(part.type, event.at, frame)
        return True

    def _grow(self, event: Event, frame: Frame) -> bool:
        item, kind, text = self._touched(event), _DELTAS[frame.event], event.delta
        if item is None or not _is_text(text):
            return False
        run = item.run
        if run is None:
            part = item.parts[-1] if item.parts else None
            if part is None or part.type != kind or part.is_over or event.at != part.at:
                return False
            run = part.run
            self.blank = 0
        elif item.head.type != kind:
            return False
        elif isinstance(run, Arguments):
            return self._grow_arguments(run, _text(text))
        raw = bytes(text)[1:-1]
        run.text += raw
        self._watch(raw)
        return True

    def _watch(self, piece: str | bytes) -> None:
        self.text_bytes += len(piece)
        self.begun = self.begun or bool(piece)

    def _whole_text(self, event: Event, frame: Frame) -> bool:
        item, kind = self._touched(event), _COMPLETE_EVENTS[frame.event]
        if item is None:
            return False
        if item.run is not None:
            whole = event.input if kind == "custom_tool_call" else event.arguments
            is_its = item.head.type == kind and _is_same(item.run, whole)
        else:
            part = item.parts[-1] if item.parts else None
            whole = event.refusal if kind == "refusal" else event.text
            is_its = (
                part is not None
                and part.type == kind
                and event.at == part.at
                and _is_same(part.run, whole)
            )
        if is_its:
            item.log.append(_recorded(frame))
        return is_its

    def _end_part(self, event: Event, frame: Frame) -> bool:
        item, part = self._touched(event), event.part
        if item is None or part is None or not item.parts or event.at != item.parts[-1].at:
            return False
        last = item.parts[-1]
        if last.is_over or part.type != last.type or not _is_same(last.run, part.value):
            return False
        last.is_over = True
        item.log.append(_recorded(frame))
        return True

    def _end_item(self, event: Event, frame: Frame) -> bool:
        index = event.output_index
        if index in self._unread_items:
            is_foreign = self._is_foreign(event.item)
            if is_foreign:
                self._unread_items.remove(index)
                self._done[index] = Raw(bytes(event.item))
            return is_foreign
        if self._open is None or index != self._open.index:
            return False
        item = _item(event.item)
        if not item.is_exact() or not self._open.is_matched_by(item):
            return False
        if item.status == "in_progress" or (
            item.type == "function_call"
            and item.status != "incomplete"
            and not is_object(_text(item.arguments))
        ):
            return False
        self._open = None
        self._done[index] = Raw(bytes(event.item))
        self.blank = 0
        return True

    def _annotate(self, event: Event, frame: Frame) -> bool:
        item = self._touched(event)
        if item is None or not item.parts or event.at != item.parts[-1].at:
            return False
        item.log.append(_recorded(frame))
        return True

    def _pass(self, frame: Frame) -> bool:
        """An event of an unread type."""
        name = frame.event
        if name == b"error" or name in _READ or not is_typed(name.decode(errors="replace")):
            return False
        self.begun = self.begun or name.startswith(b"response.")
        return True

    # The life of the response.

    def _lifecycle(self, frame: Frame) -> bytes | None:
        data, event = showing(frame.data, self._shown)
        response = event.response
        if response is None or str(event.type).encode() != frame.event:
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
        number = event.sequence_number
        self._number = max(self._number, number if type(number) is int else -1) + 1
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
        self.answer_id = response.id if isinstance(response.id, str) else ""
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
            self._open = None
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
        read(Frame(b"response.created", to_json(start), b""))
        for index, whole in self._done.items():
            if _is_read(whole):
                event = {"type": _DONE.decode(), "output_index": index, "item": whole}
                read(Frame(_DONE, to_json(event), b""))
        assert isinstance(writer, ResponsesWriter)
        output, item = [self._done[index] for index in sorted(self._done)], self._open
        writer.resume(output, self._number, "" if item is None else item.head.id)
        if item is not None:
            for frame in item.frames():
                read(frame)
            part = item.parts[-1] if item.parts else None
            kind = None if part is None or part.is_over else part.type
            writer.resume_item(item.head.type, item.head.phase, kind, self._number)


def _is_of(event: ItemDelta, item: OpenItem) -> bool:
    """Whether an event belongs to an item."""
    return event.output_index == item.index and event.item_id == item.head.id


def _is_read(item: Raw) -> bool:
    """Whether an item is of a type with text or arguments."""
    kind = _kind(item).type
    return kind in _PARTS or kind in CALLS


def _recorded(frame: Frame) -> Frame:
    """An event for the record, without its bytes, which were passed on."""
    return Frame(frame.event, frame.data, b"")


def _is_same_item(whole: Raw, item: Raw) -> bool:
    """Whether two items of the read types have equal content."""
    try:
        return _item(whole).compared() == _item(item).compared()
    except JsonError:
        return jsontext.object_of(whole) == jsontext.object_of(item)


_DONE = b"response.output_item.done"

_EVENTS = {
    b"response.output_item.added": ResponsesMatcher._begin_item,
    _DONE: ResponsesMatcher._end_item,
    b"response.content_part.added": ResponsesMatcher._begin_part,
    b"response.content_part.done": ResponsesMatcher._end_part,
    b"response.reasoning_summary_part.added": ResponsesMatcher._begin_part,
    b"response.reasoning_summary_part.done": ResponsesMatcher._end_part,
    b"response.output_text.annotation.added": ResponsesMatcher._annotate,
    **dict.fromkeys(_DELTAS, ResponsesMatcher._grow),
    **dict.fromkeys(_COMPLETE_EVENTS, ResponsesMatcher._whole_text),
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
        items = _items(answer.output)
        if has_failed(answer) or answer.status not in _STATUSES or not _are_whole(items):
            return None
        if answer.output_text and not items:
            return None
        if answer.model != Raw(to_json(model)) or shown:
            members = jsontext.members(body)
            changed = changed_in(members, {"model": model, **shown})
            body = to_json({**members, **changed}) if changed else body
    except JsonError:
        return None
    usage = usage_of(answer)
    text_bytes = 0 if usage and usage.output else sum(map(_text_bytes_in, items))
    has_calls = any(_kind(item).type in CALLS for item in items)
    return Passed(body, usage, reason_in(answer, has_calls=has_calls), text_bytes)


def _are_whole(items: list[Raw]) -> bool:
    """Whether all items of a whole answer are exact."""
    ids = [_item(item).call_id for item in items if _kind(item).type in CALLS]
    return len({*ids}) == len(ids) and all(map(_is_whole, items))


def _is_whole(raw: Raw) -> bool:
    if not _is_read(raw):
        foreign = jsontext.object_of(raw) or {}
        return as_message(foreign) is foreign
    item = _item(raw)
    if not item.is_exact():
        return False
    if item.type != "function_call":
        return True
    arguments = _text(item.arguments)
    is_whole = item.status == "incomplete" or is_object(arguments)
    return is_whole and not has_lone_escape(arguments)


def _text_bytes_in(raw: Raw) -> int:
    """The bytes of text in an item."""
    try:
        item = _item(raw)
    except JsonError:
        return 0
    texts: Sequence[Raw] = [part.value for part in item.parts]
    return sum(len(bytes(text)) - 2 for text in texts) + max(0, len(bytes(item.payload)) - 2)


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

"""Reads an upstream's answer, whole or streamed. A whole one is read as the steps of its stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Foreign,
    Image,
    Media,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
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
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.canonical.usage import reported_tier
from dragoman.jsontext import JsonError, decode
from dragoman.protocols import google_wire
from dragoman.protocols.base import Inbound, to_json, to_json_text
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject, loss_of
from dragoman.protocols.finish_words import unknown_finish
from dragoman.protocols.google_interactions import answer_shapes as shapes
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.errors import code_of, fault_of
from dragoman.protocols.google_interactions.usage import differs, read_usage, uncounted
from dragoman.protocols.google_media import characters
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_NO_COUNTERPART: Final = "has no counterpart downstream"
_PREFIX: Final = "call_"
_MEMBERS: Final = ("interaction", "status", "steps", "step", "delta")
_LENGTHS: Final = frozenset({"incomplete", "budget_exceeded", "requires_continuation"})


class _Step(Struct, eq=False):
    """A step that has begun: the name of its type, its open block, the texts in it, and for a call
    whether its arguments came in pieces. `given` is the step as it began; `raw` is what a step of
    a hosted tool has so far."""

    name: str
    given: shapes.Step
    block: int = -1
    kind: type[Block] | None = None
    pieces: list[str] = []
    cited: list[JsonObject] = []
    has_pieces: bool = False
    raw: JsonObject = {}


class InteractionsReader:
    """The reader of one stream; see `base.StreamReader`."""

    __slots__ = (
        "_account",
        "_calls",
        "_count",
        "_has_calls",
        "_held",
        "_id",
        "_ids",
        "_inbound",
        "_over",
        "_started",
        "_steps",
        "_tier",
        "_usage",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._account = inbound.account
        self._started = self._over = self._has_calls = False
        self._id = ""
        self._count = 0
        """Number of the last block."""
        self._calls = 0
        self._ids = CallIds(_PREFIX)
        self._steps: dict[int, _Step] = {}
        """Steps that have begun and not ended, by their index."""
        self._held: Opaque | None = None
        """The signature of a thought, for a client of another protocol: it goes on the next call if
        there is one."""
        self._usage: JsonObject | None = None
        self._tier: str | None = None

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over or frame.data.strip() in (b"", DONE):
            return ()
        try:
            try:
                return self._take(shapes.EVENT.decode(frame.data))
            except REFUSED:
                return self._loose(frame)
        except (InvalidRequest, JsonError):
            failure = UpstreamError.unreadable("an event of its stream is malformed")
        except UpstreamError as error:
            failure = error
        self._over = True
        return (*self._metered(), Failed(failure.fault))

    def finish(self) -> Iterable[Event]:
        """The end of the bytes, which is none of an answer: that has an event."""
        if self._over:
            return ()
        self._over = True
        failure = UpstreamError.unreadable("its stream ends before the interaction is completed")
        return (*self._metered(), Failed(failure.fault))

    def _loose(self, frame: Frame) -> list[Event]:
        """The events of a frame that is not in the exact form."""
        try:
            value = self._inbound.decode(frame.data)
        except JsonError:
            raise UpstreamError.unreadable("an event of its stream is not JSON") from None
        if type(value) is not dict:
            raise UpstreamError.unreadable("an event of its stream is not an object")
        if "event_type" not in value or value["event_type"] == "error":
            # A server wrote a bare error into its stream, or one in another form.
            error = value.get("error") or stray_error(value, *_MEMBERS)
            if error is not None:
                return self._error(error)
        extras: list[Extra] = []
        return self._take(shapes.EVENT.tolerate(value, extras), extras)

    def _take(self, event: shapes.Event, extras: Iterable[Extra] = ()) -> list[Event]:
        self._report(extras)
        events: list[Event] = []
        match event.event_type:
            case "step.delta" if event.delta is not None:
                self._delta(event.index, event.delta, events)
                self._meter((event.metadata or {}).get("total_usage"), events)
            case "step.start" if event.step is not None:
                self._start(event.index, event.step, events)
            case "step.stop":
                self._stop(event.index, events)
                self._meter(event.usage, events)
            case "interaction.created" if event.interaction is not None:
                self._begin(event.interaction, events)
            case "interaction.status_update":
                self._meter(event.usage, events)
            case "interaction.completed" if event.interaction is not None:
                self._begin(event.interaction, events)
                events += self._complete(event.interaction)
            case "error":
                return self._error(event.error or {})
            case _:
                # What it is is not known; what it says may be content.
                raw = {**shapes.raw_of(event), "event_type": None, "event_id": None}
                speaks = any(raw.get(name) is not None for name in ("step", "delta"))
                kind = LossKind.CONTENT if speaks else LossKind.KNOB
                self._inbound.ledger.add(event.event_type[:64], kind, _NO_COUNTERPART)
        return events

    def _report(self, extras: Iterable[Extra]) -> None:
        for extra in extras:
            self._lose(extra.path[:120], loss_of(extra.path))

    def _lose(self, path: str, kind: LossKind = LossKind.KNOB, detail: str = "") -> None:
        self._inbound.ledger.add(path, kind, detail or _NO_COUNTERPART)

    # --- the answer as a whole ------------------------------------------------------------------

    def whole(self, answer: shapes.Interaction, extras: Iterable[Extra]) -> list[Event]:
        """The events of a whole answer.

        Raises:
            UpstreamError: it failed, or is not over.
        """
        self._report(extras)
        events: list[Event] = []
        self._begin(answer, events)
        return [*events, *self._complete(answer)]

    def _begin(self, answer: shapes.Interaction, events: list[Event]) -> None:
        tier = reported_tier(answer.service_tier)
        self._tier = tier or self._tier
        if self._started:
            return
        self._started = True
        self._id = answer.id or ""
        events.append(Started(self._id, answer.model or "", 0, tier, read_usage(answer.usage)))

    def _complete(self, answer: shapes.Interaction) -> list[Event]:
        """The events of the end.

        Raises:
            UpstreamError: the answer failed, or is not over.
        """
        events: list[Event] = []
        steps = answer.steps or ()
        if not self._count and not self._steps:
            for number, step in enumerate(steps):
                if step.type in wire.USERS_STEPS:
                    continue
                self._start(number, step, events)
                self._stop(number, events)
        for number in list(self._steps):
            self._stop(number, events)
        self._meter(answer.usage, events)
        if answer.environment_id:
            self._lose("environment_id")
        fault = next(map(fault_of, answer.errors or ()), None)
        codes = {code_of(error) for error in answer.errors or ()}
        for step in steps:
            codes.add(code_of(step.error) if step.error else "")
            fault = fault or (fault_of(step.error) if step.error else None)
        if withheld := sorted(codes & wire.BLOCKED):
            return [*events, *self._end(withheld_by(withheld[0]))]
        finish = _read_status(answer.status or "", has_calls=self._has_calls, fault=fault)
        if answer.status == "requires_continuation":
            detail = "the answer is not whole: its service was not asked for the rest"
            self._lose("status", LossKind.CONVERTED, detail)
        elif fault is not None:
            self._lose("errors", LossKind.CONTENT, "the answer has an error in it")
        return [*events, *self._end(finish)]

    def _end(self, finish: Finish) -> list[Event]:
        self._over = True
        events: list[Event] = []
        self._release(events)
        return [*events, Finished(finish), *self._metered(is_last=True), Ended()]

    def _error(self, error: Any) -> list[Event]:
        """The end by an error: one of a filter is an end of the answer like others.

        Raises:
            UpstreamError: it is another.
        """
        code = code_of(error)
        if code not in wire.BLOCKED or not self._started:
            raise UpstreamError(fault_of(error))
        events: list[Event] = []
        for number in list(self._steps):
            self._stop(number, events)
        return [*events, *self._end(withheld_by(code, of_prompt=not self._count))]

    # --- usage ----------------------------------------------------------------------------------

    def _meter(self, usage: Any, events: list[Event]) -> None:
        if isinstance(usage, dict) and self._started:
            self._usage = {**(self._usage or {}), **usage}
            events += self._metered()

    def _metered(self, *, is_last: bool = False) -> list[Event]:
        counts = self._usage
        usage = read_usage(counts, counts_searches=self._inbound.counts_searches)
        if usage is None or counts is None:
            return []
        if is_last:
            for name in uncounted(counts):
                self._lose(f"usage.{name}", detail="is not counted apart")
            if differs(counts, usage):
                self._lose("usage.total_tokens", detail="is not the sum of its parts")
        return [Metered(usage, self._tier)]

    # --- steps ----------------------------------------------------------------------------------

    def _start(self, index: int, given: shapes.Step, events: list[Event]) -> None:
        if index in self._steps:
            self._stop(index, events)
        step = self._steps[index] = _Step(given.type, given)
        match given.type:
            case "thought":
                for part in given.summary or ():
                    self._summary(step, part, events)
                if given.signature:
                    self._seal(step, given.signature, events)
            case "model_output":
                for part in given.content or ():
                    self._said(step, part, events)
            case "function_call":
                self._call(step, events)
            case _:
                step.raw = shapes.raw_of(given)

    def _open(self, step: _Step, head: Block, events: list[Event]) -> None:
        self._close(step, events)
        self._count += 1
        step.block, step.kind = self._count, type(head)
        events.append(Opened(self._count, head))

    def _close(self, step: _Step, events: list[Event]) -> None:
        """Close the open block of a step, with the sources that its text cites."""
        if step.kind is None:
            return
        if step.kind is Text and step.cited:
            encoded = "".join(step.pieces).encode("utf-8", "replace")
            events += [
                Annotated(step.block, citation)
                for one in step.cited
                if (citation := self._citation(one, encoded)) is not None
            ]
        step.pieces, step.cited = [], []
        step.kind = None
        events.append(Closed(step.block))

    def _stop(self, index: int, events: list[Event]) -> None:
        step = self._steps.pop(index, None)
        if step is None:
            return
        if step.name == "function_call" and not step.has_pieces:
            events.append(Delta(step.block, _arguments(step.given.arguments)))
        if step.raw:
            self._hosted(step, events)
        self._close(step, events)

    def _delta(self, index: int, delta: shapes.Delta, events: list[Event]) -> None:
        step = self._steps.get(index)
        if step is None:
            # Its start was not sent.
            kind = _OF_DELTA.get(delta.type, delta.type)
            self._start(index, shapes.Step(kind), events)
            step = self._steps[index]
        match delta.type:
            case "text":
                self._text(step, delta.text or "", events)
                step.cited += delta.annotations or ()
            case "text_annotation_delta":
                step.cited += delta.annotations or ()
            case "thought_summary" if delta.content is not None:
                self._summary(step, delta.content, events)
            case "thought_signature" if delta.signature:
                self._seal(step, delta.signature, events)
            case "arguments_delta":
                self._fragment(step, delta.arguments, events)
            case "image" | "audio" | "video" | "document":
                self._medium(step, delta, events)
            case _ if step.raw:
                step.raw |= shapes.raw_of(delta) | {"type": step.name}
            case _ if delta.type not in ("thought_signature", "thought_summary"):
                self._lose(delta.type[:64], LossKind.CONTENT)

    def _text(self, step: _Step, text: str, events: list[Event]) -> None:
        if step.kind is not Text:
            self._open(step, Text(text=""), events)
        if text:
            step.pieces.append(text)
            events.append(Delta(step.block, text))

    def _said(self, step: _Step, part: shapes.Content, events: list[Event]) -> None:
        """A whole content."""
        if part.type == "text":
            self._close(step, events)
            self._text(step, part.text or "", events)
            step.cited += part.annotations or ()
        elif part.type in wire.MEDIA:
            self._medium(step, part, events)
        else:
            self._lose(part.type[:64], LossKind.CONTENT)

    def _summary(self, step: _Step, part: shapes.Content, events: list[Event]) -> None:
        if part.type != "text":
            self._lose("summary", detail="only the text of a thought is shown")
            return
        if part.annotations:
            self._lose("annotations", detail="citations in a thought are not shown")
        if step.kind is not Reasoning:
            self._open(step, Reasoning(), events)
        elif step.pieces and step.given.summary:
            events.append(PartBreak(step.block))
        if part.text:
            step.pieces.append(part.text)
            events.append(Delta(step.block, part.text))

    def _seal(self, step: _Step, signature: str, events: list[Event]) -> None:
        opaque = Opaque(wire.NAME, signature, account=self._account)
        if not self._inbound.same_protocol:
            self._release(events)
            self._held = opaque
            return
        if step.kind is not Reasoning:
            self._open(step, Reasoning(), events)
        events.append(Sealed(step.block, opaque))

    def _release(self, events: list[Event], anchor: Literal["", "next"] = "") -> None:
        """The signature that is held, as a block of its own."""
        opaque, self._held = self._held, None
        if opaque is not None:
            self._count += 1
            seal = Sealed(self._count, replace(opaque, anchor=anchor))
            events += (Opened(self._count, Reasoning()), seal, Closed(self._count))

    def _call(self, step: _Step, events: list[Event]) -> None:
        given = step.given
        if not given.name:
            raise UpstreamError.unreadable("a tool call has no name")
        self._has_calls = True
        seed = f"{self._id}:{self._calls}"
        self._calls += 1
        head = ToolCall(id=self._ids.take(given.id or "", seed), name=given.name)
        self._release(events, "next")
        self._open(step, head, events)

    def _fragment(self, step: _Step, fragment: Raw, events: list[Event]) -> None:
        if step.kind is not ToolCall:
            return
        text = bytes(fragment).strip()
        if text in (b"", b"null"):
            return
        step.has_pieces = True
        piece = _text_of(fragment)
        events.append(Delta(step.block, _arguments(fragment) if piece is None else piece))

    def _medium(
        self, step: _Step, given: shapes.Content | shapes.Delta, events: list[Event]
    ) -> None:
        media_type = (given.mime_type or "").lower()
        if not self._inbound.same_protocol or given.data is None:
            detail = f"{given.type} that the model made cannot be shown"
            self._lose("content", LossKind.CONTENT, detail)
            return
        block: Block
        if given.type == "image":
            block = Image(source=Base64(media_type, given.data))
        elif media_type in google_wire.AUDIO_FORMATS:
            block = Audio(data=given.data, format=google_wire.AUDIO_FORMATS[media_type])
        else:
            block = Media(source=Base64(media_type, given.data), media_type=media_type)
        self._open(step, block, events)
        self._close(step, events)

    def _hosted(self, step: _Step, events: list[Event]) -> None:
        """A step of a tool that the vendor runs, or of a type that nobody knows."""
        if self._inbound.same_protocol:
            raw: JsonObject = decode(to_json(step.raw))
            self._open(step, Foreign(origin=wire.NAME, type=step.name, raw=raw), events)
            return
        if step.name == wire.SEARCH_CALL and self._inbound.counts_searches:
            arguments = _object_of(step.raw.get("arguments", Raw()))
            queries = arguments.get("queries")
            for query in queries if isinstance(queries, list) else ():
                if isinstance(query, str):
                    self._open(step, WebSearch(), events)
                    events.append(Delta(step.block, query))
            return
        known = step.name in wire.HOSTED_STEPS
        says = not known and not SPEAKING.isdisjoint(step.raw)
        self._lose(step.name[:64], LossKind.CONTENT if says else LossKind.KNOB)

    def _citation(self, given: JsonObject, encoded: bytes) -> UrlCitation | None:
        """A citation; its place counts bytes."""
        url = given.get("url")
        if given.get("type", "url_citation") != "url_citation" or type(url) is not str or not url:
            self._lose("annotations", detail="only citations of pages are shown")
            return None
        start, end = whole_number(given.get("start_index", 0)), whole_number(given.get("end_index"))
        begin = stop = None
        if start is not None and end is not None and start <= end <= len(encoded):
            begin, stop = characters(encoded, start, end)
        title = given.get("title")
        return UrlCitation(
            url=url, title=title if isinstance(title, str) else "", start=begin, end=stop
        )


_OF_DELTA: Final = {
    "text": "model_output",
    "text_annotation_delta": "model_output",
    "thought_summary": "thought",
    "thought_signature": "thought",
    "arguments_delta": "function_call",
    **dict.fromkeys(wire.MEDIA, "model_output"),
}
"""The types of the steps that deltas belong to, where those are not of the same type."""


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """The events of a whole answer.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    reader, extras = InteractionsReader(inbound), list[Extra]()
    try:
        try:
            answer = shapes.ANSWER.decode(body)
        except REFUSED:
            value = inbound.decode_answer(body)
            if (error := stray_error(value, *_MEMBERS)) is not None:
                raise UpstreamError(fault_of(error)) from None
            answer = shapes.ANSWER.tolerate(value, extras)
        return reader.whole(answer, extras)
    except InvalidRequest:
        raise UpstreamError.unreadable("it is malformed") from None


def withheld_by(code: str, *, of_prompt: bool = False) -> Finish:
    """The end of an answer that a filter withheld."""
    return Finish(FinishReason.CONTENT_FILTER, category=code.upper(), of_prompt=of_prompt)


def _read_status(status: str, *, has_calls: bool, fault: Fault | None) -> Finish:
    """The end of an answer.

    Raises:
        UpstreamError: it failed, is not over, or nobody knows its status.
    """
    if status in ("completed", "requires_action"):
        return Finish(FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP)
    if status in _LENGTHS:
        return Finish(FinishReason.LENGTH)
    if status == "failed" and fault is not None:
        raise UpstreamError(fault)
    if status in ("failed", "cancelled"):
        message = f"The upstream's interaction has {_ENDED[status]}."
        raise UpstreamError(Fault(FaultKind.UPSTREAM_FAILED, message, code="upstream_error"))
    if status in ("", "queued", "in_progress", "idle"):
        raise UpstreamError.unreadable("the interaction is not over")
    raise UpstreamError(unknown_finish(status))


_ENDED: Final = {"failed": "failed", "cancelled": "been cancelled"}


def _text_of(raw: Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        value = json.loads(bytes(raw))  # It takes halves of characters.
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _object_of(raw: Any) -> JsonObject:
    try:
        value = decode(raw) if isinstance(raw, Raw) and bytes(raw) else raw
    except JsonError:
        return {}
    return value if isinstance(value, dict) else {}


def _arguments(given: Raw) -> str:
    """The arguments of a call that came whole, as JSON text on one line."""
    text = bytes(given).strip()
    if text in (b"", b"null"):
        return "{}"
    try:
        value = decode(text)
    except JsonError:
        return text.decode(errors="replace")
    return value if isinstance(value, str) else to_json_text(value)

"""The reading of output items as events, in pieces, whole, or both (types:
response_output_item.py).

A stream announces an item, sends its pieces and then the whole item; servers leave out any of
these. So the content passed on of an item is recorded, and the whole item completes it. In a whole
answer there are no earlier pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Event,
    Opened,
    PartBreak,
    Sealed,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols.base import Inbound
from dragoman.protocols.fields import SPEAKING
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_reader import read_annotation
from dragoman.protocols.openai_responses.items import (
    Item,
    OpenBlock,
    Part,
    Segment,
    joined_text,
)
from dragoman.protocols.openai_responses.loose import CALLS, ECHO, TEXTS, text_in
from dragoman.protocols.openai_responses.shapes import OUTPUT_MEMBERS, OutputItem, OutputPart
from dragoman.protocols.remainders import rest_of, rest_of_arguments

_NO_TEXT = Text(text="")


class OutputReader(Struct, eq=False):
    """The reader of one answer's items. `has_calls` is whether a tool was called, `cut` whether an
    item has an incomplete status, `goes_on` whether a whole item has the status in progress;
    `answer_id` is the answer's id."""

    _inbound: Inbound
    answer_id: str = ""
    has_calls: bool = False
    cut: bool = False
    goes_on: bool = False
    _next: int = 0
    _call_ids: CallIds = field(default_factory=lambda: CallIds("call_"))
    _last_call: int = -1
    """Number of the item that is the latest call."""
    _thoughts: list[Segment] = []
    """Readable reasoning of items that no message part repeated."""
    _thoughts_in_parts: dict[tuple[int, int], str] = {}

    def announce(self, item: Item, value: OutputItem, path: str) -> list[Event]:
        """Start an item; `value` is the announced item, `path` its place.

        Raises:
            UpstreamError: it requires an action that only a client of this protocol can do.
        """
        item.phase = value.phase
        if self._is_shown(item):
            return []  # it is shown when it is complete
        if item.kind in wire.CLIENT_ACTIONS:
            raise _needs_client(item.kind)
        self._report_unread(item.kind, value, path)
        if item.kind not in CALLS or item.block is not None or not value.name:
            return []
        # A second call of one id may be a repetition.
        if not value.call_id or self._call_ids.is_taken(value.call_id):
            return []
        return self._open_call(item, value, value.name)

    def _is_shown(self, item: Item) -> bool:
        """Whether an item is of another type, and shown to the client as it is."""
        own = self._inbound.same_protocol
        return own and item.kind not in OUTPUT_MEMBERS and item.kind != ECHO

    def text_block(self, item: Item, at: int) -> OpenBlock | None:
        """The open block of a text part, if there is one."""
        part = _part_at(item, at, refuses=False)
        return None if part is None or part.block.ended else part.block

    def text(
        self, item: Item, at: int, piece: str, logprobs: Any = None, *, refuses: bool = False
    ) -> list[Event]:
        """Add a piece of a text or refusal part."""
        if not piece and not logprobs:
            return []
        events: list[Event] = []
        self._grow(self._text_part(item, at, refuses, events).block, piece, logprobs, events)
        return events

    def _grow(self, block: OpenBlock, piece: str, logprobs: Any, events: list[Event]) -> None:
        block.pieces.append(piece)
        block.logged = block.logged or bool(logprobs)
        events.append(Delta(block.index, piece, tuple(logprobs) if logprobs else None))

    def part(self, item: Item, at: int, value: OutputPart, path: str, *, over: bool) -> list[Event]:
        """Read a whole text or refusal part; `over`: it is final. `path` is its place.

        Raises:
            UpstreamError: it contradicts its pieces.
        """
        if value.type == "reasoning_text":
            return self._thought((item.number, at), value.text or "")
        if value.type not in TEXTS:
            detail = "content part of an unknown type"
            self._inbound.ledger.add(path, LossKind.CONTENT, detail)
            return []
        refuses = value.type == "refusal"
        known = _part_at(item, at, refuses)
        if known is None:
            text = text_in(value)
            known = _part_saying(item, text, refuses)
            if known is None and item.done and text:
                if any(part.block.text() == text for part in item.parts):
                    return []  # the whole item has it under another number
                raise _late("a message")
        return self._rest_of_part(
            item, known, at if known is None else known.at, value, path, over=over
        )

    def _thought(self, place: tuple[int, int], text: str) -> list[Event]:
        """Reasoning in the message part at `place` (the numbers of item and part): the text that
        neither it nor a reasoning item had before.

        Raises:
            UpstreamError: it contradicts the part's pieces.
        """
        before = self._thoughts_in_parts.get(place)
        if before is None:
            self._thoughts_in_parts[place] = text
            same = next((known for known in self._thoughts if known.text() == text), None)
            if same is not None:
                self._thoughts.remove(same)
                return []
        rest = rest_of(before or "", text)
        if rest is None:
            raise _contradictory("reasoning")
        if not rest:
            return []
        events: list[Event] = []
        block = self._open(Reasoning(style="raw"), events)
        return [*events, Delta(block.index, rest), *_close(block)]

    def _rest_of_part(
        self,
        item: Item,
        part: Part | None,
        at: int,
        value: OutputPart,
        path: str,
        *,
        over: bool,
    ) -> list[Event]:
        """The remainder of a part, given whole in `value`."""
        refuses = value.type == "refusal"
        text = text_in(value)
        logprobs, annotations = value.logprobs, value.annotations or []
        if part is not None:
            rest = rest_of(part.block.text(), text)
            if rest is None:
                raise _contradictory("a text")
            text = rest
            logprobs = None if part.block.logged else logprobs
            annotations = annotations[part.block.cited :]
        events: list[Event] = []
        if text or (logprobs and (part is None or not part.block.closed)):
            part = self._text_part(item, at, refuses, events)
            self._grow(part.block, text, logprobs, events)
        for annotation in annotations:
            events += self.annotation(item, at, annotation, f"{path}.annotations")
        if part is None or item.parts[-1] is not part:
            part = _part_at(item, at, refuses=refuses)
        if part is not None:
            part.block.ended = True
            part.block.filled = part.block.filled or bool(text)
            if over:
                events += _close(part.block)
        return events

    def annotation(self, item: Item, at: int, value: Any, path: str) -> list[Event]:
        """A citation in a text part; `path` is its place."""
        if not isinstance(value, dict):
            return []
        events: list[Event] = []
        part = _part_at(item, at, refuses=False)
        if part is None:
            part = self._text_part(item, at, False, events)
        if part.block.closed:
            self._lose(path, "came when its text was over")
            return events
        part.block.cited += 1
        annotation = read_annotation(value)
        if isinstance(annotation, ForeignCitation):
            self._lose(path, "such a citation has no counterpart for the client")
        events.append(Annotated(part.block.index, annotation))
        return events

    def _text_part(self, item: Item, at: int, refuses: bool, events: list[Event]) -> Part:
        """The open part at a place: a new one if there is none, or if it is over."""
        part = _part_at(item, at, refuses)
        if part is None or part.block.ended:
            if part is not None:
                if part.block.filled:
                    raise _late("a text")
                events += _close(part.block)
            head: Block = _NO_TEXT
            if refuses:
                head = Refusal(text="")
            elif item.phase is not None:
                head = Text(text="", phase=item.phase)
            part = Part(at, refuses, self._open(head, events))
            item.parts.append(part)
        return part

    def reasoning(self, item: Item, style: str, at: int, piece: str) -> list[Event]:
        """Add a piece of a readable reasoning part; `style` is summary or raw."""
        if not piece:
            return []
        events: list[Event] = []
        if item.block is not None and style != item.style and item.style is not None:
            self._lose(
                f"response.output[{item.number}]", "reasoning is given in one form: its first"
            )
            return []
        if item.block is None or item.block.closed:
            head = Reasoning(style="raw" if style == "raw" else "summary")
            item.block = self._open(head, events)
            item.segments.append(Segment(at, []))
        elif not item.segments:
            item.segments.append(Segment(at, []))
        elif at != item.segments[-1].at or item.segments[-1].ended:
            if at == item.segments[-1].at and item.segments[-1].filled:
                raise _late("reasoning")
            item.segments.append(Segment(at, []))
            events.append(PartBreak(item.block.index))
        item.style = style
        if not item.segments[-1].pieces:
            self._thoughts.append(item.segments[-1])
        item.segments[-1].pieces.append(piece)
        events.append(Delta(item.block.index, piece))
        return events

    def rest_of_reasoning(
        self, item: Item, style: str, at: int, text: str, *, over: bool
    ) -> list[Event]:
        """The remainder of a readable reasoning part, given whole; `over` as in `part`.

        Raises:
            UpstreamError: it contradicts its pieces.
        """
        segment = None
        if style == item.style:
            segments = item.segments
            segment = next((known for known in reversed(segments) if known.at == at), None)
            if segment is None and segments and not segments[-1].closed:
                segment = segments[-1] if segments[-1].text() == text else None
        if segment is None:
            events = self.reasoning(item, style, at, text)
        else:
            rest = rest_of(segment.text(), text)
            if rest is None:
                raise _contradictory("reasoning")
            events = self.reasoning(item, style, at, rest)
        if style == item.style and text:
            item.segments[-1].ended = True
            item.segments[-1].filled = bool(events)
            item.segments[-1].closed = over
        return events

    def arguments(self, item: Item, piece: str, *, whole: bool = False) -> list[Event]:
        """Add a piece of a call's arguments or input, or (`whole`) their remainder.

        Raises:
            UpstreamError: the call is over.
        """
        if not piece:
            return []
        if item.done or item.is_whole:
            if not piece.strip():
                return []
            raise UpstreamError.unreadable("a tool call goes on after its end")
        if piece == "{}" and not whole and not item.arguments():
            item.begun_empty = True
            return []
        if item.block is None:
            item.pending.append(piece)
            return []
        item.block.pieces.append(piece)
        return [Delta(item.block.index, piece)]

    def rest_of_arguments(self, item: Item, text: str) -> list[Event]:
        """The remainder of a call's arguments or input, given whole.

        Raises:
            UpstreamError: it contradicts its pieces.
        """
        rest = rest_of_arguments(item.arguments(), text)
        if rest is None:
            raise _contradictory("a tool call")
        events = self.arguments(item, rest, whole=True)
        item.is_whole = bool(text.strip())
        if item.block is not None:
            item.block.ended = item.block.ended or item.is_whole
        return events

    def complete(self, item: Item, value: OutputItem, path: str) -> list[Event]:
        """The remainder and end of an item, given whole. `path` is its place, for reported losses.

        Raises:
            UpstreamError: it is unusable, contradicts its pieces, or requires an action that only a
            client of this protocol can do.
        """
        is_shown = self._is_shown(item)
        if not item.done and not is_shown:
            self._report_unread(item.kind, value, path)
        events: list[Event] = []
        if is_shown:
            events = [] if item.done else self._foreign(value)
        elif item.kind == "message":
            events = self._complete_message(item, value, path)
        elif item.kind == "reasoning":
            events = self._complete_reasoning(item, value, path)
        elif item.kind in CALLS:
            events = self._complete_call(item, value, value.payload or "")
        elif item.kind in wire.CLIENT_ACTIONS:
            raise _needs_client(item.kind)
        item.done = True
        if value.status == "incomplete":
            self.cut = True
        elif value.status == "in_progress" and value is not item.head:
            self.goes_on = True
        return events

    def _foreign(self, value: OutputItem) -> list[Event]:
        """An item that only this protocol has."""
        events: list[Event] = []
        head = Foreign(origin=wire.NAME, type=value.type, raw=value.odd, loss=LossKind.CONTENT)
        return events + _close(self._open(head, events))

    def close(self, item: Item) -> list[Event]:
        """The end of a possibly open item: content that was announced and never came.

        Raises:
            UpstreamError: a call's name or arguments never came.
        """
        head = item.head
        if item.kind in CALLS:
            return [] if item.done else self._close_call(item, head)
        if head is not None and not item.done:
            return self.complete(item, head, f"response.output[{item.number}]")
        blocks = [part.block for part in item.parts]
        return [event for block in (*blocks, item.block) if block for event in _close(block)]

    def _close_call(self, item: Item, head: OutputItem | None) -> list[Event]:
        """The end of a call without an end event."""
        given = head.payload if head is not None else None
        received = item.arguments() or ("{}" if item.begun_empty else "")
        if item.block is None and (head is None or not head.name):
            raise UpstreamError.unreadable("a tool call has no name")
        if not received and not given:
            if head is not None and self._call_ids.is_taken(head.call_id or "") and not item.block:
                # Announced twice: the other one is the call.
                self._lose(f"response.output[{item.number}]", "a tool call that was said twice")
                return []
            raise UpstreamError.unreadable("the arguments of a tool call never came")
        return self._complete_call(item, head, given or received)

    def _complete_message(self, item: Item, value: OutputItem, path: str) -> list[Event]:
        events: list[Event] = []
        if not item.parts:
            item.phase = value.phase or item.phase
        open_, parts = list(item.parts), value.content or []
        for at, entry in enumerate(parts):
            where = f"{path}.content[{at}]"
            if entry.type not in TEXTS:
                events += self.part(item, at, entry, where, over=True)
                continue
            known = _matching(open_, at, entry) if open_ else None
            if known is not None:
                open_.remove(known)
            events += self._rest_of_part(
                item, known, at if known is None else known.at, entry, where, over=True
            )
        if open_ and parts and any(part.block.text() for part in open_):
            raise _contradictory("a message")
        for part in item.parts:
            if not part.block.closed:
                events += _close(part.block)
        return events

    def _complete_reasoning(self, item: Item, value: OutputItem, path: str) -> list[Event]:
        texts = {style: value.thoughts(style) for style in ("summary", "raw")}
        style = item.style or ("summary" if any(texts["summary"]) else "raw")
        other, where = ("raw", "content") if style == "summary" else ("summary", "summary")
        if any(texts[other]) and not item.done:
            self._lose(f"{path}.{where}", "reasoning is given in one form: its first")
        events = self._rest_of_segments(item, style, texts[style])
        encrypted = value.encrypted_content
        if encrypted and not item.done:
            if item.block is None:
                item.block = self._open(Reasoning(), events)
            opaque = Opaque(wire.NAME, encrypted, value.id or None, self._inbound.account)
            events.append(Sealed(item.block.index, opaque))
        if item.block is not None:
            events += _close(item.block)
        return events

    def _rest_of_segments(self, item: Item, style: str, texts: list[str]) -> list[Event]:
        """The remainder of the readable reasoning parts."""
        events: list[Event] = []
        received = list(item.segments)
        for at, text in enumerate(texts):
            if not text:
                continue
            if not received:
                events += self.reasoning(item, style, at, text)
                continue
            rest = rest_of(received[0].text(), text)
            if rest is None or (rest and len(received) > 1):
                # Its pieces may have other numbers than its parts.
                whole = rest_of("".join([known.text() for known in received]), "".join(texts[at:]))
                if whole is None:
                    raise _contradictory("reasoning")
                return events + self.reasoning(item, style, received[-1].at, whole)
            if rest:
                received[0].ended = False
                events += self.reasoning(item, style, received[0].at, rest)
            del received[0]
        if any(texts) and any(segment.text() for segment in received):
            raise _contradictory("reasoning")
        return events

    def _complete_call(self, item: Item, value: OutputItem | None, payload: str) -> list[Event]:
        events: list[Event] = []
        if item.block is None:
            if value is None or not value.name:
                raise UpstreamError.unreadable("a tool call has no name")
            events += self._open_call(item, value, value.name)
        events += self.rest_of_arguments(item, payload)
        if item.block is not None:
            events += _close(item.block)
        return events

    def _open_call(self, item: Item, value: OutputItem, name: str) -> list[Event]:
        if item.number < self._last_call:
            # It waited for its id, and the client was shown the next one already.
            raise UpstreamError.unreadable("a tool call has no id before the next one begins")
        self._last_call = item.number
        given_id = value.call_id or value.id or ""
        call_id = self._call_ids.take(given_id, f"{self.answer_id}:{item.number}")
        if given_id and call_id != given_id:
            self._inbound.ledger.add(
                f"output[{item.number}].call_id", LossKind.REPAIRED, "two calls had one id"
            )
        head = ToolCall(
            id=call_id,
            name=name,
            custom=item.kind == "custom_tool_call",
            namespace=value.namespace or None,
        )
        events: list[Event] = []
        item.block = self._open(head, events)
        self.has_calls = True
        pending, item.pending = joined_text(item.pending), []
        if pending:
            item.block.pieces.append(pending)
            events.append(Delta(item.block.index, pending))
        return events

    def _open(self, head: Block, events: list[Event]) -> OpenBlock:
        block = OpenBlock(self._next)
        self._next += 1
        events.append(Opened(block.index, head))
        return block

    def _report_unread(self, kind: str, value: OutputItem, path: str) -> None:
        """Report unread content of an item: a member, or all of it."""
        misplaced = _MISPLACED.get(kind)
        if misplaced is None:
            is_skipped = kind == ECHO or kind in wire.HOSTED_ITEMS
            loss = LossKind.KNOB if is_skipped else LossKind.CONTENT
            detail = f"{kind} items have no counterpart for the client"
            self._inbound.ledger.add(path, loss, detail)
            return
        names, values_of = misplaced
        values = values_of(value)
        others = dict(zip(names, values, strict=True)) | value.odd if any(values) else value.odd
        for name, content in others.items():
            if content not in (None, False, "", {"type": "direct"}):
                loss = LossKind.CONTENT if name in SPEAKING else LossKind.KNOB
                detail = "has no counterpart for the client"
                self._inbound.ledger.add(f"{path}.{name}", loss, detail)
        if value.phase is not None:
            self._lose(f"{path}.phase", "messages of other protocols have no phase")

    def _lose(self, path: str, detail: str) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)


def _besides(known: Collection[str]) -> tuple[list[str], Callable[[OutputItem], tuple[Any, ...]]]:
    """The members of items other than these, and what takes their values from an item."""
    names = [name for name in OutputItem.__struct_fields__ if name not in known and name != "odd"]
    return names, attrgetter(*names)


_MISPLACED = {kind: _besides(known) for kind, known in OUTPUT_MEMBERS.items()}
"""What items of a type do not have."""


def _part_at(item: Item, at: int, refuses: bool) -> Part | None:
    """The latest part of a kind at a place."""
    for part in reversed(item.parts):
        if part.at == at and part.refuses is refuses:
            return part
    return None


def _part_saying(item: Item, text: str, refuses: bool) -> Part | None:
    """The open part with exactly that text, under any number."""
    for part in item.parts:
        if part.refuses is refuses and not part.block.closed and part.block.text() == text:
            return part
    return None


def _matching(parts: list[Part], at: int, value: OutputPart) -> Part | None:
    """The part for `value` at `at`; some servers give all parts one number."""
    refuses, text = value.type == "refusal", text_in(value)
    own = other = None
    for part in parts:
        if part.refuses is not refuses:
            continue
        agrees = rest_of(part.block.text(), text) is not None
        if part.at != at:
            other = other or (part if agrees else None)
        elif agrees:
            return part
        else:
            own = own or part
    return other or own


def _close(block: OpenBlock) -> list[Event]:
    block.ended = True
    if block.closed:
        return []
    block.closed = True
    return [Closed(block.index)]


def _contradictory(what: str) -> UpstreamError:
    return UpstreamError.unreadable(f"the pieces of {what} are not what it is as a whole")


def _late(what: str) -> UpstreamError:
    return UpstreamError.unreadable(f"{what} goes on after its end")


def _needs_client(kind: str) -> UpstreamError:
    return UpstreamError(
        Fault(
            FaultKind.UPSTREAM_FAILED,
            f"The upstream asks for an action that this client cannot be asked for: {kind}.",
            code="unsupported_output",
        )
    )

"""The blocks of a Messages answer: starts, deltas and stops, in order or out of place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import Opaque, Reasoning, Text, UrlCitation
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Annotated, Closed, Delta, Event, Opened, Sealed
from dragoman.canonical.losses import LossKind
from dragoman.protocols.anthropic_messages import search_blocks, shapes, wire
from dragoman.protocols.anthropic_messages.annotations import read_annotation
from dragoman.protocols.anthropic_messages.call_blocks import NO_INPUT, CallBlocks
from dragoman.protocols.anthropic_messages.loose import (
    NO_COUNTERPART,
    as_known,
    is_hosted,
    named_delta,
    report_unknown,
)
from dragoman.protocols.anthropic_messages.received import Received, beyond, rest_of_block
from dragoman.protocols.anthropic_messages.repetition import (
    Repetition,
    index_of,
    is_another,
    is_repeated,
)
from dragoman.protocols.anthropic_messages.search_blocks import SearchBlocks
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.initial_text import InitialText

_NO_TEXT = Text(text="")
_TEXT = "text"
_THINKING = "thinking"
_REDACTED = "redacted_thinking"
_TOOL = "tool_use"
_UNSPELT = "call without a piece"
_SPELT_AGAIN = "call whose start has its input"
_SEARCH = "search"
_SKIPPED = "skipped"
_REPEATED = "repeated"
_HEADED = "headed"
_FOREIGN = "text of foreign reasoning"
_CLOSED = "closed"
_NONE = "none"
_NO_BLOCK = (_NONE, -1)

_OPENS = {"text_delta": _TEXT, "thinking_delta": _THINKING, "signature_delta": _THINKING}
"""Deltas that reveal the kind of a block with no start. The kind is also the member with the
text."""

_GROWING: dict[type, str] = {
    shapes.TextDelta: _TEXT,
    shapes.ThinkingDelta: _THINKING,
    shapes.InputDelta: _TOOL,
}
"""The kinds of blocks that grow by deltas of the exact form."""

_TEXTS = frozenset({_TEXT, _THINKING})
"""Kinds of blocks with a text, in the member of the same name."""

_SILENT = {"silent text": _TEXT, "silent thinking": _THINKING, "silent reasoning": _THINKING}
"""Type names of blocks before their first piece, and their kinds. Reasoning under another name than
the protocol's may have its text in text deltas."""

_CALLS = frozenset({_TOOL, _UNSPELT, _SPELT_AGAIN})

_ASIDE = frozenset({_NONE, _CLOSED, _SKIPPED, _REPEATED, _SEARCH})
"""Kinds of blocks whose text or input is not passed on."""

_NEVER_CAME = "the input of a tool call never came"
_MALFORMED = "a content_block_delta event is malformed"
_LATE = "came when its block was over"


class Blocks:
    """The blocks of one answer.

    Its methods raise `UpstreamError` if the answer is unusable.
    """

    __slots__ = (
        "_at",
        "_calls",
        "_inbound",
        "_is_whole",
        "_last",
        "_received",
        "_repetitions",
        "_searches",
        "_starts",
        "_strays",
        "_texts",
        "count",
        "message_id",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._at: dict[int, tuple[str, int]] = {}
        """The kind and number of the latest block at each upstream index. Servers reuse an index
        once its block is over."""
        self._strays: dict[tuple[int, str], int] = {}
        """Numbers of blocks with pieces under the index of a block of another kind."""
        self._starts: dict[int, JsonObject] = {}
        """The start objects of the open blocks, by index."""
        self._texts: dict[int, tuple[str, InitialText]] = {}
        """Kind and initial text of blocks that began with one, by index, until it is passed on."""
        self._is_whole = False
        """Whether the message start had blocks."""
        self._repetitions: dict[int, Repetition] = {}
        """Those blocks, by index: events may repeat them."""
        self._last = -1
        """Index of the block that began last."""
        self._received: dict[int, Received] = {}
        """The content received in each block, by its number."""
        self._searches: SearchBlocks | None = None
        self._calls: CallBlocks | None = None
        """The calls and searches; None before the first one."""
        self.message_id = ""
        self.count = 0
        """Number of the next block."""

    def take_number(self) -> int:
        """The number of a further block."""
        number = self.count
        self.count = number + 1
        return number

    def take_all(self, content: list[Any]) -> list[Event]:
        """Read the blocks inside a message. Events that spell them again are repetitions."""
        self._is_whole = True
        events: list[Event] = []
        for index, block in enumerate(content):
            events += self.start({"index": index, "content_block": block})
            events += self._close(index)
            if isinstance(block, dict):
                self._repetitions[index] = Repetition(block)
        return events

    def take_exact(self, content: Iterable[shapes.AnswerBlock]) -> list[Event]:
        """Read the blocks of a whole message in the exact form."""
        events: list[Event] = []
        for block in content:
            number = self.take_number()
            if type(block) is shapes.AnswerText:
                events.append(Opened(number, _NO_TEXT))
                if block.text:
                    events.append(Delta(number, block.text))
                for citation in block.citations or ():
                    events += self._annotated(number, citation)
            elif type(block) is shapes.AnswerCall:
                events.append(self._called.open(number, block.name, block.id))
                events.append(Delta(number, to_json_text(block.input)))
            elif type(block) is shapes.Thinking:
                events.append(Opened(number, Reasoning()))
                if block.thinking:
                    events.append(Delta(number, block.thinking))
                events += self._sealed(number, block.signature)
            elif type(block) is shapes.RedactedThinking:
                events.append(Opened(number, Reasoning(redacted=True)))
                events += self._sealed(number, block.data)
            events.append(Closed(number))
        return events

    def complete(self, content: list[Any]) -> list[Event]:
        """The events for content of the whole message at its end that was not received before."""
        events: list[Event] = []
        for index in list(self._at):
            events += self._close(index)
        for block in beyond(self._received.values(), content):
            number = self._last + 1
            events += self.start({"index": number, "content_block": block})
            events += self._close(number)
        return events

    def end(self) -> list[Event]:
        """Close all open blocks at the end of the message."""
        events: list[Event] = []
        for index, (kind, number) in list(self._at.items()):
            if self._lacks_input(kind, number):
                raise UpstreamError.unreadable(_NEVER_CAME)
            events += self._close(index)
        if self._searches is not None:
            events += self._searches.end()
        if self._strays:
            events += [Closed(number) for number in self._strays.values()]
        return events

    def has_calls(self) -> bool:
        """Whether a tool was called."""
        return self._calls is not None

    @property
    def _called(self) -> CallBlocks:
        if self._calls is None:
            self._calls = CallBlocks(self._inbound, self.message_id)
        return self._calls

    @property
    def _searched(self) -> SearchBlocks:
        if self._searches is None:
            self._searches = SearchBlocks()
        return self._searches

    def _lose(self, path: str, detail: str = NO_COUNTERPART) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)

    # The start of a block.

    def start(self, event: JsonObject) -> list[Event]:
        """A `content_block_start` event."""
        index, block = event.get("index"), event.get("content_block")
        if type(index) is not int:
            index = index_of(event, self._last + 1)
        if not isinstance(block, dict):
            if not isinstance(block, str):
                raise UpstreamError.unreadable("a content_block_start event is malformed")
            block = {"type": _TEXT, "text": block}
        self._last = index
        kind = block.get("type")
        known = wire.BLOCK_FIELDS.get(kind) if type(kind) is str else None
        if known is None:
            block = as_known(block)
            kind = block.get("type")
            known = wire.BLOCK_FIELDS.get(kind) if type(kind) is str else None
        before = self._at.get(index)
        if before is not None and before[0] is not _CLOSED:
            # A call with pieces continues under its id only.
            fresh = before[0] not in _CALLS or before[0] is _UNSPELT
            if is_repeated(self._starts.get(index), block, fresh):
                return []
            if self._lacks_input(*before):
                raise UpstreamError.unreadable(_NEVER_CAME)
            closed = self._close(index)
            self._at[index] = _CLOSED, before[1]
            return [*closed, *self.start(event)]
        self._starts[index] = block
        if index in self._repetitions and self._repetitions[index].begins(block):
            self._at[index] = _REPEATED, self.count
            return []
        if known is None and self._inbound.options.hosted_tools == "map":
            events = self._search_block(index, block)
            if events is not None:
                return events
        number = self.take_number()
        if known is None or type(kind) is not str:
            self._at[index] = _SKIPPED, number
            loss = LossKind.KNOB if is_hosted(str(kind)) else LossKind.CONTENT
            detail = f"a block of type {str(kind)[:60]} {NO_COUNTERPART}"
            self._inbound.ledger.add(f"content[{number}]", loss, detail)
            return []
        if not known.issuperset(block):
            self._report_unknown(block, known, number)
        if kind == _TOOL:
            self._at[index] = _UNSPELT, number
            self._received[number] = _TOOL, str(block.get("name")), []
            return [self._called.begin(number, block)]
        self._at[index] = kind, number
        # In a whole message every block is complete.
        text = block.get(kind) if kind in _TEXTS and not self._is_whole else None
        if (
            isinstance(text, str)
            and text
            and not any(value for name, value in block.items() if name not in ("type", kind))
        ):
            self._at[index] = _HEADED, number
            self._texts[index] = kind, InitialText(text)
            block = {**block, kind: ""}
        elif kind in _TEXTS and not text and not self._is_whole:
            foreign = kind == _THINKING and event["content_block"].get("type") != _THINKING
            self._at[index] = "silent reasoning" if foreign else f"silent {kind}", number
        if kind == _TEXT:
            return self._text_start(number, block)
        return self._thinking_start(number, block)

    def _report_unknown(self, block: JsonObject, known: frozenset[str], number: int) -> None:
        if block.get("caller") == {"type": "direct"}:
            known |= {"caller"}
        report_unknown(self._inbound.ledger, block, known, f"content[{number}].")

    def _lacks_input(self, kind: str, number: int) -> bool:
        """Whether a block is a call with no input in its start and no piece."""
        return kind is _UNSPELT and self._called.lacks_input(number)

    def _search_block(self, index: int, block: JsonObject) -> list[Event] | None:
        """The events of a web search block: its call opens what its result closes. None for another
        block."""
        if search_blocks.is_call(block):
            number = self.take_number()
            self._report_unknown(block, wire.BLOCK_FIELDS[_TOOL], number)
            self._at[index] = _SEARCH, number
            return [self._searched.begin(number, block)]
        events = self._searched.result(block)
        if events is not None:
            number = self.take_number()
            self._at[index] = _SKIPPED, number
            self._lose(f"content[{number}]", "of what a search found only the URLs can be told")
        return events

    def _text_start(self, number: int, block: JsonObject) -> list[Event]:
        self._received[number] = _TEXT, "", []
        events: list[Event] = [Opened(number, _NO_TEXT)]
        text = block.get("text")
        if isinstance(text, str) and text:
            events += self._piece(number, text)
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            events += self._annotated(number, citation)
        return events

    def _annotated(self, number: int, citation: Any) -> list[Event]:
        if not isinstance(citation, dict):
            return []
        annotation = read_annotation(citation)
        if isinstance(annotation, UrlCitation):
            report_unknown(self._inbound.ledger, citation, wire.CITATION_FIELDS, "citations.")
        return [Annotated(number, annotation)]

    def _thinking_start(self, number: int, block: JsonObject) -> list[Event]:
        redacted = block["type"] == _REDACTED
        self._received[number] = _THINKING, "", []
        events: list[Event] = [Opened(number, Reasoning(redacted=redacted))]
        text = "" if redacted else block.get("thinking")
        if isinstance(text, str) and text:
            events += self._piece(number, text)
        return events + self._sealed(number, block.get("data" if redacted else "signature"))

    def _sealed(self, number: int, state: Any) -> list[Event]:
        if not isinstance(state, str) or not state:
            return []
        return [Sealed(number, Opaque(wire.NAME, state, account=self._inbound.account))]

    def _piece(self, number: int, text: str) -> list[Event]:
        """The events of a further piece of a block."""
        if not text:
            return []
        self._received[number][2].append(text)
        return [Delta(number, text)]

    # Its deltas.

    def piece(self, event: shapes.BlockDelta) -> Iterable[Event] | None:
        """A delta of the exact form. None unless it is a further piece of a block of its kind."""
        kind, number = self._at.get(event.index, _NO_BLOCK)
        delta = event.delta
        if _GROWING[type(delta)] != kind:
            return None
        if not delta.text:
            return ()
        self._received[number][2].append(delta.text)
        return (Delta(number, delta.text),)

    def delta(self, event: JsonObject) -> Iterable[Event]:
        """A `content_block_delta` event."""
        index, delta = event.get("index"), event.get("delta")
        if type(index) is not int:
            index = index_of(event, max(self._last, 0))
        if type(delta) is not dict:
            raise UpstreamError.unreadable(_MALFORMED)
        kind, number = self._at.get(index, _NO_BLOCK)
        what = delta.get("type")
        if kind == _TEXT and what == "text_delta":
            text = delta.get("text")
        elif kind == _TOOL and what == "input_json_delta":
            text = delta.get("partial_json")
            if type(text) is dict:
                text = to_json_text(text)
        elif kind == _THINKING and what == "thinking_delta":
            text = delta.get("thinking")
        else:
            return self._rare_delta(index, kind, number, str(what), delta)
        if len(delta) > 2 or len(event) > 3:
            ledger = self._inbound.ledger
            report_unknown(ledger, delta, wire.DELTA_FIELDS[what], f"content[{number}].")
            report_unknown(ledger, event, wire.DELTA_EVENT_FIELDS)
        if type(text) is not str:
            raise UpstreamError.unreadable(_MALFORMED)
        if not text:
            return ()
        self._received[number][2].append(text)
        return (Delta(number, text),)

    def _rare_delta(
        self, index: int, kind: str, number: int, what: str, delta: JsonObject
    ) -> list[Event]:
        """A delta that is the first of its block, or out of place."""
        if kind in _SILENT:
            foreign = kind == "silent reasoning" and what == "text_delta"
            self._at[index] = _FOREIGN if foreign else _SILENT[kind], number
            return self._again(index, delta)
        if kind in _CALLS and what == "input_json_delta":
            return self._input_piece(index, kind, number, delta)
        if kind is _FOREIGN and isinstance(text := delta.get("text"), str):
            return self._piece(number, text)
        if what == "signature_delta" and kind == _THINKING:
            return self._sealed(number, delta.get("signature"))
        if what == "citations_delta" and kind == _TEXT:
            return self._annotated(number, delta.get("citation"))
        if kind is _SEARCH and what == "input_json_delta":
            self._searched.add(number, delta.get("partial_json"))
            return []
        if kind is _REPEATED:
            self._repetitions[index].add(delta)
            return []
        if kind is _HEADED:
            return self._after_head(index, number, what, delta)
        if what not in wire.DELTA_FIELDS and (named := named_delta(delta)) is not None:
            return self._again(index, named)
        if kind is _NONE or kind is _CLOSED:
            return self._unannounced(index, kind, what, delta)
        opened = _OPENS.get(what)
        text = delta.get(opened) if opened is not None else None
        if isinstance(text, str) and text and opened is not None:
            return self._stray(index, opened, text)
        if what == "input_json_delta" and kind is not _SKIPPED and delta.get("partial_json"):
            raise UpstreamError.unreadable("a piece of a tool call is in a block that is none")
        if kind is not _SKIPPED:
            loss = LossKind.KNOB if what in wire.DELTA_FIELDS else LossKind.CONTENT
            self._inbound.ledger.add(f"content[{number}].{what[:60]}", loss, NO_COUNTERPART)
        return []

    def _again(self, index: int, delta: JsonObject) -> list[Event]:
        return list(self.delta({"index": index, "delta": delta}))

    def _input_piece(self, index: int, kind: str, number: int, delta: JsonObject) -> list[Event]:
        """A piece of a call's input: the first, or any one if the start had the input."""
        piece = delta.get("partial_json")
        text = to_json_text(piece) if isinstance(piece, dict) else piece
        if text == NO_INPUT and kind is _UNSPELT:
            return []  # a placeholder for the input in the start, or for later pieces
        if text and isinstance(text, str):
            self._called.add(number, text)
            self._at[index] = _SPELT_AGAIN if self._called.is_given(number) else _TOOL, number
            return self._piece(number, text)
        if not isinstance(text, str):
            raise UpstreamError.unreadable(_MALFORMED)
        return []

    def _after_head(self, index: int, number: int, what: str, delta: JsonObject) -> list[Event]:
        """A piece of a block that began with a text."""
        kind, head = self._texts[index]
        piece = delta.get(kind)
        if _OPENS.get(what) != kind or not isinstance(piece, str):
            return [*self._end_initial(index, number, head.end()), *self._again(index, delta)]
        text = head.add(piece)
        return self._end_initial(index, number, text) if head.is_over else []

    def _end_initial(self, index: int, number: int, text: str) -> list[Event]:
        kind, head = self._texts.pop(index)
        self._at[index] = kind, number
        if head.repeated:
            self._lose(f"content[{number}].{kind}", "its pieces say again what it began with")
        return self._piece(number, text)

    def _unannounced(self, index: int, kind: str, what: str, delta: JsonObject) -> list[Event]:
        """A piece of a block that never started, or that is over."""
        opened = _OPENS.get(what)
        if opened is not None and (kind is _NONE or delta.get(opened)):
            head = {"index": index, "content_block": {"type": opened}}
            return [*self.start(head), *self._again(index, delta)]
        if kind is _NONE:
            raise UpstreamError.unreadable("a block of its stream has no start")
        piece = delta.get("partial_json")
        if isinstance(piece, str) and piece.strip():
            raise UpstreamError.unreadable("a tool call goes on after its end")
        self._lose(f"content[{self._at[index][1]}].{what[:60]}", _LATE)
        return []

    def _stray(self, index: int, kind: str, text: str) -> list[Event]:
        """Text or thinking under the index of a block of another kind, read as a separate block."""
        known = self._strays.get((index, kind))
        if known is not None:
            return self._piece(known, text)
        number = self._strays[index, kind] = self.take_number()
        head = {"type": kind, kind: text}
        if kind == _TEXT:
            return self._text_start(number, head)
        return self._thinking_start(number, head)

    def end_piece(self, delta: JsonObject) -> list[Event] | None:
        """A piece of the last block inside the message's end. None for anything else."""
        piece = named_delta(delta) if str(delta.get("type")) in _OPENS else None
        return None if piece is None else self._again(self._last, piece)

    # Its end.

    def stop(self, event: JsonObject) -> list[Event]:
        """A `content_block_stop` event."""
        index = index_of(event, self._last)
        if wire.STOP_EVENT_FIELDS.issuperset(event):
            return self._close(index)
        return self._missing_at_stop(index, event)

    def _missing_at_stop(self, index: int, event: JsonObject) -> list[Event]:
        """The stop of a block that repeats it whole, as events of the vendor's SDK helpers do."""
        kind, number = self._at.get(index, _NO_BLOCK)
        block = event.get("content_block")
        if isinstance(block, dict) and (
            kind is _NONE or (kind is _CLOSED and is_another(self._starts.get(index), block))
        ):
            index = max(index, self._last + 1)
            begun = self.start({"index": index, "content_block": block})
            return [*begun, *self._close(index)]
        block = block if isinstance(block, dict) else event
        if self._lacks_input(kind, number) and block.get("input"):
            self._called.give(number, block["input"])
        missing: list[Event] = []
        if kind is _HEADED:
            missing = self._end_initial(index, number, self._texts[index][1].end())
        if kind is not _UNSPELT and kind not in _ASIDE:
            missing += self._piece(number, rest_of_block(self._received[number], block))
        return [*missing, *self._close(index)]

    def _close(self, index: int) -> list[Event]:
        kind, number = self._at.get(index, _NO_BLOCK)
        if kind is _NONE or kind is _CLOSED:
            return []
        events: list[Event] = []
        if kind is _HEADED:
            events = self._end_initial(index, number, self._texts[index][1].end())
        self._at[index] = _CLOSED, number
        if kind is _REPEATED:
            if not self._repetitions.pop(index).is_whole():
                raise UpstreamError.unreadable("its blocks are not those that its start has")
        elif kind is _SEARCH:
            # It stays open until its result comes.
            events = self._searched.query(number)
        elif kind is not _SKIPPED:
            if kind in _CALLS:
                events = self._piece(number, self._called.end(number))
            events.append(Closed(number))
        if self._strays:
            for at, stray in [place for place in self._strays if place[0] == index]:
                events.append(Closed(self._strays.pop((at, stray))))
        return events

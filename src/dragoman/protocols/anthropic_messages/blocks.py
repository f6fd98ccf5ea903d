"""The blocks of a Messages answer: starts, pieces and stops, in order or out of place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from dragoman.canonical.blocks import Opaque, Reasoning, Text, ToolCall, UrlCitation, WebSearch
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Annotated, Closed, Delta, Event, Opened, Sealed
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.protocols.anthropic_messages import web_search, wire
from dragoman.protocols.anthropic_messages.annotations import read_annotation
from dragoman.protocols.anthropic_messages.loose import (
    BLOCK,
    NO_COUNTERPART,
    as_known,
    is_hosted,
    named_piece,
    object_of,
    report_extras,
    report_unknown,
)
from dragoman.protocols.anthropic_messages.received import Block, beyond, rest_of_block
from dragoman.protocols.anthropic_messages.repetition import Repetition, is_another, is_repeated
from dragoman.protocols.anthropic_messages.shapes import (
    AnswerBlock,
    AnswerCall,
    AnswerRedacted,
    AnswerText,
    AnswerThinking,
    BlockDelta,
    CitationsDelta,
    InputDelta,
    Other,
    Piece,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.initial_text import InitialText

_NO_TEXT = Text(text="")
_TEXT = "text"
_THINKING = "thinking"
_REDACTED = "redacted thinking"
_CALL = "call"
_UNSPELT = "call without a piece"
_SEARCH = "search"
_SKIPPED = "skipped"
_REPEATED = "repeated"
_HEADED = "headed"
_FOREIGN = "foreign reasoning"
_CLOSED = "closed"

_OPENS: dict[type[Struct], type[AnswerText] | type[AnswerThinking]] = {
    TextDelta: AnswerText,
    ThinkingDelta: AnswerThinking,
    SignatureDelta: AnswerThinking,
}
"""Pieces that reveal the type of a block with no start."""

_STATES: dict[type, str] = {AnswerText: _TEXT, AnswerThinking: _THINKING}

_GROWING: dict[type, str] = {TextDelta: _TEXT, ThinkingDelta: _THINKING, InputDelta: _CALL}
"""The states of blocks that grow by a piece."""

_ASIDE = frozenset({_CLOSED, _SKIPPED, _REPEATED, _SEARCH, _UNSPELT})
"""States of blocks whose end has no more of a text or input."""

_NO_INPUT = "{}"
_NEVER_CAME = "the input of a tool call never came"
_LATE = "came when its block was over"


class Blocks(Struct, eq=False):
    """The blocks of one answer.

    Its methods raise `UpstreamError` if the answer is unusable.
    """

    _inbound: Inbound
    message_id: str = ""
    count: int = 0
    """Number of the next block."""
    has_calls: bool = False
    """Whether a tool was called."""
    _ids: CallIds | None = None
    _at: dict[int, Block] = {}
    """The latest block at each upstream index. Servers reuse an index once its block is over."""
    _all: list[Block] = []
    """The blocks with content."""
    _strays: dict[tuple[int, type], Block] = {}
    """Those with pieces under the index of a block of another kind."""
    _searches: dict[str, Block] = {}
    """The searches without a result, by their ids."""
    _is_whole: bool = False
    """Whether the message start had blocks."""
    _repetitions: dict[int, Repetition] = {}
    """Those blocks, by index: events may repeat them."""
    _last: int = -1
    """Index of the block that began last."""

    def take_number(self) -> int:
        """The number of a further block."""
        number = self.count
        self.count = number + 1
        return number

    def take_all(self, content: Iterable[AnswerBlock | str]) -> list[Event]:
        """Read the blocks inside a message. Events that spell them again are repetitions."""
        self._is_whole = True
        events: list[Event] = []
        for index, block in enumerate(content):
            events += self.start(index, block)
            events += self._close(self._at[index])
            self._repetitions[index] = Repetition(self._at[index].start)
        return events

    def take_whole(self, content: Iterable[AnswerBlock | str]) -> list[Event]:
        """Read the blocks of a whole answer."""
        self._is_whole = True
        events: list[Event] = []
        for index, block in enumerate(content):
            if type(block) is AnswerText and not block.citations:
                # Most answers have nothing else.
                number = self.take_number()
                events.append(Opened(number, _NO_TEXT))
                if block.text:
                    events.append(Delta(number, block.text))
                events.append(Closed(number))
            elif type(block) is AnswerCall:
                opened = Block(index, self.take_number(), block, _CLOSED)
                events.append(self._call_start(opened, block))
                events += (Delta(opened.number, opened.input), Closed(opened.number))
            elif type(block) is AnswerThinking:
                opened = Block(index, self.take_number(), block, _CLOSED)
                events += (*self._text_start(opened, block), Closed(opened.number))
            else:
                events += self.start(index, block)
                events += self._close(self._at[index])
        return events

    def complete(self, content: Iterable[AnswerBlock | str]) -> list[Event]:
        """The events for content of the whole message at its end that was not received before."""
        events = [event for block in self._at.values() for event in self._close(block)]
        for missing in beyond(self._all, [self._known(block, []) for block in content]):
            number = self._last + 1
            events += self.start(number, missing)
            events += self._close(self._at[number])
        return events

    def end(self) -> list[Event]:
        """Close all open blocks at the end of the message."""
        events: list[Event] = []
        for block in list(self._at.values()):
            if self._lacks_input(block):
                raise UpstreamError.unreadable(_NEVER_CAME)
            events += self._close(block)
        for block in self._searches.values():
            events += [*self._query(block), Closed(block.number)]
        return [*events, *(Closed(block.number) for block in self._strays.values())]

    def _lose(self, path: str, detail: str = NO_COUNTERPART) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)

    # The start of a block.

    def start(
        self, given: int | str | None, block: AnswerBlock | str, extras: Sequence[Extra] = ()
    ) -> list[Event]:
        """A `content_block_start` event: its index as given, the block, its unknown members."""
        index = self._last = index_of(given, self._last + 1)
        unknown = list(extras)
        known = self._known(block, unknown)
        before = self._at.get(index)
        if before is not None and before.state is not _CLOSED:
            # A call with pieces continues under its id only.
            if is_repeated(before.start, known, before.state is not _CALL):
                return []
            if self._lacks_input(before):
                raise UpstreamError.unreadable(_NEVER_CAME)
            return [*self._close(before), *self.start(index, block, extras)]
        opened = self._at[index] = Block(index, self.count, known, _SKIPPED)
        if index in self._repetitions and self._repetitions[index].begins(known):
            opened.state = _REPEATED
            return []
        self.count += 1
        if isinstance(known, Other):
            return self._other_start(opened, known)
        if unknown:
            report_extras(self._inbound.ledger, unknown, f"content[{opened.number}].")
        self._all.append(opened)
        if isinstance(known, AnswerCall):
            opened.state = _UNSPELT
            return [self._call_start(opened, known)]
        if isinstance(known, AnswerRedacted):
            opened.state = _REDACTED
            head = Opened(opened.number, Reasoning(redacted=True))
            return [head, *self._sealed(opened, known.data)]
        opened.state = _STATES[type(known)]
        # In a whole message every block is complete.
        if not self._is_whole:
            if not known.text:
                if isinstance(block, Other) and isinstance(known, AnswerThinking):
                    opened.state = _FOREIGN
            elif not any(astuple(known)[1:]):
                opened.state, opened.initial = _HEADED, InitialText(known.text)
                known = type(known)()
        return self._text_start(opened, known)

    def _known(self, block: AnswerBlock | str, extras: list[Extra]) -> AnswerBlock:
        """A block in the protocol's form, if it has one."""
        if isinstance(block, str):
            return AnswerText(block)
        return as_known(block, extras) if isinstance(block, Other) else block

    def _call_start(self, block: Block, call: AnswerCall) -> Event:
        number = block.number
        if not call.name:
            raise UpstreamError.unreadable("a tool call has no name")
        self._report_caller(block, call)
        self.has_calls = True
        self._ids = self._ids or CallIds("toolu_")
        given = call.id or f"toolu_{self.message_id}_{number}"
        call_id = self._ids.take(given, f"{self.message_id}:{number}")
        if call_id != given:
            path = f"content[{number}].id"
            self._inbound.ledger.add(path, LossKind.REPAIRED, "two calls had one id")
        block.input = to_json_text(object_of(call.input) or {})
        return Opened(number, ToolCall(id=call_id, name=call.name))

    def _report_caller(self, block: Block, call: AnswerCall) -> None:
        """Only the model itself as the caller has no meaning of its own."""
        if call.caller not in (None, {"type": "direct"}):
            self._lose(f"content[{block.number}].caller")

    def _lacks_input(self, block: Block) -> bool:
        """Whether a block is a call with no input in its start and no piece."""
        return block.state is _UNSPELT and block.input == _NO_INPUT

    def _other_start(self, block: Block, start: Other) -> list[Event]:
        """A block without a canonical counterpart, but for web searches: the call of one opens what
        its result closes."""
        kind, value, number = start.kind, start.value, block.number
        if self._inbound.options.hosted_tools == "map":
            if kind == web_search.CALL and value.get("name") == web_search.NAME:
                extras: list[Extra] = []
                call = BLOCK.tolerate({**value, "type": "tool_use"}, extras)
                assert isinstance(call, AnswerCall)
                report_extras(self._inbound.ledger, extras, f"content[{number}].")
                self._report_caller(block, call)
                block.state, block.input = _SEARCH, to_json_text(call.input or {})
                self._searches[str(call.id)] = block
                return [Opened(number, WebSearch())]
            of = str(value.get("tool_use_id")) if kind == web_search.RESULT else ""
            search = self._searches.pop(of, None)
            if search is not None:
                self._lose(
                    f"content[{number}]", "of what a search found only the URLs can be carried"
                )
                sources = web_search.sources_of(value.get("content"))
                found = [Annotated(search.number, UrlCitation(url=url)) for url in sources]
                return [*found, *self._query(search), Closed(search.number)]
        loss = LossKind.KNOB if is_hosted(kind) else LossKind.CONTENT
        detail = f"a block of type {_type_of(start)} {NO_COUNTERPART}"
        self._inbound.ledger.add(f"content[{number}]", loss, detail)
        return []

    def _query(self, search: Block) -> list[Event]:
        """The query of a search, once its input is complete."""
        query = web_search.query_of_text(search.input)
        search.input = ""
        return [Delta(search.number, query)] if query else []

    def _text_start(self, block: Block, start: AnswerText | AnswerThinking) -> list[Event]:
        head = _NO_TEXT if isinstance(start, AnswerText) else Reasoning()
        events: list[Event] = [Opened(block.number, head), *self._piece(block, start.text or "")]
        if isinstance(start, AnswerThinking):
            return events + self._sealed(block, start.signature)
        for citation in start.citations or ():
            events += self._annotated(block, citation)
        return events

    def _annotated(self, block: Block, citation: Any) -> list[Event]:
        if not isinstance(citation, dict):
            return []
        annotation = read_annotation(citation)
        if isinstance(annotation, UrlCitation):
            report_unknown(self._inbound.ledger, citation, wire.CITATION_FIELDS, "citations.")
        return [Annotated(block.number, annotation)]

    def _sealed(self, block: Block, state: str | None) -> list[Event]:
        if not state:
            return []
        return [Sealed(block.number, Opaque(wire.NAME, state, account=self._inbound.account))]

    def _piece(self, block: Block, text: str) -> list[Event]:
        """The events of a further piece of a block."""
        if not text:
            return []
        block.pieces.append(text)
        return [Delta(block.number, text)]

    # Its pieces.

    def piece(self, event: BlockDelta, extras: Sequence[Extra] = ()) -> Iterable[Event]:
        """A `content_block_delta` event, with its unknown members."""
        piece, index = event.delta, event.index
        if type(index) is not int:
            return self._again(index_of(index, max(self._last, 0)), piece, extras)
        block = self._at.get(index)
        if block is None or _GROWING.get(type(piece)) != block.state:
            return self._rare_piece(index, block, piece)
        if extras:
            report_extras(self._inbound.ledger, extras, f"content[{block.number}].")
        text = getattr(piece, "text", "")
        if type(text) is not str:
            text = to_json_text(text)
        if not text:
            return ()
        block.pieces.append(text)
        return (Delta(block.number, text),)

    def _rare_piece(self, index: int, block: Block | None, piece: Piece) -> list[Event]:
        """A piece that is the first of its block, or out of place."""
        events = None if block is None else self._own_piece(block, piece)
        if events is not None:
            return events
        if isinstance(piece, Other):
            named = named_piece(piece.value, piece.kind)
            if named is not None:
                return self._again(index, named)
        if block is None or block.state is _CLOSED:
            return self._unannounced(index, block, piece)
        if isinstance(piece, TextDelta | ThinkingDelta) and piece.text:
            return self._stray(index, piece)
        if block.state is not _SKIPPED:
            if isinstance(piece, InputDelta) and piece.text:
                problem = "a piece of a tool call is in a block that is none"
                raise UpstreamError.unreadable(problem)
            loss = LossKind.CONTENT if isinstance(piece, Other) else LossKind.KNOB
            path = f"content[{block.number}].{_type_of(piece)}"
            self._inbound.ledger.add(path, loss, NO_COUNTERPART)
        return []

    def _own_piece(self, block: Block, piece: Piece) -> list[Event] | None:
        """A piece that a block in its state may have besides more of its text. None for another."""
        state = block.state
        if state is _FOREIGN:
            # Reasoning under another name than the protocol's may have its text in text pieces.
            if isinstance(piece, TextDelta):
                return self._piece(block, piece.text)
            block.state = _THINKING
            return self._again(block.index, piece)
        if state is _REPEATED:
            self._repetitions[block.index].add(piece)
            return []
        if state is _HEADED:
            return self._after_head(block, piece)
        if state is _THINKING and isinstance(piece, SignatureDelta):
            return self._sealed(block, piece.signature)
        if state is _TEXT and isinstance(piece, CitationsDelta):
            return self._annotated(block, piece.citation)
        if not isinstance(piece, InputDelta) or state not in (_UNSPELT, _SEARCH):
            return None
        text = _text_of(piece)
        if state is _SEARCH:
            # The start has an empty input, and its pieces follow.
            block.input = text if block.input == _NO_INPUT else block.input + text
        elif text and text != _NO_INPUT:
            # An empty object is a placeholder for the input in the start, or for later pieces.
            block.state, block.input = _CALL, ""
            return self._piece(block, text)
        return []

    def _again(self, index: int, piece: Piece, extras: Sequence[Extra] = ()) -> list[Event]:
        return list(self.piece(BlockDelta(index=index, delta=piece), extras))

    def _after_head(self, block: Block, piece: Piece) -> list[Event]:
        """A piece of a block that began with a text."""
        head = block.initial
        assert head is not None
        if isinstance(piece, TextDelta | ThinkingDelta) and _OPENS[type(piece)] is type(
            block.start
        ):
            text = head.add(piece.text)
            return self._end_initial(block, head, text) if head.is_over else []
        return [*self._end_initial(block, head, head.end()), *self._again(block.index, piece)]

    def _end_initial(self, block: Block, head: InitialText, text: str) -> list[Event]:
        block.state, block.initial = _STATES[type(block.start)], None
        if head.repeated:
            path = f"content[{block.number}].{block.state}"
            self._lose(path, "its pieces say again what it began with")
        return self._piece(block, text)

    def _unannounced(self, index: int, block: Block | None, piece: Piece) -> list[Event]:
        """A piece of a block that never started, or that is over."""
        opened, text = _OPENS.get(type(piece)), _text_of(piece)
        if opened is not None and (block is None or text):
            return [*self.start(index, opened()), *self._again(index, piece)]
        if block is None:
            raise UpstreamError.unreadable("a block of its stream has no start")
        if text.strip():
            raise UpstreamError.unreadable("a tool call goes on after its end")
        self._lose(f"content[{block.number}].{_type_of(piece)}", _LATE)
        return []

    def _stray(self, index: int, piece: TextDelta | ThinkingDelta) -> list[Event]:
        """Text or thinking under the index of a block of another kind, read as a separate block."""
        opened = _OPENS[type(piece)]
        known = self._strays.get((index, opened))
        if known is not None:
            return self._piece(known, piece.text)
        start = opened(piece.text)
        stray = Block(index, self.take_number(), start, _STATES[opened])
        self._strays[index, opened] = stray
        self._all.append(stray)
        return self._text_start(stray, start)

    def end_piece(self, end: JsonObject) -> list[Event] | None:
        """A piece of the last block inside the message's end. None for anything else."""
        piece = named_piece(end) if end.get("type") in _END_PIECES else None
        return None if piece is None else self._again(self._last, piece)

    # Its end.

    def stop(self, given: int | str | None, unknown: JsonObject) -> list[Event]:
        """A `content_block_stop` event, which of some servers has the whole block, as events of the
        vendor's SDK helpers do: its index as given, and its unknown members."""
        index = index_of(given, self._last)
        block = self._at.get(index)
        missing: list[Event] = []
        whole = unknown.get("content_block")
        if isinstance(whole, dict):
            known = self._known(BLOCK.tolerate(whole, []), [])
            if block is None or (block.state is _CLOSED and is_another(block.start, known)):
                index = max(index, self._last + 1)
                return [*self.start(index, known), *self._close(self._at[index])]
            missing = self._missing(block, known)
        elif unknown and block is not None and not isinstance(block.start, Other):
            known = BLOCK.tolerate({**unknown, "type": _type_of(block.start)}, [])
            missing = self._missing(block, known)
        return missing if block is None else [*missing, *self._close(block)]

    def _missing(self, block: Block, whole: AnswerBlock) -> list[Event]:
        """The part of a whole block that was not received before."""
        missing: list[Event] = []
        if self._lacks_input(block) and isinstance(whole, AnswerCall) and whole.input:
            block.input = to_json_text(object_of(whole.input))
        if block.initial is not None:
            missing = self._end_initial(block, block.initial, block.initial.end())
        if block.state not in _ASIDE:
            missing += self._piece(block, rest_of_block(block, whole))
        return missing

    def _close(self, block: Block) -> list[Event]:
        state = block.state
        events: list[Event] = []
        if state is _CLOSED:
            return events
        if block.initial is not None:
            events = self._end_initial(block, block.initial, block.initial.end())
        block.state = _CLOSED
        if state is _REPEATED:
            if not self._repetitions.pop(block.index).is_whole():
                raise UpstreamError.unreadable("its blocks are not those that its start has")
        elif state is _SEARCH:
            # It stays open until its result comes.
            events = self._query(block)
        elif state is not _SKIPPED:
            if isinstance(block.start, AnswerCall):
                events = self._piece(block, self._rest_of_input(block, block.start))
            events.append(Closed(block.number))
        for place in [place for place in self._strays if place[0] == block.index]:
            events.append(Closed(self._strays.pop(place).number))
        return events

    def _rest_of_input(self, block: Block, start: AnswerCall) -> str:
        """The input of a call without pieces. Those of another have to be the input that the start
        has, if it has one."""
        given = object_of(start.input)
        if given and block.pieces and object_of("".join(block.pieces)) != given:
            problem = "the pieces of a tool call are not the input that its start has"
            raise UpstreamError.unreadable(problem)
        return block.input


_END_PIECES = tuple(str(piece.__struct_config__.tag) for piece in _OPENS)


def _type_of(one: Piece | AnswerBlock) -> str:
    """The type of a piece, or of a block."""
    kind = one.kind if isinstance(one, Other) else str(one.__struct_config__.tag)
    return kind[:60] or "unknown"


def _text_of(piece: Piece) -> str:
    """The text of a piece; empty if it has none."""
    text = getattr(piece, "text", "")
    return text if isinstance(text, str) else to_json_text(text)


def index_of(given: int | str | None, otherwise: int) -> int:
    """The index of an event, which some servers write as text or leave out."""
    if type(given) is str and given.isascii() and given.isdecimal():
        return int(given[:9])
    return given if type(given) is int else otherwise

"""Reads an upstream's stream of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.canonical.blocks import (
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import Fault, FaultKind
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
    Sealed,
    Started,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.anthropic_messages import web_search, wire
from dragoman.protocols.anthropic_messages.annotations import read_annotation
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import (
    explanation_of,
    is_known_reason,
    read_finish,
)
from dragoman.protocols.anthropic_messages.loose import (
    as_known,
    is_hosted,
    named_delta,
    object_of,
)
from dragoman.protocols.anthropic_messages.repetition import (
    Repetition,
    index_of,
    is_another,
    is_said_again,
)
from dragoman.protocols.anthropic_messages.usage import (
    lost_tier_field,
    merge_usage,
    read_tier,
    read_usage,
)
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.error_body import is_typed, stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.finish_words import unknown_finish
from dragoman.protocols.heads import Head
from dragoman.sse import DONE, Frame

_NO_TEXT = Text(text="")
_TEXT = "text"
_THINKING = "thinking"
_REDACTED = "redacted_thinking"
_TOOL = "tool_use"
_SEARCH = "search"
_NO_INPUT = "{}"
_SKIPPED = "skipped"
_REPEATED = "repeated"
_HEADED = "headed"
_FOREIGN = "text of foreign reasoning"
_CLOSED = "closed"
_NONE = "none"
_NO_BLOCK = (_NONE, -1)
_NOT_GIVEN: tuple[Any, list[str]] = (None, [])

_OPENS = {"text_delta": _TEXT, "thinking_delta": _THINKING, "signature_delta": _THINKING}
"""Deltas from which the kind of a block is known even when its start is missing. The kind is also
the member that has the text."""

_TEXTS = frozenset({_TEXT, _THINKING})
"""Kinds of blocks that are a text, which is the member of that name."""

_SILENT = {"silent text": _TEXT, "silent thinking": _THINKING, "silent reasoning": _THINKING}
"""What blocks are called of which no piece came yet, and their kinds. Reasoning under another name
than the protocol's may have its text in deltas of text."""

_SAYING = SPEAKING | {"delta"}
"""Members of events that say something of an answer."""

_DETAIL = "has no counterpart for the client"
_SECOND = "a second message begins in it"
_NEVER_CAME = "the input of a tool call never came"
_LATE = "came when its block was over"


class MessagesReader:
    """Turns events of the upstream into canonical ones; see `base.StreamReader`.

    The end is held until `message_stop`: only then is the answer whole.
    """

    __slots__ = (
        "_blocks",
        "_call_ids",
        "_calls",
        "_first",
        "_given",
        "_heads",
        "_id",
        "_inbound",
        "_inputs",
        "_last",
        "_next",
        "_over",
        "_repetitions",
        "_searches",
        "_started",
        "_stop",
        "_strays",
        "_texts",
        "_usage",
        "fault",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self.fault: Fault | None = None
        """The first failure."""
        self._blocks: dict[int, tuple[str, int]] = {}
        """The latest block at each index of the upstream: its kind and its own number. Servers use
        an index again once its block is over."""
        self._strays: dict[tuple[int, str], int] = {}
        """Numbers of blocks whose pieces came under the index of a block of another kind."""
        self._heads: dict[int, JsonObject] = {}
        """The starts of the blocks that are open, by index."""
        self._texts: dict[int, tuple[str, Head]] = {}
        """Kind and text of blocks that began with a text, by index, until it is passed on."""
        self._first: JsonObject = {}
        """The start of the message, if it had content."""
        self._repetitions: dict[int, Repetition] = {}
        """Blocks that the start of the message may have had already, by index."""
        self._next = 0
        """Number of the next block."""
        self._last = -1
        """Index of the block that began last."""
        self._inputs: dict[int, str] = {}
        """What is known of the input of calls, by number; "" once pieces of it passed."""
        self._given: dict[int, tuple[Any, list[str]]] = {}
        """Inputs that stood in the starts of calls, and the pieces that then spell them once more,
        by number."""
        self._searches: dict[str, int] = {}
        """Indexes of searches by their ids."""
        self._call_ids = CallIds("toolu_")
        self._calls = 0
        self._id = ""
        self._stop: JsonObject = {}
        self._usage: JsonObject = {}
        self._started = False
        self._over = False

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        try:
            event = self._inbound.decode(frame.data)
        except JsonError:
            if frame.data.strip() == DONE:
                return ()
            if frame.data.strip():
                return self._fail("an event of its stream is not JSON")
            event = {}
        if type(event) is not dict:
            return self._fail("an event of its stream is not an object")
        kind = event.get("type")
        if type(kind) is not str:
            kind = frame.event.decode(errors="replace")
        if kind == "content_block_delta" and self._started:
            return self._delta(event)
        return self.take(kind, event)

    def take(self, kind: str, event: JsonObject) -> list[Event]:
        """The canonical events of an event of type `kind`."""
        if self._over or kind == "ping" or not (kind or event):
            return []
        if kind == "error" or event.get("error"):
            return self._failed(fault_of(stray_error(event)))
        handler = _HANDLERS.get(kind)
        if handler is None:
            if not is_typed(kind) and (error := stray_error(event)) is not None:
                return self._failed(fault_of(error))
            says = not event.keys().isdisjoint(_SAYING)
            loss = LossKind.CONTENT if says else LossKind.KNOB
            self._inbound.ledger.add(kind[:60], loss, _DETAIL)
            return []
        if self._started or kind == "message_start":
            return handler(self, event)
        self._started = True
        return [Started("", ""), *handler(self, event)]

    def take_whole(self, message: JsonObject, stop: JsonObject) -> list[Event]:
        """The canonical events of a whole message that ended as in `stop`. `fault` is set if it
        is unusable."""
        events = self._message_start({"message": message})
        events += self._message_delta({"delta": stop})
        events += self._message_stop({})
        return events

    def finish(self) -> Iterable[Event]:
        """The bytes are over."""
        return () if self._over else self._fail("it ends before message_stop")

    def _fail(self, problem: str) -> list[Event]:
        message = f"The upstream's answer is unusable: {problem}"
        return self._failed(Fault(FaultKind.UPSTREAM_FAILED, message, code="upstream_error"))

    def _failed(self, fault: Fault) -> list[Event]:
        self._over = True
        self.fault = self.fault or fault
        return [Failed(fault)]

    def _lose(self, path: str, detail: str = _DETAIL) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)

    def _report_unknown(
        self, value: Mapping[str, Any], known: frozenset[str], path: str = ""
    ) -> None:
        """Report members that have no counterpart in the canonical model, unless they are empty."""
        if known.issuperset(value):
            return
        for name, content in value.items():
            if name not in known and content not in (None, "", [], {}):
                loss = LossKind.CONTENT if name in SPEAKING else LossKind.KNOB
                self._inbound.ledger.add(path + name, loss, _DETAIL)

    def _message_start(self, event: JsonObject) -> list[Event]:
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        merge_usage(self._usage, message.get("usage"))
        if self._started:
            identifier = message.get("id")
            if self._next and isinstance(identifier, str) and identifier not in ("", self._id):
                return self._fail(_SECOND)
            return self._content(message)
        self._started = True
        self._report_unknown(message, wire.MESSAGE_FIELDS)
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        usage = self._counted() if self._usage else None
        if message.get("stop_reason") is not None:
            self._stop["stop_reason"] = message["stop_reason"]
        identifier, model = message.get("id"), message.get("model")
        self._id = identifier if isinstance(identifier, str) else ""
        name = model if isinstance(model, str) else ""
        events: list[Event] = [Started(self._id, name, service_tier=tier, usage=usage)]
        if usage is not None:
            self._report_unknown(self._usage, wire.USAGE_FIELDS, "usage.")
            lost = lost_tier_field(self._usage, tier)
            if lost is not None:
                self._lose(f"usage.{lost}")
            events.append(Metered(usage, tier))
        return events + self._content(message)

    def _content(self, message: JsonObject) -> list[Event]:
        """Blocks that stand in the start of a message. Events that spell them once more are
        repetitions."""
        content = message.get("content")
        if not isinstance(content, list) or not content or message == self._first:
            return []
        if self._first:
            return self._fail(_SECOND)
        self._first = message
        events: list[Event] = []
        for index, block in enumerate(content):
            events += self._block_start({"index": index, "content_block": block})
            events += self._close(index)
            if isinstance(block, dict):
                self._repetitions[index] = Repetition(block)
        return events

    def _block_start(self, event: JsonObject) -> list[Event]:
        index, block = event.get("index"), event.get("content_block")
        if type(index) is not int:
            index = index_of(event, self._last + 1)
        if not isinstance(block, dict):
            if not isinstance(block, str):
                return self._fail("a content_block_start event is malformed")
            block = {"type": _TEXT, "text": block}
        self._last = index
        kind = block.get("type")
        known = wire.BLOCK_FIELDS.get(kind) if type(kind) is str else None
        if known is None:
            block = as_known(block)
            kind = block.get("type")
            known = wire.BLOCK_FIELDS.get(kind) if type(kind) is str else None
        before = self._blocks.get(index)
        if before is not None and before[0] is not _CLOSED:
            if is_said_again(self._heads.get(index), block, self._is_fresh(before)):
                return []
            if self._lacks_input(*before):
                return self._fail(_NEVER_CAME)
            closed = self._close(index)
            self._blocks[index] = _CLOSED, before[1]
            return [*closed, *self._block_start(event)]
        self._heads[index] = block
        if index in self._repetitions and self._repetitions[index].begins(block):
            self._blocks[index] = _REPEATED, self._next
            return []
        if known is None and self._inbound.options.hosted_tools == "map":
            events = self._search_block(index, block)
            if events is not None:
                return events
        number = self._number()
        if known is None or type(kind) is not str:
            self._blocks[index] = _SKIPPED, number
            loss = LossKind.KNOB if is_hosted(str(kind)) else LossKind.CONTENT
            detail = f"a block of type {str(kind)[:60]} {_DETAIL}"
            self._inbound.ledger.add(f"content[{number}]", loss, detail)
            return []
        if not known.issuperset(block):
            self._report_unknown_in_block(block, known, f"content[{number}].")
        self._blocks[index] = kind, number
        # In a whole message nothing more comes of a block.
        text = block.get(kind) if kind in _TEXTS and not self._first else None
        if (
            isinstance(text, str)
            and text
            and not any(value for name, value in block.items() if name not in ("type", kind))
        ):
            self._blocks[index] = _HEADED, number
            self._texts[index] = kind, Head(text)
            block = {**block, kind: ""}
        elif kind in _TEXTS and not text and not self._first:
            foreign = kind == _THINKING and event["content_block"].get("type") != _THINKING
            self._blocks[index] = "silent reasoning" if foreign else f"silent {kind}", number
        if kind == _TEXT:
            return self._text_start(number, block)
        if kind == _TOOL:
            return self._tool_start(number, block)
        return self._thinking_start(number, block)

    def _number(self) -> int:
        """The number of a further block."""
        number = self._next
        self._next = number + 1
        return number

    def _lacks_input(self, kind: str, number: int) -> bool:
        """Whether a block is a call whose start had no input, and of which no piece came."""
        return kind == _TOOL and self._inputs.get(number) == _NO_INPUT

    def _is_fresh(self, before: tuple[str, int]) -> bool:
        """Whether no piece came of a call since its start."""
        kind, number = before
        return kind != _TOOL or self._inputs.get(number) != ""

    def _search_block(self, index: int, block: JsonObject) -> list[Event] | None:
        """A block of a web search: its call opens what its result closes. None of another block."""
        kind = block.get("type")
        if kind == web_search.CALL and block.get("name") == web_search.NAME:
            number = self._number()
            self._report_unknown_in_block(block, wire.BLOCK_FIELDS[_TOOL], f"content[{number}].")
            self._blocks[index] = _SEARCH, number
            self._searches[str(block.get("id"))] = number
            self._inputs[number] = to_json_text(block.get("input") or {})
            return [Opened(number, WebSearch())]
        opened = None
        if kind == web_search.RESULT:
            opened = self._searches.pop(str(block.get("tool_use_id")), None)
        if opened is None:
            return None
        number = self._number()
        self._blocks[index] = _SKIPPED, number
        self._lose(f"content[{number}]", "of what a search found only the URLs can be told")
        found = [UrlCitation(url=url) for url in web_search.sources_of(block.get("content"))]
        return [*(Annotated(opened, source) for source in found), *self._end_search(opened)]

    def _end_search(self, number: int) -> list[Event]:
        return [*self._query(number), Closed(number)]

    def _query(self, index: int) -> list[Event]:
        """What a search looks for, once its input is whole."""
        text = self._inputs.pop(index, None)
        query = "" if text is None else web_search.query_of_text(text)
        return [Delta(index, query)] if query else []

    def _report_unknown_in_block(self, block: JsonObject, known: frozenset[str], path: str) -> None:
        if block.get("caller") == {"type": "direct"}:
            known |= {"caller"}
        self._report_unknown(block, known, path)

    def _text_start(self, index: int, block: JsonObject) -> list[Event]:
        events: list[Event] = [Opened(index, _NO_TEXT)]
        text = block.get("text")
        if isinstance(text, str) and text:
            events.append(Delta(index, text))
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            events += self._annotated(index, citation)
        return events

    def _annotated(self, index: int, citation: Any) -> list[Event]:
        if not isinstance(citation, dict):
            return []
        annotation = read_annotation(citation)
        if isinstance(annotation, UrlCitation):
            self._report_unknown(citation, wire.CITATION_FIELDS, "citations.")
        return [Annotated(index, annotation)]

    def _thinking_start(self, index: int, block: JsonObject) -> list[Event]:
        redacted = block["type"] == _REDACTED
        events: list[Event] = [Opened(index, Reasoning(redacted=redacted))]
        text = "" if redacted else block.get("thinking")
        if isinstance(text, str) and text:
            events.append(Delta(index, text))
        return events + self._sealed(index, block.get("data" if redacted else "signature"))

    def _sealed(self, index: int, state: Any) -> list[Event]:
        if not isinstance(state, str) or not state:
            return []
        return [Sealed(index, Opaque(wire.NAME, state, account=self._inbound.account))]

    def _tool_start(self, index: int, block: JsonObject) -> list[Event]:
        name, identifier = block.get("name"), block.get("id")
        if not isinstance(name, str) or not name:
            return self._fail("a tool call has no name")
        self._calls += 1
        if not isinstance(identifier, str) or not identifier:
            identifier = f"toolu_{self._id}_{index}"
        call_id = self._call_ids.take(identifier, f"{self._id}:{index}")
        if call_id != identifier:
            self._inbound.ledger.add(
                f"content[{index}].id", LossKind.REPAIRED, "two calls had one id"
            )
        given = block.get("input")
        if given:
            self._given[index] = given, []
        self._inputs[index] = to_json_text(given or {})
        return [Opened(index, ToolCall(id=call_id, name=name))]

    def _delta(self, event: JsonObject) -> Iterable[Event]:
        index, delta = event.get("index"), event.get("delta")
        if type(index) is not int:
            index = index_of(event, max(self._last, 0))
        if type(delta) is not dict:
            return self._fail("a content_block_delta event is malformed")
        kind, number = self._blocks.get(index, _NO_BLOCK)
        what = delta.get("type")
        if kind == _TEXT and what == "text_delta":
            text = delta.get("text")
        elif kind == _TOOL and what == "input_json_delta":
            text = delta.get("partial_json")
            if type(text) is dict:
                text = to_json_text(text)
            if text == _NO_INPUT and self._inputs.get(number):
                return ()  # in the place of one that the start had, or that is to come
            if text:
                if number in self._given:
                    self._given[number][1].append(text)
                self._inputs[number] = ""
        elif kind == _THINKING and what == "thinking_delta":
            text = delta.get("thinking")
        else:
            return self._rare_delta(index, kind, number, str(what), delta)
        if len(delta) > 2 or len(event) > 3:
            self._report_unknown(delta, wire.DELTA_FIELDS[what], f"content[{number}].")
            self._report_unknown(event, wire.DELTA_EVENT_FIELDS)
        if type(text) is not str:
            return self._fail("a content_block_delta event is malformed")
        return (Delta(number, text),) if text else ()

    def _any_delta(self, event: JsonObject) -> list[Event]:
        return list(self._delta(event))

    def _rare_delta(
        self, index: int, kind: str, number: int, what: str, delta: JsonObject
    ) -> list[Event]:
        if kind in _SILENT:
            foreign = kind == "silent reasoning" and what == "text_delta"
            self._blocks[index] = _FOREIGN if foreign else _SILENT[kind], number
            return list(self._delta({"index": index, "delta": delta}))
        if kind is _FOREIGN and isinstance(text := delta.get("text"), str):
            return [Delta(number, text)] if text else []
        if what == "signature_delta" and kind == _THINKING:
            return self._sealed(number, delta.get("signature"))
        if what == "citations_delta" and kind == _TEXT:
            return self._annotated(number, delta.get("citation"))
        if kind is _SEARCH and what == "input_json_delta":
            return self._search_input(number, delta.get("partial_json"))
        if kind is _REPEATED:
            self._repetitions[index].add(delta)
            return []
        if kind is _HEADED:
            return self._after_head(index, number, what, delta)
        if what not in wire.DELTA_FIELDS and (named := named_delta(delta)) is not None:
            return list(self._delta({"index": index, "delta": named}))
        if kind is _NONE or kind is _CLOSED:
            return self._unannounced(index, kind, what, delta)
        opened = _OPENS.get(what)
        text = delta.get(opened) if opened is not None else None
        if isinstance(text, str) and text and opened is not None:
            return self._stray(index, opened, text)
        if what == "input_json_delta" and kind is not _SKIPPED and delta.get("partial_json"):
            return self._fail("a piece of a tool call is in a block that is none")
        if kind is not _SKIPPED:
            loss = LossKind.KNOB if what in wire.DELTA_FIELDS else LossKind.CONTENT
            self._inbound.ledger.add(f"content[{number}].{what[:60]}", loss, _DETAIL)
        return []

    def _after_head(self, index: int, number: int, what: str, delta: JsonObject) -> list[Event]:
        """A piece of a block that began with a text."""
        kind, head = self._texts[index]
        piece = delta.get(kind)
        if _OPENS.get(what) != kind or not isinstance(piece, str):
            begun = self._end_head(index, number, head.end())
            return [*begun, *self._delta({"index": index, "delta": delta})]
        text = head.add(piece)
        return self._end_head(index, number, text) if head.is_over else []

    def _end_head(self, index: int, number: int, text: str) -> list[Event]:
        kind, head = self._texts.pop(index)
        self._blocks[index] = kind, number
        if head.repeated:
            self._lose(f"content[{number}].{kind}", "its pieces say again what it began with")
        return [Delta(number, text)]

    def _unannounced(self, index: int, kind: str, what: str, delta: JsonObject) -> list[Event]:
        """A piece of a block that never began, or that is over."""
        opened = _OPENS.get(what)
        if opened is not None and (kind is _NONE or delta.get(opened)):
            head = {"index": index, "content_block": {"type": opened}}
            again = {"index": index, "delta": delta}
            return [*self._block_start(head), *self._delta(again)]
        if kind is _NONE:
            return self._fail("a block of its stream has no start")
        piece = delta.get("partial_json")
        if isinstance(piece, str) and piece.strip():
            return self._fail("a tool call goes on after its end")
        self._lose(f"content[{self._blocks[index][1]}].{what[:60]}", _LATE)
        return []

    def _stray(self, index: int, kind: str, text: str) -> list[Event]:
        """Text or thinking under the index of a block of another kind: a block of its own."""
        known = self._strays.get((index, kind))
        if known is not None:
            return [Delta(known, text)]
        number = self._strays[index, kind] = self._number()
        head = {"type": kind, kind: text}
        if kind == _TEXT:
            return self._text_start(number, head)
        return self._thinking_start(number, head)

    def _search_input(self, number: int, piece: object) -> list[Event]:
        if isinstance(piece, str) and number in self._inputs:
            before = self._inputs[number]
            # The start shows an empty input, which its pieces then spell.
            self._inputs[number] = piece if before == _NO_INPUT else before + piece
        return []

    def _block_stop(self, event: JsonObject) -> list[Event]:
        index = index_of(event, self._last)
        if wire.STOP_EVENT_FIELDS.issuperset(event):
            return self._close(index)
        return self._said_at_stop(index, event)

    def _said_at_stop(self, index: int, event: JsonObject) -> list[Event]:
        """The end of a block that has all of it, as the events of the vendor's own helpers do: it
        was said before unless nothing was."""
        kind, number = self._blocks.get(index, _NO_BLOCK)
        block = event.get("content_block")
        if isinstance(block, dict) and (
            kind is _NONE or (kind is _CLOSED and is_another(self._heads.get(index), block))
        ):
            index = max(index, self._last + 1)
            begun = self._block_start({"index": index, "content_block": block})
            return [*begun, *self._close(index)]
        block = block if isinstance(block, dict) else event
        member = _SILENT.get(kind)
        said: list[Event] = []
        if member is not None:
            text = block.get(member)
            said = [Delta(number, text)] if isinstance(text, str) and text else []
        elif self._lacks_input(kind, number) and block.get("input"):
            self._inputs[number] = to_json_text(object_of(block["input"]))
        return [*said, *self._close(index)]

    def _close(self, index: int) -> list[Event]:
        kind, number = self._blocks.get(index, _NO_BLOCK)
        if kind is _NONE or kind is _CLOSED:
            return []
        events: list[Event] = []
        if kind is _HEADED:
            events = self._end_head(index, number, self._texts[index][1].end())
        self._blocks[index] = _CLOSED, number
        if kind is _REPEATED:
            if not self._repetitions.pop(index).is_whole():
                return self._fail("its blocks are not those that its start has")
        elif kind is _SEARCH:
            # It goes on until its result comes.
            events = self._query(number)
        elif kind is not _SKIPPED:
            arguments = self._inputs.pop(number, "")
            given, pieces = self._given.pop(number, _NOT_GIVEN)
            if pieces and not self._over and object_of("".join(pieces)) != object_of(given):
                return self._fail("the pieces of a tool call are not the input that its start has")
            if arguments:
                events.append(Delta(number, arguments))
            events.append(Closed(number))
        if self._strays:
            for at, stray in [place for place in self._strays if place[0] == index]:
                events.append(Closed(self._strays.pop((at, stray))))
        return events

    def _message_delta(self, event: JsonObject) -> list[Event]:
        self._report_unknown(event, wire.MESSAGE_DELTA_FIELDS)
        delta = event.get("delta")
        events: list[Event] = []
        if isinstance(delta, dict):
            if not wire.STOP_FIELDS.issuperset(delta):
                events, delta = self._said_at_end(delta)
            details = delta.get("stop_details")
            if isinstance(details, dict):
                self._report_unknown(details, wire.STOP_DETAILS_FIELDS, "stop_details.")
            for name, item in delta.items():
                if item is not None:
                    self._stop[name] = item
        usage = event.get("usage")
        if not isinstance(usage, dict) or not usage:
            return events
        merge_usage(self._usage, usage)
        self._report_unknown(usage, wire.USAGE_FIELDS, "usage.")
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        return [*events, Metered(self._counted(), tier)]

    def _said_at_end(self, message: JsonObject) -> tuple[list[Event], JsonObject]:
        """What stands in the end of a message that is none of its end, if nothing was said before;
        and the rest. A delta there is a piece at any time."""
        if str(message.get("type")) in _OPENS and (piece := named_delta(message)) is not None:
            kept = {name: message[name] for name in wire.STOP_FIELDS if name in message}
            return list(self._delta({"index": self._last, "delta": piece})), kept
        content = message.get("content")
        if not content and named_delta(message) is not None:
            content = [as_known({name: message[name] for name in message if name in SPEAKING})]
        if isinstance(content, str) and content:
            content = [{"type": _TEXT, _TEXT: content}]
        if self._next or not isinstance(content, list) or not content:
            self._report_unknown(message, wire.MESSAGE_FIELDS)
            return [], message
        rest = {name: value for name, value in message.items() if name not in SPEAKING}
        self._report_unknown(rest, wire.MESSAGE_FIELDS)
        return self._content({"content": content}), rest

    def _counted(self) -> Usage:
        return read_usage(self._usage, searches=self._inbound.options.hosted_tools == "map")

    def _message_stop(self, event: JsonObject) -> list[Event]:
        events: list[Event] = []
        message = event.get("message")
        if isinstance(message, dict):
            events, _ = self._said_at_end(message)
            self._stop = {**message, **self._stop}
        for index, (kind, number) in list(self._blocks.items()):
            if self._lacks_input(kind, number):
                return [*events, *self._fail(_NEVER_CAME)]
            if kind is not _CLOSED:
                events += self._close(index)
        for number in self._searches.values():
            events += self._end_search(number)
        events += [Closed(number) for number in self._strays.values()]
        reason = self._stop.get("stop_reason")
        if reason == "compaction":
            problem = "it compacted the conversation instead of answering"
            return [*events, *self._fail(problem)]
        if reason is None or reason == "null":
            return [*events, *self._fail("it ends without a reason")]
        if not is_known_reason(reason):
            return [*events, *self._failed(unknown_finish(reason))]
        explanation = explanation_of(self._stop)
        if explanation:
            index = self._number()
            head = Refusal(text="")
            events += [Opened(index, head), Delta(index, explanation), Closed(index)]
        self._over = True
        events.append(Finished(read_finish(self._stop, self._calls > 0)))
        events.append(Ended())
        return events


_HANDLERS = {
    "message_start": MessagesReader._message_start,
    "content_block_start": MessagesReader._block_start,
    "content_block_delta": MessagesReader._any_delta,
    "content_block_stop": MessagesReader._block_stop,
    "message_delta": MessagesReader._message_delta,
    "message_stop": MessagesReader._message_stop,
}

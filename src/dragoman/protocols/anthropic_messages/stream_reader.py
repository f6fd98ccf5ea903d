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
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.anthropic_messages import web_search, wire
from dragoman.protocols.anthropic_messages.annotations import read_annotation
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.finish import (
    explanation_of,
    is_known_reason,
    read_finish,
)
from dragoman.protocols.anthropic_messages.usage import (
    lost_tier_field,
    merge_usage,
    read_tier,
    read_usage,
)
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.sse import DONE, Frame

_NO_TEXT = Text(text="")
_TEXT = "text"
_THINKING = "thinking"
_REDACTED = "redacted_thinking"
_TOOL = "tool_use"
_SEARCH = "search"
_NO_INPUT = "{}"
_SKIPPED = "skipped"
_CLOSED = "closed"

_OPENS = {"text_delta": _TEXT, "thinking_delta": _THINKING, "signature_delta": _THINKING}
"""Deltas from which the kind of a block is known even when its start is missing."""

_DETAIL = "has no counterpart for the client"


class MessagesReader:
    """Turns events of the upstream into canonical ones; see `base.StreamReader`.

    The end is held until `message_stop`: only then is the answer whole.
    """

    __slots__ = (
        "_calls",
        "_id",
        "_inbound",
        "_inputs",
        "_kinds",
        "_over",
        "_searches",
        "_started",
        "_stop",
        "_usage",
        "fault",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self.fault: Fault | None = None
        """The first failure."""
        self._kinds: dict[int, str] = {}
        self._inputs: dict[int, str] = {}
        self._searches: dict[str, int] = {}
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
            event = decode(frame.data)
        except JsonError:
            if frame.data.strip() == DONE:
                return ()
            return self._fail("an event of its stream is not JSON")
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
        if self._over or kind == "ping":
            return []
        if kind == "error" or event.get("error"):
            return self._error(event.get("error"))
        handler = _HANDLERS.get(kind)
        if handler is None:
            self._lose(kind[:60])
            return []
        if self._started or kind == "message_start":
            return handler(self, event)
        self._started = True
        return [Started("", ""), *handler(self, event)]

    def take_whole(self, message: JsonObject, content: list[Any], stop: JsonObject) -> list[Event]:
        """The canonical events of a whole message that ended as in `stop`. `fault` is set if it
        is unusable."""
        events = self._message_start({"message": message})
        for index, block in enumerate(content):
            events += self._block_start({"index": index, "content_block": block})
            events += self._close(index)
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

    def _error(self, error: Any) -> list[Event]:
        return self._failed(fault_of(error))

    def _lose(self, path: str, detail: str = _DETAIL) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)

    def _report_unknown(
        self, value: Mapping[str, Any], known: frozenset[str], path: str = ""
    ) -> None:
        """Report members that have no counterpart in the canonical model, unless they are empty."""
        if known.issuperset(value):
            return
        for name, content in value.items():
            if name not in known and content not in (None, [], {}):
                self._lose(path + name)

    def _message_start(self, event: JsonObject) -> list[Event]:
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        merge_usage(self._usage, message.get("usage"))
        if self._started:
            return []
        self._started = True
        self._report_unknown(message, wire.MESSAGE_FIELDS)
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        usage = self._counted() if self._usage else None
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
        return events

    def _block_start(self, event: JsonObject) -> list[Event]:
        index, block = event.get("index"), event.get("content_block")
        if type(index) is not int or not isinstance(block, dict):
            return self._fail("a content_block_start event is malformed")
        if index in self._kinds:
            return []
        kind = block.get("type")
        known = wire.BLOCK_FIELDS.get(kind) if type(kind) is str else None
        if known is None and self._inbound.options.hosted_tools == "map":
            events = self._search_block(index, block)
            if events is not None:
                return events
        if known is None or type(kind) is not str:
            self._kinds[index] = _SKIPPED
            self._lose(f"content[{index}]", f"a block of type {str(kind)[:60]} {_DETAIL}")
            return []
        if not known.issuperset(block):
            self._report_unknown_in_block(block, known, f"content[{index}].")
        self._kinds[index] = kind
        if kind == _TEXT:
            return self._text_start(index, block)
        if kind == _TOOL:
            return self._tool_start(index, block)
        return self._thinking_start(index, block)

    def _search_block(self, index: int, block: JsonObject) -> list[Event] | None:
        """A block of a web search: its call opens what its result closes. None of another block."""
        kind = block.get("type")
        if kind == web_search.CALL and block.get("name") == web_search.NAME:
            self._report_unknown_in_block(block, wire.BLOCK_FIELDS[_TOOL], f"content[{index}].")
            self._kinds[index] = _SEARCH
            self._searches[str(block.get("id"))] = index
            self._inputs[index] = to_json_text(block.get("input") or {})
            return [Opened(index, WebSearch())]
        opened = None
        if kind == web_search.RESULT:
            opened = self._searches.pop(str(block.get("tool_use_id")), None)
        if opened is None:
            return None
        self._kinds[index] = _SKIPPED
        self._lose(f"content[{index}]", "of what a search found only the URLs can be told")
        found = [UrlCitation(url=url) for url in web_search.sources_of(block.get("content"))]
        return [*(Annotated(opened, source) for source in found), *self._end_search(opened)]

    def _end_search(self, index: int) -> list[Event]:
        query = self._query(index)
        self._kinds[index] = _CLOSED
        return [*query, Closed(index)]

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
        # Deltas, should any come, hold the input once more and win.
        self._inputs[index] = to_json_text(block.get("input") or {})
        return [Opened(index, ToolCall(id=identifier, name=name))]

    def _delta(self, event: JsonObject) -> Iterable[Event]:
        index, delta = event.get("index"), event.get("delta")
        if type(index) is not int or type(delta) is not dict:
            return self._fail("a content_block_delta event is malformed")
        kind = self._kinds.get(index)
        what = delta.get("type")
        if kind == _TEXT and what == "text_delta":
            text = delta.get("text")
        elif kind == _TOOL and what == "input_json_delta":
            text = delta.get("partial_json")
            if text:
                self._inputs.pop(index, None)
        elif kind == _THINKING and what == "thinking_delta":
            text = delta.get("thinking")
        else:
            return self._rare_delta(index, kind, str(what), delta)
        if len(delta) > 2 or len(event) > 3:
            self._report_unknown(delta, wire.DELTA_FIELDS[what], f"content[{index}].")
            self._report_unknown(event, wire.DELTA_EVENT_FIELDS)
        if type(text) is not str:
            return self._fail("a content_block_delta event is malformed")
        return (Delta(index, text),) if text else ()

    def _any_delta(self, event: JsonObject) -> list[Event]:
        return list(self._delta(event))

    def _rare_delta(
        self, index: int, kind: str | None, what: str, delta: JsonObject
    ) -> list[Event]:
        if kind == _SKIPPED:
            return []
        if kind == _SEARCH:
            return self._search_input(index, delta.get("partial_json"))
        if kind is None:
            opened = _OPENS.get(what)
            if opened is None:
                return self._fail("a block of its stream has no start")
            head = {"index": index, "content_block": {"type": opened}}
            again = {"index": index, "delta": delta}
            return [*self._block_start(head), *self._delta(again)]
        if what == "signature_delta" and kind == _THINKING:
            return self._sealed(index, delta.get("signature"))
        if what == "citations_delta" and kind == _TEXT:
            return self._annotated(index, delta.get("citation"))
        detail = "came when its block was over" if kind == _CLOSED else _DETAIL
        self._lose(f"content[{index}].{what[:60]}", detail)
        return []

    def _search_input(self, index: int, piece: object) -> list[Event]:
        if isinstance(piece, str) and index in self._inputs:
            before = self._inputs[index]
            # The start shows an empty input, which its pieces then spell.
            self._inputs[index] = piece if before == _NO_INPUT else before + piece
        return []

    def _block_stop(self, event: JsonObject) -> list[Event]:
        index = event.get("index")
        return self._close(index) if type(index) is int else []

    def _close(self, index: int) -> list[Event]:
        kind = self._kinds.get(index, _CLOSED)
        self._kinds[index] = _CLOSED
        if kind in (_SKIPPED, _CLOSED):
            return []
        if kind == _SEARCH:
            # It goes on until its result comes.
            self._kinds[index] = _SEARCH
            return self._query(index)
        arguments = self._inputs.pop(index, None)
        if arguments is not None:
            return [Delta(index, arguments), Closed(index)]
        return [Closed(index)]

    def _message_delta(self, event: JsonObject) -> list[Event]:
        self._report_unknown(event, wire.MESSAGE_DELTA_FIELDS)
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._report_unknown(delta, wire.STOP_FIELDS)
            details = delta.get("stop_details")
            if isinstance(details, dict):
                self._report_unknown(details, wire.STOP_DETAILS_FIELDS, "stop_details.")
            for name, item in delta.items():
                if item is not None:
                    self._stop[name] = item
        usage = event.get("usage")
        if not isinstance(usage, dict) or not usage:
            return []
        merge_usage(self._usage, usage)
        self._report_unknown(usage, wire.USAGE_FIELDS, "usage.")
        tier = read_tier(self._usage, self._inbound.options.map_fast)
        return [Metered(self._counted(), tier)]

    def _counted(self) -> Usage:
        return read_usage(self._usage, searches=self._inbound.options.hosted_tools == "map")

    def _message_stop(self, event: JsonObject) -> list[Event]:
        events: list[Event] = []
        for index, kind in list(self._kinds.items()):
            if kind is _SEARCH:
                events += self._end_search(index)
            elif kind is not _CLOSED:
                events += self._close(index)
        reason = self._stop.get("stop_reason")
        if reason == "compaction":
            problem = "it compacted the conversation instead of answering"
            return [*events, *self._fail(problem)]
        if reason is None and not self._kinds:
            return [*events, *self._fail("it says nothing, not even why it stopped")]
        if not is_known_reason(reason):
            self._lose("stop_reason", "an unknown reason was taken for an ordinary end")
        explanation = explanation_of(self._stop)
        if explanation:
            index = max(self._kinds, default=-1) + 1
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

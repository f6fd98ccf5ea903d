"""Web searches that the gateway makes for a model, without I/O: the model is offered a function,
and its calls of it are answered with what the operator's search engine found, in further calls of
the upstream, of which the client sees one answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.finish import FinishReason
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.requests import (
    FunctionTool,
    HostedTool,
    Request,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.canonical.usage import Usage, summed
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json_text
from dragoman.protocols.searches import limits_of

MOST_SEARCHES: Final = 8
"""Searches for one request, unless it allows fewer."""
_NAME: Final = "web_search"
_ROUND: Final = 1 << 20
"""Added to the indexes of the blocks of each further call."""
_SCHEMA: Final = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
_ABOUT: Final = (
    "Search the web. Returns titles, URLs and excerpts of pages; name the URLs of those you use."
)
_HELD: Final = ("blocked_domains", "max_uses")
"""Members of a declaration that are held to."""
_FAILED: Final = "The search failed. Answer without it, or try another query."
_NO_MORE: Final = "No more searches are allowed. Answer with what you have."
_FORGOTTEN: Final = "What this search found is no longer known. Search again if you need it."

Found = tuple[UrlCitation, ...]
"""The pages of a search, each with an excerpt."""


class SearchesPending(Exception):
    """A whole answer goes on when the searches of the model are made."""


class Query(Struct, frozen=True):
    """A search that the model wants. `allowed` domains are the only ones, none: all; `blocked` ones
    are left out. `index` is that of its block in the answer."""

    index: int
    call: ToolCall
    text: str
    allowed: tuple[str, ...]
    blocked: tuple[str, ...]


class Searching:
    """The searches for one request, and a stage behind the readers of its answers.

    `request` is what the upstream is asked next. Once an answer has ended, `pending` are the
    searches that must be made before the client's goes on; it is over then if the model also called
    the client's own tools, which `is_over` tells. `made` counts the searches.
    """

    __slots__ = (
        "_asked",
        "_blocks",
        "_first",
        "_held",
        "_left",
        "_limits",
        "_offset",
        "_pages",
        "_spent",
        "_texts",
        "_usage",
        "is_over",
        "made",
        "over",
        "pending",
        "request",
    )

    def __init__(self, request: Request, ledger: Ledger) -> None:
        self._first, self._limits = _offering(request, ledger)
        self.over = False
        self.start()

    def start(self) -> None:
        """Begin with the first call."""
        self.request = self._first
        self.made = 0
        self._pages: list[UrlCitation] = []
        self._left = self._limits.most
        self._spent: Usage | None = None
        self._offset = 0
        self._begin()

    def _begin(self) -> None:
        self.pending: tuple[Query, ...] = ()
        self.is_over = False
        self._asked: list[Query] = []
        self._held: list[Event] = []
        self._usage: Usage | None = None
        self._blocks: dict[int, Block] = {}
        self._texts: dict[int, list[list[str]]] = {}
        """The parts of each block, in pieces."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._limits.name

    def push(self, event: Event) -> Sequence[Event]:
        """Take one event of an upstream's answer; return what it is in the client's."""
        kind = type(event)
        if kind is Started:
            return () if self._offset else (event,)
        if kind is Metered:
            assert isinstance(event, Metered)
            self._usage = event.usage
            return () if self._asked else (replace(event, usage=self._total()),)
        if kind is Finished or kind is Ended:
            return self._ended(event)
        index = getattr(event, "index", None)
        if index is None:
            return (event,)
        index += self._offset
        if isinstance(event, Opened):
            self._blocks[index], self._texts[index] = event.block, [[]]
        elif isinstance(event, Delta):
            self._texts[index][-1].append(event.text)
        elif isinstance(event, PartBreak):
            self._texts[index].append([])
        elif isinstance(event, Sealed):
            head = self._blocks[index]
            if isinstance(head, Reasoning):
                self._blocks[index] = replace(head, opaque=event.opaque)
        block = self._blocks[index]
        if isinstance(block, ToolCall) and block.name == self.name:
            return self._searched(index, block) if kind is Closed else ()
        shown = replace(event, index=index)
        if isinstance(block, Text) and kind is Closed and self._pages:
            return [*self._cited(index), shown]
        return (shown,)

    def _cited(self, index: int) -> Iterator[Annotated]:
        """The pages found so far that a text names."""
        text = "".join(self._texts[index][0])
        for page in self._pages:
            at = text.find(page.url)
            if at >= 0:
                place = replace(page, start=at, end=at + len(page.url), cited_text=None)
                yield Annotated(index, place)

    def _searched(self, index: int, head: ToolCall) -> list[Event]:
        """The beginning of a search in the client's answer."""
        arguments = head.arguments + "".join(self._texts[index][0])
        given = (object_of(arguments) or {}).get("query")
        text = given if isinstance(given, str) else ""
        call = replace(head, arguments=arguments)
        limits = self._limits
        self._asked.append(Query(index, call, text, limits.allowed, limits.blocked))
        return [Opened(index, WebSearch()), Delta(index, text)]

    def _ended(self, event: Event) -> Sequence[Event]:
        if type(event) is Finished and event.finish.reason is FinishReason.LENGTH and self._asked:
            closed = [Closed(query.index, cut=True) for query in self._asked]
            self._asked = []
            return [*closed, Metered(self._total()), event]
        if not self._asked:
            return (event,)
        self._held.append(event)
        if type(event) is Ended:
            self.pending = tuple(self._asked)
        return ()

    def _total(self) -> Usage:
        """The usage of all calls so far."""
        usage = self._usage or Usage()
        if self._spent is not None:
            usage = summed(self._spent, usage)
        return replace(usage, searches=self.made) if self.made else usage

    def allowed(self) -> Sequence[Query]:
        """The pending searches that may be made."""
        return self.pending[: self._left]

    def answered(self, found: Sequence[Found | None]) -> list[Event]:
        """Answer the pending searches with what those that were allowed have found, None for a
        failure. Returns the rest of them in the client's answer."""
        events: list[Event] = []
        results: list[Block] = []
        for number, query in enumerate(self.pending):
            pages = found[number] if number < len(found) else None
            failure = _FAILED if number < len(found) else _NO_MORE
            self._pages += pages or ()
            events += [Annotated(query.index, page) for page in pages or ()]
            events.append(Closed(query.index, cut=pages is None))
            text = failure if pages is None else pages_text(pages)
            result = ToolResult(
                call_id=query.call.id, content=(Text(text=text),), is_error=pages is None or None
            )
            results.append(result)
        self.made += len(found)
        self._left -= len(found)
        events.append(Metered(self._total()))
        calls = [one for one in self._blocks.values() if isinstance(one, ToolCall)]
        if len(calls) == len(self.pending):
            self._go_on(results)
            return events
        # The client's tools are called as well: it goes on when it has run them.
        self.is_over, self.pending = True, ()
        return [*events, *self._held]

    def _go_on(self, results: Sequence[Block]) -> None:
        calls = {query.index: query.call for query in self.pending}
        said = tuple(
            calls.get(index) or _whole(block, ["".join(part) for part in self._texts[index]])
            for index, block in self._blocks.items()
        )
        turns = (
            Turn(role="assistant", blocks=said),
            Turn(role="user", blocks=tuple(results)),
        )
        choice = self.request.tool_choice
        if self._left <= 0:
            choice = ToolChoice(mode="none")
        elif choice is not None and choice.mode in ("required", "tool"):
            choice = replace(choice, mode="auto", tool=None)
        self.request = replace(
            self.request, turns=(*self.request.turns, *turns), tool_choice=choice
        )
        self._spent = replace(self._total(), searches=None)
        self._offset += _ROUND
        self._begin()


def _whole(block: Block, parts: Sequence[str]) -> Block:
    if isinstance(block, Reasoning):
        return replace(block, parts=tuple(filter(None, parts)))
    return replace(block, text=parts[0]) if isinstance(block, Text) else block


class _Limits(Struct, frozen=True):
    """What the client allows: so many searches, only of some domains, none of others."""

    name: str
    most: int
    allowed: tuple[str, ...]
    blocked: tuple[str, ...]


def search_of(request: Request) -> HostedTool | None:
    """The vendor's web search that a request offers the model; None if it offers none."""
    for tool in request.tools:
        if isinstance(tool, HostedTool) and tool.search is not None:
            return tool
    return None


def _offering(request: Request, ledger: Ledger) -> tuple[Request, _Limits]:
    """The request with a function in place of the search, and what limits it."""
    hosted = search_of(request)
    assert hosted is not None
    search = hosted.search
    assert search is not None
    others = {tool.name for tool in request.tools if not isinstance(tool, HostedTool)}
    name = _NAME if _NAME not in others else f"{_NAME}_of_the_gateway"
    most, blocked = limits_of(hosted)
    most = MOST_SEARCHES if most is None else min(most, MOST_SEARCHES)
    limits = _Limits(name, most, search.allowed_domains or (), blocked)
    ledger.add(hosted.path, LossKind.CONVERTED, "the gateway's own engine searches")
    for extra in search.extras:
        if not extra.path.endswith(_HELD):
            ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    function = FunctionTool(name=name, description=_ABOUT, schema=_SCHEMA, path=hosted.path)
    choice = request.tool_choice
    if search.choice == "forced":
        choice = ToolChoice(mode="tool", tool=ToolRef(name), path="tool_choice")
    elif search.choice == "allowed" and choice is not None and choice.allowed is not None:
        choice = replace(choice, allowed=(*choice.allowed, ToolRef(name)))
    made = replace(
        request,
        tools=tuple([function if tool is hosted else tool for tool in request.tools]),
        tool_choice=choice,
        extras=tuple([extra for extra in request.extras if not extra.of_search]),
    )
    return made, limits


def with_searches(request: Request) -> Request:
    """The request, the searches in its history as calls of a function and their results."""
    turns = tuple([turn for given in request.turns for turn in _with_searches(given)])
    return replace(request, turns=turns)


def _with_searches(turn: Turn) -> Iterator[Turn]:
    said: list[Block] = []
    for number, block in enumerate(turn.blocks):
        if not isinstance(block, Foreign) or block.means is None:
            said.append(block)
            continue
        for search in block.means:
            call_id = f"search_{len(said)}_{number}"
            arguments = to_json_text({"query": search.query})
            call = ToolCall(id=call_id, name=_NAME, arguments=arguments, path=block.path)
            text = pages_text(search.found) if search.found else _FORGOTTEN
            result = ToolResult(call_id=call_id, content=(Text(text=text),), path=block.path)
            yield replace(turn, blocks=(*said, call))
            yield Turn(role="user", blocks=(result,), path=turn.path)
            said = []
    if said or not turn.blocks:
        yield replace(turn, blocks=tuple(said))


def pages_text(found: Found) -> str:
    """The text in which the model is given the pages that were found."""
    if not found:
        return "Nothing was found."
    return "\n\n".join(
        f"{number}. {page.title}\n{page.url}\n{page.cited_text or ''}".rstrip()
        for number, page in enumerate(found, 1)
    )

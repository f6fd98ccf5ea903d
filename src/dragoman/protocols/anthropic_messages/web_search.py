"""The service's search of the web: its declaration, and its blocks in a conversation, both ways.

Source: `web_search_tool_20260318_param.py`, `server_tool_use_block_param.py` and
`web_search_tool_result_block_param.py` of the `anthropic` package 2.12.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dragoman.canonical.blocks import Opaque, Reasoning, UrlCitation, WebSearch
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, HostedTool, Request, SearchTool
from dragoman.jsontext import object_of
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.reading import Reader, report_lost
from dragoman.protocols.searches import read_location

NAME = "web_search"
"""The name of the tool in declarations, choices and calls."""

CALL = "server_tool_use"
RESULT = "web_search_tool_result"

_DECLARED = "web_search_"
_TYPE = "web_search_20260318"
_DEFAULT_CONTEXT = "medium"
_search = Reader(shapes.WebSearch)


def read_search(value: JsonObject, kind: str, path: str) -> SearchTool | None:
    """The canonical form of a declaration; None for another tool. Nothing is refused here, since
    the tool passes unchanged to its own service. Unknown members are among the extras."""
    if not kind.startswith(_DECLARED):
        return None
    extras: list[Extra] = []
    given = _search.convert(value, path, extras)
    report_lost(given, path, extras)
    domains = given.allowed_domains
    if domains is not None and not _are_texts(domains):
        extras.append(Extra(f"{path}.allowed_domains", domains, LossKind.CONTENT))
        domains = None
    return SearchTool(
        name=NAME,
        allowed_domains=tuple(domains) if domains else None,
        location=read_location(given.user_location, f"{path}.user_location", extras),
        extras=tuple(extras),
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def mapped_search(request: Request, outbound: Outbound) -> HostedTool | None:
    """The first web search of another vendor that the service's own replaces. None if the route
    does not map it, or if another tool has its name."""
    if outbound.options.hosted_tools != "map":
        return None
    found = None
    for tool in request.tools:
        if not isinstance(tool, HostedTool):
            if outbound.names.outward(tool.name, tool.namespace) == NAME:
                return None
        elif found is None and tool.search is not None and tool.origin != wire.NAME:
            found = tool
    return found


def write_search(tool: HostedTool, search: SearchTool, outbound: Outbound) -> JsonObject:
    """The declaration of another vendor's web search.

    Only direct calls: what the model's own programs searched for would stay in them.
    """
    ledger = outbound.ledger
    entry: JsonObject = {"type": _TYPE, "name": NAME, "allowed_callers": ["direct"]}
    if search.allowed_domains is not None:
        entry["allowed_domains"] = list(search.allowed_domains)
    if search.location:
        entry["user_location"] = {"type": "approximate", **search.location}
    if search.context_size not in (None, _DEFAULT_CONTEXT):
        detail = "how much of the pages is read has no counterpart upstream"
        ledger.add(f"{tool.path}.search_context_size", LossKind.KNOB, detail)
    for extra in search.extras:
        ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    return entry


class Searches:
    """The searches of a conversation, in canonical form by their result blocks."""

    __slots__ = ("_queries", "_sealer")

    def __init__(self, sealer: Sealer) -> None:
        self._queries: dict[str, str] = {}
        self._sealer = sealer

    def meaning(self, kind: str, block: Mapping[str, Any]) -> tuple[WebSearch, ...] | None:
        """The canonical form of a block of a history; see `Foreign.means`."""
        if kind == CALL and block.get("name") == NAME:
            self._queries[str(block.get("id"))] = query_of(block.get("input"))
            return ()
        if kind != RESULT:
            return None
        query = self._queries.pop(str(block.get("tool_use_id")), None)
        if query is None:
            return None
        content = block.get("content")
        search = WebSearch(
            query=query,
            sources=sources_of(content),
            failed=not isinstance(content, list),
            found=tuple(self._found(content)),
        )
        return (search,)

    def _found(self, content: Any) -> Iterator[UrlCitation]:
        """The pages of a search that the gateway made."""
        for item in content if isinstance(content, list) else ():
            sealed = item.get("encrypted_content") if isinstance(item, dict) else None
            opened = self._sealer.open(sealed) if isinstance(sealed, str) else None
            if opened is not None and opened.opaque is not None and opened.opaque.origin == NAME:
                title, url = str(item.get("title") or ""), str(item.get("url") or "")
                yield UrlCitation(url=url, title=title, cited_text=opened.opaque.data)


def shown_call(call_id: str) -> JsonObject:
    """The head of a search that the gateway makes, as the service shows its own."""
    return {"type": CALL, "id": call_id, "name": NAME, "input": {}}


def shown_result(
    call_id: str, found: Sequence[UrlCitation], sealer: Sealer, *, failed: bool
) -> JsonObject:
    """What it found. The excerpts are sealed, so that they come back with the conversation."""
    content: Any = {"type": f"{RESULT}_error", "error_code": "unavailable"}
    if not failed:
        content = [
            {
                "type": "web_search_result",
                "url": page.url,
                "title": page.title,
                "encrypted_content": sealer.seal(
                    Reasoning(opaque=Opaque(NAME, page.cited_text or ""))
                ),
                "page_age": None,
            }
            for page in found
        ]
    return {"type": RESULT, "tool_use_id": call_id, "content": content}


def query_of(value: Any) -> str:
    """The query in the input of a call."""
    query = value.get("query") if isinstance(value, dict) else None
    return query if isinstance(query, str) else ""


def query_of_text(text: str) -> str:
    """The same, from the JSON text of an input; empty if it was cut."""
    return query_of(object_of(text))


def sources_of(content: Any) -> tuple[str, ...]:
    """The URLs in the content of a result; none if the search failed."""
    found = content if isinstance(content, list) else ()
    urls = (item.get("url") for item in found if isinstance(item, dict))
    return tuple(url for url in urls if isinstance(url, str))

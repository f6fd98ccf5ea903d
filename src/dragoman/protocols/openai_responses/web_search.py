"""The service's search of the web: its declaration, the choice of it, and its items, both ways
(types: web_search_tool_param.py, web_search_preview_tool_param.py, response_function_web_search.py,
beta_response.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec.structs import replace

from dragoman.canonical.blocks import WebSearch
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, HostedTool, Request, SearchTool, Tool
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count
from dragoman.protocols.openai_responses import shapes
from dragoman.protocols.reading import Reader, report_lost
from dragoman.protocols.searches import CONTEXT_SIZES, read_location

WEB_SEARCH: Final = "web_search_call"
SOURCES: Final = "web_search_call.action.sources"
"""The word of `include` that asks for the URLs a search found."""
REF: Final[JsonObject] = {"type": "web_search"}
"""Names the search among the tools of a choice."""

_TYPE = re.compile(r"web_search(_preview)?(_\d{4}_\d{2}_\d{2})?")


def is_search(kind: str) -> bool:
    """Whether a tool type is the web search, in any of its versions."""
    return _TYPE.fullmatch(kind) is not None


def is_declared(tools: Iterable[Tool]) -> bool:
    """Whether a web search is among the tools."""
    return any(isinstance(tool, HostedTool) and tool.search is not None for tool in tools)


def read_search(value: JsonObject, kind: str, path: str) -> SearchTool | None:
    """The canonical form of a declaration; None for another tool.

    Nothing is refused here, since the tool passes unchanged to its own service. Unknown members are
    among the extras."""
    if not is_search(kind):
        return None
    extras: list[Extra] = []
    declared = _search.convert(value, path, extras)
    domains = _read_domains(declared.filters, f"{path}.filters", extras)
    location = read_location(declared.user_location, f"{path}.user_location", extras)
    size = declared.search_context_size
    if size is not None and size not in CONTEXT_SIZES:
        extras.append(Extra(f"{path}.search_context_size", size, LossKind.KNOB))
        size = None
    report_lost(declared, path, extras)
    return SearchTool(
        allowed_domains=domains, location=location, context_size=size, extras=tuple(extras)
    )


_search = Reader(shapes.WebSearchTool)
_filters = Reader(shapes.WebFilters)


def _read_domains(value: Any, path: str, extras: list[Extra]) -> tuple[str, ...] | None:
    if not isinstance(value, dict):
        if value is not None:
            extras.append(Extra(path, value, LossKind.CONTENT))
        return None
    filters = _filters.convert(value, path, extras)
    report_lost(filters, path, extras)
    domains = filters.allowed_domains
    if isinstance(domains, list) and all(isinstance(domain, str) for domain in domains):
        return tuple(domains) or None
    if domains is not None:
        extras.append(Extra(f"{path}.allowed_domains", domains, LossKind.CONTENT))
    return None


def chosen(value: Any, tools: Iterable[Tool]) -> Literal["allowed", "forced"] | None:
    """The web search in a `tool_choice` object, if one is declared: the model must search, or may
    despite a restricted choice of tools."""
    if not isinstance(value, dict) or not is_declared(tools):
        return None
    if is_search(str(value.get("type"))):
        return "forced"
    listed = value.get("tools") if value.get("type") == "allowed_tools" else None
    kinds = [str(item.get("type")) for item in listed or () if isinstance(item, dict)]
    if not any(map(is_search, kinds)):
        return None
    alone = all(map(is_search, kinds))
    if alone:
        return "forced" if value.get("mode") == "required" else None
    return "allowed"


def with_choice(tools: Sequence[Tool], value: Any) -> tuple[Tool, ...]:
    """The tools, with the client's choice applied to the first web search among them."""
    choice = chosen(value, tools)
    found = list(tools)
    if choice is None:
        return tuple(found)
    for number, tool in enumerate(found):
        if isinstance(tool, HostedTool) and tool.search is not None:
            found[number] = replace(tool, search=replace(tool.search, choice=choice))
            break
    return tuple(found)


def names(request: Request) -> set[str]:
    """Names of the declared web searches in tool choices of the client's protocol."""
    return {
        tool.search.name
        for tool in request.tools
        if isinstance(tool, HostedTool) and tool.search is not None and tool.search.name
    }


def write_search(search: SearchTool, outbound: Outbound) -> JsonObject:
    """The declaration of another vendor's web search."""
    for extra in search.extras:
        outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    tool: JsonObject = {**REF}
    if search.context_size is not None:
        tool["search_context_size"] = search.context_size
    if search.location is not None:
        tool["user_location"] = {"type": "approximate", **search.location}
    if search.allowed_domains is not None:
        tool["filters"] = {"allowed_domains": list(search.allowed_domains)}
    return tool


def read_web_search(item: Mapping[str, Any]) -> WebSearch:
    """The search in an item of a history; opened pages are not searches."""
    action = item.get("action")
    query = action.get("query") if isinstance(action, dict) else None
    return WebSearch(query=query if isinstance(query, str) else "")


def sent_search(search: WebSearch) -> JsonObject:
    """A search as an item of a history. It has no id, since nothing is stored upstream."""
    status = "failed" if search.failed else "completed"
    action = _action(search.query, search.sources or None)
    return {"type": WEB_SEARCH, "status": status, "action": action}


def search_item(item_id: str, query: str, sources: Iterable[str] | None, status: str) -> JsonObject:
    """A search as an item of an answer; `sources` only for clients that asked for them."""
    action = _action(query, sources)
    return {"type": WEB_SEARCH, "id": item_id, "status": status, "action": action}


def _action(query: str, sources: Iterable[str] | None) -> JsonObject:
    action: JsonObject = {"type": "search", "query": query, "queries": [query] if query else []}
    if sources is not None:
        action["sources"] = [{"type": "url", "url": url} for url in sources]
    return action


def searches_of(usage: Any) -> int | None:
    """How many searches the `tool_usage` of an answer counts."""
    counts = usage.get("web_search") if isinstance(usage, dict) else None
    count = counts.get("num_requests") if isinstance(counts, dict) else None
    return token_count(count)


def counts_only_searches(usage: Any) -> bool:
    """Whether `tool_usage` counts nothing but searches."""
    if not isinstance(usage, dict):
        return usage is None
    return not any(_counts(value) for name, value in usage.items() if name != "web_search")


def _counts(value: Any) -> bool:
    return any(map(_counts, value.values())) if isinstance(value, dict) else bool(value)


def tool_usage(searches: int) -> JsonObject:
    """`tool_usage` of an answer. Image counts are zero."""
    details = {"image_tokens": 0, "text_tokens": 0}
    images = {
        "input_tokens": 0,
        "input_tokens_details": details,
        "output_tokens": 0,
        "total_tokens": 0,
    }
    return {"image_gen": images, "web_search": {"num_requests": searches}}

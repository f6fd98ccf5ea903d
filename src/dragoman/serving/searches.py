"""Web searches for models: the operator's engine, and the further calls of an upstream that a
request with searches takes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from dragoman.canonical.blocks import UrlCitation
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config import Search
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.serving.answers import drain
from dragoman.translation import AnswerStream, Call
from dragoman.translation.searching import Found, Query
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_TIMEOUT_S = 20.0
_ANSWER_BYTES = 4 * 1024 * 1024
_QUERY = 400
"""Characters of the longest query that Brave takes."""
_EXCERPT = 2000
_TITLE = 300
_TAG = re.compile(r"</?[a-z][^>]*>", re.IGNORECASE)

_Headers = tuple[tuple[str, str], ...]


class _Form(Struct, frozen=True):
    """How an engine is asked. `url` is its own address, `key` the header with the key and what
    precedes it, `results` where these are in its answer, `excerpt` the member with a page's text;
    `posts`: the query is a JSON body, which also has the domains."""

    url: str
    key: tuple[str, str]
    results: tuple[str, ...]
    excerpt: str
    posts: bool = False


_FORMS: Final[Mapping[str, _Form]] = {
    "searxng": _Form("", ("authorization", "Bearer "), ("results",), "content"),
    "brave": _Form(
        "https://api.search.brave.com/res/v1/web/search",
        ("x-subscription-token", ""),
        ("web", "results"),
        "description",
    ),
    "tavily": _Form(
        "https://api.tavily.com/search",
        ("authorization", "Bearer "),
        ("results",),
        "content",
        posts=True,
    ),
}


class SearchEngine:
    """The operator's search engine (SearXNG's JSON format, Brave's and Tavily's API)."""

    def __init__(self, settings: Search, client: UpstreamClient) -> None:
        self._form = _FORMS[settings.engine]
        self._url = settings.url or self._form.url
        self._results = settings.results
        self._client = client
        name, scheme = self._form.key
        self._headers: _Headers = (("accept", "application/json"),)
        if settings.key is not None:
            self._headers += ((name, scheme + settings.key.reveal()),)

    async def find(self, query: Query) -> Found | None:
        """The pages for a query; None if the engine failed."""
        if not query.text.strip():
            return None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                async with await self._client.send(self._request(query)) as answer:
                    body = await answer.read(_ANSWER_BYTES)
                    value = object_of(body) if answer.status == 200 else None
        except (CallError, TimeoutError):
            return None
        return None if value is None else self._read(value, query)

    def _request(self, query: Query) -> UpstreamRequest:
        text = query.text[:_QUERY]
        timeouts = Timeouts(total=_TIMEOUT_S)
        if self._form.posts:
            asked: JsonObject = {"query": text, "max_results": self._results}
            if query.allowed:
                asked["include_domains"] = list(query.allowed)
            if query.blocked:
                asked["exclude_domains"] = list(query.blocked)
            headers = (*self._headers, ("content-type", "application/json"))
            return UpstreamRequest(
                method="POST",
                url=self._url,
                headers=headers,
                body=to_json(asked),
                timeouts=timeouts,
            )
        if query.allowed:
            text += f" ({' OR '.join(f'site:{domain}' for domain in query.allowed)})"
        asked = {"q": text, "format": "json", "count": str(self._results)}
        sign = "&" if urlsplit(self._url).query else "?"
        url = f"{self._url}{sign}{urlencode(asked)}"
        return UpstreamRequest(method="GET", url=url, headers=self._headers, timeouts=timeouts)

    def _read(self, value: Any, query: Query) -> Found | None:
        for name in self._form.results:
            value = value.get(name) if isinstance(value, dict) else None
        if not isinstance(value, list):
            return None
        pages = (self._page(one) for one in value if isinstance(one, dict))
        return tuple([page for page in pages if _fits(page.url, query)])[: self._results]

    def _page(self, value: JsonObject) -> UrlCitation:
        return UrlCitation(
            url=str(value.get("url") or ""),
            title=_plain(value.get("title"))[:_TITLE],
            cited_text=_plain(value.get(self._form.excerpt))[:_EXCERPT],
        )


def _plain(value: Any) -> str:
    """A text without the marks by which engines show what fits the query."""
    # Imported with the first answer: its table of entities takes half a megabyte.
    import html

    return html.unescape(_TAG.sub("", value)).strip() if isinstance(value, str) else ""


def _fits(url: str, query: Query) -> bool:
    """Whether a page is of the web and of a domain that is allowed."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host:
        return False
    allowed = not query.allowed or any(_is_in(host, parts.path, one) for one in query.allowed)
    return allowed and not any(_is_in(host, parts.path, one) for one in query.blocked)


def _is_in(host: str, path: str, domain: str) -> bool:
    """Whether a page is below a domain, which may have a path."""
    name, _, below = domain.lower().partition("/")
    is_below = host == name or host.endswith(f".{name}")
    return is_below and path.startswith(f"/{below}" if below else "")


class LimitReached(DragomanError):
    """A limit of the caller allows no further call."""


class Rounds:
    """The further calls of the upstream, with the account that answered the first, until the model
    searches no more. `admit` reserves for one more and returns why it may not be made; `ask` sends
    the next request."""

    def __init__(
        self,
        engine: SearchEngine | None,
        call: Call,
        admit: Callable[[], Awaitable[str]],
        ask: Callable[[], Awaitable[UpstreamResponse]],
    ) -> None:
        self._engine = engine
        self._call = call
        self._last: UpstreamResponse | None = None
        self._admit = admit
        self._ask = ask

    async def search(self, stream: AnswerStream | None = None) -> bytes:
        """Make the searches that the model wants. Returns what the client's `stream` is sent."""
        search, engine = self._call.search, self._engine
        assert search is not None
        wanted = search.allowed()
        found: Sequence[Found | None] = [None] * len(wanted)
        if engine is not None:
            found = await asyncio.gather(*map(engine.find, wanted))
        return self._call.go_on(found, stream)

    async def ask(self, answered: UpstreamResponse) -> UpstreamResponse:
        """The answer to the next request; that to the one before, `answered`, is closed.

        Raises:
            LimitReached: a limit of the caller is used up.
            Failure: the upstream refused.
            CallError: there is no answer.
        """
        await drain(answered)
        answered.close()
        refusal = await self._admit()
        if refusal:
            raise LimitReached(Fault(FaultKind.RATE_LIMITED, refusal))
        self._last = await self._ask()
        return self._last

    def close(self) -> None:
        """End the last call."""
        if self._last is not None:
            self._last.close()

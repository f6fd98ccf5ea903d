"""Requests and losses below `/admin`: what the log of requests tells."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from dragoman.accounts.cipher import SealError
from dragoman.admin.calls import (
    MOST_ON_PAGE,
    PAGE,
    AdminRoute,
    Call,
    Note,
    Query,
    Raw,
    Refusal,
    Reply,
    bad,
    number,
    only,
    times,
)
from dragoman.audit import Change
from dragoman.edge.kept import BODY_NAMES
from dragoman.observability.request_log.rows import DetailRow, ListRow
from dragoman.storage.bodies import BodyFiles
from dragoman.storage.request_log import Filters, LossCount, LossKey, RequestLogFiles

SEARCH_S = 0.25
"""Seconds for which one request is looked for; the answer tells how far back that was."""

_FILTERS = ("key", "model", "account", "upstream", "error", "loss", "client")
FILTER_PARAMETERS = (*_FILTERS, "status", "min_ms")
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)\Z")
_DIMENSIONS = ("client", "pair", "path", "kind", "upstream", "key")
_MOST_ROWS = 1000
_POINTS = 60

_BODY_MEDIA = b"content-type: text/plain; charset=utf-8\r\n"
_BODY_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]

_list_row = msgspec.json.Decoder(ListRow).decode
_detail_row = msgspec.json.Decoder(DetailRow).decode


class RequestRoutes:
    """What serves `/admin/requests` and `/admin/losses`. `files` is None if nothing is logged;
    `note` writes down who reads a body."""

    def __init__(self, files: RequestLogFiles | None, bodies: BodyFiles, note: Note) -> None:
        self._files = files
        self._bodies = bodies
        self._note = note

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("requests", {"GET": self._search}),
            AdminRoute("requests/*", {"GET": self._show}),
            AdminRoute("requests/*/bodies", {"GET": self._list_bodies}),
            AdminRoute(
                "requests/*/bodies/*", {"GET": self._show_body}, reserved=frozenset({"GET"})
            ),
            AdminRoute("losses", {"GET": self._losses}),
        ]

    async def _search(self, call: Call) -> Reply:
        query, files = call.query, self._log()
        only(query, *FILTER_PARAMETERS, "from", "to", "after", "limit")
        filters = filters_of(query)
        since, until = times(query, "from", "to")
        limit = number(query, "limit", PAGE, MOST_ON_PAGE)
        try:
            found = await asyncio.to_thread(
                files.search, filters, since, until, query.get("after"), limit, SEARCH_S
            )
        except ValueError:
            bad("There is no such place to go on from.", "after")
        return 200, {
            "rows": list_rows(found.rows),
            "next": found.next,
            "searched_to": found.searched_to,
            "dropped": [
                {"from": one.first, "to": one.last, "count": one.count} for one in found.dropped
            ],
        }

    async def _show(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        row = await asyncio.to_thread(self._log().find, name[:100])
        if row is None:
            raise Refusal(404, "not_found", "Nothing is known of such a request.", "id")
        if call.operator.role == "viewer":
            return 200, msgspec.structs.replace(_detail_row(row), address="")
        return 200, Raw(row, b"application/json")

    async def _list_bodies(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, {"bodies": await asyncio.to_thread(self._bodies.lengths, name[:100])}

    async def _show_body(self, call: Call) -> Reply:
        only(call.query)
        request_id, name = call.names
        if name not in BODY_NAMES:
            bad(f"Expected one of {', '.join(BODY_NAMES)}.", "name")
        try:
            found = await asyncio.to_thread(self._bodies.find, request_id[:100], name)
        except SealError as error:
            raise Refusal(409, "conflict", str(error)) from None
        if found is None:
            raise Refusal(404, "not_kept", "This body is not kept, or no longer.")
        # Before it is shown: what cannot be written down is not read.
        await self._note(Change(action="read", kind="request", name=found.id, after={"body": name}))
        headers = [*_BODY_HEADERS, (b"x-dragoman-length", b"%d" % found.length)]
        await call.incoming.reply(200, found.text, headers, _BODY_MEDIA)
        return None

    async def _losses(self, call: Call) -> Reply:
        query, files = call.query, self._log()
        only(query, "from", "to", "by", "step", *_DIMENSIONS)
        since, until = times(query, "from", "to")
        step = number(query, "step", max(1, int((until - since) / _POINTS)), 10**9)
        by = [name for name in query.get("by", "client,pair,path,kind").split(",") if name]
        for name in by:
            if name not in _DIMENSIONS:
                bad(f"Expected some of {', '.join(_DIMENSIONS)}.", "by")
        wanted = {name: query[name] for name in _DIMENSIONS if name in query}
        return 200, await asyncio.to_thread(_lost, files, since, until, step, by, wanted)

    def _log(self) -> RequestLogFiles:
        if self._files is None:
            told = "Requests are not logged: [request_log] is off, or [admin] came later."
            raise Refusal(409, "conflict", told)
        return self._files


def filters_of(query: Query) -> Filters:
    """The filters of requests that a query has.

    Raises:
        Refusal: one of them is none.
    """
    status = query.get("status", "")
    if status and not _STATUS.match(status):
        bad("Expected a status such as 429 or 5xx.", "status")
    found = {name: query.get(name, "")[:300] for name in _FILTERS}
    return Filters(**found, status=status, min_ms=number(query, "min_ms", 0, 10**9, 0))


def list_rows(rows: Any) -> list[ListRow]:
    """The rows of a list, of all that is told of requests."""
    return [_list_row(row) for row in rows]


def _lost(
    files: RequestLogFiles,
    since: float,
    until: float,
    step: int,
    by: list[str],
    wanted: dict[str, str],
) -> dict[str, object]:
    """Rows of losses by some dimensions, the most frequent first, each with its share of the
    requests of the same client, pair and key, as far as the row tells these."""
    of_all = [name for name in by if name in ("client", "pair", "key")]
    totals: dict[tuple[str, ...], int] = {}
    rows: dict[tuple[str, ...], LossCount] = {}
    series: dict[tuple[str, ...], dict[int, int]] = {}
    requests = 0
    for key, count in files.losses(since, until):
        if not _fits(key, wanted):
            continue
        if not key.path:
            group = tuple(getattr(key, name) for name in of_all)
            totals[group] = totals.get(group, 0) + count.requests
            requests += count.requests
            continue
        group = tuple(getattr(key, name) for name in by)
        row = rows.get(group)
        if row is None:
            rows[group] = count
        else:
            row.requests += count.requests
            row.refused += count.refused
            row.first = min(row.first, count.first)
            if count.last >= row.last:
                row.last, row.example = count.last, count.example
        points = series.setdefault(group, {})
        at = int(max(0.0, key.slot - since) // step)
        points[at] = points.get(at, 0) + count.requests
    most = sorted(rows, key=lambda group: -rows[group].requests)[:_MOST_ROWS]
    told = []
    for group in most:
        row, named = rows[group], dict(zip(by, group, strict=True))
        total = totals.get(tuple(named[name] for name in of_all), 0)
        told.append(
            {
                **named,
                "requests": row.requests,
                "refused": row.refused,
                "share": min(1.0, row.requests / total) if total else None,
                "first": row.first,
                "last": row.last,
                "example": row.example,
                "series": [
                    series[group].get(at, 0) for at in range(max(1, int((until - since) // step)))
                ]
                if (until - since) / step <= 1000
                else [],
            }
        )
    return {"from": since, "to": until, "step_s": step, "requests": requests, "rows": told}


def _fits(key: LossKey, wanted: dict[str, str]) -> bool:
    """Whether a count is of what is wanted. That of all requests has no path, kind or upstream."""
    return all(
        getattr(key, name) == value
        for name, value in wanted.items()
        if key.path or name in ("client", "pair", "key")
    )

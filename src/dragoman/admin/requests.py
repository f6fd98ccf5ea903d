"""Operations on the log of requests: what each was, and what was lost in translation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.accounts.cipher import SealError
from dragoman.admin.call import Call
from dragoman.admin.replies import Refusal, Reply
from dragoman.audit import Change
from dragoman.edge.body_copies import BODY_NAMES
from dragoman.observability.request_log.rows import DetailRow, ListRow
from dragoman.operations.accounts import PAGE, PageSize
from dragoman.operations.inputs import InvalidInput, Time, given
from dragoman.operations.operation import Http, Text, operation, operations_in
from dragoman.operations.usage import span_of
from dragoman.storage.request_log import Filters, LossCount, LossKey, RequestLogFiles

SEARCH_S = 0.25
"""Seconds that one search takes at most; its answer says how far back it came."""

_MOST_ROWS = 1000
_POINTS = 60

Dimension = Literal["client", "pair", "path", "kind", "upstream", "key"]

_BODY_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]

_list_row = msgspec.json.Decoder(ListRow).decode
_detail_row = msgspec.json.Decoder(DetailRow).decode


Word = Annotated[str, Meta(max_length=300)]


class RequestFilters(Struct, frozen=True, kw_only=True):
    """Filters of requests, all of which must match. `error` and `loss` are kinds, `*` is
    any error."""

    key: Word = ""
    model: Word = ""
    account: Word = ""
    upstream: Word = ""
    error: Word = ""
    loss: Word = ""
    client: Word = ""
    status: Annotated[
        str, Meta(pattern=r"^([1-5]([0-9]{2}|xx))?\Z", description="a status such as 429 or 5xx")
    ] = ""
    min_ms: Annotated[int, Meta(ge=0, le=10**9)] = 0


class SearchRequests(RequestFilters, frozen=True, kw_only=True):
    """Which requests to list, the last first; `after` is the `next` of the page before."""

    since: Annotated[Time | None, Meta(description="The beginning, a day before the end.")] = (
        msgspec.field(default=None, name="from")
    )
    until: Annotated[Time | None, Meta(description="The end, now.")] = msgspec.field(
        default=None, name="to"
    )
    after: str | None = None
    limit: PageSize = PAGE


class Gap(Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """Requests that were not logged, and when."""

    first: float
    last: float
    count: int


class RequestPage(Struct, frozen=True):
    """Some requests, the last first. `next` is where to go on, None at the end; `searched_to` is
    how far back the search came."""

    rows: list[ListRow]
    next: str | None
    searched_to: float
    dropped: list[Gap]


class OneRequest(Struct, frozen=True):
    """Which request."""

    id: str


class OneBody(OneRequest, frozen=True):
    """Which body of which request."""

    name: str


class Bodies(Struct, frozen=True):
    """The bodies of a request that are stored, with their whole lengths."""

    bodies: dict[str, int]


class AskLosses(Struct, frozen=True, kw_only=True):
    """Which losses to count, by which dimensions, in steps of so many seconds."""

    since: Time | None = msgspec.field(default=None, name="from")
    until: Time | None = msgspec.field(default=None, name="to")
    by: tuple[Dimension, ...] = ("client", "pair", "path", "kind")
    step: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    client: str | UnsetType = UNSET
    pair: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    upstream: str | UnsetType = UNSET
    key: str | UnsetType = UNSET


class Losses(Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """Rows of losses, the most frequent first."""

    since: float
    until: float
    step_s: int
    requests: int
    rows: list[dict[str, Any]]


@operation("requests.search", "viewer", Http("GET", "requests"))
async def _search(call: Call, asked: SearchRequests) -> RequestPage:
    """List requests, the last first."""
    files = _log(call)
    since, until = span_of(asked)
    try:
        found = await asyncio.to_thread(
            files.search, filters_of(asked), since, until, asked.after, asked.limit, SEARCH_S
        )
    except ValueError:
        raise InvalidInput.of("after", "there is no such place to go on from") from None
    return RequestPage(
        list_rows(found.rows),
        found.next,
        found.searched_to,
        [Gap(one.first, one.last, one.count) for one in found.dropped],
    )


@operation("requests.show", "viewer", Http("GET", "requests/{id}"), output=DetailRow)
async def _show(call: Call, asked: OneRequest) -> DetailRow | Text:
    """Show all that is recorded of one request."""
    row = await asyncio.to_thread(_log(call).find, asked.id[:100])
    if row is None:
        raise Refusal(404, "not_found", "There is no such request in the log.", "id")
    if call.operator.role == "viewer":
        return msgspec.structs.replace(_detail_row(row), address="")
    return Text(row, "application/json")


@operation("requests.list_bodies", "viewer", Http("GET", "requests/{id}/bodies"))
async def _list_bodies(call: Call, asked: OneRequest) -> Bodies:
    """List the bodies of a request that are stored."""
    files = call.gateway.observed.bodies
    return Bodies(await asyncio.to_thread(files.lengths, asked.id[:100]))


@operation(
    "requests.show_body",
    "admin",
    Http("GET", "requests/{id}/bodies/{name}"),
    output=Text,
    audit=("read request",),
)
async def _show_body(call: Call, asked: OneBody) -> Reply:
    """Show a body of a request."""
    if asked.name not in BODY_NAMES:
        raise InvalidInput.of("name", f"expected one of {', '.join(BODY_NAMES)}")
    files = call.gateway.observed.bodies
    try:
        found = await asyncio.to_thread(files.find, asked.id[:100], asked.name)
    except SealError as error:
        raise Refusal(409, "conflict", str(error)) from None
    if found is None:
        raise Refusal(404, "not_kept", "This body is not stored, or no longer.")
    # Before it is shown: what cannot be recorded is not read.
    after = {"body": asked.name}
    await call.record(Change(action="read", kind="request", name=found.id, after=after))
    length = (b"x-dragoman-length", b"%d" % found.length)
    return Reply(found.text, b"text/plain; charset=utf-8", headers=(*_BODY_HEADERS, length))


@operation("losses.list", "viewer", Http("GET", "losses"))
async def _losses(call: Call, asked: AskLosses) -> Losses:
    """Count what was lost in translation."""
    files = _log(call)
    since, until = span_of(asked)
    step = asked.step or max(1, int((until - since) / _POINTS))
    wanted = given(asked, ("since", "until", "by", "step"))
    return await asyncio.to_thread(_lost, files, (since, until), step, list(asked.by), wanted)


def _log(call: Call) -> RequestLogFiles:
    files = call.gateway.observed.requests
    if files is None:
        message = "Requests are not logged: [request_log] is off, or [admin] came later."
        raise Refusal(409, "conflict", message)
    return files


def filters_of(asked: RequestFilters) -> Filters:
    """The filters of a search."""
    return Filters(**{name: getattr(asked, name) for name in RequestFilters.__struct_fields__})


def list_rows(rows: Any) -> list[ListRow]:
    """The rows of a list, out of whole rows of the log."""
    return [_list_row(row) for row in rows]


def _lost(
    files: RequestLogFiles,
    span: tuple[float, float],
    step: int,
    by: list[Dimension],
    wanted: dict[str, str],
) -> Losses:
    """Rows of losses by some dimensions, the most frequent first, each with its share of the
    requests of the same client, pair and key, as far as the row has these."""
    since, until = span
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
    shown: list[dict[str, Any]] = []
    for group in most:
        row = rows[group]
        named: dict[str, str] = dict(zip(map(str, by), group, strict=True))
        total = totals.get(tuple(named[name] for name in of_all), 0)
        shown.append(
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
    return Losses(since, until, step, requests, shown)


def _fits(key: LossKey, wanted: dict[str, str]) -> bool:
    """Whether a count has the `wanted` values. That of all requests has no path, kind or
    upstream."""
    return all(
        getattr(key, name) == value
        for name, value in wanted.items()
        if key.path or name in ("client", "pair", "key")
    )


OPERATIONS = operations_in(globals())

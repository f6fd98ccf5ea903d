"""`/admin`: the remote administration, with keys of its own.

Plain JSON in and out; errors are `{"error": {"type", "message", "param"}}`. It shares no limit, key
or format with the clients' endpoints, so that clients cannot lock an operator out. The work is done
by `dragoman.operations`, in the thread that uses the store.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

import dragoman
from dragoman.accounts.pool import AccountPool
from dragoman.accounts.store import DIMENSIONS, StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.admin.accounts import AccountRoutes
from dragoman.admin.calls import (
    MOST_ON_PAGE,
    PAGE,
    AdminRoute,
    Call,
    Operator,
    Raw,
    Refusal,
    Reply,
    Table,
    choice,
    flag,
    nothing_kept,
    number,
    only,
    read_query,
    times,
)
from dragoman.admin.clients import ClientRoutes
from dragoman.admin.configuration import ConfigurationRoutes, ReloadRequest
from dragoman.admin.events import EventRoutes, Events
from dragoman.admin.explaining import ExplainRoutes
from dragoman.admin.keys import AdminKeyRoutes, KeyRoutes
from dragoman.admin.operators import Operators, check_json
from dragoman.admin.repeated import HEADER as IDEMPOTENCY_KEY
from dragoman.admin.repeated import RepeatedPosts
from dragoman.admin.requests import RequestRoutes
from dragoman.admin.series import SeriesRoutes
from dragoman.admin.workbench.handlers import WorkbenchRoutes
from dragoman.admin.workbench.sending import Bench
from dragoman.audit import Actor, Change
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.config import Config
from dragoman.edge.auth import Keyring
from dragoman.edge.errors import Headers, fault_of
from dragoman.edge.incoming import IncomingRequest
from dragoman.http import ClientGone
from dragoman.observability.metrics.scrape import Scrape
from dragoman.operations.admins import AdminAdministration
from dragoman.operations.drafts import InvalidDraft, shortened
from dragoman.operations.errors import Conflict, UnknownAccount
from dragoman.operations.keys import KeyAdministration, Unknown
from dragoman.operations.limits import UnknownLimit
from dragoman.operations.pricing import (
    found_prices,
    hours_since,
    price_views,
    reprice,
)
from dragoman.operations.service import Administration
from dragoman.operations.sheets import audit_sheet
from dragoman.prices.lookup import Prices
from dragoman.serving.limits_told import moment_text
from dragoman.serving.simulated_admission import SimulatedAdmission
from dragoman.storage.bodies import BodyFiles
from dragoman.storage.opening import cipher_for
from dragoman.storage.request_log import RequestLogFiles
from dragoman.storage.series import SeriesFile
from dragoman.upstream.client import UpstreamClient

T = TypeVar("T")

_log = logging.getLogger("dragoman.gateway")

_actor: ContextVar[Actor] = ContextVar("actor")
"""Who asks for what is just being done."""

_NOBODY = Operator("", "viewer")
_PACKED_FROM = 16 * 1024
"""Bytes from which on an answer is packed, for whoever can read that."""
_APART_FROM = 64 * 1024
"""Bytes from which on it is packed in a thread."""

_STATUS_OF_KIND = {
    FaultKind.TOO_LARGE: (413, "too_large"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "unsupported_media_type"),
    FaultKind.REQUEST_TIMEOUT: (408, "timeout"),
    FaultKind.INVALID_REQUEST: (400, "invalid_request"),
    FaultKind.CONFLICT: (409, "conflict"),
    FaultKind.UNPROCESSABLE: (422, "unprocessable"),
    FaultKind.OVERLOADED: (503, "overloaded"),
}


class Admin:
    """Serves `/admin` of one worker, with one configuration.

    `requests` is the log of requests, None if there is none, `series` the time series, `events`
    what pages are told while they are open, `simulated` tells of limits; `repeated` knows POST
    requests with an idempotency key; `reload` reads the configuration
    anew, None where that came from no file.
    """

    def __init__(
        self,
        config: Config,
        pool: AccountPool,
        account_sync: AccountSync | None,
        client: UpstreamClient,
        scrape: Scrape,
        prices: Prices,
        operators: Operators,
        requests: RequestLogFiles | None,
        bodies: BodyFiles,
        series: SeriesFile,
        events: Events,
        keys: Keyring,
        bench: Bench,
        envelope_key: bytes,
        simulated: SimulatedAdmission,
        repeated: RepeatedPosts,
        reload: ReloadRequest | None = None,
    ) -> None:
        self._repeated = repeated
        self._prices = prices
        self._config = config
        self._pool = pool
        self._account_sync = account_sync
        self._scrape = scrape
        self._cipher = cipher_for(config)
        self._operators = operators
        self._table = Table(
            [
                *operators.routes(),
                *AccountRoutes(config, pool, client, self._ask).routes(),
                *KeyRoutes(self._ask_keys, config.server.body_limit_bytes, simulated).routes(),
                *AdminKeyRoutes(self._ask_admins).routes(),
                *RequestRoutes(requests, bodies, self._note).routes(),
                *SeriesRoutes(series).routes(),
                *EventRoutes(events, operators.holds).routes(),
                *ClientRoutes(
                    config,
                    bench.router,
                    self._ask_keys,
                    lambda: keys.is_open,
                    self._note_where_kept,
                ).routes(),
                *ExplainRoutes(config, bench.router, prices, keys.ring, scrape.accounts).routes(),
                *WorkbenchRoutes(bench, envelope_key, self._note).routes(),
                AdminRoute("usage", {"GET": self._usage}),
                AdminRoute("audit", {"GET": self._audit}),
                AdminRoute("prices", {"GET": self._prices_of}),
                AdminRoute("prices/reprice", {"POST": self._reprice}),
                *ConfigurationRoutes(config, reload, self._note_where_kept).routes(),
                AdminRoute("limits", {"GET": self._limits}),
                AdminRoute("health", {"GET": self._health}),
            ]
        )

    @property
    def is_served(self) -> bool:
        """Whether there is an administration."""
        return self._operators.is_served

    @property
    def routes(self) -> tuple[AdminRoute, ...]:
        """All routes."""
        return self._table.routes

    async def admits(self, incoming: IncomingRequest) -> bool:
        """Whether a request to read comes from an operator."""
        try:
            await self._operators.identify(incoming)
        except (Refusal, StoreError):
            return False
        return True

    async def serve(self, incoming: IncomingRequest, address: str) -> str:
        """Answer one request of a client at `address`, whatever it is. Returns the kind of error,
        empty if there was none.

        Raises:
            ClientGone: the caller left.
        """
        headers: Headers = [(b"cache-control", b"no-store")]
        try:
            reply = await self._answer(incoming, address, headers)
        except ClientGone:
            raise
        except Exception as error:
            if incoming.status:
                raise
            refusal = _refusal_of(error, incoming.request_id)
            if refusal.status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
            if refusal.status == 405:
                headers.append((b"allow", str(refusal.more["allow"]).encode()))
            error_body = {
                "type": refusal.kind,
                "message": str(refusal),
                "param": refusal.param,
                **refusal.more,
            }
            await incoming.reply(
                refusal.status, msgspec.json.encode({"error": error_body}), headers
            )
            return refusal.kind
        if reply is not None:
            await _send(incoming, reply, headers)
        return ""

    async def _answer(self, incoming: IncomingRequest, address: str, headers: Headers) -> Reply:
        path, method = incoming.path.removeprefix("/admin").removeprefix("/"), incoming.method
        found = self._table.find(path, method)
        if found is not None and method in found[0].open:
            operator = _NOBODY
        else:
            operator = await self._operators.identify(incoming)
        if found is None:
            raise Refusal(404, "not_found", "There is nothing at this path.")
        route, names = found
        handler = route.methods.get(method)
        if handler is None:
            allowed = ", ".join(route.methods)
            message = f"{shortened(method)} is not allowed here."
            raise Refusal(405, "method_not_allowed", message, more={"allow": allowed})
        if method not in route.open and not _may(operator, route, method):
            message = f"{operator.name} is a viewer, and may not do this."
            raise Refusal(403, "forbidden", message)
        if operator.session is not None and incoming.headers.get(b"content-length", b"0") != b"0":
            check_json(incoming)
        actor = Actor(operator.name, "admin", address)
        _actor.set(actor)
        check = _check_for(route, method, incoming.headers.get(b"if-match", b""))
        call = Call(incoming, read_query(incoming.query), names, operator, actor, check)
        if method == "POST" and method not in route.open and incoming.headers.get(IDEMPOTENCY_KEY):
            limit = self._config.server.body_limit_bytes
            return await self._repeated.answer(call, limit, headers, handler)
        reply = await handler(call)
        if reply is not None and method == "GET" and not isinstance(reply[1], Raw):
            if route.settings is not None:
                headers.append((b"etag", _tag(msgspec.json.encode(route.settings(reply[1])))))
                return reply
            body = msgspec.json.encode(reply[1])
            tag = _tag(body)
            headers.append((b"etag", tag))
            if _names(incoming.headers.get(b"if-none-match", b""), tag):
                return 304, None
            return reply[0], Raw(body, b"application/json")
        return reply

    # The rest

    async def _usage(self, call: Call) -> Reply:
        query = call.query
        dimensions = [name for name in DIMENSIONS if name not in ("hour", "day")]
        only(query, "since", "until", "by", *dimensions)
        since, until = times(query)
        by = [name for name in query.get("by", "").split(",") if name]
        wanted = {name: query[name] for name in dimensions if name in query}
        return 200, await self._ask(
            lambda administration: administration.usage(since, until, by, wanted)
        )

    async def _audit(self, call: Call) -> Reply:
        query = call.query
        filters = ("who", "kind", "name", "action")
        only(query, "format", "limit", "before", "since", *filters)
        is_sheet = choice(query, "format", ("csv", "json")) == "csv"
        limit = _MOST_LINES
        if not is_sheet or "limit" in query:
            limit = number(query, "limit", PAGE, MOST_ON_PAGE)
        before = number(query, "before", 1, 10**9) if "before" in query else None
        since = times(query)[0] if "since" in query else 0.0
        wanted = {name: query[name] for name in filters if name in query}
        page = await self._ask(
            lambda administration: administration.audit(limit, before, since, wanted)
        )
        if call.operator.role == "viewer":
            changes = tuple(msgspec.structs.replace(one, address="") for one in page.changes)
            page = msgspec.structs.replace(page, changes=changes)
        if is_sheet:
            sheet = await asyncio.to_thread(audit_sheet, page.changes)
            return 200, Raw(sheet, b"text/csv; charset=utf-8")
        return 200, page

    async def _prices_of(self, call: Call) -> Reply:
        query = call.query
        only(query, "model", "search", "limit")
        model, search = query.get("model"), query.get("search")
        found: dict[str, object] = {
            "version": self._prices.version,
            "sources": self._prices.sources,
        }
        if search is not None:
            limit = number(query, "limit", PAGE, MOST_ON_PAGE)
            rows = await asyncio.to_thread(found_prices, self._prices, search, limit)
            found |= msgspec.structs.asdict(rows)
        if model is not None:
            found["prices"] = {
                upstream: list(price_views(listed.prices(model)))
                for upstream, listed in self._prices.lists.items()
            }
        return 200, found

    async def _reprice(self, call: Call) -> Reply:
        query = call.query
        only(query, "since", "until", "dry_run")
        since, until = times(query)
        dry_run = flag(query, "dry_run")
        if self._account_sync is None:
            raise nothing_kept()
        return 200, await self._account_sync.ask(
            partial(
                reprice,
                prices=self._prices,
                since=since,
                until=until,
                hours_since=hours_since(self._config),
                dry_run=dry_run,
                actor=_actor.get(),
            )
        )

    async def _limits(self, call: Call) -> Reply:
        only(call.query)
        slices = self._scrape.slices
        if slices is None:
            raise Refusal(409, "conflict", "Limits are not shared: [storage] url is not set.")
        away = slices.away_since
        return 200, {
            "away_since": None if away is None else moment_text(away),
            "exchanges": slices.exchanges,
            "failures": slices.failures,
            "limits": slices.views(),
        }

    async def _health(self, call: Call) -> Reply:
        query = call.query
        only(query)
        gauges = self._scrape.counts().gauges
        standings = await self._scrape.standings()
        sync, slices = self._account_sync, self._scrape.slices
        return 200, {
            "version": dragoman.__version__,
            "workers": int(gauges["workers"]),
            "configurations": self._scrape.configurations(),
            "in_flight": int(gauges["in_flight"]),
            "queue_length": int(gauges["queue_length"]),
            "limits": "own" if slices is None else "away" if slices.away_since else "shared",
            "store": "none" if sync is None else "working" if sync.working else "failing",
            "usable": self._pool.usable(),
            "accounts": {name: one.states for name, one in standings.items()},
            "trials": {name: one.trials for name, one in standings.items()},
            "back_at": {name: one.back_at for name, one in standings.items()},
        }

    async def _ask_keys(self, work: Callable[[KeyAdministration], T]) -> T:
        if self._account_sync is None:
            raise nothing_kept()
        actor = _actor.get()
        return await self._account_sync.ask(
            lambda store: work(KeyAdministration(self._config, store.client_keys, actor))
        )

    async def _ask_admins(self, work: Callable[[AdminAdministration], T]) -> T:
        if self._account_sync is None:
            raise nothing_kept()
        actor = _actor.get()
        return await self._account_sync.ask(
            lambda store: work(AdminAdministration(store.admins, actor))
        )

    async def _note(self, change: Change) -> None:
        await self._ask(lambda administration: administration.note(change))

    async def _note_where_kept(self, change: Change) -> None:
        if self._account_sync is not None:
            await self._note(change)

    async def _ask(self, work: Callable[[Administration], T]) -> T:
        if self._account_sync is None:
            raise nothing_kept()
        actor = _actor.get()
        return await self._account_sync.ask(
            lambda store: work(Administration(self._config, store, self._cipher, actor))
        )


_MOST_LINES = 10_000
"""Lines of a sheet, if no other number is asked for."""


def _may(operator: Operator, route: AdminRoute, method: str) -> bool:
    return operator.role == "admin" or route.role(method) == "viewer"


def _check_for(route: AdminRoute, method: str, wanted: bytes) -> Callable[[Any], object] | None:
    """What makes sure that something is, when it is changed, as it was when it was read with one of
    the `wanted` tags.

    Raises:
        Refusal: that cannot be told.
    """
    if method == "GET" or not wanted:
        return None
    settings = route.settings
    if settings is None or method != "PATCH":
        told = "If-Match goes with PATCH of a single thing alone."
        raise Refusal(412, "changed", told, "if-match")

    def check(view: Any) -> None:
        if not _names(wanted, _tag(msgspec.json.encode(settings(view)))):
            told = "It was changed meanwhile: read it again."
            raise Refusal(412, "changed", told, "if-match")

    return check


def _tag(body: bytes) -> bytes:
    return b'"%b"' % blake2b(body, digest_size=12).hexdigest().encode()


def _names(header: bytes, tag: bytes) -> bool:
    """Whether a header of tags has this one. Proxies that pack an answer make its tag weak."""
    tags = [one.strip().removeprefix(b"W/") for one in header.split(b",")]
    return tag in tags or b"*" in tags


async def _send(incoming: IncomingRequest, reply: tuple[int, object], headers: Headers) -> None:
    status, value = reply
    media = b"application/json"
    if isinstance(value, Raw):
        body, media = value.body, value.media
    else:
        body = b"" if value is None else msgspec.json.encode(value)
    if len(body) > _PACKED_FROM:
        headers.append((b"vary", b"accept-encoding"))
        if b"gzip" in incoming.headers.get(b"accept-encoding", b"").lower():
            headers.append((b"content-encoding", b"gzip"))
            large = len(body) > _APART_FROM
            body = await asyncio.to_thread(_packed, body) if large else _packed(body)
    await incoming.reply(status, body, headers, b"content-type: %b\r\n" % media)


def _packed(body: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(body) + packer.flush()


def _refusal_of(error: Exception, request_id: str) -> Refusal:
    match error:
        case Refusal():
            return error
        case UnknownAccount() | Unknown() | UnknownLimit():
            return Refusal(404, "not_found", str(error), "name")
        case Conflict():
            return Refusal(409, "conflict", str(error), error.field or None)
        case InvalidDraft():
            faults = [msgspec.structs.asdict(fault) for fault in error.faults]
            first = error.faults[0].field
            return Refusal(400, "invalid_request", str(error), first or None, {"faults": faults})
        case StoreError():
            _log.error("request %s: %s", request_id, error)
            return Refusal(503, "store_unavailable", "The store cannot be used now.")
        case DragomanError():
            fault = error.fault
            status, kind = _STATUS_OF_KIND.get(fault.kind, (500, "internal"))
            return Refusal(status, kind, fault.message, fault.param)
        case _:
            return Refusal(500, "internal", fault_of(error, request_id).message)

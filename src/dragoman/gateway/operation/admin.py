"""`/admin`: the remote administration, with a token of its own.

Plain JSON in and out; errors are `{"error": {"type", "message", "param"}}`. It shares no limit, key
or format with the clients' endpoints, so that clients cannot lock an operator out. The work is done
by `dragoman.administration`, in the thread that uses the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from io import BytesIO
from typing import Any, NoReturn, TypeVar, cast, get_args
from urllib.parse import parse_qsl

import msgspec

import dragoman
from dragoman import jsontext
from dragoman.accounts.pool import AccountPool
from dragoman.accounts.states import AccountState
from dragoman.accounts.store import DIMENSIONS, StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.administration.drafts import (
    Draft,
    InvalidDraft,
    literal_secret,
    read_draft,
    shortened,
)
from dragoman.administration.errors import Conflict, ImportRejected, NoModel, UnknownAccount
from dragoman.administration.foreign_keys import Source, read_keys
from dragoman.administration.keys import KeyAdministration, Unknown
from dragoman.administration.limits import UnknownLimit
from dragoman.administration.pricing import price_views, reprice
from dragoman.administration.rows import BadFile, rows_of
from dragoman.administration.service import Administration
from dragoman.administration.times import InvalidTime, parse_time
from dragoman.administration.views import STATES
from dragoman.audit import Actor
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.config import Config
from dragoman.gateway.edge.auth import presented_key
from dragoman.gateway.edge.errors import Headers, fault_of
from dragoman.gateway.edge.incoming import IncomingRequest
from dragoman.gateway.operation.key_routes import KeyRoutes
from dragoman.gateway.operation.probe import probe
from dragoman.gateway.operation.scrape import Scrape
from dragoman.gateway.processes.reload import Report
from dragoman.http import ClientGone
from dragoman.jsontext import JsonError
from dragoman.prices.lookup import Prices
from dragoman.storage.opening import cipher_for
from dragoman.upstream.client import UpstreamClient

T = TypeVar("T")

_log = logging.getLogger("dragoman.gateway")

Query = Mapping[str, str]
ReloadRequest = Callable[[], Awaitable[Report]]
"""Reads the configuration anew, for all workers."""

_Answer = tuple[int, object]

_NAME = "admin"
"""Who holds the token."""

_actor: ContextVar[Actor] = ContextVar("actor")
"""Who asks for what is just being done."""

_BODY_BYTES = 1024 * 1024
_MOST_ON_PAGE = 1000
_PAGE = 100
_MOST_BAD_ROWS = 1000
_HISTORY = 100
_DAY_S = 24 * 3600.0
_KINDS = {
    "text/csv": "csv",
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
}
_STATUS_OF_KIND = {
    FaultKind.TOO_LARGE: (413, "too_large"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "unsupported_media_type"),
    FaultKind.REQUEST_TIMEOUT: (408, "timeout"),
    FaultKind.INVALID_REQUEST: (400, "invalid_request"),
}


class Refusal(Exception):
    """A request that cannot be done. `param` names what is at fault, if it is one thing; `more` are
    further members of the error."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        param: str | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.more = more or {}


class Admin:
    """Serves `/admin` of one worker, with one configuration. There is none without `[admin]` key.
    `reload` reads the configuration anew, None where it came from no file."""

    def __init__(
        self,
        config: Config,
        pool: AccountPool,
        account_sync: AccountSync | None,
        client: UpstreamClient,
        scrape: Scrape,
        prices: Prices,
        reload: ReloadRequest | None = None,
    ) -> None:
        self._reload = reload
        self._prices = prices
        self._keys = KeyRoutes(self._ask_keys, _object)
        key = config.admin.key
        self._digest = None if key is None else _digest(key.reveal().encode())
        self._config = config
        self._pool = pool
        self._account_sync = account_sync
        self._client = client
        self._scrape = scrape
        self._cipher = cipher_for(config)

    @property
    def is_served(self) -> bool:
        """Whether there is a token, and so an administration."""
        return self._digest is not None

    def admits(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the administration's token is in `headers` (lower-case names)."""
        given = presented_key(headers)
        if given is None or self._digest is None:
            return False
        return hmac.compare_digest(_digest(given), self._digest)

    async def serve(self, incoming: IncomingRequest, address: str) -> str:
        """Answer one request of a client at `address`, whatever it is. Returns the kind of error,
        empty if there was none.

        Raises:
            ClientGone: the caller left.
        """
        headers: Headers = [(b"cache-control", b"no-store")]
        try:
            if not self.admits(incoming.headers):
                headers.append((b"www-authenticate", b"Bearer"))
                raise Refusal(401, "unauthenticated", "The token of the administration is needed.")
            _actor.set(Actor(_NAME, "admin", address))
            status, value = await self._answer(incoming)
        except ClientGone:
            raise
        except Exception as error:
            refusal = _refusal_of(error, incoming.request_id)
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
        body = b"" if value is None else msgspec.json.encode(value)
        await incoming.reply(status, body, headers)
        return ""

    async def _answer(self, incoming: IncomingRequest) -> _Answer:
        parts = incoming.path.split("/")[2:]
        query = _query(incoming.query)
        handlers: dict[str, Callable[[], Awaitable[_Answer]]]
        match parts:
            case ["accounts"]:
                handlers = {
                    "GET": lambda: self._list(query),
                    "POST": lambda: self._add(incoming, query),
                }
            case ["accounts", "import"] if incoming.method == "POST":
                handlers = {"POST": lambda: self._import(incoming, query)}
            case ["accounts", name]:
                handlers = {
                    "GET": lambda: self._show(name, query),
                    "PATCH": lambda: self._change(name, incoming, query),
                    "DELETE": lambda: self._remove(name, query),
                }
            case ["accounts", name, "enable"]:
                handlers = {"POST": lambda: self._enable(name, query)}
            case ["accounts", name, "disable"]:
                handlers = {"POST": lambda: self._disable(name, incoming, query)}
            case ["accounts", name, "test"]:
                handlers = {"POST": lambda: self._test(name, incoming, query)}
            case ["usage"]:
                handlers = {"GET": lambda: self._usage(query)}
            case ["audit"]:
                handlers = {"GET": lambda: self._audit(query)}
            case ["prices"]:
                handlers = {"GET": lambda: self._prices_of(query)}
            case ["prices", "reprice"]:
                handlers = {"POST": lambda: self._reprice(query)}
            case ["keys", "import"] if incoming.method == "POST":
                handlers = {"POST": lambda: self._import_keys(incoming, query)}
            case ["keys" | "teams", *_] if found := self._keys.handlers(parts, incoming):
                _only(query)
                handlers = found
            case ["reload"]:
                handlers = {"POST": lambda: self._read_anew(query)}
            case ["health"]:
                handlers = {"GET": lambda: self._health(query)}
            case _:
                raise Refusal(404, "not_found", "There is nothing at this path.")
        handler = handlers.get(incoming.method)
        if handler is None:
            allowed = ", ".join(handlers)
            message = f"{shortened(incoming.method)} is not allowed here."
            raise Refusal(405, "method_not_allowed", message, more={"allow": allowed})
        return await handler()

    # Accounts

    async def _list(self, query: Query) -> _Answer:
        _only(query, "upstream", "state", "after", "limit", "usage")
        state = _choice(query, "state", STATES)
        limit = _number(query, "limit", _PAGE, _MOST_ON_PAGE)
        usage = _flag(query, "usage", default=True)
        return 200, await self._ask(
            lambda administration: administration.page(
                upstream=query.get("upstream"),
                state=state,
                after=query.get("after"),
                limit=limit,
                with_usage=usage,
            )
        )

    async def _show(self, name: str, query: Query) -> _Answer:
        _only(query, "history")
        history = _number(query, "history", _HISTORY, _MOST_ON_PAGE)
        return 200, await self._ask(lambda administration: administration.show(name, history))

    async def _add(self, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query)
        made = read_draft(await _object(incoming), literal_secret)
        return 201, await self._ask(lambda administration: administration.add(made))

    async def _change(self, name: str, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query)
        values = await _object(incoming)
        if values.setdefault("name", name) != name:
            raise Refusal(400, "invalid_request", "An account keeps its name.", "name")
        made: Draft = read_draft(values, literal_secret)
        return 200, await self._ask(lambda administration: administration.change(made))

    async def _remove(self, name: str, query: Query) -> _Answer:
        _only(query)
        removed = await self._ask(lambda administration: administration.remove([name]))
        return 200, {"removed": removed}

    async def _enable(self, name: str, query: Query) -> _Answer:
        _only(query)

        def work(administration: Administration) -> object:
            administration.enable([name])
            return administration.show(name, 1).account

        return 200, await self._ask(work)

    async def _disable(self, name: str, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query)
        values = await _object(incoming, may_be_empty=True)
        reason = values.pop("reason", "")
        if values:
            raise Refusal(400, "invalid_request", "There is no such field.", _first(values))
        if not isinstance(reason, str):
            raise Refusal(400, "invalid_request", "A text is expected.", "reason")

        def work(administration: Administration) -> object:
            administration.disable([name], reason)
            return administration.show(name, 1).account

        return 200, await self._ask(work)

    async def _test(self, name: str, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query)
        values = await _object(incoming, may_be_empty=True)
        model = values.pop("model", None)
        if values:
            raise Refusal(400, "invalid_request", "There is no such field.", _first(values))
        if model is not None and not isinstance(model, str):
            raise Refusal(400, "invalid_request", "A text is expected.", "model")
        account = await self._ask(lambda administration: administration.account(name))
        try:
            state = self._pool.state(name)
        except KeyError:
            state = AccountState(name)
        try:
            finding, transition = await probe(
                self._client, self._config, account, state, who="operator", model=model
            )
        except NoModel as error:
            raise Refusal(400, "invalid_request", str(error), "model") from None
        if transition is not None:
            seen = transition
            # Through the store: the account may be so new that this worker does not know it yet.
            await self._ask(lambda administration: administration.observe(seen))
        return 200, finding

    async def _import(self, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query, "format", "replace", "skip_bad")
        kind = _choice(query, "format", ("csv", "json", "jsonl"))
        replace, skip_bad = _flag(query, "replace"), _flag(query, "skip_bad")
        if kind is None:
            media = incoming.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
            kind = _KINDS.get(media.strip().lower())
        body = await incoming.body(self._config.server.body_limit_bytes)
        with _faults_of_rows_told():
            # In another thread than the store's, whose work must not wait for it.
            rows = await asyncio.to_thread(
                lambda: list(rows_of(BytesIO(body), literal_secret, kind=kind))
            )
            done = await self._ask(
                lambda administration: administration.import_rows(
                    rows, replace=replace, skip_bad=skip_bad
                )
            )
        return 200, msgspec.structs.replace(done, bad=done.bad[:_MOST_BAD_ROWS])

    async def _import_keys(self, incoming: IncomingRequest, query: Query) -> _Answer:
        _only(query, "from", "team", "limits", "dry_run")
        source = _choice(query, "from", get_args(Source))
        if source is None:
            _bad(f"It must be one of {', '.join(get_args(Source))}.", "from")
        team, dry_run = query.get("team"), _flag(query, "dry_run")
        limits = _flag(query, "limits", default=True)
        body = await incoming.body(self._config.server.body_limit_bytes)
        with _faults_of_rows_told():
            rows = await asyncio.to_thread(lambda: read_keys(BytesIO(body), cast(Source, source)))
            done = await self._ask_keys(
                lambda keys: keys.import_keys(rows, team=team, limits=limits, dry_run=dry_run)
            )
        return 200, done

    # The rest

    async def _usage(self, query: Query) -> _Answer:
        dimensions = [name for name in DIMENSIONS if name not in ("hour", "day")]
        _only(query, "since", "until", "by", *dimensions)
        since, until = _times(query)
        by = [name for name in query.get("by", "").split(",") if name]
        only = {name: query[name] for name in dimensions if name in query}
        return 200, await self._ask(
            lambda administration: administration.usage(since, until, by, only)
        )

    async def _audit(self, query: Query) -> _Answer:
        filters = ("who", "kind", "name", "action")
        _only(query, "limit", "before", "since", *filters)
        limit = _number(query, "limit", _PAGE, _MOST_ON_PAGE)
        before = _number(query, "before", 1, 10**9) if "before" in query else None
        since = _times(query)[0] if "since" in query else 0.0
        only = {name: query[name] for name in filters if name in query}
        return 200, await self._ask(
            lambda administration: administration.audit(limit, before, since, only)
        )

    async def _prices_of(self, query: Query) -> _Answer:
        _only(query, "model")
        model = query.get("model")
        found: dict[str, object] = {"version": self._prices.version}
        if model is not None:
            found["prices"] = {
                upstream: list(price_views(listed.prices(model)))
                for upstream, listed in self._prices.lists.items()
            }
        return 200, found

    async def _reprice(self, query: Query) -> _Answer:
        _only(query, "since", "until", "dry_run")
        since, until = _times(query)
        dry_run = _flag(query, "dry_run")
        if self._account_sync is None:
            raise Refusal(409, "conflict", "Nothing is kept: [storage] path is not set.")
        return 200, await self._account_sync.ask(
            partial(
                reprice,
                prices=self._prices,
                since=since,
                until=until,
                dry_run=dry_run,
                actor=_actor.get(),
            )
        )

    async def _read_anew(self, query: Query) -> _Answer:
        _only(query)
        if self._reload is None:
            raise Refusal(409, "conflict", "The configuration came from no file.")
        report = await self._reload()
        if report.problems:
            message = "The configuration cannot be used; nothing was changed."
            more = {"problems": report.problems}
            raise Refusal(400, "invalid_configuration", message, more=more)
        return 200, report

    async def _health(self, query: Query) -> _Answer:
        _only(query)
        gauges = self._scrape.counts().gauges
        accounts: dict[str, dict[str, int]] = {}
        for (upstream, state), number in (await self._scrape.accounts()).items():
            accounts.setdefault(upstream, {})[state] = number
        sync = self._account_sync
        return 200, {
            "version": dragoman.__version__,
            "workers": int(gauges["workers"]),
            "configurations": self._scrape.configurations(),
            "in_flight": int(gauges["in_flight"]),
            "queue_length": int(gauges["queue_length"]),
            "store": "none" if sync is None else "working" if sync.working else "failing",
            "usable": self._pool.usable(),
            "accounts": accounts,
        }

    async def _ask_keys(self, work: Callable[[KeyAdministration], T]) -> T:
        if self._account_sync is None:
            raise Refusal(409, "conflict", "Nothing is kept: [storage] path is not set.")
        actor = _actor.get()
        return await self._account_sync.ask(
            lambda store: work(KeyAdministration(self._config, store.client_keys, actor))
        )

    async def _ask(self, work: Callable[[Administration], T]) -> T:
        if self._account_sync is None:
            raise Refusal(409, "conflict", "Nothing is kept: [storage] path is not set.")
        actor = _actor.get()
        return await self._account_sync.ask(
            lambda store: work(Administration(self._config, store, self._cipher, actor))
        )


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


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


@contextmanager
def _faults_of_rows_told() -> Iterator[None]:
    """Tells what is wrong with an import as a refusal."""
    try:
        yield
    except ImportRejected as error:
        more = {"rows": error.rows, "bad": error.bad[:_MOST_BAD_ROWS]}
        raise Refusal(400, "bad_rows", str(error), more=more) from None
    except BadFile as error:
        raise Refusal(400, "invalid_request", str(error)) from None


async def _object(incoming: IncomingRequest, *, may_be_empty: bool = False) -> dict[str, Any]:
    body = await incoming.body(_BODY_BYTES)
    if may_be_empty and not body.strip():
        return {}
    try:
        value = jsontext.decode(body)
    except JsonError:
        _bad("The body is not JSON.")
    if not isinstance(value, dict):
        _bad("The body must be a JSON object.")
    return value


def _bad(message: str, param: str | None = None) -> NoReturn:
    raise Refusal(400, "invalid_request", message, param)


def _query(raw: bytes) -> Query:
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError:
        _bad("The query cannot be read.")
    return dict(pairs)


def _only(query: Query, *known: str) -> None:
    for name in query:
        if name not in known:
            problem = f"There is no such parameter; there is {', '.join(known) or 'none'}."
            _bad(problem, shortened(name))


def _times(query: Query) -> tuple[float, float]:
    """The time asked for: the last day if none is."""
    now = time.time()
    try:
        until = parse_time(query["until"], now) if "until" in query else now
    except InvalidTime as error:
        raise Refusal(400, "invalid_request", str(error), "until") from None
    try:
        since = parse_time(query["since"], now) if "since" in query else until - _DAY_S
    except InvalidTime as error:
        raise Refusal(400, "invalid_request", str(error), "since") from None
    return since, until


def _choice(query: Query, name: str, choices: tuple[str, ...]) -> str | None:
    value = query.get(name)
    if value is not None and value not in choices:
        _bad(f"Expected one of {', '.join(choices)}.", name)
    return value


def _number(query: Query, name: str, default: int, most: int) -> int:
    value = query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and 1 <= int(value) <= most):
        _bad(f"Expected a number from 1 to {most}.", name)
    return int(value)


def _flag(query: Query, name: str, *, default: bool = False) -> bool:
    value = _choice(query, name, ("true", "false"))
    return default if value is None else value == "true"


def _first(values: Mapping[str, object]) -> str:
    return shortened(next(iter(values)))

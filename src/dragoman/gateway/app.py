"""The application: routes, keys, and an error in the client's own shape for everything else.

Without a framework: there are a dozen routes, and what a framework adds to each request costs more
than the translation.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.keeper import Keeper
from dragoman.accounts.pool import Pool, Wanted
from dragoman.accounts.usage import Meter
from dragoman.canonical.dialects import DIALECTS
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.config import Config, Upstream
from dragoman.gateway.count import Counter
from dragoman.gateway.edge.auth import Caller, Keyring, presented_key
from dragoman.gateway.edge.browsers import check_unkeyed
from dragoman.gateway.edge.errors import fault_of, refusal
from dragoman.gateway.edge.logins import Logins
from dragoman.gateway.edge.paths import implied_protocol, normal_path
from dragoman.gateway.edge.record import LOSSES_HEADER, Record, log_line
from dragoman.gateway.edge.visit import Visit
from dragoman.gateway.models import Catalogue, page, read_list
from dragoman.gateway.operation.admin import Admin
from dragoman.gateway.operation.metrics import CONTENT_TYPE
from dragoman.gateway.operation.prober import Prober
from dragoman.gateway.operation.scrape import Place, Scrape
from dragoman.gateway.operation.tally import CLIENT_GONE, Tally
from dragoman.gateway.serving.exchange import SHUTTING_DOWN, Exchange
from dragoman.gateway.serving.outgoing import Outgoings
from dragoman.gateway.serving.routing import Router, model_not_found
from dragoman.gateway.stored.background import Background
from dragoman.gateway.stored.elsewhere import Elsewhere
from dragoman.gateway.stored.memory import Memory, Shelf
from dragoman.gateway.stored.responses import StoredResponses
from dragoman.http import ClientGone, Request
from dragoman.http.addresses import Proxies, is_here
from dragoman.http.limits import files_to_share
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.storage.opening import responses_for, store_for, vault_for
from dragoman.upstream.client import UpstreamClient

Handler = Callable[[Visit, Caller, Record], Awaitable[None]]

_STATUS_UNAUTHENTICATED = 401
_STATUS_CLIENT_GONE = 499
_BUSY_RETRY_S = 1.0

_CORS = (
    b"access-control-allow-origin: *\r\n"
    b"access-control-allow-methods: GET, POST, PUT, DELETE, OPTIONS\r\n"
    b"access-control-expose-headers: x-request-id, request-id, retry-after, x-dragoman-estimate, "
    + LOSSES_HEADER
    + b"\r\n"
)
_CORS_ALLOWED = b"access-control-allow-headers"
_CORS_HEADERS = b"Content-Type, Authorization, X-API-Key"
_CORS_USUAL = _CORS + b"%b: %b\r\n" % (_CORS_ALLOWED, _CORS_HEADERS)


class Route(Struct, frozen=True):
    """One path: the client's protocol it implies, and a handler per method."""

    protocol: str
    methods: Mapping[str, Handler]


class Gateway:
    """The application of one configuration.

    It needs `start` and `close`, in the loop that serves, for its connections to upstreams and its
    store. `keeper` is what stands between the pool and the store, None if nothing is
    kept; what `meter` counts goes there as usage. `draining` makes `/readyz` say no before the
    server stops. `log` is given the line of each request, None for no lines; `place` is where this
    worker shows others what it counts, None if there are none.
    """

    def __init__(
        self,
        config: Config,
        log: Callable[[bytes], None] | None = log_line,
        place: Place | None = None,
    ) -> None:
        self.config = config
        self._log = log
        self.draining = False
        self._keys = Keyring(config.clients)
        self._unkeyed = not config.clients
        self._cors = config.server.cors and not self._unkeyed
        self.proxies = Proxies(config.server.trusted_proxies)
        self._logins = Logins(config.server.failed_logins)
        self._router = Router(config, _sealer(config))
        self.pool = Pool(config)
        self.meter = Meter(_spelled_out(config))
        self.keeper = _keeper(config, self.pool, self.meter)
        self._client = UpstreamClient(max_idle=_idle(config))
        self._outgoings = Outgoings(config.upstreams)
        self._exchange = Exchange(
            config.server, self._router, self.pool, self._client, self._outgoings
        )
        shelf = self._shelf = _shelf(config)
        self._memory = Memory(shelf if config.storage.responses else None)
        self._elsewhere = Elsewhere(config, self.pool, self._client, self._outgoings, shelf)
        self._background = Background(
            self._memory,
            self._exchange.answer,
            lambda: self._client.clock,
            lambda visit, record: self._tally.background(visit, record),
            log,
            config.server.keepalive_s,
            config.server.max_concurrent,
        )
        self._stored = StoredResponses(
            self._memory,
            self._elsewhere,
            self._background,
            self._exchange,
            config.server.body_limit_bytes,
        )
        self._counter = Counter(
            self._exchange,
            self.pool,
            self._client,
            self._outgoings,
            self._memory,
            self._elsewhere,
        )
        self._catalogue = Catalogue(config, self._router, self._fetch_models, time.monotonic)
        self._routes = self._make_routes()
        self._below_response = {
            "": {
                "GET": self._stored.show,
                "HEAD": self._stored.show,
                "DELETE": self._stored.delete,
            },
            "input_items": {"GET": self._stored.items},
            "cancel": {"POST": self._stored.cancel},
            "submit_tool_outputs": {"POST": self._stored.submit},
        }
        self._serving = 0
        self._scrape = Scrape(config, self.pool, self.keeper, lambda: self._serving, place)
        self._tally = Tally(self._scrape.metrics, self.meter if self.keeper else None, self._routes)
        self._admin = Admin(config, self.pool, self.keeper, self._client, self._scrape)
        self._prober = Prober(
            config,
            self.pool,
            self._client,
            self._scrape.metrics,
            place=place.number if place else 0,
            places=place.total if place else 1,
        )

    async def start(self) -> None:
        """Make ready to call upstreams, in the running loop, with all that the store knows."""
        await self._client.start()
        if self.keeper is not None:
            await self.keeper.start()
        self._background.start(self._shelf)
        self._scrape.start()
        self._prober.start()

    async def close(self) -> None:
        """Close the connections to upstreams, and tell the store what it does not know yet."""
        await self._prober.close()
        await self._background.aclose()
        await self._client.aclose()
        if self._shelf is not None:
            await self._shelf.aclose()
        if self.keeper is not None:
            await self.keeper.close()
        await self._scrape.close()

    async def __call__(self, request: Request) -> None:
        """Answer a request."""
        record = Record()
        path = request.path
        route = self._routes.get(path)
        if route is None:
            path = normal_path(path)
            route = self._routes.get(path) or self._dynamic(path)
        protocol = route.protocol if route is not None else ""
        codec = CODECS[protocol or implied_protocol(request.headers)]
        visit = Visit(request, codec, self._client.clock)
        visit.path = path
        visit.options = self.config.options
        operators = path.startswith(_OPERATORS)
        admin = (
            operators and self._admin.is_served and (path == "/admin" or path.startswith(_ADMIN))
        )
        if self._cors and not operators:
            if visit.method == "OPTIONS":
                _grant(visit)
            else:
                visit.lines += _CORS_USUAL
        try:
            if self._unkeyed:
                check_unkeyed(visit)
            if admin:
                self._check_logins(visit)
                record.error = await self._admin.serve(visit)
                if visit.status == _STATUS_UNAUTHENTICATED:
                    self._note_failed_login(visit)
            else:
                await self._answer(visit, route, record)
        except ClientGone:
            record.error = CLIENT_GONE
            visit.status = visit.status or _STATUS_CLIENT_GONE
        except asyncio.CancelledError:
            # The server is going down.
            record.error = record.error or SHUTTING_DOWN.kind
            if not visit.status:
                await visit.fail(SHUTTING_DOWN)
            elif not visit.ended:
                raise
        except Exception as error:
            fault = fault_of(error, visit.request_id)
            record.error = fault.kind
            # Once it has begun it is too late for words: the server breaks the connection off.
            if not visit.status:
                await visit.fail(fault)
        finally:
            self._tally.request(visit, record)
            if self._log is not None:
                record.address = self._address(visit)
                route_name = f"{visit.method} {path[:200]}"
                self._log(record.line(visit.request_id, route_name, visit.status))

    async def _answer(self, visit: Visit, route: Route | None, record: Record) -> None:
        if visit.method == "OPTIONS":
            await visit.reply(200, b"")
            return
        if route is None:
            message = f"Unknown path: {visit.method} {visit.path[:200]}"
            raise refusal(FaultKind.NOT_FOUND, message, code="not_found")
        handler = route.methods.get(visit.method)
        if handler is None:
            if _wants_websocket(visit):
                visit.shared.append((b"upgrade", b"HTTP/1.1"))
                visit.shared.append((b"connection", b"close"))
                raise refusal(
                    FaultKind.UPGRADE_REQUIRED, "Websockets are not served here; use POST."
                )
            with suppress(DragomanError):
                self._identify(visit)
            visit.shared.append((b"allow", ", ".join([*route.methods, "OPTIONS"]).encode()))
            raise refusal(
                FaultKind.METHOD_NOT_ALLOWED,
                f"{visit.method} is not allowed on {visit.path[:200]}.",
            )
        if not visit.path.startswith("/v1/"):
            await handler(visit, Caller(""), record)
            return
        try:
            caller = self._identify(visit)
        except DragomanError:
            visit.shared.append((b"www-authenticate", b"Bearer"))
            raise
        record.caller = caller.name
        if visit.method != "POST":
            await handler(visit, caller, record)
            return
        check_content_type(visit.headers.get(b"content-type"))
        if self._serving >= self.config.server.max_concurrent:
            visit.shared.append((b"retry-after", b"%d" % _BUSY_RETRY_S))
            raise refusal(FaultKind.OVERLOADED, "The gateway serves as many requests as it may.")
        self._serving += 1
        try:
            await handler(visit, caller, record)
        finally:
            self._serving -= 1

    def _identify(self, visit: Visit) -> Caller:
        """Who calls; errors are told in the dialect of that client from here on.

        Raises:
            DragomanError: UNAUTHENTICATED, or RATE_LIMITED after too many failed logins.
        """
        self._check_logins(visit)
        try:
            caller = self._keys.identify(visit.headers)
        except DragomanError:
            self._note_failed_login(visit)
            raise
        if self._logins.failures:
            key = presented_key(visit.headers) or b""
            self._logins.succeeded(self._address(visit), key, visit.clock.loop.time())
        if caller.dialect is not None:
            visit.options = replace(visit.options, **DIALECTS[caller.dialect])
        return caller

    def _check_logins(self, visit: Visit) -> None:
        """Make sure that the client's address has not tried too many keys.

        Raises:
            DragomanError: RATE_LIMITED.
        """
        if not self._logins.failures:
            return
        key = presented_key(visit.headers) or b""
        wait = self._logins.wait(self._address(visit), key, visit.clock.loop.time())
        if wait:
            told = "There were too many logins from this address that failed."
            raise refusal(FaultKind.RATE_LIMITED, told, retry_after=wait)

    def _note_failed_login(self, visit: Visit) -> None:
        address = self._address(visit)
        if not is_here(address):
            self._logins.failed(address, visit.clock.loop.time())

    def _address(self, visit: Visit) -> str:
        """The address of the client, behind the proxies that are trusted."""
        return self.proxies.client(visit.request.address, visit.headers)

    def _make_routes(self) -> dict[str, Route]:
        generate: Handler = self._exchange.serve
        routes = {
            f"/v1{codec.path}": Route(name, {"POST": generate}) for name, codec in CODECS.items()
        }
        routes["/v1/responses"] = Route("openai_responses", {"POST": self._stored.create})
        for path, protocol in (
            ("/v1/messages/count_tokens", "anthropic_messages"),
            ("/v1/responses/input_tokens", "openai_responses"),
        ):
            routes[path] = Route(protocol, {"POST": self._counter.serve})
        routes["/v1/models"] = Route("", {"GET": self._list_models, "HEAD": self._list_models})
        for path, handler in (
            ("/healthz", self._healthy),
            ("/readyz", self._ready),
            ("/metrics", self._metrics),
        ):
            routes[path] = Route("", {"GET": handler, "HEAD": handler})
        return routes

    def _dynamic(self, path: str) -> Route | None:
        """The route of a path with an id in it."""
        if path.startswith("/v1/models/"):
            show = partial(self._show_model, path.removeprefix("/v1/models/"))
            return Route("", {"GET": show, "HEAD": show})
        if path.startswith("/v1/responses/"):
            name, _, below = path.removeprefix("/v1/responses/").partition("/")
            handlers = self._below_response.get(below)
            if handlers is not None and name not in _NO_RESPONSES:
                methods: dict[str, Handler] = {
                    method: partial(serve, name) for method, serve in handlers.items()
                }
                return Route("openai_responses", methods)
        if path.startswith("/v1/chat/completions/"):
            return Route("openai_chat", dict.fromkeys(("GET", "POST", "DELETE"), _no_completion))
        return None

    async def _list_models(self, visit: Visit, caller: Caller, record: Record) -> None:
        models = [model for model in await self._catalogue.models() if caller.allows(model["id"])]
        await visit.reply(200, to_json(page(models, visit.query)))

    async def _show_model(self, name: str, visit: Visit, caller: Caller, record: Record) -> None:
        if caller.allows(name):
            for model in await self._catalogue.models():
                if model["id"] == name:
                    await visit.reply(200, to_json(model))
                    return
        raise model_not_found(name)

    async def _fetch_models(self, upstream: Upstream) -> list[JsonObject]:
        limit = "limit=1000" if upstream.protocol == "anthropic_messages" else ""
        with await self.pool.acquire(Wanted(upstream.name)) as lease:
            request = self._outgoings.of(lease.account).get("/models", limit, lease.proxy)
            async with await self._client.send(request) as answer:
                if answer.status != 200:
                    raise ValueError(f"status {answer.status}")
                return read_list(await answer.read(_LIST_BYTES))

    async def _metrics(self, visit: Visit, caller: Caller, record: Record) -> None:
        if not (visit.is_local or self._admin.admits(visit.headers)):
            visit.shared.append((b"www-authenticate", b"Bearer"))
            raise refusal(FaultKind.UNAUTHENTICATED, "Metrics are for the administration's token.")
        text = await self._scrape.text()
        await visit.reply(200, text, media=b"content-type: %b\r\n" % CONTENT_TYPE)

    async def _healthy(self, visit: Visit, caller: Caller, record: Record) -> None:
        await visit.reply(200, b'{"status":"ok"}')

    async def _ready(self, visit: Visit, caller: Caller, record: Record) -> None:
        if self.draining:
            await visit.reply(503, b'{"status":"draining"}')
        elif not self.pool.usable():
            await visit.reply(503, b'{"status":"no usable account"}')
        else:
            await visit.reply(200, b'{"status":"ready"}')


_ADMIN = "/admin/"
_OPERATORS = ("/admin", "/metrics")


def _keeper(config: Config, pool: Pool, meter: Meter) -> Keeper | None:
    store = store_for(config)
    if store is None:
        return None
    sync_s = config.storage.sync_s
    return Keeper(pool, store, vault_for(config), config.accounts, sync_s=sync_s, meter=meter)


def _spelled_out(config: Config) -> set[str]:
    """The names of models that the configuration itself tells."""
    names = {route.match for route in config.routes} | config.models.aliases.keys()
    return {name for name in names if "*" not in name}


def _shelf(config: Config) -> Shelf | None:
    store = responses_for(config)
    return None if store is None else Shelf(store, config.storage.responses_days)


def _sealer(config: Config) -> Sealer:
    key = config.server.envelope_key
    return Sealer() if key is None else Sealer(key.reveal().encode())


def _idle(config: Config) -> int:
    """Idle connections to keep for each upstream: no more than half of the files that are kept back
    for upstreams, so that calls of one find some whatever was called before."""
    files = files_to_share()
    if files is None:
        return _MOST_IDLE
    room = int(files * config.server.files_kept_back) // (2 * max(1, len(config.upstreams)))
    return max(1, min(_MOST_IDLE, room))


_MOST_IDLE = 512
_LIST_BYTES = 8 * 1024 * 1024
_NO_RESPONSES = frozenset({"compact"})
"""Names of endpoints that stand where an id would, and are not served."""


async def _no_completion(visit: Visit, caller: Caller, record: Record) -> None:
    raise refusal(FaultKind.NOT_FOUND, "This gateway does not store chat completions.")


def check_content_type(value: bytes | None) -> None:
    """JSON, or nothing said.

    Raises:
        DragomanError: UNSUPPORTED_MEDIA_TYPE.
    """
    if value is None or value == b"application/json":
        return
    media, _, parameters = value.decode("latin-1").lower().partition(";")
    media = media.strip()
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters)
    if charset is not None and charset.group(1) not in ("utf-8", "utf8", "us-ascii"):
        raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, "The request body must be UTF-8.")
    if media not in ("application/json", "") and not media.endswith("+json"):
        raise refusal(
            FaultKind.UNSUPPORTED_MEDIA_TYPE, "The request's content type must be application/json."
        )


def _grant(visit: Visit) -> None:
    """The vendors' SDKs send dozens of headers, so a preflight is granted what it asks for."""
    asked = visit.headers.get(b"access-control-request-headers")
    if asked:
        visit.lines += _CORS
        visit.shared.append((_CORS_ALLOWED, _CORS_HEADERS + b", " + asked))
    else:
        visit.lines += _CORS_USUAL


def _wants_websocket(visit: Visit) -> bool:
    return visit.headers.get(b"upgrade", b"").lower() == b"websocket"

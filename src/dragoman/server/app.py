"""The application: routes, keys, and an error in the client's own shape for everything else.

Without a framework: there are a dozen routes, and what a framework adds to each request costs more
than the translation.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.accounts.pool import AccountPool
from dragoman.canonical.errors import DragomanError, FaultKind, Refused
from dragoman.config import Config
from dragoman.edge.auth import (
    PROTOCOLS,
    SECRET_PREFIX,
    Caller,
    Guessed,
    Unsettled,
    presented_key,
    take_key,
    take_protocol_key,
)
from dragoman.edge.browsers import check_host, check_unkeyed
from dragoman.edge.continuation import Continuation
from dragoman.edge.errors import fault_of, refusal
from dragoman.edge.incoming import IncomingRequest, Received, media_type
from dragoman.edge.logins import Logins
from dragoman.edge.paths import implied_codec, normal_path
from dragoman.edge.record import CLIENT_GONE, LOSSES_HEADER, Record, log_line
from dragoman.http import ClientGone
from dragoman.http.addresses import Proxies
from dragoman.http.head import asks_for_websocket
from dragoman.link.messages import Handlers, Peer
from dragoman.observability.metrics.exposition import content_type, takes_openmetrics
from dragoman.observability.metrics.scrape import WorkerSlot
from dragoman.processes.reload import ReloadRequest
from dragoman.protocols.base import to_json
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import with_settings
from dragoman.server.common import Common
from dragoman.server.front_page import front_page
from dragoman.server.routes import Audience, FindName, Handler, Route, Routes
from dragoman.server.services import Generation, Services
from dragoman.serving.exchange import SHUTTING_DOWN

if TYPE_CHECKING:
    from dragoman.admin.server import Admin
    from dragoman.responses.websocket.service import WebSockets

_log = logging.getLogger("dragoman")

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


class Serving(Struct, frozen=True):
    """A configuration, ready to be served, and the routes to what serves it."""

    generation: Generation
    routes: Mapping[str, Route]
    find: Callable[[str, bytes], Route]


class Gateway:
    """The application. It serves one configuration at a time: `prepare` makes another ready, and
    `adopt` puts it in place with one assignment. A request ends on the one it began with.

    It needs `start` and `close`, in the loop that serves, for its connections to upstreams and its
    store. `account_sync` writes what the pool learns to the store, and the usage that `meter`
    counts; None if nothing is stored. While `draining`, `/readyz` fails. `log` is called with the
    line of each request, None for no lines; `slot` is this worker's among others, None if there are
    none. `reload` reads the configuration anew, None where it came from no file; `number` is how
    many configurations this gateway has had; `link` is that to the owner of what workers have in
    common, None if this process is one by itself.
    """

    def __init__(
        self,
        config: Config,
        log: Callable[[bytes], None] | None = log_line,
        slot: WorkerSlot | None = None,
        reload: ReloadRequest | None = None,
        number: int = 1,
        link: Peer | None = None,
    ) -> None:
        self.common = Common(config) if link is None else None
        """What workers have in common, if this process is one by itself."""
        if self.common is not None:
            link = self.common.owner.join(Handlers())
        assert link is not None
        self.draining = False
        self._is_first = slot is None or not slot.number
        self._logins = Logins(config.server.failed_logins, link)
        self._serving = 0
        services = self._services = Services(
            config, log, slot, lambda: self._serving, reload, number, lambda: self.draining, link
        )
        self.meter = services.meter
        self.account_sync = services.account_sync
        self._client = services.client
        self._scrape = services.scrape
        self._recorder = services.recorder
        self._current = self._with_routes(services.generation)
        self._recorder.know_paths(self._current.routes)
        self._websocket = config.websocket

    @property
    def config(self) -> Config:
        """The configuration that is served."""
        return self._current.generation.config

    @cached_property
    def websockets(self) -> WebSockets:
        """Responses over WebSocket."""
        from dragoman.responses.websocket.service import WebSockets

        return WebSockets(
            self._services.sockets, lambda: self.config.server, self, self._services.large
        )

    @property
    def pool(self) -> AccountPool:
        """The accounts of the configuration that is served."""
        return self._current.generation.pool

    @property
    def proxies(self) -> Proxies:
        """The proxies that are believed."""
        return self._current.generation.proxies

    @property
    def number(self) -> int:
        """How many configurations there were up to the one that is served."""
        return self._current.generation.number

    def prepare(self, config: Config, number: int) -> Serving:
        """Make a configuration ready to be served. Nothing is changed, and any thread may call it.

        Raises:
            PriceError: its table of prices cannot be used.
        """
        return self._with_routes(self._services.prepare(config, number))

    def adopt(self, serving: Serving) -> None:
        """Serve what was prepared, from the next request on."""
        self._services.adopt(serving.generation)
        self._recorder.know_paths(serving.routes)
        self._current = serving

    def _with_routes(self, generation: Generation) -> Serving:
        routes = Routes(
            generation,
            {
                "/": front_page,
                "/healthz": self._healthy,
                "/readyz": self._ready,
                "/metrics": self._metrics,
            },
        )
        return Serving(generation, routes.fixed, routes.find)

    async def start(self) -> None:
        """Make ready to call upstreams, in the running loop, with all that the store knows."""
        await self._services.start()
        if (
            self._current.generation.keys.is_open
            and self.account_sync is not None
            and self._is_first
        ):
            _log.warning(
                "%s: has no client key, and require_key is off: everyone on this machine may call",
                self.config.storage.place,
            )

    async def finish(self, grace_s: float) -> None:
        """Wait for the responses that are made in the background, so many seconds at most."""
        await self._services.background.drain(grace_s)

    async def close(self) -> None:
        """Close the connections to upstreams, and write to the store what it does not know yet."""
        await self._services.close()
        if self.common is not None:
            await self.common.close()

    async def __call__(self, received: Received, continuation: Continuation | None = None) -> None:
        """Answer a request, whatever happens. `continuation` is what it continues, if it came over
        a WebSocket."""
        record = Record()
        # It ends on this, whatever is served meanwhile.
        serving = self._current
        now = serving.generation
        # Behind the proxies that are trusted.
        record.address = now.proxies.client(received.address, received.headers)
        path = received.path
        route = serving.routes.get(path)
        if route is None:
            path = normal_path(path)
            route = serving.routes.get(path) or serving.find(path, received.query)
        codec = route.codec or implied_codec(received.headers, received.query)
        incoming = IncomingRequest(
            received, codec, self._client.clock, path, route.operation, now.config.options
        )
        incoming.continuation = continuation
        if self.draining:
            incoming.shared.append((b"connection", b"close"))
        is_counted = incoming.method == "POST" and route.audience is not Audience.ADMINISTRATORS
        self._serving += is_counted
        try:
            await self._answering(incoming, now, route, record)
        except ClientGone:
            record.error = CLIENT_GONE
            incoming.status = incoming.status or _STATUS_CLIENT_GONE
        except asyncio.CancelledError:
            # The server is going down.
            record.error = record.error or SHUTTING_DOWN.kind
            if not incoming.status:
                route.fail(incoming, SHUTTING_DOWN)
            elif not incoming.ended:
                raise
        except Exception as error:
            fault = fault_of(error, incoming.request_id)
            record.fail(fault)
            if isinstance(error, Refused):
                record.losses = error.losses
            # Once it has begun it is too late for words: the server breaks the connection off.
            if not incoming.status:
                route.fail(incoming, fault)
        finally:
            self._serving -= is_counted
            self._recorder.record(incoming, record)

    def _answering(
        self, incoming: IncomingRequest, now: Generation, route: Route, record: Record
    ) -> Awaitable[None]:
        """What answers a request, to be awaited at once.

        Raises:
            DragomanError: nothing does, or not for this caller, or not now.
        """
        audience, method = route.audience, incoming.method
        is_open, endpoint = now.keys.is_open, incoming.codec.endpoint
        if incoming.query and endpoint.key_parameter and audience not in _OPERATORS:
            take_key(incoming, endpoint)
        if now.config.server.cors and not is_open and audience in _PAGES:
            _allow_pages(incoming)
        if is_open:
            check_unkeyed(incoming)
        elif audience in _LOCAL:
            check_host(incoming)
        if audience is Audience.ADMINISTRATORS and now.admin is not None:
            return self._administer(now.admin, incoming, record)
        if method == "OPTIONS":
            return _permit(incoming)
        if not route.methods:
            message = f"Unknown path: {method} {incoming.path[:200]}"
            if now.admin is None and incoming.path.startswith(("/ui", "/admin")):
                message += ": switch it on with [admin] key in the configuration"
            raise refusal(FaultKind.NOT_FOUND, message, code="not_found")
        handler = route.methods.get(method) or self._upgrading(incoming, now, route, record)
        if route.open:
            return handler(incoming, Caller(""), record)
        if route.takes_secrets or route.keyless is not None:
            finding = self._find_caller(incoming, now, route, record)
            if finding is not None:
                return self._for_caller_found(finding, incoming, now, route, handler, record)
        try:
            caller = self._identify(incoming, now, record)
        except Unsettled:
            finding = self._once_known(incoming, now, record)
            return self._for_caller_found(finding, incoming, now, route, handler, record)
        except DragomanError:
            incoming.shared.append((b"www-authenticate", route.challenge))
            raise
        return self._for_caller(incoming, now, route, handler, caller, record)

    async def _administer(self, admin: Admin, incoming: IncomingRequest, record: Record) -> None:
        record.error = await admin.serve(incoming, record.address, self._logins.failed)

    def _find_caller(
        self, incoming: IncomingRequest, now: Generation, route: Route, record: Record
    ) -> Awaitable[Caller] | None:
        """Find the caller by what a request has in place of a key; None if it has a key."""
        if route.takes_secrets and PROTOCOLS in incoming.headers:
            take_protocol_key(incoming)
        key = presented_key(incoming.headers)
        if key is None and route.keyless is not None:
            return self._by_its_own(route.keyless, incoming, now, record)
        if key is not None and route.takes_secrets and key.startswith(SECRET_PREFIX):
            return self._by_secret(key, now, record)
        return None

    async def _by_secret(self, secret: bytes, now: Generation, record: Record) -> Caller:
        """The caller that a client secret is of."""
        found = await self._services.client_secrets.find(secret)
        if found is None:
            self._count_wrong_key(record)
            message = "The client secret is not valid for this gateway, or has expired."
            raise refusal(FaultKind.UNAUTHENTICATED, message, code="invalid_api_key")
        return now.keys.named(found.client, found.digest)

    async def _by_its_own(
        self, keyless: FindName, incoming: IncomingRequest, now: Generation, record: Record
    ) -> Caller:
        """The caller that what a request names is of, such as an upload."""
        name = "" if now.keys.is_open else await keyless(incoming)
        if name:
            return now.keys.named(name, address=record.address)
        return self._identify(incoming, now, record)

    async def _once_known(
        self, incoming: IncomingRequest, now: Generation, record: Record
    ) -> Caller:
        """The caller that an access token is of whose session or key is not known, once what is
        stored is known, where it may have been given at another worker just now, and what its
        issuer publishes."""
        if self.account_sync is not None:
            await self.account_sync.exchanged()
        if now.jwt_issuers is not None:
            await now.jwt_issuers.fetch(presented_key(incoming.headers) or b"")
        return self._identify(incoming, now, record)

    async def _for_caller_found(
        self,
        finding: Awaitable[Caller],
        incoming: IncomingRequest,
        now: Generation,
        route: Route,
        handler: Handler,
        record: Record,
    ) -> None:
        """Answer a request whose caller is still to be found."""
        try:
            caller = await finding
        except DragomanError:
            incoming.shared.append((b"www-authenticate", route.challenge))
            raise
        await self._for_caller(incoming, now, route, handler, caller, record)

    def _for_caller(
        self,
        incoming: IncomingRequest,
        now: Generation,
        route: Route,
        handler: Handler,
        caller: Caller,
        record: Record,
    ) -> Awaitable[None]:
        """What answers a request of a caller: `handler`, to be awaited at once. What it reads of a
        body, the operator's check has seen.

        Raises:
            DragomanError: not for this caller, or not now.
        """
        record.caller, record.team = caller.name, caller.team
        if caller.paths and not route.for_all and not caller.may_call(incoming.path):
            message = f"This API key may not be used for {incoming.path[:200]}."
            raise refusal(FaultKind.FORBIDDEN, message, code="path_not_allowed")
        if now.request_check is not None:
            incoming.check = partial(now.request_check.check, caller.name)
        if incoming.method == "POST":
            if not route.takes_any:
                check_content_type(incoming.headers.get(b"content-type"))
            if self._serving > now.config.server.max_concurrent:
                incoming.shared.append((b"retry-after", b"%d" % _BUSY_RETRY_S))
                message = "The gateway serves as many requests as it may."
                raise refusal(FaultKind.OVERLOADED, message)
        return handler(incoming, caller, record)

    def _upgrading(
        self, incoming: IncomingRequest, now: Generation, route: Route, record: Record
    ) -> Handler:
        """What serves a WebSocket on a route that has no handler for the method.

        Raises:
            DragomanError: METHOD_NOT_ALLOWED, or UPGRADE_REQUIRED where WebSockets are not served.
        """
        wants_socket = asks_for_websocket(incoming.headers)
        if wants_socket and route.upgrades and self._websocket.enabled:
            return self.websockets.serve
        if wants_socket:
            incoming.shared.append((b"upgrade", b"HTTP/1.1"))
            incoming.shared.append((b"connection", b"close"))
            raise refusal(FaultKind.UPGRADE_REQUIRED, "Websockets are not served here; use POST.")
        with suppress(DragomanError):
            self._identify(incoming, now, record)
        incoming.shared.append((b"allow", ", ".join([*route.methods, "OPTIONS"]).encode()))
        raise refusal(
            FaultKind.METHOD_NOT_ALLOWED,
            f"{incoming.method} is not allowed on {incoming.path[:200]}.",
        )

    def _identify(self, incoming: IncomingRequest, now: Generation, record: Record) -> Caller:
        """Who calls. From here on, errors have the form of that client's dialect.

        Raises:
            DragomanError: UNAUTHENTICATED, or RATE_LIMITED after too many failed logins.
        """
        try:
            caller = now.keys.identify(incoming.headers, record.address)
        except Guessed:
            self._count_wrong_key(record)
            raise
        if caller.dialect is not None:
            incoming.options = with_settings(incoming.options, DIALECTS[caller.dialect])
        return caller

    def _count_wrong_key(self, record: Record) -> None:
        """Count a wrong key of the client's address.

        Raises:
            DragomanError: RATE_LIMITED: there were too many of them.
        """
        if wait := self._logins.failed(record.address):
            message = "The API key is missing or wrong, as were too many others from this address."
            raise refusal(FaultKind.RATE_LIMITED, message, retry_after=wait)

    async def _metrics(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        admin = self._current.generation.admin
        if not (incoming.is_local or (admin is not None and await admin.admits(incoming))):
            if presented_key(incoming.headers) is not None:
                self._count_wrong_key(record)
            incoming.shared.append((b"www-authenticate", b"Bearer"))
            raise refusal(FaultKind.UNAUTHENTICATED, "Metrics are for the administration's token.")
        openmetrics = takes_openmetrics(incoming.headers.get(b"accept", b""))
        text = await self._scrape.text(openmetrics=openmetrics)
        media = b"content-type: %b\r\n" % content_type(openmetrics=openmetrics)
        incoming.reply(200, text, media=media)

    async def _healthy(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        health = {"status": "ok"}
        if self.account_sync is not None and not self.account_sync.working:
            health["store"] = "failing"
        if self._scrape.limits_away is not None and self._scrape.limits_away():
            health["limits"] = "away"
        incoming.reply(200, to_json(health))

    async def _ready(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        if self.draining:
            incoming.reply(503, b'{"status":"draining"}')
        elif not self.pool.usable():
            incoming.reply(503, b'{"status":"no usable account"}')
        else:
            incoming.reply(200, to_json({"status": "ready", **self._scrape.workers()}))


_OPERATORS = (Audience.OPERATORS, Audience.ADMINISTRATORS)
_LOCAL = (*_OPERATORS, Audience.DASHBOARD)
"""Whom a request from this machine reaches by a name of this machine only."""
_PAGES = (Audience.CLIENTS, Audience.DASHBOARD)
"""Whose paths pages of other origins may call, where clients have keys."""


def check_content_type(value: bytes | None) -> None:
    """Check the content type of a body: JSON in UTF-8, or none given.

    Raises:
        DragomanError: UNSUPPORTED_MEDIA_TYPE.
    """
    if value is None or value == b"application/json":
        return
    media = media_type(value)
    parameters = value.decode("latin-1").lower().partition(";")[2]
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters)
    if charset is not None and charset.group(1) not in ("utf-8", "utf8", "us-ascii"):
        raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, "The request body must be UTF-8.")
    if media not in ("application/json", "") and not media.endswith("+json"):
        raise refusal(
            FaultKind.UNSUPPORTED_MEDIA_TYPE, "The request's content type must be application/json."
        )


async def _permit(incoming: IncomingRequest) -> None:
    """Answer a preflight."""
    incoming.reply(200, b"")


def _allow_pages(incoming: IncomingRequest) -> None:
    """Let pages of other origins read the answer, and send what they ask for in a preflight: the
    vendors' SDKs send dozens of headers."""
    asked = incoming.headers.get(b"access-control-request-headers")
    if asked and incoming.method == "OPTIONS":
        incoming.lines += _CORS
        incoming.shared.append((_CORS_ALLOWED, _CORS_HEADERS + b", " + asked))
    else:
        incoming.lines += _CORS_USUAL

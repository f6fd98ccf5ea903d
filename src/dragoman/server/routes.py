"""Which handlers serve a path: a table of fixed paths, and paths with an id or a model in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman import dashboard
from dragoman.admin import own_usage
from dragoman.admin.self_service import SelfService
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.edge.auth import Caller
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.endpoints.faces import FACES
from dragoman.endpoints.table import PATHS, Place, place_of
from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec, Operation
from dragoman.server import managed_settings, telemetry
from dragoman.server.models import ModelEndpoints
from dragoman.server.services import Generation

if TYPE_CHECKING:
    from dragoman.mcp.endpoints import McpEndpoints

Handler = Callable[[IncomingRequest, Caller, Record], Awaitable[None]]

FindName = Callable[[IncomingRequest], Awaitable[str]]
"""Finds the name of the client of a request by what it names, empty if by nothing."""

_REMEMBERED, _SHORT = 256, 256
"""Routes that are remembered, and the length of the paths that they may have."""

_USUAL = (b"", b"alt=sse")
"""Queries with which they are; others may have a key."""

_COMPACT = "compact"
"""The name of an endpoint that stands where an id would."""


class Audience(Enum):
    """Whom a path is for."""

    CLIENTS = "clients"
    PEOPLE = "people who sign in"
    DASHBOARD = "the dashboard"
    OPERATORS = "operators"
    ADMINISTRATORS = "the administration"


def _audience(path: str) -> Audience:
    if path == "/admin" or path.startswith("/admin/"):
        return Audience.ADMINISTRATORS
    if path.startswith(("/admin", "/metrics")):
        return Audience.OPERATORS
    if path.startswith(dashboard.PATH):
        return Audience.DASHBOARD
    return Audience.PEOPLE if path.startswith(("/device", "/oauth/")) else Audience.CLIENTS


class Route(Struct, frozen=True):
    """One path: a handler for each method, none if it is unknown, the client's protocol that it
    implies, None if it implies none, and what else stands in it. An `open` route needs no client
    key, one `for_all` is for every key, one that `upgrades` is served over WebSocket, too, and one
    that `takes_any` takes bodies of other content types than JSON. `takes_secrets`: a client secret
    of realtime may take the place of a key; `keyless` finds the client of a request without one.
    Who has no valid key is sent `challenge`; `fail` answers errors."""

    methods: Mapping[str, Handler]
    codec: Codec | None = None
    operation: Operation | None = None
    open: bool = False
    for_all: bool = False
    upgrades: bool = False
    takes_any: bool = False
    challenge: bytes = b"Bearer"
    fail: Callable[[IncomingRequest, Fault], None] = IncomingRequest.fail
    takes_secrets: bool = False
    keyless: FindName | None = None
    audience: Audience = Audience.CLIENTS


class Routes:
    """The routes of all protocols to what serves them in one configuration, and those in
    `open_handlers`, which need no client key.

    `fixed` has the routes of paths that hold nothing else; `find` makes the others.
    """

    def __init__(self, services: Generation, open_handlers: Mapping[str, Handler]) -> None:
        self._services = services
        self._models = ModelEndpoints(services.catalogue)
        stored = services.stored
        self.below_response = {
            "": {"GET": stored.show, "HEAD": stored.show, "DELETE": stored.delete},
            "input_items": {"GET": stored.items},
            "cancel": {"POST": stored.cancel},
            "submit_tool_outputs": {"POST": stored.submit},
        }
        """What serves a path below that of a response, by its end and the method."""
        self.fixed: dict[str, Route] = {}
        self._found_before = lru_cache(_REMEMBERED)(self._find)
        for codec in CODECS.values():
            self._add_endpoint(codec)
        for path, place in PATHS.items():
            self.fixed[path] = self._endpoint(place)
        self.fixed[own_usage.PATH] = _reading(services.own_usage.serve, None)
        for path in telemetry.PATHS:
            self.fixed[path] = Route(
                {"POST": services.telemetry.serve}, for_all=True, takes_any=True
            )
        for path in ("/v1/model/info", "/model/info"):
            self.fixed[path] = _reading(self._models.info, None)
        own = SelfService(services.limits, services.own_usage)
        self.fixed["/v1/key"] = _reading(own.key, None)
        for codec in CODECS.values():
            if (notices := codec.endpoint.budgets).path:
                self.fixed[notices.path] = _reading(partial(own.spending, notices), codec)
        self.fixed[managed_settings.PATH] = _reading(services.managed.serve, None)
        if services.sign_in is not None:
            for path, methods in services.sign_in.handlers().items():
                self.fixed[path] = Route(methods, open=True)
        if services.mcp is not None:
            self._add_mcp(services.mcp)
        for path, handler in open_handlers.items():
            self.fixed[path] = _open(handler)
        if services.admin is not None:
            self.fixed[dashboard.PATH] = _open(_dashboard)
        for path, route in self.fixed.items():
            self.fixed[path] = replace(route, audience=_audience(path))

    def _add_mcp(self, mcp: McpEndpoints) -> None:
        """Add the MCP servers, and where their clients find the sign-in."""
        sign_in = self._services.sign_in
        for path, methods in mcp.handlers().items():
            challenge = b"Bearer"
            if sign_in is not None:
                metadata, handler, challenge = sign_in.protect(path)
                self.fixed[metadata] = _open(handler)
            self.fixed[path] = Route(methods, challenge=challenge, fail=mcp.fail)

    def find(self, path: str, query: bytes = b"") -> Route:
        """The route of a path with an id or a model in it, or that is unknown. What a protocol
        reads from a path comes before the lists of models, which may stand on the same path."""
        if query in _USUAL and len(path) < _SHORT:
            return self._found_before(path, query)
        return self._find(path, query)

    def _find(self, path: str, query: bytes) -> Route:
        found = self._known(path, query)
        return Route({}, audience=_audience(path)) if found is None else found

    def _known(self, path: str, query: bytes) -> Route | None:
        if path.startswith(dashboard.PATH + "/"):
            return self.fixed.get(dashboard.PATH)
        asked = query.decode("latin-1")
        for codec in CODECS.values():
            operation = codec.endpoint.operation_of(path, asked)
            if operation is not None:
                return self._operation(codec, operation)
        place = place_of(path)
        if place is not None:
            return self._endpoint(place)
        for find in (self._model, self._below_endpoint):
            for codec in CODECS.values():
                route = find(codec, path)
                if route is not None:
                    return route
        return None

    def _add_endpoint(self, codec: Codec) -> None:
        endpoint, services = codec.endpoint, self._services
        if endpoint.read_path is None:
            stores = endpoint.stores_responses
            serve = services.stored.create if stores else services.exchange.serve
            route = Route({"POST": serve}, codec, upgrades=stores)
            self.fixed[endpoint.version + endpoint.path] = route
            if stores:
                compact = Route({"POST": services.stored.compact}, codec)
                self.fixed[f"{endpoint.version}{endpoint.path}/{_COMPACT}"] = compact
        if endpoint.counting is not None and endpoint.counting.locate is None:
            path = endpoint.version + endpoint.counting.path
            self.fixed[path] = Route({"POST": services.counter.serve}, codec)
        for models in _model_paths(codec):
            # A path of several protocols implies none of them.
            implied = None if models in self.fixed else codec
            self.fixed[models] = _reading(self._models.list, implied)

    def _endpoint(self, place: Place) -> Route:
        """The route of the rows of the table of endpoints that share a path."""
        rows = tuple(place.rows.values())
        endpoints = self._services.endpoints
        methods: dict[str, Handler] = {
            row.method: endpoints.handler(row, place.parameters) for row in rows
        }
        codec = FACES[rows[0].face]
        if place.other is not None:
            # Who calls decides whose path it is.
            codec = None
            for method, row in place.other.rows.items():
                theirs = endpoints.handler(row, place.other.parameters)
                handlers = theirs, methods.get(method)
                methods[method] = partial(_of_vendor, FACES[row.face], *handlers)
        if "GET" in methods:
            methods.setdefault("HEAD", methods["GET"])
        return Route(
            methods,
            codec,
            Operation(name=rows[0].path, model=place.parameters.get("model")),
            takes_any=any(row.body not in ("json", "none") for row in rows),
            takes_secrets=any(row.takes_secrets for row in rows),
            keyless=endpoints.uploader if rows[0].body == "raw" else None,
        )

    def _operation(self, codec: Codec, operation: Operation) -> Route:
        services = self._services
        if operation.answer:
            return self._stored(codec, operation.answer, operation.below, operation)
        serve = services.counter.serve if operation.counts else services.exchange.serve
        if codec.endpoint.stored is not None:
            serve = services.stored.create
        methods: dict[str, Handler] = {"POST": serve}
        if codec.endpoint.unserved:
            methods["GET"] = partial(_refuse, codec.endpoint.unserved)
        return Route(methods, codec, operation)

    def _stored(
        self, codec: Codec, answer: str, below: str, operation: Operation | None = None
    ) -> Route:
        """The route of what is asked for of a stored answer."""
        handlers = self.below_response[below]
        methods: dict[str, Handler] = {
            method: partial(serve, answer) for method, serve in handlers.items()
        }
        return Route(methods, codec, operation)

    def _model(self, codec: Codec, path: str) -> Route | None:
        for models in _model_paths(codec):
            if name := _below(path, models):
                implied = self.fixed[models].codec
                return _reading(partial(self._models.show, name), implied)
        return None

    def _below_endpoint(self, codec: Codec, path: str) -> Route | None:
        endpoint = codec.endpoint
        name = _below(path, endpoint.version + endpoint.path)
        if name and endpoint.unserved:
            refuse = partial(_refuse, endpoint.unserved)
            return Route(dict.fromkeys(("GET", "POST", "DELETE"), refuse), codec)
        if name and endpoint.stores_responses:
            response, _, below = name.partition("/")
            if below in self.below_response and response != _COMPACT:
                return self._stored(codec, response, below)
        return None


def _open(handler: Handler) -> Route:
    return Route({"GET": handler, "HEAD": handler}, open=True)


def _reading(handler: Handler, codec: Codec | None) -> Route:
    return Route({"GET": handler, "HEAD": handler}, codec, for_all=True)


def _model_paths(codec: Codec) -> list[str]:
    """The paths at which clients of a protocol ask for its list of models."""
    endpoint = codec.endpoint
    return [version + endpoint.models.path for version in (endpoint.version, *endpoint.versions)]


def _below(path: str, parent: str) -> str:
    """What stands below `parent` in a path, empty if it is not below it."""
    return path[len(parent) + 1 :] if path.startswith(f"{parent}/") else ""


def _of_vendor(
    codec: Codec | None,
    theirs: Handler,
    of_others: Handler | None,
    incoming: IncomingRequest,
    caller: Caller,
    record: Record,
) -> Awaitable[None]:
    """Have a request on a path of several vendors answered by the row of its own: `theirs` is for
    clients of the protocol `codec`.

    Raises:
        DragomanError: its vendor has none.
    """
    handler = theirs if incoming.codec is codec else of_others
    if handler is None:
        message = f"{incoming.method} is not allowed on {incoming.path[:200]}."
        raise refusal(FaultKind.METHOD_NOT_ALLOWED, message)
    return handler(incoming, caller, record)


async def _refuse(message: str, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
    raise refusal(FaultKind.NOT_FOUND, message)


async def _dashboard(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
    """Serve a file of the dashboard. None of them holds a secret, so no key is needed."""
    from dragoman.dashboard.files import load_files

    file = load_files().find(incoming.path)
    if file is None:
        raise refusal(FaultKind.NOT_FOUND, "There is no such file.", code="not_found")
    body, headers = file.body, file.headers
    if b"gzip" in incoming.headers.get(b"accept-encoding", b""):
        body, headers = file.compressed, [*headers, (b"content-encoding", b"gzip")]
    incoming.reply(200, body, headers, b"content-type: %b\r\n" % file.media_type)

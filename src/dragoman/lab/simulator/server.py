"""The simulator's application: it speaks five protocols.

``app`` is ready to serve; ``create_app`` makes one with other bounds; ``run`` serves it.
"""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

import msgspec

from dragoman.http import BodyRefused, ClientGone, Request
from dragoman.http.head import asks_for_websocket
from dragoman.http.websocket import BadHandshake, accept
from dragoman.lab.simulator.clouds import cloud_call
from dragoman.lab.simulator.connection import Connection
from dragoman.lab.simulator.control import control
from dragoman.lab.simulator.delivery import Reply
from dragoman.lab.simulator.endpoints import EndpointHandlers
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.google_calls import (
    google_call,
    interaction_path,
    is_google,
)
from dragoman.lab.simulator.google_holdings import GoogleAsked
from dragoman.lab.simulator.handlers import Handlers, RequestContext
from dragoman.lab.simulator.holdings import Asked
from dragoman.lab.simulator.listing import (
    anthropic_list,
    anthropic_model,
    google_list,
    google_model,
    inference_profiles,
    openai_list,
    openai_model,
)
from dragoman.lab.simulator.realtime import AZURE_PATH as AZURE_REALTIME
from dragoman.lab.simulator.realtime import PATH as REALTIME
from dragoman.lab.simulator.realtime import Realtime, has_own_key
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.serving import SimulatorServer, bind
from dragoman.lab.simulator.sockets import LIMITS, SimulatedSocket
from dragoman.lab.simulator.state import State

DEFAULT_PORT = 8099
_MAX_BODY = 64 * 1024 * 1024
_KEY_REFUSED = (401, 403)
"""Statuses of a key that is refused whatever is asked, the list of models too."""
_JSON = "application/json"


class Simulator(State):
    """A scripted upstream, as an application over its state. ``realtime`` has its sessions."""

    def __init__(self, *, record: int = 256, record_bytes: int = _MAX_BODY) -> None:
        super().__init__(record, record_bytes)
        self.realtime = Realtime()
        handlers = self._handlers = Handlers(self)
        endpoints = EndpointHandlers(self)
        self._methods: dict[str, Callable[[RequestContext], Awaitable[None]]] = {
            "generateContent": handlers.generate,
            "streamGenerateContent": handlers.generate,
            "countTokens": handlers.count_tokens,
            **endpoints.methods,
        }
        self._posts: dict[str, tuple[Protocol, Callable[[RequestContext], Awaitable[None]]]] = {
            "/v1/chat/completions": ("chat", handlers.generate),
            "/v1/messages": ("messages", handlers.generate),
            "/v1/responses": ("responses", handlers.generate),
            "/v1/messages/count_tokens": ("messages", handlers.count_tokens),
            "/v1/responses/input_tokens": ("responses", handlers.count_tokens),
            **{path: ("chat", handler) for path, handler in endpoints.posts.items()},
        }

    async def __call__(self, request: Request) -> None:
        path = request.path
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.headers.items()
        )
        query = request.query.decode("latin-1")
        record = RecordedRequest(self.received, request.method, path, query, headers)
        connection = Connection(request)
        reply = Reply(request, connection, record)
        by_name = dict(headers)
        cloud = cloud_call(path, query)
        protocol = _protocol_of(path, query, by_name) if cloud is None else cloud.protocol
        context = RequestContext(record, by_name, reply, connection, protocol)
        context.call, context.cloud = google_call(path, query), cloud
        context.authority = self.authority
        try:
            await self._route(context, request)
        except ApiError as error:
            await context.fail(error.failure(protocol) if cloud is None else cloud.failure(error))
        except ClientGone:
            record.disconnected = True

    async def _route(self, context: RequestContext, request: Request) -> None:
        record = context.record
        method, path = record.method, record.path
        query = dict(parse_qsl(record.query))
        is_piece = self.google.is_piece(path, query)
        try:
            if is_piece:
                await self._piece(context, request)
            else:
                record.body = await request.body(_MAX_BODY)
        except BodyRefused as refused:
            raise ApiError(refused.problem.status, refused.problem.message, code="body") from None
        if path.startswith("/_sim/"):
            status, body = control(self, record)
            await context.reply.whole(status, [("content-type", _JSON)], body)
            return
        issued = self.authority.answer(record)
        if issued is not None:
            await context.reply.whole(*issued)
            return
        record.number = self.received
        self.received += 1
        self.requests.add(record)
        if (interaction := interaction_path(path)) and context.protocol == "interactions":
            await self._handlers.interaction(context, interaction)
            return
        if path in (REALTIME, AZURE_REALTIME) or path.startswith(f"{REALTIME}/"):
            if has_own_key(context.headers) or await self._accepted(context) is not None:
                await self.realtime.serve(context, request)
            return
        handler = self._handler(path, context)
        if handler is not None:
            if method == "GET" and asks_for_websocket(request.headers):
                self._upgrade(context, request)
                return
            if method != "POST":
                raise ApiError(405, f"Method {method} is not allowed.", code="method_not_allowed")
            if context.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
                raise ApiError(415, f"The content type must be {_JSON}.", code="media_type")
            await handler(context)
            return
        if (key := "" if is_piece else await self._accepted(context)) is None:
            return
        if context.protocol == "google":
            given = self.google.answer(_asked_of_google(context, key))
        else:
            given = self.holdings.answer(_asked(context, key))
        if given is not None:
            body = given.content if given.shown is None else msgspec.json.encode(given.shown)
            headers = [("content-type", given.media), *context.common_headers(), *given.headers]
            await context.reply.whole(200, headers, body)
            return
        if (resource := self._resource(context)) is None:
            message = f"Invalid URL ({method} {path})"
            raise ApiError(404, message, code="unknown_url")
        headers = [("content-type", _JSON), *context.common_headers()]
        await context.reply.whole(200, headers, msgspec.json.encode(resource))

    async def _piece(self, context: RequestContext, request: Request) -> None:
        """Read a piece of an upload. What came of one that breaks off is kept."""
        body = bytearray()

        def take(data: bytes) -> bool:
            body.extend(data)
            return True

        try:
            await request.pipe(take, _MAX_BODY)
        except ClientGone:
            context.record.body = bytes(body)
            self.google.broken(_asked_of_google(context, ""))
            raise
        context.record.body = bytes(body)

    async def _accepted(self, context: RequestContext) -> str | None:
        """The key of a request; None if it is refused, and answered so."""
        key = context.authenticate()
        fault = self.keys.behaviour(key).fault_of(self.keys.requests[key])
        if fault is None or fault.kind != "error" or fault.failure.status not in _KEY_REFUSED:
            return key
        await context.fail(fault.failure)
        return None

    def _handler(
        self, path: str, context: RequestContext
    ) -> Callable[[RequestContext], Awaitable[None]] | None:
        """What answers a POST to the path, or None."""
        if context.cloud is not None:
            counts = context.cloud.counts
            return self._handlers.count_tokens if counts else self._handlers.generate
        if context.call is not None:
            return self._methods.get(context.call.method)
        if interaction_path(path) == "":
            return self._handlers.generate
        return self._posts[path][1] if path in self._posts else None

    def _upgrade(self, context: RequestContext, request: Request) -> None:
        """Open a WebSocket, where the vendor has them."""
        if context.protocol != "responses" or not self.websockets:
            raise ApiError(426, "Websockets are not served here.", code="websockets")
        context.authenticate()
        try:
            accepted = accept(request, LIMITS)
        except BadHandshake as bad:
            raise ApiError(bad.status, bad.message, code="websockets") from None
        context.record.status = 101
        request.switch_to(SimulatedSocket(self, self._handlers, context, accepted, request.budget))

    def _resource(self, context: RequestContext) -> object:
        """What a path besides the posts answers with, or None."""
        method = context.record.method
        _, _, *parts = context.record.path.split("/")
        match method, parts:
            case "GET", ["models"]:
                query = dict(parse_qsl(context.record.query))
                names = self.model_names()
                if context.protocol == "google":
                    return google_list(names, query)
                is_openai = context.protocol != "messages"
                return openai_list(names) if is_openai else anthropic_list(names, query)
            case "GET", [] if context.record.path == "/inference-profiles":
                return inference_profiles(self.model_names())
            case "GET", ["models", name]:
                if name.partition("?")[0] not in self.model_names():
                    message = f"The model '{name[:60]}' does not exist."
                    raise ApiError(404, message, code="model_not_found")
                if context.protocol == "google":
                    return google_model(name)
                return (
                    anthropic_model(name) if context.protocol == "messages" else openai_model(name)
                )
            case "GET", ["responses", response_id]:
                return self.store.get(response_id).response
            case "DELETE", ["responses", response_id]:
                self.store.delete(response_id)
                return {"id": response_id, "object": "response", "deleted": True}
            case "GET", ["responses", response_id, "input_items"]:
                items = self.store.get(response_id).input_items
                ids = [item.get("id") for item in items]
                return {
                    "object": "list",
                    "data": items[::-1],
                    "first_id": ids[-1] if ids else None,
                    "last_id": ids[0] if ids else None,
                    "has_more": False,
                }
        return None


def _asked(context: RequestContext, key: str) -> Asked:
    """What a request asks of the things that are held."""
    record, headers = context.record, context.headers
    _, _, *parts = record.path.split("/")
    return Asked(
        key,
        context.protocol == "messages",
        record.method,
        tuple(parts),
        headers.get("content-type", ""),
        record.body,
        f"http://{headers.get('host', '')}",
    )


def _asked_of_google(context: RequestContext, key: str) -> GoogleAsked:
    """The same of Google's."""
    record, headers = context.record, context.headers
    query, url = dict(parse_qsl(record.query)), f"http://{headers.get('host', '')}"
    return GoogleAsked(key, record.method, record.path, query, headers, record.body, url)


def _protocol_of(path: str, query: str, headers: Mapping[str, str]) -> Protocol:
    """Whose answer a path gets: error shapes and the model list depend on it."""
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        return "messages"
    if interaction_path(path) is not None:
        return "interactions"
    if is_google(path, query, headers):
        return "google"
    return "responses" if path.startswith("/v1/responses") else "chat"


def create_app(*, record: int = 256, record_bytes: int = _MAX_BODY) -> Simulator:
    """A new simulator that remembers the last ``record`` requests, in bounded memory."""
    return Simulator(record=record, record_bytes=record_bytes)


app = create_app()
"""The simulator that ``run`` serves."""


def run(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    announce: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve ``app`` until interrupted. `announce` gets the base URL once it is up.

    Raises:
        OSError: the address is taken or not there.
    """
    sock = bind(host, port)
    named, number = sock.getsockname()[:2]
    announce(f"http://[{named}]:{number}" if ":" in named else f"http://{named}:{number}")
    SimulatorServer(app, [sock]).run_here()

"""Realtime over WebSocket: handshakes of clients, and those with upstreams."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import FaultKind
from dragoman.edge.auth import PROTOCOLS, SECRET_PREFIX, Caller, presented_key
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.websockets import accepted
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.client_secrets import ClientSecret, ClientSecrets, unknown_call
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.realtime.meter import Meter
from dragoman.endpoints.realtime.session import RealtimeSession
from dragoman.http import Request
from dragoman.http.websocket import Accepted
from dragoman.serving.failures import Failure, failed_call, refused
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.upstream.client_socket import HandshakeFailed
from dragoman.upstream.errors import CallError, ConnectTimeout
from dragoman.upstream.relayed_socket import RelayedSocket
from dragoman.upstream.request import UpstreamRequest

_OWN = frozenset({"model", "deployment", "api-version", "call_id"})
"""Parameters of a client that say where a session is: what was found of them takes their place."""
_PROTOCOL = b"realtime"
_SELECTED = b"sec-websocket-protocol: realtime\r\n"
_KEYS = ("authorization", "api-key")
_REFUSED_SECRET = "The client secret is refused by the upstream. Make another one."
_FORWARDED = (b"openai-beta", b"openai-safety-identifier")


class RealtimeSockets:
    """Serves `GET /v1/realtime`."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange
        self._parts = exchange.sessions

    async def serve(self, call: EndpointCall) -> None:
        """Open a session, and relay it to its end.

        Raises:
            DragomanError: it is no handshake, or a session may not be opened.
            ClientGone: the client left before.
        """
        sockets = self._parts.sockets()
        if not sockets.settings.enabled:
            raise refusal(FaultKind.UPGRADE_REQUIRED, "Websockets are not served here.")
        await call.incoming.check_head()
        lines = _SELECTED if _offers_protocol(call.incoming) else b""
        handshake = accepted(call.incoming, self._exchange.server, lines)
        sockets.admit(call.caller.name)
        try:
            await self._relay(call, handshake)
        finally:
            sockets.remove(call.caller.name)

    async def _relay(self, call: EndpointCall, handshake: Accepted) -> None:
        incoming = call.incoming
        sockets, request = self._parts.sockets(), incoming.received
        assert isinstance(request, Request)
        query = dict(parse_qsl(incoming.query.decode("latin-1"), keep_blank_values=True))
        opening = await self._read(query, incoming, call.caller)
        call.names(opening.model)
        call.only, call.stream, call.record.stream = opening.account, True, True
        self._exchange.resolve(call)
        asked = {name: value for name, value in query.items() if name not in _OWN}
        if opening.call:
            asked["call_id"] = opening.call
        # What a call uses is reported by the connection that the gateway itself has.
        counts = not opening.call
        keys, count = self._parts.keys, self._parts.count
        meter = Meter(self._exchange, call, keys, count, opening.secret, counts=counts)
        await meter.admit_first()

        async def attempt(call: EndpointCall, lease: Lease) -> None:
            upstream = await open_socket(self._exchange, call, lease, asked, opening.secret)
            idle_s = sockets.settings.idle_timeout_s
            budget = request.budget
            made = RealtimeSession(handshake, incoming.clock, budget, upstream, meter, idle_s)
            try:
                sockets.begin(incoming, made)
                await made.over.wait()
            finally:
                made.cancel()
                try:
                    await meter.finish(upstream)
                finally:
                    upstream.close()

        try:
            await self._exchange.run(call, attempt)
        finally:
            await meter.finish(None)

    async def _read(
        self, query: Mapping[str, str], incoming: IncomingRequest, caller: Caller
    ) -> _Opening:
        """What session a client asks for.

        Raises:
            DragomanError: it names none, or that of another.
        """
        secret = await presented_secret(self._parts.secrets(), incoming)
        if secret is not None:
            return _Opening(secret.model, secret.account, secret)
        if name := query.get("call_id"):
            found = await self._parts.secrets().find_call(name, caller.name)
            if found is None:
                raise unknown_call(name)
            return _Opening(found.model, found.account, call=name)
        model = query.get("model") or query.get("deployment") or ""
        if not model:
            message = "A realtime session needs its model in the URL: /v1/realtime?model=NAME."
            raise refusal(FaultKind.INVALID_REQUEST, message, code="missing_model")
        return _Opening(model)


class _Opening(Struct, frozen=True):
    """The session that a client asks for: its model; the one account that has it, empty for any;
    the client's secret, if it has one; and the call that it is of, empty for none."""

    model: str
    account: str = ""
    secret: ClientSecret | None = None
    call: str = ""


async def presented_secret(
    secrets: ClientSecrets, incoming: IncomingRequest
) -> ClientSecret | None:
    """The client secret that a request was let in with; None if it was another key.

    Raises:
        DragomanError: it has ended meanwhile, or the store cannot be asked.
    """
    key = presented_key(incoming.headers) or b""
    if not key.startswith(SECRET_PREFIX):
        return None
    found = await secrets.find(key)
    if found is None:
        raise refusal(FaultKind.UNAUTHENTICATED, "The client secret has expired.")
    return found


async def open_socket(
    exchange: EndpointExchange,
    call: EndpointCall,
    lease: Lease,
    query: Mapping[str, str],
    secret: ClientSecret | None = None,
) -> RelayedSocket:
    """Open the upstream's connection by one account.

    Raises:
        Failure: it is refused, or there is none.
        DragomanError: as `check_refused`.
    """
    upstreams, upstream = exchange.upstreams, call.plan.upstream
    builder = upstreams.builders.of(lease.account)

    async def ask() -> RelayedSocket | Failure:
        call.record.sent_at = time.perf_counter()
        try:
            return await upstreams.client.open_socket(_handshake(call, builder, query, secret))
        except HandshakeFailed as failed:
            if not failed.status:
                raise ConnectTimeout("the handshake was not answered") from None
            body = builder.mask.error(failed.body)
            failure = refused(upstream.codec, failed.status, failed.headers, body)
            check_refused(secret, failure)
            return failure

    try:
        opened = await builder.carry_out(ask)
    except CallError as error:
        raise failed_call(error, upstream.name) from None
    if isinstance(opened, Failure):
        raise opened
    upstreams.pool.heard(lease, opened.headers)
    call.begins(lease)
    lease.succeeded()
    return opened


def _handshake(
    call: EndpointCall,
    builder: UpstreamRequestBuilder,
    query: Mapping[str, str],
    secret: ClientSecret | None,
) -> UpstreamRequest:
    """The handshake with an upstream. Azure names a deployment in its older form. Connections to
    calls, and sessions that only transcribe, name no model."""
    upstream, model = call.plan.upstream, call.plan.target.model
    asked = dict(query)
    if "call_id" not in asked and asked.get("intent") != "transcription":
        name = "deployment" if upstream.service == "azure_deployments" else "model"
        asked[name] = model
    request = builder.bodyless("GET", "/realtime", urlencode(asked))
    passed = [
        (name.decode(), value.decode("latin-1"))
        for name, value in call.incoming.headers.items()
        if name in _FORWARDED
    ]
    request = replace(request, headers=(*request.headers, *passed), ready=None)
    return request if secret is None else as_holder(request, secret)


def check_refused(secret: ClientSecret | None, failure: Failure) -> None:
    """Make sure that a failure is of the account, and not of a client secret, which anybody who
    holds one may present too late.

    Raises:
        DragomanError: UNAUTHENTICATED: the upstream refuses the secret.
    """
    if secret is not None and failure.status in (401, 403):
        raise refusal(FaultKind.UNAUTHENTICATED, _REFUSED_SECRET, code="invalid_api_key")


def as_holder(request: UpstreamRequest, secret: ClientSecret) -> UpstreamRequest:
    """A request with the upstream's own secret in place of an account's key."""
    headers = [one for one in request.headers if one[0].lower() not in _KEYS]
    bearer = ("authorization", f"Bearer {secret.value}")
    return replace(request, headers=(*headers, bearer), authorisation=(), ready=None)


def _offers_protocol(incoming: IncomingRequest) -> bool:
    """Whether the client offers the subprotocol, and so waits for it to be selected."""
    offered = incoming.headers.get(PROTOCOLS, b"").split(b",")
    return _PROTOCOL in [one.strip() for one in offered]

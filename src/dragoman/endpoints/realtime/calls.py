"""Realtime besides its sockets: client secrets, and calls, whose media never pass the gateway.

What a call uses is reported by a second connection, which the gateway holds for as long as the call
lasts. The call ends with it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from math import inf
from typing import Any
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import media_type
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.client_secrets import LIFE_S, ClientSecret, unknown_call
from dragoman.endpoints.delivery import read_part
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.members import replaced
from dragoman.endpoints.multipart import BadMultipart, MultipartScanner, boundary_of
from dragoman.endpoints.realtime.events import transcriber_of
from dragoman.endpoints.realtime.meter import Meter
from dragoman.endpoints.realtime.sockets import (
    as_holder,
    check_refused,
    open_socket,
    presented_secret,
)
from dragoman.endpoints.usage import Measured
from dragoman.endpoints.wire import gateway_url, members_of
from dragoman.jsontext import JsonError, object_of
from dragoman.protocols.base import to_json
from dragoman.serving.failures import Failure
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.upstream.relayed_socket import RelayedSocket
from dragoman.upstream.request import UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_log = logging.getLogger("dragoman.gateway")

_MOST_BYTES = 1024 * 1024
_OFFERS = ("application/sdp", "multipart/form-data")
"""What a call begins with. In anything else an upstream may read a model that is not read here."""
_CALL_S = 2 * 3600.0
"""Seconds for which an id of a call is known: the vendor ends calls after an hour."""
_HANG_UP_S = 5.0
_TICK_S = 20.0
_NO_STORE = [(b"cache-control", b"no-store")]


class RealtimeCalls:
    """Serves what is posted below `/v1/realtime`."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange
        self._parts = exchange.sessions

    async def serve(self, call: EndpointCall) -> None:
        """Answer a request.

        Raises:
            DragomanError: it cannot be carried out.
            ClientGone: the client left.
        """
        body = await call.incoming.body(_MOST_BYTES)
        if "id" in call.parameters:
            await self._act(call, body)
        elif call.row.path.endswith("/client_secrets"):
            await self._make_secret(call, body)
        else:
            await self._begin_call(call, body)

    def _resolve(self, call: EndpointCall, model: str) -> None:
        """Find where a call for a session with a model goes. Its own request uses nothing that is
        counted in tokens.

        Raises:
            DragomanError: it names no model, or one that has no sessions.
        """
        if not model:
            message = "A realtime session needs the name of a model (session.model)."
            raise refusal(FaultKind.INVALID_REQUEST, message, code="missing_model")
        call.names(model)
        call.measured = Measured(Usage())
        self._exchange.resolve(call)

    # Client secrets

    async def _make_secret(self, call: EndpointCall, body: bytes) -> None:
        incoming, caller, secrets = call.incoming, call.caller, self._parts.secrets()
        secrets.check(caller.name)
        session = _session_of(body)
        self._resolve(call, _model_of(session))
        await self._exchange.admit(call)

        async def attempt(call: EndpointCall, lease: Lease) -> None:
            named = replaced(body, "session", _renamed(session, call))
            answer, content = await self._answer(call, lease, _posted("/client_secrets", named))
            members = members_of(content)
            value, ends = members.get("value"), members.get("expires_at")
            if not isinstance(value, str) or not value:
                raise UpstreamError.unreadable("it has no client secret")
            ends = ends if isinstance(ends, int | float) else inf
            expires = min(ends, time.time() + LIFE_S)
            digest = self._parts.keys.digest_in(incoming.headers)
            kept = ClientSecret(caller.name, call.model, lease.account.name, value, expires, digest)
            own = await secrets.keep(kept)
            # Wherever it stands, and however it is written.
            shown = replaced(content, "value", to_json(own))
            shown = shown.replace(value.encode(), own.encode())
            shown = replaced(shown, "expires_at", b"%d" % expires)
            base = f"{gateway_url(incoming, self._exchange.server)}/v1".encode("latin-1")
            headers = [*_NO_STORE, (b"x-dragoman-base-url", base)]
            incoming.reply(answer.status, shown, headers)

        await self._exchange.run(call, attempt)

    # Calls

    async def _begin_call(self, call: EndpointCall, body: bytes) -> None:
        incoming = call.incoming
        secret = await presented_secret(self._parts.secrets(), incoming)
        media = incoming.headers.get(b"content-type", b"")
        if media_type(media) not in _OFFERS:
            message = "A call begins with application/sdp or multipart/form-data."
            raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)
        query = dict(parse_qsl(incoming.query.decode("latin-1")))
        part = _session_part(media, body)
        session = body[part] if part is not None else b""
        model = query.get("model", "") if secret is None else secret.model
        self._resolve(call, model or _model_of(session))
        call.only = "" if secret is None else secret.account
        meter = Meter(self._exchange, call, self._parts.keys, self._parts.count, secret)
        await meter.admit_first()
        begun = False

        async def attempt(call: EndpointCall, lease: Lease) -> None:
            nonlocal begun
            given, path = body, "/calls"
            if part is not None and session:
                given = body[: part.start] + _renamed(session, call) + body[part.stop :]
            if "model" in query:
                path += f"?{urlencode({**query, 'model': call.plan.target.model})}"
            try:
                answer, content = await self._answer(
                    call, lease, _posted(path, given, media.decode("latin-1"), secret)
                )
            except Failure as failure:
                check_refused(secret, failure)
                raise
            name = answer.headers.get("location", "").rstrip("/").rpartition("/")[2]
            if not name:
                raise UpstreamError.unreadable("it does not name the call")
            await self._watch(call, lease, name, meter)
            begun = True
            headers = [(b"location", f"/v1/realtime/calls/{name}".encode())]
            incoming.reply(answer.status, content, headers, b"content-type: application/sdp\r\n")

        try:
            await self._exchange.run(call, attempt)
        finally:
            if not begun:
                await meter.finish(None)

    async def _watch(self, call: EndpointCall, lease: Lease, name: str, meter: Meter) -> None:
        """Count a call as long as it lasts. One that cannot be counted is ended.

        Raises:
            Failure, DragomanError: it cannot be watched, or kept.
        """
        account, expires = lease.account.name, time.time() + _CALL_S
        kept = ClientSecret(call.caller.name, call.model, account, "", expires)
        try:
            await self._parts.secrets().keep_call(name, kept)
            socket = await open_socket(self._exchange, call, lease, {"call_id": name})
        except BaseException:
            await self._hang_up(account, name)
            raise
        watched = _Watched(socket, meter)
        task = call.incoming.clock.loop.create_task(
            watched.run(lambda: self._hang_up(account, name))
        )
        self._parts.watching.add(task)
        task.add_done_callback(self._parts.watching.discard)

    async def _hang_up(self, account: str, name: str) -> None:
        """End a call, if it has not ended."""
        upstreams = self._exchange.upstreams
        try:
            builder = upstreams.builders.of(upstreams.pool.account(account))
            async with asyncio.timeout(_HANG_UP_S):
                await builder.ready()
                request = _posted(f"/calls/{name}/hangup", b"")(builder)
                (await upstreams.client.send(request)).close()
        except Exception:
            _log.warning("a realtime call could not be ended: it may go on until its hour is over")

    async def _act(self, call: EndpointCall, body: bytes) -> None:
        """Pass on what is asked of a call of this client's. One that began at the vendor, by SIP,
        is counted from when it is accepted."""
        incoming, name = call.incoming, call.parameters["id"]
        found = await self._parts.secrets().find_call(name, call.caller.name)
        begins = found is None and call.row.path.endswith("/accept")
        if found is not None:
            self._resolve(call, found.model)
            call.only = found.account
        else:
            self._resolve_elsewhere(call, name, body if begins else None)
        meter = None
        if begins:
            meter = Meter(self._exchange, call, self._parts.keys, self._parts.count)
            await meter.admit_first()
        else:
            await self._exchange.admit_unpriced(call)
        if body.strip():
            if object_of(body) is None:
                raise InvalidRequest.at("", "The body must be a JSON object.")
            if call.model:
                body = _renamed(body, call)
        path = call.row.path.removeprefix("/v1/realtime").replace("{id}", name)
        media = incoming.headers.get(b"content-type", b"application/json").decode("latin-1")
        begun = False

        async def attempt(call: EndpointCall, lease: Lease) -> None:
            nonlocal begun
            answer, content = await self._answer(call, lease, _posted(path, body, media))
            if meter is not None:
                await self._watch(call, lease, name, meter)
                begun = True
            incoming.reply(answer.status, content)

        try:
            await self._exchange.run(call, attempt)
        finally:
            if meter is not None and not begun:
                await meter.finish(None)

    def _resolve_elsewhere(self, call: EndpointCall, name: str, session: bytes | None) -> None:
        """Find where a call is that began at the vendor, for a session if one begins.

        Raises:
            DragomanError: NOT_FOUND: whose it is cannot be known, or the model is elsewhere.
        """
        account = self._exchange.elsewhere(call, name)
        if account is None:
            raise unknown_call(name)
        if session is not None:
            self._resolve(call, _model_of(session))
            call.plans = [one for one in call.plans if one.upstream.name == account.upstream]
            if not call.plans:
                raise unknown_call(name)
        else:
            call.measured = Measured(Usage())
            call.plans = [self._exchange.plan_at(call.caller, account.upstream)]
        call.follow(call.plans[0])
        call.only = account.name

    async def _answer(
        self,
        call: EndpointCall,
        lease: Lease,
        build: Callable[[UpstreamRequestBuilder], UpstreamRequest],
    ) -> tuple[UpstreamResponse, bytes]:
        """A good answer of the upstream, and its body."""
        answer, builder = await self._exchange.send(call, lease, build)
        body = await read_part(call, answer, builder.mask)
        call.begins(lease)
        lease.succeeded()
        return answer, body


class _Watched:
    """A call under way, watched over its second connection."""

    def __init__(self, socket: RelayedSocket, meter: Meter) -> None:
        self._socket = socket
        self._meter = meter
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, hang_up: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Count what the call uses until it is over. It is over with its connection."""
        loop = asyncio.get_running_loop()
        self._socket.attach(self, _reserve)
        try:
            while not self._over.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_S):
                        await self._over.wait()
                self._socket.watch(loop.time())
                if self._meter.refusal() is not None:
                    break
        finally:
            if self._task is not None:
                self._task.cancel()
            await hang_up()
            await self._meter.finish(None)
            self._socket.close()

    def on_upstream_message(self, message: bytes) -> None:
        """Look at an event."""
        if self._meter.heard(message):
            self._socket.hold(True)
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        if await self._meter.admit_next() is not None:
            self._over.set()
        self._socket.hold(False)

    def on_upstream_closed(self, code: int, reason: str) -> None:
        """The call is over, or its connection broke."""
        self._over.set()


def _reserve(size: int) -> None:
    """Events of a call have no media, and few are large."""


def _posted(
    path: str, body: bytes, media: str = "application/json", secret: ClientSecret | None = None
) -> Callable[[UpstreamRequestBuilder], UpstreamRequest]:
    """What makes a POST below the upstream's `/realtime`, with the upstream's own secret where the
    client has one of the gateway's."""

    def build(builder: UpstreamRequestBuilder) -> UpstreamRequest:
        request = builder.post(f"/realtime{path}", body, None, stream=False)
        headers = dict(request.headers) | {"content-type": media, "accept": "*/*"}
        request = replace(request, headers=tuple(headers.items()), ready=None)
        return request if secret is None else as_holder(request, secret)

    return build


def _session_of(body: bytes) -> bytes:
    """The text of the session in a body.

    Raises:
        InvalidRequest: it is no JSON object.
    """
    try:
        return bytes(jsontext.members(body).get("session", b"{}"))
    except JsonError:
        raise InvalidRequest.at("", "The body must be a JSON object.") from None


def _model_of(session: bytes) -> str:
    """The model of a session; that which transcribes, if there is no other."""
    found = object_of(session) if session else {}
    if found is None:
        raise InvalidRequest.at("session", "must be an object")
    model = found.get("model")
    return model if isinstance(model, str) else transcriber_of({"audio": found.get("audio")})


def _renamed(session: bytes, call: EndpointCall) -> bytes:
    """The text of a session with the upstream's name of its model."""
    return replaced(session, "model", to_json(call.plan.target.model))


def _session_part(media: bytes, body: bytes) -> slice | None:
    """Where the session stands in a multipart body; None if there is none.

    Raises:
        InvalidRequest: it is malformed.
    """
    try:
        boundary = boundary_of(media)
        if boundary is None:
            return None
        scanner = MultipartScanner(boundary, {"session": _MOST_BYTES})
        scanner.feed(body)
        scanner.finish()
    except BadMultipart as bad:
        raise InvalidRequest.at("", f"The body is malformed: {bad}.") from None
    found = scanner.fields.get("session")
    return None if found is None else slice(found.start, found.end)

"""Endpoints with a JSON body, which is held: it may be sent again, and is passed on as it is but
for the name of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.config import Server, Upstream
from dragoman.edge.auth import Caller
from dragoman.edge.body_copies import BodyCopies
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.members import Members, inserted, replaced
from dragoman.endpoints.streams import deliver_bytes, deliver_events
from dragoman.endpoints.table import Row
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import decode_object
from dragoman.serving.answers import MOST_BYTES, beginning, is_stream
from dragoman.serving.failures import failed_call, unusable
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_JSON = "application/json"


class Wire(Struct, frozen=True):
    """A request as an upstream is sent it: `path` below the version of its protocol, or below its
    base URL without one if `is_root`; `read` makes the client's answer of a whole one."""

    path: str
    body: bytes
    is_root: bool = False
    read: Callable[[bytes], bytes] = lambda body: body


class HeldBodies:
    """Serves endpoints with a JSON body."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange

    async def serve(
        self,
        row: Row,
        parameters: Mapping[str, str],
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
    ) -> None:
        """Serve one request.

        Raises:
            DragomanError: it cannot be sent; nothing was sent to the client.
            ClientGone: the client left.
        """
        body = await incoming.body(self._exchange.server.body_limit_bytes)
        members = _members_of(body)
        call = EndpointCall(row, incoming, caller, record, model_of(row, parameters, members))
        call.members, call.size = members, len(body)
        call.stream = record.stream = _asks_stream(row, members)
        self._exchange.resolve(call)
        await self._exchange.admit(call)
        if caller.keeps_bodies and (kept := self._exchange.kept_bytes):
            copies = record.bodies = BodyCopies(kept)
            copies.add("client_request", body)
            incoming.observer = copies

        async def attempt(call: EndpointCall, lease: Lease) -> None:
            await self._attempt(call, lease, passed(call, body))

        await self._exchange.run(call, attempt)

    async def _attempt(self, call: EndpointCall, lease: Lease, wire: Wire) -> None:
        """Call the upstream with one account, and deliver its answer.

        Raises:
            Failure: nothing of an answer was sent to the client.
        """
        incoming, upstream = call.incoming, call.plan.upstream
        headers = {}
        if incoming.codec.name == upstream.codec.name:
            headers = incoming.codec.endpoint.passed_on(incoming.headers)
        if call.row.stream == "bytes" and not call.stream:
            headers["accept"] = "*/*"
        answer, builder = await self._exchange.send(
            call,
            lease,
            lambda builder: builder.post(
                wire.path,
                wire.body,
                headers,
                stream=call.stream,
                route=call.plan.target.headers,
                proxy=lease.proxy,
                is_root=wire.is_root,
            ),
        )
        await deliver(call, lease, answer, builder.mask, self._exchange.server, wire.read)


async def deliver(
    call: EndpointCall,
    lease: Lease,
    answer: UpstreamResponse,
    mask: Mask,
    server: Server,
    read: Callable[[bytes], bytes] = lambda body: body,
) -> None:
    """Deliver a good answer: a stream of events, bytes as they come, or a JSON object, of which
    `read` makes the client's. It is closed.

    Raises:
        Failure: nothing of it was sent to the client.
    """
    try:
        await _deliver(call, lease, answer, server, read)
    except CallError as error:
        if call.incoming.status:
            raise
        raise failed_call(error, call.plan.upstream.name) from None
    except UpstreamError as error:
        raise unusable(mask.fault(error.fault)) from None
    finally:
        call.record.bytes_down = answer.received
        answer.close()


async def _deliver(
    call: EndpointCall,
    lease: Lease,
    answer: UpstreamResponse,
    server: Server,
    read: Callable[[bytes], bytes],
) -> None:
    first = b""
    if call.stream:
        first = await beginning(answer)
        if is_stream(answer, first, "text/event-stream"):
            await deliver_events(call, lease, answer, first, server)
            return
    media = answer.headers.get("content-type", _JSON)
    if not media.startswith(_JSON) and (call.row.stream == "bytes" or call.row.way == "relayed"):
        await deliver_bytes(call, lease, answer, first)
        return
    body = first + await answer.read(MOST_BYTES, call.incoming.reserve)
    shown = _read(call, read(body))
    call.begins(lease)
    lease.succeeded(0.0 if call.measured is None else call.measured.usage.total)
    call.note_usage()
    line = b"content-type: %b\r\n" % media.encode("latin-1")
    call.incoming.reply(200, shown, call.headers(), line)


def _read(call: EndpointCall, body: bytes) -> bytes:
    """The client's answer.

    Raises:
        UpstreamError: it is no JSON object.
    """
    try:
        members = Members(jsontext.members(body))
    except JsonError:
        raise UpstreamError.unreadable("it is not a JSON object") from None
    if (error := members.get("error")) and members.keys().isdisjoint(_ANSWERS):
        raise UpstreamError(Fault(FaultKind.UPSTREAM_FAILED, f"The upstream failed: {error}"))
    call.measure(members)
    return renamed(call, body)


_ANSWERS = frozenset({"data", "results", "choices", "content", "embedding", "embeddings", "text"})


def renamed(call: EndpointCall, body: bytes) -> bytes:
    """An answer with the client's name of the model."""
    if call.plan.target.model == call.model:
        return body
    return replaced(body, "model", to_json(call.model))


def passed(call: EndpointCall, body: bytes) -> Wire:
    """A request that is passed on as it is, with the upstream's name of the model."""
    model, row = call.plan.target.model, call.row
    if "model" in call.members.raw:
        if model != call.model and row.model != "path":
            body = replaced(body, "model", to_json(model))
    elif row.model == "json":
        body = inserted(body, "model", to_json(model))
    if row.asks_usage and call.stream and not call.wants_usage:
        options = call.members.get("stream_options")
        asked = to_json({**(options if isinstance(options, dict) else {}), "include_usage": True})
        if "stream_options" in call.members.raw:
            body = replaced(body, "stream_options", asked)
        else:
            body = inserted(body, "stream_options", asked)
    path, is_root = path_at(call.plan.upstream, row.path, model)
    return Wire(path, body, is_root)


def path_at(upstream: Upstream, path: str, model: str) -> tuple[str, bool]:
    """Where an upstream has the endpoint of a path, and whether that is beside its version."""
    endpoint = upstream.endpoint
    if "{model}" in path:
        verb = path.rpartition(":")[2]
        located = endpoint.path_for(model, False)
        return f"{located.rpartition(':')[0]}:{verb}", False
    if not path.startswith("/v1/"):
        return path, True
    # What stands before the path of the protocol, where the service has it elsewhere.
    before = endpoint.path_for(model, False).removesuffix(endpoint.path)
    return before + path.removeprefix("/v1"), False


def _members_of(body: bytes) -> Members:
    """
    Raises:
        InvalidRequest: it is no JSON object.
    """
    try:
        return Members(jsontext.members(body))
    except JsonError:
        decode_object(body)
        raise InvalidRequest.at("", "The request body is not valid JSON.") from None


def model_of(row: Row, parameters: Mapping[str, str], members: Members) -> str:
    """The client's name of the model.

    Raises:
        InvalidRequest: there is none.
    """
    model = parameters.get("model") or members.get("model") or row.default_model
    if not model:
        raise InvalidRequest.at("model", "is required", code="missing_required_parameter")
    if not isinstance(model, str):
        raise InvalidRequest.at("model", "must be a string")
    return model


def _asks_stream(row: Row, members: Members) -> bool:
    if row.stream == "events":
        return members.get("stream") is True
    return row.stream == "bytes" and members.get("stream_format") == "sse"

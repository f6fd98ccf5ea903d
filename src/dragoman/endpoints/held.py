"""Endpoints with a JSON body, which is held: it may be sent again, and is passed on as it is but
for the name of the model."""

from __future__ import annotations

from functools import partial

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import InvalidRequest
from dragoman.edge.body_copies import BodyCopies
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.delivery import deliver, read_part
from dragoman.endpoints.embeddings import embeddings_wire, refuses_base64
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.members import Members, with_member
from dragoman.endpoints.rerank import rerank_wire
from dragoman.endpoints.table import Row
from dragoman.endpoints.wire import Wire, passed
from dragoman.jsontext import JsonError
from dragoman.protocols.fields import decode_object
from dragoman.protocols.numbers import token_count
from dragoman.serving.failures import Failure
from dragoman.serving.limits.responses import CLAMPED_HEADER


class HeldBodies:
    """Serves endpoints with a JSON body."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange

    async def serve(self, call: EndpointCall) -> None:
        """Serve one request.

        Raises:
            DragomanError: it cannot be sent; nothing was sent to the client.
            ClientGone: the client left.
        """
        caller, incoming, record = call.caller, call.incoming, call.record
        body = await incoming.body(self._exchange.server.body_limit_bytes)
        call.members, call.size = _members_of(body), len(body)
        call.names(model_of(call))
        call.stream = record.stream = _asks_stream(call.row, call.members)
        if caller.most_output is not None and call.row.output_limit:
            body = _lowered(call, body, caller.most_output)
        self._exchange.resolve(call)
        await self._exchange.admit(call)
        if caller.keeps_bodies and (kept := self._exchange.kept_bytes):
            copies = record.bodies = BodyCopies(kept)
            copies.add("client_request", body)
            incoming.observer = copies

        await self._exchange.run(call, partial(self._attempt, body))

    async def _attempt(self, body: bytes, call: EndpointCall, lease: Lease) -> None:
        """Call the upstream with one account, and deliver its answer.

        Raises:
            Failure: nothing of an answer was sent to the client.
            InvalidRequest: the upstream does not take what is asked.
        """
        wire = _wire(call, body)
        if call.ledger:
            call.ledger.enforce(call.plan.settings_for(call.incoming).options.policy)
        try:
            await self._send_all(call, lease, wire)
        except Failure as failure:
            if call.takes_numbers or not refuses_base64(call, failure.status, failure.body):
                raise
            call.takes_numbers = True
            await self._send_all(call, lease, _wire(call, body))

    async def _send_all(self, call: EndpointCall, lease: Lease, wire: Wire) -> None:
        post, answers = self._exchange.post, []
        own = {"accept": "*/*"} if call.row.stream == "bytes" and not call.stream else {}
        *others, last = wire.bodies
        for body in others:
            answer, builder = await post(call, lease, wire.path, body, own, is_root=wire.is_root)
            answers.append(await read_part(call, answer, builder.mask))
        answer, builder = await post(call, lease, wire.path, last, own, is_root=wire.is_root)
        await deliver(
            call,
            lease,
            answer,
            builder.mask,
            self._exchange.server,
            lambda body: wire.read([*answers, body]),
        )


def _lowered(call: EndpointCall, body: bytes, most: int) -> bytes:
    """The body with an output limit of at most so many tokens; a header says so where that is not
    its own."""
    name, value = call.row.output_limit, b"%d" % most
    given = token_count(call.members.get(name))
    if given is not None and 0 < given <= most:
        return body
    body = with_member(body, name, value, call.members.raw)
    call.members = _members_of(body)
    call.incoming.shared.append((CLAMPED_HEADER, value))
    return body


def _wire(call: EndpointCall, body: bytes) -> Wire:
    """How a request is sent to the upstream of its plan."""
    if call.row.capability == "embeddings":
        return embeddings_wire(call, body)
    if call.row.capability == "rerank":
        return rerank_wire(call, body)
    return passed(call, body)


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


def model_of(call: EndpointCall) -> str:
    """The client's name of the model, from the path or the members of a call.

    Raises:
        InvalidRequest: there is none.
    """
    model = call.parameters.get("model") or call.members.get("model") or call.row.default_model
    if not model:
        raise InvalidRequest.at("model", "is required", code="missing_required_parameter")
    if not isinstance(model, str):
        raise InvalidRequest.at("model", "must be a string")
    return model


def _asks_stream(row: Row, members: Members) -> bool:
    if row.stream == "events":
        return members.get("stream") is True
    return row.stream == "bytes" and members.get("stream_format") == "sse"

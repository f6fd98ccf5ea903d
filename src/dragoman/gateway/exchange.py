"""One request from its body to its answer: the one way for all protocols, full and streamed.

    read -> resolve the model -> lease an account -> call -> classify -> try the next or answer

A failure is tried again on the next account as long as the client was shown nothing of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from dragoman.accounts.pool import Lease, Pool
from dragoman.accounts.symptoms import symptom_of_fault
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.requests import Request
from dragoman.config import Server
from dragoman.gateway.answers import (
    MOST_BYTES,
    beginning,
    drain,
    holds_events,
    is_error_object,
    is_stream,
    read_error,
)
from dragoman.gateway.attempts import GaveUp, on_some_account
from dragoman.gateway.auth import Caller
from dragoman.gateway.delivery import Delivery
from dragoman.gateway.errors import fault_of
from dragoman.gateway.failures import Failure, failed_call, refused, unusable
from dragoman.gateway.outgoing import Outgoing
from dragoman.gateway.record import Record, losses_header
from dragoman.gateway.routing import Router, Target, model_not_found
from dragoman.gateway.visit import Visit, while_connected
from dragoman.translation import AnswerStream, Call, ClientRequest, Outcome, Settings
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import UpstreamError as CallFailed
from dragoman.upstream.request import UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_LONGEST_MODEL = 1024
"""Characters of a model's name. Names are remembered in several places, so they are kept small."""

_EMPTY = UpstreamError.unreadable("it is empty").fault
SHUTTING_DOWN = Fault(FaultKind.OVERLOADED, "The gateway is shutting down.", code="server_error")


class Trip:
    """What belongs to one request on its way.

    `stream` is what the client is being shown, once it has begun; `call`, which holds the bodies,
    is let go then: a stream may be long.
    """

    __slots__ = ("call", "delivery", "ledger", "outcome", "record", "stream", "target", "visit")

    def __init__(self, visit: Visit, record: Record, target: Target, call: Call) -> None:
        self.visit = visit
        self.record = record
        self.target = target
        self.call = call
        self.ledger = call.ledger
        self.delivery: Delivery | None = None
        self.stream: AnswerStream | None = None
        self.outcome = Outcome()

    def begin(self, stream: AnswerStream) -> None:
        """From here on the client is shown `stream`; no other account can be tried."""
        self.stream = stream
        del self.call


class Exchange:
    """Answers requests for generation with the accounts of a pool.

    `outgoing` has the request maker of each account by its name.
    """

    def __init__(
        self,
        server: Server,
        router: Router,
        pool: Pool,
        client: UpstreamClient,
        outgoing: Mapping[str, Outgoing],
        sealer: Sealer,
    ) -> None:
        self._server = server
        self._router = router
        self._pool = pool
        self._client = client
        self._outgoing = outgoing
        self._sealer = sealer

    async def serve(self, visit: Visit, caller: Caller, record: Record) -> None:
        """Read, forward and answer one request.

        Raises:
            DragomanError: the request cannot be forwarded; nothing was sent to the client.
            ClientGone: the client left; what was under way upstream is cancelled.
        """
        trip = self._prepare(visit, caller, record, await self.read(visit))
        if record.stream:
            trip.delivery = Delivery(
                visit,
                losses_header(tuple(trip.ledger)),
                keepalive=visit.codec.keepalive,
                keepalive_s=self._server.keepalive_s,
                commit_after_s=self._server.commit_after_s,
            )
        try:
            await while_connected(visit, self._answered(trip))
        finally:
            if trip.delivery is not None:
                trip.delivery.close()
            record.usage = trip.outcome.usage
            record.losses = tuple(trip.ledger)

    async def read(self, visit: Visit) -> ClientRequest:
        """The request in the visit's body.

        Raises:
            DragomanError: it is too large, or not a request.
            ClientGone: the client left.
        """
        body = await visit.body(self._server.body_limit_bytes)
        return ClientRequest(visit.codec.name, body)

    def resolve(self, request: ClientRequest, caller: Caller, record: Record) -> Target:
        """Where the request's model leads.

        Raises:
            DragomanError: MODEL_NOT_FOUND: nowhere, or the caller may not use it, or no model has
                a name that long.
        """
        record.model, record.stream = request.model, request.stream
        if len(request.model) > _LONGEST_MODEL or not caller.allows(request.model):
            raise model_not_found(request.model)
        target = self._router.resolve(request.model)
        detour = self._router.detour(target)
        if detour is not None and thinks_with_tools(request.read(self._sealer)):
            target = detour
        record.upstream, record.upstream_model = target.upstream.name, target.model
        return target

    def settings(self, visit: Visit, caller: Caller, target: Target) -> Settings:
        """How to translate. A policy of the request goes over the client's, that over the route's.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        options = target.options
        policy = requested_policy(visit) or caller.policy
        if policy is not None and policy is not options.policy:
            options = replace(options, policy=policy)
        return Settings(
            model=target.model,
            options=options,
            capabilities=target.capabilities,
            sealer=self._sealer,
        )

    def _prepare(
        self, visit: Visit, caller: Caller, record: Record, request: ClientRequest
    ) -> Trip:
        target = self.resolve(request, caller, record)
        settings = self.settings(visit, caller, target)
        return Trip(visit, record, target, Call(request, target.upstream.protocol, settings))

    async def _answered(self, trip: Trip) -> None:
        """Answer, whatever happens: after the head is out, errors go into the stream."""
        try:
            await self._attempts(trip)
        except (Exception, asyncio.CancelledError) as error:
            delivery = trip.delivery
            cancelled = isinstance(error, asyncio.CancelledError)
            if delivery is None or not delivery.committed or delivery.over:
                if cancelled and not trip.visit.status and not trip.visit.gone:
                    await self._fail(trip, SHUTTING_DOWN)
                raise
            if not trip.visit.gone:
                fault = SHUTTING_DOWN if cancelled else fault_of(error, trip.visit.request_id)
                await self._fail(trip, fault)
            if cancelled:
                raise

    async def _attempts(self, trip: Trip) -> None:
        attempt = partial(self._attempt, trip)
        try:
            await on_some_account(self._pool, trip.target, trip.record, attempt)
        except GaveUp as given_up:
            if given_up.failure is not None:
                await self._hand_back(trip, given_up.failure)
            else:
                if self._server.retry_headers and trip.record.attempts > 1:
                    trip.visit.shared.append((b"x-should-retry", b"false"))
                await self._fail(trip, given_up.fault)

    async def _attempt(self, trip: Trip, lease: Lease) -> None:
        """Call the upstream with one account and give its answer to the client.

        Raises:
            Failure: it failed before anything was shown.
        """
        mask = self._outgoing[lease.account.name].mask
        try:
            async with await self._client.send(self._outgoing_request(trip, lease)) as answer:
                if not 200 <= answer.status < 300:
                    body = mask.error(await read_error(answer))
                    raise refused(trip.call.codec, answer.status, answer.headers, body)
                if trip.delivery is None:
                    await self._give_whole(trip, lease, answer)
                else:
                    await self._give_stream(trip, trip.delivery, lease, answer)
        except CallFailed as error:
            raise failed_call(error, trip.target.upstream.name) from None
        except UpstreamError as error:
            raise unusable(mask.fault(error.fault)) from None

    def _outgoing_request(self, trip: Trip, lease: Lease) -> UpstreamRequest:
        call, outgoing = trip.call, self._outgoing[lease.account.name]
        same = call.passes_through
        # The body is written once; only whom its reasoning will be bound to differs, and what
        # must not be told.
        call.settings = replace(call.settings, account=lease.tag, mask=outgoing.mask)
        return outgoing.post(
            call.codec.path,
            call.body,
            trip.visit.headers if same else _version_headers(trip.target),
            stream=trip.delivery is not None,
        )

    async def _give_whole(self, trip: Trip, lease: Lease, answer: UpstreamResponse) -> None:
        body = self._outgoing[lease.account.name].mask.secrets_in(await answer.read(MOST_BYTES))
        convert = trip.call.response_of if holds_events(body) else trip.call.response
        shown = convert(body, trip.outcome)
        lease.succeeded()
        await trip.visit.reply(200, shown, losses_header(trip.call.losses))

    async def _give_stream(
        self, trip: Trip, delivery: Delivery, lease: Lease, answer: UpstreamResponse
    ) -> None:
        chunk = await beginning(answer)
        if is_stream(answer, chunk):
            await self._open_stream(trip, delivery, lease, answer, chunk)
            return
        body = chunk + await answer.read(MOST_BYTES)
        shown = trip.call.stream_of(body, trip.outcome)
        lease.succeeded()
        await delivery.end(shown)

    async def _open_stream(
        self,
        trip: Trip,
        delivery: Delivery,
        lease: Lease,
        answer: UpstreamResponse,
        chunk: bytes,
    ) -> None:
        """Hold the stream back until something of an answer comes, or it is whole without."""
        stream = trip.call.stream()
        trip.outcome = stream.outcome
        held = [stream.feed(chunk)]
        while not stream.begun and not stream.over:
            chunk = await anext(answer, b"")
            held.append(stream.feed(chunk) if chunk else stream.finish())
            if not chunk:
                break
        fault = stream.outcome.fault
        if not stream.begun and (fault is not None or not stream.outcome.ended):
            raise UpstreamError(fault or _EMPTY)
        trip.begin(stream)
        lease.succeeded()
        await self._relay(trip, delivery, stream, answer, held)
        fault = stream.outcome.fault
        if fault is not None:
            trip.record.error = fault.kind
            if fault.kind is not FaultKind.UPSTREAM_FAILED:
                lease.failed(symptom_of_fault(fault))

    async def _relay(
        self,
        trip: Trip,
        delivery: Delivery,
        stream: AnswerStream,
        answer: UpstreamResponse,
        held: list[bytes],
    ) -> None:
        """Give a stream that has begun to the client, to its end or to the error that ends it.

        `held` is what was written so far. It is let go: it may repeat all of a large request.
        """
        write, feed = delivery.write, stream.feed
        data = b"".join(held)
        held.clear()
        try:
            if data and not stream.over:
                await write(data)
                data = b""
            if not stream.over:
                async for chunk in answer:
                    data = feed(chunk)
                    if stream.over:
                        break
                    if data:
                        await write(data)
                else:
                    data = stream.finish()
        except CallFailed as error:
            fault = failed_call(error, trip.target.upstream.name).fault
            data = stream.fail(fault)
        await delivery.end(data)
        await drain(answer)

    async def _hand_back(self, trip: Trip, failure: Failure) -> None:
        """The request is at fault: the upstream's own error goes to the client."""
        trip.record.error = failure.fault.kind
        verbatim = (
            trip.call.passes_through
            and 400 <= failure.status < 600
            and is_error_object(failure.body)
        )
        if verbatim and await _uncommitted(trip):
            await trip.visit.reply(failure.status, failure.body)
        else:
            await self._fail(trip, failure.fault)

    async def _fail(self, trip: Trip, fault: Fault) -> None:
        """Answer with an error: with its status while that is possible, else in the stream."""
        trip.record.error = fault.kind
        if await _uncommitted(trip):
            await trip.visit.fail(fault)
        elif trip.delivery is not None:
            stream = trip.stream or trip.call.stream()
            await trip.delivery.end(stream.fail(fault))


def _version_headers(target: Target) -> dict[bytes, bytes] | None:
    """The version of the Messages protocol for a route that differs from its upstream."""
    version = target.capabilities.anthropic_version
    if version == target.upstream.capabilities.anthropic_version:
        return None
    return {b"anthropic-version": version.encode()}


def thinks_with_tools(request: Request) -> bool:
    """Whether a request offers tools and asks the model to think."""
    thinking = request.thinking
    if not request.tools or thinking is None or thinking.mode == "disabled":
        return False
    return thinking.effort != "none"


async def _uncommitted(trip: Trip) -> bool:
    """Whether the answer may still have a status of its own. After this no sign of life is sent
    that could change it."""
    if trip.delivery is None:
        return True
    await trip.delivery.withdraw()
    return not trip.delivery.committed


def requested_policy(visit: Visit) -> Policy | None:
    """The policy that the request itself asks for, by `x-dragoman-policy`.

    Raises:
        InvalidRequest: there is no such policy.
    """
    wanted = visit.headers.get(b"x-dragoman-policy")
    if wanted is None:
        return None
    try:
        return Policy(wanted.decode("latin-1").strip().lower())
    except ValueError:
        problem = f"must be one of {', '.join(Policy)}"
        raise InvalidRequest.at("x-dragoman-policy", problem) from None

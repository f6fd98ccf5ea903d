"""One request from its body to its answer: the one way for all protocols, full and streamed.

    read -> resolve the model -> lease an account -> call -> classify -> try the next or answer

A failure is tried again on the next account as long as the client was shown nothing of an answer.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from msgspec.structs import replace

from dragoman.accounts.pool import Lease, Pool
from dragoman.canonical.dialects import DIALECTS
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.requests import Request
from dragoman.config import Server
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.beside import beside, is_large
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.edge.errors import fault_of
from dragoman.gateway.edge.record import Record
from dragoman.gateway.edge.visit import Visit, while_connected
from dragoman.gateway.serving.affinity import NO_PINS, Seams, check_thread, pins_of
from dragoman.gateway.serving.answers import is_error_object, read_error
from dragoman.gateway.serving.attempts import Attempts, GaveUp, alone
from dragoman.gateway.serving.failures import (
    Failure,
    failed_call,
    is_about_reasoning,
    refused,
    unusable,
)
from dragoman.gateway.serving.giving import give_stream, give_whole
from dragoman.gateway.serving.outgoing import Outgoing, Outgoings
from dragoman.gateway.serving.routing import Router, Target, model_not_found
from dragoman.gateway.serving.trip import Keeper, Trip
from dragoman.translation import ALL, Call, ClientRequest, Settings
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import UpstreamError as CallFailed
from dragoman.upstream.request import UpstreamRequest

_LONGEST_MODEL = 1024
"""Characters of a model's name. Names are remembered in several places, so they are kept small."""

SHUTTING_DOWN = Fault(FaultKind.OVERLOADED, "The gateway is shutting down.", code="server_error")


class Exchange:
    """Answers requests for generation with the accounts of a pool."""

    def __init__(
        self,
        server: Server,
        router: Router,
        pool: Pool,
        client: UpstreamClient,
        outgoings: Outgoings,
    ) -> None:
        self._server = server
        self._router = router
        self._pool = pool
        self._client = client
        self._outgoings = outgoings
        self._seams = Seams()

    async def serve(self, visit: Visit, caller: Caller, record: Record) -> None:
        """Read, forward and answer one request.

        Raises:
            DragomanError: the request cannot be forwarded; nothing was sent to the client.
            ClientGone: the client left; what was under way upstream is cancelled.
        """
        await self.answer(visit, caller, record, await self.read(visit))

    async def answer(
        self,
        visit: Visit,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        keeping: Keeper | None = None,
        target: Target | None = None,
    ) -> None:
        """Forward and answer a request that was read; `keeping` stores the answer. `target` is
        where it leads, None if that was not asked yet.

        Raises:
            DragomanError: as `serve`.
            ClientGone: as `serve`.
        """
        trip = Trip(visit, caller, record, request, Attempts(self._pool, record), keeping)
        if target is None:
            target = self.resolve(request, caller, record)
        # From here on the trip alone holds it, and lets it go in time.
        del request
        await self._turn_to(trip, target)
        if record.stream:
            trip.delivery = Delivery(
                visit,
                trip.headers(),
                keepalive=lambda: visit.codec.keepalive,
                keepalive_s=0.0 if visit.options.keepalive == "off" else self._server.keepalive_s,
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
        read = partial(ClientRequest, visit.codec.name, body)
        return await beside(read) if is_large(body) else read()

    def resolve(self, request: ClientRequest, caller: Caller, record: Record) -> Target:
        """Where the request's model leads.

        Raises:
            DragomanError: MODEL_NOT_FOUND: nowhere, or the caller may not use it, or no model has
                a name that long.
        """
        model = record.model = request.model
        record.stream = request.stream
        if len(model) > _LONGEST_MODEL or not caller.allows(model):
            raise model_not_found(model)
        target = detoured(self._router.resolve(model), request)
        record.upstream, record.upstream_model = target.upstream.name, target.model
        return target

    def settings(self, visit: Visit, caller: Caller, target: Target) -> Settings:
        """How to translate. A policy of the request goes over the client's, that over the route's.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        settings = target.settings
        options = settings.options
        if caller.dialect is not None:
            options = replace(options, **DIALECTS[caller.dialect])
        visit.options = options
        policy = requested_policy(visit) or caller.policy
        if policy is not None and policy is not options.policy:
            options = replace(options, policy=policy)
        return settings if options is settings.options else replace(settings, options=options)

    def _call(self, trip: Trip, target: Target) -> Call:
        """The request as it is said to `target`.

        Raises:
            InvalidRequest: the request is malformed, or the policy refuses what would be lost.
        """
        settings = self.settings(trip.visit, trip.caller, target)
        call = Call(trip.request, target.upstream.protocol, settings)
        if trip.keeping is not None:
            call.response_id = trip.keeping.response_id
        return call

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
        """Try the route's upstream, and then its fallbacks. Of several failures the first is told:
        it is that of the upstream that the client asked for."""
        first: GaveUp | None = None
        only = "" if trip.keeping is None else trip.keeping.only
        attempt = partial(self._attempt, trip)
        for target in (trip.target, *trip.target.fallbacks):
            if first is not None and not await self._turn(trip, target):
                continue
            try:
                self._recognise(trip)
                await trip.attempts.at(trip.target, attempt, trip.pins.pin, only)
                return
            except GaveUp as given_up:
                if first is None:
                    first = alone(given_up)
                    if first.failure is not None:
                        break
            except InvalidRequest:
                if first is None:
                    raise
                # To a fallback it cannot be said.
        assert first is not None
        if first.failure is not None:
            await self._hand_back(trip, first.failure)
            return
        if self._server.retry_headers and trip.attempts.made > 1:
            trip.visit.shared.append((b"x-should-retry", b"false"))
        await self._fail(trip, first.fault)

    async def _turn_to(self, trip: Trip, target: Target) -> None:
        """Say the request to `target`.

        Raises:
            InvalidRequest: as `_call`.
        """
        say = partial(self._call, trip, target)
        trip.turn_to(target, await beside(say) if is_large(trip.request.body) else say())

    async def _turn(self, trip: Trip, fallback: Target) -> bool:
        """Say the request to another upstream, if there is time and it can be said there."""
        if not trip.attempts.in_time(fallback.upstream):
            return False
        target = detoured(fallback, trip.request)
        fell_back, trip.fell_back = trip.fell_back, True
        try:
            await self._turn_to(trip, target)
        except InvalidRequest:
            trip.fell_back = fell_back
            return False
        return True

    async def _attempt(self, trip: Trip, lease: Lease) -> None:
        """Call the upstream with one account and give its answer to the client.

        Raises:
            Failure: it failed before anything was shown.
        """
        outgoing = self._outgoings.of(lease.account)
        trip.call.account, trip.call.mask = outgoing.tag, outgoing.mask
        left_out = self._fit(trip, lease)
        try:
            await self._ask(trip, lease, outgoing)
        except Failure as failure:
            if not is_about_reasoning(failure) or not self._fit_bare(trip, left_out):
                raise
            await self._ask(trip, lease, outgoing)

    def _recognise(self, trip: Trip) -> None:
        """Find out which conversation the request belongs to, where it matters.

        Raises:
            InvalidRequest: it is one that no account but its own could go on with.
        """
        upstream, request = trip.target.upstream, trip.request
        trip.pins = NO_PINS
        trip.has_choice = self._pool.has_choice(upstream.name)
        if not trip.has_choice:
            return
        passes_through = trip.call.passes_through
        if passes_through and request.codec.name == "anthropic_messages":
            check_thread(request)
        if upstream.affinity != "off":
            native = passes_through and upstream.stored_responses == "pass"
            headers, client = trip.visit.headers, trip.caller.name
            trip.pins = pins_of(headers, request, client, upstream.name, native)

    def _fit(self, trip: Trip, lease: Lease) -> int:
        """Leave out reasoning that is of no use to the account. The body is written again only
        where there is some. Returns how many pieces were left out.

        Raises:
            Refused: the policy does not allow the loss.
        """
        call, pin = trip.call, trip.pins.pin
        bound = trip.has_choice and trip.target.upstream.binds_reasoning
        least = self._seams.at(pin) if pin and call.passes_through else 0
        left_out = call.fit(bound=bound, moved=lease.moved, least=least)
        if left_out and call.passes_through:
            self._seams.note(pin, left_out)
        if trip.ledger is not call.ledger:
            trip.ledger = call.ledger
            trip.announce()
        return left_out

    def _fit_bare(self, trip: Trip, left_out: int) -> bool:
        """The account could not use the reasoning after all: leave out all of it. False if that
        changes nothing, or the policy does not allow it."""
        call = trip.call
        try:
            left_out_now = call.fit(least=ALL)
        except InvalidRequest:
            return False
        if left_out_now == left_out:
            return False
        if call.passes_through:
            self._seams.note(trip.pins.pin, left_out_now)
        trip.ledger = call.ledger
        trip.announce()
        return True

    async def _ask(self, trip: Trip, lease: Lease, outgoing: Outgoing) -> None:
        mask = outgoing.mask
        sent_at = time.monotonic()
        try:
            async with await self._client.send(_request_of(trip, lease, outgoing)) as answer:
                if not 200 <= answer.status < 300:
                    body = mask.error(await read_error(answer))
                    raise refused(trip.call.codec, answer.status, answer.headers, body)
                if trip.delivery is None:
                    await give_whole(trip, lease, answer, mask)
                else:
                    await give_stream(trip, trip.delivery, lease, answer, sent_at)
        except CallFailed as error:
            raise failed_call(error, trip.target.upstream.name) from None
        except UpstreamError as error:
            raise unusable(mask.fault(error.fault)) from None

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
            fault = failure.fault
            if failure.status >= 500 and fault.status is None:
                # The rules have it handed back, so it is told as it was.
                fault = replace(fault, status=min(failure.status, 599))
            await self._fail(trip, fault)

    async def _fail(self, trip: Trip, fault: Fault) -> None:
        """Answer with an error: with its status while that is possible, else in the stream."""
        trip.record.error = fault.kind
        if await _uncommitted(trip):
            await trip.visit.fail(fault)
        elif trip.delivery is not None:
            stream = trip.stream or trip.call.stream()
            await trip.delivery.end(stream.fail(fault))


def _request_of(trip: Trip, lease: Lease, outgoing: Outgoing) -> UpstreamRequest:
    """What is sent upstream. Not to be held on to while an answer is given: it has the body."""
    call = trip.call
    return outgoing.post(
        call.codec.path,
        call.body,
        trip.visit.headers if call.passes_through else trip.target.headers,
        stream=call.streams,
        proxy=lease.proxy,
    )


def detoured(target: Target, request: ClientRequest) -> Target:
    """Where a request goes that leads to `target`.

    Raises:
        InvalidRequest: it is malformed, where it had to be read to tell.
    """
    if target.detour is None or not thinks_with_tools(request.read(target.settings.sealer)):
        return target
    return target.detour


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

"""One request to an endpoint, from its plan to an account that answers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import (
    DragomanError,
    Fault,
    FaultKind,
    InvalidRequest,
    UpstreamError,
)
from dragoman.canonical.usage import Usage
from dragoman.config import Account, Upstream
from dragoman.edge.auth import Caller
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.members import Members
from dragoman.endpoints.parts import Parts
from dragoman.endpoints.pricing import charge_of
from dragoman.endpoints.table import Repeat
from dragoman.endpoints.usage import Measured
from dragoman.endpoints.vendors import endpoints_of, is_spoken
from dragoman.limits.rules import Expected, Rules
from dragoman.protocols.numbers import token_count
from dragoman.serving.answers import read_error
from dragoman.serving.attempts import Attempts, GaveUp, note_abandoned
from dragoman.serving.bindings import service_at
from dragoman.serving.exchange import READ_ON_S, SHUTTING_DOWN
from dragoman.serving.failures import (
    BODY_PASSED,
    Failure,
    Unauthorised,
    failed_call,
    refused,
    unusable,
    without_account,
)
from dragoman.serving.limits.accounts import AccountLimits
from dragoman.serving.limits.use import MOST_OUTPUT
from dragoman.serving.plan import Plan
from dragoman.serving.resolver import LONGEST_MODEL
from dragoman.serving.routing import Target, model_not_found
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.translation.estimate import estimate_bytes
from dragoman.translation.named_models import models_besides
from dragoman.upstream.errors import UNSENT_CAUSES, CallError
from dragoman.upstream.request import BodySource, UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

Attempt = Callable[[EndpointCall, Lease], Coroutine[Any, Any, None]]
"""Calls the upstream of a call's plan with one account, and delivers its answer. Raises `Failure`
if nothing of an answer was sent to the client, `InvalidRequest` if that upstream cannot be asked
for it."""

Build = Callable[[UpstreamRequestBuilder], UpstreamRequest]

UNSERVED = (404, 405, 501)
"""Statuses of an upstream that may lack an endpoint. They say nothing of the account."""

_CONTENT = frozenset(
    {
        *("model", "input", "prompt", "suffix", "documents", "query", "texts", "content"),
        *("requests", "input_prefix", "input_suffix", "input_extra", "file"),
    }
)
"""Members of requests in which no further model is named."""

_REFUSED_BEFORE = (401, 402, 403, 429)
"""Statuses of a request that was surely not begun, as it was refused for its account."""
_BUSY, _NOT_FOUND = 503, 404
_ID = re.compile(r"(?:[A-Za-z]+/)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}")
"""Ids of what was made past the gateway. Nothing else in a path ends it, or leads elsewhere."""
_UPSTREAM = b"x-dragoman-upstream"
"""Header in which a client names the upstream that is to make something."""


class EndpointExchange:
    """Finds where requests to endpoints go, admits them, and asks the accounts."""

    def __init__(self, parts: Parts) -> None:
        self.server = parts.server
        self.parts = parts
        self._plans = parts.plans
        self.upstreams = parts.upstreams
        self._admission = parts.admission
        self._recording = parts.recording
        self.sessions = parts.sessions
        self.kept_bytes = parts.recording.kept_bytes
        """Bytes of each body that are kept for keys that keep these."""

    def resolve(self, call: EndpointCall) -> None:
        """Find the plans of a call, those of upstreams that have its endpoint. From here on, errors
        have the form that its route gives them.

        Raises:
            DragomanError: MODEL_NOT_FOUND: its model has none, or the caller may not use it;
                NOT_FOUND: no upstream of its route has the endpoint.
        """
        model = call.model
        if len(model) > LONGEST_MODEL:
            raise model_not_found(model)
        if call.caller.names_models:
            others = models_besides(call.members.raw, _CONTENT)
            if others is None:
                raise model_not_found(model)
            for other in others:
                if not call.caller.allows(other):
                    raise model_not_found(other)
        plan = self._plans.of(call.caller, model)
        name = call.row.capability
        narrowed = plan.target.endpoints
        if narrowed is None or name in narrowed:
            every = (plan, *plan.fallbacks)
            call.plans = [one for one in every if name in endpoints_of(one.upstream)]
        if not call.plans:
            raise unsupported(call, plan)
        call.incoming.options = plan.settings.options
        call.follow(call.plans[0])

    def chosen(self, call: EndpointCall) -> Upstream:
        """The upstream that makes something: the one that the client names, or the only service
        that has the endpoint.

        Raises:
            DragomanError: NOT_FOUND: none has it.
            InvalidRequest: several have, and the client names none of them.
        """
        caller = call.caller
        wanted = call.incoming.headers.get(_UPSTREAM, b"").decode("latin-1")
        found = [
            one
            for one in self.upstreams.ids.upstreams
            if call.row.capability in endpoints_of(one)
            and is_spoken(call.incoming.codec, one)
            and (caller.upstreams is None or one.name in caller.upstreams)
            and self.upstreams.pool.size(one.name)
            and wanted in ("", one.name)
        ]
        if not found:
            message = f"No upstream has {call.row.path} ({call.row.capability})."
            raise DragomanError(Fault(FaultKind.NOT_FOUND, message, code="unsupported_endpoint"))
        if len({service_at(one.base_url) for one in found}) > 1:
            names = ", ".join(one.name for one in found)
            raise InvalidRequest.at(_UPSTREAM.decode(), f"name one of these upstreams: {names}")
        return found[0]

    def elsewhere(self, call: EndpointCall, name: str) -> Account | None:
        """The account that has what was made past the gateway, and is asked for by this call and
        `name`: where there is one client and one account of the upstream that could have it. None:
        whose it is cannot be known, or no service reads that name in a path as it is."""
        if _ID.fullmatch(name) is None:
            return None
        try:
            upstream = self.chosen(call)
        except DragomanError:
            return None
        if not self.upstreams.ids.passes_all(upstream.name):
            return None
        accounts = self.upstreams.pool.accounts()
        return next(one for one in accounts if one.upstream == upstream.name)

    def plan_at(self, caller: Caller, upstream: str) -> Plan:
        """The plan of a caller's requests to an upstream that name no model."""
        return self._plans.without_model(caller, upstream)

    async def admit(self, call: EndpointCall) -> None:
        """Attribute a call, and reserve for it from the limits of its caller.

        Raises:
            DragomanError: a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        self._begin(call)
        if call.caller.is_limited:
            await self._admission.admit_expected(*_whose(call), partial(self._expected, call))

    async def admit_unpriced(self, call: EndpointCall) -> None:
        """As `admit`, for what uses nothing that is paid for: at the limits of requests alone, so
        that whoever has spent a budget can still read, cancel and delete what there is.

        Raises:
            DragomanError, ClientGone: as `admit`.
        """
        self._begin(call)
        await self._admission.admit_call(call.incoming, call.caller, call.record)

    def _begin(self, call: EndpointCall) -> None:
        incoming, record, recording = call.incoming, call.record, self._recording
        if recording.attributor is not None:
            raw = call.members.raw
            recording.attributor.attribute(record, incoming.codec, incoming.headers, raw)
        if recording.traces is not None:
            recording.traces.begin(incoming, record, call.members.raw)

    async def admit_session(self, call: EndpointCall) -> None:
        """As `admit`, for a session: at the limits of requests at one time, until it is over."""
        self._begin(call)
        if call.caller.is_limited:
            await self._admission.admit_expected(
                *_whose(call), lambda rules: (Expected(0, 0), 0), among=Rules.at_one_time
            )

    async def admit_turn(self, call: EndpointCall, latest: Measured) -> None:
        """As `admit`, for an answer within a session that may use as much as the `latest` one, and
        as hardly any exceeds: at all other limits."""
        output = self._admission.expected.output(call.caller.name, call.plan.target.model)
        usage = replace(latest.usage, output=max(latest.usage.output, output))
        forecast = replace(latest, usage=usage)
        self._begin(call)
        if call.caller.is_limited:
            await self._admission.admit_expected(
                *_whose(call),
                lambda rules: (self._forecast(call, forecast, rules), 0),
                among=Rules.of_turns,
            )

    def give_back(self, call: EndpointCall) -> None:
        """Nothing comes of what was reserved for a call."""
        self._admission.settle(call.record, time.time())

    async def run(self, call: EndpointCall, attempt: Attempt) -> None:
        """Ask the accounts of a call's plans, one after another, until one has answered.

        Raises:
            DragomanError: the request cannot be sent; nothing was sent to the client.
            ClientGone: the client left.
        """
        linger = partial(_lingers, call) if call.caller.is_limited else None
        try:
            await while_connected(call.incoming, self._ask(call, attempt), linger)
        finally:
            if call.delivery is not None:
                call.delivery.close()
            call.settle()

    async def _ask(self, call: EndpointCall, attempt: Attempt) -> None:
        record, first = call.record, None
        attempts = call.attempts = Attempts(
            self.upstreams.pool, record, explains=self._recording.explains
        )
        try:
            for place, plan in enumerate(call.plans):
                if place and not self._may_fall_back(call, attempts, plan):
                    continue
                try:
                    gave_up = await self._try_accounts(call, attempt, attempts, place)
                except InvalidRequest:
                    if first is None:
                        raise
                    continue
                if gave_up is None:
                    return
                if gave_up.failure is not None:
                    self._refuse(call, gave_up.fault, gave_up.failure)
                    return
                first = first or gave_up
            assert first is not None
            fault = first.fault
            if call.only and not record.attempts:
                fault = without_account(fault)
            record.blame_last()
            if self.server.retry_headers and record.attempts > 1:
                call.incoming.shared.append((b"x-should-retry", b"false"))
            call.fail(fault)
        except asyncio.CancelledError:
            if not call.incoming.gone and not call.incoming.status:
                call.fail(SHUTTING_DOWN)
            raise

    def _may_fall_back(self, call: EndpointCall, attempts: Attempts, plan: Plan) -> bool:
        if not call.can_repeat:
            return False
        refuses = self._admission.refuses_target(call.record, plan.target, plan.prices)
        return attempts.in_time(plan.upstream) and not refuses

    async def _try_accounts(
        self, call: EndpointCall, attempt: Attempt, attempts: Attempts, place: int
    ) -> GaveUp | None:
        """Ask one account of a plan after another. Returns why none answered, None if one did.

        Raises:
            InvalidRequest: the request cannot be sent there.
        """
        plan = call.plans[place]
        if plan is not call.plan:
            call.follow(plan)
        attempts.start(plan, only=call.only or call.first, following=call.plans[place + 1 :])
        while (lease := await attempts.next()) is not None:
            try:
                await attempts.within(lease, self._within(call, lease, attempt))
                return None
            except Failure as failure:
                call.forget_attempt()
                if call.upload is not None:
                    call.record.bytes_up = call.upload.read
                if failure.status in UNSERVED:
                    attempts.returned(lease, failure)
                    continue
                attempts.failed(lease, failure)
                if attempts.gave_up is None and not call.can_repeat:
                    attempts.give_up(BODY_PASSED)
                elif attempts.gave_up is None and not _may_repeat(call.row.repeat, failure):
                    attempts.gave_up = GaveUp(_perhaps_begun(failure), failure)
                elif call.first:
                    call.first = ""
                    attempts.ask_others()
            except asyncio.CancelledError:
                note_abandoned(call.record, plan, lease)
                raise
            finally:
                lease.give_back()
            if call.incoming.gone:
                # Nobody waits for another attempt at what is only read on for its usage.
                return None
        return attempts.gave_up

    def _within(
        self, call: EndpointCall, lease: Lease, attempt: Attempt
    ) -> Coroutine[Any, Any, None]:
        """An attempt within the limits of its account, if accounts have any."""
        limits = self.upstreams.limits
        if limits is None:
            return attempt(call, lease)
        return self._reserved(limits, call, lease, attempt)

    async def _reserved(
        self, limits: AccountLimits, call: EndpointCall, lease: Lease, attempt: Attempt
    ) -> None:
        """
        Raises:
            Failure: as the attempt, or too little is left of a limit.
        """

        def expect(rules: Rules, owner: str, now: float) -> Expected:
            return self._expected(call, rules)[0]

        reserved = await limits.reserve_expected(call.plan, lease.account.name, expect)
        try:
            await attempt(call, lease)
        except Failure:
            call.forget_attempt()
            raise
        finally:
            if reserved is not None:
                call.note_usage()
                reserved.settle(call.record)

    async def send(
        self, call: EndpointCall, lease: Lease, build: Build
    ) -> tuple[UpstreamResponse, UpstreamRequestBuilder]:
        """Send a request by one account; `build` makes it. Returns a good answer, to be closed by
        the caller.

        Raises:
            Failure: there is no answer, or a refusal.
        """
        builder = self.upstreams.builders.of(lease.account)
        record, codec = call.record, call.plan.upstream.codec

        async def ask() -> UpstreamResponse | Failure:
            record.sent_at = time.perf_counter()
            request = build(builder)
            if request.source is not None and not request.source.anew():
                raise Unauthorised(BODY_PASSED)
            if call.row.repeat != "any_failure":
                request = replace(request, once=True)
            record.bytes_up, record.bytes_down = len(request.body), 0
            limit = lease.accounts.waits[call.stream].limit
            answer = await self.upstreams.client.send(request, limit, lease.fell_silent, call)
            self.upstreams.pool.heard(lease, answer.headers)
            if answer.is_good:
                return answer
            try:
                body = builder.mask.error(await read_error(answer))
            finally:
                record.bytes_down = answer.received
                answer.close()
            return refused(codec, answer.status, answer.headers, body)

        try:
            outcome = await builder.carry_out(ask)
        except CallError as error:
            raise failed_call(error, call.plan.upstream.name) from None
        except UpstreamError as error:
            raise unusable(builder.mask.fault(error.fault)) from None
        if isinstance(outcome, Failure):
            raise outcome
        return outcome, builder

    async def post(
        self,
        call: EndpointCall,
        lease: Lease,
        path: str,
        body: bytes | BodySource,
        headers: Mapping[str, str],
        *,
        is_root: bool,
    ) -> tuple[UpstreamResponse, UpstreamRequestBuilder]:
        """As `send`, a POST with these headers and those of the client that its protocol passes
        on."""
        plan, codec = call.plan, call.incoming.codec
        if codec.name == plan.upstream.codec.name:
            headers = {**codec.endpoint.passed_on(call.incoming.headers), **headers}
        return await self.send(
            call,
            lease,
            lambda builder: builder.post(
                path,
                body,
                headers,
                stream=call.stream,
                route=plan.target.headers,
                proxy=lease.proxy,
                is_root=is_root,
            ),
        )

    def _expected(self, call: EndpointCall, rules: Rules) -> tuple[Expected, int]:
        """What a call may come to, and of how many bytes its tokens are."""
        row, plan = call.row, call.plan
        asked = row.asked(call.members)
        usage, size = asked.usage, 0
        if row.unit == "searches":
            usage = replace(usage, input=estimate_bytes(call.size))
        if row.unit == "tokens":
            expected, caller, target = self._admission.expected, call.caller.name, plan.target
            size = call.size
            output = usage.output
            if row.output_limit:
                limit = token_count(call.members.get(row.output_limit))
                output = (limit or expected.output(caller, target.model)) * answers_of(call.members)
            given = expected.input(caller, target.upstream.name, target.model, size)
            usage = Usage(input=given, output=min(output, MOST_OUTPUT))
        return self._forecast(call, Measured(usage, asked.units), rules), size

    def _forecast(self, call: EndpointCall, measured: Measured, rules: Rules) -> Expected:
        """What a call may come to that may use so much."""
        usage = measured.usage
        if not rules.needs_cost:
            return Expected(usage.input, usage.output)
        now = time.time()
        charges = [charge_of(call.row, one, measured, now) for one in call.plans]
        cost = max(one.cost or 0 for one in charges)
        return Expected(
            usage.input,
            usage.output,
            cost=None if charges[0].cost is None else cost,
            billed=any(one.billed for one in charges),
            usage=usage,
        )

    def _refuse(self, call: EndpointCall, fault: Fault, failure: Failure) -> None:
        """Answer with an upstream's own error: as it is, if the client can read it."""
        call.record.fail(fault)
        incoming, codec = call.incoming, call.incoming.codec
        is_own = codec.translate.is_own_error(failure.body)
        if failure.status in UNSERVED and not (is_own and failure.status == _NOT_FOUND):
            call.fail(unsupported(call, call.plan).fault)
        elif is_own and 400 <= failure.status < 600:
            incoming.reply(failure.status, failure.body)
        else:
            incoming.fail(fault)


def answers_of(members: Members) -> int:
    """The answers that a request asks for: to each of its prompts."""
    prompts = members.get("prompt")
    each = max(token_count(members.get(name)) or 1 for name in ("n", "best_of"))
    if not isinstance(prompts, list) or not prompts or isinstance(prompts[0], int):
        return each
    return each * len(prompts)


def _whose(call: EndpointCall) -> tuple[IncomingRequest, Caller, Record, Target]:
    return call.incoming, call.caller, call.record, call.plan.target


def unsupported(call: EndpointCall, plan: Plan) -> DragomanError:
    """The error for an endpoint that no upstream of the model has."""
    message = (
        f"The model {call.model[:200]!r} is served by {plan.upstream.name}, which has no"
        f" {call.row.path} ({call.row.capability})."
    )
    return refusal(FaultKind.NOT_FOUND, message, code="unsupported_endpoint")


def _lingers(call: EndpointCall) -> float:
    """Seconds for which an answer is read on though its client has left, for its usage."""
    admitted = call.record.admitted
    return READ_ON_S if call.is_called and admitted and admitted.rules.needs_tokens else 0.0


def _may_repeat(repeat: Repeat, failure: Failure) -> bool:
    """Whether another account may be asked after a failure."""
    if repeat == "any_failure":
        return True
    if repeat == "never":
        return False
    if failure.status == _BUSY:
        return failure.symptom.retry_after is not None
    return failure.status in _REFUSED_BEFORE or failure.cause in (*UNSENT_CAUSES, "no_credential")


def _perhaps_begun(failure: Failure) -> Fault:
    """The error for a request that is not sent again, since it may have been carried out."""
    fault = failure.fault
    if failure.status:
        return fault
    message = f"{fault.message} The request may have been carried out; it was not sent again."
    return replace(fault, message=message)

"""One request from its body to its answer: the one way for all protocols, whole and streamed.

    read -> resolve the model -> translate -> ask one account after another -> deliver the answer

A failed attempt is followed by one with the next account, as long as the client was sent nothing of
an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import Credential
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import (
    Fault,
    FaultKind,
    InvalidRequest,
    Refused,
    UpstreamError,
)
from dragoman.canonical.losses import Policy
from dragoman.config import Server
from dragoman.edge.auth import Caller
from dragoman.edge.body_copies import BodyCopies
from dragoman.edge.delivery import Delivery, FramedDelivery
from dragoman.edge.errors import fault_of
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.edge.trace_context import HEADER as TRACEPARENT
from dragoman.observability.traces.traces import Traces
from dragoman.protocols.refits import refitted
from dragoman.serving.affinity import digest
from dragoman.serving.answer_delivery import (
    deliver_fault,
    deliver_refusal,
    deliver_stream,
    deliver_whole,
)
from dragoman.serving.answers import read_error
from dragoman.serving.attempts import Attempts, GaveUp, note_abandoned
from dragoman.serving.attribution import Attributor
from dragoman.serving.bound_answers import BoundAnswerRecorder, makes_things
from dragoman.serving.context import RequestContext
from dragoman.serving.conversations import Conversations
from dragoman.serving.copies import ObservedClient
from dragoman.serving.failures import (
    Failure,
    failed_call,
    is_about_reasoning,
    quotes,
    refused,
    unusable,
    without_account,
)
from dragoman.serving.idempotency import HEADER as IDEMPOTENCY_KEY
from dragoman.serving.idempotency import key_for
from dragoman.serving.large import LargeBodies
from dragoman.serving.learnt import NOTHING, OMITTED, corrected, key_of
from dragoman.serving.limits.accounts import AccountLimits
from dragoman.serving.limits.admission import Admission, capped
from dragoman.serving.plan import POLICY, Plan, with_policy
from dragoman.serving.recorder import AnswerRecorder
from dragoman.serving.resolver import TOOLS, RequestResolver
from dragoman.serving.searches import Rounds
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.serving.upstreams import Upstreams
from dragoman.translation import Call, ClientRequest
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import SocketUse
from dragoman.upstream.response import UpstreamResponse

_REFITTED = frozenset(
    {FaultKind.INVALID_REQUEST, FaultKind.UNPROCESSABLE, FaultKind.CONTEXT_TOO_LONG}
)
"""Kinds of refusals that may say what the upstream takes in place of what it was sent."""

_MOST_OMITTED = 4
"""Members that are left out of one request, one after another, until it is returned as refused."""

_LAST_WORDS_S = 0.2
"""Seconds for which an answer over WebSocket is read on when its client has left."""

READ_ON_S = 20.0
"""Seconds for which an answer is read on whose usage a limit counts. After that all counts as used
that was reserved."""

SHUTTING_DOWN = Fault(FaultKind.OVERLOADED, "The gateway is shutting down.", code="server_error")


class Recording(Struct, frozen=True):
    """What is recorded of requests besides their records: the end user and tags, traces,
    `kept_bytes` of each body for keys that keep these, and from which accounts one was chosen
    (`explains`)."""

    attributor: Attributor | None = None
    traces: Traces | None = None
    kept_bytes: int = 0
    explains: bool = False


class Exchange:
    """Answers requests for generation. `resolver` reads them, and finds where they go."""

    def __init__(
        self,
        server: Server,
        resolver: RequestResolver,
        upstreams: Upstreams,
        large: LargeBodies,
        conversations: Conversations,
        admission: Admission,
        recording: Recording,
    ) -> None:
        self._server = server
        self.resolver = resolver
        self._upstreams = upstreams
        self._large = large
        self._conversations = conversations
        self._admission = admission
        self.recording = recording

    async def serve(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest | None = None,
        recorder: AnswerRecorder | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Read, forward and answer one request. `request` is None if it was not read yet, and
        admitted if `record` says so; `recorder` records the answer; `plan` is None if it was not
        looked up yet.

        Raises:
            DragomanError: the request cannot be forwarded; nothing was sent to the client.
            ClientGone: the client left; the call upstream is cancelled.
        """
        if request is None:
            request = await self.resolver.read(incoming)
        recording = self.recording
        if recording.attributor is not None:
            recording.attributor.attribute(
                record, incoming.codec, incoming.headers, request.members
            )
        if plan is None:
            plan = self.resolver.resolve(incoming, request, caller, record)
        if recording.traces is not None:
            recording.traces.begin(incoming, record, request.members)
        if plan.binds_ids and not (ids := self._upstreams.ids).passes_all(plan.upstream.name):
            if named := request.bound_ids():
                only = "" if recorder is None else recorder.only
                plan = await ids.pinned(plan, caller, named, only)
            if makes_things(request):
                recorder = BoundAnswerRecorder(ids, caller, recorder)
        if caller.is_ruled:
            request = await self._ruled(incoming, caller, record, request, plan)
        context = RequestContext(incoming, caller, record, request, self._large, recorder)
        # From here on the context alone holds the request, and releases it in time.
        del request
        await self._follow(context, plan)
        linger = None
        if record.stream:
            form = None if incoming.operation is None else incoming.operation.form
            deliver = Delivery if form is None else partial(FramedDelivery, form)
            context.delivery = deliver(
                incoming,
                context.headers(),
                keepalive=lambda: incoming.codec.translate.keepalive,
                keepalive_s=0.0
                if incoming.options.keepalive == "off"
                else self._server.keepalive_s,
                commit_after_s=self._server.commit_after_s,
            )
        if caller.is_limited or (record.stream and plan.upstream.websocket != "off"):
            linger = partial(_lingers, context)
        try:
            await while_connected(incoming, self._forward(context), linger)
        finally:
            if context.delivery is not None:
                context.delivery.close()
            context.settle()

    async def _ruled(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        plan: Plan,
    ) -> ClientRequest:
        """A request as the rules of its caller have it: its output limit lowered, admitted by the
        caller's limits unless that was done before, its bodies kept.

        Raises:
            DragomanError: a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        if record.admitted is None:
            request = await self._admitted(incoming, caller, record, request, plan)
        if record.admitted is not None and incoming.continuation is not None:
            incoming.continuation.admit = partial(self._admission.admit_more, record)
        if caller.keeps_bodies and self.recording.kept_bytes:
            kept = record.bodies = BodyCopies(self.recording.kept_bytes)
            kept.add("client_request", request.body)
            incoming.observer = kept
        return request

    async def _admitted(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        plan: Plan,
    ) -> ClientRequest:
        if caller.most_output is not None:
            request = capped(incoming, request, caller.most_output)
        if not caller.is_limited:
            return request
        return await self._admission.admit(
            incoming, caller, record, request, plan.target, plan.prices
        )

    async def admit(
        self, incoming: IncomingRequest, caller: Caller, record: Record, request: ClientRequest
    ) -> ClientRequest:
        """Let a request in that is answered later, with a record that takes over what this one has
        reserved. Returns the request, with a lower output limit if it was clamped.

        Raises:
            DragomanError: it has no target, or a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        if not caller.is_limited:
            return request
        attributor = self.recording.attributor
        if attributor is not None:
            attributor.attribute(record, incoming.codec, incoming.headers, request.members)
        plan = self.resolver.resolve(incoming, request, caller, record)
        return await self._admitted(incoming, caller, record, request, plan)

    async def _follow(
        self,
        context: RequestContext,
        plan: Plan,
        *,
        is_fallback: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """Translate the request for the upstream of `plan`; with this policy where one is given.

        Raises:
            InvalidRequest: the request is malformed, or the policy refuses what would be lost.
            DragomanError: TOO_LARGE.
        """
        settings = plan.settings
        if POLICY in context.incoming.headers:
            settings = plan.settings_for(context.incoming)
        if policy is not None:
            settings = with_policy(settings, policy)
        request, upstream = context.request, plan.upstream.protocol
        codec = context.incoming.codec
        if upstream == codec.name and (
            headers := codec.endpoint.passed_on(context.incoming.headers)
        ):
            settings = replace(settings, headers=headers)
        if known := self.resolver.learnt.of(context.caller.name, plan.target):
            settings = corrected(settings, _without_limit_needed(context, known))
        if request.is_large:
            call = await self._large.translate(request, upstream, settings)
        else:
            call = Call(request, upstream, settings)
        call.request_id = context.incoming.request_id
        if context.recorder is not None:
            call.response_id = context.recorder.response_id
        context.follow(plan, call, is_fallback=is_fallback)

    async def _forward(self, context: RequestContext) -> None:
        """Ask the accounts of the request's plan, then those of its fallbacks, and deliver the
        answer, or the error. Once the head of a stream was sent, errors go into the stream."""
        try:
            first, gave_up = context.plan, None
            order: Iterable[tuple[Plan, Sequence[Plan]]]
            order = self._in_order(first) if first.fallbacks else ((first, ()),)
            for plan, following in order:
                if plan is not first:
                    if await self._try_fallback(context, plan, following):
                        return
                    continue
                if context.plan is not first:
                    await self._follow(context, first)
                gave_up = await self._try_accounts(context, following)
                if gave_up is None:
                    return
                if gave_up.failure is not None:
                    gave_up = await self._try_detour(context, first, gave_up)
                    if gave_up is None:
                        return
                if gave_up.failure is not None:
                    if not await self._try_longer(context, following, gave_up.failure):
                        await deliver_refusal(context, gave_up.failure)
                    return
            assert gave_up is not None
            fault = gave_up.fault
            if first.only and not context.record.attempts:
                fault = without_account(fault)
            context.record.blame_last()
            # Of several errors the client is sent that of the upstream it asked for.
            if self._server.retry_headers and context.record.attempts > 1:
                context.incoming.shared.append((b"x-should-retry", b"false"))
            await deliver_fault(context, fault)
        except asyncio.CancelledError:
            if not context.incoming.gone and (
                _is_streaming(context) or not context.incoming.status
            ):
                await deliver_fault(context, SHUTTING_DOWN)
            raise
        except Exception as error:
            if not _is_streaming(context):
                raise
            if not context.incoming.gone:
                await deliver_fault(context, fault_of(error, context.incoming.request_id))

    def _in_order(self, first: Plan) -> Iterator[tuple[Plan, Sequence[Plan]]]:
        """A plan and its fallbacks in the order in which they are asked, each with those that are
        left if it does not answer. If the host of the first cannot be reached, those that can be go
        before it. Hosts are looked at when it matters, as a look may begin a trial."""
        avoids = self._upstreams.pool.avoids
        left = list(first.fallbacks)
        if avoids(first.upstream.name):
            for fallback in first.fallbacks:
                if not avoids(fallback.upstream.name):
                    left.remove(fallback)
                    yield fallback, (first, *left)
        yield first, left
        while left:
            yield left.pop(0), left

    async def _try_fallback(
        self, context: RequestContext, fallback: Plan, following: Sequence[Plan]
    ) -> bool:
        """Whether a fallback answered. It is not asked if there is no time left, or if the request
        cannot be translated for it."""
        attempts = context.attempts
        if attempts is not None and not attempts.in_time(fallback.upstream):
            return False
        if self._admission.refuses_target(context.record, fallback.target, fallback.prices):
            return False
        try:
            try:
                await self._follow(context, fallback, is_fallback=True)
            except Refused as error:
                if not context.incoming.codec.endpoint.negotiated.issuperset(error.paths):
                    return False
                await self._follow(context, fallback, is_fallback=True, policy=Policy.LENIENT)
            return await self._try_accounts(context, following) is None
        except InvalidRequest:
            return False

    async def _try_longer(
        self, context: RequestContext, following: Sequence[Plan], failure: Failure
    ) -> bool:
        """Whether a fallback answered that takes conversations that were too long."""
        if failure.fault.kind is not FaultKind.CONTEXT_TOO_LONG:
            return False
        left = [plan for plan in following if plan.target.takes_longer]
        while left:
            if await self._try_fallback(context, left.pop(0), left):
                return True
        return False

    async def _try_detour(
        self, context: RequestContext, plan: Plan, gave_up: GaveUp
    ) -> GaveUp | None:
        """What became of a request that was refused: where the refusal says that its tools are to
        be sent by another protocol, and there is a detour, that is asked."""
        assert gave_up.failure is not None
        words = gave_up.failure.fault.message
        around = self.resolver.around(context.caller, context.request, plan, words)
        if around is None:
            return gave_up
        if self._admission.refuses_target(context.record, around.target, around.prices):
            return gave_up
        try:
            await self._follow(context, around)
            context.corrected = {key_of(plan.target): {TOOLS: False}}
            return await self._try_accounts(context, ())
        except InvalidRequest:
            return gave_up

    async def _try_accounts(
        self, context: RequestContext, following: Sequence[Plan]
    ) -> GaveUp | None:
        """Ask one account of the plan's upstream after another until one answers. Returns why
        none did, None if one did.

        A first attempt with an account that is free is made at once. What decides between attempts
        is there once one has failed, or had to wait.

        Raises:
            InvalidRequest: the request cannot be sent there.
        """
        plan, record, pool = context.plan, context.record, self._upstreams.pool
        if len(plan.accounts.rotation.members) > 1:
            self._conversations.identify(context)
        attempts = lease = None
        if not (following or plan.is_bounded or context.attempts is not None or context.only):
            lease = pool.lend(context.wanted)
        if isinstance(lease, Lease):
            record.account, record.attempts, record.moved = lease.account.name, 1, lease.moved
            if self.recording.explains:
                record.alternatives = pool.alternatives(lease)
        else:
            attempts = self._attempts(context, following)
            lease = await attempts.next(lease)
        while lease is not None:
            try:
                limits = self._upstreams.limits
                if limits is None:
                    attempt = self._call(context, lease)
                else:
                    attempt = self._call_within(limits, context, lease)
                await (attempt if attempts is None else attempts.within(lease, attempt))
                return None
            except Failure as failure:
                if failure.by_model:
                    context.note_in_vain(lease)
                elif quotes(failure.symptom, plan.accounts.rules, context.said):
                    failure.symptom = replace(failure.symptom, is_quoted=True)
                context.forget_attempt()
                if attempts is None:
                    attempts = self._attempts(context, following)
                    attempts.begin_after(lease)
                attempts.failed(lease, failure)
            except asyncio.CancelledError:
                note_abandoned(record, plan, lease)
                raise
            finally:
                lease.give_back()
            # Nobody waits for another attempt at what is only read on for its usage.
            lease = None if context.incoming.gone else await attempts.next()
        assert attempts is not None
        return attempts.gave_up

    def _attempts(self, context: RequestContext, following: Sequence[Plan]) -> Attempts:
        """What decides between the attempts at the accounts of the plan's upstream."""
        attempts = context.attempts
        if attempts is None:
            attempts = context.attempts = Attempts(
                self._upstreams.pool, context.record, explains=self.recording.explains
            )
        attempts.start(context.plan, context.wanted, context.only, following)
        return attempts

    async def _call_within(
        self, limits: AccountLimits, context: RequestContext, lease: Lease
    ) -> None:
        """Call the upstream with one account and deliver its answer, within the limits of that
        account.

        Raises:
            Failure: as `_call`, or too little is left of a limit.
            Refused: as `_call`.
        """
        reserved = await limits.reserve(context.request, context.plan, lease.account.name)
        if reserved is None:
            await self._call(context, lease)
            return
        context.on_settled = reserved.settle
        try:
            await self._call(context, lease)
        except Failure:
            context.on_settled = None
            reserved.settle(context.record)
            raise

    async def _call(self, context: RequestContext, lease: Lease) -> None:
        """Call the upstream with one account and deliver its answer. If the account refuses the
        reasoning in the request, it is called once more without; if it says what it takes in place
        of a word or number of the request, once more with that.

        Raises:
            Failure: the call failed before anything of an answer was sent to the client.
            Refused: the policy does not allow to leave out reasoning that the account cannot use.
        """
        client, builder = self._upstreams.client, self._upstreams.builders.of(lease.account)
        record = context.record
        if record.bodies is not None:
            client = ObservedClient(client, record.bodies)
        context.call.account = builder.tag
        if context.call.search is not None:
            context.call.search_anew()
        dropped = 0
        if context.has_choice or record.attempts > 1:
            # Else there is no other account that reasoning could be of.
            dropped = await self._conversations.drop_foreign_reasoning(context, lease)
        repeated = renewed = False
        used: Credential | None = None
        while True:
            record.sent_at = time.perf_counter()
            record.bytes_up, record.bytes_down = len(context.call.body), 0
            rounds = context.rounds = None
            if context.call.search is not None:
                rounds = context.rounds = self._rounds(context, lease, builder, client)
            try:
                used = None if builder.is_ready else await builder.ready()
                answer = await _send(context, lease, builder, client)
                try:
                    self._upstreams.pool.heard(lease, answer.headers)
                    if not answer.is_good:
                        raise await _refusal(context, answer)
                    if context.corrected:
                        self.resolver.learnt.learn(context.caller.name, context.corrected)
                    if context.delivery is None:
                        await deliver_whole(context, lease, answer)
                    else:
                        await deliver_stream(context, context.delivery, lease, answer)
                finally:
                    record.bytes_down = answer.received
                    answer.close()
                    if rounds is not None:
                        rounds.close()
                return
            except CallError as error:
                raise failed_call(error, context.plan.upstream.name) from None
            except UpstreamError as error:
                raise unusable(context.call.mask.fault(error.fault)) from None
            except Failure as failure:
                if failure.by_model:
                    raise
                context.forget_attempt()
                if context.call.search is not None:
                    context.call.search_anew()
                if used is not None and not renewed:
                    renewed = await _renewed(builder, used, failure, context.plan.upstream.name)
                    if renewed:
                        continue
                if is_about_reasoning(context.call.codec, failure):
                    if repeated:
                        raise
                    repeated = await self._conversations.drop_all_reasoning(context, dropped)
                    if not repeated:
                        raise
                elif not await self._refit(context, failure):
                    raise
                elif dropped:
                    dropped = await self._conversations.drop_foreign_reasoning(context, lease)

    def _rounds(
        self,
        context: RequestContext,
        lease: Lease,
        builder: UpstreamRequestBuilder,
        client: UpstreamClient,
    ) -> Rounds:
        """The calls that may follow the first, where the model may have the web searched."""
        call = context.call

        async def ask() -> UpstreamResponse:
            answer = await _send(context, lease, builder, client)
            if answer.is_good:
                return answer
            try:
                raise await _refusal(context, answer)
            finally:
                answer.close()

        admit = partial(self._admission.admit_more, context.record)
        return Rounds(self._upstreams.engine, call, admit, ask)

    async def _refit(self, context: RequestContext, failure: Failure) -> bool:
        """Write a refused request anew, as the refusal says that the upstream takes it. False if it
        says nothing new, or the request stays the same."""
        if failure.fault.kind not in _REFITTED:
            return False
        call = context.call
        words, capabilities = failure.fault.message, call.settings.capabilities
        found = call.endpoint.refits(words, capabilities) or refitted(words, capabilities)
        values = _without_limit_needed(context, found)
        key = key_of(context.plan.target)
        before = context.corrected.get(key, NOTHING)
        if values.keys() <= before.keys() and not _grows(values, before):
            return False
        settings = corrected(call.settings, values)
        try:
            again = await self._large.translate(context.request, call.codec.name, settings)
        except InvalidRequest:
            return False
        if again.body == call.body and again.headers_passed == call.headers_passed:
            return False
        again.account = call.account
        again.request_id, again.response_id = call.request_id, call.response_id
        context.call, context.ledger = again, again.ledger
        context.update_headers()
        context.corrected = {**context.corrected, key: {**before, **values}}
        return True


def _grows(values: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether more is to be left out of a request than before, where a service refuses one member
    after another."""
    return any(
        isinstance(value, tuple) and len(before[name]) < len(value) <= _MOST_OMITTED
        for name, value in values.items()
        if name in OMITTED
    )


def _without_limit_needed(context: RequestContext, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Corrected capabilities for a request. The output limit is not left out where it holds a key
    to its budget or to the longest answer it may have: then the refusal goes to the client."""
    if context.record.admitted is None and context.caller.most_output is None:
        return values
    return {name: value for name, value in values.items() if name != "output_limit"}


def _is_streaming(context: RequestContext) -> bool:
    """Whether the head of a stream was sent, but not its end."""
    delivery = context.delivery
    return delivery is not None and delivery.committed and not delivery.over


def _lingers(context: RequestContext) -> float:
    """Seconds for which an answer is read on though its client has left. Where a limit counts what
    it uses, to its end; else what an upstream has said over a connection by then is there."""
    admitted = context.record.admitted
    if context.is_called and admitted is not None and admitted.rules.needs_tokens:
        return READ_ON_S
    return _LAST_WORDS_S if context.stream is not None else 0.0


def _send(
    context: RequestContext, lease: Lease, builder: UpstreamRequestBuilder, client: UpstreamClient
) -> Coroutine[Any, Any, UpstreamResponse]:
    """Send the request as it is now. No reference to its body outlasts the sending.

    Raises:
        CallError: there is no answer.
    """
    call, plan, trace = context.call, context.plan, context.record.trace
    route = plan.target.headers
    if trace is not None and plan.upstream.propagate_trace:
        route = {**(route or {}), TRACEPARENT.decode(): trace.call().header()}
    request = builder.post(
        call.path,
        call.body,
        call.headers_passed if call.passes_through else None,
        stream=call.streams,
        route=route,
        proxy=lease.proxy,
        idempotency_key=_idempotency_key(context, lease)
        if IDEMPOTENCY_KEY in context.incoming.headers
        else "",
        socket=_socket_use(context) if call.streams else None,
    )
    # Only now: it hides what this request is authorised by.
    call.mask = builder.mask
    return client.send(
        request,
        lease.accounts.waits[call.streams].limit,
        lease.fell_silent,
        context,
    )


async def _renewed(
    builder: UpstreamRequestBuilder, used: Credential, failure: Failure, upstream: str
) -> bool:
    """Whether a request that was refused is repeated with another credential.

    Raises:
        Failure: there is none.
    """
    try:
        return await builder.renewed(used, failure.status, failure.symptom)
    except CallError as error:
        raise failed_call(error, upstream) from None


async def _refusal(context: RequestContext, answer: UpstreamResponse) -> Failure:
    """The failure of a call that the upstream refused."""
    body = context.call.mask.error(await read_error(answer))
    return refused(context.call.codec, answer.status, answer.headers, body)


def _socket_use(context: RequestContext) -> SocketUse | None:
    """Whose connections the call may go over: those of its conversation with the account, as far as
    it is known, and never those of another client."""
    upstream, continuation = context.plan.upstream, context.incoming.continuation
    if continuation is not None:
        continuation.add = None
    turn = None if upstream.websocket == "off" else upstream.endpoint.socket_turn
    if turn is None:
        return None
    keys = context.keys
    known = keys.aliases[0] if keys.aliases else keys.lookup
    digests = digest(context.caller.name, upstream.name, "websocket", known)
    use = SocketUse(digests, turn, upstream.websocket == "on", context.incoming.reserve)
    if continuation is None or not context.call.passes_through or context.incoming.check:
        # Further input for a response that is being made would not be checked.
        return use
    on_input = _ignore if context.recorder is None else context.recorder.added
    return replace(use, on_begin=partial(continuation.can_add, on_input))


def _ignore(addition: object) -> None:
    """Input for an answer that is not recorded."""


def _idempotency_key(context: RequestContext, lease: Lease) -> str:
    """The key to send for the client's, empty for none. After an answer of no use there is none:
    the upstream would give that answer again."""
    key = context.incoming.headers.get(IDEMPOTENCY_KEY)
    if not key or context.record.in_vain:
        return ""
    return key_for(context.caller.name, key, lease.account.name, context.call.body)

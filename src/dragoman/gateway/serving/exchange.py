"""One request from its body to its answer: the one way for all protocols, full and streamed.

    read -> resolve the model -> lease an account -> call -> classify -> try the next or answer

A failure is tried again on the next account as long as the client was shown nothing of an answer.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool, Lease
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.requests import Request
from dragoman.config import Server
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.edge.errors import fault_of
from dragoman.gateway.edge.record import Record
from dragoman.gateway.edge.visit import Visit, while_connected
from dragoman.gateway.serving.affinity import NO_KEYS, ForeignReasoning, conversation_keys
from dragoman.gateway.serving.answer_delivery import deliver_stream, deliver_whole
from dragoman.gateway.serving.answers import is_error_object, read_error
from dragoman.gateway.serving.attempts import Attempts, GaveUp, without_traceback
from dragoman.gateway.serving.context import AnswerRecorder, RequestContext
from dragoman.gateway.serving.failures import (
    Failure,
    failed_call,
    is_about_reasoning,
    refused,
    unusable,
)
from dragoman.gateway.serving.routing import Router, Target, model_not_found
from dragoman.gateway.serving.upstream_requests import (
    UpstreamRequestBuilder,
    UpstreamRequestBuilders,
)
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import with_settings
from dragoman.translation import ALL_REASONING, Call, CallSettings, ClientRequest
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
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
        pool: AccountPool,
        client: UpstreamClient,
        builders: UpstreamRequestBuilders,
    ) -> None:
        self._server = server
        self._router = router
        self._pool = pool
        self._client = client
        self._builders = builders
        self._foreign = ForeignReasoning()

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
        recorder: AnswerRecorder | None = None,
        target: Target | None = None,
    ) -> None:
        """Forward and answer a request that was read; `recorder` stores the answer. `target` is
        where it leads, None if that was not asked yet.

        Raises:
            DragomanError: as `serve`.
            ClientGone: as `serve`.
        """
        context = RequestContext(
            visit, caller, record, request, Attempts(self._pool, record), recorder
        )
        if target is None:
            target = self.resolve(request, caller, record)
        # From here on the context alone holds it, and lets it go in time.
        del request
        context.retarget(target, self._call(context, target))
        if record.stream:
            context.delivery = Delivery(
                visit,
                context.headers(),
                keepalive=lambda: visit.codec.translate.keepalive,
                keepalive_s=0.0 if visit.options.keepalive == "off" else self._server.keepalive_s,
                commit_after_s=self._server.commit_after_s,
            )
        try:
            await while_connected(visit, self._answered(context))
        finally:
            if context.delivery is not None:
                context.delivery.close()
            record.usage = context.outcome.usage
            record.losses = tuple(context.ledger)

    async def read(self, visit: Visit) -> ClientRequest:
        """The request in the visit's body.

        Raises:
            DragomanError: it is too large, or not a request.
            ClientGone: the client left.
        """
        body = await visit.body(self._server.body_limit_bytes)
        return ClientRequest(visit.codec.name, body, operation=visit.operation)

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

    def settings(self, visit: Visit, caller: Caller, target: Target) -> CallSettings:
        """How to translate. A policy of the request goes over the client's, that over the route's.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        settings = target.settings
        options = settings.options
        if caller.dialect is not None:
            options = with_settings(options, DIALECTS[caller.dialect])
        visit.options = options
        policy = requested_policy(visit) or caller.policy
        if policy is not None and policy is not options.policy:
            options = replace(options, policy=policy)
        return settings if options is settings.options else replace(settings, options=options)

    def _call(self, context: RequestContext, target: Target) -> Call:
        """The request as it is said to `target`.

        Raises:
            InvalidRequest: the request is malformed, or the policy refuses what would be lost.
        """
        settings = self.settings(context.visit, context.caller, target)
        call = Call(context.request, target.upstream.protocol, settings)
        if context.recorder is not None:
            call.response_id = context.recorder.response_id
        return call

    async def _answered(self, context: RequestContext) -> None:
        """Answer, whatever happens: after the head is out, errors go into the stream."""
        try:
            await self._attempts(context)
        except (Exception, asyncio.CancelledError) as error:
            delivery = context.delivery
            cancelled = isinstance(error, asyncio.CancelledError)
            if delivery is None or not delivery.committed or delivery.over:
                if cancelled and not context.visit.status and not context.visit.gone:
                    await self._fail(context, SHUTTING_DOWN)
                raise
            if not context.visit.gone:
                fault = SHUTTING_DOWN if cancelled else fault_of(error, context.visit.request_id)
                await self._fail(context, fault)
            if cancelled:
                raise

    async def _attempts(self, context: RequestContext) -> None:
        """Try the route's upstream, and then its fallbacks. Of several failures the first is told:
        it is that of the upstream that the client asked for."""
        first: GaveUp | None = None
        only = "" if context.recorder is None else context.recorder.only
        attempt = partial(self._attempt, context)
        for target in (context.target, *context.target.fallbacks):
            if first is not None and not self._turn(context, target):
                continue
            try:
                self._identify_conversation(context)
                await context.attempts.at(context.target, attempt, context.keys.lookup, only)
                return
            except GaveUp as given_up:
                if first is None:
                    first = without_traceback(given_up)
                    if first.failure is not None:
                        break
            except InvalidRequest:
                if first is None:
                    raise
                # To a fallback it cannot be said.
        assert first is not None
        if first.failure is not None:
            await self._hand_back(context, first.failure)
            return
        if self._server.retry_headers and context.attempts.made > 1:
            context.visit.shared.append((b"x-should-retry", b"false"))
        await self._fail(context, first.fault)

    def _turn(self, context: RequestContext, fallback: Target) -> bool:
        """Say the request to another upstream, if there is time and it can be said there."""
        if not context.attempts.in_time(fallback.upstream):
            return False
        target = detoured(fallback, context.request)
        try:
            call = self._call(context, target)
        except InvalidRequest:
            return False
        context.fell_back = True
        context.retarget(target, call)
        return True

    async def _attempt(self, context: RequestContext, lease: Lease) -> None:
        """Call the upstream with one account and give its answer to the client.

        Raises:
            Failure: it failed before anything was shown.
        """
        builder = self._builders.of(lease.account)
        context.call.account, context.call.mask = builder.tag, builder.mask
        left_out = self._fit(context, lease)
        try:
            await self._ask(context, lease, builder)
        except Failure as failure:
            if not is_about_reasoning(failure) or not self._fit_bare(context, left_out):
                raise
            await self._ask(context, lease, builder)

    def _identify_conversation(self, context: RequestContext) -> None:
        """Find out which conversation the request belongs to, where it matters.

        Raises:
            InvalidRequest: it is one that no account but its own could go on with.
        """
        upstream, request = context.target.upstream, context.request
        context.keys = NO_KEYS
        context.has_choice = self._pool.has_choice(upstream.name)
        if not context.has_choice:
            return
        passes_through = context.call.passes_through
        if passes_through:
            request.codec.passthrough.check_conversation(request.members)
        if upstream.affinity != "off":
            native = passes_through and upstream.stored_responses == "pass"
            headers, client = context.visit.headers, context.caller.name
            context.keys = conversation_keys(headers, request, client, upstream.name, native)

    def _fit(self, context: RequestContext, lease: Lease) -> int:
        """Leave out reasoning that is of no use to the account. The body is written again only
        where there is some. Returns how many pieces were left out.

        Raises:
            Refused: the policy does not allow the loss.
        """
        call, pin = context.call, context.keys.lookup
        bound = context.has_choice and context.target.upstream.binds_reasoning
        least = self._foreign.count(pin) if pin and call.passes_through else 0
        left_out = call.drop_reasoning(bound=bound, moved=lease.moved, least=least)
        if left_out and call.passes_through:
            self._foreign.record(pin, left_out)
        if context.ledger is not call.ledger:
            context.ledger = call.ledger
            context.update_headers()
        return left_out

    def _fit_bare(self, context: RequestContext, left_out: int) -> bool:
        """The account could not use the reasoning after all: leave out all of it. False if that
        changes nothing, or the policy does not allow it."""
        call = context.call
        try:
            left_out_now = call.drop_reasoning(least=ALL_REASONING)
        except InvalidRequest:
            return False
        if left_out_now == left_out:
            return False
        if call.passes_through:
            self._foreign.record(context.keys.lookup, left_out_now)
        context.ledger = call.ledger
        context.update_headers()
        return True

    async def _ask(
        self, context: RequestContext, lease: Lease, builder: UpstreamRequestBuilder
    ) -> None:
        mask = builder.mask
        sent_at = time.monotonic()
        try:
            async with await self._client.send(_request_of(context, lease, builder)) as answer:
                if not 200 <= answer.status < 300:
                    body = mask.error(await read_error(answer))
                    raise refused(context.call.codec, answer.status, answer.headers, body)
                if context.delivery is None:
                    await deliver_whole(context, lease, answer, mask)
                else:
                    await deliver_stream(context, context.delivery, lease, answer, sent_at)
        except CallError as error:
            raise failed_call(error, context.target.upstream.name) from None
        except UpstreamError as error:
            raise unusable(mask.fault(error.fault)) from None

    async def _hand_back(self, context: RequestContext, failure: Failure) -> None:
        """The request is at fault: the upstream's own error goes to the client."""
        context.record.error = failure.fault.kind
        verbatim = (
            context.call.passes_through
            and 400 <= failure.status < 600
            and is_error_object(failure.body)
        )
        if verbatim and await _uncommitted(context):
            await context.visit.reply(failure.status, failure.body)
        else:
            fault = failure.fault
            if failure.status >= 500 and fault.status is None:
                # The rules have it handed back, so it is told as it was.
                fault = replace(fault, status=min(failure.status, 599))
            await self._fail(context, fault)

    async def _fail(self, context: RequestContext, fault: Fault) -> None:
        """Answer with an error: with its status while that is possible, else in the stream."""
        context.record.error = fault.kind
        if await _uncommitted(context):
            await context.visit.fail(fault)
        elif context.delivery is not None:
            stream = context.stream or context.call.open_stream()
            await context.delivery.end(stream.fail(fault))


def _request_of(
    context: RequestContext, lease: Lease, builder: UpstreamRequestBuilder
) -> UpstreamRequest:
    """What is sent upstream. Not to be held on to while an answer is given: it has the body."""
    call = context.call
    return builder.post(
        call.path,
        call.body,
        context.visit.headers if call.passes_through else context.target.headers,
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


async def _uncommitted(context: RequestContext) -> bool:
    """Whether the answer may still have a status of its own. After this no sign of life is sent
    that could change it."""
    if context.delivery is None:
        return True
    await context.delivery.withdraw()
    return not context.delivery.committed


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

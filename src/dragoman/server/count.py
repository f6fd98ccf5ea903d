"""Counting a prompt's tokens: by the upstream if it can, else by an estimate that says so."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.pool import Lease
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.usage import Usage
from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.protocols import CODECS
from dragoman.protocols.base import Counting, to_json
from dragoman.responses.conversations import StoredConversations
from dragoman.responses.upstream_responses import UpstreamResponses, is_left_to
from dragoman.serving.answers import MOST_BYTES, read_error
from dragoman.serving.attempts import Attempts
from dragoman.serving.failures import Failure, failed_call, refused, unusable
from dragoman.serving.large import LargeBodies
from dragoman.serving.large_body_tasks import Source, request_of
from dragoman.serving.limits.client import Limits
from dragoman.serving.plan import Plan
from dragoman.serving.resolver import RequestResolver
from dragoman.serving.routing import Target
from dragoman.serving.upstreams import Upstreams
from dragoman.translation import Call, CallSettings, ClientRequest
from dragoman.translation.estimate import estimate_tokens
from dragoman.upstream.errors import CallError

ESTIMATED = (b"x-dragoman-estimate", b"true")

_CANNOT_COUNT = (404, 405, 501)
"""Statuses of an upstream that has no such endpoint."""


MOST_PER_MINUTE = 120
"""Counts of one caller in a minute that upstreams are asked for. Further ones are estimated: limits
of keys do not hold counts, and upstreams have limits of their own."""
_COUNTS = Limit(kind="requests", amount=MOST_PER_MINUTE, window="1m", when_away="share")


class Counter:
    """Serves the endpoints that count, of every protocol that has one."""

    def __init__(
        self,
        resolver: RequestResolver,
        upstreams: Upstreams,
        conversations: StoredConversations,
        upstream_responses: UpstreamResponses,
        large: LargeBodies,
        limits: Limits,
    ) -> None:
        self._large = large
        self._limits = limits
        self._resolver = resolver
        self._upstreams = upstreams
        self._conversations = conversations
        self._upstream_responses = upstream_responses

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Count the tokens of one request.

        Raises:
            DragomanError: the request cannot be read; nothing was sent to the client.
            ClientGone: the client left.
        """
        request = await self._resolver.read(incoming)
        plan = self._resolver.resolve(incoming, request, caller, record)
        target, settings = plan.target, plan.settings_for(incoming)
        only = ""
        if request.codec.endpoint.stores_responses:
            if is_left_to(target.upstream, settings.options):
                passing = await self._upstream_responses.retarget(
                    request, caller, plan, answered=False
                )
                only = passing.only
            else:
                request, _ = await self._conversations.with_history(
                    request, caller, target, answered=False
                )
        if (
            plan.binds_ids
            and not (ids := self._upstreams.ids).passes_all(plan.upstream.name)
            and (named := request.bound_ids())
        ):
            plan = await ids.pinned(plan, caller, named, only)
            target, only = plan.target, plan.only
        # Nothing is answered, so nothing is refused: what cannot be translated is not counted.
        lenient = replace(settings, options=replace(settings.options, policy=Policy.LENIENT))
        await while_connected(incoming, self._count(incoming, request, plan, lenient, record, only))

    async def _count(
        self,
        incoming: IncomingRequest,
        request: ClientRequest,
        plan: Plan,
        settings: CallSettings,
        record: Record,
        only: str,
    ) -> None:
        """Ask one account after another for the count; estimate it where none can count."""
        target = plan.target
        endpoint = target.upstream.endpoint
        # What is answered to a count says nothing of what would be to a request for an answer.
        attempts = Attempts(self._upstreams.pool, record, observes=False)
        clients, counting = incoming.codec.endpoint.counting, endpoint.counting
        assert clients is not None
        count: int | None = None
        if counting is not None and await self._limits.count(_COUNTS, f"{record.caller} (counts)"):
            if request.is_large:
                _, body = await self._large.work(
                    body_to_count_in_helper, request, target.upstream.protocol, settings
                )
            else:
                body = body_to_count(request, target.upstream.protocol, settings)
            attempts.start(plan, only=only)
            while count is None and (lease := await attempts.next()) is not None:
                try:
                    attempt = self._attempt(incoming, target, counting, body, lease)
                    count = await attempts.within(lease, attempt)
                except Failure as failure:
                    attempts.failed(lease, failure)
                finally:
                    lease.give_back()
            refusal = None if attempts.gave_up is None else attempts.gave_up.failure
            if refusal is not None and refusal.status not in _CANNOT_COUNT:
                record.error = refusal.fault.kind
                incoming.fail(refusal.fault)
                return
        headers: Headers = []
        if count is None:
            count = await self._estimate(request, settings.sealer)
            headers.append(ESTIMATED)
        record.usage = Usage(input=count)
        incoming.reply(200, to_json(clients.write(count)), headers)

    async def _estimate(self, request: ClientRequest, sealer: Sealer) -> int:
        if request.is_large:
            return (await self._large.work(estimate_in_helper, request, sealer))[0]
        return estimated(request, sealer)

    async def _attempt(
        self,
        incoming: IncomingRequest,
        target: Target,
        counting: Counting,
        body: bytes,
        lease: Lease,
    ) -> int:
        """The count by the upstream.

        Raises:
            Failure: it did not return one.
        """
        codec, endpoint = target.upstream.codec, target.upstream.endpoint
        builder = self._upstreams.builders.of(lease.account)
        headers = None
        if incoming.codec is codec:
            passed = codec.endpoint.passed_on(incoming.headers)
            headers = {name: passed[name] for name in endpoint.forwarded if name in passed}
        path = counting.path_for(target.model, endpoint.quote)
        try:
            await builder.ready()
            request = builder.post(
                path, body, headers, stream=False, route=target.headers, proxy=lease.proxy
            )
            async with await self._upstreams.client.send(request) as answer:
                if not 200 <= answer.status < 300:
                    error_body = builder.mask.error(await read_error(answer))
                    raise refused(codec, answer.status, answer.headers, error_body)
                count = counting.read(await answer.read(MOST_BYTES))
        except CallError as error:
            raise failed_call(error, target.upstream.name) from None
        if count is None:
            raise unusable(UpstreamError.unreadable("it holds no count").fault)
        return count


def body_to_count(request: ClientRequest, upstream: str, settings: CallSettings) -> bytes:
    """What an upstream of that protocol is sent to count.

    Raises:
        InvalidRequest: as `Call`.
    """
    plain = CODECS[upstream].endpoint
    counting = plain.at(settings.service).counting
    is_plain = counting is plain.counting and request.codec.name == upstream
    if counting is None or is_plain:
        return Call(request, upstream, settings).body
    body = Call(_completed(request), upstream, settings).body
    return counting.write_request(body, settings.model or request.model)


def estimated(request: ClientRequest, sealer: Sealer) -> int:
    """The estimated count, for upstreams that cannot count.

    Raises:
        InvalidRequest: naming the field.
    """
    return estimate_tokens(_completed(request).read(sealer))


def body_to_count_in_helper(
    body: bytes, source: Source, upstream: str, settings: CallSettings
) -> tuple[None, bytes]:
    """As `body_to_count`, in another process."""
    return None, body_to_count(request_of(body, source), upstream, settings)


def estimate_in_helper(body: bytes, source: Source, sealer: Sealer) -> tuple[int, bytes]:
    """As `estimated`, in another process."""
    return estimated(request_of(body, source), sealer), b""


def _completed(request: ClientRequest) -> ClientRequest:
    """A request for a count as one for an answer."""
    counting = request.codec.endpoint.counting
    if counting is None:
        return request
    members = counting.completed(request.members)
    return request if members is request.members else request.with_body(to_json(members))

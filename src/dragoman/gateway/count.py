"""Counting a prompt's tokens: by the upstream if it can, else by an estimate that says so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool, Lease
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.usage import Usage
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.errors import Headers
from dragoman.gateway.edge.record import Record
from dragoman.gateway.edge.visit import Visit, while_connected
from dragoman.gateway.estimate import estimate_tokens
from dragoman.gateway.serving.answers import MOST_BYTES, read_error
from dragoman.gateway.serving.attempts import Attempts, GaveUp
from dragoman.gateway.serving.exchange import Exchange
from dragoman.gateway.serving.failures import failed_call, refused, unusable
from dragoman.gateway.serving.routing import Target
from dragoman.gateway.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.gateway.stored.elsewhere import Elsewhere, is_left_to
from dragoman.gateway.stored.memory import Memory
from dragoman.jsontext import members as members_of
from dragoman.protocols.base import Counting, to_json
from dragoman.translation import Call, CallSettings, ClientRequest
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError

ESTIMATED = (b"x-dragoman-estimate", b"true")

_CANNOT = (404, 405, 501)
"""Statuses of an upstream that has no such endpoint."""


class Counter:
    """Serves the endpoints that count, of every protocol that has one."""

    def __init__(
        self,
        exchange: Exchange,
        pool: AccountPool,
        client: UpstreamClient,
        builders: UpstreamRequestBuilders,
        memory: Memory,
        elsewhere: Elsewhere,
    ) -> None:
        self._exchange = exchange
        self._pool = pool
        self._client = client
        self._builders = builders
        self._memory = memory
        self._elsewhere = elsewhere

    async def serve(self, visit: Visit, caller: Caller, record: Record) -> None:
        """Count the tokens of one request.

        Raises:
            DragomanError: the request cannot be read; nothing was sent to the client.
            ClientGone: the client left.
        """
        request = await self._exchange.read(visit)
        target = self._exchange.resolve(request, caller, record)
        settings = self._exchange.settings(visit, caller, target)
        only = ""
        if request.codec.endpoint.stores_responses:
            if is_left_to(target.upstream, settings.options):
                passing = await self._elsewhere.admit(
                    request, caller, target.upstream, answered=False
                )
                only = passing.only
            else:
                request, _ = await self._memory.recall(request, caller, target, answered=False)
        # A count is no answer: whatever cannot be carried is simply not counted.
        lenient = replace(settings, options=replace(settings.options, policy=Policy.LENIENT))
        counted = self._answer(visit, request, target, lenient, record, only)
        await while_connected(visit, counted)

    async def _answer(
        self,
        visit: Visit,
        request: ClientRequest,
        target: Target,
        settings: CallSettings,
        record: Record,
        only: str,
    ) -> None:
        codec = target.upstream.codec
        shown, counting = visit.codec.endpoint.counting, codec.endpoint.counting
        assert shown is not None
        counted: int | None = None
        if counting is not None:
            same = visit.codec is codec
            source = request if same else _completed(request)
            body = Call(source, codec.name, settings).body
            if not same:
                body = without(body, counting.uncounted)
            attempt = partial(self._ask, visit, target, counting, body)
            try:
                counted = await Attempts(self._pool, record).at(target, attempt, only=only)
            except GaveUp as given_up:
                if given_up.failure is not None and given_up.failure.status not in _CANNOT:
                    record.error = given_up.fault.kind
                    await visit.fail(given_up.fault)
                    return
        headers: Headers = []
        if counted is None:
            counted = estimate_tokens(_completed(request).read(settings.sealer))
            headers.append(ESTIMATED)
        record.usage = Usage(input=counted)
        await visit.reply(200, to_json(shown.write(counted)), headers)

    async def _ask(
        self, visit: Visit, target: Target, counting: Counting, body: bytes, lease: Lease
    ) -> int:
        codec = target.upstream.codec
        builder = self._builders.of(lease.account)
        headers = visit.headers if visit.codec is codec else None
        path = counting.path_for(target.model)
        request = builder.post(path, body, headers, stream=False, proxy=lease.proxy)
        try:
            async with await self._client.send(request) as answer:
                if not 200 <= answer.status < 300:
                    told = builder.mask.error(await read_error(answer))
                    raise refused(codec, answer.status, answer.headers, told)
                counted = counting.read(await answer.read(MOST_BYTES))
        except CallError as error:
            raise failed_call(error, target.upstream.name) from None
        if counted is None:
            raise unusable(UpstreamError.unreadable("it holds no count").fault)
        lease.succeeded()
        return counted


def _completed(request: ClientRequest) -> ClientRequest:
    """A request for a count as one for an answer."""
    counting = request.codec.endpoint.counting
    if counting is None:
        return request
    members = counting.completed(request.members)
    return request if members is request.members else request.with_body(to_json(members))


def without(body: bytes, names: Iterable[str]) -> bytes:
    """The JSON object without its members of these names; all others byte for byte."""
    members = members_of(body)
    for name in names:
        members.pop(name, None)
    return msgspec.json.encode(members)

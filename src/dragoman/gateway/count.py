"""Counting a prompt's tokens: by the upstream if it can, else by an estimate that says so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.accounts.pool import Lease, Pool
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
from dragoman.gateway.serving.outgoing import Outgoings
from dragoman.gateway.serving.routing import Target
from dragoman.gateway.stored.conversations import StoredConversations
from dragoman.gateway.stored.upstream_responses import UpstreamResponses, is_left_to
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.translation import Call, ClientRequest, Settings
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import UpstreamError as CallFailed

ESTIMATED = (b"x-dragoman-estimate", b"true")

_PATHS = {
    "anthropic_messages": "/messages/count_tokens",
    "openai_responses": "/responses/input_tokens",
}
"""Where an upstream counts, by its protocol. Chat has no such endpoint."""

_UNCOUNTED = {
    "anthropic_messages": ("max_tokens", "stream", "stop_sequences", "metadata", "service_tier"),
    "openai_responses": (
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    ),
}
"""What these endpoints do not take of a whole request, by the upstream's protocol
(message_count_tokens_params.py of anthropic, input_token_count_params.py of openai)."""

_CANNOT = (404, 405, 501)
"""Statuses of an upstream that has no such endpoint."""


class Counter:
    """Serves `/v1/messages/count_tokens` and `/v1/responses/input_tokens`."""

    def __init__(
        self,
        exchange: Exchange,
        pool: Pool,
        client: UpstreamClient,
        outgoings: Outgoings,
        conversations: StoredConversations,
        upstream_responses: UpstreamResponses,
    ) -> None:
        self._exchange = exchange
        self._pool = pool
        self._client = client
        self._outgoings = outgoings
        self._conversations = conversations
        self._upstream_responses = upstream_responses

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
        if request.codec.name == "openai_responses":
            if is_left_to(target.upstream, settings.options):
                passing = await self._upstream_responses.retarget(
                    request, caller, target.upstream, answered=False
                )
                only = passing.only
            else:
                request, _ = await self._conversations.with_history(
                    request, caller, target, answered=False
                )
        # A count is no answer: whatever cannot be carried is simply not counted.
        lenient = replace(settings, options=replace(settings.options, policy=Policy.LENIENT))
        counted = self._answer(visit, request, target, lenient, record, only)
        await while_connected(visit, counted)

    async def _answer(
        self,
        visit: Visit,
        request: ClientRequest,
        target: Target,
        settings: Settings,
        record: Record,
        only: str,
    ) -> None:
        protocol = target.upstream.protocol
        counted: int | None = None
        if protocol in _PATHS:
            same = visit.codec.name == protocol
            source = request if same else complete(request)
            body = Call(source, protocol, settings).body
            if not same:
                body = without(body, _UNCOUNTED[protocol])
            attempt = partial(self._ask, visit, target, body)
            try:
                counted = await Attempts(self._pool, record).at(target, attempt, only=only)
            except GaveUp as given_up:
                if given_up.failure is not None and given_up.failure.status not in _CANNOT:
                    record.error = given_up.fault.kind
                    await visit.fail(given_up.fault)
                    return
        headers: Headers = []
        if counted is None:
            counted = estimate_tokens(complete(request).read(settings.sealer))
            headers.append(ESTIMATED)
        record.usage = Usage(input=counted)
        await visit.reply(200, to_json(_shown(visit.codec.name, counted)), headers)

    async def _ask(self, visit: Visit, target: Target, body: bytes, lease: Lease) -> int:
        protocol = target.upstream.protocol
        same = visit.codec.name == protocol
        outgoing = self._outgoings.of(lease.account)
        headers = visit.headers if same else None
        request = outgoing.post(_PATHS[protocol], body, headers, stream=False, proxy=lease.proxy)
        try:
            async with await self._client.send(request) as answer:
                if not 200 <= answer.status < 300:
                    told = outgoing.mask.error(await read_error(answer))
                    raise refused(CODECS[protocol], answer.status, answer.headers, told)
                counted = _read(await answer.read(MOST_BYTES))
        except CallFailed as error:
            raise failed_call(error, target.upstream.name) from None
        if counted is None:
            raise unusable(UpstreamError.unreadable("it holds no count").fault)
        lease.succeeded()
        return counted


def complete(request: ClientRequest) -> ClientRequest:
    """A request for a count as one for an answer: Messages requires an output limit there."""
    if request.codec.name != "anthropic_messages":
        return request
    members = _members.decode(request.body)
    members.setdefault("max_tokens", msgspec.Raw(b"1"))
    return ClientRequest(request.codec.name, msgspec.json.encode(members))


def without(body: bytes, names: Iterable[str]) -> bytes:
    """The JSON object without its members of these names; all others byte for byte."""
    members = _members.decode(body)
    for name in names:
        members.pop(name, None)
    return msgspec.json.encode(members)


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _read(body: bytes) -> int | None:
    try:
        counted = msgspec.json.decode(body, type=dict[str, Any]).get("input_tokens")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return counted if type(counted) is int and counted >= 0 else None


def _shown(protocol: str, counted: int) -> JsonObject:
    if protocol == "openai_responses":
        return {"object": "response.input_tokens", "input_tokens": counted}
    return {"input_tokens": counted}

"""Responses that upstreams store themselves: whose each is, and which account has it.

All clients of the gateway are one to the service, which would show each what belongs to another,
and an account has no access to what another made. So the gateway stores the ids of responses
and of their items, by client, with the account: nothing of what they say.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.canonical.options import Options
from dragoman.config import Account, Config, Upstream
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.openai_responses.conversations import no_conversations
from dragoman.protocols.openai_responses.errors import error_members
from dragoman.protocols.openai_responses.stored import STORED, previous_not_found
from dragoman.responses.conversations import StoredConversations, item_not_found
from dragoman.serving.answers import MOST_BYTES, is_stream, read_error
from dragoman.serving.bindings import LONGEST_ID
from dragoman.serving.failures import failed_call, refused
from dragoman.serving.plan import Plan
from dragoman.serving.recorder import AnswerRecorder
from dragoman.serving.upstreams import Upstreams
from dragoman.sse import Decoder, Frame, encode
from dragoman.storage.bound import BoundId
from dragoman.translation import ClientRequest
from dragoman.translation.streams import AnswerStream
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_DAY_S = 24 * 3600.0
_OWNERS_KEPT_DAYS = 31.0
"""Days for which ids are stored: OpenAI stores responses for thirty."""
_NAME = re.compile(rf"[\w-]{{1,{LONGEST_ID}}}", re.ASCII)
"""What may stand in a path."""
_TOLD_AS_IT_IS = (400, 404, 409, 422)
_ACCOUNT_IS_OUT = (401, 402, 403)
"""What a service says of an account's key, which is none of the client's."""
_OUT = Fault(
    FaultKind.OVERLOADED,
    "The account that has this response cannot be used at the moment.",
    code="server_error",
)
_CODEC = CODECS["openai_responses"]


def is_left_to(upstream: Upstream, options: Options) -> bool:
    """Whether an upstream stores the responses that are asked of it: only where its answers are
    shown as they are, since it has no other form of them."""
    return upstream.stored_responses == "pass" and _CODEC.passthrough.suits(options)


class _Named(Struct):
    id: Any = None


class _Response(Struct):
    """What of a response, of a list of items, and of an event with a response is looked at."""

    id: Any = None
    output: list[_Named] | None = None
    data: list[_Named] | None = None
    response: _Response | None = None


_response = decoder(_Response)


class ResumedStream(AnswerStream):
    """The stream of a response that the upstream stores. It may begin anywhere in the answer, so
    its events pass as they are."""

    __slots__ = ("_number",)

    def __init__(self, mask: Mask) -> None:
        super().__init__(Decoder(), mask)
        self._number = 0
        """Sequence number of the next event."""

    def _take(self, frames: Iterable[Frame]) -> bytes:
        written = []
        for frame in frames:
            self._number += 1
            try:
                number = _numbered(frame.data).sequence_number
            except JsonError:
                number = None
            if type(number) is int:
                self._number = number + 1
            self.outcome.ended = self.outcome.ended or frame.event in _LAST
            written.append(frame.raw)
        return b"".join(written)

    def _close(self) -> bytes:
        return b"" if self.over else self._failed(_CUT)

    def _failed(self, fault: Fault) -> bytes:
        self.outcome.fault = fault
        event = {"type": "error", "sequence_number": self._number, **error_members(fault)}
        return encode(to_json(event), b"error")


class _Numbered(Struct):
    sequence_number: Any = None


_numbered = decoder(_Numbered)
_LAST = frozenset({b"response.completed", b"response.incomplete", b"response.failed", b"error"})
_CUT = UpstreamError.unreadable("its stream ends before the answer does").fault


class UpstreamResponses:
    """Responses that upstreams store: each is its client's, and with the account that made it."""

    def __init__(
        self,
        config: Config,
        upstreams: Upstreams,
        conversations: StoredConversations,
    ) -> None:
        self._conversations = conversations
        self._upstreams = {
            upstream.name: upstream
            for upstream in config.upstreams
            if upstream.stored_responses == "pass"
        }
        self._bindings = upstreams.ids
        self._pool = upstreams.pool
        self._client = upstreams.client
        self._builders = upstreams.builders

    async def retarget(
        self, request: ClientRequest, caller: Caller, plan: Plan, *, answered: bool = True
    ) -> UpstreamRecorder:
        """Retarget a request to the account that owns what it goes on from; it is only
        counted if it is not `answered`.

        Raises:
            DragomanError: it goes on from what is not its client's, or not there.
        """
        upstream = plan.upstream
        if (
            request.member("conversation") is not None
            and not plan.binds_ids
            and not self._bindings.passes_all(upstream.name)
        ):
            raise no_conversations()
        previous = request.member("previous_response_id")
        account = None
        if isinstance(previous, str):
            account = await self._bindings.account(previous, caller)
            is_here = account is not None and account.upstream == upstream.name
            if not is_here and (account is not None or not self._bindings.is_alone):
                raise previous_not_found(previous)
        if not self._bindings.is_alone:
            for number, name in await self._conversations.references(request):
                if await self._bindings.account(name, caller) is None:
                    raise item_not_found(name, number)
        stores = answered and request.member("store") is not False
        return UpstreamRecorder(self, caller, "" if account is None else account.name, stores)

    async def forward(
        self, name: str, below: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> bool:
        """Forward a client's request to the account that owns a response; `below` is the rest of
        the path after its id. Returns whether there is such an account.

        Raises:
            DragomanError: the service cannot be asked.
            ClientGone: the client left.
        """
        if not self._upstreams or not _NAME.fullmatch(name):
            return False
        account = await self._bindings.account(name, caller) or self._only()
        if account is None:
            return False
        record.upstream, record.account = account.upstream, account.name
        await while_connected(incoming, self._ask(name, below, account, incoming, caller))
        return True

    def _only(self) -> Account | None:
        """The only account, which has what is not found here, if any account has."""
        if not self._bindings.is_alone:
            return None
        accounts = [one for one in self._pool.accounts() if one.upstream in self._upstreams]
        return accounts[0] if len(accounts) == 1 else None

    async def _ask(
        self, name: str, below: str, account: Account, incoming: IncomingRequest, caller: Caller
    ) -> None:
        builder = self._builders.of(account)
        path = f"/responses/{name}{below}"
        try:
            await builder.ready()
            request = builder.bodyless(incoming.method, path, incoming.query.decode("latin-1"))
            async with await self._client.send(request) as answer:
                if not 200 <= answer.status < 300:
                    message = builder.mask.error(await read_error(answer))
                    if answer.status in _TOLD_AS_IT_IS and _CODEC.translate.is_own_error(message):
                        incoming.reply(answer.status, message)
                        return
                    if answer.status in _ACCOUNT_IS_OUT:
                        raise DragomanError(_OUT)
                    raise DragomanError(
                        refused(_CODEC, answer.status, answer.headers, message).fault
                    )
                if is_stream(answer, b"", _CODEC.endpoint.media):
                    await self._send(incoming, answer, ResumedStream(builder.mask))
                    return
                body = builder.mask.secrets_in(await answer.read(MOST_BYTES, incoming.reserve))
        except CallError as error:
            raise DragomanError(failed_call(error, account.upstream).fault) from None
        if incoming.method == "DELETE":
            await self._bindings.unbind(name, caller.name)
        elif incoming.method == "GET":
            await self.save_owner(_names_in(body), caller, account.name)
        incoming.reply(200, body)

    async def _send(
        self, incoming: IncomingRequest, answer: UpstreamResponse, stream: ResumedStream
    ) -> None:
        incoming.start(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        async for chunk in answer:
            data = stream.feed(chunk)
            if data:
                await incoming.write(data)
        incoming.end(stream.finish())

    async def save_owner(self, names: Sequence[str], caller: Caller, account: str) -> None:
        """Remember that things of these names are the caller's, and with that account. A store that
        cannot be used is logged."""
        if not names:
            return
        expires = time.time() + _OWNERS_KEPT_DAYS * _DAY_S
        ids = [
            BoundId(name=name, owner=caller.name, account=account, expires=expires)
            for name in names
        ]
        try:
            await self._bindings.bind(ids)
        except DragomanError:
            # The answer is as good as any; it only cannot be gone on from.
            return


class UpstreamRecorder(AnswerRecorder):
    """Records who owns an answer that its upstream stores. `only` is the name of the one account
    that can give it, empty if any can."""

    __slots__ = ("_account", "_caller", "_follows", "_only", "_stores", "_upstream_responses")

    def __init__(
        self, upstream_responses: UpstreamResponses, caller: Caller, only: str, stores: bool
    ) -> None:
        self._upstream_responses = upstream_responses
        self._caller = caller
        self._only = only
        self._stores = stores
        self._account = ""
        self._follows = False

    @property
    def follows(self) -> bool:
        """Whether another response may follow by itself."""
        return self._follows

    def added(self, addition: Any) -> None:
        """The response under way was sent more input."""
        self._follows = True

    @property
    def only(self) -> str:
        """The account that made what the request goes on from."""
        return self._only

    async def begun(self, account: str, answer_id: str) -> None:
        """The account of that name answers, by that id, which the client may use from now on."""
        self._account = account
        if self._stores and answer_id:
            await self._upstream_responses.save_owner([answer_id], self._caller, account)

    async def whole(self, body: bytes) -> bytes:
        """Remember whose the items of a whole answer are. Returns the answer."""
        if self._stores:
            await self._upstream_responses.save_owner(_names_in(body), self._caller, self._account)
        return body

    async def stream(self, data: bytes) -> bytes:
        """Store the owner of the items in the last events of a stream. Returns the
        events."""
        if self._stores:
            decoder = Decoder()
            for frame in [*decoder.feed(data), *decoder.finish()]:
                if frame.event in STORED.ends:
                    names = _names_in(frame.data)
                    await self._upstream_responses.save_owner(names, self._caller, self._account)
        return data


def _names_in(body: bytes) -> list[str]:
    """The names of a response and its items, of those in a list, or in an event."""
    try:
        found = _response(body)
    except JsonError:
        return []
    response = found.response or found
    named: Iterable[Any] = (
        response.id,
        *(item.id for item in response.output or ()),
        *(item.id for item in response.data or ()),
    )
    return [name for name in named if isinstance(name, str) and len(name) <= LONGEST_ID]

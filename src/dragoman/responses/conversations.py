"""Stored conversations on the request path: what a request continues, and what is stored.

A request that names an earlier response is completed before anything else reads it. An answer is
stored before its client sees the end of it, for the next request may come at once, and to another
worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.edge.auth import Caller
from dragoman.edge.continuation import Continuation
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.compaction import compacting, users_messages
from dragoman.protocols.openai_responses.conversations import (
    named_item,
    no_conversations,
    place_of,
    references,
    with_stored,
)
from dragoman.protocols.raw import join_list, join_object, split_list, split_object, text_of
from dragoman.protocols.stored_answers import GivenItems, StoredAnswers
from dragoman.responses.large_body_tasks import (
    compacting_body,
    items_given,
    messages_said,
    outputs_submitted,
)
from dragoman.responses.response_store import ResponseStoreThread
from dragoman.serving.bindings import LONGEST_ID
from dragoman.serving.large import LargeBodies, is_large
from dragoman.serving.recorder import AnswerRecorder
from dragoman.serving.routing import Target
from dragoman.sse import Decoder, Frame, encode, last_event
from dragoman.storage.responses import (
    FINISHED,
    Items,
    ResponseStore,
    StoredEvent,
    StoredResponse,
    TooLarge,
    Turn,
)
from dragoman.translation import ClientRequest
from dragoman.translation.call import mint

_log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")


class PendingResponse(Struct, frozen=True, kw_only=True):
    """A response that is to be stored, before it is made."""

    protocol: str
    id: str
    owner: str
    created: float
    input: Items
    previous: str | None = None
    background: bool = False
    taken: int = 0


class _Identified(Struct):
    id: Any = None


_one_identified = decoder(_Identified)
_all_identified = decoder(list[_Identified])
_FALSE = Raw(b"false")
_NULL = Raw(b"null")


class ResponseRecorder(AnswerRecorder):
    """Stores one answer on its way to the client. JSON values are stored byte by byte."""

    __slots__ = ("_collector", "conversations", "pending")

    def __init__(self, conversations: StoredConversations, pending: PendingResponse) -> None:
        self.conversations = conversations
        self.pending = pending
        collector = stored_of(pending.protocol).collector
        self._collector = None if collector is None else collector()

    @property
    def follows(self) -> bool:
        """Whether the answer is put together from all events of its stream."""
        return self._collector is not None

    async def follow(self, data: bytes) -> bytes:
        """Take events that are not the last."""
        if self._collector is not None:
            for frame in Decoder().feed(data):
                self._collector.take(frame)
        return data

    @property
    def response_id(self) -> str | None:
        """The id that the response is to have."""
        return self.pending.id

    async def begun(self, account: str, answer_id: str) -> None:
        """The account of that name answers, by that id: nothing of it is stored before its end."""

    async def store(self, response: bytes, data: bytes) -> bool:
        """Store a response object; `data` are the events that it ends with. Returns whether it is
        stored."""
        return await self.conversations.store(self.pending, response)

    async def whole(self, body: bytes) -> bytes:
        """Store a whole answer. Returns the answer to send: another if it could not be stored."""
        if await self.store(body, b"") or self._collector is not None:
            return body
        return _not_stored(body)

    async def stream(self, data: bytes) -> bytes:
        """Store the response in the last events of a stream. Returns the events to send: others if
        it could not be stored."""
        await ResponseRecorder.follow(self, data)
        begin = end = len(data)
        ends = stored_of(self.pending.protocol).ends
        while end:
            begin, frame = last_event(data, end)
            if frame is not None and frame.event in ends:
                message = await self.ended(frame, data)
                return data[:begin] + message + data[end:]
            end = begin
        return data

    async def ended(self, frame: Frame, data: bytes) -> bytes:
        """Store the response of a terminal event; `data` is as in `store`. Returns the event to
        send."""
        stored = stored_of(self.pending.protocol)
        event = split_object(Raw(frame.data)) or {}
        response = event.get(stored.answer)
        if response is None:
            return frame.raw
        whole = bytes(response)
        if self._collector is not None:
            members = split_object(response) or {}
            whole = to_json({**members, stored.items: Raw(self._collector.items())})
        if await self.store(whole, data) or self._collector is not None:
            return frame.raw
        message = join_object({**event, stored.answer: Raw(_not_stored(whole))})
        return encode(bytes(message), frame.event)


def _not_stored(response: bytes) -> bytes:
    members = split_object(Raw(response))
    return response if members is None else bytes(join_object({**members, "store": _FALSE}))


class _Plan(Struct, frozen=True, kw_only=True):
    """What a request continues, and what is stored. `remembered` is the conversation before it,
    where its connection has it. `strips`: a service that may answer would store the response,
    and is asked not to."""

    previous: str | None
    stores: bool
    background: bool
    remembered: Sequence[bytes] | None
    strips: bool


class _History(Struct, frozen=True):
    """The members of a request with all of its conversation: the items `earlier` and its `own`.
    `strips`: they are still to be stripped of what its service would look up."""

    members: Mapping[str, Raw]
    own: GivenItems
    earlier: Sequence[bytes]
    strips: bool


def _pending(
    request: ClientRequest, caller: Caller, plan: _Plan, history: _History
) -> PendingResponse:
    """The response to store."""
    items, previous = history.own, plan.previous
    if plan.remembered is not None:
        # The store does not have what precedes it.
        given = stored_of(request.codec.name).given
        items, previous = given(history.members.get("input")) or GivenItems(), None
    return PendingResponse(
        protocol=request.codec.name,
        id=mint(request.codec.endpoint.id_prefix),
        owner=caller.name,
        created=time.time(),
        input=Items(items.body, items.ids),
        previous=previous,
        background=plan.background,
    )


class StoredConversations:
    """Puts the stored conversation before a request's own items, and stores answers. Without
    `responses`, the store, nothing is stored, and what was stored before is not found."""

    def __init__(self, responses: ResponseStoreThread | None, large: LargeBodies) -> None:
        self.responses = responses
        self._large = large

    async def with_history(
        self,
        request: ClientRequest,
        caller: Caller,
        target: Target,
        *,
        answered: bool = True,
        continuation: Continuation | None = None,
    ) -> tuple[ClientRequest, PendingResponse | None]:
        """The request as if its client had sent the whole conversation, and the response that is to
        be stored; None if none is, as of a request that is not `answered`, but counted. A
        `continuation` may have the conversation before the request, and is given the one with it
        where nothing is stored.

        Raises:
            DragomanError: what the request continues is not there, or cannot be read.
        """
        if request.codec.endpoint.stored is None:
            return request, None
        plan = self._plan(request, target, answered=answered, continuation=continuation)
        if self.responses is None and continuation is None:
            return await self._unstored(request, plan), None
        is_complete = continuation is None and not plan.stores and plan.previous is None
        if is_complete and not await self.references(request):
            return request, None
        own = await self._given_items(request)
        if own is None:
            return request, None
        history = await self._history(request, own, plan, caller, continuation)
        if continuation is not None and (not plan.stores or continuation.prepares):
            added = history.own.body[1:-1].strip()
            continuation.pieces = (*history.earlier, *([added] if added else ()))
        pending = _pending(request, caller, plan, history) if plan.stores else None
        return await self._rebuilt(request, plan, history, pending), pending

    def _plan(
        self,
        request: ClientRequest,
        target: Target,
        *,
        answered: bool,
        continuation: Continuation | None,
    ) -> _Plan:
        """What the request continues, and whether its response is stored.

        Raises:
            InvalidRequest: that is not possible here.
        """
        if request.member("conversation") is not None:
            raise no_conversations()
        stored = stored_of(request.codec.name)
        previous = _text(request, stored.previous)
        prefix = request.codec.endpoint.id_prefix
        if previous is not None and continuation is None and not previous.startswith(prefix):
            # Nothing of another protocol's can be continued.
            raise stored.previous_not_found(previous)
        wants_store = _flag(request, "store") is not False and answered
        background = answered and _flag(request, "background") is True
        if background and not wants_store:
            raise InvalidRequest.at("background", "needs the response to be stored (store)")
        has_input = request.members.get("input") is not None
        if not has_input and not _stores(target) and request.member("prompt") is not None:
            raise InvalidRequest.at("prompt", "is stored at OpenAI; send its text as input")
        remembered = None if continuation is None else continuation.find(previous)
        if self.responses is None:
            if previous is not None and remembered is None:
                raise stored.previous_not_found(previous)
            if background:
                raise InvalidRequest.at("background", "needs a gateway that stores responses")
            if continuation is not None:
                wants_store = False
        return _Plan(
            previous=previous,
            stores=wants_store,
            background=background,
            remembered=remembered,
            strips=(wants_store or continuation is not None)
            and (_may_store(target) or stored.asks_service(request.members)),
        )

    async def _unstored(self, request: ClientRequest, plan: _Plan) -> ClientRequest:
        """The request for services that would store its response, where there is no store here."""
        if not plan.strips:
            return request
        members = stored_of(request.codec.name).unstored(request.members)
        return await self._with_members(request, members, {"store": False})

    async def _history(
        self,
        request: ClientRequest,
        own: GivenItems,
        plan: _Plan,
        caller: Caller,
        continuation: Continuation | None,
    ) -> _History:
        """The request's members with the conversation before its `own` items.

        Raises:
            DragomanError: some of it is not there, or cannot be read.
        """
        members: Mapping[str, Raw] = request.members
        strips, remembered = plan.strips, plan.remembered
        if (
            strips
            and continuation is not None
            and (plan.previous is None or remembered is not None)
        ):
            # What is remembered has no stored ids any more, so only what is new is stripped.
            strips = False
            stored = stored_of(request.codec.name)
            members = stored.unstored({**members, "input": Raw(own.body)})
            own = stored.given(members["input"]) or own
            continuation.unstored = True
        earlier: Sequence[bytes] = remembered or ()
        if plan.previous is not None or own.references:
            if remembered is None:
                turns = await self._turns(plan.previous, request, caller)
                earlier = [body for turn in turns for body in (*turn.input, *turn.output)]
            if own.references and self.responses is not None:
                own = await self._resolved(own, caller)
            members = stored_of(request.codec.name).whole(members, earlier, own)
        return _History(members, own, earlier, strips)

    async def _rebuilt(
        self,
        request: ClientRequest,
        plan: _Plan,
        history: _History,
        pending: PendingResponse | None,
    ) -> ClientRequest:
        """The request with its history; what its client sees of it stays as it was."""
        shown: JsonObject = {}
        stored = stored_of(request.codec.name)
        if plan.previous is not None:
            shown[stored.previous] = plan.previous
        if pending is not None:
            shown |= {"store": True, "id": pending.id}
        members = stored.unstored(history.members) if history.strips else history.members
        if members is request.members:
            request.shown = shown
            return request
        # An error names the place in what the client has sent.
        own = None if plan.previous is None else request.body
        return await self._with_members(request, members, shown, own=own)

    async def references(self, request: ClientRequest) -> list[tuple[int, str]]:
        """The items of a request's input that refer to stored ones, as `references`."""
        if request.is_large:
            own = await self._given_items(request)
            return [] if own is None else list(own.references)
        return references(request.members.get("input"))

    async def _given_items(self, request: ClientRequest) -> GivenItems | None:
        if request.is_large:
            own, body = await self._large.work(items_given, request)
            return None if own is None else replace(own, body=body)
        return stored_of(request.codec.name).given(request.members.get("input"))

    async def compacting(self, request: ClientRequest) -> bytes:
        """The body of a request that only compacts, as that of one for an answer.

        Raises:
            DragomanError: as `compacting` of the protocol, or TOO_LARGE.
        """
        if request.is_large:
            return (await self._large.work(compacting_body, request))[1]
        return to_json(compacting(request.members))

    async def said(self, request: ClientRequest) -> bytes:
        """The messages of the user in a request, as `users_messages`.

        Raises:
            DragomanError: TOO_LARGE.
        """
        if request.is_large:
            return (await self._large.work(messages_said, request))[1]
        return users_messages(request.members)

    async def submitted(self, body: bytes, waiting: Mapping[str, str]) -> tuple[bool, bytes]:
        """Whether a stream is asked for, and the items that answer the `waiting` calls, as
        `outputs_submitted`.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        if is_large(body):
            return await self._large.run(outputs_submitted, body, waiting)
        return outputs_submitted(body, waiting)

    async def _with_members(
        self,
        request: ClientRequest,
        members: Mapping[str, Raw],
        shown: Mapping[str, Any],
        *,
        own: bytes | None = None,
    ) -> ClientRequest:
        """The request with another body; `own` is as in `ClientRequest`."""
        body = to_json(dict(members))
        return await self._large.read(
            request.codec.name, body, shown=shown, members=members, own=own
        )

    async def stored_request(
        self, protocol: str, body: bytes, shown: Mapping[str, Any]
    ) -> ClientRequest:
        """A request that was read before, and stored."""
        return await self._large.read(protocol, body, shown=shown)

    async def store(
        self,
        pending: PendingResponse,
        response: bytes,
        events: Sequence[StoredEvent] = (),
        inserted: Sequence[tuple[int, bytes]] = (),
    ) -> bool:
        """Store a response object, and the last of its events. What is `inserted` into the
        conversation before an item of the answer, of that index, is JSON of items without brackets.
        Returns whether it is stored."""
        responses = self.responses
        if responses is None:
            return False
        try:
            members = jsontext.members(response)
            name = stored_of(pending.protocol).items
            output = _items(_with(members.get(name, _NULL), inserted))
        except JsonError:
            return False
        if text_of(members.get("id")) != pending.id:
            return False
        status: Any = text_of(members.get("status"))
        stored = StoredResponse(
            id=pending.id,
            owner=pending.owner,
            created=pending.created,
            expires=responses.expiry(pending.created),
            status=status if status in FINISHED else "completed",
            response=response,
            previous=pending.previous,
            input=pending.input,
            output=output,
            background=pending.background,
            taken=pending.taken,
        )
        try:
            await responses.put(stored, events)
        except TooLarge as error:
            _log.warning("a response is not stored: %s", error)
            return False
        except DragomanError:
            return False
        return True

    async def _turns(
        self, previous: str | None, request: ClientRequest, caller: Caller
    ) -> Sequence[Turn]:
        if previous is None:
            return ()
        turns = None
        if len(previous) <= LONGEST_ID:
            turns = await self._ask(lambda store: store.conversation(previous, caller.name))
        if not turns:
            raise stored_of(request.codec.name).previous_not_found(previous)
        if turns[-1].status not in FINISHED:
            name = stored_of(request.codec.name).previous
            raise InvalidRequest.at(name, "is still being made")
        return turns

    async def _resolved(self, given: GivenItems, caller: Caller) -> GivenItems:
        """The items with those in place that others of them stand for.

        Raises:
            DragomanError: there is no such item, or it cannot be had.
        """
        stored: dict[int, bytes] = {}
        for place, name in given.references:
            found = None
            if len(name) <= LONGEST_ID:
                found = await self._item(name, caller)
            if found is None:
                raise item_not_found(name, place)
            stored[place] = found
        return with_stored(given, stored)

    async def _item(self, name: str, caller: Caller) -> bytes | None:
        """The stored item of that id, which it came with, or was given by its place."""
        found = await self._ask(lambda store: store.item(name, caller.name))
        if found is not None:
            return found.body
        made = place_of(name)
        if made is None:
            return None
        response, place = made
        stored = await self._ask(lambda store: store.get(response, caller.name))
        if stored is None:
            return None
        items = split_list(Raw(stored.input.body)) or []
        if place >= len(items):
            return None
        item = named_item(bytes(items[place]), response, place)
        return item if _one_identified(item).id == name else None

    async def _ask(self, what: Callable[[ResponseStore], T]) -> T:
        assert self.responses is not None
        return await self.responses.ask(what)


def stored_of(protocol: str) -> StoredAnswers:
    """How answers of a protocol are stored that can be."""
    stored = CODECS[protocol].endpoint.stored
    assert stored is not None
    return stored


def item_not_found(name: str, number: int) -> DragomanError:
    """The error for a stored item that is not there, in the official API's words."""
    return DragomanError(
        Fault(
            FaultKind.NOT_FOUND,
            f"Item with id '{name[:LONGEST_ID]}' not found.",
            param=f"input[{number}].id",
        )
    )


def _stores(target: Target) -> bool:
    """Whether its service would store the response unless it is asked not to."""
    return target.upstream.codec.endpoint.stores_responses


def _may_store(target: Target) -> bool:
    """Whether any service that may answer would."""
    return any(map(_stores, (target, *target.fallbacks)))


def _with(output: Raw, inserted: Sequence[tuple[int, bytes]]) -> Raw:
    """The items of an answer, with others between them."""
    if not inserted:
        return output
    items = split_list(output) or []
    for place, more in reversed(inserted):
        items.insert(place, Raw(more))
    return join_list(items)


def _items(output: Raw) -> Items:
    """The items of an answer.

    Raises:
        JsonError: they are no array of objects.
    """
    if bytes(output) == b"null":
        return Items()
    ids = [one.id for one in _all_identified(output) if isinstance(one.id, str) and one.id]
    return Items(bytes(output), tuple(ids))


def _text(request: ClientRequest, name: str) -> str | None:
    value = request.member(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest.at(name, "must be a string")
    return value


def _flag(request: ClientRequest, name: str) -> bool | None:
    value = request.member(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest.at(name, "must be a boolean")
    return value

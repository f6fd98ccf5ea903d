"""Stored responses in the way of a request: what it goes on from, and what of it is kept.

A request that names an earlier response is made whole before anything else sees it; the answer of
one that is to be stored is kept before its client sees the end of it, for the next turn may come at
once, and to another worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.config import Upstream
from dragoman.gateway.auth import Caller
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.conversations import (
    own_items,
    reference,
    unstored_body,
    whole_body,
)
from dragoman.sse import Decoder
from dragoman.storage.base import StoreError
from dragoman.storage.responses import Item, ResponseStore, StoredResponse, TooLarge, Turn
from dragoman.translation import ClientRequest
from dragoman.translation.call import mint

_log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")

_DAY_S = 24 * 3600.0
_LONGEST_ID = 256
"""Characters of an id. Longer ones were never given out."""

_ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})


class Shelf:
    """A store of responses as a request uses it: on a thread of its own, so that nothing waits for
    the disk but who asked for it. `days` is how long a response is kept."""

    def __init__(self, store: ResponseStore, days: float) -> None:
        self._store = store
        self._kept_s = days * _DAY_S
        self._thread = ThreadPoolExecutor(1, "responses")

    def expiry(self, created: float) -> float:
        """Until when a response is kept that is made at `created`."""
        return created + self._kept_s

    async def ask(self, what: Callable[[ResponseStore], T]) -> T:
        """What the store says.

        Raises:
            DragomanError: the store cannot be used now.
            TooLarge: as the store does.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, what, self._store)
        except StoreError as error:
            _log.error("stored responses cannot be used: %s", error)
            raise DragomanError(_UNUSABLE) from None

    async def aclose(self) -> None:
        """Close the store, once what it was asked for is done."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()


_UNUSABLE = Fault(
    FaultKind.OVERLOADED,
    "Stored responses cannot be used at the moment.",
    code="server_error",
    retry_after=5.0,
)


class Keepsake(Struct, frozen=True, kw_only=True):
    """What is known of a response that is to be stored before it is there. `id` is empty where the
    answer brings its own."""

    id: str = ""
    owner: str
    created: float
    input: tuple[Item, ...]
    previous: str | None = None
    background: bool = False


class Keeping:
    """One answer that is to be stored, on its way to the client."""

    __slots__ = ("_keepsake", "_memory")

    def __init__(self, memory: Memory, keepsake: Keepsake) -> None:
        self._memory = memory
        self._keepsake = keepsake

    @property
    def response_id(self) -> str | None:
        """The id that the response has already; None if it is still to be given one."""
        return self._keepsake.id or None

    async def whole(self, body: bytes) -> bytes:
        """Keep a whole answer. Returns the answer to give: another if it could not be kept."""
        response = msgspec.json.decode(body)
        if await self._memory.keep(self._keepsake, response):
            return body
        return to_json({**response, "store": False})

    async def stream(self, data: bytes) -> bytes:
        """Keep the response that the last events of a stream hold. Returns the events to send:
        others if it could not be kept."""
        decoder = Decoder()
        for frame in [*decoder.feed(data), *decoder.finish()]:
            if frame.event in _ENDS:
                event = msgspec.json.decode(frame.data)
                response = event.get("response")
                if not isinstance(response, dict):
                    continue
                if not await self._memory.keep(self._keepsake, response):
                    told = to_json({**event, "response": {**response, "store": False}})
                    return data.replace(frame.data, told)
        return data


class Memory:
    """Makes requests whole, and keeps answers. Without a shelf nothing is stored, and what was
    stored elsewhere is not found."""

    def __init__(self, shelf: Shelf | None) -> None:
        self.shelf = shelf

    async def aclose(self) -> None:
        """Close the shelf."""
        if self.shelf is not None:
            await self.shelf.aclose()

    async def recall(
        self, request: ClientRequest, caller: Caller, upstream: Upstream
    ) -> tuple[ClientRequest, Keepsake | None]:
        """The request as if its client had sent the whole conversation, and what is to be kept;
        None if nothing is.

        Raises:
            DragomanError: what it goes on from is not there, or cannot be had.
        """
        if request.codec.name != "openai_responses" or _is_left_to(upstream):
            return request, None
        previous = _text(request, "previous_response_id")
        if self.shelf is None:
            if previous is not None:
                raise previous_not_found(previous)
            return request, None
        wanted = _flag(request, "store")
        background = _flag(request, "background") is True
        if background and wanted is False:
            raise InvalidRequest.at("background", "needs the response to be stored (store)")
        given = request.member("input")
        kept = wanted is not False
        if not isinstance(given, str | list) and not (given is None and previous is not None):
            return request, None
        own = own_items(given, mint)
        refers = any(isinstance(item, dict) and reference(item) is not None for item in own)
        created = time.time()
        keepsake = None
        shown: JsonObject = {}
        if kept:
            shown = {"store": True}
        if previous is not None or refers:
            turns = await self._turns(previous, caller)
            own = [await self._resolved(item, number, caller) for number, item in enumerate(own)]
            bodies = [to_json(item) for item in own]
            earlier = [item.body for turn in turns for item in (*turn.input, *turn.output)]
            shown["previous_response_id"] = previous
            body = whole_body(request.members, [*earlier, *bodies])
        else:
            body = request.body
        if kept and upstream.protocol == "openai_responses":
            body = unstored_body(body)
        if body is not request.body:
            request = ClientRequest(request.codec.name, body, shown)
        else:
            request.shown = shown
        if kept:
            items = tuple(Item(_id_of(item), to_json(item)) for item in own)
            keepsake = Keepsake(
                owner=caller.name,
                created=created,
                input=items,
                previous=previous,
                background=background,
            )
        return request, keepsake

    async def keep(self, keepsake: Keepsake, response: JsonObject) -> bool:
        """Keep a response. Returns whether it is kept."""
        shelf = self.shelf
        if shelf is None:
            return False
        output = response.get("output") or []
        stored = StoredResponse(
            id=response["id"],
            owner=keepsake.owner,
            created=keepsake.created,
            expires=shelf.expiry(keepsake.created),
            status=response.get("status") or "completed",
            response=to_json(response),
            previous=keepsake.previous,
            input=keepsake.input,
            output=tuple(Item(_id_of(item), to_json(item)) for item in output),
            background=keepsake.background,
        )
        try:
            await shelf.ask(lambda store: store.put(stored))
        except TooLarge as error:
            _log.warning("a response is not kept: %s", error)
            return False
        except DragomanError:
            return False
        return True

    async def _turns(self, previous: str | None, caller: Caller) -> Sequence[Turn]:
        if previous is None:
            return ()
        turns = None
        if len(previous) <= _LONGEST_ID:
            turns = await self._ask(lambda store: store.conversation(previous, caller.name))
        if turns is None:
            raise previous_not_found(previous)
        return turns

    async def _resolved(self, item: Any, number: int, caller: Caller) -> Any:
        """The item that `item` stands for."""
        name = reference(item) if isinstance(item, dict) else None
        if name is None:
            return item
        found = None
        if len(name) <= _LONGEST_ID:
            found = await self._ask(lambda store: store.item(name, caller.name))
        if found is None:
            raise DragomanError(
                Fault(
                    FaultKind.NOT_FOUND,
                    f"Item with id '{name[:_LONGEST_ID]}' not found.",
                    param=f"input[{number}].id",
                )
            )
        return msgspec.json.decode(found.body)

    async def _ask(self, what: Callable[[ResponseStore], T]) -> T:
        assert self.shelf is not None
        return await self.shelf.ask(what)


def previous_not_found(previous: str) -> DragomanError:
    """The error for an earlier response that is not there, in the official API's words."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            f"Previous response with id '{previous[:_LONGEST_ID]}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    )


def response_not_found(name: str, why: str = "") -> DragomanError:
    """The error for a response that is not there, in the official API's words."""
    message = f"Response with id '{name[:_LONGEST_ID]}' not found{why}."
    return DragomanError(Fault(FaultKind.NOT_FOUND, message))


def _is_left_to(upstream: Upstream) -> bool:
    return upstream.stored_responses == "pass" and upstream.protocol == "openai_responses"


def _id_of(item: Any) -> str:
    name = item.get("id") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


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

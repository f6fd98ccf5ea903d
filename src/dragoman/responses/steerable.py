"""Stores the responses of one stream to which input may be added while it is made: each when it
ends, with what was added to it, and what follows by itself as going on from what came before."""

from __future__ import annotations

import sys
import time

from msgspec import Raw

from dragoman.protocols.openai_responses.additions import ANSWERS, CREATED, Addition, Additions
from dragoman.protocols.openai_responses.conversations import given_items
from dragoman.protocols.openai_responses.stored import STORED
from dragoman.protocols.openai_responses.websocket import finished_item, response_id_in
from dragoman.protocols.stored_answers import GivenItems
from dragoman.responses.conversations import (
    PendingResponse,
    ResponseRecorder,
    StoredConversations,
)
from dragoman.sse import Decoder, Frame
from dragoman.storage.responses import Items

_ITEM_DONE = b"response.output_item.done"


class SteerableRecorder(ResponseRecorder):
    """Stores what a request of a connection makes. From when input was added it follows the stream:

    - A terminal event is held back until accepted input is settled, so that what waits for the next
      request is stored with the response that it follows, and the client finds it stored.
    - What was injected stands before the item of the answer that was finished next.
    - Where one response could not be stored, none that continues it is.
    """

    __slots__ = ("_added", "_end", "_injected", "_inserted", "_is_lost")

    def __init__(self, conversations: StoredConversations, pending: PendingResponse) -> None:
        super().__init__(conversations, pending)
        self._added: Additions | None = None
        self._end: Frame | None = None
        """A terminal event that is held back."""
        self._injected: list[bytes] = []
        """Items that came after the last finished item."""
        self._inserted: list[tuple[int, bytes]] = []
        """What came before an item of the answer, by the item's index."""
        self._is_lost = False

    @property
    def follows(self) -> bool:
        """Whether something was added."""
        return self._added is not None

    def added(self, addition: Addition) -> None:
        """The response under way was sent this input."""
        self._added = self._added or Additions()
        self._added.sent(addition)

    async def follow(self, data: bytes) -> bytes:
        """Record these events. Returns the events to send."""
        if self._added is None:
            return data
        return b"".join([await self._take(self._added, one) for one in Decoder().feed(data)])

    async def stream(self, data: bytes) -> bytes:
        """Record the last events. Returns the events to send."""
        if self._added is None:
            return await super().stream(data)
        return await self.follow(data) + await self._settle(self._added)

    async def store(self, response: bytes, data: bytes) -> bool:
        """Store a response object, unless what it continues is not stored."""
        stored = not self._is_lost and await self.conversations.store(
            self.pending, response, (), self._inserted
        )
        self._is_lost = not stored
        return stored

    async def _take(self, added: Additions, frame: Frame) -> bytes:
        """Act on an event. Returns what is sent for it."""
        name, data = frame.event, frame.data
        if name in ANSWERS:
            over = added.take(name, data)
            self._injected += [one.items for one in added.committed]
            return (await self._settle(added) if over else b"") + frame.raw
        if name in STORED.ends:
            before = await self._settle(added)
            self._end = frame
            over = added.take(name, data)
            is_last = over or name == b"response.failed"
            return before + (await self._settle(added) if is_last else b"")
        message = await self._settle(added)
        if name == CREATED:
            added.take(name, data)
            self._go_on(response_id_in(data), b",".join([one.items for one in added.committed]))
        elif name == _ITEM_DONE and self._injected:
            self._inserted.append((finished_item(data)[0], b",".join(self._injected)))
            self._injected = []
        return message + frame.raw

    async def _settle(self, added: Additions) -> bytes:
        """Keep the response that has ended. Returns its last event, nothing if there is none."""
        end, self._end = self._end, None
        if end is None:
            return b""
        last = [*self._injected, *(one.items for one in added.pending)]
        if last:
            self._inserted.append((sys.maxsize, b",".join(last)))
        return await self.ended(end, b"")

    def _go_on(self, name: str, items: bytes) -> None:
        """Another response has begun, which answers these items."""
        own = given_items(Raw(b"[%b]" % items)) or GivenItems()
        self.pending = PendingResponse(
            protocol=self.pending.protocol,
            id=name,
            owner=self.pending.owner,
            created=time.time(),
            input=Items(own.body, own.ids),
            previous=self.pending.id,
        )
        self._injected, self._inserted = [], []

"""The response store as requests use it: on a thread of its own, and written in groups."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import Struct

from dragoman.accounts.store import StoreError
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.storage.responses import ResponseStore, StoredEvent, StoredResponse, TooLarge

_log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")

_DAY_S = 24 * 3600.0
_AGAIN_S = 2.0
"""Seconds after which a store that failed is tried again."""
_GROUP_S = 0.005
"""Seconds between the beginnings of two transactions that write answers, while some come faster
than they are written: those that end at about the same time are then written together."""
_MOST_IN_GROUP = 256
_MOST_WAITING = 4096
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Answers, and bytes of them, that wait to be written. Further ones are not stored: a store that
takes no more must not fill the memory."""


class _Waiting(Struct):
    """An answer that is to be written, and who waits for that."""

    stored: StoredResponse
    events: Sequence[StoredEvent]
    written: asyncio.Future[TooLarge | None]
    size: int


class ResponseStoreThread:
    """A store of responses as a request uses it: on a thread of its own, so that nothing waits for
    the disk but who asked for it. `days` is how long a response is stored.

    Answers are written in groups, each in one transaction, and who gives an answer waits for its
    own group; `on_written` is called, in the thread, with the seconds that each took. Of those who
    ask while the store cannot be used one at a time waits for it; the others fail at once.
    """

    def __init__(self, store: ResponseStore, days: float) -> None:
        self._store = store
        self._kept_s = days * _DAY_S
        self._thread = ThreadPoolExecutor(1, "responses")
        self._again_at = 0.0
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._is_writing = False
        """Whether a group is being written, or is about to be."""
        self._gathers = False
        """Whether a group waits for more answers: from when one came while another was being
        written until a group had waited in vain."""
        self._next_at = 0.0
        self.on_written: Callable[[float], object] = lambda seconds: None

    @property
    def waiting(self) -> int:
        """How many answers wait to be written."""
        return len(self._waiting)

    def expiry(self, created: float) -> float:
        """Until when a response that is made at `created` is stored."""
        return created + self._kept_s

    async def ask(self, what: Callable[[ResponseStore], T]) -> T:
        """What the store says.

        Raises:
            DragomanError: the store cannot be used now.
            TooLarge: as the store does.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._asked, what)
        except StoreError:
            raise DragomanError(_UNUSABLE) from None

    async def put(self, stored: StoredResponse, events: Sequence[StoredEvent] = ()) -> None:
        """Keep an answer, together with others that end at the same time. Returns when it is safe.

        Raises:
            DragomanError: the store cannot be used now, or too many wait for it.
            TooLarge: as the store does.
        """
        size = len(stored.response) + len(stored.input.body) + len(stored.output.body)
        size += sum([len(event.frame) for event in events])
        waiting = self._waiting_bytes + size
        if self._waiting and (len(self._waiting) >= _MOST_WAITING or waiting > _MOST_WAITING_BYTES):
            raise DragomanError(_UNUSABLE)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[TooLarge | None] = loop.create_future()
        self._waiting.append(_Waiting(stored, events, written, size))
        self._waiting_bytes = waiting
        if self._is_writing:
            self._gathers = True
        else:
            self._is_writing = True
            self._write_soon(loop)
        try:
            too_large = await written
        except StoreError:
            raise DragomanError(_UNUSABLE) from None
        if too_large is not None:
            raise too_large

    def _write_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            self._is_writing = False
            return
        wait_s = self._next_at - loop.time() if self._gathers else 0.0
        if wait_s > 0:
            self._gathers = len(self._waiting) > 1
            loop.call_later(wait_s, self._write_group, loop)
        else:
            self._write_group(loop)

    def _write_group(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the thread write what waits."""
        waiting = self._waiting
        if not waiting:  # It was written at the end, before its time.
            self._is_writing = False
            return
        group = [waiting.popleft() for _ in range(min(len(waiting), _MOST_IN_GROUP))]
        self._next_at = loop.time() + _GROUP_S
        self._thread.submit(self._written, loop, group)

    def _written(self, loop: asyncio.AbstractEventLoop, group: list[_Waiting]) -> None:
        """In the thread: write a group, and wake those who wait."""
        found: Sequence[TooLarge | Exception | None]
        began = time.perf_counter()
        try:
            found = self._asked(lambda store: _put_all(store, group))
            self.on_written(time.perf_counter() - began)
        except Exception as error:
            found = [error] * len(group)
        loop.call_soon_threadsafe(self._wake, loop, group, found)

    def _wake(
        self,
        loop: asyncio.AbstractEventLoop,
        group: list[_Waiting],
        found: Sequence[TooLarge | Exception | None],
    ) -> None:
        for one, error in zip(group, found, strict=True):
            self._waiting_bytes -= one.size
            if one.written.done():  # Who waited was cancelled.
                continue
            if error is None or isinstance(error, TooLarge):
                one.written.set_result(error)
            else:
                one.written.set_exception(error)
        self._write_soon(loop)

    def _asked(self, what: Callable[[ResponseStore], T]) -> T:
        """In the thread. Who stood in line while the store failed is not to wait for it again."""
        if time.monotonic() < self._again_at:
            raise StoreError("failed a moment ago")
        try:
            return what(self._store)
        except StoreError as error:
            self._again_at = time.monotonic() + _AGAIN_S
            _log.error("stored responses cannot be used: %s", error)
            raise

    async def aclose(self) -> None:
        """Close the store, once what it was asked for is done."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            self._write_group(loop)
        await loop.run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()


def _put_all(
    store: ResponseStore, group: Sequence[_Waiting]
) -> Sequence[TooLarge | Exception | None]:
    """Write a group; if one of them cannot be written, each by itself."""
    try:
        return store.put_all([(one.stored, one.events) for one in group])
    except StoreError:
        raise
    except Exception as error:
        if len(group) == 1:
            return [error]
        return [_put_all(store, [one])[0] for one in group]


_UNUSABLE = Fault(
    FaultKind.OVERLOADED,
    "Stored responses cannot be used at the moment.",
    code="server_error",
    retry_after=5.0,
)

"""Requests that wait until fewer of their key or team are under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Waiter(Generic[T]):
    __slots__ = ("attempt", "future")

    def __init__(self, attempt: Callable[[], T | None], future: asyncio.Future[T]) -> None:
        self.attempt = attempt
        self.future = future


class TurnQueue(Generic[T]):
    """The requests that wait for one limit: of each key in the order of their coming, and the keys
    in turn. Each comes with an attempt, which returns what it is given, None if it must go on
    waiting. `serve` is to be called whenever something may be free."""

    def __init__(self) -> None:
        self._by_key: dict[str, deque[_Waiter[T]]] = {}
        self.count = 0
        """How many wait."""

    def has_room(self, key: str, most: int) -> bool:
        """Whether one more request of a key may wait where `most` may: also where other keys have
        taken all places, as long as it has less than its share of them."""
        if self.count < most:
            return True
        return len(self._by_key.get(key, ())) < most // len(self._by_key.keys() | {key})

    async def wait(
        self,
        key: str,
        attempt: Callable[[], T | None],
        give_back: Callable[[T], None],
        seconds: float,
    ) -> T | None:
        """Wait so many seconds at most; None if there was no turn within them. `give_back` takes
        what was given to a request that has left meanwhile."""
        waiter = _Waiter(attempt, asyncio.get_running_loop().create_future())
        self._by_key.setdefault(key, deque()).append(waiter)
        self.count += 1
        try:
            async with asyncio.timeout(seconds):
                given: T = await waiter.future
                return given
        except TimeoutError:
            return waiter.future.result() if _is_given(waiter.future) else None
        except asyncio.CancelledError:
            if _is_given(waiter.future):
                give_back(waiter.future.result())
            raise
        finally:
            self._leave(key, waiter)

    def serve(self) -> None:
        """Something may be free: give it to those whose turn it is."""
        while self._by_key:
            key, waiting = next(iter(self._by_key.items()))
            waiter = waiting[0]
            if not waiter.future.done():
                given = waiter.attempt()
                if given is None:
                    return
                waiter.future.set_result(given)
            self._leave(key, waiter)

    def _leave(self, key: str, waiter: _Waiter[T]) -> None:
        """Take a request out, if it is in; it is the next key's turn."""
        waiting = self._by_key.get(key)
        if waiting is None or waiter not in waiting:
            return
        was_first = waiting[0] is waiter
        waiting.remove(waiter)
        self.count -= 1
        if not waiting:
            del self._by_key[key]
        elif was_first:
            del self._by_key[key]
            self._by_key[key] = waiting


def _is_given(future: asyncio.Future[T]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None

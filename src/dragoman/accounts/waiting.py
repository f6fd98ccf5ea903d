"""Requests that wait for an account, first come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiter(Generic[T]):
    """A request for an account for `model`, other than those `tried`; `future` is its lease."""

    __slots__ = ("future", "model", "pin", "tried")

    def __init__(
        self, model: str, pin: bytes, tried: Collection[str], future: asyncio.Future[T]
    ) -> None:
        self.model = model
        self.pin = pin
        self.tried = tuple(tried)
        self.future = future


class WaitingLine(Generic[T]):
    """Waiters of one upstream in the order of their coming. None is in it that has its answer."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[Waiter[T], None] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def waiters(self) -> list[Waiter[T]]:
        """All of them, the first first."""
        return list(self._waiters)

    def add(self, waiter: Waiter[T]) -> None:
        """Stand last."""
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter[T]) -> None:
        """Wait no longer. Harmless if it does not."""
        self._waiters.pop(waiter, None)

    def give(self, waiter: Waiter[T], answer: T) -> None:
        """End its waiting with what it waited for."""
        self.leave(waiter)
        waiter.future.set_result(answer)

    def refuse(self, waiter: Waiter[T], error: Exception) -> None:
        """End its waiting with an error."""
        self.leave(waiter)
        if not waiter.future.done():
            waiter.future.set_exception(error)

"""Requests that wait for an account, first come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

_TIMER_SLACK_S = 0.001


class LeaseRequest(Struct, frozen=True):
    """What a request needs an account for.

    `model` is the upstream's name of the model, empty for any; `pin` the digest of the
    conversation's key, empty for none; `account` the name of the account that is known to hold the
    conversation's reasoning, which goes before the one that is remembered for `pin`. `proven` says
    that accounts that were avoided and have not answered since are asked last: the request has
    waited long enough for one that hung.
    """

    upstream: str
    model: str = ""
    pin: bytes = b""
    account: str = ""
    proven: bool = False


class Returnable(Protocol):
    """What is waited for."""

    def give_back(self) -> None:
        """It is not needed."""


T = TypeVar("T", bound=Returnable)


class Waiter(Generic[T]):
    """A request for an account as `wanted`, other than those `tried`, that waits for `future`."""

    __slots__ = ("future", "tried", "wanted")

    def __init__(
        self, wanted: LeaseRequest, tried: Collection[str], future: asyncio.Future[T]
    ) -> None:
        self.wanted = wanted
        self.tried = tuple(tried)
        self.future = future


class Supplier(Protocol[T]):
    """Whoever has what is waited for."""

    def lend(self, waiter: Waiter[T]) -> T | None:
        """What the waiter waits for, None if there is none for it now."""

    def refusal(self, waiter: Waiter[T], *, final: bool) -> Exception | None:
        """The error for a waiter that is to wait no longer; None if it should, unless `final`."""

    def next_wake(self) -> float | None:
        """In how many seconds there may be something without anybody giving it back; None: not
        by itself."""


class WaitQueue(Generic[T]):
    """Waiters of one upstream in the order of their coming. None is in it that has its answer."""

    __slots__ = ("_supplier", "_timer", "waiters")

    def __init__(self, supplier: Supplier[T]) -> None:
        self._supplier = supplier
        self.waiters: dict[Waiter[T], None] = {}
        """Who waits. To look at."""
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, wanted: LeaseRequest, tried: Collection[str], seconds: float) -> T:
        """Stand last, and wait so many seconds at most.

        Raises:
            Exception: the supplier's refusal.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        waiter = Waiter(wanted, tried, future)
        self.waiters[waiter] = None
        self._set_timer()
        timeout = loop.call_later(seconds, self._time_out, waiter)
        try:
            return await future
        except asyncio.CancelledError:
            # What it was given while it was being cancelled goes to the next in line.
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().give_back()
            raise
        finally:
            timeout.cancel()
            self.waiters.pop(waiter, None)
            if not self.waiters:
                self._stop_timer()

    def serve(self) -> None:
        """Something has changed: give to all who can have something, and refuse those for whom
        there is nothing to wait for."""
        for waiter in list(self.waiters):
            if waiter.future.done() or self._give(waiter):
                continue
            error = self._supplier.refusal(waiter, final=False)
            if error is not None:
                self._refuse(waiter, error)
        self._set_timer()

    def offer(self, suits: Callable[[Waiter[T]], bool], is_left: Callable[[], bool]) -> None:
        """Something was given back: who waited longest of those it `suits` gets it, and so on while
        it `is_left`."""
        for waiter in list(self.waiters):
            if not is_left():
                break
            if not waiter.future.done() and suits(waiter):
                self._give(waiter)

    def catch_up(self) -> None:
        """Before a newcomer is served: those who waited for a time that has come go first."""
        if self.waiters:
            wake = self._supplier.next_wake()
            if wake is not None and wake <= 0.0:
                self.serve()

    def _give(self, waiter: Waiter[T]) -> bool:
        lent = self._supplier.lend(waiter)
        if lent is None:
            return False
        del self.waiters[waiter]
        waiter.future.set_result(lent)
        return True

    def _refuse(self, waiter: Waiter[T], error: Exception) -> None:
        self.waiters.pop(waiter, None)
        waiter.future.set_exception(error)

    def _time_out(self, waiter: Waiter[T]) -> None:
        if waiter.future.done() or self._give(waiter):
            return
        error = self._supplier.refusal(waiter, final=True)
        assert error is not None
        self._refuse(waiter, error)

    def _set_timer(self) -> None:
        """Look again when the next rest ends, as long as anybody waits."""
        self._stop_timer()
        wake = self._supplier.next_wake()
        if self.waiters and wake is not None:
            loop = next(iter(self.waiters)).future.get_loop()
            self._timer = loop.call_later(max(0.0, wake) + _TIMER_SLACK_S, self._woken)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _woken(self) -> None:
        self._timer = None
        self.serve()

"""`max_concurrent` of accounts over all workers, and over all machines that share a database.

The number of requests that an account may have in flight is a limit like others: a worker borrows a
slot of it for each request from the owner of limits, and gives it back when the request is over.
While the database is away each machine holds to the number by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from dragoman.config.limits import Limit
from dragoman.limits.messages import Admit, Claim, Define, Granted, Settle, Settled, Unknown
from dragoman.link.messages import LinkError, Peer
from dragoman.serving.limits import questions

_UNUSED_S: Final = 0.1
"""Seconds after which a slot is given back that no request has taken."""

_ASK_AGAIN_S: Final = 0.02
"""Seconds for which the owner is not asked again for a slot that it does not have."""


class _Account(Struct):
    """One account: how many slots there are, the number of its ledger, slots that are free here and
    those that requests have, those of others as last known, and when it is asked for again."""

    most: int
    number: int = 0
    free: int = 0
    in_use: int = 0
    elsewhere: int = 0
    ask_at: float = 0.0
    asks: bool = False


class AccountSlots:
    """Implements `dragoman.accounts.store.LentCounts` for one worker."""

    def __init__(self, owner: Peer) -> None:
        self._owner = owner
        self._accounts: dict[str, _Account] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """See `Counts.close`: what is lent ends with the link."""

    def take(self, name: str, most: int) -> bool:
        """See `Counts.take`."""
        account = self._account(name, most)
        if not account.free and not (self._owner.is_closed and account.in_use < most):
            return False
        account.free = max(0, account.free - 1)
        account.in_use += 1
        return True

    def give_back(self, name: str) -> None:
        """See `Counts.give_back`."""
        account = self._accounts[name]
        account.in_use -= 1
        self._return(account)

    def elsewhere(self, name: str) -> int:
        """See `Counts.elsewhere`: as of the last answer."""
        account = self._accounts.get(name)
        return 0 if account is None else account.elsewhere

    def returns(self) -> _Unknown:
        """See `Counts.returns`."""
        return _unknown

    def lacks(self, name: str) -> bool:
        """See `LentCounts.lacks`."""
        account = self._accounts.get(name)
        return (
            account is not None
            and not account.free
            and not self._owner.is_closed
            and time.monotonic() >= account.ask_at
        )

    def want(self, names: Collection[str]) -> None:
        """See `LentCounts.want`."""
        for name in names:
            if self.lacks(name) and not self._accounts[name].asks:
                task = asyncio.get_running_loop().create_task(self.borrow(name))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def borrow(self, name: str) -> None:
        """See `LentCounts.borrow`."""
        account = self._accounts[name]
        account.asks = True
        try:
            await self._borrow(name, account)
        except LinkError:
            return
        finally:
            account.asks = False

    async def _borrow(self, name: str, account: _Account) -> None:
        def give_back(decision: object) -> None:
            if isinstance(decision, Granted):
                self._return(account)

        while True:
            if not account.number:
                limit = Limit(kind="concurrent", amount=account.most, when_away="open")
                define = Define(((f"account\n{name}", limit),))
                account.number = (await self._owner.ask(questions.DEFINE, define)).numbers[0]
            claim = Claim(account.number, 1, account.most)
            decision = await self._owner.ask(questions.ADMIT, Admit("", (claim,)), give_back)
            if not isinstance(decision, Unknown):
                break
            account.number = 0
        if isinstance(decision, Granted):
            account.free += 1
            account.elsewhere = max(0, account.most - decision.left[0] - account.in_use - 1)
            asyncio.get_running_loop().call_later(_UNUSED_S, self._return_unused, account)
        else:
            account.elsewhere = max(0, account.most - account.in_use)
            account.ask_at = time.monotonic() + _ASK_AGAIN_S

    def _account(self, name: str, most: int) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(most)
        account.most = most
        return account

    def _return_unused(self, account: _Account) -> None:
        if account.free:
            account.free -= 1
            self._return(account)

    def _return(self, account: _Account) -> None:
        settled = (Settled(account.number, 1, 0),)
        self._owner.report(questions.SETTLE, Settle(0.0, settled, is_stored=False))


class _Unknown:
    """Nobody reports what other workers have ended."""

    def __call__(self) -> None:
        return None


_unknown = _Unknown()

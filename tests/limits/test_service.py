"""The owner of limits and the workers that ask it, in one process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from dragoman.config.limits import Limit, LimitKind
from dragoman.edge.auth import Caller
from dragoman.keys.records import UsedInHour
from dragoman.limits.balances import Balance
from dragoman.limits.ledgers import Away, Decide, Holding, Ledger
from dragoman.limits.messages import Admit, Define, Defined, Granted, Refused, Unknown
from dragoman.limits.rules import Expected, Reservation, Rule
from dragoman.link.messages import Handlers, Peer
from dragoman.link.owner import Owner
from dragoman.serving.account_slots import AccountSlots
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.exchange import LedgerExchange
from dragoman.serving.limits.history import UsageHistory
from dragoman.serving.limits.service import LimitService

NOTHING = Expected(0, 0)


class MemoryLedgers:
    """Ledgers in memory."""

    def __init__(self) -> None:
        self.stored: dict[str, Ledger] = {}
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def exchange(self, names: Sequence[str], decide: Decide) -> None:
        self.asked.set()
        if not self.answers.wait(60.0):
            raise Away("hung")
        decide({name: self.stored.setdefault(name, Ledger()) for name in names}, time.time())

    def read(self, names: Sequence[str]) -> Mapping[str, Ledger]:
        return {name: self.stored[name] for name in names if name in self.stored}

    def abort(self) -> None:
        """An exchange hangs until it is answered."""

    def close(self) -> None:
        pass


def held_of(ledgers: MemoryLedgers) -> list[Holding]:
    """What machines hold of all limits, as the ledgers know it."""
    return [one for ledger in ledgers.stored.values() for one in ledger.holdings.values()]


def worker(owner: Owner, ledgers: MemoryLedgers | None = None) -> Limits:
    """The limits as a worker asks about them."""
    handlers = Handlers()
    exchange = None if ledgers is None else LedgerExchange(ledgers)
    limits = Limits(owner.join(handlers), UsageHistory(), LimitAlerts(), exchange=exchange)
    limits.register(handlers)
    return limits


async def admit(limits: Limits, caller: Caller) -> Reservation | Refused:
    """The decision about a request, which is over at once if it is admitted."""
    rules = caller.bound or await limits.bind(caller)
    decision = await limits.admit(rules, caller.name, NOTHING, 0, 1)
    if isinstance(decision, Reservation):
        limits.settle(decision, decision.granted.amounts)
    return decision


@pytest.mark.parametrize(("window", "entries"), [("total", 1), ("7d", 50)])
async def test_what_was_used_before_is_one_sum_for_each_part_of_the_window(
    window: str, entries: int
) -> None:
    now = time.time()
    hour = int(now) // 3600 * 3600
    rows = [
        UsedInHour(hour - 3600 * back, model, "up", 1, 0, 0, 0, 0, 0, 0)
        for back in range(50)
        for model in "abc"
    ]

    async def used_since(name: str, since: float, *, is_team: bool) -> Sequence[UsedInHour]:
        return rows

    rule = Rule(Limit(kind="requests", amount=1000, window=window), "k")
    used = await UsageHistory(used_since).used(rule, now)
    assert len(used) == entries
    balance = Balance(1, rule.ledger, rule.limit)
    balance.counter.restore(used, now)
    assert balance.used(now) == 150


async def test_a_key_that_is_removed_frees_nothing_of_its_team() -> None:
    owner = Owner()
    LimitService().register(owner.handlers)
    limits = worker(owner)
    for_all = (
        Limit(kind="requests", amount=2, window="1m"),
        Limit(kind="requests", amount=2, window="day"),
    )
    gone, stays = (Caller(name, team="t", team_limits=for_all) for name in "ab")
    assert isinstance(await admit(limits, stays), Reservation)
    assert isinstance(await admit(limits, gone), Reservation)
    assert gone.bound is not None
    limits.retire(gone.bound, None)
    assert isinstance(await admit(limits, stays), Refused)


async def test_a_short_window_that_was_removed_has_what_was_used_when_it_is_there_again() -> None:
    owner = Owner()
    LimitService().register(owner.handlers)
    limits = worker(owner)
    caller = Caller("k", limits=(Limit(kind="requests", amount=1, window="1m"),))
    assert isinstance(await admit(limits, caller), Reservation)
    assert caller.bound is not None
    limits.retire(caller.bound, None)
    assert isinstance(await admit(limits, caller), Refused)


class ForgetfulOwner:
    """An owner that does not know the first number it gave any more."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.is_closed = False
        self.given = 0

    async def ask(self, question: object, message: object, unclaimed: object = None) -> object:
        await asyncio.sleep(0)
        if isinstance(message, Define):
            self.given += 1
            return Defined((self.given,))
        assert isinstance(message, Admit)
        is_known = self.given == 1 or message.claims[0].number > 2
        return Granted(0.0, (1,), (1,), (0,)) if is_known else Unknown()


async def test_slots_are_defined_anew_for_all_that_ask_at_one_time() -> None:
    owner = ForgetfulOwner()
    slots = AccountSlots(cast(Peer, owner), lambda name: None)
    assert await slots.borrow("a", 9)
    owner.given = 2
    assert await asyncio.gather(*(slots.borrow("a", 9) for _ in range(3))) == [True] * 3


async def test_a_worker_that_comes_after_the_last_one_has_left_borrows() -> None:
    owner, ledgers = Owner(), MemoryLedgers()
    service = LimitService(is_shared=True)
    service.register(owner.handlers)
    caller = Caller("k", limits=(Limit(kind="requests", amount=3, window="day"),))
    first = worker(owner, ledgers)
    assert isinstance(await admit(first, caller), Reservation)
    await first.close()
    for peer in list(owner.peers):
        peer.close()
    (ledger,) = ledgers.stored.values()
    (holding,) = ledger.holdings.values()
    assert holding.held == 0
    second = worker(owner, ledgers)
    caller.bound = None
    assert isinstance(await admit(second, caller), Reservation)
    assert isinstance(await admit(second, caller), Reservation)
    assert isinstance(await admit(second, caller), Refused)
    await second.close()
    await service.close()


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("kind", ["requests", "concurrent"])
async def test_a_machine_that_has_nothing_has_its_share_while_the_database_hangs(
    kind: LimitKind, is_new: bool
) -> None:
    """One that has just started, or has given up what it did not need in the report that is not
    answered."""
    owner, ledgers = Owner(), MemoryLedgers()
    service = LimitService(is_shared=True)
    service.register(owner.handlers)
    window = None if kind == "concurrent" else "day"
    limit = Limit(kind=kind, amount=3, window=window, when_away="share")
    limits = worker(owner, ledgers)
    caller = Caller("k", limits=(limit,))
    if not is_new:
        assert isinstance(await admit(limits, caller), Reservation)
    ledgers.asked.clear()
    ledgers.answers.clear()
    try:
        if not is_new:
            assert await asyncio.to_thread(ledgers.asked.wait, 60.0)
        for _ in range(2):
            assert isinstance(await admit(limits, caller), Reservation)
    finally:
        ledgers.answers.set()
    await limits.close()
    await service.close()


@pytest.mark.parametrize("before", [0, 3])
async def test_what_other_machines_have_used_is_read_in_the_ledger(before: int) -> None:
    """By one that never had a request of that key, or has heard nothing since it had some."""
    ledgers = MemoryLedgers()
    owners = [Owner(), Owner()]
    services = [LimitService(is_shared=True) for _ in owners]
    for owner, service in zip(owners, services, strict=True):
        service.register(owner.handlers)
    busy, idle = (worker(owner, ledgers) for owner in owners)
    limits = (Limit(kind="requests", amount=20, window="1m"),)
    for _ in range(before):
        assert isinstance(await admit(idle, Caller("k", limits=limits)), Reservation)
    until = time.monotonic() + 60
    while before and sum(own.spent for own in held_of(ledgers)) < before:
        assert time.monotonic() < until
        await asyncio.to_thread(ledgers.asked.wait, 1.0)
        ledgers.asked.clear()
    await services[1].close()
    caller = Caller("k", limits=limits)
    admitted = before
    while isinstance(await admit(busy, caller), Reservation):
        admitted += 1
    assert admitted > 15
    await busy.close()
    (view,) = await idle.views(Caller("k", limits=limits))
    assert view.state.used == admitted
    await idle.close()
    await services[0].close()

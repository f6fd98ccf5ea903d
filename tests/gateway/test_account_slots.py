"""Slots of accounts that machines lend one another, each machine a pool here, with one owner."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from dragoman.accounts.pool import AccountPool, LeaseRequest, NoAccount
from dragoman.config import Account, Config, Upstream
from dragoman.limits.ledgers import Away, Decide, Ledger
from dragoman.limits.messages import Admit, Decision, Defined, Granted, Refused, Room
from dragoman.link.messages import Handlers, Peer
from dragoman.link.owner import Owner
from dragoman.serving.account_slots import AccountSlots
from dragoman.serving.limits import borrowing, questions
from dragoman.serving.limits.exchange import LedgerExchange
from dragoman.serving.limits.service import LimitService

MOST = 4
ASKED = LeaseRequest("u", "m")
REFUSED = Refused(0, 1, 0, 1, 0.0, 0.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, ledgers in memory are not away: each machine would hold to the
    number by itself."""
    monkeypatch.setattr(borrowing, "_SLOW_S", 60.0)
    monkeypatch.setattr(borrowing, "_HUNG_S", 60.0)


class AllMachines:
    """The ledgers of all machines, in memory."""

    def __init__(self) -> None:
        self.ledgers: dict[str, Ledger] = {}
        self.is_away = False
        self.exchanges = 0

    def exchange(self, names: Sequence[str], decide: Decide) -> None:
        if self.is_away:
            raise Away("it is away")
        self.exchanges += 1
        found: Mapping[str, Ledger] = {
            name: self.ledgers.setdefault(name, Ledger()) for name in names
        }
        decide(found, time.time())

    def read(self, names: Sequence[str]) -> Mapping[str, Ledger]:
        return {name: self.ledgers[name] for name in names if name in self.ledgers}

    def abort(self) -> None:
        """Nothing hangs."""

    def close(self) -> None:
        """Nothing is open."""


class Machine:
    """One machine: the pool of its only worker, and the owner that it borrows slots from."""

    def __init__(self, ledgers: AllMachines, queue_s: float = 10.0) -> None:
        upstream = Upstream(
            name="u",
            protocol="openai_chat",
            base_url="http://127.0.0.1:9",
            queue_s=queue_s,
            selection="round_robin",
        )
        accounts = tuple(
            Account(name=name, upstream="u", max_concurrent=MOST, priority=priority)
            for priority, name in enumerate(("first", "second"))
        )
        self.pool = AccountPool(Config(upstreams=(upstream,), accounts=accounts))
        self.service = LimitService(is_shared=True)
        owner = Owner()
        self.service.register(owner.handlers)
        link = owner.join(Handlers())
        exchange = LedgerExchange(ledgers)
        link.handlers.answer(questions.EXCHANGE, lambda _, message: exchange.exchange(message))
        link.handlers.receive(questions.AWAY, lambda _, message: None)
        self.pool.share(AccountSlots(link, self.pool.has_room))

    async def close(self) -> None:
        await self.service.close()


def play(
    ledgers: AllMachines,
    what: Callable[..., Coroutine[Any, Any, None]],
    machines: int = 2,
    **how: Any,
) -> None:
    """Run `what` with so many machines."""

    async def run() -> None:
        made = [Machine(ledgers, **how) for _ in range(machines)]
        try:
            await what(*made)
        finally:
            for one in made:
                await one.close()

    asyncio.run(run())


def test_what_comes_first_is_borrowed_before_another_is_taken() -> None:
    """Also where no request may wait for its turn."""

    async def what(one: Machine, other: Machine) -> None:
        turns = (one, other, one, other, *[one] * MOST)
        leases = [await machine.pool.acquire(ASKED) for machine in turns]
        # All slots of the first are out before any of the second is.
        names = [lease.account.name for lease in leases]
        assert names == ["first"] * MOST + ["second"] * MOST
        with pytest.raises(NoAccount):
            await other.pool.acquire(ASKED)

    play(AllMachines(), what, queue_s=0.0)


def test_a_slot_that_is_given_back_goes_to_whoever_waits_elsewhere() -> None:
    async def what(one: Machine, other: Machine) -> None:
        held = [await one.pool.acquire(ASKED) for _ in range(2 * MOST)]
        waiting = asyncio.create_task(other.pool.acquire(ASKED))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        held.pop().give_back()
        assert (await waiting).account.name == "second"

    play(AllMachines(), what)


def test_it_is_never_exceeded_and_all_are_served() -> None:
    """Three machines, each with more requests than there are slots, which take a random time."""
    now = dict.fromkeys(("first", "second"), 0)
    peak = dict(now)
    rolls = random.Random(5)

    async def request(machine: Machine) -> None:
        with await machine.pool.acquire(ASKED) as lease:
            name = lease.account.name
            now[name] += 1
            peak[name] = max(peak[name], now[name])
            await asyncio.sleep(rolls.random() / 200)
            now[name] -= 1

    async def what(*machines: Machine) -> None:
        await asyncio.gather(*(request(machines[number % 3]) for number in range(150)))

    play(AllMachines(), what, machines=3)
    assert 1 < max(peak.values()) <= MOST
    assert not any(now.values())


def test_without_the_owner_each_machine_holds_to_it_by_itself() -> None:
    ledgers = AllMachines()

    async def what(one: Machine, other: Machine) -> None:
        (await one.pool.acquire(ASKED)).give_back()
        ledgers.is_away = True
        for machine in (one, other):
            leases = [await machine.pool.acquire(ASKED) for _ in range(2 * MOST)]
            assert [lease.account.name for lease in leases].count("first") == MOST
            with pytest.raises(NoAccount):
                await machine.pool.acquire(ASKED)

    play(ledgers, what, queue_s=0.0)


def test_who_has_slots_asks_nobody() -> None:
    ledgers = AllMachines()

    async def what(one: Machine) -> None:
        for _ in range(200):
            (await one.pool.acquire(ASKED)).give_back()

    play(ledgers, what, machines=1)
    # The first, and what is given back at the end.
    assert ledgers.exchanges <= 20


def test_room_that_is_told_while_several_ask_is_missed_by_none() -> None:
    """Whoever was refused before that asks again, though another began to ask after it."""

    async def run() -> None:
        owner, asked = Owner(), []
        owner.handlers.answer(questions.DEFINE, lambda _, message: Defined((1,)))

        def admit(worker: Peer, message: Admit) -> asyncio.Future[Decision]:
            asked.append((worker, asyncio.get_running_loop().create_future()))
            return asked[-1][1]

        owner.handlers.answer(questions.ADMIT, admit)
        slots = AccountSlots(owner.join(Handlers()), lambda name: None)
        first = asyncio.create_task(slots.borrow("a", 1))
        await asyncio.sleep(0)
        worker, answer = asked[0]
        worker.report(questions.ROOM, Room(1))
        second = asyncio.create_task(slots.borrow("a", 1))
        await asyncio.sleep(0)
        answer.set_result(REFUSED)
        asked[1][1].set_result(REFUSED)
        assert not await second
        assert len(asked) == 3
        asked[2][1].set_result(Granted(0.0, (1,), (0,), (0,)))
        assert await first

    asyncio.run(run())

"""Limits across machines: what machines are lent, whatever becomes of messages, clocks, machines
and the owner."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from msgspec import structs

from dragoman.config.limits import Limit, WhenAway
from dragoman.config.windows import Fixed, Rolling, span_of
from dragoman.limits.balances import Slice, window_of
from dragoman.limits.counters import CounterState
from dragoman.limits.ledgers import Ledger, Loan, Report, lend, read_ledger, write_ledger
from dragoman.limits.messages import (
    Admit,
    Claim,
    Define,
    Granted,
    Refused,
    Restore,
    Retire,
    Settle,
    Settled,
)
from dragoman.limits.owner import Owner

START = 1_795_000_000.0


@dataclass
class World:
    """The true time, what the owner of all machines has stored, and all that was admitted: when,
    and how much."""

    limit: Limit
    now: float = START
    stored: bytes = b""
    is_away: bool = False
    admitted: list[tuple[float, int]] = field(default_factory=list)
    running: int = 0
    exchanges: int = 0

    def decide(self, report: Report, seed: CounterState) -> tuple[Loan, float] | None:
        self.exchanges += 1
        ledger = read_ledger(self.stored)
        loan = lend(ledger, report, window_of(self.limit), self.now, seed)
        if loan is None:
            return None
        self.stored = write_ledger(ledger)
        return loan, self.now

    def most_in_a_window(self) -> int:
        """The most that was admitted within any window."""
        window = window_of(self.limit)
        most = within = 0
        if isinstance(window, Fixed):
            sums: dict[float, int] = {}
            for at, amount in self.admitted:
                begin = span_of(window, at)[0]
                sums[begin] = sums.get(begin, 0) + amount
            return max(sums.values(), default=0)
        assert isinstance(window, Rolling)
        inside: deque[tuple[float, int]] = deque()
        for at, amount in self.admitted:
            inside.append((at, amount))
            within += amount
            while inside[0][0] <= at - window.seconds:
                within -= inside.popleft()[1]
            most = max(most, within)
        return most


class Machine:
    """A machine with a clock that is wrong by `skew` seconds."""

    def __init__(
        self,
        world: World,
        name: str,
        skew: float,
        away: WhenAway = "closed",
        used: tuple[tuple[float, int], ...] = (),
    ) -> None:
        self.world, self.name, self.skew = world, name, skew
        self.limit = structs.replace(world.limit, when_away=away)
        self.owner = Owner(
            lambda number, name, limit: Slice(number, name, limit, lambda: world.now + 7.0)
        )
        self.number = self.owner.define(Define((("l", self.limit),)), self.wall).numbers[0]
        self.owner.restore(Restore(self.number, used), self.wall)
        slice_ = self.owner.balances[self.number]
        assert isinstance(slice_, Slice)
        self.slice = slice_
        self.asked = 0.0
        self.running: list[tuple[Granted, tuple[float, int]]] = []

    @property
    def wall(self) -> float:
        return self.world.now + self.skew

    @property
    def held(self) -> int:
        return self.slice.ceiling - self.slice.spent

    def decide(self, amount: int) -> Granted | Refused:
        claim = Claim(self.number, amount, self.limit.units, self.limit.mode == "enforce")
        decision = self.owner.admit("w", Admit("k", (claim,)), self.wall)
        assert isinstance(decision, Granted | Refused)
        return decision

    def ask(self, amount: int) -> bool:
        decision = self.decide(amount)
        if isinstance(decision, Refused):
            return False
        entry = self.world.now, amount
        self.running.append((decision, entry))
        self.world.admitted.append(entry)
        self.world.running += amount
        return True

    def end(self, place: int, spent: bool = True) -> None:
        granted, entry = self.running.pop(place)
        amount = entry[1]
        self.world.running -= amount
        if not spent:
            self.world.admitted.remove(entry)
        settled = Settled(self.number, amount, amount if spent else 0)
        self.owner.settle("w", Settle(granted.at, (settled,), is_stored=True), self.wall)

    def exchange(self, wanted: int = 0, least: int = 0) -> Loan | None:
        """Report and take at once."""
        self.asked = self.world.now
        report, held = self.report(wanted, least)
        if self.world.is_away:
            self.slice.set_away(1)
            return None
        told = self.world.decide(report, self.slice.counter.state())
        assert told is not None
        self.take(told, self.world.now + 7.0, held)
        return told[0]

    def report(self, wanted: int = 0, least: int = 0) -> tuple[Report, bool]:
        held = self.slice.holds
        return self.slice.report(self.wall, wanted, least), held

    def take(self, told: tuple[Loan, float], began: float, held: bool) -> None:
        self.slice.take(told[0], began, held, told[1], self.wall)

    def request(self, amount: int = 1) -> bool:
        """Ask, and borrow for it if need be."""
        if self.ask(amount):
            return True
        if self.slice.left_of_all(self.wall) < amount and self.world.now < self.asked + 0.05:
            return False
        self.exchange(amount, amount)
        return self.ask(amount)


LIMITS = {
    "3 a minute": Limit(kind="requests", amount=3, window="1m"),
    "100 in 10 s": Limit(kind="requests", amount=100, window="10s"),
    "tokens": Limit(kind="tokens", amount=100_000, window="30s"),
    "an hour": Limit(kind="requests", amount=400, window="hour"),
    "budget": Limit(kind="cost", amount="0.5", window="total"),
    "1 at a time": Limit(kind="concurrent", amount=1),
    "40 at a time": Limit(kind="concurrent", amount=40),
}


@pytest.mark.parametrize("name", LIMITS)
def test_no_more_is_admitted_whatever_happens(name: str) -> None:
    """Messages that are lost or late on either way, clocks wrong by 5 s, an owner that is away,
    machines that are killed with what they hold or stop and go on."""
    limit = LIMITS[name]
    admitted = 0
    for seed in range(12):
        chance = random.Random(f"{name} {seed}")
        world = World(limit)
        made = 0

        def new(world: World = world, chance: random.Random = chance) -> Machine:
            nonlocal made
            made += 1
            return Machine(world, f"i{made}", chance.uniform(-5, 5))

        machines = [new() for _ in range(chance.choice((1, 2, 3, 7)))]
        on_the_way: list[tuple[Machine, Report, bool, float]] = []
        coming: list[tuple[Machine, tuple[Loan, float], bool, float]] = []
        most = max(1, limit.units // 15)
        for _ in range(1500):
            world.now += chance.expovariate(3.0)
            one = chance.choice(machines)
            match chance.randrange(15):
                case 0 | 1 | 2 | 3 | 4:
                    one.request(chance.randint(1, most) if limit.kind != "requests" else 1)
                case 5 | 6 | 7 if one.running:
                    one.end(chance.randrange(len(one.running)), chance.random() < 0.8)
                case 8 | 9:
                    one.exchange()
                case 10:
                    wanted = chance.randint(0, 2 * most)
                    report, held = one.report(wanted, min(wanted, most))
                    on_the_way.append((one, report, held, world.now + 7.0))
                case 11 if (
                    on_the_way and not world.is_away
                ):  # in any order, and lost if it waits for too long
                    sender, report, held, began = on_the_way.pop(chance.randrange(len(on_the_way)))
                    told = world.decide(report, sender.slice.counter.state())
                    if told is not None and chance.random() < 0.7:
                        coming.append((sender, told, held, began))
                case 12 if coming:
                    sender, told, held, began = coming.pop()
                    # Exchanges of one machine follow one another: a late answer is dropped.
                    if sender.slice.report_number == read_number(world, sender.name):
                        sender.take(told, began, held)
                    coming.clear()
                case 13 if chance.random() < 0.1:
                    world.is_away = not world.is_away
                    world.now += chance.choice((0, 4, 30))
                case 14 if chance.random() < 0.1:
                    world.running -= sum(entry[1] for _, entry in one.running)
                    machines[machines.index(one)] = new()
                    on_the_way = [sent for sent in on_the_way if sent[0] is not one]
            if limit.kind == "concurrent":
                # Requests of an machine that alone is cut off go on, and their slots are lent
                # to others: so nobody is, here.
                for one in machines:
                    if world.now > one.asked + 3:
                        one.exchange()
                assert world.running <= limit.units
        if limit.kind != "concurrent":
            # Nothing was wrongly estimated here, so that the sum is exact.
            assert world.most_in_a_window() <= limit.units
        admitted += len(world.admitted) or 1
    assert admitted > 3


def read_number(world: World, name: str) -> int:
    held = read_ledger(world.stored).holdings.get(name)
    return held.number if held is not None else -1


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize(("amount", "seconds"), [(3, 60), (25, 10), (600, 60), (5000, 10)])
def test_little_is_stranded(count: int, amount: int, seconds: int) -> None:
    """All machines ask for more than there is; of three windows nearly all is used, and a large
    limit is not asked about for each request."""
    world = World(Limit(kind="requests", amount=amount, window=f"{seconds}s"))
    machines = [Machine(world, f"i{n}", n - 4.0) for n in range(count)]
    chance = random.Random(1)
    steps = 30 * seconds
    for step in range(steps):
        world.now = START + seconds * 2.98 * step / steps
        for one in chance.sample(machines, count):
            for _ in range(max(1, 9 * amount // steps)):
                if not one.request():
                    break
                one.end(0)
            if step % 5 == 0:
                one.exchange()
    used = len(world.admitted) / (3 * amount)
    assert world.most_in_a_window() <= amount
    assert used >= (0.95 if amount > 20 else 1.0), used


def test_a_slot_goes_from_one_machine_to_another() -> None:
    world = World(LIMITS["1 at a time"])
    first, second = Machine(world, "a", 3.0), Machine(world, "b", -3.0)
    for _ in range(20):
        assert first.request()
        assert not second.request()
        world.now += 0.1
        first.end(0)
        first.exchange()
        assert second.request()
        assert not first.request()
        world.now += 0.1
        second.end(0)
        second.exchange()


def test_slots_of_a_killed_machine_come_back() -> None:
    world = World(LIMITS["40 at a time"])
    killed, other = Machine(world, "a", 0.0), Machine(world, "b", 0.0)
    assert killed.request(40)
    for _ in range(11):
        assert not other.request()
        other.exchange()
        world.now += 1
    world.now += 2
    assert other.exchange(40, 40)
    assert other.ask(40)


def test_what_a_killed_machine_held_is_used_and_set_right_if_it_lives() -> None:
    world = World(Limit(kind="requests", amount=1000, window="day"))
    silent, other = Machine(world, "a", 0.0), Machine(world, "b", 0.0)
    assert silent.request()
    held = silent.held
    assert held > 1
    for _ in range(13):
        world.now += 1
        other.exchange(1, 1)
    assert other.slice.used(other.wall) == held + 1  # the first was in no report
    silent.exchange()
    other.exchange(1, 1)
    assert other.slice.used(other.wall) == 1


@pytest.mark.parametrize("away", ["closed", "share", "open"])
def test_what_holds_while_the_owner_is_away(away: WhenAway) -> None:
    world = World(Limit(kind="requests", amount=300, window="1m"))
    machines = [Machine(world, f"i{n}", n - 1.0, away) for n in range(3)]
    for one in machines:
        for _ in range(20):
            assert one.request()
    for one in machines:
        assert one.request()
        one.exchange()
    world.is_away = True
    for one in machines:
        one.slice.set_away(1)
    slices = sum(one.held for one in machines)
    assert slices
    counts = [sum(one.request() for _ in range(500)) for one in machines]
    match away:
        case "closed":
            assert sum(counts) == slices
        case "share":
            assert 200 <= sum(counts) <= 240 + slices
            assert max(counts) - min(counts) <= 20
            assert world.most_in_a_window() <= 300
        case "open":
            assert counts == [500] * 3
    world.now += 11
    assert machines[0].request() is (away == "open")
    world.now += 65
    assert machines[0].request() is (away != "closed")
    world.is_away = False
    world.now += 65
    for one in machines:
        one.exchange()
    world.now += 65
    for one in machines:
        assert one.request()
        assert one.slice.used(one.wall) < 300


@pytest.mark.parametrize(("away", "admitted"), [("closed", 0), ("share", 100), ("open", 500)])
def test_what_holds_of_a_limit_that_nothing_was_heard_of(away: WhenAway, admitted: int) -> None:
    machine = Machine(World(Limit(kind="requests", amount=300, window="1m")), "a", 0.0, away)
    machine.slice.set_away(3)
    assert sum(machine.ask(1) for _ in range(500)) == admitted


def test_an_owner_that_was_away_takes_nobody_for_lost() -> None:
    world = World(LIMITS["40 at a time"])
    first, second = Machine(world, "a", 0.0), Machine(world, "b", 0.0)
    assert first.request(40)
    world.now += 60
    second.exchange(1, 1)
    world.now += 4
    second.exchange(1, 1)
    assert not second.ask(1)
    first.exchange()
    assert not second.request()
    assert first.slice.reserved == 40


def test_soft_limits_are_counted_over_all_and_lent_nothing() -> None:
    world = World(Limit(kind="requests", amount=10, window="1m", mode="soft"))
    first, second = Machine(world, "a", 0.0), Machine(world, "b", 0.0)
    for _ in range(8):
        assert first.ask(1)
        assert second.ask(1)
    first.exchange()
    second.exchange()
    assert second.slice.used(second.wall) == 16
    assert not any(one.held for one in read_ledger(world.stored).holdings.values())


def test_a_ledger_begins_with_what_rows_of_usage_told() -> None:
    world = World(Limit(kind="requests", amount=10, window="day"))
    used = ((world.now, 7),)  # each read the same rows
    first, second = (Machine(world, name, 0.0, used=used) for name in "ab")
    assert [first.request() for _ in range(5)] == [True, True, True, False, False]
    first.exchange()
    second.exchange()
    assert second.slice.used(second.wall) == 10
    assert Ledger() == read_ledger(b"")


def test_only_what_the_owner_cannot_know_of_is_taken_back() -> None:
    world = World(Limit(kind="requests", amount=1000, window="1m"))
    one = Machine(world, "a", 0.0)
    assert one.request()
    world.now += 1
    one.exchange()
    one.end(0, spent=False)
    assert one.slice.spent == 1
    world.now += 1
    assert one.ask(1)
    world.now += 1
    one.end(0, spent=False)
    assert one.slice.spent == 1


def test_a_slice_that_runs_out_on_the_way_is_lent_anew() -> None:
    world = World(LIMITS["40 at a time"])
    late, other = Machine(world, "a", 0.0), Machine(world, "b", 0.0)
    assert late.request()
    late.end(0)
    report, held = late.report(wanted=1)
    began = world.now + 7.0
    assert held
    for _ in range(14):
        world.now += 1
        other.exchange(40, 1)
    assert other.ask(40)
    told = world.decide(report, late.slice.counter.state())
    assert told is not None
    late.take(told, began, held)
    world.now = began - 7.0  # even if its clock stood still
    assert not late.ask(1)


def test_a_refusal_counts_what_is_here() -> None:
    """And tells what may be had: more can be borrowed than this machine has."""
    machine = Machine(World(Limit(kind="requests", amount=10, window="1m")), "a", 0.0)
    refused = machine.decide(1)
    assert isinstance(refused, Refused), "nothing was lent yet"
    assert refused.left == 10


def test_a_slice_of_a_limit_that_is_in_force_no_more_is_dropped() -> None:
    """Once all is reported and nothing is held; a new one begins from what the ledger has."""
    world = World(Limit(kind="requests", amount=100, window="day"))
    machine = Machine(world, "a", 0.0)
    assert all(machine.request() for _ in range(7))
    while machine.running:
        machine.end(0)
    machine.owner.gone("w")
    machine.owner.retire(Retire((machine.number,)))
    assert machine.owner.take_dropped(machine.wall) == []
    for _ in range(2):
        world.now += 1.0
        machine.exchange()
    assert machine.owner.take_dropped(machine.wall) == [machine.slice]
    assert not machine.owner.balances
    again = Machine(world, "a", 0.0)
    world.now += 1.0
    again.exchange()
    assert again.slice.used(again.wall) == machine.slice.used(machine.wall)
    assert again.slice.left_of_all(again.wall) == 100 - again.slice.used(again.wall)


def test_what_was_lent_is_kept_while_nothing_is_asked_for() -> None:
    """A key that was idle for a minute can go on while the owner is away."""
    world = World(Limit(kind="requests", amount=1000, window="day"))
    machine = Machine(world, "a", 0.0)
    machine.exchange()
    assert machine.held > 0
    for _ in range(30):
        world.now += 2.0
        machine.exchange()
    world.is_away = True
    machine.exchange()
    assert machine.ask(1)


def test_what_is_not_needed_for_long_is_given_back() -> None:
    world = World(Limit(kind="requests", amount=1000, window="day"))
    machine = Machine(world, "a", 0.0)
    for _ in range(200):
        world.now += 2.0
        machine.exchange()
    assert machine.held == 0

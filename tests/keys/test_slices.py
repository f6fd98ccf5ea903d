"""Limits across machines: what instances are lent, whatever becomes of messages, clocks, instances
and the owner."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from dragoman.config.limits import Limit, WhenAway
from dragoman.config.windows import Fixed, Rolling, span_of
from dragoman.limits.admission import Refusal, Reservation, admit, settle
from dragoman.limits.bound_limits import BoundLimit, window_of
from dragoman.limits.counters import RESERVED, cells_of
from dragoman.limits.ledgers import Ledger, Lent, Report, lend, read_ledger, write_ledger
from dragoman.limits.rows import private_row
from dragoman.limits.shares import POOL, POOL_CELLS, UNTIL
from dragoman.limits.slices import CEILING, NUMBER, SLICE_CELLS, SPENT, LentLimit, Slice

START = 1_795_000_000.0
NOTHING = (0,)


@dataclass
class World:
    """The true time, what the owner keeps, and all that was admitted: when, and how much."""

    limit: Limit
    now: float = START
    stored: bytes = b""
    is_away: bool = False
    admitted: list[tuple[float, int]] = field(default_factory=list)
    running: int = 0
    exchanges: int = 0

    def decide(self, report: Report, seed: memoryview) -> tuple[Lent, memoryview, float] | None:
        self.exchanges += 1
        ledger = read_ledger(self.stored)
        lent = lend(ledger, report, window_of(self.limit), self.now, seed)
        if lent is None:
            return None
        self.stored = write_ledger(ledger)
        return lent, memoryview(ledger.cells).cast("q"), self.now

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


class Instance:
    """A machine with a clock that is wrong by `skew` seconds."""

    def __init__(self, world: World, name: str, skew: float, away: WhenAway = "closed") -> None:
        self.world, self.name, self.skew = world, name, skew
        limit = world.limit
        window = window_of(limit)
        self.row = private_row(cells_of(window))
        self.bound = BoundLimit(limit, "k", self.row)
        self.cells = private_row(SLICE_CELLS).cells
        self.slice = self.bound.counter = Slice(
            window,
            limit.units,
            self.row.cells,
            self.cells,
            private_row(cells_of(window)).cells,
            enforced=limit.mode == "enforce",
            when_away=away,
            monotonic=lambda: world.now + 7.0,
        )
        self.asked = 0.0
        self.running: list[tuple[Reservation, tuple[float, int]]] = []

    @property
    def wall(self) -> float:
        return self.world.now + self.skew

    def ask(self, amount: int) -> bool:
        found = admit([self.bound], (amount,), self.wall)
        if isinstance(found, Refusal):
            return False
        entry = self.world.now, amount
        self.running.append((found, entry))
        self.world.admitted.append(entry)
        self.world.running += amount
        return True

    def end(self, place: int, spent: bool = True) -> None:
        reservation, entry = self.running.pop(place)
        amount = entry[1]
        self.world.running -= amount
        if not spent:
            self.world.admitted.remove(entry)
        settle(reservation, (amount,) if spent else NOTHING, self.wall)

    def exchange(self, wanted: int = 0, least: int = 0) -> Lent | None:
        """Report and take at once."""
        self.asked = self.world.now
        began = self.world.now + 7.0
        report, held = self.slice.report(self.name, self.wall, wanted, least)
        if self.world.is_away:
            self.slice.note_away(1)
            return None
        told = self.world.decide(report, self.row.cells)
        assert told is not None
        lent, cells, owners = told
        self.slice.take(lent, cells, began, held, owners, self.wall)
        return lent

    def request(self, amount: int = 1) -> bool:
        """Ask, and borrow for it if need be."""
        if self.ask(amount):
            return True
        if self.slice.may_be_had(self.wall) < amount and self.world.now < self.asked + 0.05:
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
    instances that are killed with what they hold or stop and go on."""
    limit = LIMITS[name]
    admitted = 0
    for seed in range(12):
        chance = random.Random(f"{name} {seed}")
        world = World(limit)
        made = 0

        def new(world: World = world, chance: random.Random = chance) -> Instance:
            nonlocal made
            made += 1
            return Instance(world, f"i{made}", chance.uniform(-5, 5))

        instances = [new() for _ in range(chance.choice((1, 2, 3, 7)))]
        on_the_way: list[tuple[Instance, Report, bool, float]] = []
        coming: list[tuple[Instance, tuple[Lent, memoryview, float], bool, float]] = []
        most = max(1, limit.units // 15)
        for _ in range(1500):
            world.now += chance.expovariate(3.0)
            one = chance.choice(instances)
            match chance.randrange(15):
                case 0 | 1 | 2 | 3 | 4:
                    one.request(chance.randint(1, most) if limit.kind != "requests" else 1)
                case 5 | 6 | 7 if one.running:
                    one.end(chance.randrange(len(one.running)), chance.random() < 0.8)
                case 8 | 9:
                    one.exchange()
                case 10:
                    wanted = chance.randint(0, 2 * most)
                    report, held = one.slice.report(one.name, one.wall, wanted, min(wanted, most))
                    on_the_way.append((one, report, held, world.now + 7.0))
                case 11 if (
                    on_the_way and not world.is_away
                ):  # in any order, and lost if it waits for too long
                    sender, report, held, began = on_the_way.pop(chance.randrange(len(on_the_way)))
                    told = world.decide(report, sender.row.cells)
                    if told is not None and chance.random() < 0.7:
                        coming.append((sender, told, held, began))
                case 12 if coming:
                    sender, told, held, began = coming.pop()
                    # Exchanges of one instance follow one another: a late answer is dropped.
                    if sender.cells[NUMBER] == read_number(world, sender.name):
                        sender.slice.take(told[0], told[1], began, held, told[2], sender.wall)
                    coming.clear()
                case 13 if chance.random() < 0.1:
                    world.is_away = not world.is_away
                    world.now += chance.choice((0, 4, 30))
                case 14 if chance.random() < 0.1:
                    world.running -= sum(entry[1] for _, entry in one.running)
                    instances[instances.index(one)] = new()
                    on_the_way = [sent for sent in on_the_way if sent[0] is not one]
            if limit.kind == "concurrent":
                # Requests of an instance that alone is cut off go on, and their slots are lent
                # to others: so nobody is, here.
                for one in instances:
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


@pytest.mark.parametrize("instances", [1, 3, 8])
@pytest.mark.parametrize(("amount", "seconds"), [(3, 60), (25, 10), (600, 60), (5000, 10)])
def test_little_is_stranded(instances: int, amount: int, seconds: int) -> None:
    """All instances ask for more than there is; of three windows nearly all is used, and a large
    limit is not asked about for each request."""
    world = World(Limit(kind="requests", amount=amount, window=f"{seconds}s"))
    machines = [Instance(world, f"i{n}", n - 4.0) for n in range(instances)]
    chance = random.Random(1)
    steps = 30 * seconds
    for step in range(steps):
        world.now = START + seconds * 2.98 * step / steps
        for one in chance.sample(machines, instances):
            for _ in range(max(1, 9 * amount // steps)):
                if not one.request():
                    break
                one.end(0)
            if step % 5 == 0:
                one.exchange()
    used = len(world.admitted) / (3 * amount)
    assert world.most_in_a_window() <= amount
    assert used >= (0.95 if amount > 20 else 1.0), used


def test_a_slot_goes_from_one_instance_to_another() -> None:
    world = World(LIMITS["1 at a time"])
    first, second = Instance(world, "a", 3.0), Instance(world, "b", -3.0)
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


def test_slots_of_a_killed_instance_come_back() -> None:
    world = World(LIMITS["40 at a time"])
    killed, other = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    assert killed.request(40)
    for _ in range(11):
        assert not other.request()
        other.exchange()
        world.now += 1
    world.now += 2
    assert other.exchange(40, 40)
    assert other.ask(40)


def test_what_a_killed_instance_held_is_used_and_set_right_if_it_lives() -> None:
    world = World(Limit(kind="requests", amount=1000, window="day"))
    silent, other = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    assert silent.request()
    held = silent.cells[CEILING] - silent.cells[SPENT]
    assert held > 1
    for _ in range(13):
        world.now += 1
        other.exchange(1, 1)
    assert other.slice.used_by_all(other.wall) == held + 1  # the first was in no report
    silent.exchange()
    other.exchange(1, 1)
    assert other.slice.used_by_all(other.wall) == 1


@pytest.mark.parametrize("away", ["closed", "share", "open"])
def test_what_holds_while_the_owner_is_away(away: WhenAway) -> None:
    world = World(Limit(kind="requests", amount=300, window="1m"))
    machines = [Instance(world, f"i{n}", n - 1.0, away) for n in range(3)]
    for one in machines:
        for _ in range(20):
            assert one.request()
    for one in machines:
        assert one.request()
        one.exchange()
    world.is_away = True
    for one in machines:
        one.slice.note_away(1)
    slices = sum(one.cells[CEILING] - one.cells[SPENT] for one in machines)
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
        assert one.slice.used_by_all(one.wall) < 300


@pytest.mark.parametrize(("away", "admitted"), [("closed", 0), ("share", 100), ("open", 500)])
def test_what_holds_of_a_limit_that_nothing_was_heard_of(away: WhenAway, admitted: int) -> None:
    machine = Instance(World(Limit(kind="requests", amount=300, window="1m")), "a", 0.0, away)
    machine.slice.note_away(3)
    assert sum(machine.ask(1) for _ in range(500)) == admitted


def test_an_owner_that_was_away_takes_nobody_for_lost() -> None:
    world = World(LIMITS["40 at a time"])
    first, second = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    assert first.request(40)
    world.now += 60
    second.exchange(1, 1)
    world.now += 4
    second.exchange(1, 1)
    assert not second.ask(1)
    first.exchange()
    assert not second.request()
    assert first.row.cells[RESERVED] == 40


def test_soft_limits_are_counted_over_all_and_lent_nothing() -> None:
    world = World(Limit(kind="requests", amount=10, window="1m", mode="soft"))
    first, second = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    for _ in range(8):
        assert first.ask(1)
        assert second.ask(1)
    first.exchange()
    second.exchange()
    assert second.slice.used(second.wall) == 16
    assert not any(one.held for one in read_ledger(world.stored).holdings.values())


def test_a_ledger_begins_with_what_rows_of_usage_told() -> None:
    world = World(Limit(kind="requests", amount=10, window="day"))
    first, second = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    for one in (first, second):  # each read the same rows
        one.slice._counter.add(world.now, 7)
    assert [first.request() for _ in range(5)] == [True, True, True, False, False]
    first.exchange()
    second.exchange()
    assert second.slice.used_by_all(second.wall) == 10
    assert Ledger() == read_ledger(b"")


def test_only_what_the_owner_cannot_know_of_is_taken_back() -> None:
    world = World(Limit(kind="requests", amount=1000, window="1m"))
    one = Instance(world, "a", 0.0)
    assert one.request()
    world.now += 1
    one.exchange()
    one.end(0, spent=False)
    assert one.cells[SPENT] == 1
    world.now += 1
    assert one.ask(1)
    world.now += 1
    one.end(0, spent=False)
    assert one.cells[SPENT] == 1


def test_a_slice_that_runs_out_on_the_way_is_lent_anew() -> None:
    world = World(LIMITS["40 at a time"])
    late, other = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    assert late.request()
    late.end(0)
    report, held = late.slice.report("a", late.wall, wanted=1)
    began = world.now + 7.0
    assert held
    for _ in range(14):
        world.now += 1
        other.exchange(40, 1)
    assert other.ask(40)
    told = world.decide(report, late.row.cells)
    assert told is not None
    late.slice.take(told[0], told[1], began, held, told[2], late.wall)
    world.now = began - 7.0  # even if its clock stood still
    assert not late.ask(1)


def test_a_refusal_counts_what_is_here() -> None:
    """And tells what may be had: more can be borrowed than this machine has."""
    limit = Limit(kind="requests", amount=10, window="1m")
    window = window_of(limit)
    lent = LentLimit(
        limit,
        "k",
        private_row(cells_of(window)),
        private_row(SLICE_CELLS).cells,
        private_row(cells_of(window)).cells,
    )
    refused = admit([lent], (1,), START)
    assert isinstance(refused, Refusal), "nothing was lent yet"
    assert refused.left == lent.left(START)


def test_a_share_that_becomes_known_is_lent_by_that() -> None:
    """Before, nothing is refused; and who does not know it holds nothing that others lack."""
    dollar = 10**12
    share = Limit(kind="cost", share="50%", upstream="claude", window="5h")
    world = World(share)
    pool = private_row(POOL_CELLS).cells
    both = Instance(world, "a", 0.0), Instance(world, "b", 0.0)
    for one in both:
        window = one.slice.window
        own = private_row(cells_of(window)).cells
        one.bound = LentLimit(share, "k", one.row, one.cells, own)
        one.slice = one.bound.slice
        one.slice._monotonic = lambda: world.now + 7.0
        assert all(one.request(dollar) for _ in range(3))
        one.exchange()
    knows, other = both
    knows.bound.pool_cells = pool
    pool[POOL], pool[UNTIL] = 20 * dollar, int(world.now + 3600) * 1000
    knows.bound.note_time(world.now)
    assert [knows.request(dollar) for _ in range(5)] == [True] * 4 + [False]
    assert all(other.request(dollar) for _ in range(3)), "it knows of no limit"
    other.bound.pool_cells = pool
    other.bound.note_time(world.now)
    world.now += 1.0
    assert not other.request(dollar)
    # What was learned is too old.
    world.now += 3600.0
    for one in both:
        one.bound.note_time(world.now)
        assert one.request(10**5 * dollar)

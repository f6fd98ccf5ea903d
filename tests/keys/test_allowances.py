"""What processes take of limits ahead of need, against a model of what they may."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.config.limits import Limit
from dragoman.limits.admission import (
    Refusal,
    Reservation,
    Wanted,
    admit,
    fitting_output,
    judge,
    settle,
)
from dragoman.limits.allowances import RENEW_S, Allowances, settle_taken, take
from dragoman.limits.bound_limits import BoundLimit, window_of
from dragoman.limits.counters import PARTS, RESERVED, USED, Cells, cells_of, counter_of
from dragoman.limits.crossings import SHARES, Crossing
from dragoman.limits.rows import (
    OWN_AHEAD,
    OWN_CELLS,
    OWN_RESERVED,
    OWN_UNWRITTEN,
    Row,
    private_row,
    reclaim,
    written,
)
from dragoman.limits.slices import CEILING, SLICE_CELLS, UNTIL, LentLimit
from dragoman.serving.limit_reservations import LimitReservations
from dragoman.storage.shared_limits import PrivateLimits, SharedLimits

NOW = 1_795_000_000.0
MIDNIGHT = NOW // 86_400 * 86_400 + 86_400.0


class Shared:
    """Counters of limits, and the processes that count there."""

    def __init__(self, *limits: Limit) -> None:
        self.limits = limits
        self.cells = [private_row(cells_of(window_of(one))).cells for one in limits]
        self.owns: list[list[Cells]] = [[] for _ in limits]

    def process(self) -> Process:
        rows: list[Row] = []
        for cells, owns in zip(self.cells, self.owns, strict=True):
            own = memoryview(bytearray(8 * OWN_CELLS)).cast("q")
            owns.append(own)
            rows.append(Row(cells, own))
        return Process(self, rows)

    def reserved(self, place: int, besides: Cells | None = None) -> int:
        """What processes have reserved by their own cells, without that of one of them."""
        return sum(one[OWN_RESERVED] for one in self.owns[place] if one is not besides)

    def used(self, now: float) -> list[int]:
        pairs = zip(self.limits, self.cells, strict=True)
        return [counter_of(window_of(one), cells).used(now) for one, cells in pairs]


@dataclass(eq=False)
class Held:
    """A request under way, and what of it counts as used by the model."""

    process: Process
    reservation: Reservation
    uses: list[Use] = field(default_factory=list)


class Process:
    """One of them, which does as workers do."""

    def __init__(self, shared: Shared, rows: Sequence[Row]) -> None:
        self.shared = shared
        self.rows = rows
        self.unwritten: list[Row] = []
        self.allowances = Allowances(self.unwritten)
        self.bound = self.bind(shared.limits)
        self.fast = 0
        """How often something was taken that was taken ahead."""
        self.rows_told = [0] * len(rows)
        """What is in rows of usage, of each limit."""
        self.told: list[int] = []
        """The shares of limits that were reached."""

    def bind(self, limits: Sequence[Limit]) -> list[BoundLimit]:
        pairs = zip(limits, self.rows, strict=True)
        return [BoundLimit(one, "k", row) for one, row in pairs]

    def admit(self, amounts: Sequence[int], now: float) -> Held | Refusal:
        missing = take(self.bound, amounts, now)
        self.fast += len(self.bound) - len(missing)
        if not missing:
            return Held(self, Reservation(self.bound, amounts, now))
        found = admit(self.bound, amounts, now, self.allowances, missing)
        if isinstance(found, Refusal):
            return found
        self.tell(found.crossings)
        return Held(self, found)

    def settle(self, held: Held, spent: Sequence[int], now: float) -> None:
        found = held.reservation
        missing = settle_taken(found.limits, found.amounts, spent, now, self.unwritten)
        if missing:
            changed, crossings = settle(found, spent, now, self.allowances, missing)
            self.unwritten += changed
            self.tell(crossings)

    def renew(self, now: float) -> None:
        self.allowances.renew(list(self.allowances.limits.values()), now)
        self.tell(())

    def tell(self, crossings: Sequence[Crossing]) -> None:
        self.told += [one.percent for one in (*crossings, *self.allowances.crossings)]
        self.allowances.crossings.clear()

    def publish(self) -> None:
        for limit in list(self.allowances.limits.values()):
            self.allowances.publish(limit)

    def write(self, now: float) -> None:
        """What is settled goes into rows of usage."""
        some = [one for row, one in self.allowances.limits.items() if row.used]
        self.allowances.renew(some, now)
        assert len(self.unwritten) == len(set(self.unwritten))
        for row in self.unwritten:
            self.rows_told[self.rows.index(row)] += row.settled
            written(row, row.settled)
            row.settled = 0
        self.unwritten.clear()

    def kill(self) -> None:
        """It is gone, and another process gives back what it had."""
        for place, row in enumerate(self.rows):
            counter = counter_of(window_of(self.shared.limits[place]), row.cells)
            reclaim(counter, row, self.shared.reserved(place, besides=row.own))
            assert not any(row.own)


# At random


@dataclass(eq=False)
class Use:
    """What was used of a limit at a time, and by whom."""

    at: float
    amount: int
    process: Process | None


class Used:
    """What was used of a limit, for whose window so many seconds count, if it rolls."""

    def __init__(self, span: float | None) -> None:
        self.span = span
        self.uses: list[Use] = []
        self.within = self.past = 0
        """What the window has, and how many uses it has no more."""

    def add(self, use: Use) -> None:
        self.uses.append(use)
        self.within += use.amount

    def look(self, now: float) -> int:
        """How much the window has that ends now."""
        if self.span is not None:
            while self.past < len(self.uses) and self.uses[self.past].at <= now - self.span:
                self.within -= self.uses[self.past].amount
                self.past += 1
        return self.within

    def take_back(self, use: Use, now: float) -> None:
        self.look(now)
        if self.span is None or use.at > now - self.span:
            self.within -= use.amount
        use.amount = 0

    def forget(self, gone: Process, told: int) -> None:
        """Nothing is left of what a process used, but for what rows of usage tell."""
        self.uses = [one for one in self.uses if one.process is not gone]
        self.uses.insert(0, Use(0.0, told, None))
        self.within, self.past = sum(one.amount for one in self.uses), 0

    def total(self) -> int:
        return sum(one.amount for one in self.uses)


STORM = (
    Limit(kind="requests", amount=1500, window="2s"),
    Limit(kind="requests", amount=10**6, window="total"),
    Limit(kind="tokens", amount=60_000, window="4s"),
    Limit(kind="output_tokens", amount=10**9, window="total"),
    Limit(kind="concurrent", amount=800),
)
SPANS = 2.0, None, 4.0, None, None
REQUESTS = 0, 1
TOKENS = 2, 3


class Storm:
    """Requests of several processes, and what they may by a sum of all that was used."""

    def __init__(self, seed: int, *, overdraws: bool, kills: bool) -> None:
        self.chance = random.Random(seed)
        self.overdraws, self.kills = overdraws, kills
        self.shared = Shared(*STORM)
        self.processes = [self.shared.process() for _ in range(4)]
        self.gone: list[Process] = []
        self.renewals = [NOW + RENEW_S * self.chance.random() for _ in self.processes]
        self.used = [Used(span) for span in SPANS]
        self.reserved = [0] * len(STORM)
        self.under_way: list[tuple[float, int, Held]] = []
        self.now = NOW
        self.refused = 0

    def blow(self, steps: int) -> None:
        busy, often = [0], 1000.0
        for step in range(steps):
            if not step % 300:
                busy = self.chance.sample(range(4), self.chance.randint(1, 4))
                often = self.chance.choice((400.0, 2000.0, 2000.0, 8000.0))
            self.now += self.chance.expovariate(often)
            for number, one in enumerate(self.processes):
                if self.now >= self.renewals[number]:
                    self.renewals[number] += RENEW_S
                    one.renew(self.now)
            what = self.chance.random()
            if what < 0.55:
                self.begin(self.processes[self.chance.choice(busy)], step)
            elif what < 0.99:
                if self.under_way and self.under_way[0][0] <= self.now:
                    self.end(heappop(self.under_way)[2])
            elif what < 0.999:
                self.chance.choice(self.processes).write(self.now)
            elif self.kills:
                self.kill(self.chance.randrange(4))
        for _, _, held in self.under_way:
            self.now += 0.0001
            self.end(held)
        for one in self.processes:
            one.write(self.now)
            one.publish()

    def begin(self, process: Process, step: int) -> None:
        tokens = self.chance.choice((0, 5, 20, 20, 20, 300))
        amounts = 1, 1, tokens, tokens, 1
        held = process.admit(amounts, self.now)
        if isinstance(held, Refusal):
            self.refused += 1
            return
        until = self.now + self.chance.choice((0.002, 0.02, 0.2))
        heappush(self.under_way, (until, step, held))
        for place, amount in enumerate(amounts):
            used = self.used[place]
            if place in REQUESTS:
                held.uses.append(Use(self.now, amount, process))
                used.add(held.uses[-1])
            else:
                self.reserved[place] += amount
            if used.span is None or not (self.overdraws or self.kills):
                assert used.look(self.now) + self.reserved[place] <= STORM[place].units, place

    def end(self, held: Held) -> None:
        """A request is over: one in ten has reached no upstream."""
        process, amounts = held.process, held.reservation.amounts
        tokens = self.chance.randint(0, amounts[2] * (3 if self.overdraws else 1))
        reached = self.chance.random() < 0.9
        spent = (1, 1, tokens, tokens, 1) if reached else (0,) * 5
        process.settle(held, spent, self.now)
        for place, amount in enumerate(amounts):
            if place not in REQUESTS:
                self.reserved[place] -= amount
            elif not reached:
                self.used[place].take_back(held.uses[place], self.now)
            if place in TOKENS:
                self.used[place].add(Use(self.now, spent[place], process))

    def kill(self, number: int) -> None:
        """What a process had under way is no more, nor what is in no row of usage yet."""
        gone, self.processes[number] = self.processes[number], self.shared.process()
        gone.kill()
        self.gone.append(gone)
        lost = [one[2] for one in self.under_way if one[2].process is gone]
        self.under_way = [one for one in self.under_way if one[2].process is not gone]
        heapify(self.under_way)
        for place in range(2, 5):
            self.reserved[place] -= sum(one.reservation.amounts[place] for one in lost)
        for used, told in zip(self.used, gone.rows_told, strict=True):
            used.forget(gone, told)


@pytest.mark.parametrize("seed", range(12))
def test_never_is_more_let_in_and_nothing_is_lost(seed: int) -> None:
    """Where requests come to more than they have reserved, more is used than there is, and where
    processes are killed, what they used is free again: else no window has more than its limit."""
    storm = Storm(seed, overdraws=seed % 3 == 1, kills=seed % 3 == 2)
    storm.blow(12_000)
    shared = storm.shared
    assert not any(storm.reserved)
    assert [one[RESERVED] for one in shared.cells] == [0] * len(STORM)
    assert not any(any(own) for owns in shared.owns for own in owns)
    everybody = storm.processes + storm.gone
    for place, used in enumerate(storm.used):
        assert sum(one.rows_told[place] for one in everybody) == used.total()
        if used.span is None:
            assert shared.used(storm.now)[place] == used.total()
    assert sum(one.fast for one in everybody) > 1000
    assert storm.refused > 100


# Killed in between


class Killed(BaseException):
    """The process is no more."""


class Mortal:
    """Cells whose process is killed before it has written so often."""

    def __init__(self, cells: Cells, lives: list[int]) -> None:
        self.cells, self.lives = cells, lives

    def __getitem__(self, place: Any) -> Any:
        return self.cells[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        if self.lives[0] == 0:
            raise Killed
        self.lives[0] -= 1
        self.cells[place] = value


@pytest.mark.parametrize(
    "limit",
    [
        Limit(kind="requests", amount=10_000, window="10s"),
        Limit(kind="requests", amount=10_000, window="total"),
        Limit(kind="tokens", amount=10_000, window="10s"),
        Limit(kind="cost", amount=1, window="day"),
        Limit(kind="concurrent", amount=10_000),
    ],
)
@pytest.mark.parametrize("what", ["publish", "renew", "take ahead"])
def test_a_process_may_be_killed_between_any_two_steps(limit: Limit, what: str) -> None:
    """What others have stays theirs; of what it was just about to count, some may stay used."""
    died = True
    for lives in range(1000):
        if not died:
            break
        shared = Shared(limit)
        other, one = shared.process(), shared.process()
        held = other.admit([70], NOW)
        assert isinstance(held, Held)
        left = [lives]
        mortal: Any = [Mortal(cells, left) for cells in (one.rows[0].cells, one.rows[0].own)]
        left[0] = -1
        dying = Process(shared, [Row(*mortal)])
        busy(dying, [10], times=3)
        dying.admit([10], NOW)
        if what == "take ahead":
            dying.publish()
        else:
            busy(dying, [10], times=1)
            assert dying.fast
        unpublished = dying.rows[0].used
        left[0] = lives
        try:
            if what == "publish":
                dying.publish()
            elif what == "renew":
                dying.renew(NOW + 0.002)
            else:
                dying.allowances.note_admitted(dying.bound[0], 10, NOW)
            died = False
        except Killed:
            died = True
        one.kill()
        is_used = limit.kind == "requests"
        assert shared.cells[0][RESERVED] == (0 if is_used else 70)
        assert 0 <= shared.cells[0][USED] - (70 if is_used else 0) <= unpublished * (lives > 0)
        assert [own[OWN_RESERVED] for own in shared.owns[0]] == [0 if is_used else 70, 0]
    assert lives > 2


def test_what_was_only_told_to_be_ahead_is_given_back(tmp_path: Path) -> None:
    limit = Limit(kind="tokens", amount=1000, window="1m")
    with closing(SharedLimits(tmp_path / "limits")) as other:
        with closing(SharedLimits(tmp_path / "limits")) as one:
            row = one.row("k", cells_of(window_of(limit)))
            row.own[OWN_AHEAD] = 30
            assert other.ahead(other.row("k", len(row.cells))) == 30
        assert other.ahead(other.row("k", len(row.cells))) == 0


# What is ahead, and when


def busy(process: Process, amounts: Sequence[int], now: float = NOW, times: int = 5) -> None:
    """Let some requests in, so that something is ahead."""
    for _ in range(times):
        held = process.admit(amounts, now)
        assert isinstance(held, Held)
        process.settle(held, amounts, now)


def test_who_comes_rarely_is_given_nothing_ahead() -> None:
    limit = Limit(kind="requests", amount=10_000, window="1m")
    for gap, often in ((0.001, True), (0.015, True), (0.025, False), (0.2, False)):
        process = Shared(limit).process()
        for number in range(40):
            busy(process, [1], NOW + number * gap, 1)
        assert (process.fast > 20) == often
        assert bool(process.allowances.limits) == often
    # Who came often may take a moment longer.
    process = Shared(limit).process()
    busy(process, [1], times=12)
    assert process.rows[0].room == 0
    busy(process, [1], NOW + RENEW_S * 0.9, 1)
    assert process.rows[0].room == 16
    process.renew(NOW + RENEW_S)
    busy(process, [1], NOW + RENEW_S * 1.95, 1)
    assert process.rows[0].room == 32


def test_never_is_much_of_what_is_left_ahead() -> None:
    shared = Shared(Limit(kind="requests", amount=1000, window="1m"))
    process = shared.process()
    for number in range(1000):
        left = 1000 - number
        assert isinstance(process.admit([1], NOW), Held)
        assert process.rows[0].room <= left / 32
    assert isinstance(process.admit([1], NOW), Refusal)
    assert not process.allowances.limits


def test_what_nobody_needs_is_given_back() -> None:
    shared = Shared(Limit(kind="requests", amount=10_000, window="1m"))
    process, cells = shared.process(), shared.cells[0]
    busy(process, [1], times=6)
    row = process.rows[0]
    size = row.size
    assert size > 0
    assert cells[RESERVED] == size == row.own[OWN_AHEAD]
    process.renew(NOW + 0.05)
    assert (cells[USED], cells[RESERVED]) == (6, size)
    process.renew(NOW + 0.1)
    assert (cells[USED], cells[RESERVED], row.own[OWN_AHEAD]) == (6, 0, 0)
    assert not process.allowances.limits


@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_what_is_refused_leaves_what_is_ahead(kind: Any) -> None:
    """Of the same limit, too: one who asks for too much does not make all others slower."""
    shared = Shared(Limit(kind=kind, amount=10_000, window="1m"))
    process, other = shared.process(), shared.process()
    busy(process, [1], times=6)
    row, cells = process.rows[0], shared.cells[0]
    assert row.used
    for amount in (9995, 9995, 10_001):
        refusal = process.admit([amount], NOW)
        assert isinstance(refusal, Refusal)
        assert refusal.left == 9994
        assert refusal.free_at == (pytest.approx(NOW + 60, abs=0.5) if amount < 10**4 else inf)
        assert (row.room > 0, row.used) == (True, 0)
        assert (cells[USED], cells[RESERVED]) == (6, row.room)
        assert row.own[OWN_AHEAD] == row.room == row.own[OWN_RESERVED]
    assert process.bound[0].left(NOW) == 9994
    busy(process, [1], times=1)
    assert isinstance(other.admit([9994], NOW), Refusal)
    held = process.admit([9993], NOW)
    assert isinstance(held, Held)
    assert isinstance(process.admit([1], NOW), Refusal)
    process.settle(held, [9993], NOW)
    process.publish()
    assert (cells[USED], cells[RESERVED]) == (10_000, 0)


def test_what_holds_no_longer_is_given_back_at_once() -> None:
    """Where a request is refused, too."""
    shared = Shared(Limit(kind="tokens", amount=10_000, window="10s"))
    process, cells = shared.process(), shared.cells[0]
    busy(process, [1], times=6)
    assert cells[RESERVED] > 0
    assert isinstance(process.admit([9995], process.rows[0].until), Refusal)
    assert (cells[USED], cells[RESERVED]) == (6, 0)


def test_more_than_was_reserved_leaves_others_less() -> None:
    shared = Shared(Limit(kind="tokens", amount=10_000, window="1m"))
    process, cells = shared.process(), shared.cells[0]
    busy(process, [10])
    held = process.admit([10], NOW)
    assert isinstance(held, Held)
    process.settle(held, [2000], NOW)
    assert process.bound[0].left(NOW) == 10_000 - 2050
    assert isinstance(process.admit([9000], NOW), Refusal)
    assert (cells[USED], cells[RESERVED]) == (2050, 0)
    assert process.bound[0].left(NOW) == 10_000 - 2050
    process.publish()
    assert (cells[USED], cells[RESERVED]) == (2050, 0)
    assert not any(process.rows[0].own[:OWN_UNWRITTEN])


def test_a_refusal_takes_nothing_from_others() -> None:
    """Nor does it bring anything into the cells but what it needs to look at."""
    team = Limit(kind="requests", amount=100_000, window="1m")
    tokens = Limit(kind="tokens", amount=100_000, window="1m")
    shared = Shared(team, tokens, Limit(kind="requests", amount=6, window="1h"))
    process = shared.process()
    busy(process, [1, 10, 1], times=6)
    rows = process.rows[:2]
    before = [(row.room, row.used, row.until, list(row.cells), list(row.own)) for row in rows]
    for _ in range(100):
        refusal = process.admit([1, 10, 1], NOW)
        assert isinstance(refusal, Refusal)
        assert refusal.limit is process.bound[2]
    assert before == [(row.room, row.used, row.until, [*row.cells], [*row.own]) for row in rows]
    assert all(row.room for row in rows)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_each_share_is_told_of_once(kind: Any, count: int) -> None:
    """By whichever process, and at most a moment later than it is reached."""
    shared = Shared(Limit(kind=kind, amount=1000, window="1h"))
    processes, told = [shared.process() for _ in range(count)], []
    for number in range(1, 1001):
        now, one = NOW + number * 0.001, processes[number // 20 % count]
        if not number % 100:
            for process in processes:
                process.renew(now)
        held = one.admit([1], now)
        assert isinstance(held, Held)
        one.settle(held, [1], now)
        for process in processes:
            told += [(share, number) for share in process.told]
            process.told.clear()
    assert [share for share, _ in told] == list(SHARES)
    late = [number - 10 * share for share, number in told]
    assert late == [0, 0, 0] if count == 1 else all(0 <= one <= 100 for one in late)
    assert any(process.fast for process in processes)


def test_a_share_that_more_than_was_reserved_reaches_is_told_of_later() -> None:
    process = Shared(Limit(kind="tokens", amount=10_000, window="1h")).process()
    busy(process, [10])
    held = process.admit([10], NOW)
    assert isinstance(held, Held)
    process.settle(held, [5000], NOW)
    process.renew(NOW + RENEW_S)
    assert process.told == [50]


def test_what_is_under_way_is_not_kept_from_others() -> None:
    """Once it is over: else others would lack it for a moment, though nobody uses it."""
    shared = Shared(Limit(kind="concurrent", amount=100))
    one, other = shared.process(), shared.process()
    for number, process in enumerate([one, other] * 5):
        now, held = NOW + number * 0.05, []
        for _ in range(60):
            process.renew(now)
            held.append(process.admit([1], now))
        assert not any(isinstance(found, Refusal) for found in held)
        for found in held:
            assert isinstance(found, Held)
            process.settle(found, [0], now + 0.01)


def test_nothing_is_ahead_of_what_is_used_up_or_lent() -> None:
    soft = Limit(kind="requests", amount=100, window="1m", mode="soft")
    process = Shared(soft).process()
    busy(process, [1], times=100)
    held = process.admit([1], NOW)
    assert isinstance(held, Held)
    assert not process.allowances.limits
    assert list(held.reservation.exceeded) == process.bound
    lent = LentLimit(
        limit := Limit(kind="requests", amount=10**6, window="1m"),
        "k",
        private_row(cells_of(window_of(limit))),
        private_row(SLICE_CELLS).cells,
        private_row(cells_of(window_of(limit))).cells,
    )
    lent.slice.cells[CEILING], lent.slice.cells[UNTIL] = 10**6, 10**15
    allowances = Allowances([])
    for _ in range(50):
        assert isinstance(admit([lent], [1], NOW, allowances), Reservation)
    assert not allowances.limits
    assert lent.row.until == 0


# Times


@pytest.mark.parametrize(
    ("window", "at", "back"),
    [("10s", NOW, 5.0), ("10s", NOW, 60.0), ("1h", NOW, 7200.0), ("day", MIDNIGHT + 60, 600.0)],
)
@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_a_clock_that_is_put_back_frees_nothing(
    kind: Any, window: str, at: float, back: float
) -> None:
    shared = Shared(Limit(kind=kind, amount=500, window=window))
    processes = [shared.process() for _ in range(2)]
    for one in processes:
        busy(one, [1], at)
    let_in = 10
    for number in range(2000):
        now = at - back + number * 0.001
        if not number % 100:
            for one in processes:
                one.renew(now)
        one = processes[number // 10 % 2]
        held = one.admit([1], now)
        if isinstance(held, Held):
            let_in += 1
            one.settle(held, [1], now)
    assert let_in == 500
    assert all(one.fast for one in processes)


@pytest.mark.parametrize(
    ("window", "at", "later"), [("day", MIDNIGHT - 1, 1.5), ("10s", NOW, 10 * (1 + 2 / PARTS))]
)
def test_what_the_window_has_no_more_is_not_counted_late(
    window: str, at: float, later: float
) -> None:
    """Others are in the next window when it comes into the cells; rows of usage have it."""
    shared = Shared(Limit(kind="tokens", amount=10_000, window=window))
    one, other = shared.process(), shared.process()
    busy(one, [10], at)
    busy(one, [10], at)
    assert one.rows[0].used
    held = other.admit([10], at + later)
    assert isinstance(held, Held)
    other.settle(held, [10], at + later)
    one.write(at + later)
    assert one.rows_told == [100]
    assert (shared.cells[0][USED], shared.cells[0][RESERVED]) == (10, 0)


def test_what_is_used_counts_in_the_part_of_the_window_that_it_was_used_in() -> None:
    """Though it comes into the cells later: then it is free as soon as all else of that time."""
    shared = Shared(Limit(kind="tokens", amount=10_000, window="10s"))
    one, other = shared.process(), shared.process()
    busy(one, [10], NOW)
    busy(one, [10], NOW)
    assert isinstance(other.admit([10], NOW + 5), Held)
    one.publish()
    assert shared.used(NOW + 5) == [100]
    assert shared.used(NOW + 10 * (1 + 1.01 / PARTS)) == [0]


def test_nothing_that_is_ahead_is_used_in_the_next_part() -> None:
    limit = Limit(kind="requests", amount=100_000, window="10s")
    process = Shared(limit).process()
    busy(process, [1])
    row = process.rows[0]
    assert NOW < row.until <= NOW + 10 / PARTS
    assert take(process.bound, [1], row.until) == (0,)
    assert not take(process.bound, [1], row.until - 0.001)


# Two who hold a limit, and what is told


def test_what_is_left_is_told_without_the_lock() -> None:
    limit = Limit(kind="tokens", amount=100_000, window="10s")
    process = Shared(limit).process()
    one, cells = process.bound[0], process.rows[0].cells
    busy(process, [10], times=6)
    before = cells.tobytes()
    for later in (0.0, 1.0, 60.0):
        assert one.left(NOW + later) == 100_000 - 60
    assert cells.tobytes() == before
    assert one.left_of_all(NOW + 60) == 100_000 - process.rows[0].used
    assert cells.tobytes() != before


def test_a_limit_that_is_changed_settles_what_it_let_in() -> None:
    shared = Shared(limit := Limit(kind="tokens", amount=100_000, window="1m"))
    process, cells = shared.process(), shared.cells[0]
    old = [process.admit([100], NOW) for _ in range(6)]
    process.allowances.publish(process.bound[0])
    process.bound = process.bind([structs.replace(limit, amount=2000)])
    new = [process.admit([100], NOW) for _ in range(20)]
    assert sum(isinstance(one, Held) for one in new) == 14
    for held in (*old, *new):
        if isinstance(held, Held):
            process.settle(held, [70], NOW)
    process.renew(NOW)
    process.publish()
    assert (cells[USED], cells[RESERVED]) == (1400, 0)


def test_what_reached_no_upstream_was_not_used() -> None:
    shared = Shared(Limit(kind="requests", amount=1000, window="1m"))
    process = shared.process()
    for number in range(2000):
        held = process.admit([1], NOW + number * 0.0001)
        assert isinstance(held, Held)
        process.settle(held, [0], NOW + number * 0.0001)
    assert process.bound[0].left(NOW + 0.2) == 1000
    assert process.fast > 1500
    process.publish()
    process.write(NOW + 1)
    assert (shared.cells[0][USED], shared.cells[0][RESERVED]) == (0, 0)
    assert not any(process.rows[0].own)


def test_no_sum_grows_too_large_for_a_cell() -> None:
    shared = Shared(Limit(kind="tokens", amount=10**6, window="total"))
    process = shared.process()
    busy(process, [10])
    for held in [process.admit([1], NOW) for _ in range(3)]:
        assert isinstance(held, Held)
        process.settle(held, [10**30], NOW)
    process.publish()
    assert shared.cells[0][RESERVED] == 0
    assert 10**16 <= shared.cells[0][USED] < 1 << 63


def test_answers_are_lowered_to_what_others_have_left() -> None:
    """Who has something ahead does not know what others have taken since; here it is told."""
    limit = Limit(kind="output_tokens", amount=100_000, window="1m", clamp=True)
    shared = Shared(limit)
    one, other = shared.process(), shared.process()
    busy(one, [100])
    assert one.rows[0].room
    room = one.rows[0].room
    assert isinstance(other.admit([95_000], NOW), Held)
    left = 100_000 - 95_000 - 500
    assert judge(one.bound, [1], NOW)[0].left == left
    assert fitting_output(one.bound, Wanted(10, 20_000), NOW) == left
    assert one.rows[0].room == room
    refusal = one.admit([20_000], NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.left == left
    assert isinstance(one.admit([left], NOW), Held)


# By the worker


@pytest.fixture
def bound() -> list[BoundLimit]:
    limits = (
        Limit(kind="requests", amount=10**6, window="1h"),
        Limit(kind="tokens", amount=10**6, window="1h"),
    )
    return [BoundLimit(one, "k", private_row(cells_of(window_of(one)))) for one in limits]


def used_by(reservations: LimitReservations, bound: Sequence[BoundLimit], times: int) -> None:
    for _ in range(times):
        now = time.time()
        held = reservations.admit(bound, [1, 10], now)
        assert isinstance(held, Reservation)
        reservations.settle(held, [1, 10], now)


async def test_what_was_used_is_in_the_cells_soon(bound: list[BoundLimit]) -> None:
    reservations = LimitReservations(PrivateLimits(), is_kept=True)
    used_by(reservations, bound, 50)
    assert bound[1].cells[USED] < 500
    assert [one.used(time.time()) for one in bound] == [50, 500]
    for _ in range(200):
        await asyncio.sleep(0.02)
        if bound[1].cells[USED] == 500 and not any(one.cells[RESERVED] for one in bound):
            break
    assert [one.cells[USED] for one in bound] == [50, 500]
    assert [one.cells[RESERVED] for one in bound] == [0, 0]
    assert list(reservations.take_unwritten().values()) == [50, 500]


async def test_rows_of_usage_have_nothing_that_the_cells_lack(bound: list[BoundLimit]) -> None:
    reservations = LimitReservations(PrivateLimits(), is_kept=True)
    used_by(reservations, bound, 50)
    taken = reservations.take_unwritten()
    assert list(taken.values()) == [50, 500]
    assert [one.cells[USED] for one in bound] == [50, 500]
    reservations.restore_unwritten(taken)
    used_by(reservations, bound, 5)
    taken = reservations.take_unwritten()
    assert sorted(taken.values()) == [55, 550]
    reservations.note_written(taken)
    assert [one.own[OWN_UNWRITTEN] for one in bound] == [0, 0]
    reservations.close()
    assert [one.cells[RESERVED] for one in bound] == [0, 0]


async def test_without_rows_what_was_used_outlives_the_worker(bound: list[BoundLimit]) -> None:
    reservations = LimitReservations(PrivateLimits(), is_kept=False)
    used_by(reservations, bound, 50)
    reservations.close()
    for one in bound:
        reclaim(one.counter, one.row, 0)
    assert [one.cells[USED] for one in bound] == [50, 500]


async def test_a_share_that_is_reached_is_told_of_without_a_request() -> None:
    limit = Limit(kind="tokens", amount=10_000, window="1h")
    one = BoundLimit(limit, "k", private_row(cells_of(window_of(limit))))
    reservations = LimitReservations(PrivateLimits(), is_kept=True)
    told: asyncio.Future[Crossing] = asyncio.get_running_loop().create_future()
    reservations.on_crossing = told.set_result
    now = time.time()
    for _ in range(4):
        held = reservations.admit([one], [10], now)
    assert isinstance(held, Reservation)
    reservations.settle(held, [5000], now)
    async with asyncio.timeout(5):
        assert (await told).percent == 50
    reservations.close()

"""The owner of limits, against a model of what it may admit: "the sum admitted is at most the
amount", with workers that are killed after any message and before any other."""

from __future__ import annotations

import random
from collections import Counter as Sums
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import pytest

from dragoman.config.limits import Limit
from dragoman.limits.counters import CounterState
from dragoman.limits.messages import (
    Admit,
    Asked,
    Claim,
    Decision,
    Define,
    Granted,
    Look,
    Refused,
    Restore,
    Retire,
    Settle,
    Settled,
    Unknown,
    Writing,
)
from dragoman.limits.owner import Owner

NOW = 1_795_000_000.0
MIDNIGHT = NOW // 86_400 * 86_400 + 86_400.0


def owner_of(*limits: Limit, now: float = NOW) -> Owner:
    """An owner that knows these limits by the numbers 1 and up."""
    owner = Owner()
    defined = owner.define(Define(tuple((str(n), one) for n, one in enumerate(limits))), now)
    assert defined.numbers == tuple(range(1, len(limits) + 1))
    for number in defined.empty:
        owner.restore(Restore(number, ()), now)
    return owner


def claims(limits: Sequence[Limit], amounts: Sequence[int]) -> tuple[Claim, ...]:
    """What a request claims that may come to so much at each limit."""
    pairs = enumerate(zip(limits, amounts, strict=True), 1)
    return tuple(Claim(n, amount, one.units, one.mode == "enforce") for n, (one, amount) in pairs)


@dataclass
class Client:
    """A worker that asks for one limit after another."""

    owner: Owner
    limits: Sequence[Limit]
    name: str = "w"

    def admit(self, *amounts: int, now: float = NOW) -> Decision:
        return self.owner.admit(self.name, Admit("k", claims(self.limits, amounts)), now)

    def settle(self, granted: Decision, *spent: int, now: float = NOW, stored: bool = True) -> None:
        assert isinstance(granted, Granted)
        pairs = enumerate(zip(granted.amounts, spent, strict=True), 1)
        settled = tuple(Settled(n, reserved, used) for n, (reserved, used) in pairs)
        self.owner.settle(self.name, Settle(granted.at, settled, stored), now)

    def used(self, now: float = NOW) -> list[int]:
        return [one.used(now) for one in self.owner.balances.values()]

    def reserved(self) -> list[int]:
        return [one.reserved for one in self.owner.balances.values()]


def client(*limits: Limit) -> Client:
    return Client(owner_of(*limits), limits)


STORM = (
    Limit(kind="requests", amount=150, window="2s"),
    Limit(kind="requests", amount=10**6, window="total"),
    Limit(kind="tokens", amount=6_000, window="4s"),
    Limit(kind="output_tokens", amount=10**9, window="total"),
    Limit(kind="concurrent", amount=40),
)
SPANS = 2.0, None, 4.0, None, None
REQUESTS, TOKENS, SLOTS = (0, 1), (2, 3), 4


@dataclass(eq=False)
class Use:
    """What a worker has used of a limit at a time, and whether a row of usage tells of it."""

    at: float
    amount: int
    worker: str
    is_stored: bool = False


@dataclass(eq=False)
class Request:
    """A request under way."""

    granted: Granted
    amounts: Sequence[int]
    uses: Sequence[Use]


@dataclass(eq=False)
class Worker:
    """A worker: its requests, and what it is to write to rows of usage, or is writing."""

    name: str
    running: list[Request] = field(default_factory=list)
    rows: list[tuple[int, Use]] = field(default_factory=list)


class World:
    """Workers, their owner, and the store with rows of usage; and all that was used."""

    def __init__(self, seed: int, *, overdraws: bool, kills: bool) -> None:
        self.chance = random.Random(seed)
        self.overdraws, self.kills = overdraws, kills
        self.owner = owner_of(*STORM)
        self.now = NOW
        self.made = self.refused = self.killed = 0
        self.workers = [self.worker() for _ in range(4)]
        self.stored: Sums[int] = Sums()
        self.marks: dict[str, float] = {}
        self.uses: list[list[Use]] = [[] for _ in STORM]
        """Of each limit, in order of time."""

    def worker(self) -> Worker:
        self.made += 1
        return Worker(f"w{self.made}")

    def step(self) -> None:
        self.now += self.chance.expovariate(400.0)
        worker = self.chance.choice(self.workers)
        what = self.chance.random()
        if what < 0.5:
            self.begin(worker)
        elif what < 0.95:
            if worker.running:
                self.end(worker)
        elif what < 0.99 or not self.kills:
            self.write(worker)
        else:
            self.kill(worker)

    def begin(self, worker: Worker) -> None:
        tokens = self.chance.choice((0, 5, 20, 20, 300))
        amounts = 1, 1, tokens, tokens, 1
        decision = self.owner.admit(worker.name, Admit("k", claims(STORM, amounts)), self.now)
        if isinstance(decision, Refused):
            self.refused += 1
            return
        assert isinstance(decision, Granted)
        uses = [self.use(place, 1, worker) for place in REQUESTS]
        worker.running.append(Request(decision, amounts, uses))
        if not self.overdraws:
            self.check()

    def use(self, place: int, amount: int, worker: Worker) -> Use:
        use = Use(self.now, amount, worker.name)
        self.uses[place].append(use)
        return use

    def end(self, worker: Worker) -> None:
        """A request is over: one in ten has reached no upstream."""
        one = worker.running.pop(self.chance.randrange(len(worker.running)))
        tokens = self.chance.randint(0, one.amounts[2] * (3 if self.overdraws else 1))
        spent = (1, 1, tokens, tokens, 1) if self.chance.random() < 0.9 else (0,) * 5
        pairs = enumerate(zip(one.amounts, spent, strict=True), 1)
        settled = tuple(Settled(n, reserved, used) for n, (reserved, used) in pairs)
        self.owner.settle(worker.name, Settle(one.granted.at, settled, True), self.now)
        for place, use in zip(REQUESTS, one.uses, strict=True):
            use.amount = spent[place]
            worker.rows.append((place, use))
        for place in TOKENS:
            worker.rows.append((place, self.use(place, spent[place], worker)))

    def write(self, worker: Worker, steps: int = 3) -> None:
        """Write rows of usage: so many of the three steps. Sometimes that fails."""
        mark = self.marks.get(worker.name, 0.0)
        self.owner.writing(worker.name, Writing(worker.name, mark))
        fails = self.chance.random() < 0.1
        if steps > 1 and worker.rows and not fails:
            self.marks[worker.name] = mark + 1.0
            for place, use in worker.rows:
                use.is_stored = True
                self.stored[place] += use.amount
            worker.rows.clear()
        if steps > 2:
            self.owner.written(worker.name, done=not worker.rows)

    def kill(self, worker: Worker) -> None:
        """A worker is killed, at rest or while it writes. What it had used that is in no row is
        free again, and so is all that it had under way."""
        self.killed += 1
        if self.chance.random() < 0.7:
            self.write(worker, self.chance.randint(1, 2))
        self.owner.gone(worker.name)
        for writer in list(self.owner.doubts):
            self.owner.resolve(writer, self.marks.get(writer, 0.0))
        for uses in self.uses:
            uses[:] = [one for one in uses if one.is_stored or one.worker != worker.name]
        self.workers[self.workers.index(worker)] = self.worker()

    def check(self) -> None:
        """No window has more than its limit."""
        running = [one for worker in self.workers for one in worker.running]
        for place, span in enumerate(SPANS):
            begin = -1.0 if span is None else self.now - span
            used = 0
            for use in reversed(self.uses[place]):
                if use.at <= begin:
                    break
                used += use.amount
            if place not in REQUESTS:
                used += sum(one.amounts[place] for one in running)
            assert used <= STORM[place].units, STORM[place]


@pytest.mark.parametrize("seed", range(9))
def test_never_is_more_admitted_and_nothing_is_lost(seed: int) -> None:
    """Where requests come to more than they have reserved, more is used than there is: else no
    window ever has more than its limit, whoever is killed at whatever step; and in the end all that
    is counted is in rows of usage, to the unit."""
    world = World(seed, overdraws=seed % 3 == 1, kills=seed % 3 != 0)
    for _ in range(6000):
        world.step()
    for worker in world.workers:
        while worker.running:
            world.end(worker)
        while worker.rows:
            world.write(worker)
    owner = world.owner
    assert [one.reserved for one in owner.balances.values()] == [0] * len(STORM)
    for place in (1, 3):
        assert owner.balances[place + 1].used(world.now) == world.stored[place]
    assert world.refused > 50
    assert bool(world.killed) is world.kills


def test_a_request_is_admitted_at_all_limits_or_at_none() -> None:
    many, few = (
        Limit(kind="requests", amount=9, window="1m"),
        Limit(kind="tokens", amount=50, window="day"),
    )
    asking = client(many, few)
    assert isinstance(asking.admit(1, 30), Granted)
    refused = asking.admit(1, 30)
    assert isinstance(refused, Refused)
    assert (refused.place, refused.amount, refused.left, refused.used) == (1, 30, 20, 0)
    assert asking.used() == [1, 0]
    assert asking.reserved() == [0, 30]
    assert isinstance(asking.admit(1, 20), Granted)


def test_of_limits_that_refuse_the_longest_is_told() -> None:
    short, long = (Limit(kind="requests", amount=1, window=one) for one in ("30s", "day"))
    asking = client(short, long)
    asking.admit(1, 1)
    refused = asking.admit(1, 1)
    assert isinstance(refused, Refused)
    assert (refused.place, refused.free_at) == (1, MIDNIGHT)


def test_what_is_not_enforced_counts_and_refuses_nothing() -> None:
    shadow = Limit(kind="tokens", amount=10, window="1m", mode="shadow")
    asking = client(shadow)
    granted = asking.admit(30)
    assert isinstance(granted, Granted)
    assert granted.exceeded == (0,)
    asking.settle(granted, 25)
    assert asking.used() == [25]


def test_what_was_reserved_is_used_or_free_again() -> None:
    limits = (
        Limit(kind="requests", amount=9, window="1m"),
        Limit(kind="tokens", amount=100, window="1m"),
    )
    asking = client(*limits)
    asking.settle(asking.admit(1, 80), 1, 30)
    assert (asking.used(), asking.reserved()) == ([1, 30], [0, 0])
    # It reached no upstream.
    asking.settle(asking.admit(1, 70), 0, 0)
    assert (asking.used(), asking.reserved()) == ([1, 30], [0, 0])
    # More than was reserved, which nobody could know.
    asking.settle(asking.admit(1, 70), 1, 200)
    assert asking.used() == [2, 230]
    assert isinstance(asking.admit(1, 1), Refused)


def test_slots_are_free_once_a_worker_is_gone() -> None:
    slots = Limit(kind="concurrent", amount=2)
    owner = owner_of(slots)
    first, second = Client(owner, [slots], "a"), Client(owner, [slots], "b")
    kept = first.admit(1)
    assert isinstance(second.admit(1), Granted)
    assert isinstance(second.admit(1), Refused)
    owner.gone("b")
    assert isinstance(first.admit(1), Granted)
    first.settle(kept, 1)
    assert first.reserved() == [1]
    # What comes late of a worker that is gone changes nothing.
    second.settle(kept, 1, stored=False)
    assert first.reserved() == [1]


@pytest.mark.parametrize("written", [True, False, None])
def test_a_worker_that_is_killed_while_it_writes(written: bool | None) -> None:
    """What it had used counts if it is in rows of usage; until that is known it does. None: nobody
    had begun to write it."""
    tokens = Limit(kind="tokens", amount=100, window="day")
    asking = client(tokens)
    asking.settle(asking.admit(40), 40)
    if written is not None:
        asking.owner.writing("w", Writing("writer", 5.0))
        asking.settle(asking.admit(7), 7)
    asking.owner.gone("w")
    if written is None:
        assert not asking.owner.doubts
        assert asking.used() == [0]
        return
    assert list(asking.owner.doubts) == ["writer"]
    assert asking.used() == [40]
    asking.owner.resolve("writer", 6.0 if written else 5.0)
    assert asking.used() == [40 if written else 0]
    assert not asking.owner.doubts


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize(("window", "begun"), [("2s", NOW - 9.0), ("day", MIDNIGHT - 9.0)])
def test_what_a_killed_worker_used_before_the_window_is_not_taken_from_others(
    window: str, begun: float, settles: bool
) -> None:
    requests = Limit(kind="requests", amount=5, window=window)
    owner = owner_of(requests, now=begun)
    killed, living = Client(owner, [requests], "a"), Client(owner, [requests], "b")
    for granted in [killed.admit(1, now=begun) for _ in range(5)]:
        if settles:
            killed.settle(granted, 1, now=begun + 1.0)
    now = begun + 10.0
    for _ in range(5):
        assert isinstance(living.admit(1, now=now), Granted)
    owner.gone("a")
    assert isinstance(living.admit(1, now=now), Refused)


def test_what_is_not_stored_stays_used() -> None:
    tokens = Limit(kind="tokens", amount=100, window="day")
    asking = client(tokens)
    asking.settle(asking.admit(40), 40, stored=False)
    asking.owner.gone("w")
    assert asking.used() == [40]


@pytest.mark.parametrize("window", ["60s", "day", "total"])
def test_a_clock_that_is_put_back_admits_nothing_more(window: str) -> None:
    requests = Limit(kind="requests", amount=5, window=window)
    asking = client(requests)
    for _ in range(5):
        assert isinstance(asking.admit(1), Granted)
    for back in (1, 100, 290):
        assert isinstance(asking.admit(1, now=NOW - back), Refused), back
    assert asking.used(NOW - 100) == [5]
    # What is taken back is what was counted then.
    asking.settle(Granted(NOW, (1,), (0,), (0,)), 0, now=NOW - 50)
    assert isinstance(asking.admit(1, now=NOW - 50), Granted)
    assert isinstance(asking.admit(1, now=NOW + 1), Refused)


def test_a_limit_begins_with_what_rows_of_usage_tell() -> None:
    day = Limit(kind="tokens", amount=100, window="day")
    owner = Owner()
    define = Define((("l", day),))
    first = owner.define(define, NOW)
    assert first.empty == first.numbers == (1,)
    asking = Client(owner, [day])
    assert isinstance(asking.admit(1), Unknown), "nobody knows yet what was used"
    # A second worker comes before the first has read it, and tells the same later.
    assert owner.define(define, NOW) == first
    owner.restore(Restore(1, ((NOW - 3600, 60), (NOW - 90_000, 1000))), NOW)
    granted = asking.admit(40)
    asking.settle(granted, 40)
    owner.restore(Restore(1, ((NOW - 3600, 100),)), NOW)
    assert asking.used() == [100]
    assert owner.define(define, NOW).empty == ()


def test_a_limit_that_was_removed_is_restored_when_it_is_there_again() -> None:
    """With what rows of usage tell, and what is in none yet."""
    day = Limit(kind="requests", amount=100, window="day")
    asking = client(day)
    asking.settle(asking.admit(1), 1)
    asking.owner.writing("w", Writing("w", 0.0))
    asking.owner.written("w", done=True)
    asking.settle(asking.admit(1), 1)
    running = asking.admit(1)
    asking.owner.retire(Retire((1,)))
    assert isinstance(asking.admit(1), Unknown)
    assert asking.owner.define(Define((("0", day),)), NOW).empty == (1,)
    asking.owner.restore(Restore(1, ((NOW, 7),)), NOW)
    assert asking.used() == [9]
    asking.settle(running, 0)
    assert asking.used() == [8]


@pytest.mark.parametrize("written", [True, False])
def test_what_is_written_while_rows_of_usage_are_read_stays_used(written: bool) -> None:
    day = Limit(kind="requests", amount=1, window="day")
    asking = client(day)
    asking.settle(asking.admit(1), 1)
    asking.owner.retire(Retire((1,)))
    asking.owner.define(Define((("0", day),)), NOW)
    # Rows are read here, and have nothing.
    asking.owner.writing("w", Writing("w", 0.0))
    if written:
        asking.owner.written("w", done=True)
    asking.owner.restore(Restore(1, ()), NOW)
    assert asking.used() == [1]
    assert isinstance(asking.admit(1), Refused)


def test_rows_are_read_anew_once_the_gateway_before_has_ended() -> None:
    """Its usage counts beside what workers here have used and not written. Rows that may or may not
    tell of a batch are not taken, and the limit holds by what is known meanwhile."""
    day = Limit(kind="requests", amount=20, window="day")
    asking = client(day)
    owner = asking.owner

    def restore(rows: int) -> None:
        owner.restore(Restore(1, ((NOW, rows),)), NOW)

    asking.settle(asking.admit(1), 1)
    owner.writing("w", Writing("w", 0.0))
    asking.settle(asking.admit(1), 1)
    owner.read_anew({}, NOW)
    assert isinstance(asking.admit(1), Granted), "a batch is being written"
    owner.written("w", done=True)
    assert isinstance(asking.admit(1), Unknown)
    assert owner.define(Define((("0", day),)), NOW).empty == (1,)
    owner.writing("w", Writing("w", 1.0))
    restore(5)
    assert asking.used() == [3], "these rows tell of that batch or not"
    owner.written("w", done=True)
    assert owner.define(Define((("0", day),)), NOW).empty == (1,)
    restore(6)
    # Four of the gateway before, and the two that are written; one is under way.
    assert asking.used() == [7]
    owner.written("w", done=True)
    assert isinstance(asking.admit(1), Granted)
    assert asking.used() == [8]


def test_short_windows_of_the_gateway_before_are_added() -> None:
    short = Limit(kind="requests", amount=20, window="1m")
    before, after = client(short), client(short)
    for _ in range(3):
        before.settle(before.admit(1), 1)
    after.settle(after.admit(1, now=NOW + 10), 1)
    ended = before.owner.short_windows(NOW + 20)
    after.owner.read_anew({**ended, "unknown": CounterState()}, NOW + 20)
    assert after.used(NOW + 20) == [4]
    assert after.used(NOW + 65) == [1]
    assert after.used(NOW + 75) == [0]


def test_limits_that_are_in_force_no_more_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was used of them; those that are in force stay."""
    monkeypatch.setattr("dragoman.limits.owner._MOST_IDLE", 10)
    total = Limit(kind="requests", amount=2, window="total")
    owner = Owner()
    for count in range(200):
        (number,) = owner.define(Define(((str(count), total),)), NOW).numbers
        owner.restore(Restore(number, ()), NOW)
        granted = owner.admit("w", Admit("k", (Claim(number, 1, 2),)), NOW)
        assert isinstance(granted, Granted)
        owner.settle("w", Settle(granted.at, (Settled(number, 1, 1),), True), NOW)
        owner.writing("w", Writing("w", 0.0))
        owner.written("w", done=True)
        if count:
            owner.retire(Retire((number,)))
        assert len(owner.balances) <= 10
    (number,) = owner.define(Define((("0", total),)), NOW).numbers
    assert owner.balances[number].used(NOW) == 1


def test_shares_that_are_reached_are_told_once() -> None:
    requests, cost = (
        Limit(kind="requests", amount=10, window="day"),
        Limit(kind="tokens", amount=100, window="day"),
    )
    asking = client(requests, cost)
    for _ in range(10):
        asking.settle(asking.admit(1, 9), 1, 9)
    told = Sums((one.number, one.percent) for one in asking.owner.reached)
    assert told == dict.fromkeys([(1, 50), (1, 80), (1, 100), (2, 50), (2, 80)], 1)


def clamping(amount: int, output: int, longest: int, answers: int = 1) -> Decision:
    """What is decided of a request with a prompt of 100 tokens at a limit of so many."""
    tokens = Limit(kind="tokens", amount=amount, window="day", clamp=True)
    claim = Claim(1, 100 + output, amount, clamps=True, plain=100)
    return owner_of(tokens).admit("w", Admit("k", (claim,), output, longest, answers), NOW)


def test_output_limits_are_lowered_to_what_is_left() -> None:
    assert clamping(2000, 1000, 1000) == Granted(NOW, (1100,), (900,), (0,))
    assert clamping(600, 1000, 1000) == Granted(NOW, (600,), (0,), (0,), clamped=500)
    # One that sets no limit is given one where the model might say more than is left.
    assert clamping(2000, 1000, 4096) == Granted(NOW, (1100,), (900,), (0,), clamped=1900)
    assert clamping(5000, 1000, 4096) == Granted(NOW, (1100,), (3900,), (0,))
    # Each of several answers has a part of it, if that is worth sending.
    assert clamping(1100, 2000, 2000, 2) == Granted(NOW, (1100,), (0,), (0,), clamped=500)
    assert isinstance(clamping(600, 2000, 2000, 2), Refused)
    assert isinstance(clamping(300, 1000, 1000), Refused)


def test_states_are_of_limits_that_are_counted() -> None:
    day = Limit(kind="tokens", amount=100, window="day")
    asking = client(day)
    asking.settle(asking.admit(30), 30)
    asking.admit(20)
    known, unknown = asking.owner.look(Look((Asked("0", 100, 60), Asked("?", 1))), NOW).states
    assert unknown is None
    assert known is not None
    assert (known.used, known.reserved, known.left) == (30, 20, 50)
    assert (known.free_at, known.resets_at) == (NOW + 1.0, MIDNIGHT)


def test_short_windows_are_handed_to_the_next_owner() -> None:
    limits = [Limit(kind="requests", amount=5, window=one) for one in ("60s", "2h", "day")]
    asking = client(*limits)
    asking.admit(1, 1, 1)
    states = asking.owner.short_windows(NOW)
    assert list(states) == ["0"]
    after = Owner()
    after.inherit(states)
    after.define(Define((("0", limits[0]),)), NOW)
    after.restore(Restore(1, ()), NOW)
    assert after.balances[1].used(NOW + 1) == 1


def test_what_is_used_counts_when_it_is_over() -> None:
    """A request that runs for hours is reserved for so long; it counts in the window it ends in."""
    limits = [Limit(kind="tokens", amount=n, window=w) for n, w in ((1000, "day"), (999, "1m"))]
    asking = client(*limits)
    granted, later = asking.admit(100, 100), NOW + 86_400
    assert [one.left(later) for one in asking.owner.balances.values()] == [900, 899]
    asking.settle(granted, 1500, 1500, now=later)
    assert [one.left(later) for one in asking.owner.balances.values()] == [-500, -501]
    refused = asking.admit(1, 0, now=later + 2)
    assert isinstance(refused, Refused)
    assert refused.free_at == MIDNIGHT + 86_400


def test_when_to_come_again() -> None:
    requests = client(Limit(kind="requests", amount=1, window="1m"))
    requests.admit(1)
    refused = requests.admit(1, now=NOW + 10)
    assert isinstance(refused, Refused)
    assert 49.5 < refused.free_at - (NOW + 10) < 51
    # Only what is under way stands in the way: it may be over soon.
    tokens = client(Limit(kind="tokens", amount=150, window="1m"))
    tokens.admit(100)
    refused = tokens.admit(100)
    assert isinstance(refused, Refused)
    assert refused.free_at == NOW + 1
    # More than the limit has at all, and what never begins anew.
    total = client(Limit(kind="requests", amount=1, window="total"))
    total.admit(1)
    for never in (tokens.admit(151), total.admit(1)):
        assert isinstance(never, Refused)
        assert never.free_at == inf

"""What every store does, whatever it keeps its data in."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.accounts.decide.decisions import apply
from dragoman.accounts.decide.states import (
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    Succeeded,
    Transition,
)
from dragoman.accounts.store import (
    HISTORY_KEPT,
    LOST_AFTER_S,
    REMOVED_KEPT_S,
    SWEPT_AT_ONCE,
    Batch,
    Changes,
    Definition,
    ErrorKey,
    Store,
    UsageCount,
    UsageKey,
)
from dragoman.failing import Verdict
from dragoman.storage.sqlite import SqliteStore
from tests.storage.conftest import Clock, Opened

DAY = 86400.0
HOUR = 3600
REFUSED = Failed(Decision(Verdict.DISABLE, "the upstream refused its key"), status=401, key="aa11")


def limited(account: str, at: float, rest: float = 20.0, model: str = "m") -> Transition:
    decision = Decision(Verdict.COOL, "rate limited", rest=rest)
    return Transition(account, Failed(decision, status=429), at, model)


def key(hour: int = 0, account: str = "a", model: str = "m") -> UsageKey:
    return UsageKey(hour, account, "me", model, "/v1/messages")


def test_an_empty_store_has_nothing(store: Store) -> None:
    changes = store.exchange("w", Batch(), 0)
    assert changes == Changes(version=changes.version)
    assert store.definitions() == []
    assert store.states() == {}
    assert store.history("a") == []
    assert store.usage(0, 10 * DAY) == {}


def test_nothing_new_is_told_twice(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    first = one.exchange("1", Batch(transitions=[limited("a", clock.now)]), 0)
    learnt = two.exchange("2", Batch(), 0)
    assert learnt.states == first.states
    assert set(learnt.states) == {"a"}
    assert two.exchange("2", Batch(), learnt.version).states == {}
    one.exchange("1", Batch(transitions=[limited("b", clock.now)]), first.version)
    assert set(two.exchange("2", Batch(), learnt.version).states) == {"b"}
    assert set(two.exchange("2", Batch(), 0).states) == {"a", "b"}


def test_states_are_those_of_the_pure_function(store: Store, clock: Clock) -> None:
    made = [
        limited("a", clock.now, 3.0),
        limited("a", clock.now + 5, 7.5, "other"),
        Transition("a", Succeeded(), clock.now + 6, "m"),
        Transition("a", REFUSED, clock.now + 8, "m", 0.25),
    ]
    state = AccountState("a")
    for transition in made:
        state = apply(state, transition)
    assert store.exchange("w", Batch(transitions=made), 0).states == {"a": state}
    assert store.states() == {"a": state}


def test_transitions_of_workers_do_not_overwrite_one_another(opened: Opened, clock: Clock) -> None:
    """Each had seen nothing of the other when it told."""
    one, two = opened(), opened()
    one.exchange("1", Batch(transitions=[limited("a", clock.now, model="x")]), 0)
    both = two.exchange("2", Batch(transitions=[limited("a", clock.now, model="y")]), 0)
    assert set(both.states["a"].cooling) == {"x", "y"}
    three = one.exchange("1", Batch(transitions=[Transition("a", REFUSED, clock.now)]), 0)
    assert three.states["a"].disabled
    assert set(three.states["a"].cooling) == {"x", "y"}


def test_a_person_goes_the_same_way(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    before = two.exchange("2", Batch(), 0).version
    one.apply([Transition("a", Disabled("broken"), clock.now)])
    told = two.exchange("2", Batch(), before)
    assert told.states["a"].disabled == "broken"
    one.apply([Transition("a", Enabled(), clock.now + 1)])
    renewed = AccountState("a", renewed=clock.now + 1)
    assert two.exchange("2", Batch(), told.version).states == {"a": renewed}
    assert [entry.change for entry in one.history("a")] == ["enabled", "disabled"]


def test_history_tells_what_changed_and_why(store: Store, clock: Clock) -> None:
    store.exchange(
        "w",
        Batch(
            transitions=[
                limited("a", clock.now),
                Transition("a", REFUSED, clock.now + 30),
                Transition("b", Disabled("by me"), clock.now),
            ]
        ),
        0,
    )
    latest, first = store.history("a")
    assert (latest.change, latest.status, latest.why) == (
        "disabled",
        401,
        "the upstream refused its key",
    )
    assert (first.change, first.status, first.model) == ("cooled", 429, "m")
    assert first.until == clock.now + 20
    assert store.history("a", 1) == [latest]
    assert [entry.why for entry in store.history("b")] == ["by me"]


def test_an_account_that_flaps_does_not_fill_the_store(store: Store, clock: Clock) -> None:
    flaps = [
        Transition("a", Disabled(str(turn)) if turn % 2 else Enabled(), clock.now + turn)
        for turn in range(1, 2 * HISTORY_KEPT + 4)
    ]
    for start in range(0, len(flaps), 50):
        store.exchange("w", Batch(transitions=flaps[start : start + 50]), 0)
    kept = store.history("a", 10 * HISTORY_KEPT)
    assert [entry.at for entry in kept] == [flap.at for flap in reversed(flaps)][:HISTORY_KEPT]


def test_usage_adds_up(opened: Opened) -> None:
    one, two = opened(), opened()
    count = UsageCount(requests=2, errors=1, input=10, cached=4, output=7, milliseconds=1.5)
    one.exchange("1", Batch(usage={key(): count, key(model="n"): count}), 0)
    two.exchange("2", Batch(usage={key(): count, key(HOUR): count}), 0)
    twice = UsageCount(requests=4, errors=2, input=20, cached=8, output=14, milliseconds=3.0)
    assert one.usage(0, HOUR) == {key(): twice, key(model="n"): count}
    assert one.usage(HOUR, 2 * HOUR) == {key(HOUR): count}
    assert len(one.usage(0, 2 * HOUR)) == 3


@pytest.mark.parametrize("model", ["", "m/ü'\"\\\\[0]", "\U0001f600", "a\nb", "$[1]", "null", "7"])
def test_names_of_models_are_kept_as_they_are(store: Store, model: str) -> None:
    """Clients choose them."""
    for _ in range(2):
        store.exchange("w", Batch(usage={key(model=model): UsageCount(1, milliseconds=0.1)}), 0)
    assert store.usage(0, 1) == {key(model=model): UsageCount(2, milliseconds=0.2)}


def test_leases_of_other_workers_are_told(opened: Opened) -> None:
    one, two, three = opened(), opened(), opened()
    one.exchange("1", Batch(leases={"a": 2, "b": 1}), 0)
    two.exchange("2", Batch(leases={"a": 5}), 0)
    assert three.exchange("3", Batch(), 0).leases == {"a": 7, "b": 1}
    assert one.exchange("1", Batch(leases={"a": 2, "b": 1}), 0).leases == {"a": 5}
    two.exchange("2", Batch(), 0)
    assert three.exchange("3", Batch(), 0).leases == {"a": 2, "b": 1}


def test_leases_of_another_gateway_are_told_apart(tmp_path: Path) -> None:
    """On one file. Machines lend one another slots in their database."""
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.exchange("one.1", Batch(leases={"a": 2}), 0)
        store.exchange("one.2", Batch(leases={"a": 1, "b": 1}), 0)
        store.exchange("of a former version", Batch(leases={"c": 1}), 0)
        found = store.exchange("two.1", Batch(leases={"a": 4}), 0)
        assert found.leases == found.apart == {"a": 3, "b": 1, "c": 1}
        found = store.exchange("one.1", Batch(leases={"a": 2}), found.version)
        assert found.leases == {"a": 5, "b": 1, "c": 1}
        assert found.apart == {"a": 4, "c": 1}


def test_leases_of_a_lost_worker_are_dropped(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    lost = one.exchange("1", Batch(leases={"a": 2}), 0)
    version = two.exchange("2", Batch(leases={"b": 1}), 0).version
    clock.now += LOST_AFTER_S - 0.5
    assert two.exchange("2", Batch(leases={"b": 1}), version).leases == {"a": 2}
    clock.now += 1.0
    assert two.exchange("2", Batch(leases={"b": 1}), version).leases == {}
    back = one.exchange("1", Batch(leases={"a": 2}), lost.version)
    assert back.leases == {"b": 1}
    assert two.exchange("2", Batch(leases={"b": 1}), version).leases == {"a": 2}


def test_a_worker_that_is_still_there_is_counted(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    mine = theirs = 0
    for _ in range(50):
        clock.now += 0.2
        mine = one.exchange("1", Batch(leases={"a": 2}), mine).version
        changes = two.exchange("2", Batch(), theirs)
        theirs = changes.version
        assert changes.leases == {"a": 2}


def test_a_clock_set_back_keeps_no_lost_worker_alive(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    one.exchange("1", Batch(leases={"a": 2}), 0)
    clock.now -= 1000
    assert two.exchange("2", Batch(), 0).leases == {}


def test_used_times_are_the_latest(opened: Opened) -> None:
    one, two = opened(), opened()
    one.exchange("1", Batch(used={"a": 5.0, "b": 6.0}), 0)
    version = two.exchange("2", Batch(used={"a": 4.0}), 0).version
    assert two.exchange("2", Batch(), 0).used == {"a": 5.0, "b": 6.0}
    assert one.exchange("1", Batch(used={"b": 7.0}), version).used == {}
    assert two.exchange("2", Batch(used={"b": 6.5}), version).used == {"b": 7.0}


def test_balances_are_spent_by_all(opened: Opened) -> None:
    one, two = opened(), opened()
    one.exchange("1", Batch(balances={"a": 100.0}, spent={"a": 10.0, "unknown": 1.0}), 0)
    assert two.exchange("2", Batch(spent={"a": 20.0}), 0).balances == {"a": 70.0}
    told_again = one.exchange("1", Batch(balances={"a": 100.0}), 0)
    assert told_again.balances == {"a": 70.0}
    assert one.exchange("1", Batch(balances={"a": 500.0}), 0).balances == {"a": 500.0}
    one.define([Definition(name="b", upstream="u", balance=5.0)])
    assert two.exchange("2", Batch(spent={"b": 6.0}), 0).balances == {"a": 500.0, "b": -1.0}


def test_pins_are_those_of_the_latest_request(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    now = clock.now
    one.exchange("1", Batch(pins={b"x": ("a", now), b"y": ("b", now)}), 0)
    told = two.exchange("2", Batch(pins={b"x": ("c", now + 1), b"y": ("d", now - 1)}), 0)
    assert told.pins == {b"y": ("b", now)}
    assert one.exchange("1", Batch(), 0).pins == {b"x": ("c", now + 1), b"y": ("b", now)}


def test_pins_end(store: Store, clock: Clock) -> None:
    store.exchange("w", Batch(pins={b"x": ("a", clock.now), b"y": ("a", clock.now + 300)}), 0)
    clock.now += 601
    assert set(store.exchange("w", Batch(), 0).pins) == {b"y"}


def test_definitions_come_change_and_go(opened: Opened) -> None:
    one, two = opened(), opened()
    full = Definition(
        name="b",
        upstream="u",
        sealed=b"\x00\xff",
        models=("m-*", "n"),
        priority=3,
        weight=0.5,
        max_concurrent=4,
        balance=9.5,
    )
    plain = Definition(name="a", upstream="u")
    version = two.exchange("2", Batch(), 0).version
    one.define([full, plain])
    assert one.definitions() == [plain, full]
    learnt = two.exchange("2", Batch(), version)
    assert sorted(learnt.definitions, key=lambda entry: entry.name) == [plain, full]
    changed = Definition(name="a", upstream="v", models=())
    one.define([changed])
    told = two.exchange("2", Batch(), learnt.version)
    assert list(told.definitions) == [changed]
    assert one.remove(["b", "nobody"]) == 1
    gone = two.exchange("2", Batch(), told.version)
    assert (list(gone.removed), list(gone.definitions)) == (["b"], [])
    assert one.definitions() == [changed]
    # Who asks for everything may have heard of it before.
    assert list(two.exchange("2", Batch(), 0).removed) == ["b"]
    assert one.remove(["b"]) == 0


def test_definitions_are_all_taken_or_none(store: Store) -> None:
    def broken() -> object:
        yield Definition(name="a", upstream="u")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        store.define(broken())  # type: ignore[arg-type]
    assert store.definitions() == []
    store.define([Definition(name="b", upstream="u")])
    assert [entry.name for entry in store.definitions()] == ["b"]


def test_an_account_keeps_its_state_when_it_is_defined_again(store: Store, clock: Clock) -> None:
    store.define([Definition(name="a", upstream="u")])
    store.apply([Transition("a", Disabled("broken"), clock.now)])
    store.define([Definition(name="a", upstream="u", sealed=b"new")])
    assert store.states()["a"].disabled == "broken"


def test_nothing_is_held_against_an_account_that_was_removed(store: Store, clock: Clock) -> None:
    store.define([Definition(name="a", upstream="u")])
    store.exchange("w", Batch(transitions=[limited("a", clock.now)], used={"a": 1.0}), 0)
    store.remove(["a"])
    assert store.states() == {}
    assert store.history("a") == []
    known = store.exchange("w", Batch(transitions=[limited("a", clock.now)]), 0).version
    store.define([Definition(name="a", upstream="u")])
    blank = AccountState("a", renewed=clock.now)
    assert store.states() == {"a": blank}
    assert store.history("a") == []
    # Whoever has not heard of the removal hears of the state.
    assert store.exchange("w", Batch(), known).states == {"a": blank}


def test_what_is_too_old_is_dropped(opened: Opened, clock: Clock) -> None:
    store = opened()
    now = clock.now
    hour = int(now) // HOUR * HOUR
    store.define([Definition(name="gone", upstream="u")])
    version = store.exchange(
        "w",
        Batch(
            transitions=[
                Transition("a", Disabled("old"), now),
                Transition("a", Enabled(), now + 5 * DAY),
            ],
            usage={key(hour): UsageCount(1), key(hour + 50 * 24 * HOUR): UsageCount(2)},
            pins={b"x": ("a", now), b"y": ("a", now + 500)},
        ),
        0,
    ).version
    store.remove(["gone"])
    clock.now += 601
    assert store.sweep(clock.now) == 1
    assert set(store.exchange("w", Batch(), 0).pins) == {b"y"}
    clock.now = now + REMOVED_KEPT_S
    assert list(store.exchange("w", Batch(), version).removed) == ["gone"]
    clock.now = now + 11 * DAY
    store.sweep(clock.now)
    assert [entry.change for entry in store.history("a")] == ["enabled"]
    assert list(store.exchange("w", Batch(), version).removed) == []
    clock.now = now + 101 * DAY
    store.sweep(clock.now)
    # Usage is added up, and nothing of it lost.
    assert {one.hour: sums.requests for one, sums in store.usage(0, 2 * now).items()} == {
        0: 1,
        hour + 50 * 24 * HOUR: 2,
    }
    assert store.sweep(clock.now) == 0
    assert "a" in store.states()


def test_a_sweep_is_bounded(store: Store, clock: Clock) -> None:
    count = 2 * SWEPT_AT_ONCE + 1
    errors = {ErrorKey(0, f"a{number}", "x"): 1 for number in range(count)}
    store.exchange("w", Batch(errors=errors), 0)
    swept = []
    while done := store.sweep(clock.now):
        swept.append(done)
        assert len(store.errors(0, 1)) == count - sum(swept)
    assert swept == [SWEPT_AT_ONCE, SWEPT_AT_ONCE, 1]


def test_a_store_that_was_closed_is_as_it_was(opened: Opened, clock: Clock) -> None:
    one = opened()
    one.define([Definition(name="a", upstream="u", sealed=b"s")])
    batch = Batch(
        transitions=[limited("a", clock.now)],
        usage={key(): UsageCount(3)},
        used={"a": 7.0},
        pins={b"p": ("a", clock.now)},
        balances={"a": 4.0},
    )
    one.exchange("1", batch, 0)
    told = one.exchange("1", Batch(), 0)
    one.close()
    one.close()
    two = opened()
    assert two.exchange("2", Batch(), 0) == told
    assert two.usage(0, HOUR) == batch.usage
    assert [entry.change for entry in two.history("a")] == ["cooled"]


def test_workers_that_write_at_once_lose_nothing(opened: Opened, clock: Clock) -> None:
    """Eight threads with a handle each, as many processes would be."""
    rounds, workers = 25, 8
    failures: list[BaseException] = []
    begin = threading.Barrier(workers)

    def work(name: str, store: Store) -> None:
        try:
            begin.wait()
            version = 0
            for turn in range(rounds):
                batch = Batch(
                    usage={key(): UsageCount(requests=1), key(account=name): UsageCount(1)},
                    transitions=[limited("a", clock.now, model=f"{name}-{turn}")],
                )
                version = store.exchange(name, batch, version).version
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(f"w{number}", opened())) for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    store = opened()
    usage = store.usage(0, HOUR)
    assert usage[key()].requests == rounds * workers
    assert all(usage[key(account=f"w{number}")].requests == rounds for number in range(workers))
    assert len(store.states()["a"].cooling) == rounds * workers

"""What stores keep of failed attempts, quotas and claims."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dragoman.accounts.decide.quota import QuotaWindow, Windows
from dragoman.accounts.store import Batch, Definition, ErrorKey, LastError, UsageCount, UsageKey
from dragoman.storage.sqlite import SqliteStore
from tests.storage.conftest import Clock, Opened
from tests.storage.former import make_sqlite

HOUR = 3600


def window(name: str, used: float, told_at: float) -> QuotaWindow:
    return QuotaWindow(name, used, told_at, told_at + HOUR, 5.0 * HOUR)


def test_failed_attempts_add_up_and_the_last_is_the_latest(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    hour = int(clock.now) // HOUR * HOUR
    key, other = ErrorKey(hour, "a", "rate_limited"), ErrorKey(hour - HOUR, "a", "overloaded")
    late, early = (
        LastError(clock.now, "rate_limited", 429, "m"),
        LastError(clock.now - 9, "cut_off"),
    )
    one.exchange("1", Batch(errors={key: 2}, last_errors={"a": late}), 0)
    two.exchange("2", Batch(errors={key: 3, other: 1}, last_errors={"a": early, "b": early}), 0)
    assert one.errors(0, 2 * clock.now) == {key: 5, other: 1}
    assert one.errors(hour, hour + 1) == {key: 5}
    assert one.last_errors() == {"a": late, "b": early}


def test_failed_attempts_that_are_too_old_are_dropped(opened: Opened, clock: Clock) -> None:
    store = opened()
    old = ErrorKey(int(clock.now - 101 * 24 * HOUR), "a", "cut_off")
    new = ErrorKey(int(clock.now), "a", "cut_off")
    store.exchange("1", Batch(errors={old: 1, new: 1}), 0)
    store.sweep(clock.now)
    assert set(store.errors(0, 2 * clock.now)) == {new}


def test_quotas_are_merged_and_told_to_others(opened: Opened, clock: Clock) -> None:
    one, two = opened(), opened()
    now = clock.now
    first = one.exchange("1", Batch(quotas={"a": (window("5h", 0.5, now),)}), 0)
    late = Batch(quotas={"a": (window("5h", 0.4, now - 60), window("7d", 0.1, now))})
    second = two.exchange("2", late, 0)
    merged = (window("5h", 0.5, now), window("7d", 0.1, now))
    assert second.quotas == {"a": merged}
    third = one.exchange("1", Batch(), first.version)
    assert third.quotas == {"a": merged}
    assert one.exchange("1", Batch(), third.version).quotas == {}


def test_what_was_told_of_a_removed_account_is_gone(opened: Opened, clock: Clock) -> None:
    store = opened()
    store.define([Definition(name="a", upstream="up")])
    last = LastError(clock.now, "cut_off")
    quotas: dict[str, Windows] = {"a": (window("5h", 0.5, clock.now),)}
    store.exchange("1", Batch(last_errors={"a": last}, quotas=quotas), 0)
    store.remove(["a"])
    assert store.last_errors() == {}
    assert store.exchange("2", Batch(), 0).quotas == {}


def test_of_several_workers_one_has_a_claim(opened: Opened, clock: Clock) -> None:
    stores = [opened() for _ in range(3)]
    now = clock.now
    claims = {"x": now + 60, "y": now + 600}
    assert [store.claim(claims, now) for store in stores] == [{"x", "y"}, set(), set()]
    assert stores[1].claim({"x": now + 120, "y": now + 120}, now + 60.5) == {"x"}
    assert stores[2].claim({"x": now + 200}, now + 61) == set()
    for store in stores:
        store.sweep(now + 601)
    assert stores[0].claim({"x": now + 999, "y": now + 999}, now + 601) == {"x", "y"}


def test_a_claim_of_a_clock_far_ahead_is_over(opened: Opened, clock: Clock) -> None:
    store, now = opened(), clock.now
    later = now + 90 * 86_400
    assert store.claim({"x": later + 60}, later) == {"x"}
    assert store.claim({"x": now + 60}, now) == {"x"}
    assert store.claim({"x": now + 60}, now) == set()


def test_usage_of_an_older_file_counts_its_last_attempts(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "store.db"
    make_sqlite(path, 3)
    connection = sqlite3.connect(path)
    for account in ("a", ""):
        connection.execute(
            "INSERT INTO usage VALUES (0, ?, 'me', 'm', '/', 5, 2, 0, 1, 0, 0, 1, 0, 9.0)",
            (account,),
        )
    connection.commit()
    connection.close()
    store = SqliteStore(path, clock=clock)
    store.upgrade()
    found = store.usage(0, 1)
    store.close()
    assert found[UsageKey(0, "a", "me", "m", "/")].attempts == 5
    assert found[UsageKey(0, "a", "me", "m", "/")].failed == 2
    assert found[UsageKey(0, "", "me", "m", "/")] == UsageCount(
        requests=5, errors=2, input=1, output=1, milliseconds=9.0
    )

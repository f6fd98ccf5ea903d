"""What was used and charged, by whom and for whom, and what becomes of it when it is old."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import astuple, replace

from dragoman.accounts.store import (
    SWEPT_AT_ONCE,
    Attempts,
    Batch,
    ChargeCount,
    ChargeKey,
    Store,
    UsageCount,
    UsageKey,
)
from dragoman.storage.retention import Retention
from dragoman.storage.sqlite import SqliteStore
from tests.storage.conftest import Clock
from tests.storage.former import make_sqlite

HOUR, DAY = 3600, 86400
MADE = 20_000 * DAY + 5 * HOUR


def key(hour: int = MADE, **more: Any) -> UsageKey:
    made = UsageKey(hour, "a", "me", "m", "/v1/messages", "up", "team")
    return replace(made, **more)


def charge(hour: int = MADE, **more: Any) -> ChargeKey:
    made = ChargeKey(hour, "a", "me", "m", "/v1/messages", "up", "m-1", "", 0, "v", team="team")
    return replace(made, **more)


def tell(store: Store, *keys: UsageKey) -> None:
    usage = {one: UsageCount(1, input=10, milliseconds=1.5) for one in keys}
    charges = {
        charge(
            one.hour, account=one.account, client=one.client, model=one.model, user=one.user,
            tags=one.tags,
        ): ChargeCount(1, input=10, cost=3)
        for one in keys
    }  # fmt: skip
    store.exchange("w", Batch(usage=usage, charges=charges), 0)


def by(store: Store, *names: str, **only: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Requests and costs of groups."""
    found = store.sums(0, 2**40, names, only)
    return {group: (one.usage.requests, one.charged.cost) for group, one in found.items()}


def test_sums_by_any_dimension(store: Store) -> None:
    tell(
        store,
        key(),
        key(MADE + HOUR, client="other", user="u1"),
        key(MADE + DAY, account="b", tags="x,y"),
        key(MADE + DAY, model="n", tags="y"),
    )
    assert by(store) == {(): (4, 12)}
    assert by(store, "key") == by(store, "client") == {("me",): (3, 9), ("other",): (1, 3)}
    assert by(store, "team") == {("team",): (4, 12)}
    assert by(store, "upstream") == {("up",): (4, 12)}
    assert by(store, "user") == {("",): (3, 9), ("u1",): (1, 3)}
    assert by(store, "route") == {("/v1/messages",): (4, 12)}
    start = MADE // DAY * DAY
    assert by(store, "day") == {(str(start),): (2, 6), (str(start + DAY),): (2, 6)}
    assert list(by(store, "hour")) == [(str(MADE + at),) for at in (0, HOUR, DAY)]
    assert by(store, "model", "account", key="me") == {
        ("m", "a"): (1, 3),
        ("m", "b"): (1, 3),
        ("n", "a"): (1, 3),
    }
    assert store.sums(0, MADE) == {}


def test_attempts_of_accounts_are_those_of_their_sums(store: Store) -> None:
    counts = {
        key(): UsageCount(2, attempts=5, failed=4, retries=3),
        key(MADE + HOUR, user="u"): UsageCount(attempts=2, failed=1),
        key(MADE + DAY): UsageCount(attempts=7),
        key(MADE, account="b"): UsageCount(attempts=1),
    }
    store.exchange("w", Batch(usage=counts), 0)
    found = store.attempts(MADE, MADE + DAY)
    assert found == {"a": Attempts(7, 5, 3), "b": Attempts(1, 0, 0)}
    assert {type(number) for one in found.values() for number in astuple(one)} == {int}
    assert store.attempts(0, MADE) == {}


def test_a_request_counts_for_each_of_its_tags(store: Store) -> None:
    tell(store, key(), key(tags="x,y"), key(tags="y"), key(tags="xy"))
    assert by(store, "tag") == {("",): (1, 3), ("x",): (1, 3), ("xy",): (1, 3), ("y",): (2, 6)}
    assert by(store, tag="y") == {(): (2, 6)}
    assert by(store, "tag", "model", tag="x") == {("x", "m"): (1, 3)}
    # What would be told apart by SQL is only a tag.
    assert by(store, tag="y' OR 1=1 --") == {}


def whole(store: Store) -> tuple[Any, ...]:
    sums = store.sums(0, 2**40)[()]
    return astuple(sums.usage), astuple(sums.charged)


def test_all_costs_together_may_be_more_than_a_column_holds(store: Store) -> None:
    """Nine million dollars are 2**63 pico-dollars."""
    costs = [2**62 + 1, 2**62 + 2, 2**62 + 3]
    rows = {charge(MADE + at * HOUR): ChargeCount(1, cost=cost) for at, cost in enumerate(costs)}
    store.exchange("w", Batch(charges=rows), 0)
    assert store.sums(0, 2**40)[()].charged == ChargeCount(3, cost=sum(costs))
    assert store.sums(0, 2**40, ("key",))[("me",)].charged.cost == sum(costs)


def test_what_is_old_is_added_up_and_stays_whole(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "store.db"
    retention = Retention(days=100, hours_days=10)
    with closing(SqliteStore(path, retention=retention, clock=clock)) as store:
        for hour in range(48):
            tell(store, *(key(MADE + hour * HOUR, account=f"a{n}", user=f"u{n}") for n in range(3)))
        before = whole(store)
        assert store.sweep(MADE + 11 * DAY) == 3 * 19
        days = {(str(day),) for day in range(MADE // DAY * DAY, MADE + 2 * DAY, DAY)}
        assert set(by(store, "day")) == days
        hours = {int(hour) for (hour,) in by(store, "hour")}
        assert {hour for hour in hours if hour < (MADE // DAY + 1) * DAY} == {MADE // DAY * DAY}
        assert store.sweep(MADE + 11 * DAY) == 0
        assert store.sweep(MADE + 13 * DAY) > 0
        assert {int(hour) for (hour,) in by(store, "hour")} == {int(day) for (day,) in days}
        assert len(by(store, "user")) == 3
        assert whole(store) == before
        # A worker tells late what it could not write.
        tell(store, key(MADE + HOUR, account="a0", user="u0"))
        late = whole(store)
        while store.sweep(MADE + 13 * DAY):
            pass
        assert whole(store) == late
        assert {int(hour) for (hour,) in by(store, "hour")} == {int(day) for (day,) in days}
        while store.sweep(MADE + 200 * DAY):
            pass
        assert list(by(store, "hour", "account", "user", "tag", "route")) == [
            ("0", "(other)", "", "", "")
        ]
        assert list(by(store, "key", "team", "upstream", "model")) == [("me", "team", "up", "m")]
        assert whole(store) == late
        assert {one.priced_as for one in store.charges(0, 2**40)} == {"(other)"}


def test_requests_that_reached_nobody_are_told_apart_for_ever(store: Store) -> None:
    tell(store, key(), key(MADE + HOUR, account="b"), key(account=""))
    assert [row.requests for row in store.client_keys.used("me", 0)] == [1, 1]
    while store.sweep(MADE + 200 * DAY):
        pass
    assert by(store, "account") == {("",): (1, 3), ("(other)",): (2, 6)}
    [row] = store.client_keys.used("me", 0)
    assert (row.requests, row.cost) == (2, 9)


def test_who_has_used_anything_is_told_at_once(store: Store) -> None:
    tell(store, key(), key(MADE + 5 * HOUR, client="other"))
    assert store.client_keys.users(0) == {"me", "other"}
    assert store.client_keys.users(MADE + 2 * HOUR) == {"other"}
    assert store.client_keys.users(MADE + 5 * HOUR, is_team=True) == {"team"}
    assert store.client_keys.users(MADE + 6 * HOUR) == frozenset()


def test_much_that_is_old_is_added_up_a_piece_at_a_time(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db", retention=Retention(days=100))) as store:
        tell(store, *(key(user=f"u{number}") for number in range(2 * SWEPT_AT_ONCE + 7)))
        before, done = whole(store), []
        while swept := store.sweep(MADE + 70 * DAY):
            done.append(swept)
            assert whole(store) == before
        assert done == [SWEPT_AT_ONCE, SWEPT_AT_ONCE, 7]
        assert len(by(store, "user")) == 2 * SWEPT_AT_ONCE + 7


def test_usage_of_an_older_version_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make_sqlite(path, 7)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(
            "INSERT INTO usage VALUES (3600, 'a', 'c', 'm', '/', 7, 6, 5, 4, 3, 2, 1, 9, 2.5,"
            " 8, 3, 2)"
        )
        other.execute(
            "INSERT INTO charges VALUES (3600, 'a', 'c', 'm', '/', 'up', 'p', 'flex', 5, 'v',"
            " 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"
        )
    with closing(SqliteStore(path)) as store:
        store.upgrade()
        assert store.usage(0, 7200) == {
            UsageKey(3600, "a", "c", "m", "/"): UsageCount(
                requests=7, errors=6, unmetered=5, input=4, cached=3, cache_write=2, output=1,
                reasoning=9, milliseconds=2.5, attempts=8, failed=3, retries=2,
            )
        }  # fmt: skip
        assert store.charges(0, 7200) == {
            ChargeKey(3600, "a", "c", "m", "/", "up", "p", "flex", 5, "v"): ChargeCount(
                *range(1, 11)
            )
        }

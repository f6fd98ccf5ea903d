"""Ledgers of limits in PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

pytest.importorskip("psycopg")

from dragoman.limits.ledgers import Away, Holding, Ledger
from dragoman.storage.postgres.ledgers import PostgresLedgers, connecting
from tests.storage.cluster import Cluster, running_cluster

NAMES = [f"key\nlimited\n{number}" for number in range(20)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as found:
        yield found


def count(ledgers: Mapping[str, Ledger], now: float) -> None:
    """Add one to each ledger, whose times must never go back."""
    for one in ledgers.values():
        assert now > one.reported
        one.reported = now
        known = one.holdings.setdefault("i", Holding(0, 0, 0.0))
        one.holdings["i"] = Holding(known.ceiling + 1, 0, 0.0)


def test_many_change_the_same_ledgers_and_none_is_lost(cluster: Cluster) -> None:
    """Those that are not there yet included, in any order: nobody waits for another in a circle."""

    def instance(number: int) -> dict[str, int]:
        chance = random.Random(number)
        counted = dict.fromkeys(NAMES, 0)
        with closing(PostgresLedgers(connecting(cluster.url))) as ledgers:
            for _ in range(40):
                names = chance.sample(NAMES, chance.randint(1, 8))
                ledgers.exchange(names, count)
                for name in names:
                    counted[name] += 1
        return counted

    with ThreadPoolExecutor(6) as threads:
        counted = list(threads.map(instance, range(6)))
    with closing(PostgresLedgers(connecting(cluster.url))) as ledgers:
        found: dict[str, int] = {}

        def read(told: Mapping[str, Ledger], now: float) -> None:
            found.update({name: one.holdings["i"].ceiling for name, one in told.items()})

        ledgers.exchange(NAMES, read)
    assert found == {name: sum(one[name] for one in counted) for name in NAMES}


def test_what_fails_changes_nothing_and_the_next_goes_well(cluster: Cluster) -> None:
    def fail(ledgers: Mapping[str, Ledger], now: float) -> None:
        count(ledgers, now)
        raise ZeroDivisionError

    with closing(PostgresLedgers(connecting(cluster.url))) as ledgers:
        with pytest.raises(ZeroDivisionError):
            ledgers.exchange(["a"], fail)
        cluster.stop()
        try:
            with pytest.raises(Away) as error:
                ledgers.exchange(["a"], count)
            assert "dragoman@" not in str(error.value)
        finally:
            cluster.start()
        ledgers.exchange(["a"], count)

        def look(told: Mapping[str, Ledger], now: float) -> None:
            assert told["a"].holdings["i"].ceiling == 1

        ledgers.exchange(["a"], look)
        ledgers.exchange([], count)


def test_an_exchange_with_a_database_that_hangs_is_given_up(cluster: Cluster) -> None:
    with (
        closing(PostgresLedgers(connecting(cluster.url))) as ledgers,
        ThreadPoolExecutor(1) as thread,
    ):
        ledgers.exchange(["hangs"], count)
        cluster.freeze()
        try:
            hanging = thread.submit(ledgers.exchange, ["hangs"], count)
            with pytest.raises(TimeoutError):
                hanging.result(0.3)
            ledgers.abort()
            with pytest.raises(Away):
                hanging.result(5)
        finally:
            cluster.freeze(thaw=True)
        ledgers.exchange(["hangs"], count)

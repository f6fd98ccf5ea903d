"""Pools and a store kept in step: real pools, a real file or database, and a store that fails on
demand."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest

from dragoman.accounts import sync as sync_module
from dragoman.accounts.decide.states import Disabled, Enabled, Transition
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, LeaseRequest, NoAccount
from dragoman.accounts.store import Batch, Changes, StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.accounts.usage import Attribution, Meter
from dragoman.canonical.usage import Usage
from dragoman.config import Account, Config, Secret, Upstream
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.sqlite_file import SqliteFile
from dragoman.storage.tables.pool import PoolTables
from tests.accounts.syncing import SYNC_S, until
from tests.storage.conftest import cluster, kind, url

pytestmark = pytest.mark.slow

__all__ = ["cluster", "kind", "url"]

KEY = Secret("correct horse battery")
UP = Upstream(name="up", protocol="openai_chat", base_url="http://127.0.0.1:9")
WANTED = LeaseRequest("up", "m")
REFUSED = Symptom(401)


class Failing(PoolTables):
    """A store, in a file or in the database of a URL, that cannot be used while `broken` is set."""

    def __init__(self, place: str) -> None:
        if place.startswith("postgresql:"):
            super().__init__(PostgresDatabase(place), instance="test-")
        else:
            super().__init__(SqliteFile(place, 5.0))
        self.broken = False
        self.threads: set[int] = set()
        self.exchanges = 0

    def exchange(self, worker: str, batch: Batch, since: int) -> Changes:
        self.threads.add(threading.get_ident())
        self.exchanges += 1
        if self.broken:
            raise StoreError("the disk is full")
        return super().exchange(worker, batch, since)


class Worker:
    """A pool with its synchronisation."""

    def __init__(self, place: str, *accounts: Account, sync_s: float, key: Secret | None) -> None:
        self.pool = AccountPool(Config(upstreams=(UP,), accounts=accounts))
        self.store = Failing(place)
        self.meter = Meter()
        self.sync = AccountSync(
            self.pool, self.store, AesGcmCipher(key), accounts, sync_s=sync_s, meter=self.meter
        )

    def used(self) -> str:
        """The account that serves one request."""
        with self.pool.lease(WANTED) as lease:
            lease.succeeded()
            return lease.account.name


@asynccontextmanager
async def working(
    place: str, *accounts: Account, sync_s: float = SYNC_S, key: Secret | None = KEY
) -> AsyncIterator[Worker]:
    worker = Worker(place, *accounts, sync_s=sync_s, key=key)
    await worker.sync.start()
    try:
        yield worker
    finally:
        await worker.sync.close()


def account(name: str, key: str = "sk-1") -> Account:
    return Account(name=name, upstream="up", key=Secret(key))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def place(request: pytest.FixtureRequest, kind: str, file: Path) -> str:
    """Where the store is, in either kind of database."""
    return str(request.getfixturevalue("url") if kind == "postgres" else file)


def keep(place: str, *accounts: Account) -> None:
    with closing(Failing(place)) as store:
        store.define([AesGcmCipher(KEY).seal(one) for one in accounts])


def damage(path: Path) -> Callable[[], object]:
    """Make the file useless. Returns what makes it whole again."""
    healthy = path.read_bytes()
    path.write_bytes(b"no database at all" * 300)
    return lambda: path.write_bytes(healthy)


async def test_what_was_known_is_known_after_a_restart(place: str) -> None:
    both = account("a"), account("b")
    async with working(place, *both) as worker:
        worker.pool.observe(Transition("a", Disabled("by me"), time.time()))
        with worker.pool.lease(WANTED) as lease:
            lease.pin(b"digest")
    async with working(place, *both) as worker:
        assert worker.pool.state("a").disabled == "by me"
        assert worker.used() == "b"
        worker.pool.observe(Transition("a", Enabled(), time.time()))
        # The least recently used is so by what came before the restart.
        assert worker.used() == "a"
        with worker.pool.lease(LeaseRequest("up", "m", b"digest")) as lease:
            assert lease.account.name == "b"


async def test_what_one_worker_decides_the_others_obey(place: str) -> None:
    both = account("a"), account("b")
    async with working(place, *both) as one, working(place, *both) as two:
        while True:
            with one.pool.lease(WANTED) as lease:
                if lease.account.name == "a":
                    lease.failed(REFUSED)
                    break
                lease.succeeded()
        await until(lambda: bool(two.pool.state("a").disabled))
        assert {two.used() for _ in range(6)} == {"b"}
        two.pool.observe(Transition("a", Enabled(), time.time()))
        await until(lambda: not one.pool.state("a").disabled)


async def test_a_disable_does_not_wait_for_the_next_exchange(place: str) -> None:
    """It is told long before the exchange that was due."""
    async with working(place, account("a"), sync_s=3600.0) as one:
        one.pool.observe(Transition("a", Disabled("by me"), time.time()))
        with closing(Failing(place)) as other:
            await until(lambda: bool(other.states()))


async def test_requests_of_other_workers_count(place: str) -> None:
    capped = Account(name="a", upstream="up", max_concurrent=1)
    async with working(place, capped) as one, working(place, capped) as two:
        with one.pool.lease(WANTED):
            await until(lambda: two.pool.in_flight("a") == 1)
            with pytest.raises(NoAccount):
                two.pool.lease(WANTED)
        await until(lambda: two.pool.in_flight("a") == 0)
        two.pool.lease(WANTED).give_back()


async def test_stored_accounts_serve_and_come_and_go(place: str) -> None:
    keep(place, account("a", "sk-a"))
    async with working(place) as one, working(place) as two:
        for worker in (one, two):
            with worker.pool.lease(WANTED) as lease:
                assert lease.account == account("a", "sk-a")
        await one.sync.ask(lambda store: store.define([AesGcmCipher(KEY).seal(account("b"))]))
        for worker in (one, two):
            await until(lambda worker=worker: len(worker.pool.accounts()) == 2)  # type: ignore[misc]
        assert {two.used(), two.used()} == {"a", "b"}
        assert await one.sync.ask(lambda store: store.remove(["a"])) == 1
        for worker in (one, two):
            await until(lambda worker=worker: len(worker.pool.accounts()) == 1)  # type: ignore[misc]
        assert {two.used(), two.used()} == {"b"}


async def test_what_is_enabled_serves_before_what_is_removed_is_gone(place: str) -> None:
    """One exchange brings both, and requests are served while it is taken over."""
    keep(place, account("a"))
    async with working(place, account("b"), sync_s=3600.0) as worker:
        now = time.time()
        worker.pool.observe(Transition("b", Disabled("by hand"), now))
        await worker.sync.exchanged()
        assert worker.used() == "a"
        with closing(Failing(place)) as store:
            store.exchange("other", Batch(transitions=[Transition("b", Enabled(), now + 1)]), 0)
            store.remove(["a"])
        exchange = asyncio.ensure_future(worker.sync._exchange())
        while not exchange.done():
            served = worker.used()
            await asyncio.sleep(0)
        assert served == "b"


async def test_nothing_is_left_of_an_account_whose_removal_was_not_heard_of(place: str) -> None:
    """It was removed and added again between two exchanges."""
    keep(place, account("a", "sk-a"))
    with closing(Failing(place)) as store:
        async with working(place, sync_s=3600.0) as worker:
            lease = worker.pool.lease(WANTED)
            worker.pool.observe(Transition("a", Disabled("broken"), time.time()))
            await until(lambda: "a" in store.states())
            store.remove(["a"])
            keep(place, account("a", "sk-b"))
            assert await worker.sync._exchange()
            assert worker.used() == "a"
            # Nor of a request with the former one.
            with lease:
                lease.failed(REFUSED)
            assert await worker.sync._exchange()
            assert worker.used() == "a"
            assert not store.states()["a"].disabled


async def test_who_asks_for_everything_again_hears_of_what_is_gone(place: str) -> None:
    """As after a reload with another upstream: the account was removed just before."""
    keep(place, account("a"), account("b"))
    other = Upstream(name="other", protocol="openai_chat", base_url="http://127.0.0.1:9")
    async with working(place, sync_s=3600.0) as worker:
        with closing(Failing(place)) as store:
            store.remove(["a"])
        after = AccountPool(Config(upstreams=(UP, other)))
        after.define(worker.sync.stored())
        worker.sync.follow(after, ())
        await until(lambda: after.accounts() == [account("b")])


async def test_a_configuration_that_comes_while_the_store_answers(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves to the store is asked for again, though the answer knew nothing of it."""
    keep(place, account("a", "sk-stored"))
    async with working(place, account("a", "sk-own"), sync_s=3600.0) as worker:
        after = AccountPool(Config(upstreams=(UP,)))
        loop, ask = asyncio.get_running_loop(), worker.store.exchange

        async def follow() -> None:
            worker.sync.follow(after, ())

        def exchange(name: str, batch: Batch, since: int) -> Changes:
            monkeypatch.setattr(worker.store, "exchange", ask)
            changes = ask(name, batch, since)
            asyncio.run_coroutine_threadsafe(follow(), loop).result(10)
            return changes

        monkeypatch.setattr(worker.store, "exchange", exchange)
        assert await worker.sync._exchange()
        await until(lambda: after.accounts() == [account("a", "sk-stored")])


async def test_the_configuration_wins(place: str, caplog: pytest.LogCaptureFixture) -> None:
    keep(place, account("a", "sk-stored"), account("b"))
    async with working(place, account("a", "sk-own")) as worker:
        assert worker.pool.account("a").key == Secret("sk-own")
        await worker.sync.ask(lambda store: store.remove(["a", "b"]))
        await until(lambda: len(worker.pool.accounts()) == 1)
        assert worker.pool.account("a").key == Secret("sk-own")
    assert "that of the configuration is used" in caplog.text
    assert "sk-" not in caplog.text


async def test_a_new_key_gives_an_account_another_chance(place: str) -> None:
    """Wherever it is written; the same key does not, nor does it undo what a person did."""
    async with working(place, account("a", "old"), account("b", "old")) as worker:
        for _ in range(2):
            with worker.pool.lease(WANTED) as lease:
                lease.failed(REFUSED)
        worker.pool.observe(Transition("b", Disabled("by me"), time.time()))
    async with working(place, account("a", "old"), account("b", "new")) as worker:
        assert worker.pool.state("a").disabled
    async with working(place, account("a", "new"), account("b", "new")) as worker:
        assert not worker.pool.state("a").disabled
        assert worker.pool.state("b").disabled == "by me"
    with closing(Failing(place)) as store:
        assert store.history("a")[0].why == "its key changed"


async def test_a_stored_accounts_new_key_does_so_at_once(place: str) -> None:
    keep(place, account("a", "old"))
    async with working(place) as one, working(place) as two:
        with one.pool.lease(WANTED) as before, one.pool.lease(WANTED) as lease:
            lease.failed(REFUSED)
            await until(lambda: bool(two.pool.state("a").disabled))
            replaced = AesGcmCipher(KEY).seal(account("a", "new"))
            await two.sync.ask(lambda store: store.define([replaced]))
            for worker in (one, two):
                await until(lambda worker=worker: not worker.pool.state("a").disabled)  # type: ignore[misc]
            # This request began with the old key, and says nothing of the new one.
            before.failed(REFUSED)
            assert not one.pool.state("a").disabled


async def test_a_wrong_key_of_the_store_shows_nothing(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep(place, account("a", "sk-hidden"), account("b", "sk-hidden"))
    async with working(place, account("c"), key=Secret("another horse entirely")) as worker:
        assert [one.name for one in worker.pool.accounts()] == ["c"]
    assert "2 stored accounts cannot be used" in caplog.text
    assert "another [storage] key" in caplog.text
    assert "sk-hidden" not in caplog.text
    assert "horse" not in caplog.text


async def test_a_failing_store_stops_nothing_and_loses_nothing(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    both = account("a"), account("b")
    async with working(place, *both) as worker:
        worker.store.broken = True
        tried = worker.store.exchanges
        now = time.time()
        worker.pool.observe(Transition("a", Disabled("by me"), now))
        for _ in range(5):
            worker.meter.count(
                now, Attribution("b", "me", "m", "/"), Usage(input=10, output=1), 1.0
            )
            assert worker.used() == "b"
            await asyncio.sleep(SYNC_S)
        await until(lambda: worker.store.exchanges > tried + 3)
        assert not worker.sync.working
        worker.store.broken = False
        await until(lambda: worker.sync.working)
    with closing(Failing(place)) as store:
        assert store.states()["a"].disabled == "by me"
        (count,) = store.usage(0, now + 1).values()
        assert (count.requests, count.input) == (5, 50)
    told = [
        one for one in caplog.records if one.levelno >= logging.WARNING and one.module == "sync"
    ]
    assert len(told) == 2
    assert "the disk is full" in told[0].getMessage()
    assert "can be used again" in told[1].getMessage()


async def test_what_others_had_in_flight_is_forgotten_while_nothing_is_heard_of_them(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count as lost, so that an account that they kept busy is used again."""
    monkeypatch.setattr(sync_module, "LOST_AFTER_S", 0.1)
    busy = Account(name="a", upstream="up", key=Secret("sk-1"), max_concurrent=1)
    async with working(place, busy) as one, working(place, busy) as other:
        with one.pool.lease(WANTED):
            await until(lambda: other.pool.in_flight("a") == 1)
            other.store.broken = True
            with await other.pool.acquire(WANTED) as lease:
                assert lease.account is busy
            other.store.broken = False
            await until(lambda: other.sync.working)


async def test_a_store_that_cannot_be_used_at_first_is_loaded_later(file: Path) -> None:
    keep(str(file), account("stored"))
    mend = damage(file)
    async with working(str(file), account("a")) as worker:
        assert worker.used() == "a"
        assert not worker.sync.working
        mend()
        await until(lambda: worker.sync.working)
        assert len(worker.pool.accounts()) == 2


async def test_what_cannot_be_told_at_the_end_is_said_to_be_lost(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(place, account("a")) as worker:
        worker.store.broken = True
    assert "is lost" in caplog.text


async def test_a_slow_disk_delays_nobody(file: Path) -> None:
    """The store is locked by someone else: the loop goes on."""
    async with working(str(file), account("a")) as worker:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            worker.pool.observe(Transition("a", Disabled("by me"), time.time()))
            tried = worker.store.exchanges
            await until(lambda: worker.store.exchanges > tried)
            for _ in range(50):
                await asyncio.sleep(0)
            # Only the store's own thread waits.
            assert threading.get_ident() not in worker.store.threads
            assert len(worker.store.threads) == 1
            other.execute("ROLLBACK")


async def test_many_accounts_are_taken_over_in_parts(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none is missing, whatever the parts."""
    monkeypatch.setattr(sync_module, "_AT_ONCE", 7)
    names = [f"a{number}" for number in range(50)]
    keep(place, *(account(name) for name in names))
    with closing(Failing(place)) as store:
        now = time.time()
        store.apply([Transition(name, Disabled("by me"), now) for name in names[:30]])
        store.exchange(
            "w",
            Batch(
                used={name: now - 100 + place for place, name in enumerate(names)},
                pins={name.encode(): (name, now) for name in names},
                balances=dict.fromkeys(names, 5.0),
            ),
            0,
        )
    async with working(place) as worker:
        assert sorted(one.name for one in worker.pool.accounts()) == sorted(names)
        assert [bool(worker.pool.state(name).disabled) for name in names] == [True] * 30 + [
            False
        ] * 20
        assert [worker.used() for _ in range(20)] == names[30:]
        for name in names[30:]:
            with worker.pool.lease(LeaseRequest("up", "m", name.encode())) as lease:
                assert lease.account.name == name
        await worker.sync.ask(lambda store: store.remove(names[:45]))
        await until(lambda: len(worker.pool.accounts()) == 5)


async def test_balances_of_the_configuration_are_told_and_spent(place: str) -> None:
    def rich(balance: float) -> Account:
        return Account(name="a", upstream="up", balance=balance)

    async with working(place, rich(1000)) as worker:
        with worker.pool.lease(WANTED) as lease:
            lease.succeeded(300)
    async with working(place, rich(1000)) as worker:
        assert worker.pool.balance("a") == 700
    async with working(place, rich(2000)) as worker:
        assert worker.pool.balance("a") == 2000


@pytest.mark.parametrize("tokens", [2**80, float("nan")])
async def test_what_can_never_be_kept_does_not_stop_the_rest(place: str, tokens: float) -> None:
    """An upstream may tell any number of tokens."""
    both = account("a"), account("b")
    async with working(place, *both) as worker:
        usage = Usage(input=tokens, output=1)  # type: ignore[arg-type]
        now = time.time()
        worker.meter.count(now, Attribution("a", "me", "m", "/"), usage, float(tokens))
        worker.pool.observe(Transition("a", Disabled("by me"), time.time()))
        with closing(Failing(place)) as store:
            await until(lambda: bool(store.states()))
        worker.meter.count(now, Attribution("a", "me", "n", "/"), Usage(input=3, output=1), 1.0)
    with closing(Failing(place)) as store:
        counts = store.usage(0, now + 1)
        assert [count.input for key, count in counts.items() if key.model == "n"] == [3]
        assert store.states()["a"].disabled == "by me"


def _swept(swept: list[str], name: str, _now: float) -> int:
    swept.append(name)
    return 0


async def test_one_of_all_workers_drops_what_is_too_old(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "_SWEEP_S", 0.0)
    swept: list[str] = []
    with closing(Failing(place)) as other:
        now = time.time()
        assert other.claim({"sweep": now + 600}, now)
        async with working(place) as first, working(place) as second:
            for name, worker in (("first", first), ("second", second)):
                monkeypatch.setattr(worker.store, "sweep", partial(_swept, swept, name))
            enough = 5 + max(first.store.exchanges, second.store.exchanges)
            await until(lambda: min(first.store.exchanges, second.store.exchanges) > enough)
            assert swept == []
            other.release(["sweep"])
            await until(lambda: bool(swept))

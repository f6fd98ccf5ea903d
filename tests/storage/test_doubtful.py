"""A database that is lost while it commits: what was written is told once, as is what was not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.accounts.store import Batch, CommitUnknown, StoreError, UsageCount, UsageKey
from dragoman.accounts.sync import AccountSync
from dragoman.accounts.usage import Attribution, Meter
from dragoman.canonical.usage import Usage
from dragoman.config import Account, Config, Secret, Upstream
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.postgres.database import PostgresConnection
from dragoman.storage.postgres.store import PostgresStore
from tests.accounts.syncing import until

UP = Upstream(name="up", protocol="openai_chat", base_url="http://127.0.0.1:9")
ACCOUNT = Account(name="a", upstream="up", key=Secret("sk-a"))
BATCH = Batch(usage={UsageKey(3600, "a", "me", "m", "/"): UsageCount(requests=1)})


class Losing:
    """Loses connections while `loses` is set: after the server has done a transaction, or before it
    is told to."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.loses: str | None = None
        pipeline, execute = psycopg.Connection.pipeline, PostgresConnection.execute

        @contextmanager
        def losing(link: psycopg.Connection[Any]) -> Iterator[psycopg.Pipeline]:
            with pipeline(link) as made:
                yield made
            if self.loses == "after":
                raise psycopg.OperationalError("the connection is lost")

        def sent(connection: PostgresConnection, statement: str, *values: Any) -> object:
            if statement == "COMMIT" and self.loses == "before":
                raise psycopg.OperationalError("the connection is lost")
            return execute(connection, statement, *values)

        patch.setattr(psycopg.Connection, "pipeline", losing)
        patch.setattr(PostgresConnection, "execute", sent)


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    return Losing(monkeypatch)


def requests(url: str) -> int:
    with closing(PostgresStore(url)) as store:
        return sum(count.requests for count in store.usage(0, 1e11).values())


@pytest.mark.parametrize("when", ["after", "before"])
def test_a_store_knows_whether_it_wrote(url: str, losing: Losing, when: str) -> None:
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        store.exchange("w", BATCH, 0)
        other.exchange("v", BATCH, 0)
        assert store.was_written("w")
        losing.loses = when
        with pytest.raises(CommitUnknown):
            store.exchange("w", BATCH, 1)
        losing.loses = None
        assert store.was_written("w") == (when == "after")
        store.exchange("w", BATCH, 1)
        assert store.was_written("w")
        # What fails before its end is known not to be written.
        store.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg, "connect", _refused)
            with pytest.raises(StoreError) as told:
                store.exchange("w", BATCH, 1)
        assert not isinstance(told.value, CommitUnknown)
    assert requests(url) == (4 if when == "after" else 3)


def _has_failed(sync: AccountSync, losing: Losing, before: int) -> bool:
    return not losing.loses or sync.failures > before


def _refused(*_: object, **__: object) -> None:
    raise psycopg.OperationalError("no server is there")


@pytest.mark.parametrize("when", ["after", "before"])
async def test_usage_is_counted_once(url: str, losing: Losing, when: str) -> None:
    pool, meter = AccountPool(Config(upstreams=(UP,), accounts=(ACCOUNT,))), Meter()
    store = PostgresStore(url)
    sync = AccountSync(pool, store, AesGcmCipher(None), (ACCOUNT,), sync_s=0.02, meter=meter)
    await sync.start()
    who = Attribution("a", "me", "m", "/")
    for number in range(6):
        with pool.lease(LeaseRequest("up", "m")) as lease:
            lease.succeeded()
        meter.count(time.time(), who, Usage(input=1, output=1), 1.0)
        losing.loses = when if number % 2 else None
        failed = partial(_has_failed, sync, losing, sync.failures)
        await until(failed)
        losing.loses = None
    await sync.close()
    assert requests(url) == 6

"""What workers make of client keys in the store that cannot be used."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dragoman.accounts.pool import AccountPool
from dragoman.accounts.sync import AccountSync
from dragoman.config import Config, KeyRules
from dragoman.keys.records import StoredKey, StoredSecret
from dragoman.keys.ring import KeyRing
from dragoman.keys.secrets import digest_of
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore
from tests.accounts.syncing import SYNC_S, until

pytestmark = pytest.mark.slow


def key(name: str, rules: KeyRules = KeyRules()) -> StoredKey:  # noqa: B008
    secret = StoredSecret(digest=digest_of(name.encode()), ending=name[-4:], created=1.0)
    return StoredKey(name=name, created=1.0, rules=rules, secrets=(secret,))


def knows(ring: KeyRing, name: str) -> bool:
    try:
        return ring.find(name.encode(), time.time()).name == name
    except Exception:
        return False


async def test_a_bad_rule_is_told_once_and_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, ring = SqliteStore(tmp_path / "store.db"), KeyRing()
    bad = key("a-bad-one", KeyRules(addresses=("nowhere",)))
    store.client_keys.save([bad, key("good")])
    sync = AccountSync(
        AccountPool(Config()), store, AesGcmCipher(None), (), sync_s=SYNC_S, keys=ring
    )
    await sync.start()
    assert knows(ring, "good")
    assert not knows(ring, "a-bad-one")
    await sync.ask(lambda store: store.client_keys.save([key("later")]))
    await until(lambda: knows(ring, "later"))
    await sync.close()
    assert caplog.text.count("key a-bad-one is refused") == 1


async def test_what_could_not_be_taken_over_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, pool, ring = SqliteStore(tmp_path / "store.db"), AccountPool(Config()), KeyRing()
    store.client_keys.save([key("k")])
    failures = 3
    update = ring.update

    def failing(*some: object, **more: object) -> object:
        nonlocal failures
        failures -= 1
        if failures > 0:
            raise RuntimeError("out of order")
        return update(*some, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ring, "update", failing)
    sync = AccountSync(pool, store, AesGcmCipher(None), (), sync_s=SYNC_S, keys=ring)
    await sync.start()
    await until(lambda: knows(ring, "k"))
    await sync.close()
    assert caplog.text.count("could not be applied") == 1

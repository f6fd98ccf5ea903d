"""The log of changes in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.accounts.store import SWEPT_AT_ONCE, Store
from dragoman.audit import Actor, Change
from dragoman.storage.retention import Retention
from dragoman.storage.sqlite import SqliteStore
from dragoman.storage.tables import audit
from tests.storage.conftest import Clock

ME, OTHER = Actor("me@here", "command"), Actor("ops", "admin", "10.0.0.1")


def added(name: str) -> Change:
    return Change(action="add", kind="account", name=name, after={"upstream": "u"})


def test_changes_are_told_the_last_first(store: Store) -> None:
    store.record(ME, [added("a"), added("b")])
    store.client_keys.record(
        OTHER, [Change(action="remove", kind="key", name="a", before={"note": "x"})]
    )
    store.record(ME, [])
    last, *rest = store.audit(10)
    assert (last.who, last.origin, last.address) == ("ops", "admin", "10.0.0.1")
    assert (last.action, last.kind, last.before, last.after) == (
        "remove",
        "key",
        {"note": "x"},
        None,
    )
    assert [line.name for line in rest] == ["b", "a"]
    assert [line.name for line in store.audit(1, before=last.id)] == ["b"]
    assert store.audit(10, before=rest[-1].id) == ()
    assert [line.kind for line in store.audit(10, only={"name": "a"})] == ["key", "account"]
    assert [line.name for line in store.audit(10, only={"who": "me@here", "name": "a"})] == ["a"]
    assert store.audit(10, since=last.at + 1) == ()


def test_what_is_undone_was_not_done(store: Store) -> None:
    def fail() -> None:
        with store.deciding():
            store.record(ME, [added("a")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.audit(10) == ()


def test_what_is_too_long_is_left_out(store: Store) -> None:
    store.record(ME, [Change(action="add", kind="key", name="k", after={"models": ["m" * 99_999]})])
    assert store.audit(1)[0].after == {"(too long)": True}


def test_old_changes_and_those_beyond_the_most_are_dropped(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_LINES", 5)
    store = SqliteStore(tmp_path / "store.db", retention=Retention(days=2))
    store.record(ME, [added(str(number)) for number in range(SWEPT_AT_ONCE + 20)])
    at = store.audit(1)[0].at
    assert store.sweep(at) == SWEPT_AT_ONCE
    assert store.sweep(at) == 15
    assert len(store.audit(100)) == 5
    assert store.sweep(at) == 0
    assert store.sweep(at + 2 * 86400 + 1) == 5
    # Numbers are not given again, so nobody who goes on from one misses any.
    last = SWEPT_AT_ONCE + 20
    store.record(ME, [added("after")])
    assert store.audit(1)[0].id == last + 1
    store.close()

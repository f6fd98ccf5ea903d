"""Whatever people change is written down with it, and no secret is."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import StoreError
from dragoman.audit import Actor, Line
from dragoman.config import Client, Config, Secret, Storage, Team, Upstream
from dragoman.operations.account_fields import AccountChanges
from dragoman.operations.account_lists import Row
from dragoman.operations.account_queries import AccountQueries
from dragoman.operations.account_service import AccountService
from dragoman.operations.configuration_log import record_reload, record_start
from dragoman.operations.errors import BadRow, Conflict, ImportRejected
from dragoman.operations.key_service import KeyService
from dragoman.storage.opening import cipher_for
from dragoman.storage.sqlite import SqliteStore

ME = Actor("me@here", "command")
SECRETS = ("sk-first-secret-key", "sk-second-secret-key", "http://me:pass@proxy:1", "header-secret")
CONFIG = Config(
    upstreams=(Upstream(name="u", protocol="openai_chat", base_url="http://127.0.0.1:1"),),
    storage=Storage(key=Secret("a key of the store")),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.db")
    yield store
    text = (tmp_path / "store.db").read_bytes()
    assert not any(secret.encode() in text for secret in SECRETS)
    store.close()


@pytest.fixture
def accounts(store: SqliteStore) -> AccountService:
    return AccountService(AccountQueries(CONFIG, store, cipher_for(CONFIG)), ME)


@pytest.fixture
def keys(store: SqliteStore) -> KeyService:
    return KeyService(CONFIG, store.client_keys, ME)


def told(store: SqliteStore) -> list[tuple[Any, ...]]:
    """All changes, the first first."""
    lines = reversed(store.audit(1000))
    return [(line.action, line.kind, line.name, line.before, line.after) for line in lines]


def draft(name: str, **fields: Any) -> Any:
    return AccountChanges(name=name, **fields)


def test_accounts(store: SqliteStore, accounts: AccountService) -> None:
    accounts.add(draft("a", upstream="u", key=Secret(SECRETS[0]), proxy=Secret(SECRETS[2])))
    accounts.change(draft("a", priority=3, key=Secret(SECRETS[1])))
    accounts.change(draft("a", headers={"x": Secret(SECRETS[3])}))
    accounts.disable(["a"], "a  reason")
    accounts.enable(["a"])
    accounts.remove(["a"])
    assert told(store) == [
        ("add", "account", "a", None, {"upstream": "u", "key": "(set)", "proxy": "(set)"}),
        ("change", "account", "a", {"key": "(set)"}, {"priority": 3, "key": "(changed)"}),
        ("change", "account", "a", {}, {"headers": "(changed)"}),
        ("disable", "account", "a", {"state": "active"},
            {"state": "disabled", "why": "a reason"}),
        ("enable", "account", "a", {"state": "disabled"}, {"state": "active"}),
        ("remove", "account", "a", {"upstream": "u", "priority": 3}, None),
    ]  # fmt: skip
    assert {(line.who, line.origin) for line in store.audit(100)} == {("me@here", "command")}


def test_lists_of_accounts(store: SqliteStore, accounts: AccountService) -> None:
    one, two = (Row(n, draft(f"a{n}", upstream="u", key=Secret(SECRETS[n]))) for n in (0, 1))
    accounts.import_rows([one])
    accounts.import_rows([replace(one, changes=draft("a0", weight=2.0)), two], replace=True)
    with pytest.raises(ImportRejected):
        accounts.import_rows([Row(9, draft("a9", upstream="u")), BadRow(2, "b", ())])
    assert [line[:3] for line in told(store)] == [
        ("add", "account", "a0"),
        ("change", "account", "a0"),
        ("add", "account", "a1"),
    ]
    assert told(store)[1][3:] == ({}, {"weight": 2.0})


def test_keys_and_teams(store: SqliteStore, keys: KeyService) -> None:
    keys.teams.add("t", {"models": ["m"]})
    secret = keys.add("k", {"team": "t", "note": "n"}).secret
    other = keys.rotate("k", 60.0).secret
    keys.change("k", {"note": None, "enabled": False})
    keys.change("k", {"enabled": False})  # as it is
    keys.teams.change("t", {"models": ["m", "n"]})
    keys.teams.change("t", {})
    keys.remove(["k"])
    keys.teams.remove("t")
    lines = told(store)
    rotated = lines.pop(2)
    assert rotated[:4] == ("rotate", "key", "k", None)
    assert list(rotated[4]) == ["old_ends"]
    assert lines == [
        ("add", "team", "t", None, {"models": ["m"]}),
        ("add", "key", "k", None, {"team": "t", "note": "n"}),
        ("change", "key", "k", {"note": "n"}, {"enabled": False}),
        ("change", "team", "t", {"models": ["m"]}, {"models": ["m", "n"]}),
        ("remove", "key", "k", {"team": "t", "enabled": False}, None),
        ("remove", "team", "t", {"models": ["m", "n"]}, None),
    ]
    kept = json.dumps([lines, rotated])
    assert secret not in kept
    assert other[-4:] not in kept


def test_what_was_refused_is_not_written_down(
    store: SqliteStore, keys: KeyService, accounts: AccountService
) -> None:
    keys.add("k", {})
    with pytest.raises(Conflict):
        keys.add("k", {})
    accounts.add(draft("a", upstream="u"))
    with pytest.raises(Conflict):
        accounts.add(draft("a", upstream="u"))
    assert len(told(store)) == 2


def test_a_change_that_cannot_be_written_down_is_not_made(tmp_path: Path, keys: KeyService) -> None:
    keys.add("k", {})
    with closing(sqlite3.connect(tmp_path / "store.db")) as other, other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises((StoreError, sqlite3.Error)):
        keys.change("k", {"enabled": False})
    assert keys.key("k").rules.enabled


def test_a_start_with_another_configuration(tmp_path: Path) -> None:
    config = replace(CONFIG, storage=Storage(path=str(tmp_path / "kept.db")))
    other = replace(config, clients=(Client(name="c", key=Secret(SECRETS[0])),))
    for one in (config, config, other):
        record_start(one)
    record_start(replace(CONFIG, storage=Storage(path="")))
    record_reload(config, Team(name="stands-in"))
    store = SqliteStore(tmp_path / "kept.db")
    reload, second, first = store.audit(10)
    store.close()
    assert (first.action, first.origin, first.before) == ("start", "gateway", None)
    assert re.fullmatch(r"[^@]+@.+", first.who)
    assert second.before == first.after != second.after
    assert (reload.action, reload.before) == ("reload", second.after)
    assert reload.after is not None
    assert reload.after["name"] == "stands-in"
    assert isinstance(reload, Line)

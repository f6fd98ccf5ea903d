"""Two people who change keys and teams at the same time: what one decides on is what there is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Config
from dragoman.keys.records import StoredKey, StoredTeam
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.key_service import KeyService
from dragoman.storage.sqlite import SqliteStore
from dragoman.storage.tables.keys import KeyTables

ENOUGH_S = 0.3
"""What a change takes that waits for nobody."""


class Interrupted:
    """A store of keys; somebody else acts once `after`, keys or teams, were read."""

    def __init__(self, store: KeyTables, act: Callable[[], object], after: str) -> None:
        self._store = store
        self._after = after
        self.thread = threading.Thread(target=self._act, args=(act,))
        self.refused: Exception | None = None
        self.deciding = store.deciding
        self.add = store.add
        self.save = store.save
        self.record = store.record
        self.audit = store.audit
        self.used = store.used
        self.users = store.users
        self.key_teams = store.key_teams
        self.limit_resets = store.limit_resets
        self.reset_limits = store.reset_limits

    def _act(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (Conflict, Unknown, ValueError) as error:
            self.refused = error

    def all_keys(self) -> list[StoredKey]:
        found = list(self._store.all_keys())
        self._interrupt("keys")
        return found

    def key(self, name: str) -> StoredKey | None:
        found = self._store.key(name)
        self._interrupt("keys")
        return found

    def all_teams(self) -> list[StoredTeam]:
        found = list(self._store.all_teams())
        self._interrupt("teams")
        return found

    def _interrupt(self, read: str) -> None:
        if read == self._after and self.thread.ident is None:
            self.thread.start()
            self.thread.join(ENOUGH_S)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    one, two = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    keys = KeyService(Config(), one.client_keys)
    keys.teams.add("t", {})
    keys.add("k", {})
    yield one, two
    one.close()
    two.close()


def at_once(
    stores: tuple[SqliteStore, SqliteStore],
    mine: Callable[[KeyService], object],
    other: Callable[[KeyService], object],
    after: str = "teams",
) -> tuple[Exception | None, Exception | None]:
    """What each of both was refused with."""
    others = KeyService(Config(), stores[1].client_keys)
    store = Interrupted(stores[0].client_keys, lambda: other(others), after)
    refused: Exception | None = None
    try:
        mine(KeyService(Config(), store))
    except (Conflict, Unknown) as error:
        refused = error
    store.thread.join()
    return refused, store.refused


def rules(stores: tuple[SqliteStore, SqliteStore]) -> Any:
    return KeyService(Config(), stores[0].client_keys).key("k").rules


def teams(stores: tuple[SqliteStore, SqliteStore]) -> list[str]:
    return [view.name for view in KeyService(Config(), stores[0].client_keys).teams.teams()]


def test_a_rule_survives_the_change_of_another(stores: tuple[SqliteStore, SqliteStore]) -> None:
    at_once(
        stores,
        lambda keys: keys.change("k", {"note": "mine"}),
        lambda keys: keys.change("k", {"enabled": False}),
        after="keys",
    )
    assert (rules(stores).note, rules(stores).enabled) == ("mine", False)


def test_a_rule_survives_a_rotation(stores: tuple[SqliteStore, SqliteStore]) -> None:
    at_once(
        stores,
        lambda keys: keys.rotate("k"),
        lambda keys: keys.change("k", {"note": "x"}),
        after="keys",
    )
    assert rules(stores).note == "x"


def test_a_rule_of_a_team_survives_the_change_of_another(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    at_once(
        stores,
        lambda keys: keys.teams.change("t", {"note": "mine"}),
        lambda keys: keys.teams.change("t", {"enabled": False}),
    )
    found = KeyService(Config(), stores[0].client_keys).teams.team("t").rules
    assert (found.note, found.enabled) == ("mine", False)


def test_a_removed_team_does_not_return_by_a_late_change(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    at_once(
        stores,
        lambda keys: keys.teams.change("t", {"note": "late"}),
        lambda keys: keys.teams.remove("t"),
    )
    assert teams(stores) == []


def test_a_team_is_made_once(stores: tuple[SqliteStore, SqliteStore]) -> None:
    refused = at_once(
        stores,
        lambda keys: keys.teams.add("new", {"note": "mine"}),
        lambda keys: keys.teams.add("new", {"note": "other"}),
    )
    assert len([one for one in refused if isinstance(one, Conflict)]) == 1


@pytest.mark.parametrize("joins", ["add", "change"])
def test_a_team_is_not_removed_while_it_gets_a_key(
    stores: tuple[SqliteStore, SqliteStore], joins: str
) -> None:
    def join(keys: KeyService) -> object:
        if joins == "add":
            return keys.add("second", {"team": "t"})
        return keys.change("k", {"team": "t"})

    refused = at_once(stores, lambda keys: keys.teams.remove("t"), join)
    assert teams(stores) == []
    assert refused[0] is None
    assert refused[1] is not None, "a key of a team that is not there"


def test_what_cannot_be_shown_is_not_saved(stores: tuple[SqliteStore, SqliteStore]) -> None:
    keys = KeyService(Config(), stores[0].client_keys)
    before = keys.key("k")
    with pytest.raises((OverflowError, ValueError)):
        keys.rotate("k", 1e15)
    assert keys.key("k") == before

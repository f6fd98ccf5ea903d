"""Teams: those of the store are changed here, those of the configuration file only shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change
from dragoman.config import AccessRules, Config
from dragoman.keys.records import KeyStore, StoredTeam
from dragoman.limits.rules import with_resets
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.key_fields import (
    Origin,
    State,
    check_name,
    found_in,
    rules_changed,
    set_rules,
    state_of,
    with_fields,
)
from dragoman.operations.terminal import this_user


class TeamView(Struct, frozen=True, kw_only=True):
    """A team as it is shown, with how many keys it has."""

    name: str
    origin: Origin
    state: State
    keys: int
    rules: AccessRules


class TeamService:
    """The teams of one configuration and one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self,
        config: Config,
        store: KeyStore,
        actor: Actor | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._actor = actor or this_user()
        self._config = config
        self._store = store
        self._clock = clock
        self._fixed = {team.name: team for team in config.teams}

    def teams(self, text: str = "") -> list[TeamView]:
        """The teams that have a text in their names, by name."""
        sizes: dict[str, int] = {}
        fixed = [client.rules.team for client in self._config.clients]
        for team in (*fixed, *self._store.key_teams().values()):
            if team is not None:
                sizes[team] = sizes.get(team, 0) + 1
        rules: dict[str, AccessRules] = {one.name: one.rules for one in self._stored()}
        resets = self._store.limit_resets()
        for name, written in self._fixed.items():
            limits = with_resets(written.limits, name, resets, is_team=True)
            rules[name] = replace(written, limits=limits)
        now = self._clock()
        return [
            TeamView(
                name=name,
                origin="configuration" if name in self._fixed else "store",
                state=state_of(rules[name], now),
                keys=sizes.get(name, 0),
                rules=rules[name],
            )
            for name in sorted(rules)
            if found_in(text, name)
        ]

    def team(self, name: str) -> TeamView:
        """One team.

        Raises:
            Unknown: there is none of this name.
        """
        teams = self.teams()
        for view in teams:
            if view.name == name:
                return view
        raise Unknown("team", name, [view.name for view in teams])

    def names(self) -> set[str]:
        """The names of all teams."""
        return {*self._fixed, *(team.name for team in self._stored())}

    def add(self, name: str, fields: Mapping[str, Any]) -> TeamView:
        """Make a team with these rules.

        Raises:
            Conflict: the name is taken.
            InvalidInput: a field is wrong.
        """
        check_name(name)
        with self._store.deciding():
            if name in self.names():
                raise Conflict(f"{name} is taken", "name")
            rules = with_fields(AccessRules(), fields, self._config)
            self._store.save(teams=[StoredTeam(name=name, created=self._clock(), rules=rules)])
            self._record(Change(action="add", kind="team", name=name, after=set_rules(rules)))
            return self.team(name)

    def change(
        self,
        name: str,
        fields: Mapping[str, Any] | Callable[[AccessRules], Mapping[str, Any]],
        check: Callable[[TeamView], object] | None = None,
    ) -> TeamView:
        """Change the rules that `fields` names; None stands for the default. A function is called
        with the rules as they are, and `check` with the team, in the same transaction; what that
        raises prevents the change. What changes nothing is not recorded.

        Raises:
            Unknown: there is no team of this name.
            Conflict: it is one of the configuration file.
            InvalidInput: a field is wrong.
        """
        with self._store.deciding():
            team = self._find(name)
            if check is not None:
                check(self.team(name))
            values = fields(team.rules) if callable(fields) else fields
            rules = with_fields(team.rules, values, self._config)
            if rules != team.rules:
                self._store.save(teams=[replace(team, rules=rules)])
                self._record(rules_changed("team", name, team.rules, rules))
            return self.team(name)

    def remove(self, name: str) -> int:
        """Remove a team that has no keys. Returns 1.

        Raises:
            Unknown: there is no team of this name.
            Conflict: it has keys, or is one of the configuration file.
        """
        with self._store.deciding():
            team = self._find(name)
            if keys := self.team(name).keys:
                raise Conflict(f"{name} still has keys: {keys}", "name")
            self._store.save(teams=[replace(team, removed=self._clock())])
            before = set_rules(team.rules)
            self._record(Change(action="remove", kind="team", name=name, before=before))
            return 1

    def _stored(self) -> list[StoredTeam]:
        return [team for team in self._store.all_teams() if team.removed is None]

    def _find(self, name: str) -> StoredTeam:
        if name in self._fixed:
            raise Conflict(f"{name} is a team of the configuration file: change it there", "name")
        for team in self._stored():
            if team.name == name:
                return team
        raise Unknown("team", name, sorted(self.names()))

    def _record(self, change: Change) -> None:
        self._store.record(self._actor, [change])

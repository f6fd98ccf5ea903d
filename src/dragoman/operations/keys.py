"""What an operator can do with client keys and teams: those of the store, whether a gateway runs or
not. Those of the configuration file are shown, and changed there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change, changed
from dragoman.config import AccessRules, Client, Config, KeyRules, access_faults
from dragoman.config.access_rules import ANYONE, Name
from dragoman.config.convert import dotted, suggestion
from dragoman.keys.records import KEPT_SECRETS, KeyStore, StoredKey, StoredSecret, StoredTeam
from dragoman.keys.secrets import RANDOM_BYTES, digest_of, ending_of, make_key
from dragoman.operations.drafts import FieldError, InvalidDraft, converted, shortened
from dragoman.operations.errors import Conflict, ImportRejected
from dragoman.operations.foreign_keys import ForeignKey, fitting_name
from dragoman.operations.people import this_user
from dragoman.operations.rows import BadRow

GRACE_S = 24 * 3600.0
"""Seconds for which the old secret of a key that is rotated goes on."""

_R = TypeVar("_R", bound=AccessRules)

Fields = Mapping[str, Any] | Callable[[_R], Mapping[str, Any]]
"""Fields of rules by name, or what tells them by the rules as they are."""

State = Literal["active", "disabled", "early", "expired"]


class SecretView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is shown of one secret: its last four signs. `revoked` is from when on it is refused."""

    ending: str
    created: datetime
    revoked: datetime | None = None
    uses: int = 0
    used: datetime | None = None


class KeyView(Struct, frozen=True, kw_only=True):
    """A key as it is shown. `state` leaves out the state of its team."""

    name: str
    origin: Literal["configuration", "store"]
    state: State
    created: datetime | None
    used: datetime | None
    rules: KeyRules
    secrets: tuple[SecretView, ...] = ()


class MadeKey(Struct, frozen=True, kw_only=True):
    """A key with its new secret, which is shown this once."""

    name: str
    secret: str
    key: KeyView


class ImportedKeys(Struct, frozen=True, kw_only=True):
    """What became of a list of keys: rows read, and the names that keys got. `made` are those whose
    secret nobody knew, with the new one; `left_out` is what else was said of a key and is not taken
    over, by its name."""

    rows: int
    added: tuple[str, ...]
    made: tuple[NewSecret, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = {}


class _Draft(Struct, frozen=True):
    """A key that is to be imported from `row`, with its first secret: `made` is the text of that
    where it is new, else empty."""

    row: ForeignKey
    rules: KeyRules
    secret: StoredSecret
    made: str
    left_out: tuple[str, ...]


class NewSecret(Struct, frozen=True, kw_only=True):
    """The secret of a key, which is shown this once."""

    name: str
    secret: str


class TeamView(Struct, frozen=True, kw_only=True):
    """A team as it is shown, with how many keys it has."""

    name: str
    origin: Literal["configuration", "store"]
    state: State
    keys: int
    rules: AccessRules


class Unknown(LookupError):
    """There is no key, or no team, of this name."""

    def __init__(self, what: str, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no {what} named {shortened(name)}{suggestion(name[:64], known)}")


class KeyAdministration:
    """What can be done with the keys and teams of one configuration and one store.

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
        self._clients = {client.name: client for client in config.clients}
        self._fixed_teams = {team.name: team for team in config.teams}

    # Keys

    def keys(self) -> tuple[KeyView, ...]:
        """All keys, by name."""
        views = [self._client_view(client) for client in self._clients.values()]
        views += [self._view(key) for key in self._stored() if key.name not in self._clients]
        return tuple(sorted(views, key=lambda view: view.name))

    def page(self, after: str, most: int, text: str = "") -> tuple[list[KeyView], str | None, int]:
        """At most so many keys by name, of those after a name that have a text in theirs, or in
        that of their team; after which name there are more, None if there are not; and how many
        keys have the text."""
        teams = {**self._store.key_teams()}
        teams |= {name: client.rules.team for name, client in self._clients.items()}
        names = sorted(name for name, team in teams.items() if found_in(text, name, team))
        left = [name for name in names if name > after]
        views = []
        for name in left[:most]:
            key = None if name in self._clients else self._store.key(name)
            if name in self._clients:
                views.append(self._client_view(self._clients[name]))
            elif key is not None and key.removed is None:
                views.append(self._view(key))
        return views, left[most - 1] if len(left) > most else None, len(names)

    def key(self, name: str) -> KeyView:
        """One key.

        Raises:
            Unknown: there is none of this name.
        """
        if name in self._clients:
            return self._client_view(self._clients[name])
        return self._view(self._find(name))

    def add(self, name: str, fields: Mapping[str, Any]) -> MadeKey:
        """Make a key with these rules.

        Raises:
            Conflict: the name is taken, or was a key's that was removed, or is reserved.
            InvalidDraft: a field is wrong.
        """
        _check_name(name)
        if name == ANYONE:
            raise Conflict(f"{name} stands for all who call without a key", "name")
        if name in self._clients:
            raise Conflict(f"{name} is a client of the configuration file", "name")
        with self._store.deciding():
            rules = self._checked_key(_changed(KeyRules(), fields))
            now = self._clock()
            secret, kept = _fresh(now)
            key = StoredKey(name=name, created=now, rules=rules, secrets=(kept,))
            if not self._store.add(key):
                raise Conflict(f"{name} is, or was, the name of a key, and stays its own", "name")
            self._note(Change(action="add", kind="key", name=name, after=_fields(rules)))
            return MadeKey(name=name, secret=secret, key=self._view(key))

    def import_keys(
        self,
        rows: Sequence[ForeignKey | BadRow],
        *,
        team: str | None = None,
        limits: bool = True,
        dry_run: bool = False,
    ) -> ImportedKeys:
        """Add the keys of another gateway, all or none. Those whose secret is not known get a new
        one. All are of `team`; without one, those are of a team whose own has the name of one here.
        Without `limits`, theirs are left out. With `dry_run` nothing is changed.

        Raises:
            ImportRejected: with every row that cannot be used.
        """
        drafts, bad = self._drafted(rows, limits=limits)
        with self._store.deciding():
            there = dict.fromkeys(self._clients, "is a client of the configuration file")
            taken = set[bytes]()
            for key in self._store.all_keys():
                there[key.name] = "is, or was, the name of a key"
                if key.removed is None:
                    taken.update(one.digest for one in key.secrets)
            taken |= {
                digest_of(secret.reveal().encode())
                for client in self._clients.values()
                for secret in client.secrets
            }
            teams = self._team_names()
            keys: list[StoredKey] = []
            left_out: dict[str, tuple[str, ...]] = {}
            for name, draft in drafts.items():
                row, rules, missed = draft.row, draft.rules, draft.left_out
                try:
                    if name in there:
                        raise InvalidDraft((FieldError("name", there[name]),))
                    _check_free(draft.secret.digest, taken)
                    if team is not None:
                        rules = replace(rules, team=_known_team(team, teams))
                    elif row.team in teams:
                        rules = replace(rules, team=row.team)
                    elif row.team:
                        missed = (*missed, "team")
                except InvalidDraft as error:
                    bad.append(BadRow(row.at, name, error.faults))
                    continue
                created = draft.secret.created
                keys.append(
                    StoredKey(name=name, created=created, rules=rules, secrets=(draft.secret,))
                )
                if missed:
                    left_out[name] = missed
            if bad:
                raise ImportRejected(tuple(sorted(bad, key=lambda one: one.at)), len(rows))
            if not dry_run:
                self._store.save(keys)
                self._note(
                    *(
                        Change(action="import", kind="key", name=key.name, after=_fields(key.rules))
                        for key in keys
                    )
                )
        made = [
            NewSecret(name=name, secret=draft.made) for name, draft in drafts.items() if draft.made
        ]
        return ImportedKeys(
            rows=len(rows),
            added=tuple(drafts),
            made=() if dry_run else tuple(made),
            left_out=left_out,
        )

    def _drafted(
        self, rows: Sequence[ForeignKey | BadRow], *, limits: bool
    ) -> tuple[dict[str, _Draft], list[BadRow]]:
        """The keys that rows of a list make, by the names that they get, as far as that can be told
        without the store, for which others wait while it decides; and the rows that make none."""
        drafts: dict[str, _Draft] = {}
        bad: list[BadRow] = []
        digests: set[bytes] = set()
        now = self._clock()
        for row in rows:
            if isinstance(row, BadRow):
                bad.append(row)
                continue
            name = fitting_name(row, drafts)
            fields, left_out = dict(row.fields), row.left_out
            if not limits and fields.pop("limits", None):
                left_out = (*left_out, "limits")
            if name != row.name:
                fields["note"] = row.name
            try:
                if name in drafts:
                    raise InvalidDraft((FieldError("name", "is there twice"),))
                _check_name(name)
                if name == ANYONE:
                    raise InvalidDraft((FieldError("name", "stands for all without a key"),))
                _check_free(row.digest, digests)
                rules = self._checked(_changed(KeyRules(), fields))
            except InvalidDraft as error:
                bad.append(BadRow(row.at, name, error.faults))
                continue
            made = ""
            if row.digest is None:
                made, kept = _fresh(now)
            else:
                kept = StoredSecret(digest=row.digest, ending=row.ending, created=now)
                digests.add(row.digest)
            drafts[name] = _Draft(row, rules, kept, made, left_out)
        return drafts, bad

    def change(
        self,
        name: str,
        fields: Fields[KeyRules],
        check: Callable[[KeyView], object] | None = None,
    ) -> KeyView:
        """Change the rules that `fields` names; None stands for the default. A function is called
        with the rules as they are, and nobody changes these meanwhile; nor since `check` was called
        with the key, which what that raises leaves alone. What changes nothing is not written down.

        Raises:
            Unknown: there is no key of this name.
            Conflict: it is one of the configuration file.
            InvalidDraft: a field is wrong.
        """
        with self._store.deciding():
            return self._change(name, fields, check)

    def enable(self, names: Sequence[str], *, enabled: bool = True) -> tuple[KeyView, ...]:
        """Accept keys again, or refuse them: all or none.

        Raises:
            Unknown: there is none of one of these names.
            Conflict: one is of the configuration file.
        """
        with self._store.deciding():
            return tuple(
                [self._change(name, {"enabled": enabled}) for name in dict.fromkeys(names)]
            )

    def rotate(self, name: str, grace_s: float = GRACE_S) -> MadeKey:
        """Make another secret for a key. Those it has are refused `grace_s` seconds from now, or
        sooner if that was said before. All that is counted stays the key's.

        Raises:
            Unknown: there is no key of this name.
            Conflict: it is one of the configuration file.
        """
        with self._store.deciding():
            key, now = self._find(name), self._clock()
            end = now + max(0.0, grace_s)
            old = [
                replace(one, revoked=end if one.revoked is None else min(one.revoked, end))
                for one in key.secrets
            ]
            secret, kept = _fresh(now)
            rotated = replace(key, secrets=(*old[-KEPT_SECRETS + 1 :], kept))
            self._store.save([rotated])
            told = {"old_ends": _moment(end).isoformat()}
            self._note(Change(action="rotate", kind="key", name=name, after=told))
            return MadeKey(name=name, secret=secret, key=self._view(rotated))

    def remove(self, names: Sequence[str]) -> int:
        """Remove keys: all or none. Their names are given to no others, since usage and stored
        responses belong to them. Returns how many.

        Raises:
            Unknown: there is none of one of these names.
            Conflict: one is of the configuration file.
        """
        with self._store.deciding():
            now = self._clock()
            gone = [
                replace(self._find(name), secrets=(), removed=now) for name in dict.fromkeys(names)
            ]
            self._store.save(gone)
            self._note(
                *(
                    Change(action="remove", kind="key", name=key.name, before=_fields(key.rules))
                    for key in gone
                )
            )
            return len(gone)

    # Teams

    def teams(self) -> tuple[TeamView, ...]:
        """All teams, by name."""
        counts: dict[str, int] = {}
        fixed = [client.rules.team for client in self._clients.values()]
        for team in (*fixed, *self._store.key_teams().values()):
            if team is not None:
                counts[team] = counts.get(team, 0) + 1
        found = {team.name: team.rules for team in self._stored_teams()}
        now = self._clock()
        views = [
            TeamView(
                name=name,
                origin="configuration" if name in self._fixed_teams else "store",
                state=_state(rules, now),
                keys=counts.get(name, 0),
                rules=rules,
            )
            for name, rules in (found | self._fixed_teams).items()
        ]
        return tuple(sorted(views, key=lambda view: view.name))

    def team(self, name: str) -> TeamView:
        """One team.

        Raises:
            Unknown: there is none of this name.
        """
        for view in self.teams():
            if view.name == name:
                return view
        raise Unknown("team", name, [view.name for view in self.teams()])

    def add_team(self, name: str, fields: Mapping[str, Any]) -> TeamView:
        """Make a team with these rules.

        Raises:
            Conflict: the name is taken.
            InvalidDraft: a field is wrong.
        """
        _check_name(name)
        with self._store.deciding():
            if name in {view.name for view in self.teams()}:
                raise Conflict(f"{name} is taken", "name")
            rules = self._checked(_changed(AccessRules(), fields))
            self._store.save(teams=[StoredTeam(name=name, created=self._clock(), rules=rules)])
            self._note(Change(action="add", kind="team", name=name, after=_fields(rules)))
            return self.team(name)

    def change_team(
        self,
        name: str,
        fields: Fields[AccessRules],
        check: Callable[[TeamView], object] | None = None,
    ) -> TeamView:
        """As `change`, for a team.

        Raises:
            Unknown: there is no team of this name.
            Conflict: it is one of the configuration file.
            InvalidDraft: a field is wrong.
        """
        with self._store.deciding():
            team = self._find_team(name)
            if check is not None:
                check(self.team(name))
            given = fields(team.rules) if callable(fields) else fields
            rules = self._checked(_changed(team.rules, given))
            if rules != team.rules:
                self._store.save(teams=[replace(team, rules=rules)])
                self._note(_rules_changed("team", name, team.rules, rules))
            return self.team(name)

    def remove_team(self, name: str) -> int:
        """Remove a team that has no keys.

        Raises:
            Unknown: there is no team of this name.
            Conflict: it has keys, or is one of the configuration file.
        """
        with self._store.deciding():
            team = self._find_team(name)
            if keys := self.team(name).keys:
                raise Conflict(f"{name} still has keys: {keys}", "name")
            self._store.save(teams=[replace(team, removed=self._clock())])
            told = _fields(team.rules)
            self._note(Change(action="remove", kind="team", name=name, before=told))
            return 1

    # Within

    def _change(
        self,
        name: str,
        fields: Fields[KeyRules],
        check: Callable[[KeyView], object] | None = None,
    ) -> KeyView:
        key = self._find(name)
        if check is not None:
            check(self._view(key))
        given = fields(key.rules) if callable(fields) else fields
        other = replace(key, rules=self._checked_key(_changed(key.rules, given)))
        if other != key:
            self._store.save([other])
            self._note(_rules_changed("key", name, key.rules, other.rules))
        return self._view(other)

    def _note(self, *changes: Change) -> None:
        self._store.note(self._actor, changes)

    def _stored(self) -> list[StoredKey]:
        return [key for key in self._store.all_keys() if key.removed is None]

    def _stored_teams(self) -> list[StoredTeam]:
        return [team for team in self._store.all_teams() if team.removed is None]

    def _find(self, name: str) -> StoredKey:
        if name in self._clients:
            raise Conflict(f"{name} is a client of the configuration file: change it there", "name")
        key = self._store.key(name)
        if key is None or key.removed is not None:
            raise Unknown("key", name, [*self._clients, *(one.name for one in self._stored())])
        return key

    def _find_team(self, name: str) -> StoredTeam:
        if name in self._fixed_teams:
            raise Conflict(f"{name} is a team of the configuration file: change it there", "name")
        stored = self._stored_teams()
        for team in stored:
            if team.name == name:
                return team
        raise Unknown("team", name, [*self._fixed_teams, *(team.name for team in stored)])

    def _checked(self, rules: _R) -> _R:
        known = [upstream.name for upstream in self._config.upstreams]
        faults = tuple(FieldError(dotted(path), told) for path, told in access_faults(rules, known))
        if faults:
            raise InvalidDraft(faults)
        return rules

    def _checked_key(self, rules: KeyRules) -> KeyRules:
        if rules.team is not None:
            _known_team(rules.team, self._team_names())
        return self._checked(rules)

    def _team_names(self) -> set[str]:
        return {*self._fixed_teams, *(team.name for team in self._stored_teams())}

    def _client_view(self, client: Client) -> KeyView:
        return KeyView(
            name=client.name,
            origin="configuration",
            state=_state(client, self._clock()),
            created=None,
            used=None,
            rules=client.rules,
        )

    def _view(self, key: StoredKey) -> KeyView:
        used = max((one.used for one in key.secrets if one.used is not None), default=None)
        return KeyView(
            name=key.name,
            origin="store",
            state=_state(key.rules, self._clock()),
            created=_moment(key.created),
            used=_moment_if(used),
            rules=key.rules,
            secrets=tuple(
                SecretView(
                    ending=one.ending,
                    created=_moment(one.created),
                    revoked=_moment_if(one.revoked),
                    uses=one.uses,
                    used=_moment_if(one.used),
                )
                for one in key.secrets
            ),
        )


def found_in(text: str, *names: str | None) -> bool:
    """Whether a text is in one of these names, in small letters or large."""
    return any(text.casefold() in (name or "").casefold() for name in names)


def _fields(rules: AccessRules) -> dict[str, Any]:
    """The rules that are set, as JSON has them."""
    fields: dict[str, Any] = msgspec.to_builtins(rules)
    usual: dict[str, Any] = msgspec.to_builtins(type(rules)())
    return {name: value for name, value in fields.items() if value != usual.get(name)}


def _rules_changed(
    kind: Literal["key", "team"], name: str, before: AccessRules, after: AccessRules
) -> Change:
    return changed("change", kind, name, _fields(before), _fields(after))


def _fresh(now: float) -> tuple[str, StoredSecret]:
    secret = make_key(secrets.token_bytes(RANDOM_BYTES))
    digest = digest_of(secret.encode())
    return secret, StoredSecret(digest=digest, ending=ending_of(secret), created=now)


def _known_team(name: str, teams: Collection[str]) -> str:
    """The name of a team, which must be one of `teams`."""
    if name not in teams:
        near = suggestion(name[:64], sorted(teams))
        raise InvalidDraft((FieldError("team", f"no team named {shortened(name)}{near}"),))
    return name


def _check_free(digest: bytes | None, taken: Collection[bytes]) -> None:
    """Make sure that a secret is not somebody else's."""
    if digest in taken:
        raise InvalidDraft((FieldError("key", "is another's key already"),))


@cache
def _fields_of(rules: type[AccessRules]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {info.name: info for info in msgspec.structs.fields(rules)}


def _changed(rules: _R, fields: Mapping[str, Any]) -> _R:
    """`rules` with other values of `fields`, each checked by itself so that all faults are told."""
    known = _fields_of(type(rules))
    faults: list[FieldError] = []
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in known:
            told = f"there is no such field{suggestion(name[:64], known)}"
            faults.append(FieldError(shortened(name), told))
        elif value is None:
            values[name] = known[name].default
        else:
            try:
                values[name] = converted(value, known[name].type, name)
            except InvalidDraft as error:
                faults += error.faults
    if faults:
        raise InvalidDraft(tuple(faults))
    return replace(rules, **values)


def _check_name(name: str) -> None:
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        told = "expected at most 64 letters, digits, _ . and -"
        raise InvalidDraft((FieldError("name", told),)) from None


def _state(rules: AccessRules, now: float) -> State:
    if not rules.enabled:
        return "disabled"
    if rules.not_before is not None and now < rules.not_before.timestamp():
        return "early"
    if rules.expires is not None and now >= rules.expires.timestamp():
        return "expired"
    return "active"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _moment_if(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)

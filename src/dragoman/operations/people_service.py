"""The people who sign in, and their sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change, changed
from dragoman.config.access_rules import SignInRule
from dragoman.keys.people import Identity, PeopleStore, StoredPerson, StoredSession, rule_for
from dragoman.operations.errors import Unknown
from dragoman.operations.key_fields import moment, moment_if

State = Literal["active", "disabled", "refused"]


class PersonView(Struct, frozen=True, kw_only=True):
    """A person who has signed in. `state` is `refused` where no rule lets the person in any more;
    `rule` is the number of the one that does, from 1."""

    name: str
    state: State
    team: str | None
    rule: int | None
    groups: tuple[str, ...]
    sessions: int
    created: datetime
    seen: datetime
    used: datetime | None


class SessionView(Struct, frozen=True, kw_only=True):
    """A session of a person with one program. `confirmed` is when the provider has last said that
    the person may sign in."""

    id: str
    person: str
    client: str
    began: datetime
    renewed: datetime
    confirmed: datetime
    used: datetime | None


class PeopleService:
    """The people in one store, and the rules of a configuration.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self,
        store: PeopleStore,
        rules: Sequence[SignInRule],
        actor: Actor,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._rules = rules
        self._actor = actor
        self._clock = clock

    def people(self) -> tuple[PersonView, ...]:
        """All people, by name."""
        sessions: dict[str, list[StoredSession]] = {}
        for session in self._store.sessions():
            sessions.setdefault(session.person, []).append(session)
        return tuple(
            self._view(one, sessions.get(one.id, []))
            for one in self._store.people()
            if not one.is_removed
        )

    def sessions(self, name: str | None = None) -> tuple[SessionView, ...]:
        """The sessions of one person or of all, the oldest first.

        Raises:
            Unknown: there is nobody of this name.
        """
        names = {person.id: person.name for person in self._store.people()}
        only = None if name is None else self._find(name).id
        return tuple(
            SessionView(
                id=one.id,
                person=names.get(one.person, ""),
                client=one.client,
                began=moment(one.signed_in),
                renewed=moment(one.rotated),
                confirmed=moment(one.renewed),
                used=moment_if(one.used),
            )
            for one in self._store.sessions(only)
        )

    def revoke(self, name: str, session: str | None = None) -> int:
        """End all sessions of a person, or one of them. Returns how many there were.

        Raises:
            Unknown: there is nobody of this name, or no such session.
        """
        with self._store.deciding():
            person = self._find(name)
            ended = self._end(person, session)
            if session is not None and not ended:
                raise Unknown("session", session)
            self._record(Change(action="revoke", kind="person", name=name, after={"ended": ended}))
        return ended

    def enable(self, name: str, *, enabled: bool) -> PersonView:
        """Let a person sign in again, or not any more, which ends all sessions.

        Raises:
            Unknown: there is nobody of this name.
        """
        with self._store.deciding():
            before = self._find(name)
            person = replace(before, enabled=enabled)
            if not enabled:
                self._end(before)
            if person != before:
                self._store.save_person(person)
                was, now = {"enabled": before.enabled}, {"enabled": enabled}
                self._record(changed("change", "person", name, was, now))
            return self._view(person, self._store.sessions(person.id))

    def remove(self, name: str) -> None:
        """Forget who a person is, and end all sessions. The name is given to nobody else, since
        usage and stored responses belong to it; nor is it forgotten that somebody is disabled.

        Raises:
            Unknown: there is nobody of this name.
        """
        with self._store.deciding():
            person = self._find(name)
            self._end(person)
            nobody = Identity(issuer="", subject="")
            self._store.save_person(replace(person, identity=nobody))
            self._record(Change(action="remove", kind="person", name=name))

    def _end(self, person: StoredPerson, session: str | None = None) -> int:
        found = [one for one in self._store.sessions(person.id) if session in (None, one.id)]
        for one in found:
            self._store.save_session(replace(one, ended=self._clock()))
        return len(found)

    def _find(self, name: str) -> StoredPerson:
        found = self._store.person_named(name)
        if found is None:
            raise Unknown("person", name, [one.name for one in self.people()])
        return found

    def _record(self, change: Change) -> None:
        self._store.record(self._actor, (change,))

    def _view(self, person: StoredPerson, sessions: Sequence[StoredSession]) -> PersonView:
        rule = rule_for(self._rules, person.identity)
        state: State = "active" if person.enabled else "disabled"
        if rule is None or not rule.enabled:
            state = "refused" if person.enabled else state
        uses = [one.used for one in sessions if one.used is not None]
        return PersonView(
            name=person.name,
            state=state,
            team=None if rule is None else rule.team,
            rule=None if rule is None else list(self._rules).index(rule) + 1,
            groups=person.identity.groups,
            sessions=len(sessions),
            created=moment(person.created),
            seen=moment(person.seen),
            used=moment_if(max(uses, default=None)),
        )

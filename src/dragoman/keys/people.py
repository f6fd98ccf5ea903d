"""People who sign in, their sessions, and the interface of their store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from msgspec import Struct

from dragoman.audit import AuditLog
from dragoman.config.access_rules import SignInRule
from dragoman.keys.records import StoredKey, StoredSecret

IDLE_S: Final = 30 * 24 * 3600.0
"""Seconds without a refresh after which a session ends."""

_LONGEST_NAME = 254
"""Characters of an e-mail address, as RFC 5321 bounds them."""


class Identity(Struct, frozen=True, kw_only=True):
    """What a provider says of a person: its name of the person, an e-mail address that it verified
    (in lower case, empty without one), and groups."""

    issuer: str
    subject: str
    email: str = ""
    groups: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What identifies the person, whatever else changes."""
        return hashlib.sha256(f"{self.issuer}\n{self.subject}".encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name in logs, usage, limits and paths. See `is_person`."""
        if self.email and "/" not in self.email:
            return self.email
        text = self.subject
        is_plain = text.isascii() and text.isprintable() and not {" ", "/"} & set(text)
        return f"sub:{text if is_plain and len(text) <= 64 else self.id[:32]}"


def is_person(name: str) -> bool:
    """Whether a name is that of a person, which has signs that no key's name has."""
    return "@" in name or ":" in name


class StoredPerson(Struct, frozen=True, kw_only=True):
    """A person who has signed in: what the provider said last, when the first and the last sign-in
    were, in Unix seconds, and whether the person may."""

    id: str
    name: str
    identity: Identity
    created: float
    seen: float
    enabled: bool = True

    @property
    def is_removed(self) -> bool:
        """Whether only the name is left, which is given to nobody else."""
        return not self.identity.subject


class StoredSession(Struct, frozen=True, kw_only=True):
    """A person's session with one program. Times are in Unix seconds.

    `refresh` and `former` are the SHA-256 of the present refresh token and of the one before, which
    was replaced at `rotated`. `signed_in` is when the person signed in, `renewed` when the provider
    last confirmed the person, `failing` since when it cannot be asked (None: it could), and
    `asking` until when one request is asking it. `sealed` are secrets, encrypted. `ended` is when
    the session ended, None if it has not.
    """

    id: str
    person: str
    client: str
    refresh: str
    former: str = ""
    rotated: float
    signed_in: float
    renewed: float
    failing: float | None = None
    asking: float = 0.0
    sealed: bytes
    used: float | None = None
    ended: float | None = None


class SigningKey(Struct, frozen=True, kw_only=True):
    """A key that signs access tokens, encrypted, and when it was made, in Unix seconds."""

    id: str
    created: float
    sealed: bytes


class Pending(Struct, frozen=True, kw_only=True):
    """Something that a sign-in has begun, encrypted: `id` is the SHA-256 of the secret by which it
    is found, `alias` that of another. It is dropped after `expires`, in Unix seconds."""

    id: str
    alias: str = ""
    expires: float
    sealed: bytes


class PeopleChanges(Struct, frozen=True, kw_only=True):
    """People, sessions and signing keys that changed."""

    people: Sequence[StoredPerson] = ()
    sessions: Sequence[StoredSession] = ()
    signing_keys: Sequence[SigningKey] = ()


class PeopleStore(AuditLog, Protocol):
    """The store of people. Every method raises `StoreError` when the store cannot be used, and has
    then changed nothing."""

    def deciding(self) -> AbstractContextManager[None]:
        """As `KeyStore.deciding`."""

    def people(self) -> Sequence[StoredPerson]:
        """All people, by name."""

    def person(self, id: str) -> StoredPerson | None:
        """The person of an id."""

    def person_named(self, name: str) -> StoredPerson | None:
        """The person of a name."""

    def save_person(self, person: StoredPerson) -> None:
        """Add a person, or replace the one of the same id."""

    def sessions(self, person: str | None = None) -> Sequence[StoredSession]:
        """The sessions that have not ended, of one person or of all, the oldest first."""

    def session(self, id: str) -> StoredSession | None:
        """The session of an id, ended or not."""

    def save_session(self, session: StoredSession) -> None:
        """Add a session, or replace the one of the same id."""

    def pending(self, id: str = "", alias: str = "") -> Pending | None:
        """What a sign-in has begun, by either of its secrets."""

    def save_pending(self, pending: Pending) -> None:
        """Add it, or replace that of the same id."""

    def drop_pending(self, id: str) -> None:
        """Remove it."""

    def count_pending(self) -> int:
        """How many there are."""

    def signing_keys(self) -> Sequence[SigningKey]:
        """All of them, the oldest first."""

    def save_signing_key(self, key: SigningKey) -> None:
        """Add a signing key."""


def email_of(text: object) -> str:
    """An e-mail address in lower case; empty if it is none that logs can show."""
    if not isinstance(text, str) or not text.isascii() or len(text) > _LONGEST_NAME:
        return ""
    local, at, domain = text.lower().partition("@")
    plain = all(sign.isalnum() or sign in _SIGNS for sign in local + domain)
    return text.lower() if local and at and domain and plain else ""


_SIGNS = "!#$%&'*+-/=?^_`{|}~."


def rule_for(rules: Iterable[SignInRule], identity: Identity) -> SignInRule | None:
    """The first rule that matches a person; None if none does."""
    _, _, domain = identity.email.partition("@")
    for rule in rules:
        if not (rule.groups or rule.emails or rule.domains):
            return rule
        if not set(rule.groups).isdisjoint(identity.groups):
            return rule
        if identity.email and identity.email in [email.lower() for email in rule.emails]:
            return rule
        if domain and domain in [one.lower() for one in rule.domains]:
            return rule
    return None


class People:
    """The people and sessions of the store, as far as they are known, as keys: the sessions of a
    person are the secrets of a key that has the person's name."""

    def __init__(self, rules: Sequence[SignInRule] = ()) -> None:
        self.signing_keys: dict[str, SigningKey] = {}
        self._rules = rules
        self._people: dict[str, StoredPerson] = {}
        self._sessions: dict[str, dict[str, StoredSession]] = {}

    def redefine(self, rules: Sequence[SignInRule]) -> list[StoredKey]:
        """Take over the rules of another configuration. Returns everybody, as keys."""
        if rules == self._rules:
            return []
        self._rules = rules
        return [self._key(person) for person in self._people.values()]

    def update(self, changes: PeopleChanges, *, whole: bool = False) -> list[StoredKey]:
        """Take over what has changed, or what there is. Returns the people who changed, or
        everybody, as keys."""
        if whole:
            self._people.clear()
            self._sessions.clear()
            self.signing_keys.clear()
        self.signing_keys |= {key.id: key for key in changes.signing_keys}
        changed = {person.id: person for person in changes.people}
        self._people |= changed
        for session in changes.sessions:
            sessions = self._sessions.setdefault(session.person, {})
            if session.ended is None:
                sessions[session.id] = session
            else:
                sessions.pop(session.id, None)
            if session.person in self._people:
                changed[session.person] = self._people[session.person]
        return [self._key(person) for person in changed.values()]

    def session(self, id: str) -> StoredSession | None:
        """The session of an id, if it has not ended."""
        return next((some[id] for some in self._sessions.values() if id in some), None)

    def person(self, id: str) -> StoredPerson | None:
        """The person of an id."""
        return self._people.get(id)

    def rule_named(self, name: str) -> SignInRule | None:
        """The rule of the person of a name; None if there is none."""
        found = next((one for one in self._people.values() if one.name == name), None)
        return None if found is None else self.rule_for(found)

    def rule_for(self, person: StoredPerson) -> SignInRule | None:
        """The rule of a person; None for those who may not sign in."""
        if not person.enabled or person.is_removed:
            return None
        return rule_for(self._rules, person.identity)

    def _key(self, person: StoredPerson) -> StoredKey:
        rule = self.rule_for(person)
        sessions = self._sessions.get(person.id, {}).values()
        return StoredKey(
            name=person.name,
            created=person.created,
            removed=person.seen if rule is None else None,
            rules=_NONE if rule is None else rule.rules,
            secrets=tuple(
                StoredSecret(digest=bytes.fromhex(one.id), ending="", created=one.signed_in)
                for one in sessions
            ),
        )


_NONE = StoredKey(name="", created=0.0).rules

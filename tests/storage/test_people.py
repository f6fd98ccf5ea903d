"""People, their sessions and what sign-ins have begun, in either database."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.store import Batch, Store
from dragoman.keys.people import (
    IDLE_S,
    Identity,
    Pending,
    People,
    SigningKey,
    StoredPerson,
    StoredSession,
)

NOW = 1_800_000_000.0
IDENTITY = Identity(issuer="i", subject="s", email="ada@example.com", groups=("a", "b"))
PERSON = StoredPerson(
    id=IDENTITY.id, name=IDENTITY.name, identity=IDENTITY, created=NOW, seen=NOW, enabled=False
)
SESSION = StoredSession(
    id="ab" * 16,
    person=PERSON.id,
    client="codex",
    refresh="r",
    rotated=NOW,
    signed_in=NOW,
    renewed=NOW,
    sealed=b"\0\xff",
)


def test_what_is_saved_is_found_and_told_to_workers(store: Store) -> None:
    people = store.people
    before = store.exchange("w", Batch(), 0).version
    with people.deciding():
        people.save_person(PERSON)
        people.save_session(SESSION)
        people.save_signing_key(SigningKey(id="k", created=NOW, sealed=b"\xff"))
    assert people.person(PERSON.id) == people.person_named(PERSON.name) == PERSON
    assert list(people.people()) == [PERSON]
    assert people.session(SESSION.id) == SESSION
    assert list(people.sessions(PERSON.id)) == list(people.sessions()) == [SESSION]
    changes = store.exchange("w", Batch(), before)
    assert list(changes.people.people) == [PERSON]
    assert list(changes.people.sessions) == [SESSION]
    assert [key.id for key in changes.people.signing_keys] == ["k"]
    ended = replace(SESSION, ended=NOW + 1)
    people.save_session(ended)
    assert list(people.sessions()) == []
    known = People()
    known.update(changes.people)
    assert known.session(SESSION.id) == SESSION
    known.update(store.exchange("w", Batch(), changes.version).people)
    assert known.session(SESSION.id) is None


def test_uses_of_sessions_are_written_with_those_of_keys(store: Store) -> None:
    store.people.save_person(PERSON)
    store.people.save_session(SESSION)
    digest = bytes.fromhex(SESSION.id)
    for at in (NOW + 5, NOW + 3):
        store.exchange("w", Batch(key_uses={digest: (2, at)}), 0)
    found = store.people.session(SESSION.id)
    assert found is not None
    assert found.used == NOW + 5


def test_what_nobody_ended_is_swept(store: Store) -> None:
    people = store.people
    people.save_session(SESSION)
    people.save_session(replace(SESSION, id="cd" * 16, rotated=NOW + IDLE_S))
    pending = Pending(id="p", alias="a", expires=NOW + 600, sealed=b"\xff")
    people.save_pending(pending)
    assert people.pending("p") == people.pending(alias="a") == pending
    store.sweep(NOW + 500)
    assert people.count_pending() == 1
    store.sweep(NOW + IDLE_S + 1)
    assert people.count_pending() == 0
    assert people.pending("p") is None
    assert people.session(SESSION.id) is None
    assert len(people.sessions()) == 1
    people.drop_pending("none")

"""Which key is whose, and when and from where it may be used. A row each."""

from __future__ import annotations

import resource
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.config import AccessRules, KeyRules
from dragoman.config.limits import Limit
from dragoman.edge.auth import Keyring
from dragoman.http.addresses import parse
from dragoman.keys.records import StoredKey, StoredSecret, StoredTeam
from dragoman.keys.ring import Denial, Denied, FixedKey, KeyRing
from dragoman.keys.secrets import PREFIX, digest_of, ending_of, is_mistyped, make_key
from dragoman.limits.rules import ledger_of

NOW = 1_795_000_000.0
KEY = make_key(bytes(range(32)))
ANY = KeyRules()


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW + seconds, UTC)


def stored(name: str = "k", *, removed: float | None = None, revoked: float | None = None,
           secret: str = KEY, rules: KeyRules = ANY) -> StoredKey:  # fmt: skip
    digest = digest_of(secret.encode())
    one = StoredSecret(digest=digest, ending=ending_of(secret), created=1.0, revoked=revoked)
    return StoredKey(name=name, created=1.0, removed=removed, rules=rules, secrets=(one,))


def denial(ring: KeyRing, address: str = "10.1.2.3", at: float = NOW) -> Denial | None:
    """Why the key is refused; None if it is not."""
    try:
        ring.find(KEY.encode(), at).check(at, parse(address))
    except Denied as error:
        return error.denial
    return None


# Rules of a key, from where it is used, and what becomes of it.
ROWS = [
    (KeyRules(), "10.1.2.3", None),
    (KeyRules(enabled=False), "10.1.2.3", Denial.DISABLED),
    (KeyRules(not_before=moment(1)), "10.1.2.3", Denial.EARLY),
    (KeyRules(not_before=moment(0)), "10.1.2.3", None),
    (KeyRules(expires=moment(1)), "10.1.2.3", None),
    (KeyRules(expires=moment(0)), "10.1.2.3", Denial.EXPIRED),
    (KeyRules(addresses=("10.0.0.0/8",)), "10.1.2.3", None),
    (KeyRules(addresses=("10.0.0.0/8",)), "::ffff:10.1.2.3", None),
    (KeyRules(addresses=("10.0.0.0/8",)), "11.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses=("10.0.0.0/8",)), "2001:db8::1", Denial.ELSEWHERE),
    (KeyRules(addresses=("10.0.0.0/8",)), "", Denial.ELSEWHERE),
    (KeyRules(addresses=("2001:db8::/32", "10.1.2.3")), "2001:db8::1", None),
    (KeyRules(addresses=()), "10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("10.1.0.0/16",)), "10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("10.1.0.0/16",)), "10.2.2.3", None),
    (KeyRules(addresses_denied=("10.1.0.0/16",)), "", None),
    (
        KeyRules(addresses=("10.0.0.0/8",), addresses_denied=("10.1.2.3",)),
        "10.1.2.3",
        Denial.ELSEWHERE,
    ),
    (KeyRules(addresses_denied=("::ffff:10.1.2.3",)), "10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("::ffff:10.1.2.3",)), "::ffff:10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("::ffff:10.1.0.0/112",)), "10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("::ffff:10.1.0.0/112",)), "10.2.2.3", None),
    (KeyRules(addresses_denied=("::ffff:0:0/96",)), "10.1.2.3", Denial.ELSEWHERE),
    (KeyRules(addresses_denied=("::ffff:0:0/96",)), "2001:db8::1", None),
    (KeyRules(addresses=("::ffff:10.0.0.0/104",)), "10.1.2.3", None),
    (KeyRules(team="nobody"), "10.1.2.3", Denial.DISABLED),
]


@pytest.mark.parametrize(("rules", "address", "expected"), ROWS)
def test_rules(rules: KeyRules, address: str, expected: Denial | None) -> None:
    ring = KeyRing()
    ring.update([stored(rules=rules)])
    assert denial(ring, address) is expected
    fixed = KeyRing([FixedKey("k", rules, (digest_of(KEY.encode()),))])
    assert denial(fixed, address) is expected


def test_a_key_and_its_team_must_both_allow() -> None:
    ring = KeyRing(teams={"fixed": AccessRules(models=("gpt-*",), upstreams=("a", "b"))})
    rules = KeyRules(team="fixed", models=("*-mini",), upstreams=("b", "c"))
    ring.update([stored(rules=rules)])
    caller = ring.find(KEY.encode(), NOW)
    assert caller.team == "fixed"
    assert [caller.allows(name) for name in ("gpt-mini", "gpt-5", "o-mini")] == [True, False, False]
    assert caller.upstreams == frozenset({"b"})
    assert caller.restricted


def test_teams_of_the_store_come_change_and_go() -> None:
    ring = KeyRing()
    team = StoredTeam(name="t", created=1.0, rules=AccessRules())
    ring.update([stored(rules=KeyRules(team="t"))])
    assert denial(ring) is Denial.DISABLED, "a team that is not known allows nothing"
    ring.update(teams=[team])
    assert denial(ring) is None
    ring.update(teams=[StoredTeam(name="t", created=1.0, rules=AccessRules(expires=moment(-1)))])
    assert denial(ring) is Denial.EXPIRED
    ring.update(teams=[team])
    assert denial(ring) is None
    ring.update(teams=[StoredTeam(name="t", created=1.0, removed=NOW)])
    assert denial(ring) is Denial.DISABLED


def test_clients_of_the_configuration_follow_teams_of_the_store() -> None:
    ring = KeyRing([FixedKey("c", KeyRules(team="t"), (digest_of(KEY.encode()),))])
    assert denial(ring) is Denial.DISABLED
    ring.update(teams=[StoredTeam(name="t", created=1.0)])
    assert denial(ring) is None


def test_keys_come_change_and_go() -> None:
    ring = KeyRing()
    assert ring.is_empty
    assert denial(ring) is Denial.UNKNOWN
    ring.update([stored()])
    assert not ring.is_empty
    assert denial(ring) is None
    other = make_key(bytes(32))
    ring.update([stored(secret=other)])
    assert denial(ring) is Denial.UNKNOWN, "a secret that is taken away is not known"
    ring.update([stored(removed=NOW)])
    assert denial(ring) is Denial.UNKNOWN
    assert not ring.is_empty, "where there was a key once, nobody is served without one"


def test_a_replaced_secret_ends_at_its_time() -> None:
    ring = KeyRing()
    ring.update([stored(revoked=NOW + 5)])
    assert denial(ring, at=NOW + 4.9) is None
    assert denial(ring, at=NOW + 5) is Denial.REPLACED


def test_the_configuration_wins_over_the_store() -> None:
    ring = KeyRing([FixedKey("k", KeyRules(), (digest_of(b"fixed-key"),))])
    assert ring.update([stored("k"), stored("other", secret="fixed-key")]) == ["k"]
    assert denial(ring) is Denial.UNKNOWN
    assert ring.find(b"fixed-key", NOW).name == "k"
    ring.update([stored("other", removed=NOW)])
    assert ring.find(b"fixed-key", NOW).name == "k"


def test_uses_of_stored_secrets_are_counted() -> None:
    ring = KeyRing([FixedKey("c", KeyRules(), (digest_of(b"fixed-key"),))])
    ring.update([stored()])
    for at in (1.0, 2.0):
        ring.find(KEY.encode(), at)
        ring.find(b"fixed-key", at)
    taken = ring.take_uses()
    assert taken == {digest_of(KEY.encode()): (2, 2.0)}
    assert ring.take_uses() == {}
    ring.find(KEY.encode(), 3.0)
    ring.restore_uses(taken)
    assert ring.take_uses() == {digest_of(KEY.encode()): (3, 3.0)}


def test_keys_have_a_check_sum() -> None:
    assert KEY.startswith(PREFIX)
    assert len(KEY) == len(make_key(b"\xff" * 32)) == len(make_key(bytes(32))) == 54
    assert not is_mistyped(KEY.encode())
    assert not is_mistyped(b"sk-of-another-form")
    for at in range(len(PREFIX), len(KEY)):
        wrong = KEY[:at] + ("x" if KEY[at] != "x" else "y") + KEY[at + 1 :]
        assert is_mistyped(wrong.encode()), at
    for wrong in (KEY[:-1], KEY + "A", PREFIX, KEY[:20] + KEY[21:22] + KEY[20:21] + KEY[22:]):
        assert is_mistyped(wrong.encode())
    ring = KeyRing()
    with pytest.raises(Denied) as refused:
        ring.find(KEY[:-1].encode(), NOW)
    assert refused.value.denial is Denial.MISTYPED
    with pytest.raises(ValueError, match="32 random bytes"):
        make_key(b"short")


def test_until_the_store_is_known_nobody_is_taken_for_anyone() -> None:
    ring = KeyRing()
    ring.is_loaded = False
    keyring = Keyring(ring)
    for headers in ({}, {b"authorization": b"Bearer " + KEY.encode()}):
        with pytest.raises(DragomanError) as refused:
            keyring.identify(headers)
        assert refused.value.fault.kind is FaultKind.OVERLOADED
    ring.is_loaded = True
    assert keyring.identify({}).name == "anyone"
    ring.update([stored()])
    with pytest.raises(DragomanError) as refused:
        keyring.identify({})
    assert refused.value.fault.kind is FaultKind.UNAUTHENTICATED


def test_keys_and_teams_that_are_not_retained_are_refused() -> None:
    ring = KeyRing()
    team = StoredTeam(name="t", created=1.0)
    ring.update([stored(rules=KeyRules(team="t"))], [team])
    ring.retain(["k"], ["t"])
    assert denial(ring) is None
    ring.retain(["k"], [])
    assert denial(ring) is Denial.DISABLED
    ring.update(teams=[team])
    assert denial(ring) is None
    ring.retain([], ["t"])
    assert denial(ring) is Denial.UNKNOWN
    assert not ring.is_empty, "nobody is served without a key where there was one"
    ring.update([stored("other")])
    assert denial(ring) is None


def test_forgotten_keys_are_refused_and_leave_nothing_behind() -> None:
    ring = KeyRing()
    ring.update([stored("k"), stored("other")])
    ring.forget(["k", "nobody"])
    assert denial(ring) is Denial.UNKNOWN
    assert (ring.has_one_client, ring.caller("k")) == (True, None)
    ring.update([stored("k")])
    assert not ring.has_one_client
    assert denial(ring) is None


def test_where_people_sign_in_the_first_is_not_the_only_client() -> None:
    ring = KeyRing()
    ring.update([stored("k")])
    ring.follow_tokens([lambda key, now: None])
    assert not ring.has_one_client


def test_rules_that_cannot_be_followed_refuse_their_key_alone() -> None:
    ring = KeyRing([FixedKey("fixed", KeyRules(team="t"), (digest_of(b"fixed-key"),))])
    other = make_key(bytes(32))
    bad = stored("bad", secret=other, rules=KeyRules(addresses=("nowhere",)))
    ring.update([bad, stored("k")])
    assert denial(ring) is None
    with pytest.raises(Denied):
        ring.find(other.encode(), NOW)
    assert list(ring.unusable) == ["bad"]
    assert "nowhere" in ring.unusable["bad"]
    ring.update([stored("bad", secret=other)])
    assert ring.find(other.encode(), NOW).name == "bad"
    assert not ring.unusable
    # A key that was good is refused from when on its rules are bad.
    ring.update([bad])
    with pytest.raises(Denied):
        ring.find(other.encode(), NOW)
    ring.update(teams=[StoredTeam(name="t", created=1.0, rules=AccessRules(addresses=("no",)))])
    with pytest.raises(Denied):
        ring.find(b"fixed-key", NOW)
    assert sorted(ring.unusable) == ["bad", "fixed"]


@pytest.mark.slow
def test_a_million_wrong_keys_leave_nothing_behind() -> None:
    """Neither of those that nobody made nor of those that are mistyped is anything remembered."""
    ring = KeyRing([FixedKey("k", ANY, (digest_of(KEY.encode()),))])
    found = {Denial.UNKNOWN: 0, Denial.MISTYPED: 0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(500_000):
        for wrong in (b"sk-%d" % number, b"sk-drg-%d" % number):
            try:
                ring.find(wrong, NOW)
            except Denied as error:
                found[error.denial] += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found == {Denial.UNKNOWN: 500_000, Denial.MISTYPED: 500_000}
    assert grown < 10_000, "KiB"
    assert ring.find(KEY.encode(), NOW).name == "k"


def test_limits_of_the_configuration_begin_where_they_were_reset() -> None:
    limit = Limit(kind="requests", amount=5, window="day")
    rules = KeyRules(team="t", limits=(limit,))
    teams = {"t": AccessRules(limits=(limit,))}
    ring = KeyRing([FixedKey("file", rules, (digest_of(KEY.encode()),))], teams)
    other = make_key(bytes(32))
    ring.update([stored("k", secret=other, rules=KeyRules(team="t", limits=(limit,)))])

    def begins(key: str) -> list[datetime | None]:
        caller = ring.find(key.encode(), NOW)
        return [one.since for one in (*caller.limits, *caller.team_limits)]

    assert (begins(KEY), begins(other)) == ([None, None], [None, None])
    ring.update(resets={ledger_of(limit, "file"): NOW, ledger_of(limit, "k"): NOW})
    assert (begins(KEY), begins(other)) == ([moment(0), None], [None, None])
    ring.update(resets={ledger_of(limit, "t", is_team=True): NOW + 1})
    assert (begins(KEY), begins(other)) == ([moment(0), moment(1)], [None, moment(1)])
    late = replace(limit, since=moment(9))
    ring.redefine([FixedKey("file", KeyRules(limits=(late,)), (digest_of(KEY.encode()),))], {})
    assert begins(KEY) == [moment(9)]

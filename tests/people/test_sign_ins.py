"""What sign-ins and sessions are worth as time passes, on a store without a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.audit import Actor
from dragoman.config import Secret
from dragoman.config.access_rules import SignInRule
from dragoman.config.sign_in import SignIn
from dragoman.keys.people import IDLE_S, Identity, email_of, rule_for
from dragoman.keys.ring import Denied
from dragoman.sign_in import sign_ins as module
from dragoman.sign_in import tokens
from dragoman.sign_in.grants import (
    Granted,
    Redirect,
    challenge_of,
    is_loopback_redirect,
    user_code_of,
)
from dragoman.sign_in.jose import public_keys
from dragoman.sign_in.provider import identity_of
from dragoman.sign_in.sign_ins import Busy, InvalidGrant, NotAllowed, Opened, SignIns
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore

NOW = 1_800_000_000.0
ADA = Identity(issuer="http://127.0.0.1:9", subject="1", email="ada@example.com")
SETTINGS = SignIn(
    public_url="http://127.0.0.1:8",
    issuer=ADA.issuer,
    client_id="dragoman",
    rules=(SignInRule(domains=("example.com",)),),
)
VERIFIER = "v" * 43
URI = "http://127.0.0.1:14551/callback"
REDIRECT = Redirect(uri=URI, state="s", challenge=challenge_of(VERIFIER), client="codex")


class TimedSignIns(SignIns):
    """Sign-ins whose clock is set by hand."""

    now = NOW

    def __init__(self, store: SqliteStore, settings: SignIn = SETTINGS) -> None:
        cipher = AesGcmCipher(Secret("a key of the store"))
        actor = Actor("nobody", "gateway")
        super().__init__(store.people, cipher, settings, actor, lambda: self.now)
        self.store = store

    def approved(self, provider: str | None = None, who: Identity = ADA) -> str:
        """The device code of a program that a person lets in."""
        code, grant = self.begin_device("codex")
        entered = self.enter(grant.user_code, "browser")
        assert entered is not None
        state, _ = entered
        assert self.returned(state, "browser") is not None
        signed_in = self.signed_in(state, Granted(identity=who, provider=provider))
        assert signed_in is not None
        assert self.decide(signed_in[0], "browser", approves=True) is not None
        return code

    def session(self, provider: str | None = None) -> Opened:
        """A session that begins now."""
        opened = self.poll(self.approved(provider))
        assert isinstance(opened, Opened)
        return opened

    def code(self) -> str:
        """An authorization code that was given now."""
        state, _ = self.visit("browser", redirect=REDIRECT)
        self.returned(state, "browser")
        signed_in = self.signed_in(state, Granted(identity=ADA))
        assert signed_in is not None
        decided = self.decide(signed_in[0], "browser", approves=True)
        assert decided is not None
        return decided[1]


@pytest.fixture
def sign_ins(tmp_path: Path) -> Iterator[TimedSignIns]:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        yield TimedSignIns(store)


def test_a_replaced_refresh_token_gives_the_same_for_a_minute(sign_ins: TimedSignIns) -> None:
    first = sign_ins.session("p").refresh_token
    following = sign_ins.begin_refresh(first)[0].refresh_token
    sign_ins.now += 60
    assert sign_ins.begin_refresh(first)[0].refresh_token == following
    sign_ins.now += 1
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(first)
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(following)


def test_a_session_that_nobody_renews_ends(sign_ins: TimedSignIns) -> None:
    token = sign_ins.session("p").refresh_token
    sign_ins.now += IDLE_S + 1
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(token)


def test_one_request_asks_the_provider_and_the_others_do_not_wait(sign_ins: TimedSignIns) -> None:
    token = sign_ins.session("p").refresh_token
    assert sign_ins.begin_refresh(token)[1] is None
    sign_ins.now += 60
    asked = [sign_ins.begin_refresh(token)[1] is not None for _ in range(3)]
    assert asked == [True, False, False]


def test_without_a_refresh_token_of_the_provider_the_sign_in_ends(sign_ins: TimedSignIns) -> None:
    token = sign_ins.session().refresh_token
    sign_ins.now += 12 * 3600
    token = sign_ins.begin_refresh(token)[0].refresh_token
    sign_ins.now += 61
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(token)


def test_the_grace_for_the_provider_is_counted_from_its_first_failure(
    sign_ins: TimedSignIns,
) -> None:
    session = sign_ins.session("p").session.id
    sign_ins.now += 24 * 3600
    sign_ins.unconfirmed(session)
    sign_ins.now += 3600
    sign_ins.unconfirmed(session)
    sign_ins.now += 1
    with pytest.raises(InvalidGrant):
        sign_ins.unconfirmed(session)
    sign_ins.renewed(session, Granted(identity=ADA, provider="q"))
    sign_ins.unconfirmed(session)


def test_a_renewed_person_whom_no_rule_lets_in_is_signed_out(sign_ins: TimedSignIns) -> None:
    session = sign_ins.session("p").session.id
    moved = replace(ADA, email="ada@elsewhere.example")
    with pytest.raises(InvalidGrant):
        sign_ins.renewed(session, Granted(identity=moved, provider="q"))
    ended = sign_ins.store.people.session(session)
    assert ended is not None
    assert ended.ended == NOW


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        ({"client": "claude-code"}, 0),
        ({"uri": "http://localhost:14551/callback"}, 0),
        ({"verifier": "w" * 43}, 0),
        ({}, 61),
    ],
)
def test_a_code_is_for_who_asked_for_it(
    sign_ins: TimedSignIns, changed: dict[str, str], after: float
) -> None:
    asked = {"client": "codex", "uri": URI, "verifier": VERIFIER, **changed}
    code = sign_ins.code()
    sign_ins.now += after
    with pytest.raises(InvalidGrant):
        sign_ins.redeem(code, **asked)


def test_a_code_that_is_used_twice_ends_what_it_gave(sign_ins: TimedSignIns) -> None:
    code = sign_ins.code()
    opened = sign_ins.redeem(code, "codex", URI, VERIFIER)
    sign_ins.now += 120
    with pytest.raises(InvalidGrant):
        sign_ins.redeem(code, "codex", URI, VERIFIER)
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(opened.refresh_token)
    actions = [line.action for line in sign_ins.store.audit(10, only={"kind": "person"})]
    assert "reuse code" in actions


def test_a_device_code_expires_and_is_taken_once(sign_ins: TimedSignIns) -> None:
    late, _ = sign_ins.begin_device("codex")
    code = sign_ins.approved()
    assert isinstance(sign_ins.poll(code), Opened)
    assert sign_ins.poll(code) == "invalid_grant"
    sign_ins.now += 600
    assert sign_ins.poll(late) == "expired_token"


def test_an_expired_code_cannot_be_entered_or_approved(sign_ins: TimedSignIns) -> None:
    _, grant = sign_ins.begin_device("codex")
    begun = sign_ins.enter(grant.user_code, "browser")
    assert begun is not None
    sign_ins.now += 601
    assert sign_ins.enter(grant.user_code, "browser") is None
    assert sign_ins.returned(begun[0], "browser") is None
    assert sign_ins.decide(begun[0], "browser", approves=True) is None


@pytest.mark.parametrize("changed", [{"subject": "2"}, {"issuer": "http://127.0.0.1:7"}])
def test_nobody_takes_the_name_of_another(sign_ins: TimedSignIns, changed: dict[str, str]) -> None:
    """Whoever is given an address after somebody else, and all people of a company that has another
    provider, are let in by a name of their own."""
    first = sign_ins.session()
    second = sign_ins.poll(sign_ins.approved(who=replace(ADA, **changed)))
    assert isinstance(second, Opened)
    assert second.person.id != first.person.id
    assert second.person.name.startswith(f"{first.person.name}:")
    again = sign_ins.poll(sign_ins.approved(who=replace(ADA, **changed)))
    assert isinstance(again, Opened)
    assert again.person == second.person
    assert len(sign_ins.store.people.sessions(first.person.id)) == 1


def test_who_is_disabled_cannot_sign_in_or_renew(sign_ins: TimedSignIns) -> None:
    opened = sign_ins.session("p")
    sign_ins.store.people.save_person(replace(opened.person, enabled=False))
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(opened.refresh_token)
    with pytest.raises(NotAllowed):
        sign_ins.signed_in(sign_ins.visit("browser", redirect=REDIRECT)[0], Granted(identity=ADA))


def test_sign_ins_that_nobody_ends_are_bounded(
    sign_ins: TimedSignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 3)
    for _ in range(3):
        sign_ins.begin_device("codex")
    with pytest.raises(Busy):
        sign_ins.begin_device("codex")
    sign_ins.store.sweep(NOW + 700)
    sign_ins.begin_device("codex")


def test_sessions_of_a_person_are_bounded(
    sign_ins: TimedSignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    first = sign_ins.session("p")
    for _ in range(2):
        sign_ins.now += 1
        sign_ins.session("p")
    assert len(sign_ins.store.people.sessions()) == 2
    with pytest.raises(InvalidGrant):
        sign_ins.begin_refresh(first.refresh_token)


def test_signing_keys_are_replaced_and_overlap(sign_ins: TimedSignIns) -> None:
    url = SETTINGS.public_url
    cipher = AesGcmCipher(Secret("a key of the store"))
    opened = sign_ins.session()
    known = {key.id: key for key in sign_ins.ensure_signing_key(url)}
    issued = tokens.AccessTokens(url, known, cipher)
    token = issued.issue(opened.session.id, opened.person, sign_ins.now, 3600)
    assert token is not None
    sign_ins.now += tokens.ROTATE_AFTER_S + 1
    known |= {key.id: key for key in sign_ins.ensure_signing_key(url)}
    assert len(known) == 2
    assert issued.session_of(token.encode(), sign_ins.now) is not None
    sign_ins.now += 3 * 24 * 3600
    with pytest.raises(Denied):
        issued.session_of(token.encode(), sign_ins.now)


def test_a_token_is_taken_for_a_minute_after_it_expired(sign_ins: TimedSignIns) -> None:
    """Codex renews one only when it has expired."""
    opened, url = sign_ins.session(), SETTINGS.public_url
    cipher = AesGcmCipher(Secret("a key of the store"))
    known = {key.id: key for key in sign_ins.ensure_signing_key(url)}
    issued = tokens.AccessTokens(url, known, cipher)
    token = issued.issue(opened.session.id, opened.person, NOW, 3600)
    assert token is not None
    assert issued.read(token.encode(), NOW + 3659) is not None
    with pytest.raises(Denied):
        issued.read(token.encode(), NOW + 3660)
    elsewhere = tokens.AccessTokens("http://127.0.0.1:7", known, cipher)
    assert elsewhere.read(token.encode(), NOW) is None


@pytest.mark.parametrize(
    "uri",
    [
        "https://127.0.0.1:1/callback",
        "http://127.0.0.1/callback",
        "http://127.0.0.2:1/callback",
        "http://evil.example:1/callback",
        "http://127.0.0.1:1@evil.example/callback",
        "http://127.0.0.1:1/callback/more",
        "http://127.0.0.1:1/callback?next=x",
        "http://127.0.0.1:1/callback#x",
        "http://127.0.0.1:1\\@evil.example/callback",
        "http://127.0.0.1:99999/callback",
        "http://localhost.evil.example:1/callback",
        "cursor://127.0.0.1:1/callback",
        "http://127.0.0.1:1/callback\r\nx: y",
    ],
)
def test_a_redirect_leads_to_this_computer(uri: str) -> None:
    assert not is_loopback_redirect(uri)


def test_redirects_of_programs() -> None:
    assert is_loopback_redirect(URI)
    assert is_loopback_redirect("http://localhost:1455/callback")


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("bcdf-ghjk", "BCDF-GHJK"),
        (" BCDF GHJK ", "BCDF-GHJK"),
        ("bcdfghjk", "BCDF-GHJK"),
        ("ABCD-EFGH", ""),
        ("BCDF-GHJ", ""),
        ("", ""),
    ],
)
def test_codes_as_people_type_them(typed: str, code: str) -> None:
    assert user_code_of(typed) == code


def test_which_rule_counts() -> None:
    rules = (
        SignInRule(groups=("a",), team="one"),
        SignInRule(emails=("Ada@Example.com",), team="two"),
        SignInRule(domains=("example.com",), team="three"),
    )

    def team(email: str, *groups: str) -> str | None:
        found = rule_for(rules, replace(ADA, email=email, groups=groups))
        return None if found is None else found.team

    assert team("ada@example.com", "a") == "one"
    assert team("ada@example.com", "A") == "two"
    assert team("bob@example.com") == "three"
    assert team("bob@sub.example.com") is None
    assert team("bob@notexample.com") is None
    assert team("", "b") is None
    assert rule_for((SignInRule(),), replace(ADA, email="")) is not None


@pytest.mark.parametrize("text", ["", "ada", "a@b@c", "a b@c", "ada@", "@c", "ä@c", None, "a\n@c"])
def test_what_is_no_address(text: object) -> None:
    assert email_of(text) == ""


@pytest.mark.parametrize(
    ("said", "email"),
    [
        ({}, "a@x.com"),
        ({"email_verified": True}, "a@x.com"),
        ({"email_verified": "true"}, "a@x.com"),
        ({"email_verified": False}, ""),
        ({"email_verified": "false"}, ""),
        ({"email_verified": "False"}, ""),
        ({"email_verified": None}, ""),
    ],
)
def test_an_address_counts_unless_it_is_said_to_be_unverified(
    said: dict[str, object], email: str
) -> None:
    claims = {"sub": "1", "email": "A@X.com", **said}
    assert identity_of(claims, ADA.issuer, "groups").email == email


@pytest.mark.parametrize(
    ("subject", "email"), [("a/b", ""), ("../keys", ""), ("1 2", ""), ("s/1", "a/b@x.com")]
)
def test_a_name_is_one_segment_of_a_path(subject: str, email: str) -> None:
    """So that whoever has it can be signed out by it."""
    name = Identity(issuer=ADA.issuer, subject=subject, email=email).name
    assert name.startswith("sub:")
    assert not set(name) & set("/ ")


def test_keys_that_prove_nothing_are_left_out() -> None:
    """Shared secrets, short RSA keys, keys to encrypt with, and what is no key."""
    from joserfc.jwk import ECKey

    good = ECKey.generate_key("P-256", {"kid": "good"}).as_dict(private=False)
    short = {"kty": "RSA", "kid": "short", "e": "AQAB", "n": "w" + "A" * 170}
    members = [
        good,
        short,
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        {**good, "kid": "enc", "use": "enc"},
        {**good, "kid": "sign", "key_ops": ["sign"]},
        {"kty": "EC", "kid": "half", "crv": "P-256"},
        "text",
    ]
    assert set(public_keys({"keys": members})) == {"good"}
    assert public_keys({"keys": 5}) == public_keys([]) == {}

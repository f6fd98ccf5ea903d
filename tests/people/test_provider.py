"""What the provider says is believed only after every check, and it may be away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from dragoman.accounts.store import StoreError
from dragoman.config.sign_in import SignIn
from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.sign_in import key_sets
from dragoman.sign_in import provider as providers
from dragoman.sign_in.key_sets import ProviderAway
from dragoman.sign_in.tokens import session_of
from dragoman.storage.tables.pool import PoolTables
from dragoman.upstream.client import UpstreamClient
from tests.people.signing_in import (
    ADA,
    BOB,
    DEVICE_GRANT,
    LOGGED,
    PEOPLE,
    House,
    aged,
    ask,
    house,
    post,
)

Break = Callable[[Provider], None]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """One that may be broken."""
    with serving(PEOPLE) as running:
        yield running


@pytest.fixture
def home(simulator: RunningSimulator, provider: Provider, tmp_path: Path) -> Iterator[House]:
    with house(simulator.base_url, tmp_path / "store.db", provider) as running:
        yield running


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


@pytest.fixture(scope="module")
def shared_home(
    simulator: RunningSimulator,
    shared_provider: Provider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    store = tmp_path_factory.mktemp("defects") / "store.db"
    with house(simulator.base_url, store, shared_provider) as running:
        yield running


def claims(**changed: Any) -> Break:
    """Some claims are others, or missing (None)."""

    def broken(provider: Provider) -> None:
        claims_of = provider.claims_of

        def made(email: str, nonce: str | None) -> dict[str, Any]:
            found = {**claims_of(email, nonce), **changed}
            return {name: value for name, value in found.items() if value is not None}

        provider.claims_of = made  # type: ignore[method-assign]

    return broken


def signing(sign: Callable[[Provider, dict[str, Any]], str]) -> Break:
    """ID tokens are signed otherwise."""

    def broken(provider: Provider) -> None:
        provider.signed = lambda claims: sign(provider, claims)  # type: ignore[method-assign]

    return broken


def metadata(**changed: Any) -> Break:
    """Some of the discovery document is other, or missing (None)."""

    def broken(provider: Provider) -> None:
        found = {**provider.metadata(), **changed}
        left = {name: value for name, value in found.items() if value is not None}
        provider.metadata = lambda: left  # type: ignore[method-assign]

    return broken


def shared(provider: Provider, made: dict[str, Any]) -> str:
    """With a shared secret, which a public key could be taken for."""
    return jwt.encode({"alg": "HS256", "kid": "one"}, made, OctKey.import_key("secret" * 8))


def unsigned(provider: Provider, made: dict[str, Any]) -> str:
    head, body, _ = jwt.encode({"alg": "RS256", "kid": "one"}, made, provider.key).split(".")
    none = "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0"
    assert head
    return f"{none}.{body}."


def own_key(provider: Provider, made: dict[str, Any]) -> str:
    """With a key that the token brings along."""
    key = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "kid": "one", "jwk": key.as_dict(private=False)}
    return jwt.encode(header, made, key)


def of_stranger(provider: Provider, made: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, made, RSAKey.generate_key(2048))


def of_unknown_key(provider: Provider, made: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "two"}, made, RSAKey.generate_key(2048))


DEFECTS: dict[str, tuple[Break, str]] = {
    "no nonce": (claims(nonce=None), "nonce"),
    "nonce of another sign-in": (claims(nonce="other"), "nonce"),
    "audience": (claims(aud="somebody"), "another audience"),
    "several audiences without azp": (claims(aud=["dragoman", "x"]), "azp"),
    "azp of another": (claims(aud=["dragoman", "x"], azp="x"), "azp"),
    "issuer": (claims(iss="http://127.0.0.1:1"), "another issuer"),
    "expired": (claims(exp=int(time.time()) - 120), "expired"),
    "no expiry": (claims(exp=None), "expiry"),
    "of tomorrow": (claims(iat=int(time.time()) + 86400), "future"),
    "no iat": (claims(iat=None), "no signed JWT"),
    "nobody": (claims(sub=""), "nobody"),
    "unsigned": (signing(unsigned), "alg none"),
    "shared secret": (signing(shared), "shared secret"),
    "own key": (signing(own_key), "brings its own key"),
    "stranger": (signing(of_stranger), "wrong signature"),
    "unknown key": (signing(of_unknown_key), "does not publish"),
    "no JWT": (signing(lambda provider, made: "none"), "no signed JWT"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_an_answer_that_proves_nothing_signs_nobody_in(
    shared_home: House, shared_provider: Provider, caplog: pytest.LogCaptureFixture, defect: str
) -> None:
    broken, reason = DEFECTS[defect]
    whole = dict(vars(shared_provider))
    broken(shared_provider)
    try:
        begun = shared_home.begin()
        answer = shared_home.approve(begun, ADA)
    finally:
        vars(shared_provider).clear()
        vars(shared_provider).update(whole)
    assert answer.status == 403, answer.body
    assert shared_home.poll(begun).json["error"] == "access_denied"
    assert shared_home.admin("GET", "/people").json["people"] == []
    assert reason in caplog.text


AWAY = {
    "another issuer": metadata(issuer="http://127.0.0.1:1"),
    "trailing slash": lambda one: metadata(issuer=one.url + "/")(one),
    "no token endpoint": metadata(token_endpoint=None),
    "plain http elsewhere": metadata(token_endpoint="http://provider.example/token"),
    "keys elsewhere": metadata(jwks_uri="http://provider.example/keys"),
}


@pytest.mark.parametrize("defect", AWAY)
def test_a_provider_that_describes_itself_wrongly_is_not_asked(
    home: House, provider: Provider, defect: str
) -> None:
    AWAY[defect](provider)
    browser, begun = home.browser(), home.begin()
    browser.get("/device")
    assert browser.submit("/device", {"user_code": begun["user_code"]}).status == 503
    assert home.poll(begun).json["error"] == "authorization_pending"


def test_an_address_that_is_not_verified_is_no_name(home: House, provider: Provider) -> None:
    claims(email_verified=False, groups=["engineers"])(provider)
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    sent = browser.submit("/device", {"user_code": begun["user_code"]})
    assert browser.sign_in(sent, ADA).status == 200
    assert ADA not in browser.page
    browser.submit("/oauth/approve", {"decision": "approve"})
    assert "email" not in home.poll(begun).json


def test_a_refresh_asks_the_provider_anew(home: House, provider: Provider) -> None:
    """Other groups are other rights at the next refresh."""
    tokens = home.session(BOB)
    assert ask(home.url, tokens["access_token"], "messages/sim-text").status != 200
    provider.people[BOB] = ["engineers"]
    aged(home, renewed=0.0)
    following = home.refresh(tokens["refresh_token"])
    assert following.status == 200
    assert provider.asked[-1]["grant_type"] == "refresh_token"
    deadline = time.monotonic() + 30
    while ask(home.url, following.json["access_token"], "messages/sim-text").status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_was_removed_at_the_provider_is_signed_out(home: House, provider: Provider) -> None:
    tokens = home.session()
    del provider.people[ADA]
    aged(home, renewed=0.0)
    answer = home.refresh(tokens["refresh_token"])
    assert (answer.status, answer.json["error"]) == (401, "invalid_grant")
    deadline = time.monotonic() + 30
    while ask(home.url, tokens["access_token"]).status != 401:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ("refuse refresh", ADA) in home.audited()


def test_nobody_is_signed_out_while_the_provider_is_away(home: House, provider: Provider) -> None:
    """Until the grace is over."""
    token = home.session()["refresh_token"]
    provider.status = 503
    for _ in range(2):
        aged(home, renewed=0.0)
        answer = home.refresh(token)
        assert answer.status == 200
        token = answer.json["refresh_token"]
    aged(home, renewed=0.0, failing=time.time() - 3700)
    assert home.refresh(token).status == 401
    provider.status = 0
    answer = home.refresh(token)
    assert answer.status == 200
    aged(home, renewed=0.0)
    provider.status = 503
    assert home.refresh(answer.json["refresh_token"]).status == 200


def test_nothing_secret_is_logged_or_passed_on(
    home: House, provider: Provider, simulator: RunningSimulator
) -> None:
    LOGGED.clear()
    simulator.app.requests.clear()
    tokens = home.session()
    ask(home.url, tokens["access_token"])
    following = home.refresh(tokens["refresh_token"]).json
    home.refresh(tokens["refresh_token"][:-4])
    ask(home.url, tokens["access_token"][:-4])
    secret = [*provider.given, "secret of the client"]
    for given in (tokens, following):
        secret += [given["access_token"], given["refresh_token"]]
    shown = [b"".join(LOGGED), repr(simulator.app.requests).encode()]
    paths = ("/requests", "/audit", "/people", "/sessions", "/config", "/usage?since=1h&by=client")
    shown += [home.admin("GET", path).body for path in paths]
    store = Path(home.gateway.app.config.storage.path or "")
    shown += [file.read_bytes() for file in store.parent.rglob("*") if file.is_file()]
    for one in secret:
        assert not any(one.encode() in text for text in shown)


def test_nobody_is_signed_out_while_the_store_is_away(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh gives a new access token, and the same refresh token."""
    token = home.session()["refresh_token"]
    sync = home.gateway.app.account_sync
    assert sync is not None
    deadline = time.monotonic() + 30
    while sync.people.session(session_of(token) or "") is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with monkeypatch.context() as patch:
        patch.setattr(PoolTables, "people", property(_away))
        for path in ("/oauth/token", "/oauth/revoke", "/oauth/device_authorization"):
            form = {"grant_type": DEVICE_GRANT, "device_code": "x", "token": token}
            assert post(home.url, path, form).status in (200, 400, 503)
        for _ in range(2):
            answer = home.refresh(token)
            assert answer.status == 200
            assert answer.json["refresh_token"] == token
            assert ask(home.url, answer.json["access_token"]).status == 200
        assert home.refresh("rt-drg-" + token[7:][::-1]).status == 401
        browser = home.browser()
        browser.get("/device")
        assert browser.submit("/device", {"user_code": "BBBB-BBBB"}).status == 503
    answer = home.refresh(token)
    assert answer.status == 200
    assert answer.json["refresh_token"] != token


def _away(tables: PoolTables) -> None:
    raise StoreError("away")


async def test_who_signs_in_while_keys_are_read_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the first sign-ins after a start, and when the provider has another key: it is read once
    for all who come meanwhile, and nobody is refused."""
    keys, reads = [RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})], []

    async def published(client: object, url: str) -> Any:
        reads.append(url)
        await asyncio.sleep(0.01)
        return {"keys": [key.as_dict(private=False) for key in keys]}

    monkeypatch.setattr(key_sets, "get_json", published)
    now = [1000.0]
    async with UpstreamClient() as client:
        key_set = key_sets.KeySet(client, lambda: now[0])
        for kid in ("one", "two"):
            if kid == "two":
                keys.append(RSAKey.generate_key(2048, {"kid": "two", "use": "sig"}))
                now[0] += 61.0
            token = jwt.encode({"alg": "RS256", "kid": kid}, {"sub": "ada"}, keys[-1]).encode()
            claims = await asyncio.gather(
                *(key_set.verified(token, "http://127.0.0.1:9/keys", ["RS256"]) for _ in range(20))
            )
            assert claims == [{"sub": "ada"}] * 20
    assert len(reads) == 2


async def test_a_provider_that_is_away_is_asked_once_however_many_sign_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, now = [], [0.0]

    async def away(client: object, issuer: str) -> Any:
        asked.append(issuer)
        await asyncio.sleep(0)
        raise ProviderAway("refused")

    monkeypatch.setattr(providers, "discovered", away)
    settings = SignIn(public_url="http://127.0.0.1:8", issuer="http://127.0.0.1:9", client_id="d")
    async with UpstreamClient() as client:
        provider = providers.Provider(settings, client, lambda: now[0])
        for _ in range(2):
            found = await asyncio.gather(
                *(provider.sign_in_url("s", "n", "v") for _ in range(20)), return_exceptions=True
            )
            assert all(isinstance(one, ProviderAway) for one in found)
            now[0] += 11.0
    assert len(asked) == 2

"""Sessions of people: what their tokens are worth, and until when."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, OKPKey

from dragoman.edge import websockets
from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import Answer, call
from tests.people.signing_in import ADA, BOB, PEOPLE, PUBLIC, House, ask, house, post
from tests.websocket.client import Socket, handshake

"""The address of several gateways."""


def revoked(home: House, token: str) -> Answer:
    return post(home.url, "/oauth/revoke", {"token": token})


def until_refused(home: House, token: str) -> Answer:
    deadline = time.monotonic() + 30
    while (answer := ask(home.url, token)).status == 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


def parts(token: str) -> list[dict[str, Any]]:
    return [json.loads(urlsafe_b64decode(one + "==")) for one in token.split(".")[:2]]


def encoded(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_refresh_gives_other_tokens_of_the_same_session(home: House) -> None:
    first = home.session()
    second = home.refresh(first["refresh_token"])
    assert second.status == 200, second.body
    assert second.json["refresh_token"] != first["refresh_token"]
    assert second.json["email"] == ADA
    for token in (first["access_token"], second.json["access_token"]):
        assert ask(home.url, token).status == 200
    sids = {parts(token)[1]["sid"] for token in
            (first["access_token"], second.json["access_token"])}  # fmt: skip
    assert len(sids) == 1


def test_twenty_that_refresh_at_once_are_given_the_same(home: House) -> None:
    """Programs share a file of tokens, and may present one at the same time."""
    token = home.session()["refresh_token"]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(home.refresh, [token] * 20))
    assert [answer.status for answer in answers] == [200] * 20
    following = {answer.json["refresh_token"] for answer in answers}
    assert len(following) == 1
    assert all(ask(home.url, answer.json["access_token"]).status == 200 for answer in answers)
    assert home.refresh(following.pop()).status == 200


def test_two_gateways_give_one_successor(
    simulator: RunningSimulator, own_provider: Provider, tmp_path: Path
) -> None:
    """Whichever of several on one store is asked, by however many at once, a token has one
    successor; who steals the old one and comes too late ends the session, and that is audited."""
    store = tmp_path / "store.db"
    with (
        house(simulator.base_url, store, own_provider, public_url=PUBLIC) as one,
        house(simulator.base_url, store, own_provider, public_url=PUBLIC) as other,
        ThreadPoolExecutor(20) as pool,
    ):
        first = one.session()["refresh_token"]
        answers = list(pool.map(lambda home: home.refresh(first), [one, other] * 10))
        assert [answer.status for answer in answers] == [200] * 20
        (following,) = {answer.json["refresh_token"] for answer in answers}
        third = other.refresh(following).json["refresh_token"]
        assert one.refresh(first).status == 401
        assert (one.refresh(third).status, other.refresh(third).status) == (401, 401)
        assert ("reuse refresh_token", ADA) in other.audited()
        assert len(one.admin("GET", "/sessions").json["sessions"]) == 0


def test_a_token_that_was_replaced_twice_ends_its_session(home: House) -> None:
    first = home.session(BOB)
    second = home.refresh(first["refresh_token"]).json
    third = home.refresh(second["refresh_token"]).json
    answer = home.refresh(first["refresh_token"])
    assert (answer.status, answer.json["error"]) == (401, "invalid_grant")
    assert ("reuse refresh_token", BOB) in home.audited()
    assert home.refresh(third["refresh_token"]).status == 401
    until_refused(home, third["access_token"])


def test_a_forged_refresh_token_ends_nothing(home: House) -> None:
    """The session's id stands in access tokens, which are shown to more than refresh tokens."""
    tokens = home.session()
    data = bytearray(urlsafe_b64decode(tokens["refresh_token"].removeprefix("rt-drg-") + "=="))
    data[20] ^= 1
    forged = "rt-drg-" + urlsafe_b64encode(data).decode().rstrip("=")
    assert home.refresh(forged).status == 401
    assert revoked(home, forged).status == 200
    assert home.refresh(tokens["refresh_token"]).status == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_a_revoked_session_is_refused_with_one_answer(home: House, which: str) -> None:
    """Claude Code stops at once where the answer says that it need not come again."""
    tokens = home.session()
    assert revoked(home, tokens[which]).status == 200
    answer = until_refused(home, tokens["access_token"])
    assert answer.status == 401
    assert answer.headers["x-should-retry"] == "false"
    body = {"model": "chat/sim-text", "max_tokens": 5, "messages": []}
    key = tokens["access_token"]
    refused = call(home.url, "POST", "/v1/messages", body, key=key)
    assert refused.status == 401
    assert refused.json["error"]["type"] == "authentication_error"
    assert home.refresh(tokens["refresh_token"]).status == 401
    assert ("sign_out", ADA) in home.audited()


def test_a_realtime_session_ends_with_the_sign_out(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And with no other session of the same person; with its client secrets, too."""
    monkeypatch.setattr(websockets, "PING_S", 0.1)
    mine, other = home.session(), home.session()
    opened = [
        Socket(
            home.url,
            handshake(authorization=f"Bearer {one['access_token']}"),
            path="/v1/realtime?model=chat/sim-voice",
        )
        for one in (mine, other)
    ]
    for one in opened:
        assert one.event()["type"] == "session.created"
    path, asked = "/v1/realtime/client_secrets", {"session": {"model": "chat/sim-voice"}}
    made = [call(home.url, "POST", path, asked, key=one["access_token"]) for one in (mine, other)]
    assert revoked(home, mine["refresh_token"]).status == 200
    told = opened[0].event()
    assert (told["type"], told["error"]["code"]) == ("error", "invalid_api_key")
    assert opened[0].closed().code == 1008
    opened[1].send({"type": "response.create"})
    assert opened[1].event()["type"] == "response.created"
    for one in opened:
        one.sock.close()
    ended, good = [handshake(authorization=f"Bearer {one.json['value']}") for one in made]
    answer = call(home.url, "GET", "/v1/realtime", key=None, headers=ended)
    assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")
    with Socket(home.url, good, path="/v1/realtime"):
        pass


def test_revoking_what_is_nothing_is_no_error(home: House) -> None:
    for token in ("", "none", "a.b.c", "rt-drg-AAAA"):
        assert revoked(home, token).status == 200


def test_forged_access_tokens_are_refused(home: House) -> None:
    token = home.session()["access_token"]
    header, claims = parts(token)
    other = OKPKey.generate_key("Ed25519")
    shared = OctKey.import_key("public" * 8)
    forged = {
        "none": f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
        "unsigned": f"{encoded(header)}.{encoded(claims)}.",
        "changed": ".".join([token.split(".")[0], encoded({**claims, "email": BOB}),
                             token.split(".")[2]]),
        "other key": jwt.encode({"alg": "Ed25519", "kid": header["kid"]}, claims, other,
                                algorithms=["Ed25519"]),
        "shared key": jwt.encode({"alg": "HS256", "kid": header["kid"]}, claims, shared),
        "own key": jwt.encode({"alg": "Ed25519", "jwk": other.as_dict(private=False)}, claims,
                              other, algorithms=["Ed25519"]),
        "no kid": f"{encoded({'alg': 'EdDSA'})}.{encoded(claims)}.{token.split('.')[2]}",
    }  # fmt: skip
    for name, one in forged.items():
        answer = ask(home.url, one)
        assert answer.status == 401, name
        assert one.encode() not in answer.body
    assert ask(home.url, token).status == 200


def test_one_is_looked_up_on_every_path_for_bearers(home: House) -> None:
    token = home.session()["access_token"]
    for path in ("/v1/models", "/v1/key", "/v1/usage"):
        assert call(home.url, "GET", path, key=token).status == 200
    for header in ("authorization", "x-api-key"):
        value = f"Bearer {token}" if header == "authorization" else token
        assert call(home.url, "GET", "/v1/key", None, {header: value}, key=None).status == 200
    assert call(home.url, "GET", "/admin/accounts", key=token).status == 401


@pytest.fixture
def own_provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


def test_sessions_outlive_a_restart(
    simulator: RunningSimulator, own_provider: Provider, tmp_path: Path
) -> None:
    store = tmp_path / "store.db"
    with house(simulator.base_url, store, own_provider, public_url=PUBLIC) as before:
        tokens = before.session()
    with house(simulator.base_url, store, own_provider, public_url=PUBLIC) as after:
        assert ask(after.url, tokens["access_token"]).status == 200
        assert after.refresh(tokens["refresh_token"]).status == 200


def test_another_gateway_on_the_same_store_knows_a_session_at_once(
    simulator: RunningSimulator, own_provider: Provider, tmp_path: Path
) -> None:
    store = tmp_path / "store.db"
    with (
        house(simulator.base_url, store, own_provider, public_url=PUBLIC) as one,
        house(simulator.base_url, store, own_provider, public_url=PUBLIC) as other,
    ):
        tokens = one.session()
        assert ask(other.url, tokens["access_token"]).status == 200
        refreshed = other.refresh(tokens["refresh_token"])
        assert refreshed.status == 200
        assert ask(one.url, refreshed.json["access_token"]).status == 200
        revoked(other, tokens["access_token"])
        assert until_refused(one, tokens["access_token"]).status == 401


def test_usage_and_the_log_name_the_person(home: House) -> None:
    token = home.session()["access_token"]
    assert ask(home.url, token).status == 200
    deadline = time.monotonic() + 30
    while not home.admin("GET", f"/usage?since=1h&by=client&client={ADA}").json["rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    logged = home.admin("GET", "/requests?limit=5").json["rows"]
    assert any(ADA in str(row) for row in logged)

"""Tokens of other issuers in place of keys, and every refusal of one."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from msgspec.structs import replace

from dragoman.config import Config, ConfigError, Team, parse_config
from dragoman.config.access_rules import SignInRule
from dragoman.config.sign_in import JwtIssuer
from dragoman.keys.ring import KeyRing
from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.sign_in import issuers
from dragoman.sign_in.key_sets import ProviderAway
from dragoman.upstream.client import UpstreamClient
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.people.signing_in import PEOPLE, ask

AUDIENCE = "llm-gateway"
Signs = Callable[[Provider, dict[str, Any]], str]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


def settings(upstream: str, issuer: Provider, **more: Any) -> Config:
    given = {
        "name": "ci",
        "issuer": issuer.url,
        "audience": AUDIENCE,
        "rules": (
            SignInRule(groups=("builds",)),
            SignInRule(groups=("small",), models=("chat/sim-text",)),
        ),
        **more,
    }
    return replace(config_for(upstream), clients=(), jwt_issuers=(JwtIssuer(**given),))


@pytest.fixture(scope="module")
def gateway(simulator: RunningSimulator, issuer: Provider) -> Iterator[RunningGateway]:
    with running_gateway(settings(simulator.base_url, issuer)) as running:
        yield running


def claims(issuer: Provider, **changed: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {
        "iss": issuer.url,
        "aud": AUDIENCE,
        "sub": "repo:shop",
        "groups": ["builds"],
        "iat": now,
        "exp": now + 300,
        **changed,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(issuer: Provider, made: dict[str, Any], **header: Any) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one", **header}, made, issuer.key)


def error(answer: Answer) -> str:
    message: str = answer.json["error"]["message"]
    return message


def test_a_token_is_a_client_by_its_rule(gateway: RunningGateway, issuer: Provider) -> None:
    token = signed(issuer, claims(issuer))
    assert ask(gateway.base_url, token).status == 200
    told = call(gateway.base_url, "GET", "/v1/key", key=token).json
    assert told["name"] == "ci:repo:shop"
    small = signed(issuer, claims(issuer, sub="other", groups="small"))
    assert ask(gateway.base_url, small).status == 200
    assert ask(gateway.base_url, small, "messages/sim-text").status != 200
    lesser = signed(issuer, claims(issuer, groups=["small"]))
    assert ask(gateway.base_url, lesser, "messages/sim-text").status != 200
    assert ask(gateway.base_url, token, "messages/sim-text").status == 200


def test_a_claim_names_the_team(simulator: RunningSimulator, issuer: Provider) -> None:
    """It takes precedence over the rule's; a team that does not exist may not call."""
    rules = (SignInRule(groups=("builds",), team="shop"),)
    made = settings(simulator.base_url, issuer, team_claim="unit", rules=rules)
    teams = (Team(name="shop"), Team(name="few", models=("chat/sim-text",)))
    with running_gateway(replace(made, teams=teams)) as running:
        for unit, statuses in (
            ("few", (200, 404)),
            (None, (200, 200)),
            (["few"], (200, 200)),
            ("nobody", (401, 401)),
        ):
            token = signed(issuer, claims(issuer, unit=unit))
            models = ("chat/sim-text", "messages/sim-text")
            found = tuple(ask(running.base_url, token, model).status for model in models)
            assert found == statuses, unit


def test_a_known_token_costs_no_signature_and_no_network(
    gateway: RunningGateway, issuer: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.sign_in import issuers

    token = signed(issuer, claims(issuer, sub="known"))
    assert ask(gateway.base_url, token).status == 200

    def never(*_: object) -> None:
        raise AssertionError("verified again")

    monkeypatch.setattr(issuers, "verified", never)
    gateway.app._services.keys._seen.clear()
    for _ in range(3):
        assert ask(gateway.base_url, token).status == 200


def head(**members: Any) -> str:
    return urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


def with_duplicates(issuer: Provider, made: dict[str, Any]) -> str:
    text = json.dumps(made)[:-1] + ', "aud": "other"}'
    body = urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return f"{head(alg='RS256', kid='one')}.{body}.AAAA"


NOW = int(time.time())
REFUSED: dict[str, tuple[Signs, str]] = {
    "alg none": (lambda one, made: f"{head(alg='none')}.{signed(one, made).split('.')[1]}.",
                 "is not signed"),
    "hmac": (lambda one, made: jwt.encode({"alg": "HS256", "kid": "one"}, made,
                                          OctKey.import_key("secret" * 8)), "shared secret"),
    "algorithm": (lambda one, made: jwt.encode({"alg": "PS256", "kid": "one"}, made, one.key,
                                               algorithms=["PS256"]), "not allowed"),
    "jwk": (lambda one, made: signed(one, made, jwk=one.key.as_dict(private=False)),
            "brings its own key"),
    "jku": (lambda one, made: signed(one, made, jku="http://127.0.0.1:1/keys"),
            "brings its own key"),
    "x5u": (lambda one, made: signed(one, made, x5u="http://127.0.0.1:1/keys"),
            "brings its own key"),
    "crit": (lambda one, made: ".".join([head(alg="RS256", kid="one", crit=["exp"]),
                                         *signed(one, made).split(".")[1:]]), "crit"),
    "duplicate": (with_duplicates, "a member twice"),
    "type of key": (lambda one, made: jwt.encode({"alg": "ES256", "kid": "one"}, made,
                                                 ECKey.generate_key("P-256")),
                    "does not publish"),
    "unknown key": (lambda one, made: jwt.encode({"alg": "RS256", "kid": "x"}, made,
                                                 RSAKey.generate_key(2048)), "does not publish"),
    "signature": (lambda one, made: jwt.encode({"alg": "RS256", "kid": "one"}, made,
                                               RSAKey.generate_key(2048)), "wrong signature"),
    "audience": (lambda one, made: signed(one, {**made, "aud": "other"}), "another audience"),
    "no expiry": (lambda one, made: signed(one, claims(one, exp=None)), "no time of expiry"),
    "expired": (lambda one, made: signed(one, {**made, "exp": NOW - 61}), "has expired"),
    "future": (lambda one, made: signed(one, {**made, "nbf": NOW + 3600}), "from the future"),
    "nobody": (lambda one, made: signed(one, {**made, "sub": None}), "names nobody"),
    "times": (lambda one, made: signed(one, {**made, "nbf": "x"}), "no signed JWT"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(gateway: RunningGateway, issuer: Provider, name: str) -> None:
    make, reason = REFUSED[name]
    token = make(issuer, claims(issuer))
    answer = ask(gateway.base_url, token)
    assert answer.status == 401, answer.body
    assert reason in error(answer)
    assert token not in error(answer)


def test_what_no_rule_lets_call(gateway: RunningGateway, issuer: Provider) -> None:
    answer = ask(gateway.base_url, signed(issuer, claims(issuer, groups=["others"])))
    assert answer.status == 403


@pytest.mark.parametrize("end", ["/", "x"])
def test_another_issuer_is_no_issuer(gateway: RunningGateway, issuer: Provider, end: str) -> None:
    token = signed(issuer, claims(issuer, iss=issuer.url + end))
    assert "not valid for this gateway" in error(ask(gateway.base_url, token))


def test_too_long_a_token(gateway: RunningGateway, issuer: Provider) -> None:
    token = signed(issuer, claims(issuer, groups=["x" * 20_000]))
    answer = ask(gateway.base_url, token)
    assert answer.status == 401
    assert "16 KiB" in error(answer)


def test_refusals_are_counted(gateway: RunningGateway, issuer: Provider) -> None:
    ask(gateway.base_url, signed(issuer, claims(issuer, aud="counted")))
    text = call(gateway.base_url, "GET", "/metrics", key=None).body.decode()
    assert 'dragoman_refused_tokens_total{reason="audience"}' in text


def test_keys_that_cannot_be_read_are_no_fault_of_the_client(
    simulator: RunningSimulator, issuer: Provider
) -> None:
    away = settings(simulator.base_url, issuer, jwks_url="http://127.0.0.1:1/keys")
    with running_gateway(away) as running:
        assert ask(running.base_url, signed(issuer, claims(issuer))).status == 503


FAULTS = [
    ('issuer = "http://issuer.example"', "issuer: must be https://"),
    ('issuer = "https://a.example"\njwks_url = "http://a.example/keys"', "jwks_url: must be"),
    ('issuer = "https://a.example"\nalgorithms = ["HS256"]', "algorithms"),
    ('issuer = "https://a.example"\nalgorithms = []', "algorithms: none is allowed"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_settings_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(f'[[jwt_issuers]]\nname = "ci"\naudience = "a"\n{text}')
    assert message in str(refused.value)


async def test_an_issuer_that_is_away_is_asked_once_however_many_name_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def away(client: object, issuer: str) -> Any:
        asked.append(issuer)
        await asyncio.sleep(0)
        raise ProviderAway("refused")

    monkeypatch.setattr(issuers, "discovered", away)
    one = JwtIssuer(name="ci", issuer="http://127.0.0.1:9", audience="d")
    forged = b"e30.%s.x" % urlsafe_b64encode(b'{"iss": "http://127.0.0.1:9"}').rstrip(b"=")
    async with UpstreamClient() as client:
        known = issuers.JwtIssuers([one], client, KeyRing(), lambda reason: None)
        for _ in range(2):
            await asyncio.gather(*(known.fetch(forged) for _ in range(20)))
    assert len(asked) == 1


def test_clients_that_an_issuer_names_are_bounded(
    gateway: RunningGateway, issuer: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "_MOST_CLIENTS", 3)
    tokens = [signed(issuer, claims(issuer, sub=f"branch-{number}")) for number in range(8)]
    for token in [*tokens, tokens[0]]:
        assert ask(gateway.base_url, token).status == 200
        assert gateway.app._services.keys.count <= 3

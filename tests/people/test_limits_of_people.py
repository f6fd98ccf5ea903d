"""A gateway without keys, whose people are limited like keys, and its refusals at start."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import ConfigError, parse_config
from dragoman.config.access_rules import SignInRule
from dragoman.config.limits import Limit
from dragoman.lab.provider import Provider
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import call
from tests.people.signing_in import ADA, BOB, ask, house


def test_a_rule_limits_each_person_by_itself(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    limit = Limit(kind="requests", amount="2", window="day")
    rules = (SignInRule(limits=(limit,)),)
    with house(simulator.base_url, tmp_path / "s.db", provider, rules=rules) as home:
        ada, bob = home.session(ADA)["access_token"], home.session(BOB)["access_token"]
        answers = [ask(home.url, ada) for _ in range(3)]
        assert [one.status for one in answers] == [200, 200, 429]
        assert "requests of this account per day" in answers[-1].json["error"]["message"]
        assert ask(home.url, bob).status == 200
        other = home.session(ADA)["access_token"]
        assert ask(home.url, other).status == 429
        told = call(home.url, "GET", "/v1/key", key=ada).json
        assert told["limits"][0]["remaining"] == 0


def test_nobody_calls_without_signing_in(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    with house(simulator.base_url, tmp_path / "s.db", provider) as home:
        assert call(home.url, "GET", "/v1/models", key=None).status == 401
        assert ask(home.url, "sk-none").status == 401


def test_over_https_no_other_host_can_set_the_cookie(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    public = "https://llm.example.com"
    with house(simulator.base_url, tmp_path / "s.db", provider, public_url=public) as home:
        cookie = home.browser().get("/device").headers["set-cookie"]
        assert cookie.startswith("__Host-dragoman_sign_in=")
        assert cookie.endswith("; Secure")
        begun = home.begin()
        assert begun["verification_uri"] == f"{public}/device"
        assert home.approve(begun, ADA).status == 200
        assert home.poll(begun).status == 200


def test_wrong_codes_of_an_address_are_few(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    with house(simulator.base_url, tmp_path / "s.db", provider) as home:
        begun, browser = home.begin(), home.browser()
        browser.get("/device")
        statuses = [
            browser.submit("/device", {"user_code": f"BBBB-BBB{sign}"}).status
            for sign in "BCDFGHJKLMNPQRSTVWXZ"
        ]
        assert statuses == [400] * 20
        assert browser.submit("/device", {"user_code": begun["user_code"]}).status in (403, 429)
        browser.get("/device")
        assert browser.submit("/device", {"user_code": begun["user_code"]}).status == 429


WHOLE = {
    "public_url": '"https://llm.example.com"',
    "issuer": '"https://login.example.com"',
    "client_id": '"dragoman"',
    "rules": '[{ domains = ["example.com"] }]',
}
FAULTS = [
    ({"public_url": '"http://llm.example.com"'}, "public_url: must be https://"),
    ({"public_url": '"https://llm.example.com/base"'}, "public_url: must have no path"),
    ({"issuer": '"http://login.example.com"'}, "issuer: must be https://"),
    ({"issuer": '"https://u:p@login.example.com"'}, "issuer: must be https://"),
    ({"scopes": '["email"]'}, "scopes: openid is required"),
    ({"login_notice": f'"{"x" * 501}"'}, "login_notice"),
    ({"token_s": "599"}, "token_s"),
    ({"rules": '[{ limits = [{ kind = "cost", amount = 1 }] }]'}, "sign_in.rules"),
    ({"rules": '[{ upstreams = ["none"] }]'}, "no upstream named none"),
    ({"client_id": ""}, "client_id"),
]


@pytest.mark.parametrize(("changed", "message"), FAULTS)
def test_settings_that_are_refused(changed: dict[str, str], message: str) -> None:
    settings = {name: value for name, value in {**WHOLE, **changed}.items() if value}
    text = "[storage]\nkey = 'a key of the store'\n[sign_in]\n"
    text += "\n".join(f"{name} = {value}" for name, value in settings.items())
    with pytest.raises(ConfigError) as refused:
        parse_config(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("storage", "message"),
    [("", "storage.key"), ('key = "a key of the store"\npath = ""', "needs a store")],
)
def test_it_needs_a_store_and_its_key(storage: str, message: str) -> None:
    text = f"[storage]\n{storage}\n[sign_in]\n"
    text += "\n".join(f"{name} = {value}" for name, value in WHOLE.items())
    with pytest.raises(ConfigError) as refused:
        parse_config(text)
    assert message in str(refused.value)

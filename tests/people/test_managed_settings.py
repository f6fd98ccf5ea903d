"""What Claude Code is told of a person's settings, and what a person would be given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import StoreError
from dragoman.config import Client, Config, OwnPrice, Route, Secret, Team, Telemetry, parse_config
from dragoman.config.access_rules import SignInRule
from dragoman.config.errors import ConfigError
from dragoman.config.mcp import McpServer
from dragoman.lab.provider import Provider
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from dragoman.storage.tables.pool import PoolTables
from tests.gateway.http import KEY, Answer, call
from tests.people.signing_in import ADA, BOB, EVE, House, config

PATH = "/managed/settings"
SHARED = {"permissions": {"deny": ["WebFetch"], "allow": ["Read"]}, "env": {"A": "1"}}
RULES = (
    SignInRule(
        groups=("engineers",),
        team="eng",
        managed_settings={"permissions": {"deny": ["Bash(sudo:*)"]}, "model": "large"},
    ),
    SignInRule(domains=("example.com",), models=("small",)),
    SignInRule(emails=(EVE,), team="none"),
)
ROUTES = (
    Route(match="small", upstream="chat", model="sim-text", label="Small", description="Cheap."),
    Route(match="large", upstream="messages", model="sim-text", behaves_as="claude-opus-4-7"),
)


def settings(upstream: str, store: Path, provider: Provider, **more: Any) -> Config:
    return replace(
        config(upstream, store, provider, rules=RULES, **more),
        clients=(Client(name="key", key=Secret(KEY)),),
        teams=(Team(name="eng"),),
        routes=ROUTES,
        prices=(OwnPrice(model="sim-text", input="1", output="5", cached="0.1"),),
        managed_settings=SHARED,
        mcp_servers=(
            McpServer(name="tickets", url="https://tickets.example.com/mcp"),
            McpServer(name="wiki", url="https://wiki.example.com", tools=(), teams={"eng": ("*",)}),
        ),
        telemetry=Telemetry(forward_to=Secret("http://127.0.0.1:1")),
    )


HTTPS = "https://llm.example.com"
"""Claude Code takes no MCP servers of another scheme from managed settings."""


@pytest.fixture(scope="module")
def home(
    simulator: RunningSimulator, provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    store = tmp_path_factory.mktemp("managed") / "store.db"
    made = settings(simulator.base_url, store, provider, public_url=HTTPS)
    with running_gateway(made) as running:
        yield House(provider, running.base_url, HTTPS, gateway=running)


def told(home: House, token: str, **headers: str) -> Answer:
    return call(home.url, "GET", PATH, None, headers, key=token)


def test_people_get_the_settings_of_their_rule(home: House) -> None:
    ada = home.session(ADA)["access_token"]
    answer = told(home, ada)
    assert answer.status == 200
    assert answer.headers["etag"] == f'"{answer.json["checksum"]}"'
    found = answer.json["settings"]
    assert found["permissions"] == {"deny": ["WebFetch", "Bash(sudo:*)"], "allow": ["Read"]}
    assert found["env"]["A"] == "1"
    assert found["model"] == "large"
    assert [one["model"] for one in found["modelPicker"]["options"]] == ["small", "large"]
    assert found["modelPicker"]["options"][1]["behavesAs"] == "claude-opus-4-7"
    assert found["modelPricing"]["overrides"]["small"] == {
        "input": 1,
        "output": 5,
        "cacheRead": 0.1,
        "cacheWrite": 1,
    }

    found = told(home, home.session(BOB)["access_token"]).json["settings"]
    assert found["permissions"] == SHARED["permissions"]
    assert found["modelPicker"]["options"] == [
        {
            "model": "small",
            "label": "Small",
            "description": "Cheap.",
            "behavesAs": "claude-sonnet-4-5",
        }
    ]
    assert (found["model"], found["availableModels"]) == ("small", ["small"])
    keyed = told(home, KEY).json["settings"]
    assert keyed["availableModels"] == ["small", "large"]


def test_agents_are_led_to_mcp_servers_and_telemetry(home: House) -> None:
    ada, bob = (
        told(home, home.session(one)["access_token"]).json["settings"] for one in (ADA, BOB)
    )
    assert ada["managedMcpServers"]["wiki"] == {"type": "http", "url": f"{home.public}/mcp/wiki"}
    assert list(ada["managedMcpServers"]) == ["tickets", "wiki"]
    assert list(bob["managedMcpServers"]) == ["tickets"]
    assert ada["env"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == home.public
    assert len(ada["env"]) == 1 + 6


def test_settings_that_are_known_are_not_sent_again(home: House) -> None:
    token = home.session(ADA)["access_token"]
    first = told(home, token)
    again = told(home, token, **{"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    for tag in ("*", '"sha256:other"', ""):
        other = told(home, token, **{"if-none-match": tag})
        assert (other.status, other.json) == (200, first.json)


def test_a_dead_session_is_refused_and_none_is_none(
    home: House, simulator: RunningSimulator
) -> None:
    opened = home.session(BOB)
    assert home.admin("POST", f"/people/{BOB}/revoke", {}).status == 200
    refused = told(home, opened["access_token"])
    assert refused.status == 401
    from tests.gateway.conftest import config_for

    with running_gateway(config_for(simulator.base_url)) as running:
        assert call(running.base_url, "GET", PATH, key=KEY).status == 404
        assert call(running.base_url, "GET", PATH, key="wrong").status == 401


def test_settings_are_told_from_memory(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    token = home.session(ADA)["access_token"]

    def away(tables: PoolTables) -> None:
        raise StoreError("away")

    with monkeypatch.context() as patch:
        patch.setattr(PoolTables, "people", property(away))
        assert told(home, token).status == 200


def test_who_would_get_what(home: House) -> None:
    query = "/people/explain?email=New@example.com&groups=others,engineers"
    found = home.admin("GET", query).json
    assert (found["state"], found["rule"], found["team"]) == ("active", 1, "eng")
    assert found["models"] == ["small", "large"]
    assert found["managed_settings"]["model"] == "large"
    found = home.admin("GET", "/people/explain?email=new@example.com").json
    assert (found["rule"], found["models"]) == (2, ["small"])
    found = home.admin("GET", f"/people/explain?email={EVE}").json
    assert found["state"] == "refused"
    assert "none" in found["reason"]
    found = home.admin("GET", "/people/explain?email=who@else.example").json
    assert (found["state"], found["rule"]) == ("refused", None)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[managed_settings]\nsince = 2027-01-01", "managed_settings.since"),
        ("[managed_settings.env]\nA = 1", "managed_settings.env.A"),
        ("[managed_settings]\nlimits = [1.5, nan]", "managed_settings.limits[1]"),
    ],
)
def test_what_json_does_not_have_is_refused(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(text)
    assert [problem.key for problem in refused.value.problems] == [key]

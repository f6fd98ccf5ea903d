"""What may be configured of MCP servers, how they are listed, and how tokens are obtained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.config import ConfigError, Secret, parse_config
from dragoman.config.credentials import OAuthCredentials
from dragoman.lab.simulator.authority import Authority
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.mcp.serving import desk
from tests.mcp.stub import Handler, Stub

SERVER = '[[mcp_servers]]\nname = "tickets"\nurl = "https://tickets.example.com/mcp"\n'
OAUTH = 'credentials = { kind = "oauth2", token_url = "https://login.example.com/token" }\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SERVER + SERVER, "already the name"),
        (SERVER.replace("https", "ftp"), "one of the schemes"),
        (SERVER.replace("//", "//user:pw@"), "does not belong in the URL"),
        (SERVER + 'key = "a-key"\n' + OAUTH, "excludes key"),
        (SERVER + OAUTH.replace(" }", ', grant = "refresh_token" }'), "needs a [storage]"),
        (SERVER + 'credentials = { kind = "aws" }\n', "expected one of oauth2, command"),
        (
            SERVER + 'credentials = { kind = "command", command = ["x"], output = "aws" }\n',
            "not signed",
        ),
        (SERVER + 'command = "npx"\n', "unknown key"),
    ],
)
def test_what_cannot_work_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert problem in str(caught.value)


def test_a_team_that_is_nowhere_is_warned_of() -> None:
    loaded = parse_config(SERVER + 'teams = { nobody = ["*"] }\n')
    assert any("mcp_servers[0].teams.nobody" in one.key for one in loaded.warnings)


def test_the_command_lists_servers_of_a_gateway_that_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(SERVER + 'tools = ["get_*"]\nteams = { support = ["*"] }\n' + OAUTH)
    done = CliRunner().invoke(main, ["mcp", "list", "--config", str(file)])
    assert done.exit_code == 0, done.output
    assert "tickets.example.com" in done.output
    assert "get_*; support: *" in done.output
    assert "tokens of an authorisation server (client_credentials)" in done.output
    listed = CliRunner().invoke(main, ["mcp", "list", "--config", str(file), "--json"])
    assert json.loads(listed.output)[0]["calls"] == 0


@pytest.fixture
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        running.app.authority = Authority()
        yield running


def test_tokens_are_obtained_here_and_replaced_when_the_server_refuses_one(
    stub: Stub, simulator: RunningSimulator
) -> None:
    credentials = OAuthCredentials(
        token_url=f"{simulator.base_url}/oauth/token",
        client_id="gw",
        client_secret=Secret("oauth-secret"),
        fields={"resource": stub.url},
    )
    seen: list[str] = []

    def refuse_the_first(handler: Handler, message: object) -> None:
        seen.append(handler.headers["authorization"])
        handler.reply(b"", status=401 if len(set(seen)) == 1 else 202)

    stub.answers["picky"] = refuse_the_first
    with desk(stub, key=None, credentials=credentials) as running:
        assert running.ask("ping").status == 200
        assert running.call("picky").status == 202
        first, second = seen
        assert first.startswith("Bearer ")
        assert second.startswith("Bearer ")
        assert first != second
        stub.answers["picky"] = lambda handler, message: handler.reply(b"", status=401)
        assert running.call("picky").status == 502


def test_without_a_token_nothing_is_sent(stub: Stub, simulator: RunningSimulator) -> None:
    credentials = OAuthCredentials(
        token_url=f"{simulator.base_url}/oauth/token", client_id="gw", client_secret=Secret("wrong")
    )
    before = len(stub.received)
    with desk(stub, key=None, credentials=credentials) as running:
        answer = running.ask("initialize")
    assert answer.status == 502
    assert "has no credential for the MCP server tickets" in answer.json["error"]["message"]
    assert len(stub.received) == before

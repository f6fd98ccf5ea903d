"""The real Claude Code signs in with the company's account."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.installed import package
from tests.clients.programs import usual_environment
from tests.clients.terminal import DOWN, ENTER, terminal
from tests.people.signing_in import ADA, LOGGED, PEOPLE, House, house

MODEL = "messages/sim-text"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


class ClaudeCode:
    """Claude Code with a home of its own, told to sign in at a gateway."""

    def __init__(self, folder: Path, url: str) -> None:
        self.home, self.work = folder / "home", folder / "work"
        settings = {"forceLoginMethod": "gateway", "forceLoginGatewayUrl": url}
        (self.home / ".claude").mkdir(parents=True)
        self.work.mkdir()
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        self.words = [str(package("@anthropic-ai/claude-code", "bin/claude.exe"))]
        self.environment = {
            **usual_environment(self.home),
            "TERM": "xterm-256color",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        self.environment.pop("CI", None)

    def sign_in(self, home: House, email: str) -> None:
        """Sign in by the device flow, as somebody."""
        with terminal(self.words, self.work, self.environment) as shown:
            shown.until("text style")
            shown.press(ENTER)
            shown.until("Enter to connect")
            shown.press(ENTER)
            shown.until("Trust gateway")
            shown.press(DOWN, ENTER)
            code = shown.until(r"Code: ([A-Z]{4}-[A-Z]{4}).*Be kind\.")[1]
            assert home.approve({"user_code": code}, email).status == 200
            shown.until(f"Signed in to Cloud gateway as {email}")
            shown.press(DOWN, ENTER)
            shown.until("Connected to Cloud gateway")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it once, to its end."""
        return subprocess.run(
            [*self.words, *words],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def turn(self) -> subprocess.CompletedProcess[str]:
        """One turn."""
        return self.run("-p", "Say something.", "--model", MODEL)

    @property
    def tokens(self) -> dict[str, Any]:
        """What it has stored."""
        found: dict[str, Any] = json.loads(self._file.read_text())["enterpriseGateway"]
        return found

    def expires_in(self, seconds: float) -> None:
        """Let it believe that its access token expires so soon."""
        stored = json.loads(self._file.read_text())
        stored["enterpriseGateway"]["expiresAt"] = int((time.time() + seconds) * 1000)
        self._file.write_text(json.dumps(stored))

    @property
    def _file(self) -> Path:
        return self.home / ".claude" / ".credentials.json"


def logged(route: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in LOGGED if line.startswith(b"{")]
    return [line for line in lines if line["route"] == route]


@pytest.mark.slow
def test_claude_code_signs_in_and_out(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    """A1 to A4, A8 to A11, A15: device flow, a turn, a restart of the gateway, a refresh, logout,
    and a person who was removed."""
    LOGGED.clear()
    store = tmp_path / "store.db"
    with house(simulator.base_url, store, provider) as home:
        port = home.gateway.port
        program = ClaudeCode(tmp_path, home.url)
        program.sign_in(home, ADA)
        assert program.tokens["email"] == ADA
        assert program.turn().returncode == 0
        assert logged("POST /v1/messages")[-1]["client"] == ADA
    with house(simulator.base_url, store, provider, port=port) as home:
        before = program.tokens
        program.expires_in(200)
        assert program.turn().returncode == 0
        assert program.tokens["idpRefreshToken"] != before["idpRefreshToken"]
        assert logged("POST /oauth/token")[-1]["status"] == 200
        assert program.run("auth", "logout").returncode == 0
        assert len(logged("POST /oauth/revoke")) == 2
        assert home.admin("GET", "/sessions").json["sessions"] == []
        assert home.refresh(before["idpRefreshToken"]).status == 401

        program.sign_in(home, ADA)
        assert home.admin("POST", f"/people/{ADA}/disable").status == 200
        requests = len(logged("POST /v1/messages"))
        refused = program.turn()
        assert refused.returncode == 1
        assert "sign in again" in refused.stdout
        assert [line["status"] for line in logged("POST /v1/messages")[requests:]] == [401]

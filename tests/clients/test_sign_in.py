"""The real Claude Code and Codex sign in with the company's account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.signed_in import ClaudeCode, Codex, logged
from tests.people.signing_in import ADA, LOGGED, PEOPLE, house


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


@pytest.mark.slow
def test_claude_code_signs_in_and_out(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    """Device flow, a turn, a restart of the gateway, a refresh, logout,
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
        assert "sign in again" in refused.stderr
        assert logged("GET /managed/settings")[-1]["status"] == 401
        assert logged("POST /v1/messages")[requests:] == []


@pytest.mark.slow
@pytest.mark.parametrize("by_device", [False, True], ids=["browser", "device"])
def test_codex_signs_in(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path, by_device: bool
) -> None:
    """The browser, or a code; a turn; a refresh; and a person who is refused."""
    LOGGED.clear()
    with house(simulator.base_url, tmp_path / "store.db", provider) as home:
        program = Codex(tmp_path, home.url)
        program.sign_in(home, ADA, by_device=by_device)
        assert program.turn().returncode == 0
        assert logged("POST /v1/responses")[-1]["client"] == ADA
        refreshes = len(logged("POST /oauth/token"))
        program.expire()
        assert program.turn().returncode == 0
        assert [line["status"] for line in logged("POST /oauth/token")[refreshes:]] == [200]
        assert home.admin("POST", f"/people/{ADA}/disable").status == 200
        assert program.turn().returncode != 0

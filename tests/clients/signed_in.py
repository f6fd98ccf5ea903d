"""The real Claude Code and Codex, each with a home of its own, signed in at a gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.installed import node, package
from tests.clients.programs import usual_environment
from tests.clients.terminal import DOWN, ENTER, terminal
from tests.gateway.http import call
from tests.people.signing_in import LOGGED, House
from tests.upstream.servers import free_port

MODEL = "messages/sim-text"


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

    def begun_before(self) -> None:
        """Let it believe that its first questions were answered: style, and trust in the folder."""
        file = self.home / ".claude.json"
        stored = json.loads(file.read_text()) if file.exists() else {}
        stored |= {"hasCompletedOnboarding": True, "theme": "dark"}
        stored["projects"] = {str(self.work): {"hasTrustDialogAccepted": True}}
        file.write_text(json.dumps(stored))

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


class Codex:
    """Codex with a home of its own, and the settings of the page on people."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.home = folder, folder / "codex"
        self.home.mkdir()
        page = (Path(__file__).parents[2] / "docs/people.md").read_text()
        written = re.findall(r"```toml\n(model_provider.*?)```", page, re.DOTALL)[0]
        text = written.replace("http://127.0.0.1:8080", url).replace("14551", str(free_port()))
        text = f'model = "responses/sim-text"\ncheck_for_update_on_startup = false\n{text}'
        (self.home / "config.toml").write_text(f'{text}credentials_store = "file"\n')
        self.words = [node(), str(package("@openai/codex", "bin/codex.js"))]
        self.environment = {**usual_environment(folder), "CODEX_HOME": str(self.home)}

    def sign_in(self, home: House, email: str, *, by_device: bool) -> None:
        """Sign in as somebody, by its app server."""
        server = subprocess.Popen(
            [*self.words, "app-server"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        kill = threading.Timer(120, server.kill)
        kill.start()
        try:
            client = {"clientInfo": {"name": "test", "version": "1"},
                      "capabilities": {"experimentalApi": True}}  # fmt: skip
            login = {"modelProvider": "house", "deviceAuth": by_device}
            for message in (
                {"id": 1, "method": "initialize", "params": client},
                {"method": "initialized"},
                {"id": 2, "method": "account/gatewayOAuth/login", "params": login},
            ):
                server.stdin.write(json.dumps(message) + "\n")
                server.stdin.flush()
            done = False
            for line in server.stdout:
                if by_device and not done and (code := re.search(r'"([A-Z]{4}-[A-Z]{4})"', line)):
                    done = True
                    assert home.approve({"user_code": code[1]}, email).status == 200
                url = json.loads(line).get("params", {}).get("authUrl") or ""
                if not by_device and "/oauth/authorize?" in url:
                    browser = home.browser()
                    browser.sign_in(browser.get(url.removeprefix(home.url)), email)
                    sent = browser.submit("/oauth/approve", {"decision": "approve"})
                    back = urlsplit(sent.headers["location"])
                    own = f"http://{back.netloc}"
                    assert call(own, "GET", f"{back.path}?{back.query}", key=None).status == 200
                if '"succeeded"' in line:
                    return
            pytest.fail("Codex did not sign in")
        finally:
            kill.cancel()
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.communicate()

    def turn(self) -> subprocess.CompletedProcess[str]:
        """One turn."""
        return subprocess.run(
            [*self.words, "exec", "--skip-git-repo-check", "Say something."],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def expire(self) -> None:
        """Let it believe that its access token has expired."""
        file = self.home / "secrets" / "gateway_oauth.json"
        text, count = re.subn(r'"expires_at":\s*\d+', '"expires_at":1000', file.read_text())
        assert count == 1
        file.write_text(text)

"""The real Claude Code and Codex show what is left of a budget, and stop with our words at its
end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import OwnPrice
from dragoman.config.access_rules import SignInRule
from dragoman.lab.provider import serving
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.clients.installed import node, package
from tests.clients.programs import usual_environment
from tests.clients.signed_in import MODEL, ClaudeCode
from tests.clients.terminal import ENTER, ESCAPE, Terminal, terminal
from tests.gateway import limited
from tests.gateway.http import KEY, call
from tests.gateway.processes import until
from tests.people.signing_in import ADA, PEOPLE, House, config
from tests.upstream.servers import free_port

BUDGET = limited.limit("cost", "100", "month", anchor=datetime.now(UTC).day)
"""A month that has just begun: Claude Code shows no notice in the last hours of one."""
PRICES = (OwnPrice(model="*", input="1", output="1"),)
MILLION = 1_000_000
"""Tokens, which cost a dollar."""


def spend(url: str, key: str, dollars: int) -> None:
    """Somebody spends so much, with another model than the program's."""
    text = f"[[sim: input={dollars * MILLION} output=1]]"
    asked = {"model": "chat/sim-text", "messages": [{"role": "user", "content": text}]}
    answer = call(url, "POST", "/v1/chat/completions", {**asked, "max_tokens": 10}, key=key)
    assert answer.status == 200


@pytest.mark.slow
def test_claude_code_shows_a_persons_budget(simulator: RunningSimulator, tmp_path: Path) -> None:
    """A notice at 75 and at 95 %, dollars with `/usage`, no billed request for `/context`; at the
    end one request, and our words. In its usual mode it asks for safeguards, which one refusal a
    session takes back."""
    lines: list[dict[str, Any]] = []

    def asked() -> list[dict[str, Any]]:
        return [line for line in lines if line["route"] == "POST /v1/messages"]

    def answered(*statuses: int) -> None:
        """Wait until what it asked since the last look was answered so."""
        until(lambda: len(asked()) >= len(statuses))
        assert [line["status"] for line in asked()] == list(statuses)
        lines.clear()

    port = free_port()
    with serving(PEOPLE) as provider:
        made = config(
            simulator.base_url,
            tmp_path / "store.db",
            provider,
            public_url=f"http://127.0.0.1:{port}",
            rules=(SignInRule(limits=(BUDGET,)),),
        )
        made = replace(made, prices=PRICES)
        with running_gateway(made, lambda line: lines.append(json.loads(line)), port) as gateway:
            home = House(provider, gateway.base_url, gateway.base_url, gateway=gateway)
            program = ClaudeCode(tmp_path, home.url)
            program.sign_in(home, ADA)
            token = program.tokens["jwt"]
            spend(home.url, token, 76)
            with _at_work(program) as shown:
                lines.clear()
                shown.press("Say something.", ENTER)
                shown.until(r"You've used 76% of your usage credits · resets \w+ \d+, 12am")
                until(lambda: len(asked()) == 2)
                assert asked()[0]["losses"] == ["safeguards:content"]
                answered(400, 200)
                shown.press("/usage", ENTER)
                shown.until(r"Spend limit .*76% used \$76\.\d\d / \$100\.00 spent this month")
                shown.press(ESCAPE, "/context", ENTER)
                shown.until("Estimated usage by category")
                assert not asked(), "counted, not asked for an answer"
            spend(home.url, token, 20)
            with _at_work(program) as shown:
                lines.clear()
                shown.press("Say something.", ENTER)
                shown.until("You've used 96% of your usage credits")
                answered(400, 200)
                spend(home.url, token, 4)
                lines.clear()
                shown.press("Say the rest.", ENTER)
                words = "The budget of this account per month is used up"
                shown.until(rf"● {words} .*It resets at 20\d\d-\d\d-\d\dT00:00:00Z")
                answered(429)


@contextmanager
def _at_work(program: ClaudeCode) -> Iterator[Terminal]:
    """The program, past the questions that it asks of a new user."""
    program.begun_before()
    words = [*program.words, "--model", MODEL]
    with terminal(words, program.work, program.environment) as shown:
        shown.until("auto mode on")
        yield shown


@pytest.mark.slow
def test_codex_shows_the_budget_of_a_key(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Among the limits that its app server tells of; at the end one request, our words, and when
    it begins anew."""
    made = limited.config(simulator.base_url, BUDGET, prices=PRICES)
    with limited.serving(made) as (gateway, lines):
        spend(gateway.base_url, KEY, 83)
        with _app_server(tmp_path, gateway.base_url) as ask:
            told = ask("Say something.")
            assert told["turn/completed"]["turn"]["status"] == "completed"
            limits = told["account/rateLimits/updated"]["rateLimits"]
            assert limits["limitName"] == "budget per month"
            assert limits["primary"]["usedPercent"] == 83
            assert limits["primary"]["resetsAt"] > 0
            spend(gateway.base_url, KEY, 17)
            lines.clear()
            told = ask("Say more.")
        shown = told["error"]["error"]["message"]
        assert "The budget of this API key per month is used up" in shown
        assert ", or try again at " in shown
        assert told["error"]["willRetry"] is False
        asked = [line["status"] for line in lines if line["route"] == "POST /v1/responses"]
        assert asked == [429]


@contextmanager
def _app_server(folder: Path, url: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Codex's app server in one conversation. It is asked something, and returns what it told of
    it: the last notification of each kind."""
    home = folder / "codex"
    home.mkdir()
    (home / "config.toml").write_text(
        'model = "responses/sim-text"\nmodel_provider = "house"\n'
        "check_for_update_on_startup = false\n[model_providers.house]\n"
        f'name = "House"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "HOUSE_KEY"\n'
    )
    server = subprocess.Popen(
        [node(), str(package("@openai/codex", "bin/codex.js")), "app-server"],
        cwd=folder,
        env={**usual_environment(folder), "CODEX_HOME": str(home), "HOUSE_KEY": KEY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    source, sink = server.stdout, server.stdin
    numbers = iter(range(1, 100))

    def call_it(method: str, params: dict[str, Any], until_told: str = "") -> dict[str, Any]:
        """The result of a call, or what was told up to a notification."""
        number, told = next(numbers), dict[str, Any]()
        sink.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
        sink.flush()
        for line in source:
            message = json.loads(line)
            if message.get("id") == number and not until_told:
                return dict(message["result"])
            told[message.get("method", "")] = message.get("params")
            if until_told and message.get("method") == until_told:
                return told
        pytest.fail(f"Codex ended: {told}")

    kill = threading.Timer(120, server.kill)
    kill.start()
    try:
        call_it("initialize", {"clientInfo": {"name": "test", "version": "1"}})
        sink.write('{"method": "initialized"}\n')
        thread = call_it("thread/start", {"cwd": str(folder)})["thread"]["id"]

        def ask(text: str) -> dict[str, Any]:
            given = [{"type": "text", "text": text}]
            return call_it("turn/start", {"threadId": thread, "input": given}, "turn/completed")

        yield ask
    finally:
        kill.cancel()
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate()

"""Quotas that upstreams tell of: kept, shared, shown, and used to choose."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from dragoman.cli import main
from dragoman.config import Admin, Config, Secret, Storage
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, Answer, call
from tests.gateway.processes import until

PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))
TOKEN = "the-token-of-the-administration"
KEYS = ("sk-sim-a", "sk-sim-b", "sk-sim-c")


def configured(simulator: RunningSimulator, folder: Path | None, selection: Any = None) -> Config:
    config = config_for(simulator.base_url, keys=KEYS)
    upstreams = config.upstreams
    if selection is not None:
        upstreams = tuple(replace(one, selection=selection, affinity="off") for one in upstreams)
    path = "" if folder is None else str(folder / "store.db")
    return replace(
        config,
        upstreams=upstreams,
        storage=Storage(path=path, sync_s=0.02),
        admin=Admin(key=Secret(TOKEN)),
    )


def unified(share: float, resets_in: float = 7200) -> tuple[tuple[str, str], ...]:
    start = "anthropic-ratelimit-unified-5h"
    reset = f"{time.time() + resets_in:.0f}"
    return (f"{start}-utilization", f"{share}"), (f"{start}-reset", reset)


def codex(share: float, resets_in: float = 7200) -> tuple[tuple[str, str], ...]:
    return (
        ("x-codex-primary-used-percent", f"{share * 100}"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-after-seconds", f"{resets_in:.0f}"),
    )


def keyed(share: float, resets_in: float = 7200) -> tuple[tuple[str, str], ...]:
    return (
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", f"{1000 * (1 - share):.0f}"),
        ("x-ratelimit-reset-tokens", f"{resets_in:.0f}s"),
    )


TOLD = {"messages": unified, "responses": codex, "chat": keyed}


def ask(gateway: RunningGateway, api: str, model: str, stream: bool = False) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream))


def shown(gateway: RunningGateway, name: str) -> list[dict[str, Any]]:
    answer = call(gateway.base_url, "GET", f"/admin/accounts/{name}", key=TOKEN)
    quotas: list[dict[str, Any]] = answer.json["account"]["quotas"]
    return quotas


def samples(gateway: RunningGateway) -> dict[str, float]:
    text = call(gateway.base_url, "GET", "/metrics", key=TOKEN).body.decode()
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@pytest.mark.parametrize("upstream", APIS)
@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_what_an_upstream_tells_is_shown(
    start: Start,
    simulator: RunningSimulator,
    tmp_path: Path,
    api: str,
    stream: bool,
    upstream: str,
) -> None:
    config = configured(simulator, tmp_path)
    gateway = start(config)
    assert shown(gateway, f"{upstream}-0") == []
    simulator.app.keys.behaviours[KEYS[0]] = KeyBehaviour(headers=TOLD[upstream](0.42))
    answer = ask(gateway, api, f"{upstream}/sim-text", stream)
    assert answer.status == 200
    # They are of the gateway's account, and none of the client's business.
    assert not [name for name in answer.headers if "ratelimit" in name or "codex" in name]
    until(lambda: bool(shown(gateway, f"{upstream}-0")))
    (quota,) = shown(gateway, f"{upstream}-0")
    assert quota["used"] == pytest.approx(0.42)
    assert quota["resets_at"] == pytest.approx(time.time() + 7200, abs=30)
    assert quota["told_at"] == pytest.approx(time.time(), abs=30)
    assert shown(gateway, f"{upstream}-1") == []
    name = {"messages": "5h", "responses": "5h", "chat": "tokens"}[upstream]
    model = "sim-text" if upstream == "chat" else ""
    labels = f'upstream="{upstream}",account="{upstream}-0",window="{name}",model="{model}"'
    found = samples(gateway)
    assert found[f"dragoman_account_quota_used_ratio{{{labels}}}"] == pytest.approx(0.42)
    reset = found[f"dragoman_account_quota_reset_timestamp_seconds{{{labels}}}"]
    assert reset == pytest.approx(quota["resets_at"])


@pytest.mark.parametrize("upstream", APIS)
def test_an_error_tells_too(
    start: Start, simulator: RunningSimulator, tmp_path: Path, upstream: str
) -> None:
    gateway = start(configured(simulator, tmp_path))
    fault = Fault("error", failure=Failure(status=429, retry_after="60"))
    simulator.app.keys.behaviours[KEYS[0]] = KeyBehaviour(fault, headers=TOLD[upstream](1.0))
    assert ask(gateway, "chat", f"{upstream}/sim-text").status == 200
    until(lambda: bool(shown(gateway, f"{upstream}-0")))
    assert shown(gateway, f"{upstream}-0")[0]["used"] == 1.0


def test_a_restart_and_another_worker_know_it(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    config = configured(simulator, tmp_path)
    one, two = start(config), start(config)
    simulator.app.keys.behaviours[KEYS[0]] = KeyBehaviour(headers=unified(0.5))
    ask(one, "messages", "messages/sim-text")
    until(lambda: "messages-0" in two.app.pool.quotas.windows)
    assert two.app.pool.quotas.windows["messages-0"][0].used == 0.5
    three = start(config)
    until(lambda: "messages-0" in three.app.pool.quotas.windows)


def test_a_window_that_ended_is_unknown(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    gateway = start(configured(simulator, tmp_path))
    simulator.app.keys.behaviours[KEYS[0]] = KeyBehaviour(headers=codex(0.5, 1))
    ask(gateway, "responses", "responses/sim-text")
    until(lambda: bool(shown(gateway, "responses-0")))
    until(lambda: shown(gateway, "responses-0")[0]["used"] is None)
    assert not [name for name in samples(gateway) if "quota" in name]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("upstream", APIS)
def test_most_quota_left(
    start: Start, simulator: RunningSimulator, tmp_path: Path, upstream: str, kept: bool
) -> None:
    """Each is asked until it has told; then the one with most left. With a store or without."""
    gateway = start(configured(simulator, tmp_path if kept else None, "most_quota_left"))
    shares = dict(zip(KEYS, (0.9, 0.3, 0.6), strict=True))
    for key, share in shares.items():
        simulator.app.keys.behaviours[key] = KeyBehaviour(headers=TOLD[upstream](share))
    for _ in KEYS:
        ask(gateway, "chat", f"{upstream}/sim-text")
    assert {request.key for request in simulator.requests} == set(KEYS)
    until(lambda: len(gateway.app.pool.quotas.windows) == 3)
    simulator.app.requests.clear()
    for _ in range(3):
        ask(gateway, "chat", f"{upstream}/sim-text")
    assert {request.key for request in simulator.requests} == {KEYS[1]}
    # What it tells now makes another the better choice.
    simulator.app.keys.behaviours[KEYS[1]] = KeyBehaviour(headers=TOLD[upstream](0.95))
    ask(gateway, "chat", f"{upstream}/sim-text")
    until(lambda: gateway.app.pool.quotas.windows[f"{upstream}-1"][0].used > 0.9)
    simulator.app.requests.clear()
    ask(gateway, "chat", f"{upstream}/sim-text")
    assert [request.key for request in simulator.requests] == [KEYS[2]]


CONFIG = """
[[clients]]
name = "tester"
key = "{key}"
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{base_url}"
[[accounts]]
name = "messages-0"
upstream = "messages"
key = "sk-sim-a"
[storage]
path = "{path}"
"""


def test_the_command_line_shows_it(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    gateway = start(configured(simulator, tmp_path))
    file = tmp_path / "dragoman.toml"
    path = tmp_path / "store.db"
    file.write_text(CONFIG.format(key=KEY, base_url=simulator.base_url, path=path))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["accounts", *arguments, "--config", str(file)])
        assert result.exit_code == 0, result.output
        return result.output

    assert "unknown" in run("show", "messages-0")
    fault = Fault("error", failure=Failure(status=503), times=1)
    simulator.app.keys.behaviours[KEYS[0]] = KeyBehaviour(fault, headers=unified(0.42))
    ask(gateway, "messages", "messages/sim-text")
    until(lambda: bool(shown(gateway, "messages-0")))
    # What was asked is told to the store by itself, maybe later.
    until(lambda: "asked 1 time, 1 error" in run("show", "messages-0"))
    told = run("show", "messages-0")
    assert "5h 42% (resets in 2 h)" in told
    assert "1 further attempt caused" in told
    listed = run("list")
    assert "5h 42%" in listed
    assert "(503)" in listed

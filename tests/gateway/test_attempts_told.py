"""Every attempt counts for the account that was asked: in usage, lists, the log and the metrics."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import LastError
from dragoman.config import Admin, Config, Secret, Storage, Timeouts
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.account_queries import AccountQueries
from dragoman.server.testing import RunningGateway
from dragoman.storage.opening import cipher_for, store_for
from tests.gateway.clients import APIS, PATHS, body, error_of, stream_error
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call
from tests.gateway.processes import until

PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))
TOKEN = "the-token-of-the-administration"
KEYS = ("sk-sim-a", "sk-sim-b", "sk-sim-c")
NOW = 2**40


def configured(simulator: RunningSimulator, folder: Path, **more: Any) -> Config:
    return replace(
        config_for(simulator.base_url, keys=KEYS, **more),
        storage=Storage(path=str(folder / "store.db"), sync_s=0.02),
        admin=Admin(key=Secret(TOKEN)),
    )


def ask(gateway: RunningGateway, api: str, model: str, stream: bool = False) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream))


def admin(gateway: RunningGateway, path: str) -> Any:
    return call(gateway.base_url, "GET", path, key=TOKEN).json


def lines(caplog: pytest.LogCaptureFixture, path: str) -> list[dict[str, Any]]:
    """The lines of requests with failed attempts: the log is shared with other gateways."""
    found = [json.loads(text) for text in caplog.messages if text.startswith("{")]
    return [line for line in found if line["route"] == f"POST {path}" and "failed" in line]


def samples(gateway: RunningGateway) -> dict[str, float]:
    text = call(gateway.base_url, "GET", "/metrics", key=TOKEN).body.decode()
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def fails(simulator: RunningSimulator, key: str, fault: Fault) -> None:
    simulator.app.keys.behaviours[key] = KeyBehaviour(fault)


@pytest.mark.parametrize("upstream", APIS)
@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_failing_accounts_look_as_they_are(
    start: Start,
    simulator: RunningSimulator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    api: str,
    stream: bool,
    upstream: str,
) -> None:
    caplog.set_level("INFO", "dragoman.requests")
    config = configured(simulator, tmp_path)
    gateway = start(config)
    fails(simulator, KEYS[0], Fault("error", failure=Failure(status=503)))
    fails(simulator, KEYS[1], Fault("error", failure=Failure(status=429, retry_after="1")))
    assert ask(gateway, api, f"{upstream}/sim-text", stream).status == 200
    until(lambda: bool(lines(caplog, PATHS[api])))
    (line,) = lines(caplog, PATHS[api])
    assert (line["attempts"], line["accounts"], line["account"]) == (3, 3, f"{upstream}-2")
    told = [(one["account"], one["kind"], one["status"], one["model"]) for one in line["failed"]]
    assert told == [
        (f"{upstream}-0", told[0][1], 503, "sim-text"),
        (f"{upstream}-1", "rate_limited", 429, "sim-text"),
    ]
    assert all(one["ms"] >= 0 for one in line["failed"])

    until(lambda: admin(gateway, "/admin/usage?by=account")["total"]["requests"] == 1)
    by_account = {
        row["by"]["account"]: row for row in admin(gateway, "/admin/usage?by=account")["rows"]
    }
    sums = {
        name: (row["requests"], row["errors"], row["attempts"], row["failed"], row["retries"])
        for name, row in by_account.items()
    }
    assert sums == {
        f"{upstream}-0": (0, 0, 1, 1, 1),
        f"{upstream}-1": (0, 0, 1, 1, 1),
        f"{upstream}-2": (1, 0, 1, 0, 0),
    }
    page = admin(gateway, f"/admin/accounts?upstream={upstream}")["accounts"]
    first, second, third = page
    assert (first["requests"], first["errors"], first["retries"]) == (1, 1, 1)
    assert first["errors_by_kind"] == {told[0][1]: 1}
    assert first["last_error"]["status"] == 503
    assert second["errors_by_kind"] == {"rate_limited": 1}
    assert second["last_error"]["kind"] == "rate_limited"
    assert (third["requests"], third["errors"], third["last_error"]) == (1, 0, None)

    found = samples(gateway)
    for number, retries in ((0, 1.0), (1, 1.0), (2, 0.0)):
        labels = f'upstream="{upstream}",account="{upstream}-{number}"'
        assert found[f"dragoman_account_attempts_total{{{labels}}}"] == 1.0
        assert found[f"dragoman_account_retries_total{{{labels}}}"] == retries
    labels = f'upstream="{upstream}",account="{upstream}-1",kind="rate_limited"'
    assert found[f"dragoman_account_errors_total{{{labels}}}"] == 1.0


@pytest.mark.parametrize("upstream", APIS)
@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_how_many_were_tried_of_how_many(
    start: Start,
    simulator: RunningSimulator,
    api: str,
    stream: bool,
    upstream: str,
) -> None:
    keys = tuple(f"sk-sim-bad-{number}" for number in range(14))
    for key in keys:
        fails(simulator, key, Fault("error", failure=Failure(status=503)))
    gateway = start(config_for(simulator.base_url, keys=keys))
    answer = ask(gateway, api, f"{upstream}/sim-text", stream)
    assert "10 of 14 tried" in error_of(api, answer)["message"]


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_breaks_off_is_an_error_of_its_account(
    start: Start,
    simulator: RunningSimulator,
    tmp_path: Path,
    api: str,
) -> None:
    gateway = start(configured(simulator, tmp_path))
    for key in KEYS:
        fails(simulator, key, Fault("reset", after=5))
    answer = ask(gateway, api, "chat/sim-text", stream=True)
    assert answer.status == 200
    assert stream_error(api, answer.body)
    until(lambda: admin(gateway, "/admin/usage")["total"]["requests"] == 1)
    total = admin(gateway, "/admin/usage")["total"]
    assert (total["errors"], total["attempts"], total["failed"]) == (1, 1, 1)
    assert total["retries"] == 0
    view = admin(gateway, "/admin/accounts/chat-0")["account"]
    assert view["errors"] == 1


def test_counting_counts_too(start: Start, simulator: RunningSimulator, tmp_path: Path) -> None:
    gateway = start(configured(simulator, tmp_path))
    fails(simulator, KEYS[0], Fault("error", failure=Failure(status=503)))
    made = {"model": "messages/sim-text", "messages": [{"role": "user", "content": "Hello"}]}
    assert call(gateway.base_url, "POST", "/v1/messages/count_tokens", made).status == 200
    until(lambda: admin(gateway, "/admin/usage")["total"]["requests"] == 1)
    view = admin(gateway, "/admin/accounts/messages-0")["account"]
    assert (view["requests"], view["errors"], view["retries"]) == (1, 1, 1)


def test_it_is_there_after_a_restart_and_from_a_terminal(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    config = configured(simulator, tmp_path)
    gateway = start(config)
    fails(simulator, KEYS[0], Fault("error", failure=Failure(status=503)))
    ask(gateway, "chat", "chat/sim-text")
    until(lambda: admin(gateway, "/admin/usage")["total"]["requests"] == 1)
    store = store_for(config)
    assert store is not None
    page = AccountQueries(config, store, cipher_for(config)).page(upstream="chat")
    store.close()
    error = page.accounts[0].last_error
    assert isinstance(error, LastError)
    assert (error.status, error.model) == (503, "sim-text")


@contextmanager
def silent_port() -> Iterator[int]:
    """A port where connections are taken, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refusing_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_the_cause_of_a_connection_that_did_not_come_about(
    start: Start, simulator: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dragoman.requests")
    plain = simulator.base_url.removeprefix("http://")
    with silent_port() as silent:
        cases = {
            "connection_refused": (f"http://127.0.0.1:{refusing_port()}", "refused"),
            "name_not_resolved": ("http://no-such-host.invalid", "name did not resolve"),
            "not_tls": (f"https://{plain}", "TLS"),
            "connect_timeout": (f"https://127.0.0.1:{silent}", "did not answer in time"),
            "first_byte_timeout": (f"http://127.0.0.1:{silent}", "did not answer in time"),
        }
        config = config_for(simulator.base_url)
        for cause, (base_url, words) in cases.items():
            upstream = replace(
                config.upstreams[0],
                base_url=base_url,
                timeouts=Timeouts(connect_s=0.5, first_byte_s=0.5),
            )
            made = replace(config, upstreams=(upstream, *config.upstreams[1:]))
            for api in APIS:
                caplog.clear()
                gateway = start(made)
                answer = ask(gateway, api, "chat/sim-text")
                assert answer.status >= 500
                assert words in error_of(api, answer)["message"]
                until(lambda api=api: bool(lines(caplog, PATHS[api])))  # type: ignore[misc]
                (failed,) = lines(caplog, PATHS[api])[0]["failed"]
                assert (failed["kind"], failed["status"]) == (cause, 0)

"""What the log and /admin/requests say of accounts that are put out, and of requests that are
refused."""

from __future__ import annotations

import json
import logging
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import Disabled, Enabled, Transition
from dragoman.config import Admin, Config, Secret, Storage
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.http import call
from tests.gateway.limited import PRICE, ask, config, limit, serving
from tests.gateway.processes import ASKED, gateway_process, until
from tests.websocket.client import Socket, handshake

OUT = {401: "disabled", 402: "out for"}


def kept(base_url: str, folder: Path, *limits: Any, **rules: Any) -> Config:
    made = config(base_url, *limits, prices=(PRICE,), **rules)
    storage = Storage(path=str(folder / "store.db"), sync_s=0.05)
    return replace(made, storage=storage, admin=Admin(key=Secret(TOKEN)))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", OUT)
def test_an_account_that_is_put_out_has_a_line_of_its_own(
    simulator: RunningSimulator, caplog: pytest.LogCaptureFixture, api: str, status: int
) -> None:
    fault = Fault("error", failure=Failure(status=status))
    simulator.app.keys.behaviours["sk-sim-account"] = KeyBehaviour(fault)
    with (
        caplog.at_level(logging.INFO, "dragoman.accounts"),
        serving(config(simulator.base_url)) as (
            gateway,
            _,
        ),
    ):
        ask(gateway, api, "chat/sim-text")
    found = [one for one in caplog.records if one.getMessage().startswith("account chat-0")]
    assert [one.levelname for one in found] == ["WARNING"]
    assert OUT[status] in found[0].getMessage()
    assert "sk-sim-account" not in caplog.text


def test_a_rest_is_no_warning(
    simulator: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    fault = Fault("error", failure=Failure(status=429))
    simulator.app.keys.behaviours["sk-sim-account"] = KeyBehaviour(fault)
    with (
        caplog.at_level(logging.INFO, "dragoman.accounts"),
        serving(config(simulator.base_url)) as (
            gateway,
            _,
        ),
    ):
        ask(gateway, "chat", "chat/sim-text")
    (found,) = (one for one in caplog.records if one.getMessage().startswith("account chat-0"))
    assert found.levelname == "INFO"
    assert "rests" in found.getMessage()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_an_operator_does_to_an_account_is_logged_once(
    tmp_path: Path, simulator: RunningSimulator, workers: int
) -> None:
    """However many workers there are, and whether over /admin or in the store."""
    server = f'[admin]\nkey = "{TOKEN}"'
    with gateway_process(
        tmp_path, simulator.base_url, {"a": "sk-a"}, workers=workers, server=server
    ) as gateway:

        def asked(status: int) -> None:
            """Until all workers obey."""
            seen: list[int] = []

            def holds() -> bool:
                made = call(gateway.url, "POST", "/v1/chat/completions", ASKED)
                seen.append(made.status)
                return seen[-8:] == [status] * 8

            until(holds)

        asked(200)
        for action, status in (("disable", 403), ("enable", 200)):
            call(gateway.url, "POST", f"/admin/accounts/a/{action}", {}, key=TOKEN)
            asked(status)
        with closing(SqliteStore(gateway.store)) as store:
            store.apply([Transition("a", Disabled("by the night shift"), time.time())])
            asked(403)
            store.apply([Transition("a", Enabled(), time.time())])
            asked(200)
    told = [line for line in gateway.log.splitlines() if "account a: " in line]
    assert len(told) == 4, told
    assert sum("disabled by hand" in line for line in told) == 2
    assert sum("by the night shift" in line for line in told) == 1
    assert sum(line.endswith(": active") or '"account a: active"' in line for line in told) == 2


def test_warnings_of_the_configuration_are_lines_of_the_log(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    price = '[[prices]]\nmodel = "x"\ninput = "2000"\noutput = "1"\n'
    with gateway_process(tmp_path, simulator.base_url, {"a": "sk-a"}, tables=price) as gateway:
        pass
    first = json.loads(gateway.log.splitlines()[0])
    assert first["level"] == "warning"
    assert "prices[0].input: more than 1000 dollars" in first["message"]


@pytest.mark.parametrize("api", APIS)
def test_a_request_that_a_limit_refuses_names_it(
    simulator: RunningSimulator, tmp_path: Path, api: str
) -> None:
    made = kept(simulator.base_url, tmp_path, limit("requests", 0, "day"))
    with serving(made) as (gateway, lines):
        assert ask(gateway, api).status in (402, 429)
        rows = logged(gateway)
    assert lines[0]["limit"] == "key:requests:day"
    assert rows[0]["limit"] == "key:requests:day"


@pytest.mark.parametrize("api", APIS)
def test_a_request_that_is_refused_for_a_loss_names_it(
    simulator: RunningSimulator, tmp_path: Path, api: str
) -> None:
    """All that the policy does not allow; the others are not the reason."""
    upstream = "messages" if api == "chat" else "chat"
    member = {"chat": "seed", "messages": "top_k", "responses": "truncation"}[api]
    value: Any = "auto" if api == "responses" else 7
    asked = body(api, f"{upstream}/sim-text", **{member: value})
    headers = {"x-dragoman-policy": "strict"}
    with serving(kept(simulator.base_url, tmp_path)) as (gateway, lines):
        answer = call(gateway.base_url, "POST", PATHS[api], asked, headers)
        assert answer.status == 400, answer.body
        rows = logged(gateway)
        detail = call(gateway.base_url, "GET", f"/admin/requests/{rows[0]['id']}", key=TOKEN).json
    assert any(one.startswith(f"{member}:") for one in lines[0]["losses"]), lines[0]
    assert rows[0]["losses_total"] == lines[0]["losses_total"] > 0
    assert member in json.dumps(detail["losses"])
    assert simulator.requests == []


def test_over_a_websocket_both_are_named_as_well(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    made = kept(simulator.base_url, tmp_path, limit("requests", 1, "day"))
    with serving(made) as (gateway, lines):
        with Socket(gateway.base_url, handshake(x_dragoman_policy="strict")) as sock:
            refused = [
                sock.turn("chat/sim-text", **more)[-1] for more in ({"truncation": "auto"}, {}, {})
            ]
        assert [one["type"] for one in refused] == ["error", "response.completed", "error"]
        eventually(lambda: len(lines) >= 3)
        eventually(lambda: len(logged(gateway)) >= 3)
        rows = logged(gateway)
    by_status = {one["status"]: one for one in lines}
    assert any(one.startswith("truncation:") for one in by_status[400]["losses"])
    assert by_status[429]["limit"] == "key:requests:day"
    assert {one.get("limit") for one in rows if one["status"] == 429} == {"key:requests:day"}
    assert all(one["losses_total"] for one in rows if one["status"] == 400)


def logged(gateway: Any) -> list[dict[str, Any]]:
    """The rows of the request log, once there are some."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        answer = call(gateway.base_url, "GET", "/admin/requests", key=TOKEN)
        found[:] = answer.json["rows"]
        return bool(found)

    eventually(there)
    return found

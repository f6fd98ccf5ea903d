"""The webhook: what it is told, once by all workers, signed, again if it fails, and never in the
way of a request."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.alerts import LimitOf, of_limit
from dragoman.config import Admin, Client, Config, Secret, Storage, Webhook
from dragoman.config.limits import Limit
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability import webhook as module
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.small_servers import Handler, handling

KEYS = ("sk-sim-a", "sk-sim-b", "sk-sim-c")
ADMIN = "the-key-of-the-admin"
SECRET = "the-secret-of-the-webhook"
RESET = int(time.time()) + 7200


@dataclass
class Receiver:
    """A server that takes alerts; `statuses` are those of its next answers, then 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    delay_s: float = 0.0
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def alerts(self, kind: str = "") -> list[dict[str, Any]]:
        found = [json.loads(data) for _, data in self.got]
        return [one for one in found if not kind or one["type"] == kind]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Own(Handler):
        def post(self) -> None:
            data = self.taken()
            time.sleep(found.delay_s)
            status = found.statuses.pop(0) if found.statuses else 200
            found.got.append((self.names(), data))
            self.reply(status=status)

    with handling(Own) as url:
        found.url = f"{url}/hook?token=hidden-token"
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVERY_S", 0.05)
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.05)


def configured(
    simulator: RunningSimulator, receiver: Receiver, folder: Path | None, **more: Any
) -> Config:
    path = "" if folder is None else str(folder / "store.db")
    hook = Webhook(
        url=Secret(receiver.url),
        secret=Secret(SECRET),
        headers={"X-Token": Secret("hidden-header")},
        **more,
    )
    return replace(
        config_for(simulator.base_url, keys=KEYS),
        storage=Storage(path=path, sync_s=0.02),
        webhook=hook,
    )


def ask(gateway: RunningGateway, model: str = "messages/sim-text") -> Answer:
    return call(gateway.base_url, "POST", PATHS["chat"], body("chat", model))


def unified(share: float) -> tuple[tuple[str, str], ...]:
    start = "anthropic-ratelimit-unified-5h"
    return (f"{start}-utilization", f"{share}"), (f"{start}-reset", f"{RESET}")


def behave(simulator: RunningSimulator, share: float) -> None:
    for key in KEYS:
        simulator.app.keys.behaviours[key] = KeyBehaviour(headers=unified(share))


def test_thresholds_are_told_once_for_each_window(
    start: Start, simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    """By two workers and after a restart."""
    config = configured(simulator, receiver, tmp_path)
    gateways = [start(config), start(config)]
    told: list[tuple[str, float]] = []
    for share in (0.5, 0.81, 0.85, 0.82, 0.99, 0.9, 1.0):
        behave(simulator, share)
        for gateway in gateways:
            for _ in KEYS:
                ask(gateway)
        time.sleep(0.2)
    gateways.append(start(config))
    for _ in KEYS:
        ask(gateways[-1])
    until(lambda: len(receiver.alerts("account.quota")) >= 9)
    time.sleep(0.3)
    told = [(one["account"], one["threshold"]) for one in receiver.alerts("account.quota")]
    names = [f"messages-{number}" for number in range(3)]
    assert sorted(told) == sorted(itertools.product(names, (0.8, 0.95, 1.0)))
    one = receiver.alerts("account.quota")[0]
    assert one["upstream"] == "messages"
    assert (one["window"], one["resets_at"]) == ("5h", RESET)
    assert 0.8 <= one["used"] <= 0.85
    assert "key" not in one


@pytest.mark.parametrize(("status", "state"), [(401, "disabled"), (402, "exhausted")])
def test_an_account_that_falls_out_and_a_pool_that_empties(
    start: Start,
    simulator: RunningSimulator,
    receiver: Receiver,
    tmp_path: Path,
    status: int,
    state: str,
) -> None:
    gateways = [start(configured(simulator, receiver, tmp_path)) for _ in range(2)]
    for number, key in enumerate(KEYS, 1):
        fault = Fault("error", failure=Failure(status=status, message=f"No, {key}."))
        simulator.app.keys.behaviours[key] = KeyBehaviour(fault)
        until(
            lambda gateway=gateways[number % 2], number=number: (  # type: ignore[misc]
                ask(gateway) is not None and len(receiver.alerts("account.out")) >= number
            )
        )
    until(lambda: bool(receiver.alerts("pool.empty")))
    time.sleep(0.2)
    out = receiver.alerts("account.out")
    assert sorted(one["account"] for one in out) == [f"messages-{n}" for n in range(3)]
    assert {one["state"] for one in out} == {state}
    assert all(one["why"] for one in out)
    (low,) = receiver.alerts("pool.low")
    assert (low["usable"], low["accounts"]) == (1, 3)
    (empty,) = receiver.alerts("pool.empty")
    assert (empty["usable"], empty["accounts"], empty["upstream"]) == (0, 3, "messages")
    for _, data in receiver.got:
        assert not any(key.encode() in data for key in (*KEYS, SECRET))


def test_who_sends_can_be_proved(
    start: Start, simulator: RunningSimulator, receiver: Receiver
) -> None:
    gateway = start(configured(simulator, receiver, None))
    behave(simulator, 0.9)
    ask(gateway)
    until(lambda: bool(receiver.got))
    headers, data = receiver.got[0]
    parts = dict(part.split("=", 1) for part in headers["x-dragoman-signature"].split(","))
    assert abs(int(parts["t"]) - time.time()) < 30
    signed = parts["t"].encode() + b"." + data
    assert parts["v1"] == hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["x-token"] == "hidden-header"
    assert headers["content-type"] == "application/json"


def test_it_is_tried_again_with_the_same_id(
    start: Start, simulator: RunningSimulator, receiver: Receiver
) -> None:
    receiver.statuses = [500, 302, 429]
    gateway = start(configured(simulator, receiver, None))
    behave(simulator, 0.9)
    ask(gateway)
    until(lambda: len(receiver.got) >= 4)
    time.sleep(0.3)
    assert len(receiver.got) == 4
    assert len({one["id"] for one in receiver.alerts()}) == 1
    until(lambda: gateway.app._scrape.own().alerts == {"sent": 1})


def test_one_that_never_answers_is_given_up_and_nothing_is_told_of_it(
    start: Start,
    simulator: RunningSimulator,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.statuses = [500] * 20
    monkeypatch.setattr(module, "RETRIED_S", 0.2)
    gateway = start(configured(simulator, receiver, None))
    behave(simulator, 0.9)
    ask(gateway)
    until(lambda: gateway.app._scrape.own().alerts.get("failed") == 1)
    text = " ".join(caplog.messages)
    assert "status 500" in text
    assert not any(hidden in text for hidden in ("hidden-token", "hidden-header", SECRET))


def test_a_slow_one_keeps_no_request_waiting_and_no_more_than_it_may(
    start: Start,
    simulator: RunningSimulator,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver.delay_s = 1.0
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    gateway = start(configured(simulator, receiver, None))
    behave(simulator, 0.9)
    began = time.monotonic()
    for model in ("messages", "chat", "responses"):
        for _ in KEYS:
            assert ask(gateway, f"{model}/sim-text").status == 200
    assert time.monotonic() - began < 1.0
    until(lambda: gateway.app._scrape.own().alerts.get("dropped", 0) >= 1)


def test_without_a_webhook_nobody_is_told(
    start: Start, simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    gateway = start(replace(configured(simulator, receiver, tmp_path), webhook=Webhook()))
    behave(simulator, 0.9)
    ask(gateway)
    until(lambda: bool(gateway.app.pool.quotas.windows))
    time.sleep(0.2)
    assert not receiver.got


def test_a_share_of_a_limit_is_told_once_in_its_window(
    start: Start, simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    """By whichever worker saw it first."""
    config = configured(simulator, receiver, tmp_path)
    alerts = [start(config).app._services.alerts for _ in range(2)]
    now = time.time()
    for percent, resets_at in ((50, now + 60), (80, now + 60), (50, now + 60), (50, None)):
        for one in alerts:
            one.notify(of_limit(LimitOf("ci", "key:cost:month"), percent, resets_at, now))
        time.sleep(0.2)
    of_team = LimitOf("people", "team:requests:1m", is_team=True)
    alerts[0].notify(of_limit(of_team, 50, now + 60, now))
    until(lambda: len(receiver.alerts("limit.used")) >= 3)
    time.sleep(0.3)
    told = receiver.alerts("limit.used")
    assert [(one.get("client"), one["used"], one.get("team")) for one in told] == [
        ("ci", 0.5, None),
        ("ci", 0.8, None),
        (None, 0.5, "people"),
    ]
    assert told[0]["text"] == "50 % of the limit key:cost:month of the key ci are used."
    assert told[0]["resets_at"] == now + 60
    assert "upstream" not in told[0]


def test_a_limit_whose_alert_nobody_took_is_told_of_after_a_restart(
    simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    limit = Limit(kind="requests", amount=4, window="month")
    other = Limit(kind="requests", amount=3, window="month")
    key = "sk-the-key-of-ci"
    config = configured(simulator, receiver, tmp_path)

    def used(limit: Limit, status: int) -> list[float]:
        """The shares of which somebody hears in the life of a gateway that is asked once."""
        receiver.got.clear()
        client = Client(name="ci", key=Secret(key), limits=(limit,))
        with running_gateway(replace(config, clients=(client,))) as gateway:
            asked = body("chat", "chat/sim-text")
            answer = call(gateway.base_url, "POST", PATHS["chat"], asked, key=key)
            assert answer.status == status
        return [one["used"] for one in receiver.alerts("limit.used")]

    assert used(limit, 200) == []
    receiver.statuses = [503] * 1000
    assert set(used(limit, 200)) == {0.5}
    receiver.statuses.clear()
    assert used(limit, 200) == [0.5]
    assert sorted(used(limit, 200)) == [0.8, 1.0]
    assert used(limit, 429) == []
    # It was lowered, and is used up without anything that would be counted.
    assert used(other, 429) == [1.0]


def test_a_limit_that_refuses_is_told_of_once_in_its_window(
    start: Start, simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    """Though it is not used up: what is asked is more than is left."""
    limits = (
        Limit(kind="tokens", amount=60, window="month"),
        Limit(kind="requests", amount=10, window="1m"),
        Limit(kind="tokens", amount=0, window="5h", models=("messages/*",)),
    )
    key = "sk-the-key-of-ci"
    client = Client(name="ci", key=Secret(key), limits=limits)
    config = replace(configured(simulator, receiver, tmp_path), clients=(client,))
    gateways = [start(config) for _ in range(2)]

    def status(gateway: RunningGateway, api: str) -> int:
        asked = {**body("chat", f"{api}/sim-text"), "max_tokens": 30}
        return call(gateway.base_url, "POST", PATHS["chat"], asked, key=key).status

    def used(gateway: RunningGateway) -> int:
        return int(call(gateway.base_url, "GET", "/v1/key", key=key).json["limits"][0]["used"])

    assert status(gateways[0], "chat") == 200
    # Each has an owner of limits, which learns of the other by rows of usage, at its first request.
    until(lambda: used(gateways[1]) > 0)
    for gateway in gateways * 3:
        assert status(gateway, "chat") == 429
        assert status(gateway, "messages") == 429
    until(lambda: len(receiver.alerts("limit.refused")) == 2)
    time.sleep(0.3)
    told = {one["limit"]: one for one in receiver.alerts("limit.refused")}
    assert len(receiver.alerts("limit.refused")) == 2
    assert 0 < told["key:tokens:month"]["used"] < 1
    assert "refuses requests" in told["key:tokens:month"]["text"]
    assert told["key:tokens:5h"]["models"] == ["messages/*"]


def test_a_limit_that_was_changed_is_told_of_anew_and_like_ones_apart(
    start: Start, simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    config = configured(simulator, receiver, tmp_path)
    gateway = start(replace(config, admin=Admin(key=Secret(ADMIN))))

    def administer(method: str, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        return call(gateway.base_url, method, f"/admin/keys{path}", data, key=ADMIN).json

    limits = [
        {"kind": "requests", "amount": 1, "window": "total", "models": [f"{api}/*"]}
        for api in ("chat", "messages")
    ]
    key = administer("POST", "", {"name": "ci", "limits": limits})["secret"]

    def served(api: str, times: int) -> None:
        """So many more requests of a model are, and all of a limit is told to be used then."""
        for _ in range(times):
            until(
                lambda: (
                    call(
                        gateway.base_url,
                        "POST",
                        PATHS["chat"],
                        body("chat", f"{api}/sim-text"),
                        key=key,
                    ).status
                    == 200
                )
            )

    def told() -> list[list[str]]:
        return [one["models"] for one in receiver.alerts("limit.used") if one["used"] == 1]

    served("chat", 1)
    served("messages", 1)
    until(lambda: sorted(told()) == [["chat/*"], ["messages/*"]])
    administer("POST", "/ci/limits/1/reset")
    served("chat", 1)
    until(lambda: sorted(told()) == [["chat/*"]] * 2 + [["messages/*"]])
    administer("PATCH", "/ci/limits/1", {"amount": 3})
    served("chat", 2)
    until(lambda: sorted(told()) == [["chat/*"]] * 3 + [["messages/*"]])


def test_nothing_is_lost_while_the_receiver_is_down(
    start: Start, simulator: RunningSimulator, receiver: Receiver
) -> None:
    """What it does not like delays nothing else."""
    receiver.statuses = [503] * 5
    gateway = start(configured(simulator, receiver, None))
    behave(simulator, 0.9)
    for _ in KEYS:
        ask(gateway)
    until(lambda: len({one["id"] for one in receiver.alerts()}) == 3)
    until(lambda: gateway.app._scrape.own().alerts == {"sent": 3})
    assert len(receiver.got) == 8
    took = receiver.alerts()[5:]
    assert {one["account"] for one in took} == {f"messages-{number}" for number in range(3)}


def test_what_was_not_taken_before_a_restart_is_told_after_it(
    simulator: RunningSimulator, receiver: Receiver, tmp_path: Path
) -> None:
    config = configured(simulator, receiver, tmp_path)
    behave(simulator, 0.9)
    receiver.statuses = [503] * 1000
    with running_gateway(config) as gateway:
        ask(gateway)
        until(lambda: len(receiver.got) >= 2)
    counts = gateway.app._scrape.own()
    assert counts.alerts == {"dropped": 1}
    receiver.statuses.clear()
    receiver.got.clear()
    with running_gateway(config) as gateway:
        until(lambda: len(receiver.got) == 1)
    with running_gateway(config) as gateway:
        time.sleep(0.3)
    assert len(receiver.got) == 1

"""Instances on several machines that have one PostgreSQL for their store."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Fault
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import AUTH, Answer, Connection, call, events
from tests.gateway.processes import ASKED, GatewayProcess, gateway_process, simulator_process, until
from tests.gateway.slow_upstream import slow_upstream
from tests.storage.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as found:
        yield found


TOKEN = "admin-token-of-the-test"


def instances(
    stack: ExitStack, folder: Path, cluster: Cluster, upstream: str, count: int
) -> list[GatewayProcess]:
    return [
        stack.enter_context(
            gateway_process(
                folder,
                upstream,
                {"a": "sk-a"},
                workers=2,
                name=f"instance{number}",
                server=f'[admin]\nkey = "{TOKEN}"',
                store="",
                storage=f'url = "{cluster.url}"',
            )
        )
        for number in range(count)
    ]


def test_what_is_changed_at_one_is_obeyed_by_all(tmp_path: Path, cluster: Cluster) -> None:
    """Keys, their limits and accounts, by both workers of the other instance."""

    def change(method: str, path: str, value: dict[str, Any] | None = None) -> Answer:
        found = call(one.url, method, f"/admin{path}", value, key=TOKEN)
        assert found.status < 300, found.body
        return found

    def obeyed(status: int) -> None:
        """Ask on new connections until the other gives nothing else, eight times in a row."""
        in_a_row = 0

        def holds() -> bool:
            nonlocal in_a_row
            asked = {**ASKED, "stream": False}
            told = call(other.url, "POST", "/v1/chat/completions", asked, key=key).status
            in_a_row = in_a_row + 1 if told == status else 0
            return in_a_row == 8

        until(holds)

    with ExitStack() as stack:
        upstream, _ = stack.enter_context(simulator_process())
        one, other = instances(stack, tmp_path, cluster, f"{upstream}/v1", 2)
        key = change("POST", "/keys", {"name": "ci"}).json["secret"]
        obeyed(200)
        none = {"kind": "requests", "amount": 0, "window": "1m"}
        change("PATCH", "/keys/ci", {"limits": [none]})
        obeyed(429)
        change("PATCH", "/keys/ci", {"limits": []})
        obeyed(200)
        change("POST", "/accounts/a/disable")
        obeyed(403)
        change("POST", "/accounts/a/enable")
        obeyed(200)
        change("POST", "/keys/ci/disable")
        obeyed(401)


def answered(gateway: GatewayProcess, text: str, previous: str | None) -> tuple[int, str]:
    asked = {"model": ASKED["model"], "input": text, "previous_response_id": previous}
    answer = call(gateway.url, "POST", "/v1/responses", asked, AUTH)
    return answer.status, str(answer.json.get("id"))


def test_a_conversation_goes_on_at_whichever_instance(tmp_path: Path, cluster: Cluster) -> None:
    with ExitStack() as stack:
        upstream, _ = stack.enter_context(simulator_process())
        made = instances(stack, tmp_path, cluster, f"{upstream}/v1", 3)
        previous: str | None = None
        for turn in range(6):
            status, previous = answered(made[turn % 3], f"turn {turn}", previous)
            assert status == 200
        # Without the database nothing goes on from what is in it; everything else does.
        cluster.stop()
        try:
            for _ in range(20):
                time.sleep(0.1)
                for gateway in made:
                    assert (
                        call(gateway.url, "POST", "/v1/chat/completions", ASKED, AUTH).status == 200
                    )
                    assert call(gateway.url, "GET", "/readyz", None, {}).status == 200
            assert answered(made[0], "away", previous)[0] == 503
        finally:
            cluster.start()
        end = time.monotonic() + 10
        while answered(made[1], "back", previous)[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_what_is_made_in_the_background_is_every_instances(
    tmp_path: Path, cluster: Cluster, simulator: RunningSimulator
) -> None:
    """It is followed and stopped at another one, which also makes it again if its own is killed."""
    # The answers to the first two requests begin and do not end.
    fault = Fault("silence", after=3, ms=600_000, times=2)
    simulator.app.keys.behaviours["sk-a"] = KeyBehaviour(fault)
    asked = {"model": "chat/sim-text?words=400", "input": "Hi", "background": True}

    def told(gateway: GatewayProcess, method: str, path: str) -> Answer:
        return call(gateway.url, method, f"/v1/responses/{path}", None, AUTH)

    def has_begun(name: str) -> bool:
        return bool(told(other, "GET", name).json["status"] == "in_progress")

    with ExitStack() as stack:
        one, other = instances(stack, tmp_path, cluster, simulator.openai_base_url, 2)
        ends = {}
        for end in ("cancelled", "completed"):
            name = call(one.url, "POST", "/v1/responses", asked, AUTH).json["id"]
            until(partial(has_begun, name))
            with Connection(other.url) as follower:
                follower.send("GET", f"/v1/responses/{name}?stream=true", None, AUTH)
                assert follower.head().status == 200
                text = b""
                while b"response.created" not in text:
                    text += follower.chunk()
                if end == "cancelled":
                    assert told(other, "POST", f"{name}/cancel").json["status"] == end
                else:
                    one.kill_all()
                text += b"".join(iter(follower.chunk, b""))
            seen = [data for _, data in events(text)]
            numbers = [data["sequence_number"] for data in seen]
            assert numbers == list(range(len(numbers)))
            begun = [data["type"] for data in seen].count("response.created")
            assert begun == (1 if end == "cancelled" else 2)
            ends[end] = seen[-1]["response"]["status"], told(other, "GET", name).json["status"]
        assert ends == {end: (end, end) for end in ends}
        made = told(other, "GET", name).json
        assert len(made["output"][0]["content"][0]["text"].split()) == 400


def test_max_concurrent_holds_over_all_instances(tmp_path: Path, cluster: Cluster) -> None:
    most, instances = 3, 2
    with ExitStack() as stack:
        upstream = stack.enter_context(slow_upstream())
        clients = stack.enter_context(ThreadPoolExecutor(40))
        made = [
            stack.enter_context(
                gateway_process(
                    tmp_path,
                    upstream.url,
                    {"a": "sk-a"},
                    workers=2,
                    name=f"limited{number}",
                    store="",
                    storage=f'url = "{cluster.url}"',
                    account=f"max_concurrent = {most}\n",
                )
            )
            for number in range(instances)
        ]

        def ask(number: int) -> int:
            gateway = made[number % instances]
            return call(gateway.url, "POST", "/v1/chat/completions", ASKED, AUTH).status

        # A burst at all of them: none is refused.
        upstream.takes_s = 0.05
        for _ in range(2):
            assert set(clients.map(ask, range(40))) == {200}
        assert upstream.most["Bearer sk-a"] <= most
        # What one has taken the other leaves free, and has as soon as it is given back.
        upstream.takes_s = 1.0
        first = [clients.submit(ask, 0) for _ in range(most)]
        until(lambda: upstream.now["Bearer sk-a"] == most)
        upstream.takes_s = 0.01
        second = [clients.submit(ask, 1) for _ in range(2 * most)]
        assert {one.result() for one in (*first, *second)} == {200}
        assert upstream.most["Bearer sk-a"] == most
        # What a killed worker had in flight, the other gives back.
        upstream.takes_s = 0.5
        lost = [clients.submit(ask, 0) for _ in range(most)]
        until(lambda: upstream.now["Bearer sk-a"] == most)
        os.kill(made[0].workers()[0], signal.SIGKILL)
        until(lambda: not upstream.now["Bearer sk-a"])
        assert {one.result() for one in lost if one.exception() is None} <= {200}
        upstream.takes_s = 0.01
        assert set(clients.map(ask, [1] * 2 * most)) == {200}
        # Without the database each holds to it by itself.
        cluster.stop()
        try:
            upstream.takes_s = 0.05
            assert set(clients.map(ask, [1] * 20)) == {200}
            assert upstream.most["Bearer sk-a"] == most
        finally:
            cluster.start()

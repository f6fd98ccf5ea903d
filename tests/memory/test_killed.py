"""Workers that are killed, and a store that others hold."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import KEY, call
from tests.gateway.load import at_once
from tests.gateway.processes import gateway_process, until
from tests.memory.asking import client
from tests.memory.background import finished
from tests.memory.conftest import KEY as MY_KEY
from tests.memory.conftest import Start
from tests.storage.cluster import running_cluster


def test_what_a_killed_worker_was_making_fails(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Where it is not to be made again. Whoever follows it at another worker, or another instance,
    is told, whoever polls it as well; and whoever cancels there stops it."""

    def check(kind: str) -> None:
        (tmp_path / kind).mkdir()
        fails_when_killed(simulator, tmp_path / kind, kind)

    at_once([("sqlite",), ("postgres",)], check)


def fails_when_killed(simulator: RunningSimulator, folder: Path, kind: str) -> None:
    keys = {"acme": f"sk-acme-{kind}"}
    with ExitStack() as stack:
        store: dict[str, Any] = {"storage": "background_again = false"}
        if kind == "postgres":
            pytest.importorskip("psycopg")
            url = stack.enter_context(running_cluster()).url
            store = {"store": "", "storage": f'url = "{url}"\nbackground_again = false'}
        one, two = (
            stack.enter_context(
                gateway_process(folder, simulator.base_url, keys, name=name, **store)
            )
            for name in ("one", "two")
        )
        with openai.OpenAI(base_url=f"{one.url}/v1", api_key=KEY, max_retries=0) as me:
            model = "chat/sim-text?words=400&delay_ms=100"
            made = me.responses.create(model=model, input="Hi", background=True)
            until(lambda: me.responses.retrieve(made.id).status == "in_progress")
            other = me.responses.create(model=model, input="Stop", background=True)
            until(lambda: me.responses.retrieve(other.id).status == "in_progress")
            stopped = [one for one in simulator.requests if one.key == keys["acme"]][-1]
        told: list[Any] = []
        with openai.OpenAI(base_url=f"{two.url}/v1", api_key=KEY, max_retries=0) as me:
            follower = threading.Thread(
                target=lambda: told.extend(me.responses.retrieve(made.id, stream=True))
            )
            follower.start()
            until(lambda: len(told) > 3)
            assert me.responses.cancel(other.id).status == "cancelled"
            until(lambda: stopped.disconnected)
            one.kill_all()
            until(lambda: me.responses.retrieve(made.id).status == "failed", 40.0)
            follower.join(20)
            assert not follower.is_alive()
            assert [event.sequence_number for event in told] == list(range(len(told)))
            assert told[-1].type == "response.failed"
            error = me.responses.retrieve(made.id).error
            assert error is not None
            assert "stopped" in error.message
            made = me.responses.create(model="chat/sim-text", input="Hi", background=True)
            assert finished(me, made.id).status == "completed"


def test_who_needs_no_store_does_not_wait_for_it(start: Start, tmp_path: Path) -> None:
    """While another process writes, only answers that are to be stored wait for their turn."""
    gateway = start()
    with client(gateway) as me:
        first = me.responses.create(model="chat/sim-text", input="Hi")
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        stored: list[Any] = []
        waiting = threading.Thread(
            target=lambda: stored.append(me.responses.create(model="chat/sim-text", input="Keep"))
        )
        waiting.start()
        try:
            for path, body in (
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
                (
                    "/v1/messages",
                    {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]},
                ),
                ("/v1/responses", {"input": "Hi", "store": False}),
            ):
                for _ in range(5):
                    asked: dict[str, Any] = {"model": "chat/sim-text", **body}
                    answer = call(gateway.base_url, "POST", path, asked, key=MY_KEY)
                    assert answer.status == 200
            assert not stored
        finally:
            other.execute("ROLLBACK")
            other.close()
        waiting.join(20)
        assert stored[0].to_dict()["store"] is True
        assert me.responses.retrieve(stored[0].id).id == stored[0].id
        assert me.responses.retrieve(first.id).id == first.id


def test_many_write_at_once(start: Start) -> None:
    """Two workers, stored and streamed answers, and the pool's own writing: nothing is lost."""
    gateways = [start(), start()]
    kept: list[str] = []
    failed: list[Any] = []

    def talk(number: int) -> None:
        gateway = gateways[number % 2]
        previous: str | None = None
        for turn in range(12):
            body: dict[str, Any] = {"model": "chat/sim-text?words=3", "input": f"{number} {turn}"}
            if previous is not None:
                body["previous_response_id"] = previous
            answer = call(gateway.base_url, "POST", "/v1/responses", body, key=MY_KEY)
            made = json.loads(answer.body)
            if answer.status != 200 or not made["store"]:
                failed.append(made)
                return
            previous = made["id"]
            kept.append(made["id"])

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert len(set(kept)) == 8 * 12
    with client(gateways[0]) as me:
        for name in kept[::7]:
            assert me.responses.retrieve(name).id == name

"""More input for a response under way that the gateway stores (W17): it has an id of the gateway's
own, and what came of it is found in the store, as anybody else finds it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.config import Client, Config, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.base import to_json
from dragoman.protocols.openai_responses.additions import Addition
from dragoman.responses.conversations import PendingResponse, StoredConversations
from dragoman.responses.steerable import SteerableRecorder
from dragoman.server.testing import RunningGateway
from dragoman.sse import Decoder, encode
from dragoman.storage.responses import Items
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection
from tests.websocket.client import Socket, answer_id, handshake, opened, text_of
from tests.websocket.steering import (
    QUICK,
    SLOW,
    asked,
    begun,
    refusal,
    steer,
)
from tests.websocket.turns import TOOL, outputs_for, said

Start = Callable[[Config], RunningGateway]


@pytest.fixture
def storing(start: Start, simulator: RunningSimulator, tmp_path: Path) -> RunningGateway:
    """A gateway that stores responses, and calls its Responses upstream over WebSocket."""
    config = config_for(simulator.base_url)
    upstreams = [
        replace(one, websocket="on") if one.name == "responses" else one for one in config.upstreams
    ]
    storage = Storage(path=str(tmp_path / "store.db"))
    return start(replace(config, upstreams=tuple(upstreams), storage=storage))


def shown(gateway: RunningGateway, path: str) -> Any:
    """What `GET /v1/responses/...` shows."""
    with Connection(gateway.base_url) as connection:
        connection.send("GET", f"/v1/responses/{path}", headers=AUTH)
        answer = connection.answer()
        assert answer.status == 200, answer
        return answer.json


def test_a_stored_response_is_steered(storing: RunningGateway, simulator: RunningSimulator) -> None:
    """Twice. Each response is stored with what it was asked, under the id that the client was told,
    and can be gone on from, on another connection and upstream."""
    with opened(storing) as sock:
        sock.create(SLOW, "first", stream_id="a", store=True)
        names = [begun(sock)]
        for text in ("second", f"third {QUICK}"):
            steer(sock, names[-1], text)
            found = sock.events()
            [accepted] = [one for one in found if one["type"] == "response.steer.accepted"]
            assert accepted["steer"]["previous_response_id"] == names[-1]
            assert found[-1]["response"]["id"] == names[-1]
            assert found[-1]["response"]["incomplete_details"] == {"reason": "steered"}
            names.append(begun(sock))
        more = sock.events()
        assert answer_id(more) == names[-1]
        assert more[-1]["response"]["previous_response_id"] == names[-2]
        assert len({*names}) == 3
        assert asked(simulator) == ["first", "second", f"third {QUICK}"]
        steer(sock, names[-1], "late")
        assert refusal(sock)["error"]["code"] == "response_already_completed"
    for number, (name, text) in enumerate(
        zip(names, ("first", "second", f"third {QUICK}"), strict=True)
    ):
        stored = shown(storing, name)
        assert (stored["id"], stored["store"]) == (name, True)
        assert stored["status"] == ("completed" if number == 2 else "incomplete")
        if number:
            assert stored["previous_response_id"] == names[number - 1]
        items = shown(storing, f"{name}/input_items?order=asc")["data"]
        texts = [one["content"] for one in items if one["role"] == "user"]
        assert [part if isinstance(part, str) else part[0]["text"] for part in texts][-1] == text
        assert len(texts) == number + 1
    with opened(storing) as sock:
        sock.turn("chat/sim-text", "last", previous_response_id=names[-1])
        turns = [(one["role"], one["content"]) for one in simulator.last.json["messages"]]
        users = [text for role, text in turns if role == "user"]
        assert users == ["first", "second", f"third {QUICK}", "last"]
        assert turns[-2] == ("assistant", text_of(more))


def test_stored_input_waits_for_tool_outputs(
    storing: RunningGateway, simulator: RunningSimulator
) -> None:
    """It is stored with the response that it follows, so that whoever goes on from that has it,
    once."""
    with opened(storing) as sock:
        model = "responses/sim-tool?tool=look&delay_ms=150&steered=pending&compatible=1"
        sock.create(model, "first", tools=[TOOL], store=True)
        steer(sock, begun(sock), "by the way")
        found = sock.events()
        pending = sock.event()
        assert pending["type"] == "response.steer.pending"
        assert pending["steer"]["previous_response_id"] == answer_id(found)
    outputs = outputs_for(found)
    for upstream in ("responses", "chat"):
        with opened(storing) as sock:
            more = {"tools": [TOOL], "previous_response_id": answer_id(found)}
            target = f"{upstream}/sim-tool?tool=look&compatible=1"
            assert answer_id(sock.turn(target, outputs, **more))
            assert simulator.last.body.decode().count("by the way") == 1
            if upstream == "responses":
                kinds = [one.get("type") for one in simulator.last.json["input"]]
                assert kinds[-3:] == ["function_call", "message", "function_call_output"]


def test_outputs_are_injected_into_what_is_stored(
    storing: RunningGateway, simulator: RunningSimulator
) -> None:
    with opened(storing) as sock:
        sock.create("responses/sim-text?words=60&delay_ms=30", "first", store=True)
        first = begun(sock)
        sock.send({"type": "response.inject", "response_id": first, "input": [said("an output")]})
        found = sock.events()
        [told] = [one for one in found if one["type"] == "response.inject.created"]
        assert told["response_id"] == first
        assert [one["type"] for one in found[-1]["response"]["output"]] == ["message"]
    with opened(storing) as sock:
        sock.turn("responses/sim-text", "next", previous_response_id=answer_id(found))
        texts = [one.get("content") for one in simulator.last.json["input"]]
        assert texts[:2] == ["first", "an output"]
        assert texts[3:] == ["next"]
        # What is not on this connection is not found, wherever it is stored.
        steer(sock, first, "hurry")
        assert refusal(sock)["error"]["code"] == "response_not_found"


async def test_what_follows_a_response_that_could_not_be_kept() -> None:
    """It is not kept either, for nothing could go on from it, and both say so."""
    kept: list[str] = []

    class Full(StoredConversations):
        async def store(self, pending: PendingResponse, *_: Any) -> bool:
            kept.append(pending.id)
            return False

    first = PendingResponse(
        protocol="openai_responses", id="resp_1", owner="one", created=0.0, input=Items()
    )
    recorder = SteerableRecorder(Full(None, cast("Any", None)), first)
    recorder.added(Addition("steer", "resp_1", Raw(b'"on"')))

    def event(kind: str, **members: Any) -> bytes:
        return encode(to_json({"type": f"response.{kind}", **members}), f"response.{kind}".encode())

    def end(name: str) -> bytes:
        return event("completed", response={"id": name, "store": True, "output": []})

    accepted = event("steer.accepted", steer={"id": "s"})
    assert await recorder.follow(accepted + end("resp_1")) == accepted, "its end waits"
    told = await recorder.follow(event("created", response={"id": "resp_2"}))
    told += await recorder.stream(end("resp_2"))
    ends = [one for one in Decoder().feed(told) if one.event == b"response.completed"]
    assert [jsontext.decode(one.data)["response"]["store"] for one in ends] == [False, False]
    assert kept == ["resp_1"]


def test_what_the_upstream_stores_is_steered(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Both responses keep the upstream's ids, and both are known to be the client's."""
    clients = tuple(Client(name=name, key=Secret(f"sk-test-{name}")) for name in ("one", "two"))
    config = config_for(simulator.base_url, clients=clients)
    upstreams = [
        replace(one, websocket="on", stored_responses="pass") if one.name == "responses" else one
        for one in config.upstreams
    ]
    storage = Storage(path=str(tmp_path / "store.db"))
    gateway = start(replace(config, upstreams=tuple(upstreams), storage=storage))
    with Socket(gateway.base_url, handshake(authorization="Bearer sk-test-one")) as sock:
        sock.create(SLOW, "first", store=True)
        names = [begun(sock)]
        steer(sock, names[0], f"on {QUICK}")
        assert sock.events()[-1]["type"] == "response.incomplete"
        names.append(answer_id(sock.events()))
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        kept = set(store.execute("SELECT owner, name FROM kept_elsewhere"))
    assert {("one", name) for name in names} <= kept

"""What becomes of an upstream's call that is ended at an emulated stop sequence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import AccountState
from dragoman.canonical.stops import LONGEST, MOST
from dragoman.config import Admin, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import (
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call, events
from tests.gateway.odd_upstream import answering

TOKEN = "admin-token-of-the-test"
MOST_S = 3.0
"""Within this the upstream's call must be over; it would go on for minutes."""

CLIENTS = ("chat", "messages")
ENDLESS = "responses/sim-text?delay_ms=20&words=5000"
"""Begins with "The dragoman stood between two courts" and goes on for minutes."""


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway that writes down what was used."""
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a key"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def asked(gateway: RunningGateway, client: str, model: str, *stops: str, **more: Any) -> Answer:
    name = "stop" if client == "chat" else "stop_sequences"
    made = {**body(client, model, **more), name: list(stops)}
    return call(gateway.base_url, "POST", PATHS[client], made)


def usage(gateway: RunningGateway) -> dict[str, Any]:
    """What was used, once it is in the store."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = call(gateway.base_url, "GET", "/admin/usage?since=1h", key=TOKEN)
        total: dict[str, Any] = answer.json["total"]
        if total["requests"]:
            return total
        time.sleep(0.02)
    pytest.fail("nothing was counted")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_upstreams_call_is_ended(
    gateway: RunningGateway,
    simulator: RunningSimulator,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
) -> None:
    """At once, not after a while of waiting for its end; and that is no failure of anybody."""
    monkeypatch.setattr("dragoman.serving.answers._DRAIN_S", 60.0)
    answer = asked(gateway, client, ENDLESS, " between", "courts", stream=True)

    assert answer.status == 200
    name = "stop" if client == "chat" else "stop_sequences"
    assert f"{name}:converted" in answer.headers["x-dragoman-losses"]
    assert completed(client, answer.body)
    assert streamed_text(client, answer.body) == "The dragoman stood"
    simulator.wait_for(lambda: simulator.last.disconnected, MOST_S)
    assert not simulator.last.finished
    pool = gateway.app.pool
    simulator.wait_for(lambda: pool.in_flight("responses-0") == 0)
    assert pool.state("responses-0") == AccountState("responses-0")
    counted = usage(gateway)
    assert (counted["requests"], counted["errors"], counted["unmetered"]) == (1, 0, 0)
    # The upstream charges for what it was asked and has generated, told or not.
    assert counted["estimated"] == 1
    assert 5 < counted["input"] < 40
    assert 2 < counted["output"] < 12
    assert asked(gateway, client, "responses/sim-text", "never", stream=True).status == 200


def test_a_cut_before_anything_was_shown(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """An answer of nothing is an answer."""
    answer = asked(gateway, "messages", ENDLESS, "The", stream=True)

    assert completed("messages", answer.body)
    assert streamed_text("messages", answer.body) == ""
    told = [data["delta"] for name, data in events(answer.body) if name == "message_delta"]
    assert told == [{"stop_reason": "stop_sequence", "stop_sequence": "The"}]
    simulator.wait_for(lambda: simulator.last.disconnected, MOST_S)
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_usage_that_is_not_known_is_estimated(simulator: RunningSimulator, client: str) -> None:
    """And the log says that it is."""
    lines: list[dict[str, Any]] = []
    more = {"stream_options": {"include_usage": True}} if client == "chat" else {}
    with running_gateway(
        config_for(simulator.base_url), lambda line: lines.append(json.loads(line))
    ) as gateway:
        answer = asked(gateway, client, ENDLESS, "courts", stream=True, **more)

    assert completed(client, answer.body)
    found = [data for _, data in events(answer.body) if data != "[DONE]"]
    if client == "chat":
        [told] = [chunk["usage"] for chunk in found if chunk.get("usage")]
        counts = told["prompt_tokens"], told["completion_tokens"]
    else:
        [told] = [data["usage"] for data in found if data["type"] == "message_delta"]
        counts = told["input_tokens"], told["output_tokens"]
    assert 5 < counts[0] < 40
    assert 5 < counts[1] < 12
    [line] = lines
    assert "usage:converted" in line["losses"]
    assert line["estimated"]
    assert (line["usage"]["input"], line["usage"]["output"]) == counts


@pytest.mark.parametrize("client", CLIENTS)
def test_a_whole_answer_has_the_usage_of_what_was_generated(
    gateway: RunningGateway, client: str
) -> None:
    model = "responses/sim-text?input=100&output=7"
    answer = asked(gateway, client, model, " between")

    assert text_of(client, answer) == "The dragoman stood"
    told = answer.json["usage"]
    assert told["completion_tokens" if client == "chat" else "output_tokens"] == 7
    counted = usage(gateway)
    assert (counted["unmetered"], counted["input"], counted["output"]) == (0, 100, 7)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asked_to_stream", [False, True])
def test_upstreams_that_do_not_answer_as_they_were_asked(
    start: Start, simulator: RunningSimulator, asked_to_stream: bool, stream: bool
) -> None:
    """With a stream or a whole answer, which here is cut all the same."""
    made = body("responses", "sim-text", stream=stream)
    given = call(simulator.base_url, "POST", PATHS["responses"], made)
    with answering(200, given.headers["content-type"], given.body) as base_url:
        gateway = start(config_for(base_url))
        answer = asked(gateway, "messages", "responses/m", " between", stream=asked_to_stream)
    if asked_to_stream:
        assert completed("messages", answer.body)
        assert streamed_text("messages", answer.body) == "The dragoman stood"
    else:
        assert text_of("messages", answer) == "The dragoman stood"
        assert answer.json["stop_sequence"] == " between"


@pytest.mark.parametrize("client", CLIENTS)
def test_too_much_to_look_for_is_refused(
    gateway: RunningGateway, simulator: RunningSimulator, client: str
) -> None:
    """Each sequence is looked for in every delta, and as much may be held back."""
    for stops in ([str(number) for number in range(MOST + 1)], ["a" * (LONGEST + 1)]):
        answer = asked(gateway, client, "responses/sim-text", *stops)
        assert answer.status == 400
        assert "stop" in error_of(client, answer)["message"]
    assert not simulator.requests


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_before_the_cut_is_an_error(gateway: RunningGateway, client: str) -> None:
    """What was held back is given before it."""
    model = "responses/sim-truncate?after=6&delay_ms=10&words=9"
    plain = asked(gateway, client, model, "never", stream=True)
    text = streamed_text(client, plain.body)
    assert text
    answer = asked(gateway, client, model, text[-3:] + "~", stream=True)
    assert streamed_text(client, answer.body) == text
    assert stream_error(client, answer.body) is not None
    assert not completed(client, answer.body)

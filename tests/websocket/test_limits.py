"""Limits of keys hold for each request on a socket as for those by POST, and are told as frames
(W4)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Storage
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.limited import config, limit, serving, told
from tests.websocket.client import ENDS, Socket, opened
from tests.websocket.steering import QUICK, begun, steer

WHOLE = "sim-text?input=7&output=5"
SLOW = "sim-text?words=400&delay_ms=20"


def reserved(gateway: RunningGateway) -> list[Any]:
    return [one["reserved"] for one in told(gateway)["limits"]]


def refused(sock: Socket, model: str) -> dict[str, Any]:
    """The one event that answers a request which a limit refuses."""
    [event] = sock.turn(model)
    assert event["type"] == "error"
    assert event["headers"] == event["error"]["headers"]
    return event


def test_what_is_stored_without_an_answer_is_admitted(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """`generate: false` asks no upstream, and takes room in the store: a request as any other."""
    made = config(simulator.base_url, limit("requests", 3, "30s"))
    made = replace(made, storage=Storage(path=str(tmp_path / "store.db")))
    with running_gateway(made) as gateway, opened(gateway) as sock:
        ends = [
            sock.turn("chat/sim-text", "first", store=True, generate=False)[-1]["type"]
            for _ in range(5)
        ]
        assert ends == ["response.completed"] * 3 + ["error"] * 2
        # What is not stored is remembered by the connection alone, within its room.
        unstored = sock.turn("chat/sim-text", "first", store=False, generate=False)
        assert unstored[-1]["type"] == "response.completed"
        assert told(gateway)["limits"][0]["remaining"] == 0
    assert simulator.requests == []


@pytest.mark.parametrize("kind", ["chat", "messages", "responses"])
def test_a_rate_is_told_with_the_time_to_wait(simulator: RunningSimulator, kind: str) -> None:
    with (
        serving(config(simulator.base_url, limit("requests", 2, "30s"))) as (gateway, lines),
        opened(gateway) as sock,
    ):
        for left in (1, 0):
            [*_, end] = sock.turn(f"{kind}/{WHOLE}")
            assert end["type"] == "response.completed"
            assert told(gateway)["limits"][0]["remaining"] == left
        event = refused(sock, f"{kind}/{WHOLE}")
        assert event["status"] == 429
        assert (event["error"]["type"], event["error"]["code"]) == (
            "requests",
            "rate_limit_exceeded",
        )
        wait = re.search(r"Please try again in ([0-9.]+)s\.$", event["error"]["message"])
        assert wait is not None
        assert 25 < float(wait[1]) <= 30.2
        assert 25_000 < int(event["headers"]["retry-after-ms"]) <= 30_200
        assert 25 < int(event["headers"]["retry-after"]) <= 31
        assert event["headers"]["x-dragoman-limit"] == "key:requests:30s"
        assert "x-should-retry" not in event["headers"]
        simulator.wait_for(lambda: lines[-1]["status"] == 429)
        assert lines[-1]["limit"] == "key:requests:30s"
    assert len(simulator.requests) == 2


def test_a_spent_budget_is_told_so_that_nobody_comes_again(simulator: RunningSimulator) -> None:
    budget = limit("cost", "100", "total")
    made = config(simulator.base_url, budget)
    with running_gateway(made) as gateway, opened(gateway) as sock:
        sock.turn("chat/sim-text?input=7&output=99990")
        assert float(told(gateway)["limits"][0]["used"]) > 99
        event = refused(sock, "chat/sim-text")
        assert event["status"] == 429
        assert event["error"]["type"] == "insufficient_quota"
        assert event["error"]["code"] == "project_spend_limit_exceeded"
        assert event["headers"]["x-should-retry"] == "false"
        assert event["headers"]["x-dragoman-limit"] == "key:cost:total"
        assert not {"retry-after", "retry-after-ms"} & event["headers"].keys()
        # The connection is good for what costs nothing, and for whoever raises the budget.
        assert sock.turn("chat/sim-text", generate=False)[-1]["type"] == "response.completed"
    assert len(simulator.requests) == 1


def test_what_is_under_way_on_one_socket_counts_for_another(simulator: RunningSimulator) -> None:
    limits = (limit("concurrent", 2), limit("tokens", 10**6, "day"))
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        with opened(gateway) as one, opened(gateway) as other:
            for lane in ("a", "b"):
                one.create(f"chat/{SLOW}", stream_id=lane)
            simulator.wait_for(lambda: reserved(gateway)[0] == 2)
            event = refused(other, f"chat/{WHOLE}")
            assert (event["status"], event["error"]["type"]) == (429, "requests")
            assert event["headers"]["x-dragoman-limit"] == "key:concurrent"
            pieces = {"a": 0, "b": 0}
            while not all(pieces.values()):
                event = one.event()
                pieces[event["stream_id"]] += event["type"] == "response.output_text.delta"
        # Both were left by their client: they are read on to their usage, which is charged.
        simulator.wait_for(lambda: reserved(gateway) == [0, 0], seconds=30)
        shown = told(gateway)["limits"]
        assert shown[1]["used"] > 2 * 400
        with opened(gateway) as again:
            assert again.turn(f"chat/{WHOLE}")[-1]["type"] in ENDS
        assert reserved(gateway) == [0, 0]
        assert told(gateway)["limits"][1]["used"] == shown[1]["used"] + 12


def test_a_request_that_waits_for_its_turn_gets_it(simulator: RunningSimulator) -> None:
    made = config(simulator.base_url, limit("concurrent", 1, queue_s=20))
    with running_gateway(made) as gateway, opened(gateway) as one, opened(gateway) as other:
        one.create("chat/sim-text?words=20&delay_ms=20")
        simulator.wait_for(lambda: reserved(gateway) == [1])
        assert other.turn(f"chat/{WHOLE}")[-1]["type"] == "response.completed"
        assert one.events()[-1]["type"] == "response.completed"
        assert reserved(gateway) == [0]


def test_an_output_limit_is_lowered_and_told(simulator: RunningSimulator) -> None:
    made = config(simulator.base_url, limit("output_tokens", 1000, "total", clamp=True))
    with running_gateway(made) as gateway, opened(gateway) as sock:
        found = sock.turn("responses/sim-text", max_output_tokens=5000)
        clamped = [one["headers"] for one in found if "headers" in one]
        assert clamped[0]["x-dragoman-clamped"] == "1000"
        assert b'"max_output_tokens":1000' in simulator.last.body


def steerable(base_url: str, *limits: Limit) -> Config:
    """Responses are made over WebSocket."""
    made = config(base_url, *limits)
    upstreams = [replace(one, websocket="on") for one in made.upstreams if one.name == "responses"]
    accounts = tuple([one for one in made.accounts if one.upstream == "responses"])
    return replace(made, upstreams=tuple(upstreams), accounts=accounts)


def test_responses_that_were_steered_count_though_their_usage_is_not_told(
    simulator: RunningSimulator,
) -> None:
    made = steerable(simulator.base_url, limit("input_tokens", 10**6, "total"))
    with serving(made) as (gateway, lines), opened(gateway) as sock:
        sock.create(f"responses/{SLOW}", "word " * 400)
        for text in ("[[sim: words=400 delay_ms=20]]", QUICK):
            steer(sock, begun(sock), text)
        usage = sock.events()[-1]["response"]["usage"]
        while usage is None:
            usage = sock.events()[-1]["response"]["usage"]
        simulator.wait_for(lambda: "usage" in lines[-1])
        line = lines[-1]
        assert line["estimated"] is True
        used = told(gateway)["limits"][0]["used"]
        assert used == line["usage"]["input"]
        assert used > usage["input_tokens"] + 2 * 400


def test_input_for_a_response_under_way_has_to_fit(simulator: RunningSimulator) -> None:
    """Each time another answer follows, as long as the first may be. Of requests and of those at
    one time it is the same."""
    limits = (limit("output_tokens", 250, "total"), limit("requests", 1), limit("concurrent", 1))
    made = steerable(simulator.base_url, *limits)
    with running_gateway(made) as gateway, opened(gateway) as sock:
        sock.create(f"responses/{SLOW}", max_output_tokens=100)
        steer(sock, begun(sock), "[[sim: words=400 delay_ms=20]]")
        second = begun(sock)
        assert reserved(gateway) == [200, 0, 1]
        steer(sock, second, QUICK)
        refusal = sock.event()
        while refusal["type"] != "response.steer.failed":
            refusal = sock.event()
        assert refusal["error"]["code"] == "rate_limit_exceeded"
        assert "(limit 250, used 200, requested 100)" in refusal["error"]["message"]
        assert sock.events()[-1]["type"] in ENDS, "it goes on"
        assert reserved(gateway) == [0, 0, 0]
        assert told(gateway)["limits"][1]["used"] == 1

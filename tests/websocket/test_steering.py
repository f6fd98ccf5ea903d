"""More input for a response under way (W17): relayed where the upstream is called over WebSocket
and its answer passed through, else refused in the words for that."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.responses import ResponseSteerAcceptedEvent

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.http import KEY
from tests.websocket.client import ENDS, answer_id, opened, text_of
from tests.websocket.steering import QUICK, SLOW, asked, begun, refusal, steer
from tests.websocket.timing import in_flight
from tests.websocket.turns import TOOL, outputs_for, said


def test_a_response_is_steered(by_socket: RunningGateway, simulator: RunningSimulator) -> None:
    """It ends early, another goes on from it, of the same request, and the next request from that
    one; usage is that of both."""
    with opened(by_socket) as sock:
        sock.create(SLOW, "first", stream_id="a")
        first = begun(sock)
        steer(sock, first, [said(f"second {QUICK}")])
        found = sock.events()
        accepted = [one for one in found if one["type"] == "response.steer.accepted"]
        assert accepted[0]["steer"]["previous_response_id"] == first
        assert found[-1]["response"]["incomplete_details"] == {"reason": "steered"}
        assert all(one["stream_id"] == "a" for one in found)
        more = sock.events()
        numbers = [event["sequence_number"] for event in more]
        assert numbers == list(range(len(more)))
        assert more[0]["type"] == "response.created"
        assert more[0]["response"]["previous_response_id"] == first
        assert more[0]["response"]["model"] == SLOW
        assert more[-1]["response"]["status"] == "completed"
        assert asked(simulator) == ["first", f"second {QUICK}"]
        next_one = sock.turn(
            "chat/sim-text?text=on", "third", stream_id="a", previous_response_id=answer_id(more)
        )
        assert text_of(next_one) == "on"
        turns = [(one["role"], one["content"]) for one in simulator.last.json["messages"]]
        assert [text for role, text in turns if role == "user"] == [
            "first",
            f"second {QUICK}",
            "third",
        ]
        assert [role for role, _ in turns] == ["user", "user", "assistant", "user"]
        assert not in_flight(by_socket)
    posts = [one for one in simulator.requests if one.method == "POST"]
    assert len(posts) == 3, "no input became a request of its own but what the upstream made"


def test_two_lanes_are_steered_apart(
    by_socket: RunningGateway, simulator: RunningSimulator
) -> None:
    """Each over its own connection, while the other goes on; twice in a row where it goes on."""
    with opened(by_socket) as sock:
        names: dict[str, str] = {}
        for lane in ("a", "b"):
            model = SLOW if lane == "b" else "responses/sim-text?words=20&delay_ms=50"
            sock.create(model, lane, stream_id=lane)
        while len(names) < 2:
            event = sock.event()
            if event["type"] == "response.created":
                names[event["stream_id"]] = event["response"]["id"]
        steer(sock, names["b"], "quick")
        ends: list[tuple[str, str]] = []
        again = False
        while len(ends) < 4:
            event = sock.event()
            assert event["type"] != "error", event
            if event["type"] == "response.created" and event["stream_id"] == "b" and not again:
                again = True
                steer(sock, event["response"]["id"], f"quicker {QUICK}")
            if event["type"] in ENDS:
                ends.append((event["stream_id"], event["type"]))
        assert [kind for lane, kind in ends if lane == "a"] == ["response.completed"]
        assert [kind for lane, kind in ends if lane == "b"] == [
            "response.incomplete",
            "response.incomplete",
            "response.completed",
        ]
        whole = [one.json["input"] for one in simulator.requests if one.method == "POST"]
        texts = [[item["content"] for item in one if item.get("role") == "user"] for one in whole]
        assert ["b", "quick", f"quicker {QUICK}"] in texts
        assert ["a"] in texts


def test_input_waits_for_tool_outputs(
    by_socket: RunningGateway, simulator: RunningSimulator
) -> None:
    """Where the response ends with a call, what was accepted goes before what the next request
    brings, whichever connection, account or upstream that goes to; once."""
    with opened(by_socket) as sock:
        for upstream in ("responses", "chat"):
            model = "responses/sim-tool?tool=look&delay_ms=150&steered=pending&compatible=1"
            sock.create(model, "first", tools=[TOOL])
            steer(sock, begun(sock), "by the way")
            found = sock.events()
            assert found[-1]["type"] == "response.completed"
            pending = sock.event()
            assert pending["type"] == "response.steer.pending"
            outputs = outputs_for(found)
            assert [one["call_id"] for one in pending["required_input"]] == [
                one["call_id"] for one in outputs
            ]
            target = f"{upstream}/sim-tool?tool=look&compatible=1"
            more = {"tools": [TOOL], "previous_response_id": answer_id(found)}
            assert sock.turn(target, outputs, **more)[-1]["type"] == "response.completed"
            sent = simulator.last.body.decode()
            assert sent.count("by the way") == 1
            if upstream == "responses":
                kinds = [one.get("type") for one in simulator.last.json["input"]]
                assert kinds[-3:] == ["function_call", "message", "function_call_output"]


def test_outputs_are_injected(by_socket: RunningGateway, simulator: RunningSimulator) -> None:
    """They are of the conversation from then on; what cannot be is told so."""
    given = said("an output")
    with opened(by_socket) as sock:
        sock.create("responses/sim-text?words=60&delay_ms=30", "first")
        first = begun(sock)
        for target in (first, "resp_x"):
            sock.send({"type": "response.inject", "response_id": target, "input": [given]})
        found = sock.events()
        told = [one for one in found if one["type"].startswith("response.inject.")]
        assert [one["type"] for one in sorted(told, key=lambda one: one["type"])] == [
            "response.inject.created",
            "response.inject.failed",
        ]
        more = {"previous_response_id": answer_id(found)}
        assert answer_id(sock.turn("responses/sim-text", "next", **more))
        texts = [one.get("content") for one in simulator.last.json["input"]]
        # It came before the answer's message was whole.
        assert texts[:2] == ["first", "an output"]
        assert texts[3:] == ["next"]


@pytest.mark.parametrize("model", ["chat", "messages", "responses"])
def test_what_takes_no_input_refuses_it(
    gateway: RunningGateway, by_socket: RunningGateway, simulator: RunningSimulator, model: str
) -> None:
    """An upstream of another protocol, and one that is called by POST; and a response that is not
    there, or of another connection, wherever it is. None becomes a request."""
    where = gateway if model == "responses" else by_socket
    with opened(where) as sock, opened(where) as other:
        sock.create(f"{model}/sim-text?words=100&delay_ms=30")
        name = begun(sock)
        for one, target in ((sock, name), (sock, ""), (other, name)):
            steer(one, target, "hurry")
        refusals = [refusal(sock), refusal(sock), refusal(other)]
        codes = [one["error"]["code"] for one in refusals]
        assert codes == ["steering_not_supported", "response_not_found", "response_not_found"]
        assert refusals[0]["steer"] == {"previous_response_id": name, "input": "hurry"}
    assert len([one for one in simulator.requests if one.method == "POST"]) == 1


def test_what_is_over_takes_no_input(
    by_socket: RunningGateway, simulator: RunningSimulator
) -> None:
    with opened(by_socket) as sock:
        steer(sock, answer_id(sock.turn("responses/sim-text")), "late")
        assert refusal(sock)["error"]["code"] == "response_already_completed"
        sock.create(SLOW)
        steer(sock, begun(sock), [])
        assert refusal(sock)["error"]["code"] == "invalid_input"


def test_the_vendors_sdk_steers(by_socket: RunningGateway, simulator: RunningSimulator) -> None:
    """With the types of its own events."""
    client = openai.OpenAI(base_url=f"{by_socket.base_url}/v1", api_key=KEY, max_retries=0)
    found: list[Any] = []
    with client.responses.connect() as connection:
        connection.response.create(model=SLOW, input="first", store=False)
        for event in connection:
            found.append(event)
            if event.type == "response.created" and event.response.previous_response_id is None:
                target = event.response.id
                connection.response.steer(previous_response_id=target, input=f"on {QUICK}")
            if event.type == "response.completed":
                break
    [accepted] = [one for one in found if isinstance(one, ResponseSteerAcceptedEvent)]
    assert accepted.steer.previous_response_id == target
    kinds = [one.type for one in found if one.type in ENDS]
    assert kinds == ["response.incomplete", "response.completed"]
    assert found[-1].response.previous_response_id == target
    assert asked(simulator) == ["first", f"on {QUICK}"]

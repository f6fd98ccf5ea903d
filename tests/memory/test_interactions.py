"""Stored interactions, with Google's SDK as a client: shown again, continued, made in the
background, and kept apart from those of other clients and of other protocols."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google import genai
from google.genai import types

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.http import Answer, call
from tests.memory.conftest import KEY, OTHER_KEY, UPSTREAM, Start

PATH = "/v1/interactions"
SLOW = "sim-text?words=60&delay_ms=50"
WAIT_S = 60.0


@contextmanager
def client(gateway: RunningGateway, key: str = KEY) -> Iterator[Any]:
    options = types.HttpOptions(base_url=gateway.base_url, timeout=60_000)
    with genai.Client(api_key=key, http_options=options) as made:
        yield made.interactions


def asked(gateway: RunningGateway, method: str, path: str, body: Any = None) -> Answer:
    return call(gateway.base_url, method, path, body, {"x-goog-api-key": KEY}, key=None)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def gateway(start: Start, simulator: RunningSimulator) -> RunningGateway:
    """A gateway with an upstream of the protocol besides the others."""
    own = UPSTREAM.format(name="own", protocol="google_interactions", base_url=simulator.base_url)
    return start(routes=own)


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses", "own"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_interaction_is_shown_and_continued(
    gateway: RunningGateway, simulator: RunningSimulator, upstream: str, stream: bool
) -> None:
    with client(gateway) as me:
        asks = {"model": f"{upstream}/sim-text?text=Paris", "input": "Which town?"}
        if stream:
            *_, last = me.create(**asks, stream=True)
            name = last.interaction.id
        else:
            made = me.create(**asks, system_instruction="Be kind.")
            name = made.id
            assert [step.type for step in made.steps] == ["model_output"]
        assert name.startswith("v1_")
        shown = me.get(name, include_input=True)
        assert [step.type for step in shown.steps] == ["user_input", "model_output"]
        assert shown.steps[1].content[0].text == "Paris"
        assert shown.input == "Which town?"
        assert shown.status == "completed"
        more = me.create(
            model=f"{upstream}/sim-text?text=Seine",
            input="And its river?",
            previous_interaction_id=name,
        )
        assert more.previous_interaction_id == name
        sent = simulator.last.body
        assert b"Which town?" in sent
        assert b"Paris" in sent
        assert b"Be kind." not in sent
        assert b'"store":true' not in sent


def test_calls_are_answered_after_a_continuation(gateway: RunningGateway) -> None:
    tool = {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    with client(gateway) as me:
        *events, last = me.create(
            model="messages/sim-tool", input="Weather?", tools=[tool], stream=True
        )
        assert last.interaction.status == "requires_action"
        (step,) = [event.step for event in events if event.event_type == "step.start"]
        result = {
            "type": "function_result",
            "call_id": step.id,
            "name": step.name,
            "result": "sunny",
        }
        answer = me.create(
            model="messages/sim-tool",
            input=[result],
            tools=[tool],
            previous_interaction_id=last.interaction.id,
        )
        assert answer.status == "completed"


def test_others_find_nothing_and_nothing_is_found_twice(gateway: RunningGateway) -> None:
    """What is unknown, another client's, unstored or dropped is not there, all alike."""
    body = {"model": "chat/sim-text?words=1", "input": "Hi"}
    made = json.loads(asked(gateway, "POST", PATH, body).body)["id"]
    unstored = json.loads(asked(gateway, "POST", PATH, {**body, "store": False}).body)["id"]
    dropped = json.loads(asked(gateway, "POST", PATH, body).body)["id"]
    gone = asked(gateway, "DELETE", f"{PATH}/{dropped}")
    assert (gone.status, json.loads(gone.body)) == (200, {})
    for name in (unstored, dropped, "v1_nobody-knows", "resp_0123"):
        assert asked(gateway, "GET", f"{PATH}/{name}").status == 404
        answer = asked(gateway, "POST", PATH, {**body, "previous_interaction_id": name})
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "not_found")
    theirs = {"x-goog-api-key": OTHER_KEY}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
        answer = call(gateway.base_url, method, f"{PATH}/{made}{path}", None, theirs, key=None)
        assert answer.status == 404
    assert asked(gateway, "GET", f"{PATH}/{made}?stream=false").status == 200
    responses = {"authorization": f"Bearer {KEY}"}
    answer = call(gateway.base_url, "GET", f"/v1/responses/{made}", None, responses, key=None)
    assert answer.status == 404
    assert asked(gateway, "GET", PATH).status == 404


def test_background_and_what_it_needs(gateway: RunningGateway) -> None:
    body = {"model": "chat/sim-text?text=Done", "input": "Hi", "background": True}
    refused = asked(gateway, "POST", PATH, {**body, "store": False})
    assert refused.status == 400
    with client(gateway) as me:
        made = me.create(**body)
        assert made.status == "in_progress"
        until(lambda: me.get(made.id).status == "completed")
        shown = me.get(made.id)
        assert shown.steps[-1].content[0].text == "Done"
        assert me.cancel(made.id).status == "completed"
        slow = me.create(model=f"chat/{SLOW}", input="Hi", background=True)
        assert me.cancel(slow.id).status == "cancelled"
        assert me.get(slow.id).status == "cancelled"


@pytest.mark.parametrize("upstream", ["chat", "own"])
def test_a_stream_is_resumed_after_an_event(gateway: RunningGateway, upstream: str) -> None:
    with client(gateway) as me:
        body = {"model": f"{upstream}/sim-text?words=8", "input": "Hi", "background": True}
        events = list(me.create(**body, stream=True))
        names = [event.event_id for event in events]
        assert len(set(names)) == len(names)
        made = events[-1].interaction.id
        again = list(me.get(made, stream=True))
        assert [event.event_id for event in again] == names
        rest = list(me.get(made, stream=True, last_event_id=names[3]))
        assert [event.event_id for event in rest] == names[4:]
        assert list(me.get(made, stream=True, last_event_id=names[-1])) == []
    unknown = (f"stream=true&last_event_id={name}" for name in ("nobody", "e0", "e9999"))
    for query in ("last_event_id=e3", *unknown):
        refused = asked(gateway, "GET", f"{PATH}/{made}?{query}")
        assert refused.status == 400
        assert b"last_event_id" in refused.body
    raw = asked(gateway, "GET", f"{PATH}/{made}?stream=true").body
    assert raw.endswith(b"data: [DONE]\n\n")
    assert raw.count(b"[DONE]") == 1


def test_an_end_that_was_not_streamed_is_an_event(gateway: RunningGateway) -> None:
    """What is cancelled ends with an event that can be named like the others."""
    with client(gateway) as me:
        slow = me.create(model=f"chat/{SLOW}", input="Hi", background=True)
        me.cancel(slow.id)
        *_, last = me.get(slow.id, stream=True)
        assert last.interaction.status == "cancelled"
        assert list(me.get(slow.id, stream=True, last_event_id=last.event_id)) == []


def test_a_stream_to_its_client_is_not_streamed_later(gateway: RunningGateway) -> None:
    with client(gateway) as me:
        *_, last = me.create(model="chat/sim-text?words=2", input="Hi", stream=True)
    refused = asked(gateway, "GET", f"{PATH}/{last.interaction.id}?stream=true")
    assert refused.status == 400
    assert b"made in the background" in refused.body

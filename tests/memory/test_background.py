"""Responses that are made without their client."""

from __future__ import annotations

import json

import openai
import pytest
from openai.types.responses import ResponseTextDeltaEvent

from dragoman.lab.simulator.testing import RunningSimulator
from tests.checkers.framing import frames
from tests.gateway.http import call
from tests.gateway.processes import until
from tests.memory.asking import client
from tests.memory.background import SLOW, finished
from tests.memory.conftest import KEY, Start

UPSTREAMS = ["chat", "messages", "responses"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_it_is_queued_and_polled(start: Start, upstream: str) -> None:
    with client(start()) as me:
        made = me.responses.create(model=f"{upstream}/sim-text", input="Hi", background=True)
        assert made.status == "queued"
        assert made.background is True
        assert made.output == []
        done = finished(me, made.id)
        assert done.status == "completed"
        assert done.id == made.id
        assert done.background is True
        assert done.output_text
        assert done.usage is not None
        again = me.responses.create(
            model=f"{upstream}/sim-text", input="More", previous_response_id=made.id
        )
        assert again.status == "completed"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_it_is_followed_from_any_place_at_any_worker(start: Start, upstream: str) -> None:
    with client(start()) as me, client(start()) as elsewhere:
        stream = me.responses.create(
            model=f"{upstream}/sim-text?words=20&delay_ms=20",
            input="Hi",
            background=True,
            stream=True,
        )
        seen = [next(stream) for _ in range(5)]
        stream.close()
        name = seen[0].response.id  # type: ignore[union-attr]
        rest = list(elsewhere.responses.retrieve(name, stream=True, starting_after=4))
        events = [*seen, *rest]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"
        assert events[-1].response.id == name
        deltas = [event for event in events if isinstance(event, ResponseTextDeltaEvent)]
        text = "".join([event.delta for event in deltas])
        assert me.responses.retrieve(name).output_text == text
        everything = list(elsewhere.responses.retrieve(name, stream=True))
        assert [event.to_dict() for event in everything] == [event.to_dict() for event in events]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_it_goes_on_when_the_client_leaves_and_stops_when_told(
    start: Start, simulator: RunningSimulator, upstream: str
) -> None:
    with client(start()) as me, client(start()) as elsewhere:
        stream = me.responses.create(
            model=f"{upstream}/{SLOW}", input="Hi", background=True, stream=True
        )
        name = next(stream).response.id  # type: ignore[union-attr]
        stream.close()
        until(lambda: elsewhere.responses.retrieve(name).status == "in_progress")
        cancelled = elsewhere.responses.cancel(name)
        assert cancelled.status == "cancelled"
        assert elsewhere.responses.cancel(name).status == "cancelled"
        until(lambda: simulator.last.disconnected)
        assert me.responses.retrieve(name).status == "cancelled"
        last = list(me.responses.retrieve(name, stream=True))[-1]
        assert last.type == "response.failed"
        assert last.response.status == "cancelled"


def test_a_finished_one_cannot_be_cancelled(start: Start) -> None:
    with client(start()) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi", background=True)
        assert finished(me, made.id).status == "completed"
        with pytest.raises(openai.BadRequestError, match="Cannot cancel a completed response"):
            me.responses.cancel(made.id)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("scenario", ["sim-500", "sim-truncate?after=3"])
def test_it_fails_with_a_reason(start: Start, upstream: str, scenario: str) -> None:
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model=f"{upstream}/{scenario}", input="Hi", background=True)
        failed = finished(me, made.id)
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error.message
    answer = call(gateway.base_url, "GET", f"/v1/responses/{made.id}?stream=true", key=KEY)
    told = [json.loads(frame.data) for frame in frames(answer.body)]
    assert told[-1]["type"] == "response.failed"
    assert told[-1]["response"]["id"] == made.id
    assert [event["sequence_number"] for event in told] == list(range(len(told)))


def test_a_clean_stop_waits_for_it_as_for_other_answers_and_says_so(start: Start) -> None:
    patient = start()
    hurried = start("background_again = false", "[server]\nshutdown_grace_s = 0.5\n")
    with client(patient) as me, client(hurried) as other, client(start()) as elsewhere:
        kept = me.responses.create(model=f"chat/{SLOW}", input="Hi", background=True)
        model = "chat/sim-text?words=600&delay_ms=100"
        made = other.responses.create(model=model, input="Hi", background=True)
        for one in (kept, made):
            until(lambda one=one: elsewhere.responses.retrieve(one.id).status == "in_progress")  # type: ignore[misc]
        patient.stop()
        hurried.stop()
        assert finished(elsewhere, kept.id).status == "completed"
        failed = finished(elsewhere, made.id)
        assert failed.status == "failed"
        assert failed.error is not None
        assert "stopped" in failed.error.message


def test_it_is_dropped_while_it_is_made(start: Start, simulator: RunningSimulator) -> None:
    with client(start()) as me:
        made = me.responses.create(model=f"chat/{SLOW}", input="Hi", background=True)
        until(lambda: bool(simulator.requests))
        me.responses.delete(made.id)
        until(lambda: simulator.last.disconnected)
        with pytest.raises(openai.NotFoundError):
            me.responses.retrieve(made.id)

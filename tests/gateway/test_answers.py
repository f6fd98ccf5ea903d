"""Whole answers: what is believed, what is reported as lost, and what is not an answer at all."""

from __future__ import annotations

import itertools

import pytest

from dragoman.config import Route
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, error_of, text_of
from tests.gateway.conftest import Start
from tests.gateway.http import call
from tests.gateway.odd_upstream import answering

CELLS = list(itertools.product(APIS, APIS))


@pytest.mark.parametrize("fault", ["error_200", "html", "empty", "wrong_protocol"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_an_honest_5xx(
    gateway: RunningGateway, client: str, upstream: str, fault: str, stream: bool
) -> None:
    """Never a false success."""
    made = body(client, f"{upstream}/sim-{fault}", stream=stream)
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    assert answer.status >= 500
    error_of(client, answer)


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_two_choices_are_no_answer(gateway: RunningGateway, client: str) -> None:
    """req: 61"""
    for stream in (False, True):
        made = body(client, "chat/sim-two_choices", stream=stream)
        answer = call(gateway.base_url, "POST", PATHS[client], made)
        told = answer.body.decode()
        assert answer.status == 502 or '"error"' in told


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_stream_nobody_asked_for_becomes_a_whole_answer(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, content_type: str
) -> None:
    """An upstream that always streams is read to its end."""
    made = body(upstream, "sim-text?text=All+of+it", stream=True)
    version = {"anthropic-version": "2026-10-21"} if upstream == "messages" else {}
    stream = call(simulator.base_url, "POST", PATHS[upstream], made, version).body
    with answering(200, content_type, stream) as base_url:
        gateway = start(base_url=base_url)
        made = body(client, f"{upstream}/m")
        answer = call(gateway.base_url, "POST", PATHS[client], made)
    assert answer.status == 200
    assert text_of(client, answer) == "All of it"


ODD = [
    (200, "application/json", b"[]"),
    (200, "application/json", b'"text"'),
    (200, "application/json", b'{"error": "a text"}'),
    (200, "application/json", b'{"error": {"message": "Network connection lost."}}'),
    (200, "text/event-stream", b"data: not json\n\n"),
    (200, "text/event-stream", b": only a comment\n\n"),
    (200, "text/event-stream", b"data: [DONE]\n\n"),
    (200, "text/event-stream", b"event: ping\n\n"),
    (200, "application/octet-stream", bytes(range(256))),
    (204, "application/json", b""),
    (302, "text/html", b"elsewhere"),
    (500, "application/json", b'{"error": null}'),
    (599, "text/plain", b"\xff\xfe"),
]


@pytest.mark.parametrize(("status", "content_type", "answered"), ODD)
def test_odd_answers(start: Start, status: int, content_type: str, answered: bytes) -> None:
    """Whatever comes, the client gets an error it can read."""
    with answering(status, content_type, answered) as base_url:
        gateway = start(base_url=base_url)
        for (client, upstream), stream in itertools.product(CELLS, (False, True)):
            made = body(client, f"{upstream}/m", stream=stream)
            answer = call(gateway.base_url, "POST", PATHS[client], made)
            assert answer.status >= 500
            error_of(client, answer)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_names_the_model_the_client_asked_for(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, stream: bool
) -> None:
    """req: 150"""
    gateway = start(routes=(Route(match="nick", upstream=upstream, model="sim-text"),))
    answer = call(gateway.base_url, "POST", PATHS[client], body(client, "nick", stream=stream))
    assert answer.status == 200
    assert b'"nick"' in answer.body
    assert b"sim-text" not in answer.body
    assert simulator.last.model == "sim-text"


@pytest.mark.parametrize("stream", [False, True])
def test_losses_are_reported(gateway: RunningGateway, stream: bool) -> None:
    made = body("chat", "messages/sim-text", stream=stream, seed=5)
    made["messages"][0]["name"] = "someone"
    answer = call(gateway.base_url, "POST", PATHS["chat"], made)
    assert answer.status == 200
    told = answer.headers["x-dragoman-losses"]
    assert "seed:knob" in told
    assert "messages[0]" in told
    assert "someone" not in told


def test_nothing_lost_nothing_reported(gateway: RunningGateway) -> None:
    answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text", seed=5))
    assert "x-dragoman-losses" not in answer.headers


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_long_prompt(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """Megabytes pass, in one piece."""
    made = body(client, f"{upstream}/sim-text", "word " * 500_000)
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    assert answer.status == 200
    assert len(simulator.last.body) > 2_500_000


def test_no_secret_and_no_prompt_in_the_log(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for model in ("chat/sim-text", "chat/sim-500", "nothing"):
        made = body("messages", model, "my private words", seed="private")
        call(gateway.base_url, "POST", PATHS["messages"], made)
    assert caplog.messages
    assert "private" not in caplog.text
    assert "sk-" not in caplog.text

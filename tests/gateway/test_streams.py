"""Delivery of a stream: its head, signs of life, the client that leaves or reads slowly, and every
way in which an upstream can break off."""

from __future__ import annotations

import itertools
import socket
import time

import pytest

from dragoman.config import Server, Timeouts
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
)
from tests.gateway.conftest import Start
from tests.gateway.http import AUTH, Answer, Connection, call, events

CELLS = list(itertools.product(APIS, APIS))
WORDS = "The dragoman stood between two courts and carried every word across safely."


def streamed(gateway: RunningGateway, client: str, model: str) -> Answer:
    made = body(client, model, stream=True)
    return call(gateway.base_url, "POST", PATHS[client], made)


def opened(gateway: RunningGateway, client: str, model: str) -> Connection:
    """A connection on which a stream was asked for."""
    connection = Connection(gateway.base_url)
    connection.send("POST", PATHS[client], body(client, model, stream=True), AUTH)
    return connection


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_stream(gateway: RunningGateway, client: str, upstream: str) -> None:
    """req: 119, 120, 123, 124"""
    answer = streamed(gateway, client, f"{upstream}/sim-text")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert streamed_text(client, answer.body) == WORDS
    assert completed(client, answer.body)
    assert b"\r" not in answer.body
    assert answer.body.endswith(b"\n\n")
    lines = answer.body.splitlines()
    assert not [line for line in lines if line.startswith((b"id:", b"retry:"))]


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_each_event_is_sent_at_once_and_in_one_piece(
    gateway: RunningGateway, client: str, upstream: str
) -> None:
    """Every write ends with an event's blank line, and comes before the next is there. req: 122"""
    with opened(gateway, client, f"{upstream}/sim-text?delay_ms=20&text=one+two+three") as stream:
        assert stream.head().status == 200
        chunks = list(iter(stream.chunk, b""))
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    telling = [chunk for chunk in chunks if streamed_text(client, chunk)]
    assert len(telling) == 3


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_bytes_cut_anywhere(gateway: RunningGateway, client: str, upstream: str) -> None:
    """req: 126"""
    whole = streamed(gateway, client, f"{upstream}/sim-multibyte")
    cut = streamed(gateway, client, f"{upstream}/sim-multibyte?cut=1")
    assert streamed_text(client, cut.body) == streamed_text(client, whole.body)
    assert completed(client, cut.body)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_silence_is_bridged(start: Start, client: str, upstream: str) -> None:
    """req: 129"""
    gateway = start(server=Server(keepalive_s=0.02, commit_after_s=5.0))
    model = f"{upstream}/sim-text?delay_ms=75&text=one+two"
    answer = streamed(gateway, client, model)
    sign = b"event: ping" if client == "messages" else b": keepalive"
    assert answer.body.count(sign) > 2
    assert completed(client, answer.body)
    assert streamed_text(client, answer.body) == "one two"


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_the_head_waits_for_the_first_event(start: Start, client: str, upstream: str) -> None:
    """Nothing is shown of an upstream that has not begun; then a sign of life comes in time."""
    gateway = start(server=Server(keepalive_s=0.05, commit_after_s=0.15))
    before = time.monotonic()
    with opened(gateway, client, f"{upstream}/sim-text?head_ms=400") as stream:
        assert stream.head().status == 200
        assert time.monotonic() - before >= 0.14
        first = stream.chunk()
        assert not events(first) or events(first)[0][0] == "ping"
        rest = b"".join(iter(stream.chunk, b""))
    assert completed(client, rest)


@pytest.mark.parametrize("client", APIS)
def test_signs_of_life_can_be_off(start: Start, client: str) -> None:
    gateway = start(server=Server(keepalive_s=0, commit_after_s=0.05))
    answer = streamed(gateway, client, "chat/sim-text?first_ms=200&delay_ms=30&text=a+b")
    assert b"keepalive" not in answer.body
    assert answer.body.count(b"event: ping") == (1 if client == "messages" else 0)
    assert completed(client, answer.body)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_failure_after_the_head_is_an_error_in_the_stream(
    start: Start, client: str, upstream: str
) -> None:
    """Once the 200 is out there is no other way to say it. req: 121"""
    gateway = start(server=Server(keepalive_s=0.05, commit_after_s=0.1))
    answer = streamed(gateway, client, f"{upstream}/sim-529?head_ms=250")
    assert answer.status == 200
    assert stream_error(client, answer.body) is not None
    assert not completed(client, answer.body)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_failure_before_the_head_has_its_status(
    gateway: RunningGateway, client: str, upstream: str
) -> None:
    """req: 121, 142"""
    answer = streamed(gateway, client, f"{upstream}/sim-529")
    assert answer.status == (529 if client == "messages" else 503)
    assert answer.headers["content-type"] == "application/json"
    error_of(client, answer)


FIRST_EVENT_ERROR = "sim-error_in_stream?after=0&status=529"


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_an_error_as_first_event_counts_as_before_the_stream(
    gateway: RunningGateway, client: str, upstream: str
) -> None:
    answer = streamed(gateway, client, f"{upstream}/{FIRST_EVENT_ERROR}")
    assert answer.status == (529 if client == "messages" else 503)
    error_of(client, answer)


@pytest.mark.parametrize("fault", ["truncate", "close", "reset", "error_in_stream"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_broken_stream_ends_in_an_error(
    gateway: RunningGateway, client: str, upstream: str, fault: str
) -> None:
    """req: 115, 155, 156"""
    model = f"{upstream}/sim-{fault}?after=6&delay_ms=10&words=9"
    answer = streamed(gateway, client, model)
    assert answer.status == 200
    assert streamed_text(client, answer.body)
    error = stream_error(client, answer.body)
    assert error is not None
    assert error["message"]
    assert not completed(client, answer.body)
    last = events(answer.body)[-1]
    if client == "chat":
        assert last[1] == "[DONE]"
    else:
        assert last[0] in ("error", "response.failed")


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_silent_upstream_is_given_up(start: Start, client: str, upstream: str) -> None:
    timeouts = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=0.2)
    gateway = start(timeouts=timeouts)
    answer = streamed(gateway, client, f"{upstream}/sim-silence?after=6&ms=30000&delay_ms=1")
    assert answer.status == 200
    assert stream_error(client, answer.body) is not None
    assert not completed(client, answer.body)


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_never_answers_is_a_504(start: Start, client: str, stream: bool) -> None:
    gateway = start(timeouts=Timeouts(connect_s=2.0, first_byte_s=0.2, idle_s=0.2))
    made = body(client, "chat/sim-text?head_ms=20000", stream=stream)
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    assert answer.status == 504
    error_of(client, answer)


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_is_not_there_is_a_502(start: Start, client: str, stream: bool) -> None:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        gateway = start(base_url=f"http://127.0.0.1:{plug.getsockname()[1]}")
    answer = call(
        gateway.base_url, "POST", PATHS[client], body(client, "chat/sim-text", stream=stream)
    )
    assert answer.status == 502
    assert "127.0.0.1" not in error_of(client, answer)["message"]


@pytest.mark.parametrize("fault", ["full_body", "wrong_content_type"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_whole_answer_to_a_stream_request_becomes_a_stream(
    gateway: RunningGateway, client: str, upstream: str, fault: str
) -> None:
    answer = streamed(gateway, client, f"{upstream}/sim-{fault}")
    assert answer.status == 200
    assert completed(client, answer.body)
    assert streamed_text(client, answer.body) == WORDS


class TestTheClientLeaves:
    """req: 130, 131"""

    @pytest.mark.parametrize(("client", "upstream"), CELLS)
    def test_in_the_middle_of_a_stream(
        self, gateway: RunningGateway, simulator: RunningSimulator, client: str, upstream: str
    ) -> None:
        """The upstream's call ends at once. req: 130, 131"""
        with opened(gateway, client, f"{upstream}/sim-text?delay_ms=20&words=5000") as stream:
            stream.head()
            stream.chunk()
        self.check(gateway, simulator, upstream)

    @pytest.mark.parametrize("client", APIS)
    def test_before_the_stream(
        self, gateway: RunningGateway, simulator: RunningSimulator, client: str
    ) -> None:
        """req: 130"""
        with opened(gateway, client, "chat/sim-text?head_ms=20000"):
            simulator.wait_for(lambda: len(simulator.requests) == 1)
        self.check(gateway, simulator, "chat")

    @pytest.mark.parametrize("client", APIS)
    def test_while_waiting_for_a_whole_answer(
        self, gateway: RunningGateway, simulator: RunningSimulator, client: str
    ) -> None:
        """req: 130"""
        with Connection(gateway.base_url) as connection:
            made = body(client, "messages/sim-text?head_ms=20000")
            connection.send("POST", PATHS[client], made, AUTH)
            simulator.wait_for(lambda: len(simulator.requests) == 1)
        self.check(gateway, simulator, "messages")

    def test_no_other_account_is_tried_for_it(
        self, start: Start, simulator: RunningSimulator
    ) -> None:
        gateway = start(keys=("sk-sim-a", "sk-sim-b"))
        with opened(gateway, "chat", "chat/sim-text?head_ms=20000"):
            simulator.wait_for(lambda: len(simulator.requests) == 1)
        self.check(gateway, simulator, "chat")
        assert len(simulator.requests) == 1

    def check(self, gateway: RunningGateway, simulator: RunningSimulator, upstream: str) -> None:
        simulator.wait_for(lambda: simulator.last.disconnected)
        assert not simulator.last.finished
        pool = gateway.app.pool
        simulator.wait_for(lambda: pool.in_flight(f"{upstream}-0") == 0)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_slow_reader_slows_the_upstream(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """Nothing piles up here: the upstream stops sending until the client reads on."""
    total = 24 * 1024 * 1024
    model = f"{upstream}/sim-flood?events=6000&bytes=4096"
    with opened(gateway, client, model) as stream:
        stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        assert stream.head().status == 200
        simulator.wait_for(lambda: bool(simulator.requests))
        record, sent = simulator.last, -1
        while record.bytes_sent != sent:
            sent = record.bytes_sent
            time.sleep(0.2)
        assert 0 < sent < total * 0.7
        assert not record.finished
        assert not record.disconnected


def test_a_stream_costs_no_task_per_event(gateway: RunningGateway) -> None:
    """A long stream is delivered whole and in order."""
    answer = streamed(gateway, "messages", "chat/sim-flood?events=20000&bytes=2")
    assert len(streamed_text("messages", answer.body)) == 40000
    assert completed("messages", answer.body)


def test_the_connection_to_the_upstream_is_used_again(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    for client, upstream in CELLS:
        for _ in range(3):
            answer = streamed(gateway, client, f"{upstream}/sim-text")
            assert answer.status == 200
    connections = gateway.app._client._connections
    assert len(connections) == 1

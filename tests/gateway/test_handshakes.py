"""What precedes an answer's content is held back, so that a failure right after it is still tried
on the next account, and has a status of its own if there is none."""

from __future__ import annotations

import itertools
import json

import pytest

from dragoman.config import Fallback, Route, Server
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault, FaultKind
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.translation import AnswerStream
from tests.faults.upstream import event, events
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
)
from tests.gateway.conftest import PROTOCOLS, Start
from tests.gateway.http import AUTH, Answer, Connection, call
from tests.gateway.http import events as read
from tests.library import translate_request

CELLS = list(itertools.product(APIS, APIS))
BAD, GOOD = "sk-sim-bad", "sk-sim-good"
HANDSHAKE = {"chat": 1, "messages": 3, "responses": 4}
"""Events of the simulator before the first that holds something: a role; a message, a block and a
ping; two response objects, an item and a part."""


def stream_of(client: str, upstream: str) -> AnswerStream:
    """A translator for a streamed answer."""
    made = json.dumps(body(client, "m", stream=True)).encode()
    return translate_request(PROTOCOLS[client], PROTOCOLS[upstream], made).open_stream()


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_stream_begins_with_its_first_text(client: str, upstream: str) -> None:
    """Empty texts, blocks and items are no beginning."""
    stream = stream_of(client, upstream)
    frames = events(upstream, "", "Hello")
    telling = next(number for number, frame in enumerate(frames) if b"Hello" in frame)
    for frame in frames[:telling]:
        stream.feed(frame)
        assert not stream.begun, frame
    stream.feed(frames[telling])
    assert stream.begun


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_an_empty_answer_is_whole_without_a_beginning(client: str, upstream: str) -> None:
    stream = stream_of(client, upstream)
    shown = b"".join(stream.feed(frame) for frame in events(upstream)) + stream.finish()
    assert not stream.begun
    assert stream.outcome.ended
    assert completed(client, shown)


TELLING = {
    "chat": (
        {"reasoning_content": "Hm"},
        {"reasoning": "Hm"},
        {"refusal": "No"},
        {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": ""}}]},
    ),
    "messages": (
        {"type": "thinking", "thinking": "Hm", "signature": ""},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ),
    "responses": (
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""},
        {"type": "web_search_call", "id": "ws_1", "status": "in_progress"},
    ),
}


@pytest.mark.parametrize("api", APIS)
def test_reasoning_and_the_names_of_tools_are_content(api: str) -> None:
    for number in range(len(TELLING[api])):
        part = TELLING[api][number]
        stream = stream_of(api, api)
        if api == "chat":
            stream.feed(event({"choices": [{"index": 0, "delta": {"role": "assistant"}}]}))
            frame = event({"choices": [{"index": 0, "delta": part}]})
        elif api == "messages":
            stream.feed(events(api)[0])
            frame = event({"type": "content_block_start", "index": 0, "content_block": part})
        else:
            stream.feed(events(api)[0])
            frame = event({"type": "response.output_item.added", "output_index": 0, "item": part})
        assert not stream.begun
        stream.feed(frame)
        assert stream.begun, part


KINDS: tuple[FaultKind, ...] = ("error_in_stream", "truncate", "close", "reset")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_failure_after_the_handshake_is_tried_elsewhere(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, kind: FaultKind
) -> None:
    """req: 142"""
    gateway = start(keys=(BAD, GOOD))
    for after in range(1, HANDSHAKE[upstream] + 1):
        fault = Fault(kind, after=after, failure=Failure(status=529))
        simulator.app.keys.behaviours[BAD] = KeyBehaviour(fault)
        gateway.app.pool.enable(f"{upstream}-0")
        answer = streamed(gateway.base_url, client, f"{upstream}/sim-text?text=Hello")
        assert answer.status == 200
        assert completed(client, answer.body), answer.body
        assert streamed_text(client, answer.body) == "Hello"
        names = [name for name, _ in read(answer.body)]
        assert names.count("message_start") <= 1
        assert names.count("response.created") <= 1
    assert {request.key for request in simulator.requests} == {BAD, GOOD}


def streamed(base_url: str, client: str, model: str) -> Answer:
    return call(base_url, "POST", PATHS[client], body(client, model, stream=True))


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_it_has_its_true_status_if_there_is_none(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """req: 121"""
    gateway = start(keys=(BAD,))
    after = HANDSHAKE[upstream]
    model = f"{upstream}/sim-error_in_stream?after={after}&status=529"
    answer = streamed(gateway.base_url, client, model)
    assert answer.status == (529 if client == "messages" else 503)
    error_of(client, answer)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_signs_of_life_do_not_end_the_holding(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """The head goes out when the wait is long, and still nothing of the first account's answer."""
    gateway = start(keys=(BAD, GOOD), server=Server(keepalive_s=0.03, commit_after_s=0.06))
    after = HANDSHAKE[upstream]
    fault = Fault("error_in_stream", after=after, failure=Failure(status=529))
    simulator.app.keys.behaviours[BAD] = KeyBehaviour(fault)
    model = f"{upstream}/sim-text?text=Hello&delay_ms=70"
    answer = streamed(gateway.base_url, client, model)
    assert completed(client, answer.body), answer.body
    assert streamed_text(client, answer.body) == "Hello"
    names = [name for name, _ in read(answer.body)]
    assert names.count("message_start") <= 1
    assert names.count("response.created") <= 1
    assert stream_error(client, answer.body) is None
    assert [request.key for request in simulator.requests] == [BAD, GOOD]


@pytest.mark.parametrize(("client", "upstream"), CELLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_whole_answer_that_is_an_error_is_tried_elsewhere(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, stream: bool
) -> None:
    """A 200 proves nothing: neither an error's body nor a response that says it failed."""
    gateway = start(keys=(BAD, GOOD))
    kinds: tuple[FaultKind, ...] = ("error_200", "error_in_stream")
    for kind in kinds if upstream == "responses" else kinds[:1]:
        gateway.app.pool.enable(f"{upstream}-0")
        fault = Fault(kind, failure=Failure(status=529))
        simulator.app.keys.behaviours[BAD] = KeyBehaviour(fault)
        simulator.app.requests.clear()
        made = body(client, f"{upstream}/sim-text?text=Hello", stream=stream)
        answer = call(gateway.base_url, "POST", PATHS[client], made)
        assert answer.status == 200
        assert b"Hello" in answer.body
        assert b"failed" not in answer.body
        assert [request.key for request in simulator.requests] == [BAD, GOOD]


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_nobody_else_is_asked_for_a_client_that_leaves_meanwhile(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """No other account and no fallback; the account is as good as before. req: 130, 131"""
    other = next(name for name in APIS if name != upstream)
    model = f"sim-silence?after={HANDSHAKE[upstream]}&ms=30000"
    fallback = Fallback(upstream=other, model="sim-text")
    route = Route(match="m", upstream=upstream, model=model, fallbacks=(fallback,))
    server = Server(keepalive_s=0.05, commit_after_s=0.1, shutdown_grace_s=1.0)
    gateway = start(keys=(BAD, GOOD), routes=(route,), server=server)
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS[client], body(client, "m", stream=True), AUTH)
        connection.head()
        connection.chunk()
    simulator.wait_for(lambda: simulator.last.disconnected)
    pool = gateway.app.pool
    simulator.wait_for(lambda: not pool.in_flight(f"{upstream}-0"))
    assert len(simulator.requests) == 1
    state = pool.state(f"{upstream}-0")
    assert not state.cooling
    assert state.exhausted is None
    assert not state.disabled

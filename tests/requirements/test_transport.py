"""Endpoints, keys and delivery, over real sockets: requirements 1 to 13 and 119 to 132."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.config import Server
from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.simulator.accounts import KeyBehaviour
from dragoman.simulator.script import Failure, Fault
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import AUTH, JSON, KEY, Answer, Connection, call
from tests.requirements.cells import frame_parser, hand_parser

CELLS = list(itertools.product(APIS, APIS))
MODES = [False, True]
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, PUT, DELETE, OPTIONS",
    "access-control-allow-headers": "Content-Type, Authorization, X-API-Key",
}


def ask(gateway: RunningGateway, client: str, model: str, **more: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[client], body(client, model, **more))


def opened(gateway: RunningGateway, client: str, model: str) -> Connection:
    """A connection on which a stream was asked for."""
    connection = Connection(gateway.base_url)
    connection.send("POST", PATHS[client], body(client, model, stream=True), AUTH)
    return connection


# --- endpoints, keys, headers ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_every_endpoint_serves_both_modes(
    gateway: RunningGateway, client: str, upstream: str, stream: bool
) -> None:
    """In all nine pairs. req: 1, 7, 10"""
    answer = ask(gateway, client, f"{upstream}/sim-text?text=Hello+there", stream=stream)
    assert answer.status == 200
    if stream:
        assert streamed_text(client, answer.body) == "Hello there"
        assert completed(client, answer.body)
    else:
        assert text_of(client, answer) == "Hello there"


def test_the_list_of_models_is_an_endpoint(gateway: RunningGateway) -> None:
    """req: 1, 2"""
    assert call(gateway.base_url, "GET", "/v1/models", key=None).status == 401
    assert call(gateway.base_url, "GET", "/v1/models").json["object"] == "list"


@pytest.mark.parametrize("client", APIS)
def test_either_header_carries_the_key(gateway: RunningGateway, client: str) -> None:
    """On every endpoint, for SDKs of both vendors use both. req: 2, 3"""
    made = body(client, f"{client}/sim-text")
    for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
        answer = call(gateway.base_url, "POST", PATHS[client], made, headers, key=None)
        assert answer.status == 200
    for headers in ({"authorization": "Bearer sk-other"}, {"x-api-key": "sk-other"}, {}):
        answer = call(gateway.base_url, "POST", PATHS[client], made, headers, key=None)
        assert answer.status == 401


@pytest.mark.parametrize("client", APIS)
def test_the_key_is_checked_before_the_body(gateway: RunningGateway, client: str) -> None:
    """The answer is there although the body never comes; with a bad key a bad body is no matter.
    req: 4"""
    with Connection(gateway.base_url) as connection:
        headers = {**JSON, "x-api-key": "wrong", "content-length": "1000000"}
        connection.send("POST", PATHS[client], headers=headers)
        assert connection.answer().status == 401
    assert call(gateway.base_url, "POST", PATHS[client], b"{", key="wrong").status == 401


@pytest.mark.parametrize("client", APIS)
def test_cors_headers_are_on_every_reply(gateway: RunningGateway, client: str) -> None:
    """On answers, streams and errors of every kind. req: 5"""
    model = f"{client}/sim-text"
    path = PATHS[client]
    answers = {
        200: ask(gateway, client, model),
        400: call(gateway.base_url, "POST", path, b"{", JSON),
        401: call(gateway.base_url, "POST", path, key=None),
        404: ask(gateway, client, "nowhere"),
        405: call(gateway.base_url, "GET", path),
        415: call(gateway.base_url, "POST", path, b"{}", {"content-type": "text/plain"}),
        422: ask(gateway, client, f"{client}/sim-422"),
    }
    for status, answer in answers.items():
        assert answer.status == status
        assert answer.headers.items() >= CORS.items()
    assert ask(gateway, client, model, stream=True).headers.items() >= CORS.items()


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/anywhere"])
def test_preflight(gateway: RunningGateway, path: str) -> None:
    """Without a key, empty. Headers that a page asks for are granted beside the usual ones.
    req: 6"""
    answer = call(gateway.base_url, "OPTIONS", path, key=None)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers.items() >= CORS.items()
    asked = {"access-control-request-headers": "anthropic-version"}
    answer = call(gateway.base_url, "OPTIONS", path, headers=asked, key=None)
    expected = CORS["access-control-allow-headers"] + ", anthropic-version"
    assert answer.headers["access-control-allow-headers"] == expected


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*", "text/html"])
@pytest.mark.parametrize("client", APIS)
def test_accept_decides_nothing(gateway: RunningGateway, client: str, accept: str) -> None:
    """Only `stream` does, and without it the answer is one JSON body. req: 8, 9"""
    plain = body(client, f"{client}/sim-text")
    for made, kind in (
        ({**plain, "stream": True}, "text/event-stream; charset=utf-8"),
        ({**plain, "stream": False}, "application/json"),
        (plain, "application/json"),
    ):
        answer = call(gateway.base_url, "POST", PATHS[client], made, {"accept": accept})
        assert answer.headers["content-type"] == kind
        assert made.get("stream") or isinstance(answer.json, dict)


def test_one_pool_serves_all_protocols(start: Start, simulator: RunningSimulator) -> None:
    """A key found to be bad by one is used by none. req: 10"""
    gateway = start(keys=("sk-sim-401", "sk-sim-good"))
    for client, stream in itertools.product(APIS, MODES):
        assert ask(gateway, client, "chat/sim-text", stream=stream).status == 200
    keys = [request.key for request in simulator.requests]
    assert keys == ["sk-sim-401"] + ["sk-sim-good"] * 6


@pytest.mark.parametrize("client", APIS)
def test_methods_media_and_sizes(start: Start, simulator: RunningSimulator, client: str) -> None:
    """In the client's own shape, and nothing is sent upstream. req: 12"""
    gateway = start(server=Server(body_limit_bytes=1000))
    path = PATHS[client]
    for status, answer in {
        405: call(gateway.base_url, "PUT", path),
        415: call(gateway.base_url, "POST", path, b"a=b", {"content-type": "text/plain"}),
        413: ask(gateway, client, "chat/sim-text", text="x" * 1000),
    }.items():
        assert answer.status == status
        error_of(client, answer)
    assert simulator.requests == []


def test_a_retry_is_a_new_request(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    """No key makes two requests one, and no id resumes a stream. req: 13, 132"""
    headers = {"idempotency-key": "same", "last-event-id": "3"}
    made = body("chat", "chat/sim-text", stream=True)
    for _ in range(2):
        answer = call(gateway.base_url, "POST", PATHS["chat"], made, headers)
        assert hand_parser(answer.body)[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len(simulator.requests) == 2
    for name in headers:
        assert simulator.last.header(name) is None


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_the_head_of_a_stream(gateway: RunningGateway, client: str, upstream: str) -> None:
    """No proxy may collect events; the connection is kept for the next request. req: 119, 120"""
    with Connection(gateway.base_url) as connection:
        for _ in range(2):
            made = body(client, f"{upstream}/sim-text", stream=True)
            connection.send("POST", PATHS[client], made, AUTH)
            answer = connection.answer()
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert answer.headers["cache-control"] == "no-cache"
            assert answer.headers["x-accel-buffering"] == "no"
            assert answer.headers.get("connection", "keep-alive") == "keep-alive"


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_after_the_head_errors_stand_in_the_stream(
    gateway: RunningGateway, client: str, upstream: str
) -> None:
    """As an event, not as a second answer; before it they have their status. req: 121"""
    later = ask(gateway, client, f"{upstream}/sim-error_in_stream?after=6&words=9", stream=True)
    assert later.status == 200
    assert later.body.startswith((b"data: ", b"event: "))
    assert b"HTTP/1.1" not in later.body
    assert stream_error(client, later.body) is not None
    before = ask(gateway, client, f"{upstream}/sim-429", stream=True)
    assert (before.status, before.headers["content-type"]) == (429, "application/json")


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_every_event_is_sent_at_once(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """The client has the text that the upstream has sent, although nothing more ever comes.
    req: 122"""
    silent = f"{upstream}/sim-silence?after=7&ms=60000&text=one+two+three+four+five+six"
    with opened(gateway, client, silent) as stream:
        stream.head()
        seen = b""
        while "one two" not in streamed_text(client, seen):
            seen += stream.chunk()
        assert not simulator.last.finished


FRAMES = {
    "chat": re.compile(r"data: (\[DONE\]|\{[^\n]*\})"),
    "messages": re.compile(r"event: ([a-z_]+)\ndata: \{[^\n]*\}"),
    "responses": re.compile(r"event: ([a-z_.]+)\ndata: \{[^\n]*\}"),
}


@pytest.mark.parametrize("model", ["sim-multibyte", "sim-truncate?after=6&words=9"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_the_form_of_events(
    gateway: RunningGateway, client: str, upstream: str, model: str
) -> None:
    """LF only, a blank line after each, the JSON on one data line; also of the error that ends a
    broken stream. req: 123, 124"""
    text = ask(gateway, client, f"{upstream}/{model}", stream=True).body.decode()
    assert "\r" not in text
    *frames, rest = text.split("\n\n")
    assert rest == ""
    assert all(FRAMES[client].fullmatch(frame) for frame in frames)
    # Readers that split lines as Unicode does see the same lines.
    assert text.splitlines() == text.split("\n")[:-1]


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_lines_of_a_megabyte(gateway: RunningGateway, client: str, upstream: str) -> None:
    """req: 125"""
    size = 1_100_000
    answer = ask(gateway, client, f"{upstream}/sim-flood?events=2&bytes={size}", stream=True)
    assert len(streamed_text(client, answer.body)) == 2 * size
    assert completed(client, answer.body)


@pytest.mark.parametrize("cut", [1, 7, 4096])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_characters_cut_between_reads(
    gateway: RunningGateway, client: str, upstream: str, cut: int
) -> None:
    """req: 126"""
    whole = ask(gateway, client, f"{upstream}/sim-multibyte")
    made = ask(gateway, client, f"{upstream}/sim-multibyte?cut={cut}", stream=True)
    assert streamed_text(client, made.body) == text_of(client, whole)


@pytest.mark.parametrize("quirk", ["padded_done", "no_done"])
@pytest.mark.parametrize("client", APIS)
def test_the_terminator_is_no_json(gateway: RunningGateway, client: str, quirk: str) -> None:
    """And nothing is read after it; a finished answer without it is whole. req: 127"""
    made = ask(gateway, client, f"chat/sim-text?quirks={quirk}", stream=True)
    assert completed(client, made.body)
    assert stream_error(client, made.body) is None


@pytest.mark.parametrize("quirk", ["comments", "multiline", "comments,multiline,crlf", "no_space"])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_odd_framing_is_read(
    gateway: RunningGateway, client: str, upstream: str, quirk: str
) -> None:
    """Comments between events, several data lines in one. req: 128"""
    plain = ask(gateway, client, f"{upstream}/sim-text", stream=True)
    odd = ask(gateway, client, f"{upstream}/sim-text?quirks={quirk}", stream=True)
    assert streamed_text(client, odd.body) == streamed_text(client, plain.body)
    assert completed(client, odd.body)


SIGNS = {"chat": b": keepalive", "messages": b"event: ping", "responses": b": keepalive"}


@pytest.fixture(scope="module")
def lively(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    """A gateway that gives signs of life after a twentieth of a second."""
    config = config_for(_simulator.base_url, server=Server(keepalive_s=0.05))
    with running_gateway(config) as gateway:
        yield gateway


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_signs_of_life_in_silence(lively: RunningGateway, client: str, upstream: str) -> None:
    """A comment, or the ping that Messages clients know; none while events come, none at the end.
    req: 129"""
    silent = f"{upstream}/sim-silence?after=6&ms=300&words=9"
    made = ask(lively, client, silent, stream=True).body
    first = 1 if client == "messages" else 0  # the ping after message_start
    assert made.count(SIGNS[client]) >= first + 2
    assert completed(client, made)
    for other in SIGNS.values():
        assert other == SIGNS[client] or made.count(other) == 0
    if client == "chat":
        assert frame_parser([made]) == hand_parser(made)


@pytest.mark.parametrize("seconds", [10.0, 0.0])
@pytest.mark.parametrize("client", APIS)
def test_no_sign_of_life_without_silence(start: Start, client: str, seconds: float) -> None:
    """The default waits ten seconds; 0 turns the signs off. req: 129"""
    assert Server().keepalive_s == 10.0
    gateway = start(server=Server(keepalive_s=seconds))
    made = ask(gateway, client, "chat/sim-text?delay_ms=5", stream=True).body
    assert made.count(SIGNS[client]) == (1 if client == "messages" else 0)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_client_that_leaves(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """Its upstream is told at once, in the middle of a silence too, and the account is free.
    req: 130"""
    with opened(gateway, client, f"{upstream}/sim-silence?after=6&ms=60000") as stream:
        stream.head()
        stream.chunk()
        assert gateway.app.pool.in_flight(f"{upstream}-0") == 1
    simulator.wait_for(lambda: simulator.last.disconnected)
    assert not simulator.last.finished
    simulator.wait_for(lambda: gateway.app.pool.in_flight(f"{upstream}-0") == 0)


@pytest.mark.parametrize("client", APIS)
def test_what_a_client_that_left_has_cost(
    gateway: RunningGateway,
    simulator: RunningSimulator,
    caplog: pytest.LogCaptureFixture,
    client: str,
) -> None:
    """Whatever the upstream told of it before is counted. req: 131"""
    caplog.set_level("INFO", "dragoman.requests")
    model = "messages/sim-cached_usage?delay_ms=5&words=5000"
    with opened(gateway, client, model) as stream:
        stream.head()
        stream.chunk()
    simulator.wait_for(lambda: bool(caplog.messages))
    line = json.loads(caplog.messages[-1])
    assert line["error"] == "client_gone"
    assert line["usage"]["input"] == 200
    assert line["usage"]["cached"] == 64


@pytest.mark.parametrize("client", APIS)
def test_a_broken_stream_is_not_resumed(
    start: Start, simulator: RunningSimulator, client: str
) -> None:
    """What was shown is shown: no other account goes on with it, and no event has an id by which
    it could be asked for again. req: 132"""
    gateway = start(keys=("sk-sim-a", "sk-sim-b"))
    fault = Fault("close", after=6, failure=Failure(status=500))
    simulator.app.keys.behaviours["sk-sim-a"] = KeyBehaviour(fault)
    made = ask(gateway, client, "chat/sim-text?words=9", stream=True)
    assert stream_error(client, made.body) is not None
    assert [request.key for request in simulator.requests] == ["sk-sim-a"]
    assert not re.search(rb"^(id|retry):", made.body, re.MULTILINE)

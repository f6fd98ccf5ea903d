"""Sessions over WebSocket: who is let in, what passes, what is counted, and how they end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import WebSocket
from dragoman.edge import websockets
from dragoman.endpoints.realtime import events
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.endpoints.serving import config, upstream
from tests.endpoints.serving import serving as running
from tests.gateway.http import KEY, Connection
from tests.gateway.limited import limit
from tests.realtime.serving import CREATE, answers, fresh, gateway_over, session, turn, until
from tests.websocket.client import Socket, frame, handshake, refused

PATH = "/v1/realtime?model=voice"
ODD = (
    b'{ "type":"conversation.item.create","x":1,"x":2, '
    b'"item":{"type":"message","t":"\\u00e9 \xc3\xa9"}}'
)


@pytest.fixture(scope="module")
def _serving(_simulator: RunningSimulator) -> Iterator[tuple[RunningGateway, list[Any]]]:
    with gateway_over(_simulator) as running:
        yield running


@pytest.fixture
def serving(
    _serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> tuple[RunningGateway, list[Any]]:
    """A gateway without limits, and the lines of its log."""
    fresh(simulator)
    until(lambda: not _serving[0].app.websockets.open)
    _serving[1].clear()
    return _serving


def test_both_forms_of_a_key_open_a_session(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Realtime WebSocket: a key in `Authorization`, and one in the subprotocols of a browser, of
    which the other is selected."""
    gateway, _ = serving
    with session(gateway) as sock:
        assert "sec-websocket-protocol" not in sock.answer.headers
    offer = handshake(sec_websocket_protocol=f"realtime, openai-insecure-api-key.{KEY}")
    del offer["authorization"]
    with Socket(gateway.base_url, offer, path=PATH) as sock:
        assert sock.answer.headers["sec-websocket-protocol"] == "realtime"
        assert sock.event()["session"]["model"] == "sim-voice"
    for query, headers in simulator.app.realtime.handshakes:
        assert query == {"model": "sim-voice"}
        assert headers["authorization"] == "Bearer sk-sim-account"
        assert KEY not in str(headers)


@pytest.mark.parametrize(
    ("offer", "path", "status"),
    [
        ({"authorization": "Bearer sk-not-a-key"}, PATH, 401),
        ({"sec_websocket_protocol": "realtime, openai-insecure-api-key.no"}, PATH, 401),
        ({"sec_websocket_version": "12"}, PATH, 426),
        ({"upgrade": "h2c"}, PATH, 400),
        ({}, "/v1/realtime", 400),
        ({}, "/v1/realtime?model=unknown-model", 404),
        ({}, "/v1/realtime?call_id=rtc_unknown", 404),
    ],
)
def test_a_session_that_cannot_be_is_refused_before_there_is_one(
    serving: tuple[RunningGateway, list[Any]], offer: dict[str, str], path: str, status: int
) -> None:
    """Realtime WebSocket: errors are answers of HTTP, in OpenAI's shape."""
    headers = handshake(**offer)
    if "sec_websocket_protocol" in offer:
        del headers["authorization"]
    answer = refused(serving[0], headers, path)
    assert answer.status == status
    assert answer.json["error"]["message"]


def test_events_pass_both_ways_as_they_are(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Realtime WebSocket: events both ways unchanged, also large ones and those in pieces."""
    gateway, _ = serving
    large = json.dumps({"type": "input_audio_buffer.append", "audio": "AAAA" * 1_000_000}).encode()
    with session(gateway) as sock:
        sock.sock.sendall(frame(ODD))
        assert [sock.event()["type"] for _ in range(2)] == [
            "conversation.item.added",
            "conversation.item.done",
        ]
        sock.sock.sendall(frame(large))
        sock.sock.sendall(frame(b'{"type":', first=0) + frame(b'"response.create"}', 0))
        events = turn(sock, {"type": "input_audio_buffer.commit"})
    assert simulator.app.realtime.received[:3] == [ODD, large, b'{"type":"response.create"}']
    assert [one["type"] for one in events if one["type"].startswith("response.")][-1] == (
        "response.done"
    )
    sent = [event["delta"] for event in events if event["type"].endswith("transcript.delta")]
    assert "".join(sent) == "This is said aloud."


def test_each_answer_is_recorded_as_a_request_of_its_own(
    serving: tuple[RunningGateway, list[Any]],
) -> None:
    """Realtime WebSocket: usage per response, with that of transcribed speech."""
    gateway, lines = serving
    audio = {"input": {"transcription": {"model": "sim-transcribe"}}}
    with session(gateway) as sock:
        turn(sock)
        turn(sock)
        sock.send({"type": "session.update", "session": {"audio": audio}})
        assert sock.event()["type"] == "session.updated"
        sock.send({"type": "input_audio_buffer.commit"})
        while not sock.event()["type"].endswith("transcription.completed"):
            pass
    until(lambda: len(answers(lines)) == 3)
    found = answers(lines)
    assert [one["usage"]["input"] for one in found] == [150, 300, 20]
    assert [one["usage"]["output"] for one in found] == [30, 30, 5]
    assert [one["usage"]["cached"] for one in found] == [0, 60, None]
    assert [one["upstream_model"] for one in found] == ["sim-voice", "sim-voice", "sim-transcribe"]
    assert len({one["request_id"] for one in found}) == 3
    assert "estimated" not in str(found)
    until(lambda: "GET /v1/realtime" in [one["route"] for one in lines])
    opened = next(one for one in lines if one["route"] == "GET /v1/realtime")
    assert opened["status"] == 101
    assert "usage" not in opened


def test_a_session_may_only_transcribe(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Realtime WebSocket: `intent=transcription`, which takes no model, and is paid by the second
    or by tokens."""
    gateway, lines = serving
    with session(gateway, "model=voice&intent=transcription") as sock:
        for model in ("whisper-1", "sim-transcribe"):
            audio = {"input": {"transcription": {"model": model}}}
            sock.send({"type": "session.update", "session": {"audio": audio}})
            sock.send({"type": "input_audio_buffer.append", "audio": "AAAA" * 16_000})
            sock.send({"type": "input_audio_buffer.commit"})
            while not sock.event()["type"].endswith("transcription.completed"):
                pass
    until(lambda: len(answers(lines)) == 2)
    assert simulator.app.realtime.handshakes[0][0] == {"intent": "transcription"}
    assert [one["upstream_model"] for one in answers(lines)] == ["whisper-1", "sim-transcribe"]
    assert [one["usage"]["input"] for one in answers(lines)] == [0, 20]
    # Seconds have no price here: that is told, and they are not free by accident.
    assert [one.get("unpriced") for one in answers(lines)] == [True, None]


@pytest.mark.parametrize("query", ["model=voice&call_id=", "call_id=&model=voice&deployment=x"])
def test_no_parameter_leads_past_the_meter(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, query: str
) -> None:
    """Realtime WebSocket: only a session that is of a known call is counted elsewhere."""
    gateway, lines = serving
    with session(gateway, query) as sock:
        turn(sock)
    until(lambda: len(answers(lines)) == 1)
    assert simulator.app.realtime.handshakes[0][0] == {"model": "sim-voice"}


def test_what_is_being_answered_when_the_client_leaves_is_counted(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Realtime WebSocket: the answer is cancelled, and the upstream tells what it has used."""
    gateway, lines = serving
    with session(gateway) as sock:
        sock.send({**CREATE, "response": {"metadata": {"hold": "yes"}}})
        assert sock.event()["type"] == "response.created"
    until(lambda: answers(lines))
    assert [one["usage"]["input"] for one in answers(lines)] == [150]
    assert simulator.app.realtime.received[-1] == b'{"type":"response.cancel"}'
    until(lambda: not simulator.app.realtime.open)


def test_the_upstreams_end_is_the_clients(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    gateway, lines = serving
    vendor = simulator.app.realtime
    with session(gateway) as sock:
        one = vendor.open[0]
        one.clock.loop.call_soon_threadsafe(one.close, 3456, "enough")
        closed = sock.closed()
        assert (closed.code, closed.reason) == (3456, "enough")
    with session(gateway) as sock:
        sock.send({**CREATE, "response": {"metadata": {"hold": "yes"}}})
        assert sock.event()["type"] == "response.created"
        one = vendor.open[0]
        assert one.transport is not None
        one.clock.loop.call_soon_threadsafe(one.transport.abort)
        assert sock.closed().code == 1011
    # What was being answered then is not known.
    until(lambda: answers(lines))
    assert [one["estimated"] for one in answers(lines)] == [True]


def test_a_refused_account_is_followed_by_the_next(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: accounts take turns until the session is open."""
    fresh(simulator)
    refusing = KeyBehaviour(fault=Fault("error", failure=Failure(status=401)))
    simulator.app.keys.behaviours["sk-bad"] = refusing
    with gateway_over(simulator, keys=("sk-bad", "sk-good")) as (gateway, _):
        with session(gateway) as sock:
            turn(sock)
        headers = [headers["authorization"] for _, headers in simulator.app.realtime.handshakes]
        assert headers == ["Bearer sk-good"]
    simulator.app.keys.behaviours["sk-good"] = refusing
    with gateway_over(simulator, keys=("sk-bad", "sk-good")) as (gateway, _):
        assert refused(gateway, handshake(), PATH).status == 403


def answers_until_error(sock: Socket) -> list[dict[str, Any]]:
    """Have answers given until the session ends. Returns all events."""
    told: list[dict[str, Any]] = []
    while not told or told[-1]["type"] != "error":
        told += turn(sock)
        sock.sock.sendall(frame(ODD))
        told.append(sock.event())
        if told[-1]["type"] != "error":
            told.append(sock.event())
    return told


def test_a_session_ends_with_its_key(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: the key is looked at with each answer."""
    fresh(simulator)
    soon = datetime.now(UTC) + timedelta(seconds=2)
    with gateway_over(simulator, expires=soon) as (gateway, _), session(gateway) as sock:
        told = answers_until_error(sock)
        assert told[-1]["error"]["code"] == "invalid_api_key"
        assert sock.closed().code == 1008


@pytest.mark.parametrize("answering", [False, True])
def test_a_silent_session_ends_with_its_key(
    simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch, answering: bool
) -> None:
    """Realtime WebSocket: the key is looked at in silence, too; an answer that is being given then
    is counted."""
    monkeypatch.setattr(websockets, "PING_S", 0.1)
    fresh(simulator)
    soon = datetime.now(UTC) + timedelta(seconds=1)
    with gateway_over(simulator, expires=soon) as (gateway, lines), session(gateway) as sock:
        if answering:
            sock.send({**CREATE, "response": {"metadata": {"hold": "yes"}}})
            assert sock.event()["type"] == "response.created"
        told = sock.event()
        assert (told["type"], told["error"]["code"]) == ("error", "invalid_api_key")
        assert sock.closed().code == 1008
        until(lambda: len(answers(lines)) == answering)


def test_a_client_that_does_not_read_is_waited_for(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Realtime WebSocket: back pressure. What is not read stays with the upstream."""
    gateway, _ = serving
    audio = "A" * 10_000
    with session(gateway) as sock:
        (one,) = simulator.app.realtime.open
        transport = one.transport
        assert transport is not None

        def flood() -> None:
            for number in range(3000):
                one.tell("response.output_audio.delta", delta=audio, number=number)

        one.clock.loop.call_soon_threadsafe(flood)
        left: list[int] = []

        def has_settled() -> bool:
            left.append(transport.get_write_buffer_size())
            return len(left) > 20 and len(set(left[-20:])) == 1

        until(has_settled)
        assert left[-1] > 10_000_000
        numbers = [sock.event()["number"] for _ in range(3000)]
        assert numbers == list(range(3000))


def test_a_session_ends_with_the_budget(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: budget end, by an `error` event `insufficient_quota` and close 1008."""
    fresh(simulator)
    # An answer costs 0.00108, the next one 0.00146.
    budget = limit("cost", "0.025", "total")
    with gateway_over(simulator, limits=(budget,)) as (gateway, lines):
        with session(gateway) as sock:
            told = answers_until_error(sock)
            assert told[-1]["error"]["code"] == told[-1]["error"]["type"] == "insufficient_quota"
            assert sock.closed().code == 1008
            assert told[-2]["type"] == "response.done"
        spent = sum(float(one["cost_usd"]) for one in answers(lines))
        assert 0 < spent <= 0.025


def test_requests_at_one_time_are_sessions(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: limits on connections."""
    fresh(simulator)
    limits = (limit("concurrent", 1),)
    with gateway_over(simulator, limits=limits) as (gateway, _):
        with session(gateway) as sock:
            turn(sock)
            turn(sock)
            assert refused(gateway, handshake(), PATH).status == 429
        until(lambda: refused(gateway, handshake(upgrade="h2c"), PATH).status == 400)

        def is_free() -> bool:
            with Socket(gateway.base_url, handshake(), path=PATH):
                return True

        until(is_free)


@pytest.mark.parametrize("odd", [r'"\ud83d"', "1e999", '"\\u00e9"'])
def test_an_answer_is_counted_whatever_was_said(odd: str) -> None:
    """Realtime WebSocket: half a character in a transcript hides no usage."""
    told = '{"type":"response.done","response":{"output":[%s],"usage":%s}}'
    usage = '{"input_tokens":3,"output_tokens":5}'
    event = events.heard((told % (odd, usage)).encode())
    assert event.kind == "answered"
    assert event.used is not None
    assert (event.used.usage.input, event.used.usage.output) == (3, 5)


def test_sessions_that_are_being_opened_are_counted() -> None:
    """Realtime WebSocket: limits on connections, also while the upstream does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        made = config(upstream("vendor", url), keys=("sk-one",))
        made = replace(made, websocket=WebSocket(max_connections=1))
        with running(made) as (gateway, _), Connection(gateway.base_url) as waiting:
            path = "/v1/realtime?model=vendor/voice"
            waiting.send("GET", path, headers=handshake())
            until(lambda: gateway.app.websockets.open == 1)
            assert refused(gateway, handshake(), path).status == 503


def test_a_rate_is_waited_for_unless_an_answer_begins(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: each answer counts as a request."""
    fresh(simulator)
    limits = (limit("requests", 2),)
    with gateway_over(simulator, limits=limits) as (gateway, lines), session(gateway) as sock:
        turn(sock)
        turn(sock)
        sock.send(ODD.decode())
        assert sock.event()["type"] == "conversation.item.added"
        sock.send(CREATE)
        assert sock.closed().code == 1008
        error = json.loads(sock.frames[-1])
        assert error["type"] == "error"
        assert error["error"]["code"] == "rate_limit_exceeded"
        until(lambda: len(answers(lines)) >= 2)


def test_sessions_end_when_the_gateway_does(simulator: RunningSimulator) -> None:
    """Realtime WebSocket: drain. An answer that is being given is finished."""
    vendor = fresh(simulator)
    with (
        gateway_over(simulator) as (gateway, lines),
        session(gateway) as idle,
        session(gateway) as busy,
    ):
        busy.send({**CREATE, "response": {"metadata": {"hold": "yes"}}})
        assert busy.event()["type"] == "response.created"
        gateway.stop()
        assert idle.closed().code == 1001
        one = next(one for one in vendor.open if one.answering)
        one.clock.loop.call_soon_threadsafe(one.answer)
        assert busy.closed().code == 1001
        assert json.loads(busy.frames[-1])["type"] == "response.done"
        until(lambda: len(answers(lines)) == 1)

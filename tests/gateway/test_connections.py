"""Connections of clients that are odd, slow, or mean harm."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.config import Server
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, text_of
from tests.gateway.conftest import Start
from tests.gateway.http import AUTH, JSON, Answer, Connection, call
from tests.gateway.services import needs_files

HASTY = Server(head_timeout_s=0.1, shutdown_grace_s=5.0)
CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"


def raw(data: bytes, gateway: RunningGateway) -> bytes:
    """What the gateway sends until it closes the connection."""
    with Connection(gateway.base_url) as connection:
        connection.sock.sendall(data)
        return b"".join(iter(lambda: connection.sock.recv(65536), b""))


def refused(answered: bytes) -> Answer:
    head, _, content = answered.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert headers["connection"] == "close"
    assert headers["content-length"] == str(len(content))
    return Answer(int(status.split(" ")[1]), headers, content)


@pytest.mark.parametrize(
    "request_line",
    [
        b"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST {path} HTTP/1.1\r\nhost: x\r\nopenai-beta: a\0b\r\n\r\n",
        b"NONSENSE {path} HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_in_an_api_shape(
    gateway: RunningGateway, request_line: bytes
) -> None:
    for api in APIS:
        data = request_line.replace(b"{path}", PATHS[api].encode())
        answer = refused(raw(data, gateway))
        assert answer.status == (501 if request_line.startswith(b"CONNECT") else 400)
        if request_line.startswith(b"POST"):
            error_of(api, answer)
        else:
            assert answer.json["error"]["type"] == "invalid_request_error"


def test_an_endless_head_is_a_431(gateway: RunningGateway) -> None:
    for start, piece in ((b"big: ", b"x" * 65536), (b"", b"name: value\r\n" * 5000)):
        with Connection(gateway.base_url) as connection:
            connection.sock.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n" + start)
            sent = 0
            try:
                while sent < 50_000_000:
                    connection.sock.sendall(piece)
                    sent += len(piece)
            except OSError:
                pass
            assert sent < 50_000_000
    with Connection(gateway.base_url) as connection:
        connection.sock.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nbig: " + b"x" * 65536)
        answer = connection.answer()
    assert answer.status == 431
    error_of("messages", answer)


def test_a_head_of_agents_is_not_too_large(gateway: RunningGateway) -> None:
    headers = {f"x-header-{number}": "x" * 1000 for number in range(40)}
    assert call(gateway.base_url, "GET", "/healthz", headers=headers).status == 200


@pytest.mark.parametrize("said", [b"", b"POST /v1/mess", b"POST /v1/messages HTTP/1.1\r\nhost:"])
def test_a_head_that_never_comes(start: Start, said: bytes) -> None:
    answered = raw(said, start(server=HASTY))
    if said:
        assert refused(answered).status == 408
    else:
        assert answered == b""


def test_a_second_head_that_never_comes(start: Start) -> None:
    with Connection(start(server=HASTY).base_url) as connection:
        connection.send("GET", "/healthz")
        assert connection.answer().status == 200
        connection.sock.sendall(b"GET /hea")
        assert connection.answer().status == 408


def test_answering_takes_longer_than_a_head_may(start: Start) -> None:
    gateway = start(server=HASTY)
    made = body("chat", "messages/sim-text?delay_ms=30&words=10", stream=True)
    answer = call(gateway.base_url, "POST", PATHS["chat"], made)
    assert completed("chat", answer.body)


UPGRADE = {
    "connection": "Upgrade, HTTP2-Settings",
    "upgrade": "h2c",
    "http2-settings": "AAMAAABkAAQCAAAAAAIAAAAA",
}


@pytest.mark.parametrize("cut", [None, 1, 30, 100])
def test_an_offer_of_http_2_is_declined(gateway: RunningGateway, cut: int | None) -> None:
    """Java's HTTP client makes it with each request."""
    made = json.dumps(body("chat", "messages/sim-text")).encode()
    own = {"host": "x", **AUTH, **JSON, **UPGRADE, "content-length": str(len(made))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    data = f"POST {PATHS['chat']} HTTP/1.1\r\n{lines}\r\n".encode() + made
    with Connection(gateway.base_url) as connection:
        for _ in range(2):
            step = cut or len(data)
            for start in range(0, len(data), step):
                connection.sock.sendall(data[start : start + step])
            answer = connection.answer()
            assert answer.status == 200
            assert text_of("chat", answer)


def test_http_1_0_knows_no_chunks(gateway: RunningGateway) -> None:
    for stream in (False, True):
        made = json.dumps(body("chat", "messages/sim-text", stream=stream)).encode()
        head = f"POST {PATHS['chat']} HTTP/1.0\r\nauthorization: {AUTH['authorization']}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(made)}\r\n\r\n"
        head, _, content = raw(head.encode() + made, gateway).decode().partition("\r\n\r\n")
        assert "transfer-encoding" not in head
        if stream:
            assert content.startswith("data: ")
            assert completed("chat", content.encode())
            assert content.endswith("data: [DONE]\n\n")
        else:
            assert json.loads(content)["object"] == "chat.completion"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_every_answer_has_an_id_and_cors_headers_once(
    gateway: RunningGateway, method: str, version: str
) -> None:
    """After the status line, whatever the server does with the answer. req: 5"""
    ask = f"{method} /healthz HTTP/{version}\r\nhost: x\r\nexpect: 100-continue\r\n"
    answered = raw(f"{ask}connection: close\r\n\r\n".encode(), gateway)
    head, _, content = answered.decode().partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    assert status == "HTTP/1.1 200 OK"
    names = [line.partition(":")[0] for line in lines]
    for name in ("x-request-id", "request-id", "access-control-allow-origin", "content-length"):
        assert names.count(name) == 1
    assert content == ('{"status":"ok"}' if method == "GET" else "")


def test_a_client_of_http_1_0_may_expect_to_be_told_to_go_on(gateway: RunningGateway) -> None:
    """The interim answer is not taken for the head of the answer."""
    made = json.dumps(body("chat", "messages/sim-text", stream=True)).encode()
    head = f"POST {PATHS['chat']} HTTP/1.0\r\nauthorization: {AUTH['authorization']}\r\n"
    head += f"expect: 100-continue\r\ncontent-length: {len(made)}\r\n\r\n"
    answered = raw(head.encode() + made, gateway).decode().removeprefix(CONTINUE)
    head, _, content = answered.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "transfer-encoding" not in head
    assert completed("chat", content.encode())


@pytest.fixture
def pipelined(gateway: RunningGateway) -> Callable[..., Connection]:
    def sent(*requests: dict[str, Any]) -> Connection:
        connection = Connection(gateway.base_url)
        for made in requests:
            connection.send("POST", PATHS["chat"], made, AUTH)
        return connection

    return sent


def test_requests_sent_ahead_are_answered_in_order(pipelined: Callable[..., Connection]) -> None:
    made = [body("chat", f"messages/sim-text?text=number{n}") for n in range(12)]
    with pipelined(*made) as connection:
        for number in range(12):
            assert text_of("chat", connection.answer()) == f"number{number}"


def test_leaving_is_noticed_behind_a_request_sent_ahead(
    pipelined: Callable[..., Connection], simulator: RunningSimulator
) -> None:
    silent = body("chat", "messages/sim-silence?after=5&ms=15000", stream=True)
    with pipelined(silent) as connection:
        assert connection.head().status == 200
        connection.send("POST", PATHS["chat"], silent, AUTH)
        time.sleep(0.1)
    simulator.wait_for(lambda: simulator.requests[0].disconnected)
    assert len(simulator.requests) == 1


def test_a_client_that_resets(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    silent = body("chat", "messages/sim-silence?after=5&ms=15000", stream=True)
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS["chat"], silent, AUTH)
        assert connection.head().status == 200
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    simulator.wait_for(lambda: simulator.requests[0].disconnected)


@needs_files
def test_many_idle_connections(start: Start) -> None:
    gateway = start()
    idle = [Connection(gateway.base_url) for _ in range(500)]
    try:
        assert call(gateway.base_url, "GET", "/healthz").status == 200
        idle[250].send("GET", "/healthz")
        assert idle[250].answer().status == 200
    finally:
        for connection in idle:
            connection.sock.close()

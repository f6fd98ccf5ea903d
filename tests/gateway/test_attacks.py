"""What strangers and careless clients do to a gateway, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config import Server
from dragoman.http.limits import Limits
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server import server
from dragoman.server.server import limits_of
from dragoman.server.testing import RunningGateway
from dragoman.serving import resolver
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, stream_error, text_of
from tests.gateway.conftest import SERVER, Start
from tests.gateway.http import AUTH, JSON, KEY, Answer, Connection, call
from tests.gateway.processes import GatewayProcess, gateway_process, until


@contextmanager
def connections_to(gateway: RunningGateway, count: int) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Connection(gateway.base_url)) for _ in range(count)]


def chunked(path: str, made: bytes, trailers: str, head: str = "") -> bytes:
    start = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{head}"
    framed = b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(made), made, trailers.encode())
    return f"{start}transfer-encoding: chunked\r\n\r\n".encode() + framed


def asked(gateway: RunningGateway, data: bytes) -> Answer:
    with Connection(gateway.base_url) as connection:
        connection.sock.sendall(data)
        return connection.answer()


@pytest.mark.parametrize("api", APIS)
def test_a_trailer_is_no_header(gateway: RunningGateway, api: str) -> None:
    """Neither one that holds a key nor one that asks for a policy."""
    made = json.dumps(body(api, "messages/sim-text")).encode()
    for trailer in (f"authorization: Bearer {KEY}\r\n", f"x-api-key: {KEY}\r\n"):
        assert asked(gateway, chunked(PATHS[api], made, trailer)).status == 401
    good = f"authorization: Bearer {KEY}\r\n"
    for trailer in ("x-api-key: sk-other\r\n", "x-dragoman-policy: nonsense\r\n"):
        answer = asked(gateway, chunked(PATHS[api], made, trailer, good))
        assert answer.status == 200
        assert text_of(api, answer)


def test_a_head_that_is_not_served_is_refused_in_the_shape_of_its_client(
    gateway: RunningGateway,
) -> None:
    """Which a header tells, where the path does not."""
    with Connection(gateway.base_url) as connection:
        headers = {"host": "not a host", "anthropic-version": "2023-06-01"}
        connection.send("GET", "/nowhere", headers=headers)
        answer = connection.answer()
    assert answer.status == 400
    assert json.loads(answer.body)["type"] == "error"


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


@pytest.fixture
def process(tmp_path: Path, simulator: RunningSimulator) -> Iterator[GatewayProcess]:
    keys = {"one": "sk-sim-one"}
    with gateway_process(tmp_path, simulator.base_url, keys) as running:
        yield running


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs procfs")
@pytest.mark.parametrize("auth", ["", f"authorization: Bearer {KEY}\r\n"])
def test_endless_trailers_take_no_memory(process: GatewayProcess, auth: str) -> None:
    call(process.url, "GET", "/healthz")
    before = resident(process.process.pid)
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\n{auth}transfer-encoding: chunked\r\n\r\n"
    for flood in (b"name: value\r\n" * 5000, b"x" * 65_000):
        with Connection(process.url) as connection:
            sent = 0
            try:
                connection.sock.sendall(head.encode() + b"2\r\n{}\r\n0\r\na: ")
                while sent < 200_000_000:
                    connection.sock.sendall(flood)
                    sent += len(flood)
            except OSError:
                pass
            assert sent < 50_000_000  # what the kernel's buffers take
    assert resident(process.process.pid) - before < 10_000_000


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", PATHS["chat"], {}, 401),
        ("POST", "/nowhere", AUTH, 404),
        ("POST", PATHS["messages"], {**AUTH, "content-type": "text/plain"}, 415),
        ("DELETE", PATHS["messages"], AUTH, 405),
        ("GET", "/healthz", {}, 200),
    ],
)
@pytest.mark.parametrize("framing", ["content-length", "transfer-encoding"])
def test_a_body_that_trickles_behind_its_answer(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
    framing: str,
) -> None:
    def quick(settings: Server) -> Limits:
        return replace(limits_of(settings), linger_s=0.3)

    monkeypatch.setattr(server, "limits_of", quick)
    gateway = start()
    value = "1000" if framing == "content-length" else "chunked"
    with Connection(gateway.base_url) as connection:
        connection.send(method, path, None, {**headers, framing: value})
        assert connection.answer().status == status
        deadline = time.monotonic() + 10
        while gateway.server.http.connections:
            assert time.monotonic() < deadline
            try:
                connection.sock.sendall(b"1" if framing == "content-length" else b"1\r\nx\r\n")
            except OSError:
                break
            time.sleep(0.02)
    until(lambda: gateway.server.http.connections == 0)


def test_such_bodies_leave_files_for_others(tmp_path: Path, simulator: RunningSimulator) -> None:
    keys = {"one": "sk-sim-one"}
    with gateway_process(tmp_path, simulator.base_url, keys, files=256) as running:
        bad = []
        for _ in range(300):
            connection = Connection(running.url)
            connection.send("POST", PATHS["chat"], None, {"content-length": "1000"})
            bad.append(connection)
        for _ in range(11):
            answer = call(running.url, "POST", PATHS["chat"], body("chat", "chat/sim-text"))
            assert answer.status == 200
        for connection in bad:
            connection.sock.close()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_a_client_that_stops_reading_holds_nothing(
    start: Start, simulator: RunningSimulator, api: str, upstream: str
) -> None:
    """Neither its call of the upstream nor the account that answers it."""
    gateway = start(server=replace(SERVER, send_timeout_s=0.5))
    made = body(api, f"{upstream}/sim-flood?events=60000&bytes=1000", stream=True)
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS[api], made, AUTH)
        connection.head()
        simulator.wait_for(lambda: simulator.requests[0].disconnected, 15.0)
        until(lambda: not any(in_flight(gateway)))
        until(lambda: gateway.server.http.connections == 0)
        until(lambda: gateway.server.http.budget.used == 0)


def in_flight(gateway: RunningGateway) -> list[int]:
    return [gateway.app.pool.in_flight(one.name) for one in gateway.app.pool.accounts()]


@pytest.mark.parametrize("api", APIS)
def test_unread_answers_stay_in_the_budget(start: Start, api: str) -> None:
    """Who does not fit is told when to try again; who is cut off makes room."""
    server = Server(
        shutdown_grace_s=1.0,
        body_limit_bytes=1_000_000,
        memory_limit_bytes=30_000_000,
        send_timeout_s=1.0,
    )
    gateway = start(server=server)
    made = body(api, f"{api}/sim-flood?events=8000&bytes=1000")
    refusals: list[Answer] = []
    with connections_to(gateway, 8) as connections:
        for connection in connections:
            connection.send("POST", PATHS[api], made, AUTH)
            head = connection.head()
            if head.status != 200:
                refusals.append(head)
            assert gateway.server.http.budget.used <= 30_000_000
        until(lambda: gateway.server.http.budget.used == 0, 20.0)
    assert 0 < len(refusals) < 8
    for refusal in refusals:
        assert refusal.status == (529 if api == "messages" else 503)
        assert int(refusal.headers["retry-after"]) >= 1
    assert call(gateway.base_url, "POST", PATHS[api], made).status == 200


@pytest.mark.parametrize("api", APIS)
def test_bodies_stay_in_the_budget(start: Start, api: str) -> None:
    limit = 1_000_000
    server = replace(SERVER, body_limit_bytes=limit, memory_limit_bytes=3 * limit)
    gateway = start(server=server)
    large = body(api, f"{api}/sim-text?head_ms=600", "x" * 900_000)
    with connections_to(gateway, 5) as connections:
        for connection in connections:
            connection.send("POST", PATHS[api], large, AUTH)
        answers = [connection.answer() for connection in connections]
    assert 200 in [answer.status for answer in answers]
    refused = [answer for answer in answers if answer.status != 200]
    assert refused
    for answer in refused:
        error_of(api, answer)
        assert answer.status == (529 if api == "messages" else 503)
        assert "retry-after" in answer.headers
    until(lambda: gateway.server.http.budget.used == 0)
    small = body(api, f"{api}/sim-text")
    assert call(gateway.base_url, "POST", PATHS[api], small).status == 200


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_grows_without_end_ends_in_an_error(start: Start, api: str) -> None:
    """Of an upstream that floods: what is kept of a stream is bounded as all else is. Within one
    protocol its texts are recorded, for a reader that takes over."""
    server = replace(SERVER, body_limit_bytes=1_000_000, memory_limit_bytes=5_000_000)
    gateway = start(server=server)
    made = body(api, "messages/sim-flood?events=20000&bytes=1000", stream=True)
    answer = call(gateway.base_url, "POST", PATHS[api], made)
    assert not completed(api, answer.body)
    error = stream_error(api, answer.body)
    assert error is not None
    until(lambda: gateway.server.http.budget.used == 0)


def many_messages(count: int) -> bytes:
    """So many of them, as some KB of gzip."""
    text = {"role": "user", "content": "hi"}
    made = {"model": "messages/sim-text", "messages": [text] * count}
    return gzip.compress(json.dumps(made).encode())


def test_a_body_of_too_many_values_is_refused(gateway: RunningGateway) -> None:
    """Without being decoded, by a process that goes on with other bodies."""
    helpers = gateway.app._services.large.helpers
    before = helpers.started
    packed = many_messages(350_000)
    assert len(packed) < 100_000
    for _ in range(3):
        answer = call(
            gateway.base_url,
            "POST",
            PATHS["chat"],
            packed,
            {**AUTH, **JSON, "content-encoding": "gzip"},
        )
        assert answer.status == 413
        assert "more than 1000000 values" in str(error_of("chat", answer))
    assert helpers.started <= before + 1


def test_others_are_answered_while_a_large_body_is_translated(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200,000 messages: if the loop worked on them, nobody would be served for seconds."""
    monkeypatch.setattr(resolver, "MOST_VALUES", 10_000_000)
    gateway = start()
    packed = many_messages(200_000)
    with Connection(gateway.base_url) as large:
        large.send("POST", PATHS["chat"], packed, {**AUTH, **JSON, "content-encoding": "gzip"})
        time.sleep(0.3)
        small = body("chat", "messages/sim-text")
        for _ in range(5):
            assert call(gateway.base_url, "POST", PATHS["chat"], small).status == 200
        large.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            large.sock.recv(1)
        large.sock.settimeout(60)
        assert large.head().status


def test_five_hundred_upgrades_sent_ahead_are_answered(gateway: RunningGateway) -> None:
    ask = b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\n" % KEY.encode()
    ask += b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    with Connection(gateway.base_url) as connection:
        connection.sock.sendall(ask)
        first = connection.answer()
        assert first.status == 426
    offers = b"POST /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    with Connection(gateway.base_url) as connection:
        connection.sock.sendall((offers + b"content-length: 2\r\n\r\nhi") * 500)
        for _ in range(500):
            assert connection.answer().status == 405


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /healthz HTTP/1.1\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (f"GET /healthz HTTP/1.1\r\nhost: a\r\nx: {'y' * 70_000}\r\n\r\n", 431),
    ],
)
def test_heads_that_were_accepted(gateway: RunningGateway, head: str, status: int) -> None:
    assert asked(gateway, head.encode()).status == status


def test_more_clients_than_files(tmp_path: Path, simulator: RunningSimulator) -> None:
    """64 files, 100 clients at once, of which each sends several requests: nobody fails."""

    async def client(port: int) -> list[int]:
        made = json.dumps(body("chat", "chat/sim-text")).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(made)}\r\n\r\n"
        found: list[int] = []
        while len(found) < 5:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            keep = True
            while keep and len(found) < 5:
                writer.write(head.encode() + made)
                answer = await reader.readuntil(b"\r\n\r\n")
                length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                found.append(int(answer.split(b" ")[1]))
                keep = b"connection: close" not in answer
            writer.close()
            await writer.wait_closed()
        return found

    async def clients(port: int) -> list[list[int]]:
        return await asyncio.gather(*(client(port) for _ in range(100)))

    keys = {"one": "sk-sim-one"}
    with gateway_process(tmp_path, simulator.base_url, keys, files=64) as running:
        port = int(running.url.rpartition(":")[2])
        assert asyncio.run(clients(port)) == [[200] * 5] * 100


def test_early_close_at_every_byte(gateway: RunningGateway) -> None:
    made = json.dumps(body("chat", "chat/sim-text")).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    data = f"{head}content-length: {len(made)}\r\n\r\n".encode() + made
    host, port = "127.0.0.1", gateway.port
    for cut in range(len(data)):
        with socket.create_connection((host, port), timeout=5) as sock:
            sock.sendall(data[:cut])
    until(lambda: gateway.server.http.connections == 0)
    until(lambda: gateway.server.http.requests == 0)
    assert not any(in_flight(gateway))

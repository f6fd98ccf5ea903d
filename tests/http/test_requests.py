"""Requests as they may come."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

import pytest
import uvloop

from dragoman.http import Limits, Request
from tests.http.serving import Running, read_all, read_answer, running, statuses, take_answer

CLOSE = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module", params=[uvloop.new_event_loop, asyncio.new_event_loop])
def echoing(request: pytest.FixtureRequest) -> Iterator[Running]:
    """On both event loops."""
    with running(loop_factory=request.param) as server:
        yield server


POSTS = {
    "length": b"POST /p?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhello\r\n\r\n",
    "chunks": b"POST /p?q=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n4;a=b\r\n\r\n\r\n\r\n0\r\nx-trailer: a\r\nhost: b\r\n\r\n",
    "offer": b"POST /p?q=1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    b"Content-Length: 9\r\n\r\nhello\r\n\r\n",
    "offer, chunks": b"POST /p?q=1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n9\r\nhello\r\n\r\n\r\n0\r\n\r\n",
    "empty lines before": b"\r\n\r\nPOST /p?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    b"hello\r\n\r\n",
    "a whole address": b"POST http://x/p?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    b"hello\r\n\r\n",
    "encoded path": b"POST /%70?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhello\r\n\r\n",
}
TOLD = b"POST /p q=1 hello\r\n\r\n"


@pytest.mark.parametrize("form", POSTS)
def test_forms_of_one_request(echoing: Running, form: str) -> None:
    with echoing.connect() as sock:
        for _ in range(3):
            sock.sendall(POSTS[form])
            status, _, body = read_answer(sock)
            assert (status, body) == (200, TOLD)


@pytest.mark.parametrize("form", POSTS)
def test_wherever_it_is_cut(echoing: Running, form: str) -> None:
    data = POSTS[form]
    for cut in range(1, len(data)):
        with echoing.connect() as sock:
            sock.sendall(data[:cut])
            time.sleep(0.002)
            sock.sendall(data[cut:])
            assert read_answer(sock)[2] == TOLD


@pytest.mark.parametrize("form", POSTS)
def test_byte_by_byte(echoing: Running, form: str) -> None:
    with echoing.connect() as sock:
        for byte in POSTS[form]:
            sock.sendall(bytes([byte]))
            time.sleep(0.0005)
        assert read_answer(sock)[2] == TOLD


def test_requests_sent_ahead_are_answered_in_order_wherever_they_are_cut(echoing: Running) -> None:
    chosen = random.Random(1)
    for _ in range(30):
        forms = [chosen.choice(list(POSTS)) for _ in range(20)]
        data = b"".join(POSTS[form].replace(b"q=1", b"q=%d" % n) for n, form in enumerate(forms))
        with echoing.connect() as sock:
            start = 0
            while start < len(data):
                size = chosen.randrange(1, 400)
                sock.sendall(data[start : start + size])
                start += size
            rest = b""
            for number in range(20):
                status, _, body, rest = take_answer(sock, rest)
                assert (status, body) == (200, TOLD.replace(b"q=1", b"q=%d" % number))


@pytest.mark.parametrize("form", POSTS)
def test_early_close_at_every_byte(echoing: Running, form: str) -> None:
    data = POSTS[form]
    for cut in range(len(data)):
        with echoing.connect() as sock:
            sock.sendall(data[:cut])
    assert statuses(echoing.say(CLOSE)) == [200]
    wait_until(lambda: echoing.server.requests == 0)
    wait_until(lambda: echoing.server.connections == 0)


def wait_until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("count", [500, 3000])
@pytest.mark.parametrize("offer", [b"", b"Connection: upgrade\r\nUpgrade: h2c\r\n"])
def test_many_requests_sent_ahead(echoing: Running, count: int, offer: bytes) -> None:
    one = b"GET / HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\n"
    assert statuses(echoing.say(one * count + CLOSE)) == [200] * (count + 1)


@pytest.mark.parametrize("size", [1, 1000, 65536, 65537, 300_000, 1_000_000])
@pytest.mark.parametrize("chunk", [0, 7, 65536])
def test_bodies_of_all_sizes(echoing: Running, size: int, chunk: int) -> None:
    body = random.Random(size).randbytes(size)
    head = b"POST /p HTTP/1.1\r\nHost: x\r\n"
    if chunk:
        body = body[:20_000] if chunk == 7 else body
        pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
        data = b"transfer-encoding: chunked\r\n\r\n" + b"".join(
            b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""]
        )
    else:
        data = b"content-length: %d\r\n\r\n%b" % (size, body)
    with echoing.connect() as sock:
        for _ in range(2):
            sock.sendall(head + data)
            status, _, answered = read_answer(sock)
            assert status == 200
            assert answered == b"POST /p  " + body


def test_an_upgrade_inside_a_body_is_body(echoing: Running) -> None:
    """However the body is framed and cut, and also where its own head offers a protocol."""
    inner = b"GET /in HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    whole = b"Content-Length: %d\r\n\r\n%b" % (len(inner), inner)
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner)
    for offer in (b"", b"Connection: upgrade\r\nUpgrade: websocket\r\n"):
        for framed in (whole, chunks):
            asked = b"POST /out HTTP/1.1\r\nHost: x\r\n" + offer + framed
            middle = asked.index(b"/in")
            for cut in (0, middle, middle + len(b"/in HTTP/1.1\r\n"), len(asked) - 1):
                seen = len(echoing.seen)
                with echoing.connect() as sock:
                    sock.sendall(asked[:cut])
                    sock.sendall(asked[cut:])
                    status, _, answered = read_answer(sock)
                    assert (status, answered) == (200, b"POST /out  " + inner)
                    sock.sendall(CLOSE)
                    assert statuses(read_all(sock)) == [200]
                assert [made.path for made in echoing.seen[seen:]] == ["/out", "/"]
                assert not any(made.wants_upgrade for made in echoing.seen[seen:])


def test_trailers_are_no_headers(echoing: Running) -> None:
    """Some are no more than that; llhttp refuses those that would frame the body anew."""
    names = ["authorization", "x-api-key", "x-dragoman-policy", "host", "connection", "upgrade"]
    names += ["expect", "content-encoding", "content-type", "content-length", "transfer-encoding"]
    head = "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: own\r\nTransfer-Encoding: chunked\r\n\r\n"
    for name in names:
        for value in ("5", "close", "upgrade", "chunked"):
            before = len(echoing.seen)
            with echoing.connect() as sock:
                sock.sendall(f"{head}1\r\na\r\n0\r\n{name}: {value}\r\n\r\n".encode())
                status = read_answer(sock)[0]
                if status == 200:
                    sock.sendall(CLOSE)
                    assert statuses(read_all(sock)) == [200]
                else:
                    assert name in ("content-length", "transfer-encoding")
            assert echoing.seen[before].headers == {
                b"host": b"x",
                b"x-api-key": b"own",
                b"transfer-encoding": b"chunked",
            }


def test_headers_that_come_twice_are_joined(echoing: Running) -> None:
    echoing.say(
        b"GET / HTTP/1.1\r\nhost: x\r\na: 1\r\nA: 2\r\ncookie: 1\r\ncookie: 2\r\n" + CLOSE[25:]
    )
    headers = echoing.seen[-1].headers
    assert (headers[b"a"], headers[b"cookie"]) == (b"1, 2", b"1; 2")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_head(echoing: Running, version: bytes) -> None:
    data = echoing.say(b"HEAD / HTTP/%b\r\nHost: x\r\nConnection: close\r\n\r\n" % version)
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"content-length: 8\r\n" in head
    assert body == b""


def test_http_1_0_closes_unless_it_is_asked_not_to(echoing: Running) -> None:
    assert b"connection: close\r\n" in echoing.say(b"GET / HTTP/1.0\r\n\r\n")
    with echoing.connect() as sock:
        for _ in range(2):
            sock.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, headers, _ = read_answer(sock)
            assert (status, headers[b"connection"]) == (200, b"keep-alive")


def test_expecting_to_be_told_to_go_on(echoing: Running) -> None:
    with echoing.connect() as sock:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\ncontent-length: 2\r\n\r\n"
        for _ in range(2):
            sock.sendall(head)
            assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(b"hi")
            assert read_answer(sock)[2] == b"POST /  hi"
        # Whoever does not wait is not told.
        sock.sendall(head + b"hi")
        assert read_answer(sock)[2] == b"POST /  hi"


def test_an_answer_instead_of_going_on() -> None:
    async def refuse(request: Request) -> None:
        request.respond(401)

    with running(refuse) as server:
        data = server.say(
            b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
    assert data.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    assert b"connection: close\r\n" in data


def test_a_head_at_its_limit() -> None:
    with running(limits=Limits(head_bytes=1000)) as server:
        for size, status in ((1000, 200), (1001, 431)):
            start = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\na: "
            data = start + b"b" * (size - len(start) - 4) + b"\r\n\r\n"
            for cut in (size, 300, 999):
                with server.connect() as sock:
                    sock.sendall(data[:cut])
                    time.sleep(0.01)
                    sock.sendall(data[cut:])
                    assert statuses(read_all(sock)) == [status]

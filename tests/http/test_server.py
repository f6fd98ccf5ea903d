"""Listening, draining, TLS, Unix sockets, addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dragoman.http import Limits, Request
from dragoman.http.addresses import Proxies, counted, is_here, parse
from tests.http.serving import QUICK, read_all, read_answer, running, statuses

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_drain_waits_for_answers_and_ends_what_is_idle() -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(0.3)
        request.respond(200)

    with running(slow) as server:
        with server.connect() as idle, server.connect() as busy:
            busy.sendall(GET)
            time.sleep(0.1)
            server.stop()
            assert read_all(idle) == b""
            status, headers, _ = read_answer(busy)
            assert (status, headers[b"connection"]) == (200, b"close")
            assert read_all(busy) == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_drain_answers_whoever_was_connected_before() -> None:
    with running() as server:
        held, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go_on.wait(10)

        server.loop.call_soon_threadsafe(hold)
        assert held.wait(10)
        # More than one look takes, while nobody looks; then the end.
        clients = [server.connect() for _ in range(30)]
        for sock in clients:
            sock.sendall(LAST)
        server.stop()
        go_on.set()
        for sock in clients:
            with sock:
                assert statuses(read_all(sock)) == [200]


def test_drain_answers_whoever_was_not_told_that_the_connection_ends() -> None:
    begun, go_on = threading.Event(), asyncio.Event()

    async def stream(request: Request) -> None:
        request.start(200)
        begun.set()
        await go_on.wait()
        request.end()

    with running(stream) as server, server.connect() as sock:
        sock.sendall(GET)
        assert begun.wait(10)
        server.stop()
        server.on_loop(go_on.set)
        answers = b""
        while not answers.endswith(b"0\r\n\r\n"):
            answers += sock.recv(65536)
        sock.sendall(GET)
        answers += read_all(sock)
        assert answers.count(b"HTTP/1.1 200") == 2
        assert answers.lower().count(b"connection: close") == 1


def test_drain_ends_whoever_was_not_told_under_limits_that_are_changed_meanwhile() -> None:
    begun, go_on = threading.Event(), asyncio.Event()

    async def stream(request: Request) -> None:
        request.start(200)
        await request.write(b"begun")
        begun.set()
        await go_on.wait()
        request.end()

    with running(stream, grace_s=15.0) as server, server.connect(timeout=10.0) as sock:
        sock.sendall(GET)
        assert begun.wait(10)
        server.stop()
        server.on_loop(lambda: None)
        server.on_loop(lambda: server.server.change(Limits(idle_s=1000.0), None))
        server.on_loop(go_on.set)
        assert read_all(sock).endswith(b"0\r\n\r\n")


class SkewedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put ahead."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_drain_ends_no_idle_connection_while_a_proxy_uses_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.http.server.GRACE_S", 100.0)
    served = running(limits=Limits(idle_s=0), grace_s=1000.0, loop_factory=SkewedLoop)
    with served as server, ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(5)]
        for sock in idle:
            sock.sendall(GET)
            assert read_answer(sock)[0] == 200
        server.stop()

        def put_ahead(seconds: float) -> None:
            assert isinstance(server.loop, SkewedLoop)
            server.loop.ahead += seconds

        for sock in idle[:-1]:
            server.on_loop(lambda: put_ahead(60.0))
            sock.sendall(GET)
            assert statuses(read_all(sock)) == [200]
        idle[-1].settimeout(0.1)
        for _ in range(20):
            server.on_loop(lambda: put_ahead(20.0))
            with suppress(TimeoutError):
                assert idle[-1].recv(1) == b""
                break
        else:
            pytest.fail("it was not ended")


def test_drain_tells_applications_that_take_too_long() -> None:
    async def endless(request: Request) -> None:
        request.start(200)
        await request.write(b"begun")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            request.end(b"stopped")
            raise

    with running(endless, grace_s=0.1) as server, server.connect() as sock:
        sock.sendall(GET)
        sock.recv(1000)
        server.stop()
        assert read_all(sock) == b"7\r\nstopped\r\n0\r\n\r\n"


def test_drain_does_not_wait_for_a_client_that_does_not_read() -> None:
    async def flood(request: Request) -> None:
        request.start(200)
        while True:
            await request.write(b"x" * 100_000)

    with running(flood, grace_s=0.1) as server:
        sock = server.connect()
        sock.sendall(GET)
        time.sleep(0.2)
    sock.close()


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += f" -subj /CN={name} -addext subjectAltName=DNS:{name} -keyout {key} -out {cert}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return key, cert


def test_tls_with_certificates_that_are_read_anew(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path, "first")

    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(cert, key)
        return made

    async def large(request: Request) -> None:
        request.respond(200, b"", b"x" * 300_000 + await request.body(1_000_000))

    def connect(port: int, trusted: Path, name: str) -> ssl.SSLSocket:
        trusting = ssl.create_default_context(cafile=str(trusted))
        sock = socket.create_connection(("127.0.0.1", port), timeout=5)
        return trusting.wrap_socket(sock, server_hostname=name)

    with running(large, QUICK, tls=context()) as server:
        with connect(server.port, cert, "first") as standing:
            post = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n"
            for _ in range(2):
                standing.sendall(post + b"y" * 200_000)
                assert len(read_answer(standing)[2]) == 500_000
            second = certificate(tmp_path, "second")
            cert_before = cert.read_bytes()
            key.write_bytes(second[0].read_bytes())
            cert.write_bytes(second[1].read_bytes())
            server.on_loop(lambda: server.server.change(QUICK, context()))
            with connect(server.port, second[1], "second") as sock:
                sock.sendall(LAST)
                assert read_all(sock).endswith(b"x")
            assert cert_before
        # Who does not speak TLS, or says nothing, is let go.
        with server.connect() as plain:
            plain.sendall(GET)
            read_all(plain)
        with server.connect() as silent:
            assert read_all(silent) == b""
        deadline = time.monotonic() + 30
        while server.server.connections:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_unix_socket(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "socket"))
    with running(listener=listener) as server:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(5)
            sock.connect(str(tmp_path / "socket"))
            sock.sendall(LAST)
            assert statuses(read_all(sock)) == [200]
        assert server.seen[0].address == ""


def test_many_connections_at_once() -> None:
    with running() as server:
        socks = [server.connect() for _ in range(300)]
        for sock in socks:
            sock.sendall(GET)
        for sock in socks:
            assert read_answer(sock)[0] == 200
            sock.close()


def test_a_connection_needs_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    done = threading.Event()

    async def look(request: Request) -> None:
        assert request.transport is not None
        sock = request.transport.get_extra_info("socket")
        found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        found.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        request.respond(200)
        done.set()

    with running(look) as server:
        server.say(LAST)
    assert found == [1, 1]


def test_addresses() -> None:
    assert all(is_here(text) for text in ("", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"))
    assert not any(is_here(text) for text in ("10.0.0.1", "2001:db8::1", "nonsense"))
    assert counted("::ffff:10.0.0.1") == "10.0.0.1"
    assert counted("2001:db8:1:2:3:4:5:6") == counted("2001:db8:1:2::9") == "2001:db8:1:2::/64"
    assert counted("10.0.0.1") == "10.0.0.1"
    assert parse("fe80::1%eth0") is not None


@pytest.mark.parametrize(
    ("peer", "told", "client"),
    [
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "9.9.9.9, 1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "1.2.3.4, 10.0.0.7", "1.2.3.4"),
        ("10.0.0.1", "1.2.3.4:5678", "1.2.3.4"),
        ("10.0.0.1", "[2001:db8::1]:5678", "2001:db8::1"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", "10.0.0.2"),
        ("192.168.0.1", "1.2.3.4", "192.168.0.1"),
        ("", "1.2.3.4", "1.2.3.4"),
    ],
)
def test_for_whom_a_proxy_asks(peer: str, told: str, client: str) -> None:
    proxies = Proxies(["10.0.0.0/8", "unix"])
    assert proxies.client(peer, {b"x-forwarded-for": told.encode()}) == client
    assert Proxies([]).client(peer, {b"x-forwarded-for": told.encode()}) == peer

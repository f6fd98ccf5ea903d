"""A server in a thread, and bare sockets to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import uvloop

from dragoman.http import BodyRefused, ClientGone, Limits, Request, Server
from dragoman.http.addresses import is_here
from dragoman.http.context import Application

QUICK = Limits(head_s=0.2, body_s=0.4, idle_s=0.3, send_s=0.4, linger_s=0.3)
"""Every patience ends soon."""

BODY = 1_000_000


async def echo(request: Request) -> None:
    """Answers with method, path, query and body, or with what is wrong with the body."""
    try:
        body = await request.body(BODY)
    except BodyRefused as refused:
        request.respond(refused.problem.status, b"", refused.problem.name.encode())
        return
    except ClientGone:
        return
    told = f"{request.method} {request.path} {request.query.decode()} ".encode()
    request.respond(200, b"content-type: text/plain\r\n", told + body)


@dataclass
class Running:
    """A server that serves on loopback."""

    server: Server
    port: int
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]
    seen: list[Request] = field(default_factory=list)
    """Requests, as the application got them."""

    def connect(self, timeout: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def say(self, data: bytes) -> bytes:
        """What the server sends until it closes, after `data`."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock)

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call something in the server's thread, and wait for it."""
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(10)


def read_all(sock: socket.socket) -> bytes:
    """Everything until the other end closes, or resets."""
    pieces = []
    try:
        while piece := sock.recv(65536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)


def read_answer(sock: socket.socket, rest: bytes = b"") -> tuple[int, dict[bytes, bytes], bytes]:
    """One answer with a length: status, headers, body. Nothing may follow it."""
    status, headers, body, rest = take_answer(sock, rest)
    assert rest == b""
    return status, headers, body


def take_answer(
    sock: socket.socket, data: bytes = b""
) -> tuple[int, dict[bytes, bytes], bytes, bytes]:
    """One answer with a length, and what came after it."""
    while b"\r\n\r\n" not in data:
        data += _more(sock)
    head, _, data = data.partition(b"\r\n\r\n")
    status, headers = parse_head(head)
    length = int(headers.get(b"content-length", b"0"))
    whole = bytearray(data)
    while len(whole) < length:
        whole += _more(sock)
    return status, headers, bytes(whole[:length]), bytes(whole[length:])


def parse_head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = head.split(b"\r\n")
    pairs = (line.partition(b": ") for line in lines)
    return int(first.split(b" ")[1]), {name.lower(): value for name, _, value in pairs}


def statuses(data: bytes) -> list[int]:
    """The statuses of all answers in a row, each with a length."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status, headers = parse_head(head)
        found.append(status)
        data = data[int(headers.get(b"content-length", b"0")) :]
    return found


def _more(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data


@contextmanager
def running(
    app: Application = echo,
    limits: Limits | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    listener: socket.socket | None = None,
    exempt: Callable[[str], bool] | None = None,
    grace_s: float = 5.0,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> Iterator[Running]:
    """Serve in a thread while the context lasts."""
    plug = listener or socket.create_server(("127.0.0.1", 0))
    port = plug.getsockname()[1] if plug.family == socket.AF_INET else 0
    started = threading.Event()
    found: list[Running] = []
    failures: list[BaseException] = []
    seen: list[Request] = []

    async def noting(request: Request) -> None:
        seen.append(request)
        await app(request)

    def run() -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            server = Server(noting, limits=limits, tls=tls, exempt=exempt or is_here)

            def close() -> None:
                server.close_listening()
                plug.close()

            def stop() -> None:
                loop.call_soon_threadsafe(close)

            found.append(Running(server, port, loop, stop, seen))
            loop.call_soon(started.set)
            await server.serve([plug])
            await server.drain(grace_s)
            assert (server.connections, server.requests, server.budget.used) == (0, 0, 0)

        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(main())
        except BaseException as error:
            failures.append(error)
            started.set()

    thread = threading.Thread(target=run, name="server", daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield found[0]
    finally:
        with suppress(RuntimeError):  # it was stopped before
            found[0].stop()
        thread.join(20)
        assert not thread.is_alive()
        assert not failures, failures

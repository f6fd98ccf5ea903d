"""A gateway that ends: who is connected is answered, who connects later is refused."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.processes.listening import bind, close_to_newcomers
from tests.gateway.http import KEY
from tests.gateway.processes import gateway_process

ROUNDS = 2
CLIENTS = 8
PATIENCE_S = 10.0
GET = f"GET /v1/models HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {KEY}\r\n".encode()

linux_only = pytest.mark.skipif(
    os.uname().sysname != "Linux", reason="sockets can be bound to interfaces on Linux only"
)


@linux_only
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nobody_begins_to_connect(host: str) -> None:
    with bind(host, 0) as sock:
        sock.listen()
        address = sock.getsockname()[:2]
        with socket.create_connection(address, PATIENCE_S) as before:
            close_to_newcomers([sock])
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, PATIENCE_S)
            accepted, _ = sock.accept()
            with accepted:
                before.sendall(b"asked")
                assert accepted.recv(100) == b"asked"
                accepted.sendall(b"answered")
                assert before.recv(100) == b"answered"
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.accept()
        sock.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, PATIENCE_S)


def ask_anew(address: tuple[str, int], seen: Counter[str]) -> None:
    """Connect, ask and read to the end, until the gateway is gone."""
    while not seen["refused"]:
        try:
            with socket.create_connection(address, PATIENCE_S) as sock:
                sock.sendall(GET + b"connection: close\r\n\r\n")
                answer = b"".join(iter(lambda: sock.recv(65536), b""))
        except ConnectionRefusedError:
            seen["refused"] += 1
        except OSError as error:
            seen[type(error).__name__] += 1
        else:
            seen[answer[9:12].decode()] += 1


@linux_only
@pytest.mark.parametrize("workers", [1, 2])
def test_no_connection_is_reset(tmp_path: Path, workers: int) -> None:
    for number in range(ROUNDS):
        seen: Counter[str] = Counter()
        with gateway_process(
            tmp_path, "http://127.0.0.1:9/v1", {"a": "key"}, workers=workers, name=f"{number}"
        ) as running:
            parts = urlsplit(running.url)
            assert parts.hostname
            assert parts.port
            address = parts.hostname, parts.port
            threads = [
                threading.Thread(target=ask_anew, args=(address, seen)) for _ in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            while seen["200"] < 200 and not seen.keys() - {"200", "refused"}:
                threads[0].join(0.01)
            running.stop()
            for thread in threads:
                thread.join(PATIENCE_S)
        assert seen.keys() == {"200", "refused"}, seen

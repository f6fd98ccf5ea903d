"""A gateway that the command line started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.conftest import STORE_KEY, Shop
from tests.gateway.clients import body
from tests.gateway.http import Answer, call


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def eventually(check: Callable[[], Any], seconds: float = 90.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := check():
                return found
        except OSError:
            pass
        time.sleep(0.02)
    pytest.fail("it never came true")


class Running:
    """A gateway in processes of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.log = b""

    def ask(self, model: str = "sim-text") -> Answer:
        return call(self.url, "POST", "/v1/chat/completions", body("chat", model))

    def metrics(self) -> dict[str, float]:
        text = call(self.url, "GET", "/metrics", key=None).body.decode()
        pairs = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in pairs}

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.log += self.process.communicate(timeout=60)[1]


@contextmanager
def serving(shop: Shop, workers: int) -> Iterator[Running]:
    port = free_port()
    shop.configure(port, workers)
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--config", str(shop.file)],
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "STORE_KEY": STORE_KEY},
    )
    running = Running(process, port)
    try:
        eventually(lambda: call(running.url, "GET", "/readyz", key=None).status == 200)
        yield running
    finally:
        if process.poll() is None:
            running.stop()

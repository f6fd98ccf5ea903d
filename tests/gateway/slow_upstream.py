"""An upstream that takes its time, and counts the requests it has at one time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    ],
}


class Upstream:
    """Takes its time, and knows how many requests each account had at once at most."""

    def __init__(self) -> None:
        self.takes_s = 0.03
        self.held: threading.Event | None = None
        """What requests wait for that come from now on."""
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.lock = threading.Lock()
        self.url = ""

    def count(self, key: str, change: int) -> None:
        with self.lock:
            now = self.now[key] = self.now.get(key, 0) + change
            self.most[key] = max(self.most.get(key, 0), now)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def slow_upstream() -> Iterator[Upstream]:
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name is the library's
            self.rfile.read(int(self.headers.get("content-length", 0)))
            key = self.headers["authorization"]
            upstream.count(key, 1)
            held = upstream.held
            time.sleep(upstream.takes_s)
            if held is not None:
                held.wait(60)
            upstream.count(key, -1)
            body = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    upstream.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()

"""A server that keeps what is posted to it, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Post:
    """One request; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _ok(post: Post) -> tuple[int, bytes]:
    return 200, b"{}"


@dataclass
class Posts:
    """What was posted, in order; `answer` makes the status and the body of each answer."""

    url: str = ""
    answer: Callable[[Post], tuple[int, bytes]] = _ok
    got: list[Post] = field(default_factory=list)


@contextmanager
def posts() -> Iterator[Posts]:
    """Serve on loopback."""
    found = Posts()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name is the library's
            data = self.rfile.read(int(self.headers["content-length"]))
            post = Post(self.path, {name.lower(): v for name, v in self.headers.items()}, data)
            found.got.append(post)
            status, body = found.answer(post)
            with suppress(OSError):  # who asked may have left
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

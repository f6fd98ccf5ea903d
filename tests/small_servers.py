"""Small servers of HTTP on loopback, with a thread for each connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """One request, which is served by the method with the name of its own."""

    protocol_version = "HTTP/1.1"
    # Else a body would wait for the ACK of its head.
    disable_nagle_algorithm = True

    def get(self) -> None:
        """Serve GET."""
        self.reply(status=405)

    def post(self) -> None:
        """Serve POST."""
        self.reply(status=405)

    def delete(self) -> None:
        """Serve DELETE."""
        self.reply(status=405)

    def do_GET(self) -> None:  # the names are the library's
        self.get()

    def do_POST(self) -> None:
        self.post()

    def do_DELETE(self) -> None:
        self.delete()

    def taken(self) -> bytes:
        """The body, read."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def names(self) -> dict[str, str]:
        """The headers by their names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def reply(
        self,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        status: int = 200,
        content_type: str = "application/json",
    ) -> None:
        """Send a whole answer; it has a content type if it has a body."""
        self.send_response(status)
        own = {"content-type": content_type} if body else {}
        for name, value in {**own, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server that clients may leave."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@contextmanager
def handling(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server while the context lasts; gives its URL."""
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

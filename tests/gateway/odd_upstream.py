"""An upstream that answers every request with the same bytes, whatever was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(status: int, content_type: str, body: bytes, missing: int = 0) -> Iterator[str]:
    """Serve on loopback; gives the base URL. So many bytes at the end of the body do not come."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: a second one would wait for the first's ACK

        def do_POST(self) -> None:  # the name is the library's
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = bool(missing)

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

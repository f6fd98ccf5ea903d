"""An upstream that answers every request with the same bytes, whatever was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.small_servers import Handler, handling


@contextmanager
def answering(status: int, content_type: str, body: bytes, missing: int = 0) -> Iterator[str]:
    """Serve on loopback; gives the base URL. So many bytes at the end of the body do not come."""

    class Own(Handler):
        def post(self) -> None:
            self.taken()
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = bool(missing)

        get = post

    with handling(Own) as url:
        yield url

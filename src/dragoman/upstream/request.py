"""One request to an upstream."""

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from dragoman.upstream.urls import Target

MANAGED = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Header names that belong to the connection (RFC 9110, 7.6.1): the client sets what it needs
and leaves out a caller's."""


_MOST_HEADS = 16_384
"""Heads that are kept, some 500 bytes each: one for each account, or two."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """Time limits of one call, in seconds; 0 for none."""

    connect: float = 10.0
    """Until the connection is established: name, TCP, proxy and TLS. None for a pooled one."""
    first_byte: float = 600.0
    """From the request handed over to the head of the answer."""
    idle: float = 300.0
    """Between two reads of the body. Runs only while the caller waits for bytes, so a caller
    that reads slowly is not the upstream's silence."""
    total: float = 0.0
    """From the start of the call to the end of the body."""


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """One request.

    Nothing is checked here: a URL, proxy or header that cannot be used is a `ValueError` of
    `UpstreamClient.send`.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    url: str
    """Absolute http or https URL; see `join_url`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, sent in this order; those of `MANAGED` are left out."""
    body: bytes = b""
    timeouts: Timeouts = Timeouts()
    proxy: str | None = None
    """`http://`, `https://`, `socks5://` (names resolved here) or `socks5h://` (names resolved
    by the proxy), with `user:password@` where the proxy asks for it. The environment's proxy
    variables are not looked at."""

    def __repr__(self) -> str:
        """Method and size only: URL, headers, body and proxy may hold secrets."""
        return f"UpstreamRequest({self.method}, {len(self.body)} bytes)"


def render_head(request: UpstreamRequest, target: Target, forward: str | None = None) -> bytes:
    """The request line and headers as they go onto the wire.

    Args:
        request: the request.
        target: its parsed URL.
        forward: given when a proxy is to forward the request: header lines for the proxy, each
            with its line end. The request line then has the whole URL (RFC 9112, 3.2.2).

    Raises:
        ValueError: a header holds a line break, or is not Latin-1.
    """
    head = _fixed_lines(request.method, target, request.headers, forward)
    if request.body or request.method not in ("GET", "DELETE"):
        return b"%bcontent-length: %d\r\n\r\n" % (head, len(request.body))
    return head + b"\r\n"


@lru_cache(maxsize=_MOST_HEADS)
def _fixed_lines(
    method: str, target: Target, headers: tuple[tuple[str, str], ...], forward: str | None
) -> bytes:
    """All but the length of the body: the same for most requests of an account."""
    where = target.path if forward is None else f"http://{target.authority}{target.path}"
    lines = [f"{method} {where} HTTP/1.1", f"host: {target.authority}"]
    asks_encoding = False
    for name, value in headers:
        lowered = name.lower()
        if lowered in MANAGED:
            continue
        asks_encoding = asks_encoding or lowered == "accept-encoding"
        lines.append(f"{name}: {value}")
    if not asks_encoding:
        # A stream must not wait in a compressor's buffer; some upstreams compress by default.
        lines.append("accept-encoding: identity")
    head = "\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count("\n") != breaks or head.count("\r") != breaks or "\0" in head:
        raise ValueError("a header of the request holds a line break or a null character")
    try:
        return f"{head}\r\n{forward or ''}".encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a header of the request has characters outside Latin-1") from None

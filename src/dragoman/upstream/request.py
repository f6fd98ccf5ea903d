"""One request to an upstream."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Literal, Protocol

from msgspec import Struct

from dragoman.upstream.proxies import Proxy, parse_proxy
from dragoman.upstream.urls import Target, parse_url

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
    socket_idle: float = 1800.0
    """As `idle`, between the messages of an answer over WebSocket; `idle` is then how long nothing
    at all may be heard, not even answers to pings."""
    total: float = 0.0
    """From the start of the call to the end of the body."""


class SocketFailure(Protocol):
    """An error that came as a message, as the answer that HTTP would have had: its status, headers
    and body, or the `event` of a stream that has begun. `again` says that the same call can be made
    on another connection, whole: nothing was done on this one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def event(self) -> bytes: ...
    @property
    def again(self) -> bool: ...


class SocketCall(Protocol):
    """What a protocol makes of a call over a connection. `over` says that the last event came, and
    `held` what the connection remembers from then on (None for nothing); it has a `size` in bytes.
    `error` is what came in place of an answer, or of the rest of one. `lingers`: the answer has an
    end, and another may follow it."""

    @property
    def over(self) -> bool: ...
    @property
    def lingers(self) -> bool: ...
    @property
    def held(self) -> Any: ...
    @property
    def error(self) -> SocketFailure | None: ...

    def message(self, held: Any = None) -> bytes | None:
        """The message to send; without what a connection holds. None if it does not hold that."""

    def take(self, message: bytes) -> bytes:
        """What a message that came is in the body of the answer by HTTP."""

    def part(self) -> bytes:
        """The rest of the body where nothing follows an end after which something might have."""

    def spoils(self, message: bytes) -> bool:
        """Whether one that came after the end would be taken for the answer to the next call."""


class SocketUse(Struct, frozen=True):
    """That a request may go over a connection.

    Connections are kept for each `conversation`. `call` says what a body is as a message, None if
    it can only be posted. `always` has a host asked again each time, though it refused before.
    `hold` takes bytes of memory for a large message of the answer; what it raises ends the call.
    `begun` is told, each time that the call is made on a connection, of the call and of the way to
    send further messages while it lasts; that says whether one was sent.
    """

    conversation: bytes
    call: Callable[[bytes], SocketCall | None]
    always: bool = False
    hold: Callable[[int], None] = lambda size: None
    begun: Callable[[Any, Callable[[bytes], bool]], None] = lambda call, send: None


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
    socket: SocketUse | None = None
    """Absent: the request goes by HTTP. Else as a message, if the upstream offers WebSocket."""

    def __repr__(self) -> str:
        """Method and size only: URL, headers, body and proxy may hold secrets."""
        return f"UpstreamRequest({self.method}, {len(self.body)} bytes)"


class Prepared(Struct, frozen=True, eq=False):
    """What the requests of an account to one URL have in common.

    `key` is that of the connections which can carry them; `lines` are the request line and the
    headers, without that of the body's length. `forwarded` says that a proxy is to forward the
    request, and may answer it.
    """

    target: Target
    proxy: Proxy | None
    forwarded: bool
    key: Hashable
    lines: bytes


def prepared(request: UpstreamRequest) -> Prepared:
    """All of a request but its body, made once for equal ones.

    Raises:
        ValueError: URL, proxy or a header cannot be used.
    """
    return _prepared(request.method, request.url, request.headers, request.proxy)


@lru_cache(maxsize=_MOST_HEADS)
def _prepared(
    method: str, url: str, headers: tuple[tuple[str, str], ...], proxy_url: str | None
) -> Prepared:
    target = parse_url(url)
    proxy = parse_proxy(proxy_url) if proxy_url else None
    # The request line then has the whole URL, and lines for the proxy follow (RFC 9112, 3.2.2).
    forwarded = proxy is not None and target.scheme == "http" and not proxy.is_socks
    forward = proxy.auth_lines if proxy is not None and forwarded else None
    key = (target.scheme, target.host, target.port, proxy)
    lines = _rendered(method, target, headers, forward)
    return Prepared(target, proxy, forwarded, key, lines)


def render_head(request: UpstreamRequest, lines: bytes) -> bytes:
    """The head of a request as it goes onto the wire. `lines` are those that were prepared."""
    if request.body or request.method not in ("GET", "DELETE"):
        return b"%bcontent-length: %d\r\n\r\n" % (lines, len(request.body))
    return lines + b"\r\n"


def _rendered(
    method: str, target: Target, headers: tuple[tuple[str, str], ...], forward: str | None
) -> bytes:
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

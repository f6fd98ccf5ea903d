"""One request to an upstream."""

from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple, Protocol

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
    """As `idle`, between the messages of an answer over WebSocket; `idle` then limits the time
    without any byte, answers to pings included."""
    total: float = 0.0
    """From the start of the call to the end of the body."""


class SocketFailure(Protocol):
    """An error that came as a message, as the answer that HTTP would have had: its status, headers
    and body, or the `event` of a stream that has begun. `is_retryable`: nothing was done, and the
    same call can be made on another connection, with the whole request."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def event(self) -> bytes: ...
    @property
    def is_retryable(self) -> bool: ...


class SocketContext(Protocol):
    """What a connection remembers of its last response, so that the next request need not send
    it; `size` in bytes."""

    @property
    def size(self) -> int: ...


class SocketCall(Protocol):
    """A call over a connection, as a protocol defines it. `is_complete`: the terminal event came,
    and the connection remembers `context` from then on (None for nothing). `error` came in place of
    an answer, or of the rest of one. `awaits_following`: the response has ended, and another may
    follow it in the same answer."""

    @property
    def is_complete(self) -> bool: ...
    @property
    def awaits_following(self) -> bool: ...
    @property
    def context(self) -> SocketContext | None: ...
    @property
    def error(self) -> SocketFailure | None: ...

    def message(self, context: Any) -> bytes | None:
        """The message to send, without what a connection with this context has; None if the
        request does not continue it."""

    def receive(self, message: bytes) -> bytes:
        """What a received message is in the body of the answer by HTTP."""

    def give_up(self) -> bytes:
        """The rest of the body where no response followed."""

    def is_late_error(self, message: bytes) -> bool:
        """Whether a message after the end would be taken for the answer to the next call."""


class SocketUse(Struct, frozen=True):
    """How a request may go over a WebSocket connection.

    Connections are pooled per `conversation`. `call` makes the call of a body, None if it can only
    be posted. `always` tries a host again although its handshake failed before. `reserve` reserves
    memory for a large message of the answer; what it raises ends the call. `on_begin` is called
    each time that the call is made on a connection, with the call and a function that sends further
    messages while it lasts, and returns whether it did.
    """

    conversation: bytes
    call: Callable[[bytes], SocketCall | None]
    always: bool = False
    reserve: Callable[[int], None] = lambda size: None
    on_begin: Callable[[Any, Callable[[bytes], bool]], None] = lambda call, send: None


class BodySource(Protocol):
    """A body that is sent while it comes. `length` is in bytes, -1 if it is not known: then the
    body goes in chunks. It is sent over a connection of its own."""

    @property
    def length(self) -> int: ...

    def anew(self) -> bool:
        """Begin with the first byte again. False if that is not held any more."""

    async def pipe(self, sink: Callable[[bytes], bool]) -> bool:
        """Give the body to `sink`, piece by piece, until `sink` returns False (then True), or has
        had all (then False). What it raises ends the call."""


class TlsSettings(NamedTuple):
    """What TLS with an upstream takes beside the system's authorities: certificates in PEM that are
    trusted instead, and the file with the gateway's own and its key; `content` is that of the file,
    so that another one is loaded anew."""

    authorities: str = ""
    certificate: str = ""
    content: bytes = b""


class Prepared(Struct, frozen=True, eq=False):
    """What the requests of an account to one URL have in common.

    `key` is that of the connections which can carry them; `tls` as in `UpstreamRequest`; `lines`
    are the request line and the headers, without that of the body's length. `forwarded` says that a
    proxy is to forward the request, and may answer it.
    """

    target: Target
    proxy: Proxy | None
    tls: TlsSettings
    forwarded: bool
    key: Hashable
    lines: bytes


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
    authorisation: tuple[tuple[str, str], ...] = ()
    """Further headers, which are of this request alone: they are not cached."""
    body: bytes = b""
    source: BodySource | None = None
    """Present: the body comes from there. `Timeouts.first_byte` then begins when all of it was
    sent; before, `Timeouts.idle` limits the time for which the upstream takes nothing."""
    once: bool = False
    """Never send it twice: it takes no idle connection, which might be closed just then."""
    timeouts: Timeouts = Timeouts()
    proxy: str | None = None
    """`http://`, `https://`, `socks5://` (names resolved here) or `socks5h://` (names resolved
    by the proxy), with `user:password@` where the proxy asks for it. The environment's proxy
    variables are not looked at."""
    tls: TlsSettings = TlsSettings()
    socket: SocketUse | None = None
    """Present: the request goes as a WebSocket message where the upstream offers that."""
    ready: Prepared | None = None
    """What `prepared` returns, where many requests have it in common; None once another member is
    replaced."""

    def __repr__(self) -> str:
        """Method and size only: URL, headers, body and proxy may contain secrets."""
        return f"UpstreamRequest({self.method}, {len(self.body)} bytes)"


def prepared(request: UpstreamRequest) -> Prepared:
    """All of a request but its body.

    Raises:
        ValueError: URL, proxy or a header cannot be used.
    """
    if request.ready is not None:
        return request.ready
    target, tls = parse_url(request.url), request.tls
    proxy = parse_proxy(request.proxy) if request.proxy else None
    # The request line then has the whole URL, and lines for the proxy follow (RFC 9112, 3.2.2).
    forwarded = proxy is not None and target.scheme == "http" and not proxy.is_socks
    forward = proxy.auth_lines if proxy is not None and forwarded else None
    key = (target.scheme, target.host, target.port, proxy, tls)
    lines = _rendered(request.method, target, request.headers, forward)
    return Prepared(target, proxy, tls, forwarded, key, lines)


def render_head(request: UpstreamRequest, lines: bytes) -> bytes:
    """The head of a request as it goes onto the wire. `lines` are the prepared ones."""
    if request.authorisation:
        added = "".join([f"{name}: {value}\r\n" for name, value in request.authorisation])
        if added.count("\n") != len(request.authorisation) or "\0" in added:
            raise ValueError("a header of the request has a line break or a null character")
        lines += added.encode("latin-1")
    if request.source is not None:
        length = request.source.length
        if length < 0:
            return lines + b"transfer-encoding: chunked\r\n\r\n"
        return b"%bcontent-length: %d\r\n\r\n" % (lines, length)
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
        raise ValueError("a header of the request has a line break or a null character")
    try:
        return f"{head}\r\n{forward or ''}".encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a header of the request has characters outside Latin-1") from None

"""Tunnels through HTTP and SOCKS5 proxies."""

import asyncio
import socket
from base64 import b64encode
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from dragoman.upstream.errors import ConnectFailed, ProxyFailed
from dragoman.upstream.urls import Target

_DEFAULT_PORT = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_HEAD_LIMIT = 16 * 1024

_SOCKS_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}
"""Reply codes of RFC 1928, section 6."""

_SOCKS_UPSTREAM_AT_FAULT = frozenset({3, 4, 5, 6})


class Proxy(Struct, frozen=True):
    """The parts of a proxy's URL."""

    scheme: str
    host: str
    port: int
    username: str
    password: str

    def __repr__(self) -> str:
        """Without user name and password."""
        return f"Proxy({self.scheme}://{self.host}:{self.port})"

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS5, otherwise HTTP."""
        return self.scheme.startswith("socks")

    @property
    def auth_lines(self) -> str:
        """The `Proxy-Authorization` header line with its line end; empty without a user."""
        if not self.username:
            return ""
        pair = f"{self.username}:{self.password}".encode()
        return f"proxy-authorization: Basic {b64encode(pair).decode('ascii')}\r\n"


@lru_cache(maxsize=256)
def parse_proxy(url: str) -> Proxy:
    """Parse a proxy's URL.

    Raises:
        ValueError: the scheme is not `http`, `https`, `socks5` or `socks5h`, or there is no host.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORT or not parts.hostname:
        raise ValueError("a proxy's URL must start with http://, https://, socks5:// or socks5h://")
    return Proxy(
        scheme=parts.scheme,
        host=parts.hostname,
        port=parts.port or _DEFAULT_PORT[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


class Handshake(asyncio.Protocol):
    """Holds a connection while it is talked through a proxy, before anything else uses it."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        if self._closed:
            raise ProxyFailed("the proxy closed the connection")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            ProxyFailed: the proxy closed the connection first.
        """
        while len(self._received) < count:
            await self._more()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    async def take_head(self) -> bytes:
        """Everything up to an empty line.

        Raises:
            ProxyFailed: the proxy closed the connection first, or sends no end.
        """
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > _HEAD_LIMIT:
                raise ProxyFailed("the proxy's answer has no end")
            await self._more()
        return await self.take(end + 4)


async def connect_tunnel(
    transport: asyncio.Transport, shake: Handshake, proxy: Proxy, target: Target
) -> None:
    """Ask an HTTP proxy for a tunnel (RFC 9110, 9.3.6).

    Raises:
        ProxyFailed: the proxy refuses, or does not speak HTTP.
        ConnectFailed: it reports that it cannot reach the upstream (502, 504).
    """
    host = f"[{target.host}]" if ":" in target.host else target.host
    where = f"{host}:{target.port}"
    transport.write(
        f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{proxy.auth_lines}\r\n".encode("latin-1")
    )
    status_line = (await shake.take_head()).split(b"\r\n", 1)[0].split(b" ", 2)
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1."):
        raise ProxyFailed("the proxy does not speak HTTP")
    status = status_line[1].decode("latin-1")
    if status in ("502", "504"):
        raise ConnectFailed(f"the proxy could not reach the upstream: status {status}")
    if not status.startswith("2"):
        raise ProxyFailed(f"the proxy refused the tunnel: status {status}")


async def socks_tunnel(
    transport: asyncio.Transport, shake: Handshake, proxy: Proxy, target: Target
) -> None:
    """Ask a SOCKS5 proxy for a tunnel (RFC 1928, RFC 1929).

    Raises:
        ProxyFailed: the proxy refuses, or does not speak SOCKS5.
        ConnectFailed: it reports that it cannot reach the upstream, or a name did not resolve here.
    """
    address = await _socks_address(proxy, target)
    transport.write(b"\x05\x02\x00\x02" if proxy.username else b"\x05\x01\x00")
    version, method = await shake.take(2)
    if version != 5:
        raise ProxyFailed("the proxy does not speak SOCKS5")
    if method == 2 and proxy.username:
        user, password = proxy.username.encode()[:255], proxy.password.encode()[:255]
        transport.write(b"\x01%c%b%c%b" % (len(user), user, len(password), password))
        if (await shake.take(2))[1] != 0:
            raise ProxyFailed("the proxy refused the user name or password")
    elif method != 0:
        raise ProxyFailed("the proxy wants an authentication that was not given")
    transport.write(b"\x05\x01\x00" + address + target.port.to_bytes(2, "big"))
    _, reply, _, kind = await shake.take(4)
    if reply:
        reason = _SOCKS_REFUSALS.get(reply, f"code {reply}")
        if reply in _SOCKS_UPSTREAM_AT_FAULT:
            raise ConnectFailed(f"the proxy could not reach the upstream: {reason}")
        raise ProxyFailed(f"the proxy refused the tunnel: {reason}")
    length = {1: 4, 4: 16}.get(kind)
    if length is None:
        length = (await shake.take(1))[0]
    await shake.take(length + 2)


async def _socks_address(proxy: Proxy, target: Target) -> bytes:
    host = target.host
    if proxy.scheme == "socks5" and not _is_address(host):
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, target.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectFailed(f"the name {host} did not resolve") from error
        host = str(found[0][4][0])
    if _is_address(host):
        packed = ip_address(host).packed
        return (b"\x01" if len(packed) == 4 else b"\x04") + packed
    name = host.encode("ascii")
    if len(name) > 255:
        raise ConnectFailed("the upstream's name is too long for a SOCKS proxy")
    return b"\x03%c%b" % (len(name), name)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

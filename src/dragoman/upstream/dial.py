"""Opening a connection: name, TCP, proxy and TLS, and which of them is at fault when it fails."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from dragoman.upstream.addresses import reach
from dragoman.upstream.errors import ConnectFailed, ProxyFailed, TLSFailed
from dragoman.upstream.proxies import Handshake, Proxy, connect_tunnel, socks_tunnel
from dragoman.upstream.request import Prepared, TlsSettings
from dragoman.upstream.urls import Target

C = TypeVar("C", bound=asyncio.BaseProtocol)

_TCP_OPTIONS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Keepalive in seconds, seconds and probes: a model may think for minutes, and a router on the way
forgets silent connections, which would look like an upstream that never answers."""

VANISHED_MS = {"TCP_USER_TIMEOUT": 15_000}
"""Milliseconds without an acknowledgement of what was sent after which a connection ends, although
nobody has reset it."""


async def dial(
    call: Prepared,
    tls: Callable[[TlsSettings], Awaitable[ssl.SSLContext]],
    make: Callable[[], C],
    deadline: float | None,
) -> C:
    """Open a connection to an upstream.

    Args:
        call: where to, and by which proxy.
        tls: gives the context for TLS; called only where it is needed.
        make: makes the connection object.
        deadline: loop time at which to give up, None for never.

    Raises:
        ConnectFailed: the upstream cannot be reached.
        TLSFailed: the upstream's TLS handshake or certificate failed.
        ProxyFailed: the proxy is at fault, or did not accept the connection in time.
        TimeoutError: the deadline passed, and the proxy is not at fault as far as can be seen.
    """
    target, proxy = call.target, call.proxy
    context = await tls(call.tls) if target.scheme == "https" else None
    connection = make()
    if proxy is None:
        async with asyncio.timeout_at(deadline):
            transport = await _connect(
                lambda: connection, target.host, target.port, context, "the upstream", ConnectFailed
            )
        _set_options(transport)
        return connection

    shake = Handshake()
    try:
        async with asyncio.timeout_at(deadline):
            transport = await _connect(
                lambda: shake,
                proxy.host,
                proxy.port,
                await tls(TlsSettings()) if proxy.scheme == "https" else None,
                "the proxy",
                ProxyFailed,
            )
    except TimeoutError:
        raise ProxyFailed(f"the proxy at {proxy.host}:{proxy.port} did not answer") from None
    try:
        _set_options(transport)
        async with asyncio.timeout_at(deadline):
            await _through_proxy(transport, shake, target, proxy, context, connection)
    except BaseException:
        transport.abort()
        raise
    return connection


async def _through_proxy(
    transport: asyncio.Transport,
    shake: Handshake,
    target: Target,
    proxy: Proxy,
    context: ssl.SSLContext | None,
    connection: asyncio.BaseProtocol,
) -> None:
    if proxy.is_socks:
        await socks_tunnel(transport, shake, proxy, target)
    elif context is not None:
        await connect_tunnel(transport, shake, proxy, target)
    if context is None:
        transport.set_protocol(connection)
        connection.connection_made(transport)
        return
    loop = asyncio.get_running_loop()
    try:
        inner = await loop.start_tls(transport, connection, context, server_hostname=target.host)
    except OSError as error:
        raise _tls_failed(error) from error
    if inner is None:
        raise TLSFailed("the connection was closed during the TLS handshake")
    connection.connection_made(inner)


async def _connect(
    factory: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    who: str,
    fault: type[ConnectFailed | ProxyFailed],
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    name = host if context is not None else None
    try:
        sock = await reach(host, port)
        try:
            transport, _ = await loop.create_connection(
                factory, sock=sock, ssl=context, server_hostname=name
            )
        except BaseException:
            sock.close()
            raise
    except ssl.SSLError as error:
        if fault is ProxyFailed:
            raise ProxyFailed(f"TLS with the proxy failed: {_reason(error)}") from error
        raise _tls_failed(error) from error
    except socket.gaierror as error:
        message = f"the name {host} did not resolve: {error.strerror}"
        raise _caused(fault(message), "name_not_resolved") from error
    except OSError as error:
        # The text of the error itself depends on the event loop.
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        message = f"{who} at {host}:{port} cannot be reached: {reason}"
        raise _caused(fault(message), _refusal(error)) from error
    return transport


def _caused(error: ConnectFailed | ProxyFailed, cause: str) -> ConnectFailed | ProxyFailed:
    """The error with its cause, unless the proxy is at fault. It must
    be raised without a name: its traceback would refer to it, and to all of the request."""
    if cause and isinstance(error, ConnectFailed):
        error.cause = cause
    return error


def _refusal(error: OSError) -> str:
    """`connection_refused` if that is what happened."""
    return "connection_refused" if error.errno == errno.ECONNREFUSED else ""


_CERTIFICATE_CAUSES = {
    **dict.fromkeys((9, 10), "certificate_expired"),
    **dict.fromkeys((2, 18, 19, 20, 21), "certificate_untrusted"),
    **dict.fromkeys((62, 64), "certificate_of_another_name"),
}
"""By the codes of OpenSSL's verification (X509_V_ERR)."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
"""The errors of OpenSSL when what answers does not speak TLS."""


def _tls_failed(error: Exception) -> TLSFailed:
    failed = TLSFailed(f"the TLS handshake with the upstream failed: {_reason(error)}")
    if isinstance(error, ssl.SSLCertVerificationError):
        failed.cause = _CERTIFICATE_CAUSES.get(error.verify_code, failed.cause)
    elif isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        failed.cause = "not_tls"
    return failed


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason or "no reason given"
    return type(error).__name__


def notice_vanished(transport: asyncio.BaseTransport) -> None:
    """Have a connection that was idle end soon where its host has vanished meanwhile.

    Not before it was idle: a server that is there, but busy, may leave the rest of a large request
    unread for longer.
    """
    _set(transport, VANISHED_MS)


def _set_options(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _set(transport, _TCP_OPTIONS)


def _set(transport: asyncio.BaseTransport, options: Mapping[str, int]) -> None:
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    for name, value in options.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)

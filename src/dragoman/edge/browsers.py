"""Pages in a browser that would use what whoever is on this machine may use without a key.

A page in a browser on the machine is not on the machine: it comes from anywhere. It is recognised
by headers that browsers set and pages cannot change: the `Origin` of its request, and the `Host`,
which is the attacker's own name where he had that name lead to the loopback address (DNS
rebinding).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.edge.auth import presented_key
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.addresses import is_here


def check_unkeyed(incoming: IncomingRequest) -> None:
    """Make sure that a request without a key is no page's from elsewhere.

    Raises:
        DragomanError: FORBIDDEN: it is; UNSUPPORTED_MEDIA_TYPE: it would need no preflight.
    """
    headers = incoming.headers
    if _names_another(incoming):
        raise _refused("Host")
    origin = headers.get(b"origin")
    if origin is None:
        return
    scheme, found, authority = origin.decode("latin-1").partition("://")
    if not found or scheme not in ("http", "https") or not is_own_name(authority):
        raise _refused("Origin")
    if incoming.method == "POST" and b"content-type" not in headers:
        message = "A page must name the content type of what it sends: application/json."
        raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)


def check_host(incoming: IncomingRequest) -> None:
    """Make sure that a request from this machine, to what is for operators, was sent to a name of
    this machine, unless it has a key.

    Raises:
        DragomanError: FORBIDDEN: it was not.
    """
    if incoming.is_local and _names_another(incoming) and presented_key(incoming.headers) is None:
        message = (
            "From this machine, this is served under its own names only, such as localhost, and "
            "the Host of this request is another. A proxy on the machine must send X-Forwarded-For."
        )
        raise refusal(FaultKind.FORBIDDEN, message, code="not_local")


def check_origin(incoming: IncomingRequest) -> None:
    """Make sure that no page of another origin asks.

    Raises:
        DragomanError: FORBIDDEN: one does.
    """
    origin = incoming.headers.get(b"origin")
    if origin is None:
        return
    _, _, authority = origin.partition(b"://")
    if authority != incoming.headers.get(b"host"):
        message = "Pages of other origins are not served: [server] cors is off."
        raise refusal(FaultKind.FORBIDDEN, message, code="not_local")


def _names_another(incoming: IncomingRequest) -> bool:
    """Whether the `Host` is no name of this machine. A Unix socket is out of a browser's reach, and
    its clients may name any host."""
    host = incoming.headers.get(b"host")
    if host is None or not incoming.address:
        return False
    return not is_own_name(host.decode("latin-1"))


def is_own_name(authority: str) -> bool:
    """Whether a host, with or without a port, is a name or address of the machine that uses it."""
    try:
        host = urlsplit(f"//{authority}").hostname
    except ValueError:
        return False
    if not host:
        return False
    return host == "localhost" or host.endswith(".localhost") or is_here(host)


def _refused(header: str) -> DragomanError:
    return refusal(
        FaultKind.FORBIDDEN,
        f"Without [[clients]] this gateway serves this machine only, and the {header} of this "
        "request names another. Give clients keys to let others in.",
        code="not_local",
    )

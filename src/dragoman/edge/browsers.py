"""Pages in a browser that would use a gateway which asks nobody for a key.

Whoever is on the machine may call such a gateway. A page in a browser on that machine is not: it
comes from anywhere. It is recognised by headers that browsers set and pages cannot change: the
`Origin` of its request, and the `Host`, which is the attacker's own name where he had that name
lead to the loopback address (DNS rebinding).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.addresses import is_here


def check_unkeyed(incoming: IncomingRequest) -> None:
    """Make sure that a request without a key is no page's from elsewhere.

    Raises:
        DragomanError: FORBIDDEN: it is; UNSUPPORTED_MEDIA_TYPE: it would need no preflight.
    """
    headers = incoming.headers
    host = headers.get(b"host")
    # A Unix socket is out of a browser's reach, and its clients may name any host.
    if host is not None and incoming.address and not _is_loopback(host.decode("latin-1")):
        raise _refused("Host")
    origin = headers.get(b"origin")
    if origin is None:
        return
    scheme, found, authority = origin.decode("latin-1").partition("://")
    if not found or scheme not in ("http", "https") or not _is_loopback(authority):
        raise _refused("Origin")
    if incoming.method == "POST" and b"content-type" not in headers:
        message = "A page must name the content type of what it sends: application/json."
        raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)


def _is_loopback(authority: str) -> bool:
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

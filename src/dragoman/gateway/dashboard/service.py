"""Serves the files of the dashboard. They are the same for everybody and hold no secret, so they
need no key; what they show does."""

from __future__ import annotations

from dragoman.canonical.errors import FaultKind
from dragoman.gateway.dashboard.files import load_files
from dragoman.edge.auth import Caller
from dragoman.edge.errors import Headers, refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record

PATH = "/ui"

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Headers = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"clipboard-write=(self), camera=(), microphone=(), geolocation=()",
    ),
    (b"vary", b"accept-encoding"),
]
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
_EACH_TIME = (b"cache-control", b"no-cache")
_ASSETS = PATH + "/a/"


async def dashboard(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
    """Answer with a file, or with the page: which of its screens is shown, the browser decides by
    the path.

    Raises:
        DragomanError: NOT_FOUND: there is no such file.
    """
    files, path = load_files(), incoming.path
    if path.startswith(_ASSETS):
        found = files.assets.get(path.removeprefix(PATH + "/"))
        if found is None:
            raise refusal(FaultKind.NOT_FOUND, "There is no such file.", code="not_found")
        cached = _FOR_EVER
    else:
        found, cached = files.page, _EACH_TIME
    headers = [*_HEADERS, cached]
    body = found.body
    if b"gzip" in incoming.headers.get(b"accept-encoding", b""):
        body = found.packed
        headers.append((b"content-encoding", b"gzip"))
    await incoming.reply(200, body, headers, b"content-type: %b\r\n" % found.media)

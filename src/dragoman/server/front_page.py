"""`GET /`: what listens here, and where to go on. It says the same to everybody, and nothing of the
configuration."""

from __future__ import annotations

from functools import cache

from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json

_WHAT = "An LLM gateway: any client reaches any upstream, whatever protocol either of them speaks."
_PATHS = {"models": "/v1/models", "health": "/healthz", "readiness": "/readyz"}
_HTML = b"content-type: text/html; charset=utf-8\r\n"
# Nothing is loaded or run, whatever the page may come to hold.
_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


async def front_page(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
    """Answer with a page where the client is a browser, else with the same as JSON."""
    incoming.shared.append((b"vary", b"accept"))
    if _is_browser(incoming.headers.get(b"accept", b"").lower()):
        incoming.shared.append((b"content-security-policy", _POLICY))
        incoming.reply(200, _page(), media=_HTML)
    else:
        incoming.reply(200, _document())


def _is_browser(accept: bytes) -> bool:
    """Whether HTML is asked for, and not JSON before it. Browsers name it first."""
    html, _, _ = accept.partition(b"text/html")
    return html != accept and b"application/json" not in html


def _document() -> bytes:
    return to_json(
        {
            "name": "dragoman",
            "description": _WHAT,
            "endpoints": _endpoints(),
            "links": {**_PATHS, **_documentation()},
        }
    )


def _page() -> bytes:
    from html import escape  # its table of entities is large, and seldom needed

    endpoints = "".join(f"<li><code>POST {escape(path)}</code></li>" for path in _endpoints())
    links = "".join(
        f'<li><a href="{escape(target)}">{escape(name)}</a></li>'
        for name, target in {**_PATHS, **_documentation()}.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><title>dragoman</title>'
        f"<h1>dragoman</h1><p>{escape(_WHAT)}</p>"
        f"<h2>Endpoints</h2><ul>{endpoints}</ul><h2>Go on</h2><ul>{links}</ul>"
        "<p>A key goes into <code>Authorization: Bearer</code>.</p></html>"
    ).encode()


def _endpoints() -> list[str]:
    """Where requests for answers go, in each protocol that has a path for them."""
    return [
        codec.endpoint.version + codec.endpoint.path
        for codec in CODECS.values()
        if codec.endpoint.operation_for("", stream=False) is None
    ]


@cache
def _documentation() -> dict[str, str]:
    """The address of the documentation, from the metadata of the installed package."""
    # Here, since it takes a twentieth of what starting the gateway takes.
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata("dragoman").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    pairs = (line.partition(", ") for line in urls)
    return {name.lower(): url for name, _, url in pairs if name == "Documentation"}

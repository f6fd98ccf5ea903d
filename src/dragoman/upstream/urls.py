"""URLs of upstreams: joining a base with a path, and parsing for a request."""

import re
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

_VERSION = re.compile(r"v\d+[a-z0-9.]*", re.IGNORECASE)
_SAFE = "/%:@!$&'()*+,;=~-._"
_DEFAULT_PORT = {"http": 80, "https": 443}


class Target(Struct, frozen=True):
    """Where a request goes.

    `host` is what is resolved and what the certificate must name; `authority` is the value of
    the `Host` header; `path` is the request target, query included.
    """

    scheme: str
    host: str
    port: int
    authority: str
    path: str


def join_url(base_url: str, path: str, query: str = "") -> str:
    """The URL of an endpoint below a base URL.

    A base URL may end in slashes and may or may not have its version: a segment `v1`, `v4`,
    `v1beta` anywhere in its path makes it complete, so that the version that `path` starts with
    is left out; it is never doubled. A query of the base URL goes before `query`.

        join_url("https://h", "/v1/messages") == join_url("https://h/v1/", "/v1/messages")

    Args:
        base_url: absolute http or https URL.
        path: starts with a slash and a version, for example `/v1/chat/completions`.
        query: without its question mark.

    Raises:
        ValueError: the base URL is not an absolute http(s) URL, or has a user name or password.
    """
    parts = urlsplit(base_url)
    _check(parts.scheme, parts.hostname, parts.username)
    segments = [segment for segment in parts.path.split("/") if segment]
    wanted = [segment for segment in path.split("/") if segment]
    if any(_VERSION.fullmatch(segment) for segment in segments):
        wanted = wanted[1:] if wanted and _VERSION.fullmatch(wanted[0]) else wanted
    merged = "/" + "/".join(segments + wanted)
    both = "&".join(part for part in (parts.query, query) if part)
    return urlunsplit((parts.scheme, parts.netloc, merged, both, ""))


def unversioned(base_url: str) -> str:
    """A base URL without its version, and what follows that: where services have paths beside
    those of a protocol. Cohere has OpenAI's below `/compatibility`, and its own not."""
    parts = urlsplit(base_url)
    kept: list[str] = []
    for segment in parts.path.split("/"):
        if _VERSION.fullmatch(segment):
            break
        if segment != "compatibility":
            kept.append(segment)
    return urlunsplit((parts.scheme, parts.netloc, "/".join(kept), parts.query, ""))


def parse_url(url: str) -> Target:
    """Parse a URL for a request; a fragment is dropped.

    Raises:
        ValueError: not an absolute http(s) URL, or it has a user name or password.
    """
    parts = urlsplit(url)
    host = parts.hostname
    _check(parts.scheme, host, parts.username)
    assert host is not None
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    default = _DEFAULT_PORT[parts.scheme]
    port = parts.port or default
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE + "?")
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        authority=shown if port == default else f"{shown}:{port}",
        path=path,
    )


def _check(scheme: str, host: str | None, username: str | None) -> None:
    if scheme not in _DEFAULT_PORT or not host:
        raise ValueError("an upstream's URL must be an absolute http or https URL")
    if username is not None:
        raise ValueError("an upstream's URL must not contain a user name or password")

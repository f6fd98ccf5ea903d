"""Request paths: normalised for routes, and the client protocol that they imply."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec

_SLASHES = re.compile(r"/{2,}")
_VERSIONS = re.compile(r"^(?:/v1)+(?=/|$)")


def normal_path(path: str) -> str:
    """A path in the form of the routes: base URLs are configured with and without `/v1`, with a
    slash at their end, and with a `/v1` too many.
    """
    path = _VERSIONS.sub("/v1", _SLASHES.sub("/", path)).rstrip("/") or "/"
    if not path.startswith("/v1/") and path.startswith(_versioned()):
        return f"/v1{path}"
    return path


def codec_of(path: str, headers: Mapping[bytes, bytes]) -> Codec:
    """The client's protocol of a request that no route has seen."""
    path = normal_path(path)
    for codec in CODECS.values():
        endpoint = codec.endpoint
        versions = endpoint.version, *endpoint.versions
        if path.startswith(tuple(version + endpoint.path for version in versions)):
            return codec
    return implied_codec(headers)


def implied_codec(headers: Mapping[bytes, bytes]) -> Codec:
    """The protocol of a client on a path that implies none: by a header that only its clients send,
    else the first protocol there is."""
    first, *_ = codecs = CODECS.values()
    for codec in codecs:
        sign = codec.endpoint.sign
        if sign and sign in headers:
            return codec
    return first


def _versioned() -> tuple[str, ...]:
    """Paths that are also served without their `/v1`."""
    endpoints = [codec.endpoint for codec in CODECS.values() if codec.endpoint.version == "/v1"]
    return tuple({path for endpoint in endpoints for path in (endpoint.path, endpoint.models.path)})

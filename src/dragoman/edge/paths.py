"""Request paths: normalised for routes, and the client protocol that they imply."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec

_SLASHES = re.compile(r"/{2,}")
_VERSIONS = re.compile(r"^(?:/v1)+(?=/|$)")
_BEFORE_ANOTHER = re.compile(r"^/v1(?=/v\d+[a-z])")


def normal_path(path: str) -> str:
    """A path in the form of the routes: base URLs are configured with and without `/v1`, with a
    slash at their end, and with a `/v1` too many, also where the client adds another version.
    """
    if "//" in path:
        path = _SLASHES.sub("/", path)
    path = path.rstrip("/") or "/"
    if path.startswith("/v1/v"):
        path = _BEFORE_ANOTHER.sub("", _VERSIONS.sub("/v1", path))
    if not path.startswith("/v1") and path.startswith(_versioned()):
        return f"/v1{path}"
    return path


def codec_of(path: str, headers: Mapping[bytes, bytes]) -> Codec:
    """The client's protocol of a request that no route has seen."""
    path = normal_path(path)
    for codec in CODECS.values():
        endpoint = codec.endpoint
        if endpoint.read_path is not None:
            if endpoint.operation_of(path) is not None:
                return codec
        elif path.startswith(endpoint.version + endpoint.path):
            return codec
    return implied_codec(headers)


def implied_codec(headers: Mapping[bytes, bytes], query: bytes = b"") -> Codec:
    """The protocol of a client on a path that implies none: by a header that only its clients send,
    or a key in the query, else the first protocol there is."""
    first, *_ = codecs = CODECS.values()
    for codec in codecs:
        sign = codec.endpoint.sign
        if sign and sign in headers:
            return codec
    if query:
        names = {part.partition(b"=")[0].decode("latin-1") for part in query.split(b"&")}
        for codec in codecs:
            if codec.endpoint.key_parameter in names:
                return codec
    return first


def _versioned() -> tuple[str, ...]:
    """Paths that are also served without their `/v1`."""
    endpoints = [codec.endpoint for codec in CODECS.values() if codec.endpoint.version == "/v1"]
    return tuple({path for endpoint in endpoints for path in (endpoint.path, endpoint.models.path)})

"""Paths: as routes know them, and what they tell of the client's protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec

_SLASHES = re.compile(r"/{2,}")
_VERSIONS = re.compile(r"^(?:/v1)+(?=/|$)")


def normal_path(path: str) -> str:
    """A path as the routes know it: base URLs are configured with and without `/v1`, with a slash
    at their end, and with a `/v1` too many.
    """
    path = _VERSIONS.sub("/v1", _SLASHES.sub("/", path)).rstrip("/") or "/"
    if not path.startswith("/v1/") and path.startswith(_VERSIONED):
        return f"/v1{path}"
    return path


_VERSIONED = (*(codec.path for codec in CODECS.values()), "/models")


def codec_of(path: str, headers: Mapping[bytes, bytes]) -> Codec:
    """The client's protocol of a request that no route has seen."""
    path = normal_path(path)
    for codec in CODECS.values():
        if path.startswith(f"/v1{codec.path}"):
            return codec
    return CODECS[implied_protocol(headers)]


def implied_protocol(headers: Mapping[bytes, bytes]) -> str:
    """The protocol of a client on a path that tells none: Anthropic's SDKs always send their
    version."""
    if b"anthropic-version" in headers:
        return "anthropic_messages"
    return "openai_chat"

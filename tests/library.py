"""The library call for tests, which name protocols by variables."""

from __future__ import annotations

from typing import Any, cast

from dragoman.protocols import ProtocolName
from dragoman.translation import Call
from dragoman.translation import translate_request as translate


def translate_request(client: str, upstream: str, body: bytes, **settings: Any) -> Call:
    """As the library's."""
    return translate(cast(ProtocolName, client), cast(ProtocolName, upstream), body, **settings)

"""The library call for tests, which name protocols by variables."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dragoman.protocols import CODECS, ProtocolName
from dragoman.translation import Call
from dragoman.translation import translate_request as translate


def translate_request(client: str, upstream: str, body: bytes, **settings: Any) -> Call:
    """As the library's. For a protocol whose path names the model and asks for a stream, both may
    be members of `body`, as for the others."""
    if "path" not in settings:
        body, settings["path"] = with_path(client, body)
    return translate(cast(ProtocolName, client), cast(ProtocolName, upstream), body, **settings)


def with_path(client: str, body: bytes) -> tuple[bytes, str | None]:
    """The body without `model` and `stream`, and the path that says them; the body itself if it
    names no model, or if the protocol's path does not."""
    endpoint = CODECS[client].endpoint
    if endpoint.operation_for("m", stream=False) is None:
        return body, None
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        model = msgspec.json.decode(members.pop("model"), type=str)
        stream = msgspec.json.decode(members.pop("stream", b"false"), type=bool)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
        return body, None
    return msgspec.json.encode(members), endpoint.version + endpoint.path_for(model, stream)

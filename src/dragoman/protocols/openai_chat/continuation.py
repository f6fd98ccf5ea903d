"""Two answers as one stream: if the first breaks off while reasoning, the chunks of a second answer
continue it."""

from __future__ import annotations

from collections.abc import Callable

from dragoman import jsontext
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.sse import Decoder, encode

_OF_THE_ANSWER = ("id", "created", "model", "system_fingerprint")
"""Members with the same value in all chunks of an answer."""


def continuation(begun: bytes) -> Callable[[bytes], bytes]:
    """A function that rewrites the events of a second answer as the rest of the one that began with
    `begun`: its chunks get the first one's id and model, and no second role, which clients would
    append to the first."""
    first: JsonObject = next(
        (
            chunk
            for frame in Decoder().feed(begun)
            if (chunk := jsontext.object_of(frame.data)) is not None
        ),
        {},
    )
    same = {name: first[name] for name in _OF_THE_ANSWER if name in first}

    def rest(events: bytes) -> bytes:
        decoder = Decoder()
        written = []
        for frame in (*decoder.feed(events), *decoder.finish()):
            chunk = jsontext.object_of(frame.data)
            if chunk is None or "choices" not in chunk:
                written.append(frame.raw)
                continue
            chunk |= {name: value for name, value in same.items() if name in chunk}
            for choice in chunk["choices"] if isinstance(chunk["choices"], list) else ():
                delta = choice.get("delta") if isinstance(choice, dict) else None
                if isinstance(delta, dict):
                    delta.pop("role", None)
            written.append(encode(to_json(chunk)))
        return b"".join(written)

    return rest

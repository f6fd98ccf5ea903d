"""Upstream streams damaged from a seed: what odd servers, proxies and cut lines make of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.mutations import damage, encode, flip
from tools.differential.corpus import Translation

Frames = list[bytes]

CLIENTS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [{"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        ],
    },
    "anthropic_messages": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 50_000,
        "thinking": {"type": "adaptive"},
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
    "openai_responses": {
        "input": "hi",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    },
}


def request(client: str) -> dict[str, Any]:
    """A streamed request to which an answer may have anything: text, thinking, calls, usage."""
    return {"model": "m", "stream": True, **CLIENTS[client]}


def damaged_translations(
    streams: dict[str, list[bytes]], count: int, seed: int
) -> Iterator[Translation]:
    """Translations of `count` damaged streams, each of another cell than the one before."""
    cells = [(client, upstream) for upstream in streams for client in CLIENTS]
    for number in range(count):
        client, upstream = cells[number % len(cells)]
        rng = random.Random(f"{seed} {number}")
        stream = damaged(rng, rng.choice(streams[upstream]))
        body = json.dumps(request(client)).encode()
        settings = {"options": {"policy": "lenient"}}
        yield Translation(
            client=client, upstream=upstream, body=body, settings=settings, streams=[stream]
        )


def damaged(rng: random.Random, stream: bytes) -> bytes:
    """The stream with one to three things wrong or odd in it."""
    frames = [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]
    for _ in range(rng.randint(1, 3)):
        if frames:
            rng.choice(_DAMAGES)(rng, frames)
    data = b"".join(frames)
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data


def _drop(rng: random.Random, frames: Frames) -> None:
    del frames[rng.randrange(len(frames))]


def _cut(rng: random.Random, frames: Frames) -> None:
    del frames[rng.randrange(len(frames)) :]


def _repeat(rng: random.Random, frames: Frames) -> None:
    frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))


def _swap(rng: random.Random, frames: Frames) -> None:
    one, other = rng.randrange(len(frames)), rng.randrange(len(frames))
    frames[one], frames[other] = frames[other], frames[one]


def _shuffle(rng: random.Random, frames: Frames) -> None:
    first = rng.randrange(len(frames))
    some = frames[first : first + rng.randint(2, 6)]
    rng.shuffle(some)
    frames[first : first + len(some)] = some


def _mutate(rng: random.Random, frames: Frames) -> None:
    """Something wrong in the JSON of one frame."""

    def changed(data: bytes) -> bytes:
        try:
            document = json.loads(data)
        except ValueError:
            return data
        is_holder = isinstance(document, dict | list)
        written = encode(rng, damage(rng, document, most=2)) if is_holder else data
        return written.replace(b"\n", b"")

    _rewrite(rng, frames, changed)


def _flip(rng: random.Random, frames: Frames) -> None:
    at = rng.randrange(len(frames))
    frames[at] = flip(rng, frames[at])


def _respace(rng: random.Random, frames: Frames) -> None:
    """The same JSON with other white space."""
    indent, separators = rng.choice(((None, (",", ":")), (None, (" , ", " : ")), (2, (",", ": "))))

    def changed(data: bytes) -> bytes:
        try:
            text = json.dumps(json.loads(data), indent=indent, separators=separators)
        except ValueError:
            return data
        return text.replace("\n", "\ndata: ").encode("utf-8", "surrogatepass")

    for at in range(len(frames)):
        _rewrite(rng, frames, changed, at)


def _lines(rng: random.Random, frames: Frames) -> None:
    """Other line ends, or no blank behind the colon, in all frames."""
    old, new = rng.choice(((b"\n", b"\r\n"), (b"\n", b"\r"), (b": ", b":"), (b"\n\n", b"\n\n\n")))
    frames[:] = [frame.replace(old, new) for frame in frames]


def _unnamed(rng: random.Random, frames: Frames) -> None:
    """Events without their names."""
    frames[:] = [frame[frame.find(b"data:") :] for frame in frames if b"data:" in frame]


def _insert(rng: random.Random, frames: Frames) -> None:
    """A frame that no protocol has."""
    frames.insert(rng.randrange(len(frames) + 1), rng.choice(_STRANGE))


def _rewrite(
    rng: random.Random, frames: Frames, change: Callable[[bytes], bytes], at: int | None = None
) -> None:
    where = rng.randrange(len(frames)) if at is None else at
    head, mark, data = frames[where].partition(b"data: ")
    if mark and data.endswith(b"\n\n"):
        frames[where] = head + mark + change(data[:-2]) + b"\n\n"


_STRANGE = (
    b": comment\n\n",
    b"id: 7\nretry: 10\n\n",
    b"event: unknown\ndata: {}\n\n",
    b'event: response.unknown\ndata: {"type":"response.unknown","x":1}\n\n',
    b'data: {"type":"unknown_block","index":9}\n\n',
    b"data:\n\n",
    b"data: null\n\n",
    b"data: [DONE]\n\n",
    b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"busy"}}\n\n',
    b'data: {"error":{"message":"busy","type":"server_error","code":null}}\n\n',
    b'event: ping\ndata: {"type":"ping"}\n\n',
    b"\xef\xbb\xbf",
)

_DAMAGES = (
    _drop,
    _cut,
    _repeat,
    _swap,
    _shuffle,
    _mutate,
    _mutate,
    _mutate,
    _flip,
    _respace,
    _lines,
    _unnamed,
    _insert,
)

"""Server-sent events: writing a frame, cutting texts into deltas, and odd but legal framings."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import msgspec

from dragoman.lab.simulator.script import Pace

DONE = b"data: [DONE]\n\n"
_WORD = re.compile(r"\S*\s*|\s+")
_CACHED_LENGTH = 65_536
_FIELD = re.compile(rb"^(event|data): ", re.MULTILINE)


def data_frame(data: bytes) -> bytes:
    """One event without a name (Chat)."""
    return b"data: " + data + b"\n\n"


def crlf_frame(data: bytes) -> bytes:
    """One event without a name, as Google ends its lines."""
    return b"data: " + data + b"\r\n\r\n"


def named_frame(name: str, data: bytes) -> bytes:
    """One event with its name (Messages and Responses)."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def json_text(text: str, escape: bool) -> bytes:
    """The text as a JSON string; ``escape`` leaves no byte above 127."""
    return json.dumps(text).encode() if escape else msgspec.json.encode(text)


def split_text(text: str, pace: Pace) -> tuple[str, ...]:
    """The deltas of a text: ``pace.chunks`` of them, or of ``pace.size`` characters, or words."""
    if len(text) > _CACHED_LENGTH:
        return _split(text, pace.chunks, pace.size)
    return _split_cached(text, pace.chunks, pace.size)


def encoded_deltas(text: str, pace: Pace) -> tuple[bytes, ...]:
    """The deltas of a text as JSON strings."""
    if len(text) > _CACHED_LENGTH:
        return tuple(json_text(piece, pace.escape) for piece in split_text(text, pace))
    return _encoded_cached(text, pace.chunks, pace.size, pace.escape)


def _split(text: str, chunks: int, size: int) -> tuple[str, ...]:
    if not text:
        return ()
    if chunks > 0:
        length, longer = divmod(len(text), chunks)
        ends, start = [], 0
        for number in range(min(chunks, len(text))):
            end = start + length + (number < longer)
            ends.append(text[start:end])
            start = end
        return tuple(ends)
    if size > 0:
        return tuple(text[start : start + size] for start in range(0, len(text), size))
    return tuple(word for word in _WORD.findall(text) if word)


@lru_cache(maxsize=256)
def _split_cached(text: str, chunks: int, size: int) -> tuple[str, ...]:
    return _split(text, chunks, size)


@lru_cache(maxsize=256)
def _encoded_cached(text: str, chunks: int, size: int, escape: bool) -> tuple[bytes, ...]:
    return tuple(json_text(piece, escape) for piece in _split(text, chunks, size))


Framing = Callable[[Iterable[bytes]], Iterator[bytes]]


def _crlf(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (frame.replace(b"\r", b"").replace(b"\n", b"\r\n") for frame in frames)


def _cr(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (frame.replace(b"\r", b"").replace(b"\n", b"\r") for frame in frames)


def _no_space(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (_FIELD.sub(rb"\1:", frame) for frame in frames)


def _multiline(frames: Iterable[bytes]) -> Iterator[bytes]:
    # A line break after the opening brace is white space in JSON, so the data stays the same.
    return (frame.replace(b"data: {", b"data: {\ndata: ", 1) for frame in frames)


def _comments(frames: Iterable[bytes]) -> Iterator[bytes]:
    for frame in frames:
        yield b": keepalive\n\n"
        yield frame


def _unknown_fields(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (b"x-trace: 1\n" + frame for frame in frames)


def _ids(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (b"id: %d\n" % number + frame for number, frame in enumerate(frames))


def _retry(frames: Iterable[bytes]) -> Iterator[bytes]:
    yield b"retry: 3000\n\n"
    yield from frames


def _byte_order_mark(frames: Iterable[bytes]) -> Iterator[bytes]:
    yield b"\xef\xbb\xbf"
    yield from frames


def _pings(frames: Iterable[bytes]) -> Iterator[bytes]:
    for number, frame in enumerate(frames):
        if number:
            yield b'event: ping\ndata: {"type":"ping"}\n\n'
        yield frame


def _event_lines(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (b"event: message\n" + frame for frame in frames)


def _padded_done(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (b"data: [DONE]  \n\n" if frame == DONE else frame for frame in frames)


def _no_done(frames: Iterable[bytes]) -> Iterator[bytes]:
    return (frame for frame in frames if frame != DONE)


def _extra_done(frames: Iterable[bytes]) -> Iterator[bytes]:
    yield from frames
    yield DONE


def _no_final_blank(frames: Iterable[bytes]) -> Iterator[bytes]:
    previous = b""
    for frame in frames:
        if previous:
            yield previous
        previous = frame
    yield previous.rstrip(b"\r\n") + (b"\r\n" if previous.endswith(b"\r\n") else b"\n")


FRAMINGS: dict[str, Framing] = {
    "comments": _comments,
    "pings": _pings,
    "multiline": _multiline,
    "no_space": _no_space,
    "unknown_fields": _unknown_fields,
    "ids": _ids,
    "retry": _retry,
    "event_lines": _event_lines,
    "padded_done": _padded_done,
    "no_done": _no_done,
    "extra_done": _extra_done,
    "crlf": _crlf,
    "cr": _cr,
    "no_final_blank": _no_final_blank,
    "bom": _byte_order_mark,
}
"""Quirks of the framing alone, in the order in which they are applied."""

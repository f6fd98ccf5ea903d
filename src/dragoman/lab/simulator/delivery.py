"""Sending an answer: what is written when, where it breaks, and how it is cut."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from dragoman.http.head import header_lines
from dragoman.lab.simulator.connection import Connection, Served
from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.script import Fault, Pace

Headers = list[tuple[str, str]]

_WRITES_PER_TURN = 64
_SLOW_HEAD_PIECES = 20


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is written for so many milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class Break:
    """The answer ends here, early: the body's clean end, a closed or a reset connection."""

    how: Literal["end", "close", "reset"]


Action = bytes | Wait | Break

_BREAKS: dict[str, Break] = {
    "truncate": Break("end"),
    "close": Break("close"),
    "reset": Break("reset"),
}


def stream_actions(
    frames: Iterator[bytes],
    pace: Pace,
    fault: Fault | None,
    quirks: frozenset[str],
    error_frames: Callable[[int], tuple[bytes, ...]],
) -> Iterator[Action]:
    """The actions of a stream. ``error_frames`` renders an error after so many frames."""
    kind = None if fault is None else fault.kind
    if fault is not None and kind in _BREAKS:
        frames = islice(frames, fault.after)
    elif fault is not None and kind == "error_in_stream":
        frames = _with_error(frames, fault.after, error_frames)
    for name, framing in FRAMINGS.items():
        if name in quirks:
            frames = framing(frames)
    actions = _timed(frames, pace, fault if kind == "silence" else None)
    if kind in _BREAKS:
        actions = _then(actions, _BREAKS[kind])
    return recut(actions, pace.cut) if pace.cut else actions


def full_actions(body: bytes, pace: Pace, fault: Fault | None) -> Iterator[Action]:
    """The actions of a full body: a fault of a stream occurs in its middle."""
    actions: list[Action] = [Wait(pace.first_ms)] if pace.first_ms else []
    half = len(body) // 2
    if fault is not None and fault.kind in ("truncate", "close", "reset"):
        actions += [body[:half], Break("reset" if fault.kind == "reset" else "close")]
    elif fault is not None and fault.kind == "silence":
        actions += [body[:half], Wait(fault.ms), body[half:]]
    else:
        actions.append(body)
    return recut(actions, pace.cut) if pace.cut else iter(actions)


def _with_error(
    frames: Iterator[bytes], after: int, error_frames: Callable[[int], tuple[bytes, ...]]
) -> Iterator[bytes]:
    """The frames up to the error; a stream that ends before it has none."""
    for sent, frame in enumerate(frames):
        if sent == after:
            yield from error_frames(sent)
            return
        yield frame


def _timed(frames: Iterable[bytes], pace: Pace, silence: Fault | None) -> Iterator[Action]:
    if pace.first_ms:
        yield Wait(pace.first_ms)
    between = Wait(pace.delay_ms) if pace.delay_ms else None
    for number, frame in enumerate(frames):
        if silence is not None and number == silence.after:
            yield Wait(silence.ms)
        elif between is not None and number:
            yield between
        yield frame


def _then(actions: Iterator[Action], last: Action) -> Iterator[Action]:
    yield from actions
    yield last


def recut(actions: Iterable[Action], size: int) -> Iterator[Action]:
    """The same bytes in pieces of ``size``, cut wherever that falls."""
    buffered = b""
    for action in actions:
        if isinstance(action, bytes):
            buffered += action
            cut = len(buffered) - len(buffered) % size
            yield from (buffered[at : at + size] for at in range(0, cut, size))
            buffered = buffered[cut:]
            continue
        if isinstance(action, Break) and buffered:
            yield buffered
            buffered = b""
        yield action
    if buffered:
        yield buffered


class Reply:
    """Writes one answer and updates its record."""

    def __init__(self, request: Served, connection: Connection, record: RecordedRequest) -> None:
        self._request = request
        self._connection = connection
        self._record = record
        self._raw = False

    async def head(self, status: int, headers: Headers) -> None:
        """The status line and the headers."""
        self._record.status = status
        length = next((int(value) for name, value in headers if name == "content-length"), None)
        others = [header for header in headers if header[0] != "content-length"]
        self._request.start(status, _lines(others), length)
        # Not with the first piece, before which a fault may strike.
        await self._request.write(b"")

    async def slow_head(self, status: int, headers: Headers, ms: int) -> None:
        """The head in small pieces over so many milliseconds; the connection closes after."""
        self._record.status = status
        self._raw = True
        lines = [f"HTTP/1.1 {status} Simulated", *(f"{name}: {value}" for name, value in headers)]
        head = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
        size = -(-len(head) // _SLOW_HEAD_PIECES)
        for at in range(0, len(head), size):
            if not await self._connection.pause(ms / 1000 / _SLOW_HEAD_PIECES):
                return
            self._connection.write(head[at : at + size])

    async def body(self, actions: Iterable[Action], *, eager: bool = False) -> None:
        """Carry out the actions. ``eager`` lets the loop run after each write."""
        for action in actions:
            if isinstance(action, bytes):
                await self._write(action)
                if eager or self._record.writes % _WRITES_PER_TURN == 0:
                    await asyncio.sleep(0)
                is_open = not self._connection.lost
            elif isinstance(action, Wait):
                is_open = await self._connection.pause(action.ms / 1000)
            else:
                await self._break(action)
                return
            if not is_open:
                self._record.disconnected = True
                return
        await self._end()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """A head with its length, and the body at once."""
        self._record.status = status
        self._record.writes = 1
        self._record.bytes_sent = len(body)
        self._request.respond(status, _lines(headers), body)
        self._record.disconnected = self._connection.lost
        self._record.finished = not self._connection.lost

    async def _write(self, data: bytes) -> None:
        if self._raw:
            self._connection.write(data)
        else:
            await self._request.write(data)
        self._record.writes += 1
        self._record.bytes_sent += len(data)

    async def _end(self) -> None:
        if self._raw:
            await self._connection.close()
        else:
            self._request.end()
        self._record.finished = True

    async def _break(self, action: Break) -> None:
        if action.how == "reset":
            await self._connection.reset()
        elif action.how == "close" or self._raw:
            await self._connection.close()
        else:
            self._request.end()


def _lines(headers: Headers) -> bytes:
    return header_lines(
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    )

"""A lean load client: raw sockets, counts bytes and events, parses as little as it can."""

import asyncio
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"connection: *close|HTTP/1\.0 ", re.IGNORECASE)
_CHUNKED = re.compile(rb"transfer-encoding: *chunked", re.IGNORECASE)
_CARRY = 32


class LoadError(Exception):
    """The answer was not what the load expected; the message has the start of the answer."""


def render(
    host: str, path: str, body: bytes, key: str, more: Iterable[tuple[str, str]] = ()
) -> bytes:
    """The bytes of one POST request; ``more`` are further headers."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {key}\r\nanthropic-version: 2023-06-01\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in more)
        + f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(slots=True)
class Answer:
    """What came back for one request. Times are seconds from sending the request."""

    status: int = 0
    size: int = 0
    marks: int = 0
    first_mark: float = 0.0
    total: float = 0.0
    start_of_body: bytes = field(default=b"", repr=False)
    end_of_body: bytes = field(default=b"", repr=False)


class Connection(asyncio.Protocol):
    """A keep-alive connection that has one request under way at a time.

    ``mark`` is the text that is counted in the answer's body: an event's text. ``closes`` tells
    whether the answer was the last on this connection.
    """

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.answer = Answer()
        self.done: asyncio.Future[Answer] | None = None
        self.until_closed = False
        self.closes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.port: int = transport.get_extra_info("peername")[1]

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done is not None and not self.done.done():
            if self.until_closed and exc is None:
                self._finish()
                return
            start = self.answer.start_of_body
            self.done.set_exception(LoadError(f"connection lost after {start!r}: {exc}"))

    def send(self, request: bytes) -> "asyncio.Future[Answer]":
        """Send a request; the future is done when its answer is complete."""
        self.answer = Answer()
        self.head = b""
        self.in_body = False
        self.missing = -1
        self.carry = b""
        self.done = asyncio.get_running_loop().create_future()
        self.sent_at = perf_counter()
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if not self.in_body:
            data = self.head + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.head = data
                return
            head = data[:end]
            self.in_body = True
            answer.status = int(head[9:12])
            length = _LENGTH.search(head)
            self.missing = int(length[1]) if length else -1
            self.closes = _CLOSES.search(head) is not None
            self.until_closed = length is None and _CHUNKED.search(head) is None
            data = data[end + 4 :]
            answer.start_of_body = data[:400]
        answer.size += len(data)
        seen = self.carry + data
        marks = seen.count(self.mark)
        if marks:
            if not answer.marks:
                answer.first_mark = perf_counter() - self.sent_at
            answer.marks += marks
            # What was counted must not be counted again from the carry.
            seen = seen[seen.rfind(self.mark) + len(self.mark) :]
        self.carry = seen[-_CARRY:]
        if self.missing >= 0:
            finished = answer.size >= self.missing
        else:
            # Every frame ends with LF LF inside its chunk, so this is the last chunk and no text.
            answer.end_of_body = (answer.end_of_body + data)[-_CARRY:]
            finished = not self.until_closed and answer.end_of_body.endswith(b"0\r\n\r\n")
        if finished:
            self._finish()

    def _finish(self) -> None:
        if self.done is not None and not self.done.done():
            self.answer.total = perf_counter() - self.sent_at
            self.done.set_result(self.answer)


async def connect(port: int, count: int, mark: bytes = b"data:") -> list[Connection]:
    """Open ``count`` connections to a port of this machine."""
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(count):
        _, connection = await loop.create_connection(lambda: Connection(mark), "127.0.0.1", port)
        connections.append(connection)
    return connections


def close(connections: Sequence[Connection]) -> None:
    """Close connections at once."""
    for connection in connections:
        connection.transport.abort()


def checked(answer: Answer, marks: int = 0, status: int = 200) -> Answer:
    """The answer itself, if it has this status and at least ``marks`` events.

    :raises LoadError: otherwise; a benchmark of failures would be worth nothing.
    """
    if answer.status != status or answer.marks < marks:
        raise LoadError(
            f"status {answer.status}, {answer.marks} of {marks} events: {answer.start_of_body!r}"
        )
    return answer


async def repeat(
    connections: list[Connection], request: bytes, count: int, status: int = 200
) -> list[Answer]:
    """Send ``count`` requests in all, each connection one after the other."""
    return await send_all(connections, itertools.repeat(request, count), status)


async def send_all(
    connections: list[Connection], requests: Iterable[bytes], status: int = 200
) -> list[Answer]:
    """Send these requests, each on the first connection that is free; all are to have ``status``.

    A connection that an answer was the last of is replaced in the list.
    """
    left = iter(requests)

    async def one(place: int) -> list[Answer]:
        answers = []
        for request in left:
            link = connections[place]
            if link.closes:
                link.transport.abort()
                [link] = connections[place : place + 1] = await connect(link.port, 1, link.mark)
            answers.append(checked(await link.send(request), status=status))
        return answers

    parts = await asyncio.gather(*(one(place) for place in range(len(connections))))
    return [answer for part in parts for answer in part]

"""The requests that the simulator has received."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dragoman.lab.simulator.accounts import masked
from dragoman.lab.simulator.view import JsonObject

_SECRET_HEADERS = (
    *("authorization", "x-api-key", "api-key", "x-goog-api-key"),
    *("cookie", "proxy-authorization"),
)


@dataclass(slots=True)
class RecordedRequest:
    """One request, and how its answer went.

    ``status`` is 0 until a head was sent. ``bytes_sent`` counts the body as it was handed to the
    socket's buffer. ``finished`` is true once the whole answer was written, ``disconnected`` if
    the client left before it.
    """

    number: int
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    key: str = ""
    model: str = ""
    scenario: str = ""
    stream: bool = False
    status: int = 0
    writes: int = 0
    bytes_sent: int = 0
    finished: bool = False
    disconnected: bool = False
    _json: Any = field(default=None, repr=False)

    def header(self, name: str) -> str | None:
        """The first header of that lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        """The decoded body.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        if self._json is None:
            self._json = msgspec.json.decode(self.body)
        return self._json

    def shown(self) -> JsonObject:
        """The record for people and other processes; secrets are masked."""
        try:
            body = self.json if self.body else None
        except msgspec.DecodeError:
            body = self.body.decode(errors="replace")
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": [[name, _shown_header(name, value)] for name, value in self.headers],
            "body": body,
            "key": masked(self.key),
            "model": self.model,
            "scenario": self.scenario,
            "stream": self.stream,
            "status": self.status,
            "writes": self.writes,
            "bytes_sent": self.bytes_sent,
            "finished": self.finished,
            "disconnected": self.disconnected,
        }


def _shown_header(name: str, value: str) -> str:
    if name not in _SECRET_HEADERS:
        return value
    scheme, space, rest = value.rpartition(" ")
    return scheme + space + masked(rest)


class Recorder:
    """The last requests, bounded in number and in the bytes of their bodies."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: deque[RecordedRequest] = deque()

    def add(self, record: RecordedRequest) -> None:
        """Record a request whose body has arrived; the oldest are dropped beyond the bounds."""
        if self._most <= 0:
            return
        self._records.append(record)
        self._bytes += len(record.body)
        while len(self._records) > self._most or (
            self._bytes > self._most_bytes and len(self._records) > 1
        ):
            self._bytes -= len(self._records.popleft().body)

    def clear(self) -> None:
        self._records.clear()
        self._bytes = 0

    def __iter__(self) -> Iterator[RecordedRequest]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

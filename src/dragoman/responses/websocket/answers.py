"""The answer to a request of a WebSocket, as frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.edge.continuation import Continuation
from dragoman.edge.incoming import InternalRequest
from dragoman.http import Budget
from dragoman.http.websocket import text_frame
from dragoman.protocols.openai_responses.additions import (
    ANSWERS,
    CREATED,
    ENDS,
    Addition,
    Additions,
)
from dragoman.protocols.openai_responses.conversations import unstored_items
from dragoman.protocols.openai_responses.websocket import (
    NO_END,
    answer_in,
    error_answer,
    error_event,
    error_of_stream,
    finished_item,
    in_progress,
    numbered,
    response_id_in,
    sequence_number,
    tagged,
    with_headers,
)
from dragoman.sse import DONE, Decoder

_HEADERS_OF_ERROR = (
    b"retry-after",
    b"x-request-id",
    b"x-should-retry",
    b"x-codex-",
    b"x-ratelimit-",
    b"x-dragoman-",
)
"""Prefixes of the headers that clients are sent in events; an answer of HTTP would have them."""
_HEADERS_OF_ANSWER = b"x-dragoman-"
_UNAUTHENTICATED = 401
_RESPONSE_FAILED = b"response.failed"

_HANDLED = frozenset({b"error", CREATED, b"response.output_item.done"}) | ENDS | ANSWERS
_MAX_UNANSWERED = 16
"""Additions to a response that the upstream has not answered yet."""
_KEEPALIVE = b'{"type":"keepalive"}'
"""Sent while there is no response yet, to clients that wait for messages and ignore those of an
unknown type."""


class Client(Struct, frozen=True):
    """Whose connection it is: the `name` of the key, and the `path`, `headers` and `address` of the
    requests that are made for it. It
    `wants_keepalives`: it waits for messages, also before there is a response."""

    name: str
    path: str
    headers: dict[bytes, bytes]
    address: str
    wants_keepalives: bool


class Socket(Protocol):
    """The connection, as far as answers use it."""

    @property
    def client(self) -> Client:
        """Whose it is."""

    @property
    def is_paused(self) -> bool:
        """Whether the client reads too slowly for more to be sent."""

    @property
    def ends_with_answer(self) -> bool:
        """Whether the connection ends with the current answer."""

    @property
    def budget(self) -> Budget:
        """The memory for bodies and answers."""

    def send(self, frames: bytes) -> None:
        """Send frames."""

    async def drained(self) -> None:
        """Wait until the client has read enough."""


class SocketRequest(InternalRequest):
    """A `response.create`, whose answer is sent as frames.

    Events go out as they are, each in a frame, as soon as they are written. After the terminal
    event nothing follows, except for the response that continues it where input was added to it; an
    answer that ends without one gets an error. `over` says that there was one; `unauthenticated`
    that the client's key is no longer valid. `release` gives `reserved` bytes back to the memory
    budget. `unsent` is the terminal event where the connection ends with it: it is sent with the
    close frame, so that the client sends nothing in between.
    """

    __slots__ = (
        "_added",
        "_created",
        "_decoder",
        "_error",
        "_headers",
        "_is_between",
        "_items",
        "_last",
        "_responses",
        "_shift",
        "_socket",
        "continuation",
        "ended_id",
        "over",
        "reserved",
        "stream_id",
        "unauthenticated",
        "unsent",
    )

    def __init__(
        self,
        socket: Socket,
        stream_id: str,
        body: bytes,
        continuation: Continuation,
        reserved: int = 0,
    ) -> None:
        """
        Args:
            socket: the connection.
            stream_id: of the request; empty if it has none.
            body: of the request.
            continuation: what the request continues.
            reserved: bytes of the memory budget for its message.
        """
        client = socket.client
        super().__init__(client.path, client.headers, body, client.address)
        self._socket = socket
        self.stream_id = stream_id
        self.continuation = continuation
        self.reserved = reserved
        self.over = False
        self.unauthenticated = False
        self.unsent = b""
        self._decoder = Decoder()
        self._is_between = True
        """Whether no event is incomplete."""
        self._headers: Mapping[str, str] = {}
        self._created = b""
        """The `response.created` event."""
        self._last = b""
        """The last event that was sent."""
        self._shift = 0
        """How many events were sent in addition to those of the stream."""
        self._error = b""
        """An `error` event of the stream, which has no such form here."""
        self._items: list[tuple[int, bytes]] = []
        self._added: Additions | None = None
        """What was added to the running response."""
        self._responses = 0
        """How many responses were created."""
        self.ended_id = ""
        """The id of the response that ended last."""

    # The request

    def reserve(self, size: int) -> bool:
        """Reserve so much of the memory budget."""
        if not self._socket.budget.reserve(size):
            return False
        self.reserved += size
        return True

    def release(self) -> None:
        """Give back what is reserved of the memory budget."""
        self._socket.budget.release(self.reserved)
        self.reserved = 0

    def leave(self) -> None:
        """The client has left."""
        self.continuation.pieces = None  # the rest of the answer is not remembered
        super().leave()

    async def add(self, addition: Addition) -> tuple[str, str]:
        """Add input to the running response. Returns why that is not possible, as code and message,
        both empty if it was sent."""
        add, added = self.continuation.add, self._added or Additions()
        if add is None:
            return "steering_not_supported", "This response takes no input while it is made."
        if not addition.items:
            return "invalid_input", "input: must be a text, or a list of items"
        size = len(bytes(addition.input))
        if len(added.unanswered) >= _MAX_UNANSWERED or not self.reserve(size):
            return "too_many_pending_steers", "Too much input waits for this response."
        refusal = "too_many_pending_steers", "Other input is still on its way."
        message = await self.continuation.admit()
        added = self._added or Additions()
        if message:
            refusal = "rate_limit_exceeded", message
        if message or not add(replace(addition, place=self._responses - 1)):
            self.reserved -= size
            self._socket.budget.release(size)
            return refusal
        added.sent(addition)
        self._added = added
        return "", ""

    # The answer

    @property
    def response_id(self) -> str:
        """Of the response that is being made, empty if there is none."""
        return response_id_in(self._created) if self._created else ""

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Send a whole answer: an error."""
        self.unauthenticated = status == _UNAUTHENTICATED
        self._fail(
            error_answer(status, body, _headers_in(lines, _HEADERS_OF_ERROR), self.stream_id)
        )

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Begin an answer."""
        if lines.startswith(_HEADERS_OF_ANSWER) or b"\n" + _HEADERS_OF_ANSWER in lines:
            self._headers = _headers_in(lines, (_HEADERS_OF_ANSWER,))

    def try_write(self, data: bytes) -> bool:
        """Send events, if that takes no waiting."""
        if self._socket.is_paused:
            return False
        self._pass(data)
        return True

    async def write(self, data: bytes) -> None:
        """Send events; waits while the client reads too slowly."""
        self._pass(data)
        if self._socket.is_paused:
            await self._socket.drained()

    def end(self, data: bytes = b"") -> None:
        """Send the last events."""
        self._pass(data)
        self.finish()

    def finish(self) -> None:
        """Send an error if there was no terminal event."""
        if self.over:
            return
        stream_id = self.stream_id
        if self._error:
            self._fail(error_of_stream(self._error, stream_id))
        else:
            self._fail(error_event(NO_END, stream_id))

    def _fail(self, event: bytes) -> None:
        if not self.over:
            self.over = True
            self.continuation.failed()
            self._send(self._returned() + text_frame(event))

    def _send(self, frames: bytes) -> None:
        if self.over and self._socket.ends_with_answer:
            self.unsent += frames
        else:
            self._socket.send(frames)

    def _returned(self) -> bytes:
        """Frames that return what was added and not committed."""
        if self._added is None:
            return b""
        events = [tagged(event, self.stream_id) for event in self._added.returned]
        return b"".join(map(text_frame, events))

    def _pass(self, data: bytes) -> None:
        if not data:
            return
        if self._is_between and data.startswith(b":"):
            self._send_keepalive()
        self._is_between = data.endswith(b"\n\n")
        frames = b"".join([self._framed(one.event, one.data) for one in self._decoder.feed(data)])
        if frames:
            self._send(frames)

    def _send_keepalive(self) -> None:
        """Send the client an event without effect, as the upstream is silent."""
        if self.over:
            return
        if self._created:
            number = sequence_number(self._last) + 1
            self._shift += 1
            event = tagged(in_progress(self._created, number), self.stream_id)
        elif self._socket.client.wants_keepalives:
            event = _KEEPALIVE
        else:
            return
        self._last = event
        self._socket.send(text_frame(event))

    def _framed(self, name: bytes, data: bytes) -> bytes:
        """An event in its frame; nothing if it is not to be sent."""
        if self.over or data == DONE:
            return b""
        if name in _HANDLED:
            data = self._handle_event(name, data)
            if not data:
                return b""
        if self._shift and (number := sequence_number(data)) >= 0:
            data = numbered(data, number + self._shift)
        if self.stream_id:
            data = tagged(data, self.stream_id)
        self._last = data
        return text_frame(data)

    def _handle_event(self, name: bytes, data: bytes) -> bytes:
        """What is sent for an event that changes the state of the answer."""
        if name == b"error":
            self._error = data
            return b""
        if name == b"response.output_item.done":
            if self.continuation.pieces is not None:
                self._items.append(finished_item(data))
        elif name in ANSWERS:
            self._handle_addition(name, data)
        elif name == CREATED:
            if self._added is not None:
                self._added.take(name, data)
                self._commit(self._added)
                self._shift = 0
            self._created = data
            self._responses += 1
            if self._headers:
                data = with_headers(data, self._headers)
        else:
            self._ended(name, data)
        return data

    def _ended(self, name: bytes, data: bytes) -> None:
        self.over = name == _RESPONSE_FAILED or self._added is None or self._added.take(name, data)
        self._created = b""
        self.ended_id = response_id_in(data)
        if name == _RESPONSE_FAILED:
            self._socket.send(self._returned())
            self.continuation.failed()
        elif self.continuation.pieces is not None:
            _, output = answer_in(data, self._items)
            self._items.clear()
            if self.continuation.unstored:
                output = bytes(unstored_items(Raw(b"[%b]" % output)))[1:-1]
            if self.over:
                self.continuation.answered(self.ended_id, output)
            else:
                self.continuation.go_on(output)

    def _handle_addition(self, name: bytes, data: bytes) -> None:
        """Handle an event about additions."""
        added = self._added
        if added is None:
            return
        self.over = added.take(name, data)
        if added.committed:
            # It stands where it came.
            place = self._items[-1][0] if self._items else -1
            self._items += [(place, one.items) for one in added.committed]
        if self.over:
            pending = b",".join([one.items for one in added.pending])
            self.continuation.answered(self.ended_id, pending)

    def _commit(self, added: Additions) -> None:
        """Add committed input to the conversation."""
        for one in added.committed:
            self.continuation.go_on(one.items)


def _headers_in(lines: bytes, names: tuple[bytes, ...]) -> dict[str, str]:
    """The headers in these lines whose names begin so."""
    message = {}
    for line in lines.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower().startswith(names):
            message[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
    return message

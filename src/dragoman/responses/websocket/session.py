"""One WebSocket connection of a client: its requests in flight, and its age."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial
from typing import Protocol

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.edge.continuation import ConnectionMemory, Continuation
from dragoman.edge.errors import fault_of
from dragoman.http import Budget
from dragoman.http.clock import Clock
from dragoman.http.websocket import Accepted, CloseCode, WebSocket, text_frame
from dragoman.protocols.openai_responses.additions import Addition
from dragoman.protocols.openai_responses.websocket import (
    CONNECTION_LIMIT,
    MOST_ACTIVE,
    MOST_STREAM_IDS,
    QUEUE_FULL,
    STREAM_LIMIT,
    BadEvent,
    Create,
    error_event,
    read_event,
    tagged,
)
from dragoman.responses.websocket.answers import Client, SocketRequest
from dragoman.responses.websocket.messages import Event
from dragoman.serving.large import is_large

_log = logging.getLogger("dragoman.gateway")

_MOST_WAITING = 64
"""Requests that wait on one connection."""
_MAX_UNREAD = 100
"""Errors that may wait for a client that does not read."""
_QUIET_S = 1.0
"""Seconds without a request before a connection is closed for its age: a request that crosses the
close frame is lost, and not all clients send it again."""
_JITTER = 0.1
"""Share of its age by which a connection may end earlier, so that not all do at once."""
_LEAVING = "going away"
"""Codex shows a reason of a few words only."""

_REFUSALS: dict[int, Fault] = {
    CloseCode.MESSAGE_TOO_BIG: Fault(
        FaultKind.TOO_LARGE, "The message is too large for this gateway."
    ),
    CloseCode.UNSUPPORTED_DATA: Fault(FaultKind.INVALID_REQUEST, "Messages must be JSON text."),
}
_BROKEN = Fault(FaultKind.INVALID_REQUEST, "What was sent is no WebSocket message.")


class Terms(Struct, frozen=True, kw_only=True):
    """Limits of each connection: its age and its time without a request in seconds (0 for no
    limit), and the bytes of the responses that it remembers."""

    age_s: float
    idle_s: float
    memory_bytes: int


class Service(Protocol):
    """What serves the connections of a worker."""

    async def answer(self, request: SocketRequest) -> None:
        """Answer a request, whatever happens."""

    async def read_large(self, message: bytes) -> Event:
        """Read a large message.

        Raises:
            DragomanError: it is no event, or too large.
        """

    def remove(self, session: Session) -> None:
        """The connection is over."""


class _Waiting(Struct, frozen=True):
    """A request that waits."""

    create: Create
    continuation: Continuation
    reserved: int


class Session(WebSocket):
    """One connection. Requests with the same `stream_id` are served one after another, others at
    the same time, up to a number; further ones wait."""

    __slots__ = (
        "_active",
        "_ended",
        "_memory",
        "_refusals",
        "_retiring",
        "_service",
        "_stream_ids",
        "_tasks",
        "_terms",
        "_until",
        "_used",
        "_waiting",
        "client",
    )

    def __init__(
        self,
        accepted: Accepted,
        terms: Terms,
        clock: Clock,
        budget: Budget,
        client: Client,
        service: Service,
    ) -> None:
        """
        Args:
            accepted: the outcome of the handshake.
            terms: limits of the connection.
            clock: of the loop.
            budget: memory for messages and responses.
            client: whose connection it is.
            service: answers its requests.
        """
        super().__init__(accepted, clock, budget)
        self._terms = terms
        self.client = client
        self._service = service
        now = clock.loop.time()
        age_s = terms.age_s * (1.0 - _JITTER * random.random())
        self._until = now + age_s if age_s else 0.0
        self._used = now
        self._memory = ConnectionMemory(budget, terms.memory_bytes)
        self._stream_ids = {""}
        """Those that were used, and that of requests without one."""
        self._active: dict[str, SocketRequest] = {}
        """Running answers, by `stream_id`."""
        self._ended: dict[str, str] = {}
        """The id of the last response of each `stream_id`."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: list[_Waiting] = []
        self._retiring = False
        self._refusals = 0

    # What the client sends

    def on_message(self, data: bytes) -> asyncio.Future[None] | None:
        """Handle an event."""
        self._used = self.clock.loop.time()
        reserved = self.take_reserved()
        if is_large(data):
            return self.clock.loop.create_task(self._read_large(data, reserved))
        try:
            event = read_event(data)
        except BadEvent as bad:
            event = None
            self._refuse(bad.fault, bad.stream_id)
        self._handle(event, reserved)
        return None

    async def _read_large(self, data: bytes, reserved: int) -> None:
        event = None
        try:
            event = await self._service.read_large(data)
        except DragomanError as error:
            self._refuse(error.fault, error.stream_id if isinstance(error, BadEvent) else "")
        except Exception as error:
            self._refuse(fault_of(error, "of a WebSocket"))
        finally:
            self._handle(None if self.closing else event, reserved)

    def _handle(self, event: Event, reserved: int) -> None:
        """Handle an event. `reserved` bytes of the memory budget are those of its message."""
        if isinstance(event, Create) and self._accept(event, reserved):
            return
        self.budget.release(reserved)
        if isinstance(event, Addition):
            task = self.clock.loop.create_task(self._steer(event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _accept(self, create: Create, reserved: int) -> bool:
        """Queue a request; False if it is refused."""
        stream_id = create.stream_id
        if self._retiring:
            self._refuse(CONNECTION_LIMIT, stream_id)
        elif stream_id not in self._stream_ids and len(self._stream_ids) > MOST_STREAM_IDS:
            self._refuse(STREAM_LIMIT, stream_id)
        elif len(self._waiting) >= _MOST_WAITING:
            self._refuse(QUEUE_FULL, stream_id)
        else:
            self._stream_ids.add(stream_id)
            continuation = Continuation(self._memory, stream_id, create.previous, create.prepares)
            self._waiting.append(_Waiting(create, continuation, reserved))
            # A late one is served, and the connection ends with its answer.
            self._retiring = self._is_old(self._used)
            self._start()
            return True
        return False

    async def _steer(self, addition: Addition) -> None:
        """Add input to a running response, if its upstream accepts any."""
        target = addition.target
        found = [one for one in self._active.values() if target and one.response_id == target]
        stream_id = ""
        if found:
            stream_id = found[0].stream_id
            code, message = await found[0].add(addition)
        elif target and self._is_over(target):
            code, message = "response_already_completed", "This response is over."
        else:
            code, message = "response_not_found", "There is no such response on this connection."
        if code:
            self._send_event(tagged(addition.refused(code, message), stream_id))

    def _is_over(self, name: str) -> bool:
        """Whether it is a response that has ended on this connection, as far as can be seen."""
        ended = [one.ended_id for one in self._active.values()]
        return name in (*ended, *self._ended.values()) or self._memory.find(name) is not None

    def _refuse(self, fault: Fault, stream_id: str = "") -> None:
        self._send_event(error_event(fault, stream_id))

    def _send_event(self, event: bytes) -> None:
        """Send an event without waiting for the client to read."""
        self._refusals = self._refusals + 1 if self.is_paused else 0
        if self._refusals > _MAX_UNREAD:
            self.close(CloseCode.POLICY_VIOLATION, "answers are not read")
        else:
            self.send(text_frame(event))

    def on_refusal(self, code: int) -> None:
        """The connection ends for what was sent."""
        self._refuse(_REFUSALS.get(code, _BROKEN))

    # Requests

    def _start(self) -> None:
        """Serve waiting requests, as far as their `stream_id` and the connection are free."""
        for waiting in list(self._waiting):
            if len(self._active) >= MOST_ACTIVE:
                return
            stream_id = waiting.create.stream_id
            if stream_id in self._active:
                continue
            self._waiting.remove(waiting)
            request = SocketRequest(
                self, stream_id, waiting.create.body, waiting.continuation, waiting.reserved
            )
            self._active[stream_id] = request
            task = self.clock.loop.create_task(self._run(request))
            self._tasks.add(task)
            # Also of one that is cancelled before it has begun.
            task.add_done_callback(partial(self._answered, request))

    @property
    def ends_with_answer(self) -> bool:
        """Whether the connection ends with what is being answered."""
        return self._retiring and len(self._active) == 1 and not self._waiting

    async def _run(self, request: SocketRequest) -> None:
        try:
            await self._service.answer(request)
        except Exception as error:
            fault_of(error, "of a WebSocket")

    def _answered(self, request: SocketRequest, task: asyncio.Task[None]) -> None:
        """A request is over, whatever its outcome."""
        self._tasks.discard(task)
        request.finish()
        request.release()
        del self._active[request.stream_id]
        self._ended[request.stream_id] = request.ended_id
        self._used = self.clock.loop.time()
        if request.unauthenticated:
            self.close(CloseCode.POLICY_VIOLATION, "the API key is not valid", request.unsent)
        elif not self.closing:
            self._start()
            self._leave_if_idle(request.unsent)

    # Time, and the end

    def on_tick(self, now: float) -> None:
        """Look at the connection's age."""
        if self.is_receiving:
            self._used = now  # A message is incomplete.
        if self._is_old(now):
            if self._waiting or not all(one.over for one in self._active.values()):
                self._retiring = True
            elif not self._active and now - self._used >= _QUIET_S:
                self._refuse(CONNECTION_LIMIT)
                self.close(CloseCode.GOING_AWAY, _LEAVING)
        elif self._terms.idle_s and not self._active and now - self._used >= self._terms.idle_s:
            self.close(CloseCode.GOING_AWAY, _LEAVING)

    def _is_old(self, now: float) -> bool:
        return bool(self._until) and now >= self._until

    def retire(self) -> None:
        """End when what is in flight has ended. New requests are refused, and clients reconnect."""
        self._retiring = True
        self._leave_if_idle()

    def _leave_if_idle(self, last: bytes = b"") -> None:
        if self._retiring and not self._active and not self._waiting:
            self.close(CloseCode.GOING_AWAY, _LEAVING, last)

    def cancel(self) -> None:
        """Cancel what is in flight; the client is sent an error for each."""
        self._retiring = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.budget.release(one.reserved)
            self._refuse(CONNECTION_LIMIT, one.create.stream_id)
        for task in self._tasks:
            task.cancel()

    def on_end(self) -> None:
        """Cancel what is in flight, without errors."""
        for one in self._waiting:
            self.budget.release(one.reserved)
        self._waiting.clear()
        for reply in list(self._active.values()):
            reply.leave()
        self._memory.clear()
        self._service.remove(self)

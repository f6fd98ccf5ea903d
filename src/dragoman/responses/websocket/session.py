"""One connection of a client: its lanes, its requests in flight, and its age."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial
from typing import Protocol

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.edge.errors import fault_of
from dragoman.edge.incoming import Received
from dragoman.edge.lanes import ConnectionMemory, Continuation
from dragoman.http import Budget
from dragoman.http.clock import Clock
from dragoman.http.websocket import Accepted, CloseCode, WebSocket, text_frame
from dragoman.protocols.openai_responses.additions import Addition
from dragoman.protocols.openai_responses.websocket import (
    CONNECTION_LIMIT,
    LANE_LIMIT,
    MOST_ACTIVE,
    MOST_LANES,
    QUEUE_FULL,
    BadEvent,
    Create,
    error_event,
    read_event,
    tagged,
)
from dragoman.responses.websocket.answers import SocketReply
from dragoman.responses.websocket.messages import Event
from dragoman.serving.large import is_large

_log = logging.getLogger("dragoman.gateway")

_MOST_WAITING = 64
"""Requests that wait on one connection."""
_UNREAD_REFUSALS = 100
"""Answers of a few words that may wait for a client that reads nothing."""
_QUIET_S = 1.0
"""For so long a client must have asked nothing before its connection is ended for its age: what it
sends meanwhile would cross the end, and not all clients ask again then."""
_JITTER = 0.1
"""Share of its age by which a connection may end earlier, so that not all do at once."""
_LEAVING = "going away"
"""What Codex shows of a reason is one of a few words."""

_LAST_WORDS: dict[int, Fault] = {
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


class Client(Struct, frozen=True):
    """Whose connection it is: the `name` of the key, and the `path`, `headers` and `address` of the
    requests that are made for it. `wants_signs` is as in `SocketReply`."""

    name: str
    path: str
    headers: dict[bytes, bytes]
    address: str
    wants_signs: bool


class Service(Protocol):
    """What serves the connections of a worker."""

    async def answer(self, received: Received) -> None:
        """Answer a request, whatever happens."""

    async def read_large(self, message: bytes) -> Event:
        """Read a large message.

        Raises:
            DragomanError: it is no event, or too large.
        """

    def remove(self, session: Session) -> None:
        """The connection is over."""


class _Waiting(Struct, frozen=True):
    """A request whose turn has not come."""

    create: Create
    continuation: Continuation
    reserved: int


class Session(WebSocket):
    """One connection. Requests of one lane follow each other, those of several are served side by
    side, up to a number; further ones wait."""

    __slots__ = (
        "_active",
        "_ended",
        "_lanes",
        "_memory",
        "_refusals",
        "_retiring",
        "_service",
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
        self._lanes: set[str] = set()
        """Names of lanes that were used."""
        self._active: dict[str, SocketReply] = {}
        """What is being answered, by lane."""
        self._ended: dict[str, str] = {}
        """The id of the response that ended last in each lane."""
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
            self._refuse(bad.fault, bad.lane)
        self._handle(event, reserved)
        return None

    async def _read_large(self, data: bytes, reserved: int) -> None:
        event = None
        try:
            event = await self._service.read_large(data)
        except DragomanError as error:
            self._refuse(error.fault, error.lane if isinstance(error, BadEvent) else "")
        except Exception as error:
            self._refuse(fault_of(error, "of a WebSocket"))
        finally:
            self._handle(None if self.closing else event, reserved)

    def _handle(self, event: Event, reserved: int) -> None:
        """Handle an event. `reserved` bytes of the memory budget are those of its message."""
        if isinstance(event, Create) and self._accept(event, reserved):
            return
        self.budget.give(reserved)
        if isinstance(event, Addition):
            self._steer(event)

    def _accept(self, create: Create, reserved: int) -> bool:
        """Queue a request; False if it is refused."""
        lane = create.lane
        if self._retiring:
            self._refuse(CONNECTION_LIMIT, lane)
        elif lane and lane not in self._lanes and len(self._lanes) >= MOST_LANES:
            self._refuse(LANE_LIMIT, lane)
        elif len(self._waiting) >= _MOST_WAITING:
            self._refuse(QUEUE_FULL, lane)
        else:
            if lane:
                self._lanes.add(lane)
            continuation = Continuation(self._memory, lane, create.previous, create.prepares)
            self._waiting.append(_Waiting(create, continuation, reserved))
            # One that comes late is served, and the connection ends with its answer.
            self._retiring = self._is_old(self._used)
            self._start()
            return True
        return False

    def _steer(self, addition: Addition) -> None:
        """Give a response under way more input, if its upstream takes any."""
        target = addition.target
        found = [one for one in self._active.values() if target and one.response_id == target]
        lane = ""
        if found:
            lane = found[0].lane
            code, message = found[0].add(addition)
        elif target and self._is_over(target):
            code, message = "response_already_completed", "This response is over."
        else:
            code, message = "response_not_found", "There is no such response on this connection."
        if code:
            self._say(tagged(addition.refused(code, message), lane))

    def _is_over(self, name: str) -> bool:
        """Whether it is a response that has ended on this connection, as far as that is known."""
        told = [one.ended_id for one in self._active.values()]
        return name in (*told, *self._ended.values()) or self._memory.find(name) is not None

    def _refuse(self, fault: Fault, lane: str = "") -> None:
        self._say(error_event(fault, lane))

    def _say(self, event: bytes) -> None:
        """Tell something that nobody waits to be able to tell."""
        self._refusals = self._refusals + 1 if self.is_paused else 0
        if self._refusals > _UNREAD_REFUSALS:
            self.close(CloseCode.POLICY_VIOLATION, "answers are not read")
        else:
            self.send(text_frame(event))

    def on_refusal(self, code: int) -> None:
        """The connection ends for what was sent."""
        self._refuse(_LAST_WORDS.get(code, _BROKEN))

    # Requests

    def _start(self) -> None:
        """Serve what waits, as far as its lane and the connection are free."""
        for waiting in list(self._waiting):
            if len(self._active) >= MOST_ACTIVE:
                return
            lane = waiting.create.lane
            if lane in self._active:
                continue
            self._waiting.remove(waiting)
            client = self.client
            reply = SocketReply(
                self,
                lane,
                waiting.continuation,
                reserved=waiting.reserved,
                wants_signs=client.wants_signs,
            )
            received = Received.internal(
                client.path,
                client.headers,
                waiting.create.body,
                reply,
                client.address,
                waiting.continuation,
            )
            self._active[lane] = reply
            task = self.clock.loop.create_task(self._run(received))
            self._tasks.add(task)
            # Also of one that is cancelled before it has begun.
            task.add_done_callback(partial(self._answered, reply))

    @property
    def ends_with_answer(self) -> bool:
        """Whether the connection ends with what is being answered."""
        return self._retiring and len(self._active) == 1 and not self._waiting

    async def _run(self, received: Received) -> None:
        try:
            await self._service.answer(received)
        except Exception as error:
            fault_of(error, "of a WebSocket")

    def _answered(self, reply: SocketReply, task: asyncio.Task[None]) -> None:
        """A request is over, one way or another."""
        self._tasks.discard(task)
        reply.finish()
        reply.release()
        del self._active[reply.lane]
        self._ended[reply.lane] = reply.ended_id
        self._used = self.clock.loop.time()
        if reply.unauthenticated:
            self.close(CloseCode.POLICY_VIOLATION, "the API key is not valid", reply.unsent)
        elif not self.closing:
            self._start()
            self._leave_if_idle(reply.unsent)

    # Time, and the end

    def on_tick(self, now: float) -> None:
        """Look at the connection's age."""
        if self.is_receiving:
            self._used = now  # What is asked is not whole yet.
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
        """End when what is in flight has ended. What comes is refused: clients dial anew."""
        self._retiring = True
        self._leave_if_idle()

    def _leave_if_idle(self, last: bytes = b"") -> None:
        if self._retiring and not self._active and not self._waiting:
            self.close(CloseCode.GOING_AWAY, _LEAVING, last)

    def cancel(self) -> None:
        """Break off what is in flight; each client is told."""
        self._retiring = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.budget.give(one.reserved)
            self._refuse(CONNECTION_LIMIT, one.create.lane)
        for task in self._tasks:
            task.cancel()

    def on_end(self) -> None:
        """Break off what is in flight; nobody is there to be told."""
        for one in self._waiting:
            self.budget.give(one.reserved)
        self._waiting.clear()
        for reply in list(self._active.values()):
            reply.leave()
        self._memory.clear()
        self._service.remove(self)

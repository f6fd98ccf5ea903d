"""One connection of a client: its lanes, its requests in flight, and its age."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.edge.errors import fault_of
from dragoman.edge.lanes import ConnectionMemory, Continuation
from dragoman.http import Budget
from dragoman.http.clock import Clock
from dragoman.http.websocket import Agreed, WebSocket, WebSocketLimits
from dragoman.http.websocket.connection import (
    GOING_AWAY,
    POLICY,
    TOO_BIG,
    UNSUPPORTED,
)
from dragoman.http.websocket.frames import text_frame
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
from dragoman.responses.websocket.answers import CreateRequest

_log = logging.getLogger("dragoman.gateway")

Serve = Callable[[CreateRequest, Continuation], Awaitable[None]]
"""Answers a request; whatever happens, it is answered."""

_MOST_WAITING = 64
"""Requests that wait on one connection."""
_UNREAD_REFUSALS = 100
"""Answers of a few words that may wait for a client that reads nothing."""
_QUIET_S = 1.0
"""For so long a client must have asked nothing before its connection is ended for its age: what it
sends meanwhile would cross the end, and not all clients ask again then."""
_LEAVING = "going away"
"""What Codex shows of a reason is one of a few words."""

_LAST_WORDS = {
    TOO_BIG: Fault(FaultKind.TOO_LARGE, "The message is too large for this gateway."),
    UNSUPPORTED: Fault(FaultKind.INVALID_REQUEST, "Messages must be JSON text."),
}
_BROKEN = Fault(FaultKind.INVALID_REQUEST, "What was sent is no WebSocket message.")


class Terms(Struct, frozen=True, kw_only=True):
    """What all connections of a worker are given: `limits` of messages, the longest `age_s` of a
    connection and `idle_s` without a request (0: any), and the `memory_bytes` for responses that it
    remembers."""

    limits: WebSocketLimits
    age_s: float
    idle_s: float
    memory_bytes: int


class Client(Struct, frozen=True):
    """Whose connection it is: the `name` of the key, and the `path`, `headers` and `address` of the
    requests that are made for it. `wants_signs` is as in `CreateRequest`."""

    name: str
    path: str
    headers: dict[bytes, bytes]
    address: str
    wants_signs: bool


class _Waiting(Struct, frozen=True):
    """A request whose turn has not come."""

    create: Create
    continuation: Continuation
    held: int


class Session(WebSocket):
    """One connection. Requests of one lane follow each other, those of several are served side by
    side, up to a number; further ones wait."""

    __slots__ = (
        "_active",
        "_ended",
        "_lanes",
        "_memory",
        "_on_end",
        "_refusals",
        "_retiring",
        "_serve",
        "_tasks",
        "_terms",
        "_until",
        "_used",
        "_waiting",
        "client",
    )

    def __init__(
        self,
        agreed: Agreed,
        lines: bytes,
        terms: Terms,
        clock: Clock,
        budget: Budget,
        client: Client,
        serve: Serve,
        on_end: Callable[[Session], None],
        age_s: float,
    ) -> None:
        """
        Args:
            agreed: the outcome of the handshake.
            lines: further header lines of its answer.
            terms: what connections are given.
            clock: of the loop.
            budget: memory for messages and responses.
            client: whose connection it is.
            serve: answers a request.
            on_end: told that the connection is over.
            age_s: seconds until it is to end; 0 for no limit.
        """
        super().__init__(agreed, lines, terms.limits, clock, budget)
        self._terms = terms
        self.client = client
        self._serve = serve
        self._on_end = on_end
        now = clock.loop.time()
        self._until = now + age_s if age_s else 0.0
        self._used = now
        self._memory = ConnectionMemory(budget, terms.memory_bytes)
        self._lanes: set[str] = set()
        """Names of lanes that were used."""
        self._active: dict[str, CreateRequest] = {}
        """What is being answered, by lane."""
        self._ended: dict[str, str] = {}
        """The id of the response that ended last in each lane."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: list[_Waiting] = []
        self._retiring = False
        self._refusals = 0

    # What the client sends

    def on_message(self, text: str) -> None:
        """Act on an event."""
        self._used = self.clock.loop.time()
        try:
            event = read_event(text)
        except BadEvent as bad:
            self._refuse(bad.fault, bad.lane)
            return
        if isinstance(event, Create):
            self._accept(event)
        elif event is not None:
            self._add(event)

    def _accept(self, create: Create) -> None:
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
            self._waiting.append(_Waiting(create, continuation, self.take_held()))
            # One that comes late is served, and the connection ends with its answer.
            self._retiring = self._is_old(self._used)
            self._start()

    def _add(self, addition: Addition) -> None:
        """Give a response under way more input, if its upstream takes any."""
        target = addition.target
        found = [one for one in self._active.values() if target and one.response_id == target]
        lane = ""
        if found:
            lane = found[0].create_lane
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
            self.close(POLICY, "answers are not read")
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
            request = CreateRequest(
                self,
                waiting.create,
                waiting.continuation,
                client.path,
                client.headers,
                client.address,
                held=waiting.held,
                wants_signs=client.wants_signs,
            )
            self._active[lane] = request
            task = self.clock.loop.create_task(self._run(request, waiting.continuation))
            self._tasks.add(task)
            # Also of one that is cancelled before it has begun.
            task.add_done_callback(partial(self._answered, request))

    @property
    def ends_with_answer(self) -> bool:
        """Whether the connection ends with what is being answered."""
        return self._retiring and len(self._active) == 1 and not self._waiting

    async def _run(self, request: CreateRequest, continuation: Continuation) -> None:
        try:
            await self._serve(request, continuation)
        except Exception as error:
            fault_of(error, "of a WebSocket")

    def _answered(self, request: CreateRequest, task: asyncio.Task[None]) -> None:
        """A request is over, one way or another."""
        self._tasks.discard(task)
        request.finish()
        request.release()
        del self._active[request.create_lane]
        self._ended[request.create_lane] = request.ended_id
        self._used = self.clock.loop.time()
        if request.unauthenticated:
            self.close(POLICY, "the API key is not valid", request.unsent)
        elif not self.closing:
            self._start()
            self._leave_if_idle(request.unsent)

    # Time, and the end

    def on_tick(self, now: float) -> None:
        """Look at the connection's age."""
        if self.is_told:
            self._used = now  # What is asked is not whole yet.
        if self._is_old(now):
            if self._waiting or not all(one.over for one in self._active.values()):
                self._retiring = True
            elif not self._active and now - self._used >= _QUIET_S:
                self._refuse(CONNECTION_LIMIT)
                self.close(GOING_AWAY, _LEAVING)
        elif self._terms.idle_s and not self._active and now - self._used >= self._terms.idle_s:
            self.close(GOING_AWAY, _LEAVING)

    def _is_old(self, now: float) -> bool:
        return bool(self._until) and now >= self._until

    def retire(self) -> None:
        """End when what is in flight has ended. What comes is refused: clients dial anew."""
        self._retiring = True
        self._leave_if_idle()

    def _leave_if_idle(self, last: bytes = b"") -> None:
        if self._retiring and not self._active and not self._waiting:
            self.close(GOING_AWAY, _LEAVING, last)

    def cancel(self) -> None:
        """Break off what is in flight; each client is told."""
        self._retiring = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.budget.give(one.held)
            self._refuse(CONNECTION_LIMIT, one.create.lane)
        for task in self._tasks:
            task.cancel()

    def on_end(self) -> None:
        """Break off what is in flight; nobody is there to be told."""
        for one in self._waiting:
            self.budget.give(one.held)
        self._waiting.clear()
        for request in list(self._active.values()):
            request.leave()
        self._memory.clear()
        self._on_end(self)

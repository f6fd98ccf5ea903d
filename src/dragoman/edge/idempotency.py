"""Requests that are sent again with the same `Idempotency-Key` are not bought again.

As the IETF draft "The Idempotency-Key HTTP Header Field" and Stripe, from which vendors of models
take their keys, have it: while the first request is in flight, another is answered 409; afterwards
it is given the first one's answer, byte for byte; the same key with another request is refused
(422). Only good answers are given again: a failure is not worth keeping, and the next try may do
better. A key belongs to its client.

What makes a request the same is its path, its body, and those headers that change what is asked.

What is known is this worker's alone, and bounded.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import Asked, IncomingRequest
from dragoman.edge.record import Record

HEADER = b"idempotency-key"
POLICY = b"x-dragoman-policy"
"""Header that names the policy of a request."""

_LONGEST_KEY = 255
_RETRY_S = 1.0
_MOST_KEYS = 10_000
_MOST_BYTES = 64 * 1024 * 1024
_LARGEST_ANSWER = 4 * 1024 * 1024
_STEP = 64 * 1024
"""Bytes of an answer being recorded for which the memory budget is asked at once; the first are
free."""
_REPLAYED = b"idempotent-replayed: true\r\n"

_Name = tuple[str, bytes]
Check = Callable[[IncomingRequest, Caller, bytes], Awaitable[None]]


class _Answer(Struct, frozen=True):
    """A good answer to the request with this digest, kept until a time on the monotonic clock.
    `body` is None where it is too large to be kept."""

    digest: bytes
    until: float
    status: int
    lines: bytes
    body: bytes | None


class _Replay(Exception):
    """The request with this body was answered before."""

    def __init__(self, answer: _Answer, body: bytes) -> None:
        super().__init__()
        self.answer = answer
        self.body = body


class IdempotencyKeys:
    """The keys of requests in flight, and of those answered in the last `seconds`.

    `check` is called with the body of a request before it is answered as before, and raises if its
    client may not ask for that any more; None where that is known before.
    """

    def __init__(
        self,
        seconds: float,
        check: Check | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._check = check
        self._clock = clock
        self._in_flight: dict[_Name, bytes] = {}
        self._answers: OrderedDict[_Name, _Answer] = OrderedDict()
        self._in_vain: OrderedDict[_Name, int] = OrderedDict()
        self._bytes = 0

    async def serve(
        self,
        handle: Callable[[IncomingRequest, Caller, Record], Awaitable[None]],
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
    ) -> None:
        """Serve a request that has a key by `handle`, or as the one before with the same key was.

        Raises:
            DragomanError: INVALID_REQUEST: the key is too long. CONFLICT: the request is being
                answered, or its answer was not kept. UNPROCESSABLE: the key was another request's.
                Or as `check`.
            Exception: those of `handle`.
        """
        key = incoming.headers[HEADER]
        if len(key) > _LONGEST_KEY:
            problem = f"is longer than {_LONGEST_KEY} characters"
            raise InvalidRequest.at("Idempotency-Key", problem)
        name = caller.name, key
        recorded = _Recorded(incoming, lambda digest: self._begin(name, digest))
        incoming.request = recorded
        record.in_vain_before = self._in_vain.get(name, 0)
        try:
            await handle(incoming, caller, record)
        except _Replay as replay:
            if self._check is not None:
                await self._check(incoming, caller, replay.body)
            record.replayed = True
            self._give(incoming, replay.answer)
        else:
            good = 200 <= incoming.status < 300 and incoming.ended and not record.error
            if good and recorded.digest is not None:
                self._keep(name, recorded)
        finally:
            if recorded.begun:
                self._in_flight.pop(name, None)
            if record.in_vain:
                self._in_vain[name] = record.in_vain_before + len(record.in_vain)
                if len(self._in_vain) > _MOST_KEYS:
                    self._in_vain.popitem(last=False)

    def _begin(self, name: _Name, digest: bytes) -> _Answer | None:
        """A request with this key and digest is to be answered. Returns its answer if it was."""
        now = self._clock()
        while self._answers:
            oldest = next(iter(self._answers))
            if self._answers[oldest].until > now:
                break
            self._drop(oldest)
        found = self._answers.get(name)
        known = self._in_flight.get(name) if found is None else found.digest
        if known is None:
            self._in_flight[name] = digest
            return None
        if known != digest:
            raise DragomanError(_REUSED)
        if found is None:
            raise DragomanError(_IN_FLIGHT)
        if found.body is None:
            raise DragomanError(_NOT_KEPT)
        return found

    def _keep(self, name: _Name, recorded: _Recorded) -> None:
        assert recorded.digest is not None
        answer = _Answer(
            recorded.digest,
            self._clock() + self._seconds,
            recorded.status,
            recorded.lines,
            recorded.answer(),
        )
        self._answers[name] = answer
        self._bytes += len(answer.body or b"")
        while len(self._answers) > _MOST_KEYS or self._bytes > _MOST_BYTES:
            self._drop(next(iter(self._answers)))

    def _drop(self, name: _Name) -> None:
        self._bytes -= len(self._answers.pop(name).body or b"")

    def _give(self, incoming: IncomingRequest, answer: _Answer) -> None:
        incoming.status, incoming.answered = answer.status, time.perf_counter()
        incoming.ended = True
        incoming.request.respond(answer.status, answer.lines + _REPLAYED, answer.body or b"")


class _Recorded:
    """The request of a client, whose answer is recorded. `begin` is called with the digest of what
    is asked once the body is there, and returns the answer to it if there is one; `begun` says that
    there was none."""

    __slots__ = (
        "_begin",
        "_parts",
        "_request",
        "_size",
        "_telling",
        "address",
        "begun",
        "digest",
        "headers",
        "lines",
        "method",
        "path",
        "query",
        "status",
    )

    def __init__(self, incoming: IncomingRequest, begin: Callable[[bytes], _Answer | None]) -> None:
        request: Asked = incoming.request
        self._request = request
        self._begin = begin
        self.method = request.method
        self.path = request.path
        self.query = request.query
        self.headers = request.headers
        self.address = request.address
        self._telling = (POLICY, *(name.encode() for name in incoming.codec.endpoint.forwarded))
        self.begun = False
        self.digest: bytes | None = None
        self.status = 0
        self.lines = b""
        self._parts: list[bytes] | None = []
        self._size = 0

    @property
    def gone(self) -> bool:
        return self._request.gone

    @property
    def on_gone(self) -> Callable[[], object] | None:
        return self._request.on_gone

    @on_gone.setter
    def on_gone(self, call: Callable[[], object] | None) -> None:
        self._request.on_gone = call

    async def body(self, limit: int) -> bytes:
        body = await self._request.body(limit)
        if not self.begun:
            asked = hashlib.sha256(f"{self.method} {self.path}\0".encode() + self.query + b"\0")
            for header in self._telling:
                asked.update(b"%b\0" % self.headers.get(header, b""))
            asked.update(body)
            answer = self._begin(asked.digest())
            if answer is not None:
                raise _Replay(answer, body)
            self.digest, self.begun = asked.digest(), True
        return body

    def hold(self, size: int) -> bool:
        return self._request.hold(size)

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        self.status, self.lines = status, lines
        self._take(body)
        self._request.respond(status, lines, body)

    def start(self, status: int, lines: bytes = b"") -> None:
        self.status, self.lines = status, lines
        self._request.start(status, lines)

    def put(self, data: bytes) -> bool:
        sent = self._request.put(data)
        if sent:
            self._take(data)
        return sent

    async def write(self, data: bytes) -> None:
        self._take(data)
        await self._request.write(data)

    def end(self, data: bytes = b"") -> None:
        self._take(data)
        self._request.end(data)

    def answer(self) -> bytes | None:
        """The body of the answer, None if it is too large to be kept."""
        return None if self._parts is None else b"".join(self._parts)

    def _take(self, data: bytes) -> None:
        if self._parts is None:
            return
        steps = self._size // _STEP
        self._size += len(data)
        steps = self._size // _STEP - steps
        if self._size > _LARGEST_ANSWER or (steps and not self._request.hold(steps * _STEP)):
            self._parts = None
        else:
            self._parts.append(data)


_REUSED = Fault(
    FaultKind.UNPROCESSABLE,
    "This Idempotency-Key was used for another request. Use a new key for each request.",
    code="idempotency_key_reused",
)
_IN_FLIGHT = Fault(
    FaultKind.CONFLICT,
    "A request with this Idempotency-Key is being answered. Try again to be given its answer.",
    code="idempotency_key_in_use",
    retry_after=_RETRY_S,
)
_NOT_KEPT = Fault(
    FaultKind.UNPROCESSABLE,
    "The request with this Idempotency-Key was answered, and its answer is too large to be kept. "
    "Use a new key to ask again.",
    code="idempotency_answer_not_kept",
)


def key_for(client: str, key: bytes, account: str, body: bytes, in_vain: int = 0) -> str:
    """The key to send upstream for a client's key and a body for an account, after so many answers
    that were of no use.

    It is the same for every attempt with an account, in any worker, and another for each account:
    services look keys up for whoever owns the account, so that the same key would bring one account
    the failure of another. Clients that choose the same key do not meet either. Another body, as
    without the reasoning that the account refused, has a key of its own: services refuse a key that
    comes with another body. After an answer of no use, which they would give again, it is another.
    """
    digest = hashlib.sha256()
    after = (b"%d" % in_vain,) if in_vain else ()
    for part in (client.encode(), key, account.encode(), body, *after):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"dragoman-{digest.hexdigest()[:40]}"

"""POST requests below `/admin` that are repeated with the same `Idempotency-Key`.

A repetition is given the answer of the first request, which may hold a secret that is shown once;
so answers stay in memory, and each worker knows only its own.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from dragoman.admin.calls import Call, Raw, Refusal, Reply
from dragoman.edge.errors import Headers

HEADER = b"idempotency-key"

_LONGEST_KEY = 255
_REMEMBERED_S = 600.0
_MOST_ANSWERS = 1000
_LARGEST_ANSWER = 64 * 1024
_REPLAYED = (b"idempotent-replayed", b"true")


class _Answer(Struct, frozen=True):
    """The answer to the request with a digest, remembered until a time on the monotonic clock.
    `reply` is None while there is none, and where it is too large to be remembered."""

    digest: bytes
    until: float
    status: int = 0
    reply: Raw | None = None


class RepeatedPosts:
    """The answers that one worker remembers, by operator and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[tuple[str, bytes], _Answer] = OrderedDict()

    async def answer(
        self,
        call: Call,
        body_limit: int,
        headers: Headers,
        handle: Callable[[Call], Awaitable[Reply]],
    ) -> Reply:
        """Answer a request that has a key by `handle`, or as the one with the same key before.

        Raises:
            Refusal: the key is too long, was another request's, or its request is being answered or
                its answer was too large to be remembered.
        """
        key = call.incoming.headers[HEADER]
        if len(key) > _LONGEST_KEY:
            told = f"Idempotency-Key is longer than {_LONGEST_KEY} characters"
            raise Refusal(400, "invalid_request", told, "Idempotency-Key")
        name = call.operator.name, key
        digest = _digest(call, await call.incoming.body(body_limit))
        self._forget()
        known = self._answers.get(name)
        if known is not None:
            headers.append(_REPLAYED)
            return _repeated(known, digest)
        until = self._clock() + _REMEMBERED_S
        self._answers[name] = _Answer(digest, until)
        try:
            reply = await handle(call)
        except BaseException:
            # Who asks again after a failure is to be served.
            self._answers.pop(name, None)
            raise
        if reply is None or reply[0] >= 300:
            self._answers.pop(name, None)
            return reply
        status, value = reply
        written = value if isinstance(value, Raw) else Raw(_encoded(value), b"application/json")
        is_small = len(written.body) <= _LARGEST_ANSWER
        self._answers[name] = _Answer(digest, until, status, written if is_small else None)
        return reply

    def _forget(self) -> None:
        """Drop what is too old or too much."""
        now = self._clock()
        while self._answers:
            oldest = next(iter(self._answers.values()))
            if oldest.until > now and len(self._answers) <= _MOST_ANSWERS:
                return
            self._answers.popitem(last=False)


def _digest(call: Call, body: bytes) -> bytes:
    """What makes a request the same: its path, query and body."""
    asked = hashlib.sha256(call.incoming.path.encode() + b"\0" + call.incoming.query + b"\0")
    asked.update(body)
    return asked.digest()


def _encoded(value: object) -> bytes:
    return b"" if value is None else msgspec.json.encode(value)


def _repeated(known: _Answer, digest: bytes) -> Reply:
    if known.digest != digest:
        told = "This Idempotency-Key was used for another request. Use a new key for each request."
        raise Refusal(422, "unprocessable", told)
    if not known.status:
        told = "A request with this Idempotency-Key is being answered. Try again for its answer."
        raise Refusal(409, "conflict", told)
    if known.reply is None:
        told = "The request with this Idempotency-Key was answered, and its answer was too large."
        raise Refusal(422, "unprocessable", told)
    return known.status, known.reply

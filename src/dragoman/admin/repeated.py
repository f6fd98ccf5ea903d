"""POST requests below `/admin` that are repeated with the same `Idempotency-Key`.

A repetition gets the answer of the first request, which may contain a secret that is shown once; so
answers stay in memory, and each worker knows only its own.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct

from dragoman.admin.call import Call
from dragoman.admin.replies import Refusal, Reply

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
    is_complete: bool = False
    reply: Reply | None = None


class RepeatedPosts:
    """The answers that one worker remembers, by operator and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[tuple[str, bytes], _Answer] = OrderedDict()

    async def answer(
        self, call: Call, handle: Callable[[], Awaitable[Reply | None]]
    ) -> Reply | None:
        """Answer a request that has a key by `handle`, or as the one with the same key before.

        Raises:
            Refusal: the key is too long, was another request's, or its request is being answered or
                its answer was too large to be remembered.
        """
        key = call.incoming.headers[HEADER]
        if len(key) > _LONGEST_KEY:
            message = f"Idempotency-Key is longer than {_LONGEST_KEY} characters"
            raise Refusal(400, "invalid_request", message, "Idempotency-Key")
        name = call.operator.name, key
        body = await call.incoming.body(call.gateway.config.server.body_limit_bytes)
        digest = _digest(call, body)
        self._forget()
        known = self._answers.get(name)
        if known is not None:
            return _repeated(known, digest)
        until = self._clock() + _REMEMBERED_S
        self._answers[name] = _Answer(digest, until)
        try:
            reply = await handle()
        except BaseException:
            # A repetition after a failure is a new attempt.
            self._answers.pop(name, None)
            raise
        if reply is None:
            self._answers.pop(name, None)
            return None
        is_small = len(reply.data) <= _LARGEST_ANSWER
        self._answers[name] = _Answer(digest, until, True, reply if is_small else None)
        return reply

    def _forget(self) -> None:
        """Drop answers that are too old or too many."""
        now = self._clock()
        while self._answers:
            oldest = next(iter(self._answers.values()))
            if oldest.until > now and len(self._answers) <= _MOST_ANSWERS:
                return
            self._answers.popitem(last=False)


def _digest(call: Call, body: bytes) -> bytes:
    """The SHA-256 of the path, query and body of a request."""
    digest = hashlib.sha256(call.incoming.path.encode() + b"\0" + call.incoming.query + b"\0")
    digest.update(body)
    return digest.digest()


def _repeated(known: _Answer, digest: bytes) -> Reply:
    if known.digest != digest:
        message = "This Idempotency-Key was used for another request. Use a new one for each."
        raise Refusal(422, "unprocessable", message)
    if not known.is_complete:
        message = "A request with this Idempotency-Key is being answered. Try again later."
        raise Refusal(409, "conflict", message)
    if known.reply is None:
        message = "The request with this Idempotency-Key was answered, and its answer is too large."
        raise Refusal(422, "unprocessable", message)
    reply = known.reply
    return Reply(reply.data, reply.media, reply.status, (*reply.headers, _REPLAYED))

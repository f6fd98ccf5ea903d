"""Large bodies: read and translated in other processes, so that nobody waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.gateway.edge.incoming import IncomingRequest
from dragoman.gateway.processes.helper import Unfinished
from dragoman.gateway.processes.helpers import Helpers
from dragoman.gateway.serving.apart import (
    Source,
    answered,
    outlined,
    reduced,
    too_large,
    translated,
)
from dragoman.translation import Call, CallSettings, ClientRequest, Outcome

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_log = logging.getLogger("dragoman.gateway")

_MOST_S = 10.0
"""Seconds that one step may take: five times what 700,000 messages do."""

_MOST_MEMORY = 2 * 1024 * 1024 * 1024
"""Bytes that it may take: a body of 24 MB that holds 700,000 messages takes 1 GB."""

_LARGE = 512 * 1024
"""Bytes of a body from which on it is worked on elsewhere."""

_MIXED = 32 * 1024
_OBJECTS = 500
"""A body that is not small may be large in what it holds: an object costs ten microseconds, however
short it is."""

_STRIDES = (31, 37)
"""Every so many bytes one is looked at, for counting in all would cost a tenth of what the work
costs. Both are primes: objects that neither meets are at least 1,147 bytes apart, so they are few.
"""


def is_large(body: bytes) -> bool:
    """Whether reading `body` as JSON, or translating it, keeps others waiting."""
    size = len(body)
    return size > _MIXED and (size > _LARGE or _objects(body) > _OBJECTS)


def _objects(body: bytes) -> int:
    """About how many objects JSON text holds."""
    return max([body[::stride].count(b"{") * stride for stride in _STRIDES])


class LargeBodies:
    """What is done with large bodies, in other processes. For each there is a function that does
    the same with others, here."""

    def __init__(self) -> None:
        self.helpers = Helpers(_MOST_S, _MOST_MEMORY)

    def close(self) -> None:
        """End the processes."""
        self.helpers.close()

    async def read(self, incoming: IncomingRequest, body: bytes) -> ClientRequest:
        """As `ClientRequest`.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        protocol, operation = incoming.codec.name, incoming.operation
        source = Source(protocol, operation, {})
        outline, _ = await self._of_client(outlined, body, source)
        return ClientRequest.outlined(protocol, body, operation, outline)

    async def translate(
        self, request: ClientRequest, upstream: str, settings: CallSettings
    ) -> Call:
        """As `Call`.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        source = _source(request)
        call, body = await self._of_client(translated, request.body, source, upstream, settings)
        call.complete(request, body)
        return call

    async def drop_reasoning(
        self, call: Call, request: ClientRequest, *, bound: bool, moved: bool, least: int
    ) -> int:
        """As `Call.drop_reasoning`, where that has to look.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        call.restore()
        (left_out, ledger), body = await self._of_client(
            reduced,
            request.body,
            _source(request),
            call.codec.name,
            call.settings,
            call.account,
            bound,
            moved,
            least,
        )
        if left_out:
            call.ledger, call.body = ledger, body
        return left_out

    async def answer(
        self, call: Call, body: bytes, mask: Mask, outcome: Outcome, *, streamed: bool
    ) -> tuple[bytes, str]:
        """What the client is sent, and the id of the answer.

        Raises:
            UpstreamError: as `Call.translate_response`.
        """
        try:
            given, made = await self.helpers.run(answered, body, call, mask, streamed)
        except Unfinished as failure:
            _tell(failure)
            told = "The upstream's answer is unusable: it takes too much to read"
            raise UpstreamError(Fault(FaultKind.UPSTREAM_FAILED, told)) from None
        call.ledger.extend(given.losses)
        outcome.usage, outcome.finish = given.outcome.usage, given.outcome.finish
        outcome.fault, outcome.ended = given.outcome.fault, given.outcome.ended
        return made, given.id

    async def _of_client(
        self,
        work: Callable[[bytes, *Arguments], tuple[T, bytes]],
        body: bytes,
        *arguments: *Arguments,
    ) -> tuple[T, bytes]:
        try:
            return await self.helpers.run(work, body, *arguments)
        except Unfinished as failure:
            if not failure.is_too_much:
                raise
            _tell(failure)
            told = f"The request body takes too much to translate: {failure.told}."
            raise too_large(told) from None


def _source(request: ClientRequest) -> Source:
    return Source(request.codec.name, request.operation, request.shown)


def _tell(failure: Unfinished) -> None:
    _log.warning("a large body could not be worked on: %s", failure.told)

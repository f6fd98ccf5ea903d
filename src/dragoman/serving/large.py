"""Work on bodies, in another process where a body is large, so that nobody else waits for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from random import random
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Raw

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.processes.helper import Unfinished
from dragoman.processes.helpers import Helpers
from dragoman.protocols.base import Operation
from dragoman.serving.large_body_tasks import (
    Dropping,
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

_MOST_S = 20.0
"""Seconds that one step may take: ten times what 700,000 messages do."""

_MOST_MEMORY = 2 * 1024 * 1024 * 1024
"""Bytes that it may take: a body of 24 MB that holds 700,000 messages takes 1 GB."""

_LARGE = 1024 * 1024
"""Bytes of a body from which on it is worked on elsewhere."""

_MIXED = 32 * 1024
_PARTS = 2000
"""A body that is not small may be large in what it holds: an object or list takes three
microseconds, however short it is."""

_WINDOWS = 32
_WINDOW = 128
"""So many pieces of so many bytes are looked at, for looking at all would take a tenth of what the
work does. Where they are is left to chance: whoever knew could put what takes long elsewhere."""

_PART = re.compile(rb'\{(?=["}\s])|\[(?=["{\[\]\s\d\-tfn])')
"""How an object or list begins. In a string a quote or line end would be escaped."""


def is_large(body: bytes) -> bool:
    """Whether reading `body` as JSON, or translating it, keeps others waiting."""
    size = len(body)
    if size <= _MIXED:
        return False
    return size > _LARGE or _has_many_parts(body)


def _has_many_parts(body: bytes) -> bool:
    """Whether JSON text seems to hold many objects and lists."""
    last = len(body) - _WINDOW
    some = b"".join(
        [body[(start := int(random() * last)) : start + _WINDOW] for _ in range(_WINDOWS)]
    )
    most = _PARTS * len(some) // len(body)
    return some.count(b"{") + some.count(b"[") > most and len(_PART.findall(some)) > most


class LargeBodies:
    """Does the work on bodies: that on large ones in other processes, the rest here."""

    def __init__(self) -> None:
        self.helpers = Helpers(_MOST_S, _MOST_MEMORY)

    def close(self) -> None:
        """End the processes."""
        self.helpers.close()

    async def read(
        self,
        protocol: str,
        body: bytes,
        operation: Operation | None = None,
        shown: Mapping[str, Any] | None = None,
        most_values: int | None = None,
        *,
        members: Mapping[str, Raw] | None = None,
        own: bytes | None = None,
    ) -> ClientRequest:
        """As `ClientRequest`, of a body that holds at most `most_values` values if it is large.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        if not is_large(body):
            return ClientRequest(protocol, body, shown, operation, members=members, own=own)
        source = Source(protocol, operation, shown or {})
        outline, mended = await self.run(outlined, body, source, most_values)
        request = ClientRequest.outlined(protocol, mended or body, operation, outline)
        request.shown = source.shown
        return request

    async def translate(
        self, request: ClientRequest, upstream: str, settings: CallSettings
    ) -> Call:
        """As `Call`.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        if not request.is_large:
            return Call(request, upstream, settings)
        call, body = await self.work(translated, request, upstream, settings)
        call.complete(request, body)
        return call

    async def drop_reasoning(
        self, call: Call, request: ClientRequest, *, bound: bool, moved: bool, least: int
    ) -> int:
        """As `Call.drop_reasoning`.

        Raises:
            DragomanError: as there, or TOO_LARGE.
        """
        if not (request.is_large and call.may_drop(bound=bound, moved=moved, least=least)):
            return call.drop_reasoning(bound=bound, moved=moved, least=least)
        call.restore()
        (left_out, ledger), body = await self.work(
            reduced,
            request,
            call.codec.name,
            call.settings,
            call.account,
            Dropping(bound, moved, least),
        )
        if left_out:
            call.replace_body(body, ledger)
        return left_out

    async def answer(
        self, call: Call, body: bytes, outcome: Outcome, *, streamed: bool
    ) -> tuple[bytes, str]:
        """What the client is sent for a large answer, and the id of that.

        Raises:
            UpstreamError: as `Call.translate_response`.
        """
        call.reduce()
        try:
            given, made = await self.helpers.run(answered, body, call, streamed)
        except Unfinished as failure:
            _tell(failure)
            message = "The upstream's answer is unusable: it takes too much to read"
            raise UpstreamError(Fault(FaultKind.UPSTREAM_FAILED, message)) from None
        call.ledger.extend(given.losses)
        outcome.usage, outcome.finish = given.outcome.usage, given.outcome.finish
        outcome.fault, outcome.ended = given.outcome.fault, given.outcome.ended
        outcome.text_bytes = given.outcome.text_bytes
        return made, given.id

    async def work(
        self,
        function: Callable[[bytes, Source, *Arguments], tuple[T, bytes]],
        request: ClientRequest,
        *arguments: *Arguments,
    ) -> tuple[T, bytes]:
        """What the function, a module's own, makes of a request.

        Raises:
            DragomanError: that of the function, or TOO_LARGE.
        """
        source = Source(
            request.codec.name,
            request.operation,
            request.shown,
            request.mended,
            request.is_lowered,
        )
        return await self.run(function, request.body, source, *arguments)

    async def run(
        self,
        function: Callable[[bytes, *Arguments], tuple[T, bytes]],
        body: bytes,
        *arguments: *Arguments,
    ) -> tuple[T, bytes]:
        """What the function, a module's own, makes of a body.

        Raises:
            DragomanError: that of the function, or TOO_LARGE.
        """
        try:
            return await self.helpers.run(function, body, *arguments)
        except Unfinished as failure:
            _tell(failure)
            if not failure.is_too_much:
                raise
            message = f"The request body takes too much to translate: {failure.cause}."
            raise too_large(message) from None


def _tell(failure: Unfinished) -> None:
    _log.warning("a large body could not be worked on: %s", failure.cause)

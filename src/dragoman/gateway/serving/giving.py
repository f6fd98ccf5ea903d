"""An upstream's answer, given to the client: whole, or as a stream that is held back until
something of an answer comes."""

from __future__ import annotations

import time
from functools import partial
from math import inf

from dragoman.accounts.pool import Lease
from dragoman.accounts.symptoms import UNREACHABLE, symptom_of_fault
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.gateway.edge.beside import beside, is_large
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.serving.affinity import response_id
from dragoman.gateway.serving.answers import MOST_BYTES, beginning, drain, holds_events, is_stream
from dragoman.gateway.serving.failures import Failure, failed_call
from dragoman.gateway.serving.trip import Trip
from dragoman.translation import AnswerStream, Outcome
from dragoman.upstream.errors import UpstreamError as CallFailed
from dragoman.upstream.response import UpstreamResponse

_EMPTY = UpstreamError.unreadable("it is empty").fault

_MOST_HELD = 64 * 1024 * 1024
"""Bytes of a handshake that are held back; a response object may repeat a large request, twice."""

_SMALL = 64 * 1024
"""Bytes of an answer that the memory budget is not asked for."""

_STEP = 1024 * 1024
"""Bytes of a stream for which it is asked at once: as many may be kept of what came, until the
stream ends, by whoever writes its last event."""

_BLANK_RUN = 100
"""Characters of white space in arguments that are no mere indentation."""


async def give_whole(trip: Trip, lease: Lease, answer: UpstreamResponse, mask: Mask) -> None:
    """Give the client a whole answer.

    Raises:
        UpstreamError: the answer is none.
        UpstreamError (of calls): the answer broke off.
    """
    hold = trip.visit.hold
    body = mask.secrets_in(await answer.read(MOST_BYTES, hold))
    convert = trip.call.response_of if holds_events(body) else trip.call.response
    trip.outcome = Outcome()
    make = partial(convert, body, trip.outcome)
    shown = await beside(make) if is_large(body) else make()
    _succeeded(lease, trip.outcome)
    trip.settle(lease)
    if trip.keeping is not None:
        await trip.keeping.begun(lease.account.name, response_id(body))
        shown = await trip.keeping.whole(shown)
    if len(shown) > _SMALL:
        hold(len(shown))
    await trip.visit.reply(200, shown, trip.headers())


async def give_stream(
    trip: Trip, delivery: Delivery, lease: Lease, answer: UpstreamResponse, sent_at: float
) -> None:
    """Give the client a streamed answer. `sent_at` is when the call began, by the monotonic clock.

    Raises:
        UpstreamError: the answer is none, or failed before anything of it was shown.
        Failure: nothing of it came in time.
        UpstreamError (of calls): the answer broke off before that.
    """
    chunk = await beginning(answer)
    if is_stream(answer, chunk):
        await _open_stream(trip, delivery, lease, answer, chunk, sent_at)
        return
    body = chunk + await answer.read(MOST_BYTES, trip.visit.hold)
    trip.outcome = Outcome()
    shown = trip.call.stream_of(body, trip.outcome)
    _succeeded(lease, trip.outcome)
    trip.settle(lease)
    if trip.keeping is not None:
        await trip.keeping.begun(lease.account.name, response_id(body))
        shown = await trip.keeping.stream(shown)
    await delivery.end(shown)


async def _open_stream(
    trip: Trip,
    delivery: Delivery,
    lease: Lease,
    answer: UpstreamResponse,
    chunk: bytes,
    sent_at: float,
) -> None:
    """Hold the stream back until something of an answer comes, or it is whole without."""
    stream = trip.call.stream()
    trip.outcome = stream.outcome
    limit = trip.target.upstream.timeouts.first_byte_s
    held = [stream.feed(chunk)]
    size = len(held[0])
    while not stream.begun and not stream.over and size <= _MOST_HELD:
        chunk = await anext(answer, b"")
        held.append(stream.feed(chunk) if chunk else stream.finish())
        size += len(held[-1])
        if not chunk:
            break
        if limit and time.monotonic() - sent_at > limit:
            told = f"nothing of an answer came within {limit:g} s"
            raise Failure(_late(trip, told), UNREACHABLE)
    fault = stream.outcome.fault
    if not stream.begun and size <= _MOST_HELD and (fault is not None or not stream.outcome.ended):
        raise UpstreamError(fault or _EMPTY)
    trip.begin(stream)
    lease.succeeded()
    trip.settle(lease)
    if trip.keeping is not None:
        await trip.keeping.begun(lease.account.name, stream.answer_id)
    await _relay(trip, delivery, stream, answer, held)
    fault = stream.outcome.fault
    if fault is None:
        _succeeded(lease, stream.outcome)
    else:
        trip.record.error = fault.kind
        if fault.kind not in (FaultKind.UPSTREAM_FAILED, FaultKind.UPSTREAM_TIMEOUT):
            lease.failed(symptom_of_fault(fault))


async def _relay(
    trip: Trip,
    delivery: Delivery,
    stream: AnswerStream,
    answer: UpstreamResponse,
    held: list[bytes],
) -> None:
    """Give a stream that has begun to the client, to its end or to the error that ends it.

    `held` is what was written so far. It is let go: it may repeat all of a large request.
    """
    feed, put, codec = stream.feed, delivery.put, trip.visit.codec
    patience = trip.target.upstream.timeouts.blank_arguments_s or inf
    blank_since = 0.0
    data = b"".join(held)
    held.clear()
    room = _STEP

    def pass_on(chunk: bytes) -> bool:
        """Nearly every chunk goes to the client right here; the others' events are left in `data`,
        to be dealt with below."""
        nonlocal data, blank_since, room
        room -= len(chunk)
        if room < 0:
            room += _STEP
            trip.visit.hold(_STEP)
        data = feed(chunk)
        if stream.over or stream.blank >= _BLANK_RUN:
            return False
        blank_since = 0.0
        if data and not put(data):
            return False
        data = b""
        return True

    def keepalive() -> bytes:
        """What is left in `data` has its numbers already: none may come before it."""
        return codec.keepalive if data else stream.keepalive()

    delivery.keepalive = keepalive
    try:
        while not stream.over:
            if stream.blank >= _BLANK_RUN:
                now = time.monotonic()
                blank_since = blank_since or now
                if now - blank_since >= patience:
                    told = f"a tool's arguments were white space for {patience:g} s"
                    data += stream.fail(_late(trip, told))
                    answer.close()
                    break
            if data:
                await delivery.write(data)
                data = b""
            if not await answer.pour(pass_on):
                data = stream.finish()
                break
    except CallFailed as error:
        fault = failed_call(error, trip.target.upstream.name).fault
        data = stream.fail(fault)
    if stream.cut:
        # The upstream would go on generating, at the account's cost.
        answer.close()
    if trip.keeping is not None:
        data = await trip.keeping.stream(data)
    await delivery.end(data)
    await drain(answer)


def _succeeded(lease: Lease, outcome: Outcome) -> None:
    lease.succeeded(0.0 if outcome.usage is None else outcome.usage.total)


def _late(trip: Trip, told: str) -> Fault:
    message = f"The upstream {trip.target.upstream.name} did not answer in time: {told}."
    return Fault(FaultKind.UPSTREAM_TIMEOUT, message, code="timeout")

"""An upstream's answer, given to the client: whole, or as a stream that is held back until
something of an answer comes."""

from __future__ import annotations

import time
from math import inf

from dragoman.accounts.pool import Lease
from dragoman.accounts.symptoms import UNREACHABLE, symptom_of_fault
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.serving.affinity import response_id
from dragoman.gateway.serving.answers import MOST_BYTES, beginning, drain, holds_events, is_stream
from dragoman.gateway.serving.context import RequestContext
from dragoman.gateway.serving.failures import Failure, failed_call
from dragoman.translation import AnswerStream, Outcome
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_EMPTY = UpstreamError.unreadable("it is empty").fault

_MOST_HELD = 64 * 1024 * 1024
"""Bytes of a handshake that are held back; a response object may repeat a large request, twice."""

_BLANK_RUN = 100
"""Characters of white space in arguments that are no mere indentation."""


async def deliver_whole(
    context: RequestContext, lease: Lease, answer: UpstreamResponse, mask: Mask
) -> None:
    """Give the client a whole answer.

    Raises:
        UpstreamError: the answer is none.
        CallError: the answer broke off.
    """
    body = mask.secrets_in(await answer.read(MOST_BYTES))
    convert = (
        context.call.stream_as_response if holds_events(body) else context.call.translate_response
    )
    context.outcome = Outcome()
    shown = convert(body, context.outcome)
    _succeeded(lease, context.outcome)
    context.remember_account(lease)
    if context.recorder is not None:
        await context.recorder.begun(lease.account.name, response_id(body))
        shown = await context.recorder.whole(shown)
    await context.visit.reply(200, shown, context.headers())


async def deliver_stream(
    context: RequestContext,
    delivery: Delivery,
    lease: Lease,
    answer: UpstreamResponse,
    sent_at: float,
) -> None:
    """Give the client a streamed answer. `sent_at` is when the call began, by the monotonic clock.

    Raises:
        UpstreamError: the answer is none, or failed before anything of it was shown.
        Failure: nothing of it came in time.
        CallError: the answer broke off before that.
    """
    chunk = await beginning(answer)
    if is_stream(answer, chunk):
        await _open_stream(context, delivery, lease, answer, chunk, sent_at)
        return
    body = chunk + await answer.read(MOST_BYTES)
    context.outcome = Outcome()
    shown = context.call.response_as_stream(body, context.outcome)
    _succeeded(lease, context.outcome)
    context.remember_account(lease)
    if context.recorder is not None:
        await context.recorder.begun(lease.account.name, response_id(body))
        shown = await context.recorder.stream(shown)
    await delivery.end(shown)


async def _open_stream(
    context: RequestContext,
    delivery: Delivery,
    lease: Lease,
    answer: UpstreamResponse,
    chunk: bytes,
    sent_at: float,
) -> None:
    """Hold the stream back until something of an answer comes, or it is whole without."""
    stream = context.call.open_stream()
    context.outcome = stream.outcome
    limit = context.target.upstream.timeouts.first_byte_s
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
            raise Failure(_late(context, told), UNREACHABLE)
    fault = stream.outcome.fault
    if not stream.begun and size <= _MOST_HELD and (fault is not None or not stream.outcome.ended):
        raise UpstreamError(fault or _EMPTY)
    context.start_stream(stream)
    lease.succeeded()
    context.remember_account(lease)
    if context.recorder is not None:
        await context.recorder.begun(lease.account.name, stream.answer_id)
    await _relay(context, delivery, stream, answer, held)
    fault = stream.outcome.fault
    if fault is None:
        _succeeded(lease, stream.outcome)
    else:
        context.record.error = fault.kind
        if fault.kind not in (FaultKind.UPSTREAM_FAILED, FaultKind.UPSTREAM_TIMEOUT):
            lease.failed(symptom_of_fault(fault))


async def _relay(
    context: RequestContext,
    delivery: Delivery,
    stream: AnswerStream,
    answer: UpstreamResponse,
    held: list[bytes],
) -> None:
    """Give a stream that has begun to the client, to its end or to the error that ends it.

    `held` is what was written so far. It is let go: it may repeat all of a large request.
    """
    feed, put, codec = stream.feed, delivery.put, context.visit.codec
    patience = context.target.upstream.timeouts.blank_arguments_s or inf
    blank_since = 0.0
    data = b"".join(held)
    held.clear()

    def pass_on(chunk: bytes) -> bool:
        """Nearly every chunk goes to the client right here; the others' events are left in `data`,
        to be dealt with below."""
        nonlocal data, blank_since
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
        return codec.translate.keepalive if data else stream.keepalive()

    delivery.keepalive = keepalive
    try:
        while not stream.over:
            if stream.blank >= _BLANK_RUN:
                now = time.monotonic()
                blank_since = blank_since or now
                if now - blank_since >= patience:
                    told = f"a tool's arguments were white space for {patience:g} s"
                    data += stream.fail(_late(context, told))
                    answer.close()
                    break
            if data:
                await delivery.write(data)
                data = b""
            if not await answer.pipe(pass_on):
                data = stream.finish()
                break
    except CallError as error:
        fault = failed_call(error, context.target.upstream.name).fault
        data = stream.fail(fault)
    if stream.cut:
        # The upstream would go on generating, at the account's cost.
        answer.close()
    if context.recorder is not None:
        data = await context.recorder.stream(data)
    await delivery.end(data)
    await drain(answer)


def _succeeded(lease: Lease, outcome: Outcome) -> None:
    lease.succeeded(0.0 if outcome.usage is None else outcome.usage.total)


def _late(context: RequestContext, told: str) -> Fault:
    message = f"The upstream {context.target.upstream.name} did not answer in time: {told}."
    return Fault(FaultKind.UPSTREAM_TIMEOUT, message, code="timeout")

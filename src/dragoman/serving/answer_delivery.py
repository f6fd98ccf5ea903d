"""What the client is sent: an upstream's answer, whole or as a stream that is held back until
something of an answer comes, or an error."""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from dragoman.accounts.decide.symptoms import UNREACHABLE, symptom_of_fault
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.edge.delivery import Delivery
from dragoman.http.clock import Clock
from dragoman.serving.affinity import names_in
from dragoman.serving.answers import (
    MOST_BYTES,
    beginning,
    drain,
    is_stream,
    translate_whole,
)
from dragoman.serving.attempts import note_failure
from dragoman.serving.context import RequestContext
from dragoman.serving.failures import Failure, broken_thought, failed_call
from dragoman.serving.large import is_large
from dragoman.serving.searches import LimitReached, Rounds
from dragoman.translation import AnswerStream
from dragoman.translation.searching import SearchesPending
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_EMPTY = UpstreamError.unreadable("it is empty").fault

_MOST_HELD = 64 * 1024 * 1024
"""Bytes that are held back at the start of a stream; a response object may repeat a large request,
twice."""

_SMALL = 64 * 1024
"""Bytes of an answer that the memory budget is not asked for."""

_STEP = 1024 * 1024
"""Bytes of a stream after which it is asked for what is kept of it until it ends, by whoever writes
its last event."""

_COPIES = 20
"""Times that what is kept of a stream is in memory while its last events are written, at most: a
Responses client is sent a text four times, each of them put together from pieces of its own."""

_PIECE = 256 * 1024
"""Bytes of the last events that are sent at once."""

BLANK_ARGUMENTS_S = 30.0
"""For which a tool's arguments may run on as nothing but white space, as those of some models do
until their output limit."""
_BLANK_RUN = 100
"""Characters of white space in arguments that are no mere indentation."""


_OF_LIMIT = "limit"
"""What ends a stream whose client may not have another call made."""


async def deliver_whole(
    context: RequestContext,
    lease: Lease,
    answer: UpstreamResponse,
    chunk: bytes = b"",
    seconds: float | None = None,
) -> None:
    """Send the client a whole answer; as a stream if it asked for one. `chunk` is what was read of
    it, which began after so many seconds.

    Raises:
        UpstreamError: the answer is an error, or unusable.
        CallError: the answer broke off.
    """
    incoming, recorder, delivery = context.incoming, context.recorder, context.delivery
    if seconds is None:
        seconds = time.perf_counter() - context.record.sent_at
    body = chunk + await answer.read(MOST_BYTES, incoming.reserve)
    _begins(context, lease, seconds, body)
    call, outcome, name = context.call, context.outcome, ""
    streamed = delivery is not None
    if context.rounds is not None:
        reply = await _searched(context, context.rounds, answer, body)
    elif is_large(body):
        reply, name = await context.large.answer(call, body, outcome, streamed=streamed)
    else:
        reply = translate_whole(call, body, outcome, streamed=streamed)
    usage = outcome.usage
    lease.succeeded(usage.input + usage.output if usage else 0.0)
    for key in context.keys.aliases:
        lease.pin(key)
    if recorder is not None:
        await recorder.begun(lease.account.name, name or call.codec.translate.answer_names(body).id)
        reply = await (recorder.stream(reply) if streamed else recorder.whole(reply))
    if delivery is not None:
        await delivery.end(reply)
        return
    if len(reply) > _SMALL:
        incoming.reserve(len(reply))
    context.note_usage()
    incoming.reply(200, reply, context.headers())


async def deliver_stream(
    context: RequestContext,
    delivery: Delivery,
    lease: Lease,
    answer: UpstreamResponse,
) -> None:
    """Send the client a streamed answer.

    Raises:
        UpstreamError: the answer is unusable, or failed before anything of it was sent.
        Failure: nothing of it came in time.
        CallError: the answer broke off before that.
    """
    seconds = time.perf_counter() - context.record.sent_at
    ending = _ending(context, answer)
    try:
        chunk = await beginning(answer)
        streams = is_stream(answer, chunk, context.call.endpoint.media)
        if streams:
            stream = context.call.open_stream()
            context.read_from(stream)
            held = [stream.feed(chunk)]
            if not stream.begun:
                await _hold_back(context, stream, answer, held)
    except CallError:
        if ending is not None and ending.rang:
            raise _nothing_came(context) from None
        raise
    finally:
        if ending is not None:
            ending.cancel()
    if not streams:
        await deliver_whole(context, lease, answer, chunk, seconds)
        return
    _begins(context, lease, time.perf_counter() - context.record.sent_at, chunk)
    context.start_stream(stream)
    thoughts = b"".join(held) if stream.thinks and context.may_go_on else b""
    if not thoughts:
        context.release()
    lease.succeeded()
    for key in context.keys.aliases:
        lease.pin(key)
    if context.recorder is not None:
        await context.recorder.begun(lease.account.name, stream.answer_id)
    try:
        cause = await _relay(context, delivery, stream, answer, held, thoughts)
    except Failure as failure:
        _blame(lease, failure.fault)
        raise
    fault = stream.outcome.fault
    if fault is None:
        usage = stream.outcome.usage
        lease.succeeded(usage.total if usage else 0.0)
    else:
        context.record.error = fault.kind
        if cause != _OF_LIMIT:
            note_failure(
                context.record, context.plan, lease, cause or fault.kind, fault.status or 0
            )
            _blame(lease, fault)


async def _searched(
    context: RequestContext, rounds: Rounds, answer: UpstreamResponse, body: bytes
) -> bytes:
    """What the client is sent for whole answers, of which `body` is the first: until the last of
    them the web is searched for the model.

    Raises:
        UpstreamError, Failure, CallError: one of them is none.
        DragomanError: a limit of the caller is used up.
    """
    call, outcome, streamed = context.call, context.outcome, context.delivery is not None
    while True:
        try:
            return translate_whole(call, body, outcome, streamed=streamed)
        except SearchesPending:
            await rounds.search()
        if not call.goes_on:
            return call.searched(outcome)
        answer = await rounds.ask(answer)
        body = await answer.read(MOST_BYTES, context.incoming.reserve)


async def _hold_back(
    context: RequestContext,
    stream: AnswerStream,
    answer: UpstreamResponse,
    held: list[bytes],
) -> None:
    """Read a stream until something of an answer comes, or it ends without. `held` is what to send
    of it so far.

    Raises:
        UpstreamError: it failed, or ended too soon.
        Failure: nothing of it came in time.
        CallError: it broke off.
        DragomanError: OVERLOADED: there is no memory for what is held back.
    """
    limit = context.plan.upstream.timeouts.first_byte_s
    size, paid = len(held[0]), _STEP
    while not stream.begun and not stream.over and size <= _MOST_HELD:
        chunk = await anext(answer, b"")
        held.append(stream.feed(chunk) if chunk else stream.finish())
        size += len(held[-1])
        if not chunk:
            break
        if limit and time.perf_counter() - context.record.sent_at > limit:
            raise _nothing_came(context)
        if size > paid:
            context.incoming.reserve(size - paid)
            paid = size
    fault = stream.outcome.fault
    if not stream.begun and size <= _MOST_HELD and (fault is not None or not stream.outcome.ended):
        raise UpstreamError(fault or _EMPTY)


async def _relay(
    context: RequestContext,
    delivery: Delivery,
    stream: AnswerStream,
    answer: UpstreamResponse,
    held: list[bytes],
    thoughts: bytes,
) -> str:
    """Send a stream that has begun to the client, to its end or to the error that ends it. Returns
    what ended it, in one word, if its call did and not what it said.

    `held` is what was held back. It is released: it may repeat all of a large request. `thoughts`
    are the first events where another account may go on if the stream breaks off while it thinks.

    Raises:
        Failure: it did.
    """
    cause = ""
    feed, try_write, codec = stream.feed, delivery.try_write, context.incoming.codec
    recorder, rounds, outcome = context.recorder, context.rounds, stream.outcome
    is_asked = True
    """Whether `answer` is that to the last request; else it is to be sent."""
    blank_since = 0.0
    data = b"".join(held)
    held.clear()
    of_first = None
    if context.thought and codec.passthrough.continuation is not None:
        of_first = codec.passthrough.continuation(context.thought)
        data = of_first(data)
    is_sent = not stream.over
    """Whether the beginning is sent."""
    room = _STEP
    paid = 1

    def pass_on(chunk: bytes) -> bool:
        """Send a chunk's events at once, as for nearly every chunk. False if that cannot be: they
        are left in `data`, for the loop below."""
        nonlocal data, blank_since, room, thoughts, paid
        room -= len(chunk)
        if room < 0:
            room += _STEP
            buffered = stream.buffered
            if not buffered:
                # Of what passes as it is the texts are recorded, and its last event may repeat it.
                context.incoming.reserve(_STEP)
            steps = buffered // _STEP - paid
            if steps > 0:
                paid += steps
                context.incoming.reserve(steps * _STEP * _COPIES)
        data = feed(chunk)
        if of_first is not None:
            data = of_first(data)
        if outcome.ended or outcome.fault is not None or stream.blank >= _BLANK_RUN:
            return False
        if rounds is not None and stream.paused:
            return False
        if thoughts and not stream.thinks:
            thoughts = b""
            context.release()
        blank_since = 0.0
        if data and ((recorder is not None and recorder.follows) or not try_write(data)):
            return False
        data = b""
        return True

    def keepalive() -> bytes:
        """What is left in `data`, or waits, has its sequence numbers: no numbered event may precede
        it."""
        return codec.translate.keepalive if data or stream.waits else stream.keepalive()

    delivery.keepalive = keepalive
    try:
        while not stream.over:
            if stream.blank >= _BLANK_RUN:
                now = time.monotonic()
                blank_since = blank_since or now
                if now - blank_since >= BLANK_ARGUMENTS_S:
                    late = f"a tool's arguments were white space for {BLANK_ARGUMENTS_S:g} s"
                    data += stream.fail(_timeout(context, late))
                    cause = "blank_arguments"
                    answer.close()
                    break
            if data and recorder is not None and recorder.follows:
                data = await recorder.follow(data)
            if data:
                await delivery.write(data)
                data = b""
            if rounds is not None and stream.paused:
                if context.incoming.gone:
                    break
                data, is_asked = await rounds.search(stream), False
                continue
            if rounds is not None and not is_asked:
                answer, is_asked = await rounds.ask(answer), True
            if not await answer.pipe(pass_on) and not stream.paused:
                data = stream.finish()
                if stream.paused:
                    continue
                data = data if of_first is None else of_first(data)
                cause = "cut_off"
                break
    except LimitReached as error:
        data, cause = stream.fail(error.fault), _OF_LIMIT
    except Failure as error:
        data, cause = stream.fail(error.fault), "refused"
    except CallError as error:
        data = stream.fail(failed_call(error, context.plan.upstream.name).fault)
        cause = error.cause
    fault = stream.outcome.fault
    if thoughts and stream.thinks and fault is not None and fault.kind in _PASSING:
        context.go_on_from(thoughts if is_sent else b"")
        raise broken_thought(fault, cause)
    if stream.cut:
        # The upstream would go on generating, at the account's cost.
        answer.close()
    if recorder is not None:
        data = await recorder.stream(data)
    sent = 0
    while len(data) - sent > _PIECE:
        # Others come between the pieces, and the client's pace is kept.
        await delivery.write(data[sent : sent + _PIECE])
        sent += _PIECE
        await asyncio.sleep(0)
    await delivery.end(data[sent:])
    if not answer.has_arrived:
        await drain(answer)
    return cause


_OF_REQUEST = (FaultKind.INVALID_REQUEST, FaultKind.CONTEXT_TOO_LONG)
"""Faults of a request that some servers report with a status of 500."""


async def deliver_refusal(context: RequestContext, failure: Failure) -> None:
    """Send the client the upstream's own error: the request itself is at fault."""
    context.record.error = failure.fault.kind
    is_of_request = failure.status >= 500 and failure.fault.kind in _OF_REQUEST
    is_misrouted = failure.fault.kind is FaultKind.MODEL_NOT_FOUND and failure.status == 400
    verbatim = (
        context.call.passes_through
        and not is_misrouted
        and 400 <= failure.status < 600
        and failure.fault.kind is not FaultKind.CONTEXT_TOO_LONG
        and not is_of_request
        and context.call.codec.translate.is_own_error(failure.body)
    )
    if verbatim and await _is_uncommitted(context):
        context.incoming.reply(failure.status, failure.body)
        return
    fault = failure.fault
    if is_misrouted:
        name, model = context.plan.upstream.name, context.plan.target.model
        message = f"The upstream {name} does not serve {model[:200]}: {fault.message}"
        fault = replace(fault, message=message)
    if failure.status >= 500 and fault.status is None and not is_of_request:
        # A rule has it returned to the client, so it keeps its status.
        fault = replace(fault, status=min(failure.status, 599))
    await deliver_fault(context, fault)


async def deliver_fault(context: RequestContext, fault: Fault) -> None:
    """Send the client an error: with its status while that is possible, else in the stream."""
    context.record.fail(fault)
    if await _is_uncommitted(context):
        context.incoming.fail(fault)
    elif context.delivery is not None:
        stream = context.stream or context.call.open_stream()
        await context.delivery.end(stream.fail(fault))


async def _is_uncommitted(context: RequestContext) -> bool:
    """Whether the answer may still have a status of its own. No keepalive that could change this
    is sent from here on."""
    if context.delivery is None:
        return True
    await context.delivery.withdraw()
    return not context.delivery.committed


_PASSING = (
    FaultKind.UPSTREAM_FAILED,
    FaultKind.UPSTREAM_TIMEOUT,
    FaultKind.OVERLOADED,
    FaultKind.RATE_LIMITED,
)
"""Faults in a stream after which another account may do better."""


def _blame(lease: Lease, fault: Fault) -> None:
    """Hold a fault in a stream against its account, if it says anything of that."""
    if fault.kind not in (FaultKind.UPSTREAM_FAILED, FaultKind.UPSTREAM_TIMEOUT):
        lease.failed(symptom_of_fault(fault))


class _Ending:
    """Ends a call after so many seconds, unless it is cancelled before."""

    __slots__ = ("_answer", "_timer", "rang")

    def __init__(self, clock: Clock, answer: UpstreamResponse, seconds: float) -> None:
        self._answer = answer
        self._timer = clock.after(seconds, self._ring)
        self.rang = False

    def _ring(self) -> None:
        self.rang = True
        self._answer.close()

    def cancel(self) -> None:
        self._timer.cancel()


def _ending(context: RequestContext, answer: UpstreamResponse) -> _Ending | None:
    """What ends the call if nothing of an answer comes for long after its head; None where
    `idle_s` does it. Over WebSocket an upstream may be silent for longer than that."""
    upstream = context.plan.upstream
    limits = upstream.timeouts
    bounded = 0 < limits.idle_s <= limits.first_byte_s and upstream.websocket == "off"
    if not limits.first_byte_s or bounded:
        return None
    return _Ending(context.incoming.clock, answer, limits.first_byte_s)


def _begins(context: RequestContext, lease: Lease, seconds: float, data: bytes) -> None:
    """A good answer began after so many seconds, with `data`. What it is known by is recorded where
    it is traced, or where one of several models may be the one that answers."""
    record, attempts = context.record, context.attempts
    named = record.admitted is not None and record.admitted.expected.named
    is_traced = record.trace is not None and record.trace.sampled
    if (named or is_traced) and not is_large(data):
        record.answered = names_in(context.call.codec, context.call.mask.secrets_in(data))
    if not context.thought:
        record.first_at = time.perf_counter()
    if attempts is not None:
        attempts.begun()
    lease.began(seconds, stream=context.call.streams)


def _nothing_came(context: RequestContext) -> Failure:
    limit = context.plan.upstream.timeouts.first_byte_s
    fault = _timeout(context, f"nothing of an answer came within {limit:g} s")
    return Failure(fault, UNREACHABLE, cause="first_byte_timeout", silent=True)


def _timeout(context: RequestContext, late: str) -> Fault:
    message = f"The upstream {context.plan.upstream.name} did not answer in time: {late}."
    return Fault(FaultKind.UPSTREAM_TIMEOUT, message, code="timeout")

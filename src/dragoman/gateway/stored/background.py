"""Responses that are made without their client: run here, told event by event to the store, and
followed, polled or stopped from whichever worker the client reaches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.edge.incoming import IncomingRequest, while_connected
from dragoman.gateway.edge.record import Record
from dragoman.gateway.stored.conversations import (
    ENDS,
    PendingResponse,
    ResponseRecorder,
    StoredConversations,
)
from dragoman.gateway.stored.response_store import ResponseStoreThread
from dragoman.http.clock import Clock
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.errors import failed_object
from dragoman.protocols.openai_responses.response_object import queued
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.sse import DONE, Decoder, Frame, encode
from dragoman.storage.responses import (
    FINISHED,
    ResponseStore,
    StoredEvent,
    StoredResponse,
    TooLarge,
)
from dragoman.translation import ClientRequest

_log = logging.getLogger("dragoman.gateway")

Run = Callable[[IncomingRequest, Caller, Record, ClientRequest, ResponseRecorder], Awaitable[None]]
"""Answers a request, whose answer is stored."""

Admit = Callable[[IncomingRequest, Caller, Record, ClientRequest], Awaitable[ClientRequest]]
"""Lets a request in, or refuses it, as `Exchange.admit`."""

Claim = Callable[[Mapping[str, float], float], Awaitable[set[str]]]
"""As `AccountSync.claim`."""

_SAVE_S = 0.2
"""Seconds between two times that new events are stored, and the store asked whether to go on."""
_POLL_S = 0.2
_CLEANUP_S = 5.0
_CLEANUP = "cleanup of responses"
_BETWEEN_SWEEPS_S = 0.05
_MOST_READ = 256
"""Events that one look into the store brings."""
_BUSY = Fault(
    FaultKind.OVERLOADED,
    "The gateway makes as many responses in the background as it may.",
    retry_after=5.0,
)
_UNKEPT = Fault(FaultKind.INTERNAL, "The response could not be kept.", code="server_error")
_STOPPED = Fault(
    FaultKind.OVERLOADED, "The gateway that made this response was stopped.", code="server_error"
)


class BackgroundTasks:
    """The responses that one worker makes in the background, whatever configuration they began
    with, and the cleanup after those of other workers, which one does of all that share a store."""

    def __init__(self, conversations: StoredConversations) -> None:
        self._responses = conversations.responses
        self._cleanup: asyncio.Task[None] | None = None
        self.running: dict[str, asyncio.Task[None]] = {}

    def start(self, responses: ResponseStoreThread | None, claim: Claim) -> None:
        """Run the periodic cleanup in the running loop: fail orphaned responses, delete expired
        ones. Whoever does it claims that by `claim`."""
        if responses is not None:
            self._cleanup = asyncio.create_task(self._run_cleanup(responses, claim))

    async def _run_cleanup(self, responses: ResponseStoreThread, claim: Claim) -> None:
        while True:
            await asyncio.sleep(_CLEANUP_S)
            now = time.time()
            if not await claim({_CLEANUP: now + 0.8 * _CLEANUP_S}, now):
                continue
            with suppress(DragomanError, TooLarge):
                await self.fail_orphans(time.time())
                swept = 1
                while swept:
                    swept = await responses.ask(lambda store: store.sweep(time.time()))
                    # Others come first: what is too old can wait.
                    await asyncio.sleep(_BETWEEN_SWEEPS_S)

    async def fail_orphans(self, now: float) -> None:
        """Fail orphaned responses: those whose worker died.

        Raises:
            DragomanError: the store cannot be used.
        """
        responses = self._responses
        if responses is None:
            return
        for stored in await responses.ask(lambda store: store.abandoned(now)):
            await responses.ask(partial(_put, _failed(stored, _STOPPED)))

    async def drain(self, grace_s: float) -> None:
        """Wait for what runs, so many seconds at most."""
        if self.running and grace_s > 0:
            await asyncio.wait(self.running.values(), timeout=grace_s)

    async def aclose(self) -> None:
        """Stop what runs, and say so in the store."""
        tasks = list(self.running.values())
        if self._cleanup is not None:
            tasks.append(self._cleanup)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Background:
    """Runs responses in the background, with one configuration. `tasks` are all that run; `run`
    answers a request; `count` is told what became of each; `log` is given the line of each, None
    for no lines; `keepalive_s` is as in `Delivery`; `most` may run at once."""

    def __init__(
        self,
        conversations: StoredConversations,
        tasks: BackgroundTasks,
        run: Run,
        clock: Callable[[], Clock],
        count: Callable[[IncomingRequest, Record], None],
        log: Callable[[bytes], None] | None,
        keepalive_s: float,
        most: int,
    ) -> None:
        self._conversations = conversations
        self._run = run
        self._clock = clock
        self._count = count
        self._log = log
        self._keepalive_s = keepalive_s
        self._most = most
        self._tasks = tasks.running

    async def begin(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        keep: PendingResponse,
        admit: Admit,
    ) -> None:
        """Begin to make a response, and answer with what there is of it: that it is queued, or its
        events as they come.

        Raises:
            DragomanError: the store cannot be used, or the request is too large for it, or too many
                run already, or a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        responses = self._responses()
        request = await admit(incoming, caller, record, request)
        if len(self._tasks) >= self._most:
            raise DragomanError(_BUSY)
        record.deferred = True
        name = keep.id
        response = queued(name, int(keep.created), {**_source(request), **request.shown})
        stored = StoredResponse(
            id=name,
            owner=keep.owner,
            created=keep.created,
            expires=responses.expiry(keep.created),
            status="queued",
            response=to_json(response),
            previous=keep.previous,
            input=keep.input,
            background=True,
        )
        try:
            await responses.ask(lambda store: store.put(stored))
        except TooLarge as error:
            raise InvalidRequest.at("background", f"cannot be kept: {error}") from None
        run = _Run(self, stored, keep, incoming, caller)
        run.record.admitted, record.admitted = record.admitted, None
        task = asyncio.create_task(run.run(caller, _streamed(request, name)))
        self._tasks[name] = task
        # Also if it is cancelled before it begins: what it used is counted, and settled.
        task.add_done_callback(lambda _: self._finish(name, run))
        if request.stream:
            await self.follow(stored, incoming, -1)
        else:
            await incoming.reply(200, stored.response)

    def _finish(self, name: str, run: _Run) -> None:
        """A response is made, or will not be."""
        del self._tasks[name]
        incoming, record = run.incoming, run.record
        self._count(incoming, record)
        if self._log is not None:
            status = incoming.status or 500
            self._log(record.line(incoming.request_id, "POST /v1/responses", status))

    async def follow(self, stored: StoredResponse, incoming: IncomingRequest, after: int) -> None:
        """Give the events of a response to a client, from the one after number `after`, as they
        come.

        Raises:
            DragomanError: the store cannot be used, or the response was not made in the background.
            ClientGone: the client left; the response goes on.
        """
        if not stored.background:
            raise DragomanError(
                Fault(
                    FaultKind.INVALID_REQUEST,
                    "Only responses made in the background can be streamed later.",
                    param="stream",
                )
            )
        done = encode(DONE) if incoming.options.of(ResponsesOptions).responses_done else b""
        delivery = Delivery(
            incoming,
            [],
            keepalive=lambda: incoming.codec.translate.keepalive,
            keepalive_s=self._keepalive_s,
            commit_after_s=0.0,
        )
        try:
            await while_connected(incoming, self._give(stored, delivery, after, done))
        finally:
            delivery.close()

    async def _give(
        self, stored: StoredResponse, delivery: Delivery, after: int, done: bytes
    ) -> None:
        responses = self._responses()
        name, owner = stored.id, stored.owner

        def look(store: ResponseStore) -> tuple[StoredResponse | None, list[StoredEvent]]:
            # The status first: what is finished tells nothing more.
            known = store.get(name, owner)
            return known, store.events(name, owner, after, _MOST_READ)

        while True:
            known, events = await responses.ask(look)
            if events:
                after = events[-1].sequence
                frames = b"".join([event.frame for event in events])
                if any(_is_end(event.frame) for event in events[-2:]):
                    await delivery.end(frames)
                    return
                await delivery.write(frames)
                continue
            if known is None or known.status in FINISHED:
                last = await responses.ask(lambda store: store.last_event(name, owner))
                number = -1 if last is None else last.sequence
                over = after > number or (last is not None and _is_end(last.frame))
                await delivery.end(b"" if over else _ended(known or stored, number + 1) + done)
                return
            await asyncio.sleep(_POLL_S)

    async def cancel(self, stored: StoredResponse) -> StoredResponse:
        """Stop a response, wherever it runs. Returns it as it is then.

        Raises:
            DragomanError: the store cannot be used.
        """
        responses = self._responses()
        await responses.ask(lambda store: store.cancel(stored.id, stored.owner))
        cancelled = _cancelled(stored)
        await responses.ask(lambda store: store.put(cancelled))
        task = self._tasks.get(stored.id)
        if task is not None:
            task.cancel()
        # It may have been finished just before.
        return await responses.ask(lambda store: store.get(stored.id, stored.owner)) or cancelled

    def _responses(self) -> ResponseStoreThread:
        responses = self._conversations.responses
        assert responses is not None
        return responses


class _Run:
    """One response that is being made: an answer to nobody, whose events go to the store."""

    def __init__(
        self,
        background: Background,
        stored: StoredResponse,
        keep: PendingResponse,
        begun: IncomingRequest,
        caller: Caller,
    ) -> None:
        self.incoming = IncomingRequest(
            _Unattended(begun, self.take), begun.codec, background._clock(), begun.path
        )
        self.record = Record()
        self.record.caller, self.record.team = caller.name, caller.team
        self._background = background
        self._stored = stored
        self._keep = keep
        self._decoder = Decoder()
        self._events: list[StoredEvent] = []
        self._status = 0
        self._body = b""
        self._over = asyncio.Event()
        self._saved = -1
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    async def run(self, caller: Caller, request: ClientRequest) -> None:
        """Make the response. Whatever happens, the store is told how it ended."""
        background, record = self._background, self.record
        saver = asyncio.create_task(self._save_events())
        self._task = asyncio.current_task()
        fault: Fault | None = None
        try:
            keeping = _FinalRecorder(background._conversations, self._keep, self)
            await background._run(self.incoming, caller, record, request, keeping)
        except asyncio.CancelledError:
            fault = _STOPPED
        except DragomanError as error:
            fault = error.fault
        except Exception as error:
            _log.error("a background response failed: %s", type(error).__name__)
            fault = Fault(FaultKind.INTERNAL, "The gateway failed unexpectedly.")
        self._over.set()
        await asyncio.wait((saver,))
        if self._status >= 400:
            fault = fault or _told(self._body)
        record.error = record.error or (fault.kind if fault is not None else "")
        await self._end(fault)

    def take(self, status: int, data: bytes) -> None:
        """A piece of the answer, whose status is this, was made."""
        self._status = status
        if status != 200:
            self._body += data
            return
        events = _events(self._decoder.feed(data))
        self._events += [event for event in events if event.sequence > self._saved]

    async def _save_events(self) -> None:
        """Append new events to the store every `_SAVE_S` seconds until the run is over."""
        begun = False
        over = False
        while not over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _SAVE_S)
            over = self._over.is_set()
            events, self._events = self._events, []
            responses = self._background._responses()
            try:
                if events and not begun:
                    begun = True
                    await self._mark_begun(responses)
                goes_on = await responses.ask(partial(_append, self._stored.id, events))
            except DragomanError:
                # The store may be back before the answer is over.
                self._events[:0] = events
                continue
            if not goes_on and self._task is not None:
                self._stopped = True
                if not self._over.is_set():
                    self._task.cancel()
                return

    async def _mark_begun(self, responses: ResponseStoreThread) -> None:
        response = {**msgspec.json.decode(self._stored.response), "status": "in_progress"}
        begun = replace(self._stored, status="in_progress", response=to_json(response))
        await responses.ask(lambda store: store.put(begun))

    async def _end(self, fault: Fault | None) -> None:
        """Store how it ended, unless that was stored with the answer itself."""
        if self._stopped:
            ended = _cancelled(self._stored)
        else:
            ended = _failed(self._stored, fault or _UNKEPT)
        try:
            await self._background._responses().ask(partial(_put, ended))
        except (DragomanError, TooLarge):
            _log.error("how a background response ended could not be kept")

    def unsaved_events(self, data: bytes) -> list[StoredEvent]:
        """The events that are not in the store yet, with those in `data`."""
        events, self._events = self._events, []
        decoder = Decoder()
        events += _events([*decoder.feed(data), *decoder.finish()])
        self._saved = max((event.sequence for event in events), default=self._saved)
        return events


class _FinalRecorder(ResponseRecorder):
    """Stores a background response in one transaction with its last events: whoever sees that it
    is over sees all of it."""

    __slots__ = ("_run",)

    def __init__(
        self, conversations: StoredConversations, pending: PendingResponse, run: _Run
    ) -> None:
        super().__init__(conversations, pending)
        self._run = run

    async def keep(self, response: bytes, data: bytes) -> bool:
        events = self._run.unsaved_events(data)
        return await self.conversations.keep(self.pending, response, events)


def _put(stored: StoredResponse, store: ResponseStore) -> None:
    store.put(stored)


def _append(name: str, events: list[StoredEvent], store: ResponseStore) -> bool:
    return store.append(name, events)


def _source(request: ClientRequest) -> JsonObject:
    source: JsonObject = msgspec.json.decode(request.body)
    return source


def _streamed(request: ClientRequest, name: str) -> ClientRequest:
    """The request as it is answered in the background: streamed, to somebody who is there."""
    members: dict[str, Any] = {**request.members, "stream": True}
    members.pop("background", None)
    shown = {**request.shown, "background": True, "id": name}
    streamed = ClientRequest(request.codec.name, to_json(members), shown)
    streamed.is_large = request.is_large
    return streamed


class _Unattended:
    """Stands in for the request of a client that does not wait: what it is answered is given to
    `take`, with the status."""

    __slots__ = ("_status", "_take", "address", "headers", "method", "on_gone", "path", "query")

    gone = False

    def __init__(self, begun: IncomingRequest, take: Callable[[int, bytes], None]) -> None:
        self.method = begun.method
        self.path = begun.path
        self.query = b""
        self.headers = begun.headers
        self.address = ""
        self.on_gone: Callable[[], object] | None = None
        self._take = take
        self._status = 0

    async def body(self, limit: int) -> bytes:
        return b""

    def hold(self, size: int) -> bool:
        return True

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        self._take(status, body)

    def start(self, status: int, lines: bytes = b"") -> None:
        self._status = status

    def put(self, data: bytes) -> bool:
        self._take(self._status, data)
        return True

    async def write(self, data: bytes) -> None:
        self._take(self._status, data)

    def end(self, data: bytes = b"") -> None:
        self._take(self._status, data)


def _events(frames: Iterable[Frame]) -> list[StoredEvent]:
    """The events to store. What ends a stream without a number of its own belongs to the last."""
    events: list[StoredEvent] = []
    for frame in frames:
        number = _numbered(frame.data)
        if number is not None:
            events.append(StoredEvent(number, frame.raw))
        elif frame.data == DONE and events:
            last = events.pop()
            events.append(StoredEvent(last.sequence, last.frame + frame.raw))
    return events


class _Numbered(msgspec.Struct):
    sequence_number: int | None = None


_numbering = jsontext.decoder(_Numbered)


def _numbered(data: bytes) -> int | None:
    try:
        return _numbering(data).sequence_number
    except JsonError:
        return None


def _is_end(frame: bytes) -> bool:
    return any(b"event: " + kind + b"\n" in frame for kind in ENDS)


def _cancelled(stored: StoredResponse) -> StoredResponse:
    response = {**msgspec.json.decode(stored.response), "status": "cancelled"}
    return replace(stored, status="cancelled", response=to_json(response))


def _failed(stored: StoredResponse, fault: Fault) -> StoredResponse:
    response = {
        **msgspec.json.decode(stored.response),
        "status": "failed",
        "error": failed_object(fault),
    }
    return replace(stored, status="failed", response=to_json(response))


def _ended(stored: StoredResponse, number: int) -> bytes:
    """The last event of a response that told none: it was cancelled, or its worker died. Clients
    know no event for a cancelled one (response_stream_event.py)."""
    kind = stored.status if stored.status in ("completed", "incomplete") else "failed"
    event = {
        "type": f"response.{kind}",
        "sequence_number": number,
        "response": msgspec.json.decode(stored.response),
    }
    return encode(to_json(event), f"response.{kind}".encode())


def _told(body: bytes) -> Fault:
    """The fault in an error answer of ours."""
    try:
        message = jsontext.decode(body)["error"]["message"]
    except (JsonError, KeyError, TypeError):
        message = "The response could not be made."
    return Fault(FaultKind.UPSTREAM_FAILED, message)

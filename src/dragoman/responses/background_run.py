"""One response that is made in the background, and how its events and its end come to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.edge.auth import Caller, without_keys
from dragoman.edge.incoming import IncomingRequest, InternalRequest
from dragoman.edge.record import Record
from dragoman.http.clock import Clock
from dragoman.http.problems import ClientGone
from dragoman.jsontext import JsonError
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.stored_answers import StoredAnswers
from dragoman.responses.conversations import (
    PendingResponse,
    ResponseRecorder,
    StoredConversations,
    stored_of,
)
from dragoman.responses.response_store import ResponseStoreThread
from dragoman.sse import DONE, Decoder, Frame, encode
from dragoman.storage.responses import (
    ResponseStore,
    StoredEvent,
    StoredResponse,
    TooLarge,
)
from dragoman.translation import ClientRequest

_log = logging.getLogger("dragoman.gateway")

Run = Callable[[IncomingRequest, Caller, Record, ClientRequest, ResponseRecorder], Awaitable[None]]
"""Answers a request, whose answer is stored."""

_SAVE_S = 0.2
"""Seconds between two times that new events are stored, and the store asked whether to go on."""

_NOT_STORED = Fault(FaultKind.INTERNAL, "The response could not be stored.", code="server_error")
STOPPED = Fault(
    FaultKind.OVERLOADED, "The gateway that made this response was stopped.", code="server_error"
)


class BackgroundRun:
    """One response that is being made: an answer to nobody, whose events go to the store."""

    def __init__(
        self,
        conversations: StoredConversations,
        answer: Run,
        clock: Clock,
        stored: StoredResponse,
        asked: StoredRequest,
        caller: Caller,
        after: int = -1,
    ) -> None:
        """Its events are numbered from the one after number `after`."""
        self._received = InternalRequest(asked.path, asked.headers)
        self.incoming = IncomingRequest(self._received, CODECS[asked.protocol], clock, asked.path)
        self.incoming.observer = self
        self.record = Record()
        self.record.caller, self.record.team = caller.name, caller.team
        self._conversations = conversations
        self._answer = answer
        self._stored = stored
        self._form = stored_of(asked.protocol)
        self._pending = PendingResponse(
            protocol=asked.protocol,
            id=stored.id,
            owner=stored.owner,
            created=stored.created,
            input=stored.input,
            previous=stored.previous,
            background=True,
            taken=stored.taken,
        )
        self._decoder = Decoder()
        self._events: list[StoredEvent] = []
        self._status = 0
        self._body = b""
        self._over = asyncio.Event()
        self._numbers = _Numbers(self._form, after)
        self._saved_all = False
        """Whether the last events are in the store: they come once more as they are sent."""
        self._stopped = False

    def start(self, caller: Caller, request: ClientRequest) -> None:
        """Begin to make the response, in `task`."""
        self.task = asyncio.create_task(self._run(caller, request))

    def stop(self, *, is_moved: bool = False) -> None:
        """Stop making it, without an event for that; another worker goes on if it `is_moved`."""
        self.incoming.is_moved = is_moved
        self._received.gone = True
        self.task.cancel()

    async def _run(self, caller: Caller, request: ClientRequest) -> None:
        """Make the response. Whatever happens, its end is stored."""
        record = self.record
        saver = asyncio.create_task(self._save_events())
        fault: Fault | None = None
        try:
            keeping = _FinalRecorder(self._conversations, self._pending, self)
            await self._answer(self.incoming, caller, record, request, keeping)
        except (asyncio.CancelledError, ClientGone):
            fault = STOPPED
        except DragomanError as error:
            fault = error.fault
        except Exception as error:
            _log.error("a background response failed: %s", type(error).__name__)
            fault = Fault(FaultKind.INTERNAL, "The gateway failed unexpectedly.")
        self._over.set()
        await asyncio.wait((saver,))
        if self._status >= 400:
            fault = fault or _fault_in(self._body)
        record.error = record.error or (fault.kind if fault is not None else "")
        await self._end(fault)

    def on_start(self, status: int, lines: bytes) -> None:
        """The answer begins."""
        self._status = status

    def on_data(self, data: bytes) -> None:
        """A piece of the answer was made."""
        if self._status != 200:
            self._body += data
            return
        if self._saved_all:
            return
        self._events += self._numbers.events(self._decoder.feed(data))

    async def _save_events(self) -> None:
        """Append new events to the store every `_SAVE_S` seconds until the run is over."""
        begun = False
        over = False
        while not over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _SAVE_S)
            over = self._over.is_set()
            events, self._events = self._events, []
            responses = self._responses()
            try:
                if events and not begun:
                    begun = True
                    await self._mark_begun(responses)
                goes_on = await responses.ask(partial(_append, self._stored, events))
            except DragomanError:
                # The store may be back before the answer is over.
                self._events[:0] = events
                continue
            if not goes_on:
                self._stopped = True
                if not self._over.is_set():
                    self.stop()
                return

    async def _mark_begun(self, responses: ResponseStoreThread) -> None:
        response = {**msgspec.json.decode(self._stored.response), "status": "in_progress"}
        begun = replace(self._stored, status="in_progress", response=to_json(response))
        await responses.ask(lambda store: store.put(begun))

    async def _end(self, fault: Fault | None) -> None:
        """Store its end, unless that was stored with the answer, or another worker continues it."""
        stored = self._stored
        ended = (
            cancelled(stored) if self._stopped else failed(stored, fault or _NOT_STORED, self._form)
        )
        try:
            ask = self._responses().ask
            left = fault is STOPPED and not self._stopped
            if left and await ask(lambda store: store.leave(stored)):
                return
            await ask(partial(put, ended))
        except (DragomanError, TooLarge):
            _log.error("the end of a background response could not be stored")

    def _responses(self) -> ResponseStoreThread:
        responses = self._conversations.responses
        assert responses is not None
        return responses

    def unsaved_events(self, data: bytes) -> list[StoredEvent]:
        """The events that are not in the store yet, with those in `data`."""
        events, self._events = self._events, []
        decoder = Decoder()
        events += self._numbers.events([*decoder.feed(data), *decoder.finish()])
        self._saved_all = True
        return events


class _FinalRecorder(ResponseRecorder):
    """Stores a background response in one transaction with its last events: who sees that it
    is over sees all of it."""

    __slots__ = ("_run",)

    def __init__(
        self, conversations: StoredConversations, pending: PendingResponse, run: BackgroundRun
    ) -> None:
        super().__init__(conversations, pending)
        self._run = run

    async def store(self, response: bytes, data: bytes) -> bool:
        events = self._run.unsaved_events(data)
        return await self.conversations.store(self.pending, response, events)


def put(stored: StoredResponse, store: ResponseStore) -> None:
    """Store a response, in the thread of the store."""
    store.put(stored)


def _append(stored: StoredResponse, events: list[StoredEvent], store: ResponseStore) -> bool:
    return store.append(stored.id, events, stored.taken)


class StoredRequest(msgspec.Struct, frozen=True):
    """The request of a background response, as it is stored for another worker to take over: the
    request as it is answered, what of it is shown, and its path and headers, without keys."""

    protocol: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes
    shown: bytes

    @classmethod
    def of(cls, incoming: IncomingRequest, request: ClientRequest) -> StoredRequest:
        """That of a request that came."""
        return cls(
            request.codec.name,
            incoming.path,
            without_keys(incoming.headers),
            request.body,
            to_json(dict(request.shown)),
        )


class _Numbers:
    """The numbers of the events of one response, from the one after number `after`: a worker that
    takes it over begins anew, and its events are numbered after those of the former."""

    __slots__ = ("_form", "_last", "_shift")

    def __init__(self, form: StoredAnswers, after: int) -> None:
        self._form = form
        self._shift = after + 1
        self._last = max(after, 0)

    def events(self, frames: Iterable[Frame]) -> list[StoredEvent]:
        """The events to store. What ends a stream without a number of its own belongs to the
        last."""
        events: list[StoredEvent] = []
        for frame in frames:
            found = self._form.number(frame.data, self._last, self._shift)
            if found is not None:
                self._last, data = found
                raw = frame.raw if data is frame.data else encode(data, frame.event)
                events.append(StoredEvent(self._last, raw))
            elif frame.data == DONE and events:
                last = events.pop()
                events.append(StoredEvent(last.sequence, last.frame + frame.raw))
        return events


def is_end(frame: bytes, form: StoredAnswers) -> bool:
    """Whether an event ends the stream of a response."""
    return any(b"event: " + kind + b"\n" in frame for kind in form.ends)


def cancelled(stored: StoredResponse) -> StoredResponse:
    """The response as it is once it was cancelled."""
    response = {**msgspec.json.decode(stored.response), "status": "cancelled"}
    return replace(stored, status="cancelled", response=to_json(response))


def failed(stored: StoredResponse, fault: Fault, form: StoredAnswers) -> StoredResponse:
    """The response as it is once it has failed."""
    response = {
        **msgspec.json.decode(stored.response),
        "status": "failed",
        **form.failed(fault),
    }
    return replace(stored, status="failed", response=to_json(response))


def _fault_in(body: bytes) -> Fault:
    """The fault in an error answer of ours."""
    try:
        message = jsontext.decode(body)["error"]["message"]
    except (JsonError, KeyError, TypeError):
        message = "The response could not be made."
    return Fault(FaultKind.UPSTREAM_FAILED, message)

"""Responses that are made without their client: begun here, and followed, polled or stopped from
whichever worker the client reaches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.config import Config
from dragoman.edge.auth import Caller, Keyring
from dragoman.edge.delivery import Delivery
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.http.clock import Clock
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.stored_answers import StoredAnswers
from dragoman.responses.background_run import (
    STOPPED,
    BackgroundRun,
    StoredRequest,
    cancelled,
    failed,
    is_end,
    put,
)
from dragoman.responses.conversations import (
    PendingResponse,
    StoredConversations,
    stored_of,
)
from dragoman.responses.response_store import ResponseStoreThread
from dragoman.serving.exchange import Exchange
from dragoman.sse import DONE
from dragoman.storage.responses import (
    FINISHED,
    LeftResponse,
    ResponseStore,
    StoredEvent,
    StoredResponse,
    TooLarge,
)
from dragoman.translation import ClientRequest

_log = logging.getLogger("dragoman.gateway")

Claim = Callable[[Mapping[str, float], float], Awaitable[set[str]]]
"""As `AccountSync.claim`."""


class Visit(Protocol):
    """What is done besides in the same round."""

    async def __call__(self, *, is_ours: bool) -> None:
        """Do it; `is_ours`: this process does it for all that share the store."""


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


class BackgroundTasks:
    """The responses that one worker makes in the background, whatever configuration they began
    with, and the cleanup after those of other workers, which one does of all that share a store."""

    def __init__(self, conversations: StoredConversations) -> None:
        self._responses = conversations.responses
        self._cleanup: asyncio.Task[None] | None = None
        self.running: dict[str, BackgroundRun] = {}

    def start(
        self,
        responses: ResponseStoreThread | None,
        claim: Claim,
        current: Callable[[], Background],
        visit: Visit,
    ) -> None:
        """Run the periodic cleanup in the running loop: make orphaned responses again by what
        `current` gives, or fail them, and delete expired ones. Whoever does it claims that by
        `claim`. Every process calls `visit`, with whether it is the one that does."""
        if responses is not None:
            cleanup = self._run_cleanup(responses, claim, current, visit)
            self._cleanup = asyncio.create_task(cleanup)

    async def _run_cleanup(
        self,
        responses: ResponseStoreThread,
        claim: Claim,
        current: Callable[[], Background],
        visit: Visit,
    ) -> None:
        is_reached = False
        """Whether the store answered the last time."""
        while True:
            await asyncio.sleep(_CLEANUP_S)
            now = time.time()
            is_ours = bool(await claim({_CLEANUP: now + 0.8 * _CLEANUP_S}, now))
            try:
                await visit(is_ours=is_ours)
            except DragomanError:
                pass
            except Exception as error:
                _log.error("batches cannot be looked after: %s", type(error).__name__)
            if not is_ours:
                is_reached = True
                continue
            try:
                if is_reached:
                    await current().take_over(time.time())
                    await self.fail_orphans(time.time())
                swept = 1
                while swept:
                    swept = await responses.ask(lambda store: store.sweep(time.time()))
                    # Others come first: what is too old can wait.
                    await asyncio.sleep(_BETWEEN_SWEEPS_S)
                is_reached = True
            except (DragomanError, TooLarge):
                is_reached = False

    async def fail_orphans(self, now: float) -> None:
        """Fail orphaned responses: those whose worker died, and that nobody may take over.

        Raises:
            DragomanError: the store cannot be used.
        """
        responses = self._responses
        if responses is None:
            return
        for stored in await responses.ask(lambda store: store.abandoned(now)):
            form = form_of(stored)
            await responses.ask(partial(put, failed(stored, STOPPED, form)))

    async def drain(self, grace_s: float) -> None:
        """Wait for what runs, so many seconds at most."""
        if self.running and grace_s > 0:
            await asyncio.wait([run.task for run in self.running.values()], timeout=grace_s)

    async def aclose(self) -> None:
        """Stop what runs, and say so in the store."""
        runs = list(self.running.values())
        tasks = [run.task for run in runs]
        if self._cleanup is not None:
            self._cleanup.cancel()
            tasks.append(self._cleanup)
        for run in runs:
            run.stop(is_moved=True)
        await asyncio.gather(*tasks, return_exceptions=True)


class Background:
    """Runs responses in the background, with one configuration."""

    def __init__(
        self,
        conversations: StoredConversations,
        tasks: BackgroundTasks,
        exchange: Exchange,
        keys: Keyring,
        clock: Callable[[], Clock],
        record_end: Callable[[IncomingRequest, Record], None],
        config: Config,
    ) -> None:
        """
        Args:
            conversations: stores responses.
            tasks: all that run, of any configuration.
            exchange: admits and answers their requests.
            keys: identifies the caller of one that another worker began.
            clock: returns that of the loop, which is not running yet.
            record_end: called when one is over.
            config: the configuration.
        """
        self._conversations = conversations
        self._exchange = exchange
        self._keys = keys
        self._again = config.storage.background_again
        self._clock = clock
        self._record_end = record_end
        self._keepalive_s = config.server.keepalive_s
        self._most = config.server.max_concurrent
        self._running = tasks.running

    async def begin(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        pending: PendingResponse,
    ) -> None:
        """Begin to make a response, and answer with what there is of it: that it is queued, or its
        events as they come.

        Raises:
            DragomanError: the store cannot be used, or the request is too large for it, or too many
                run already, or a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        responses = self._responses()
        asked = StoredRequest.of(incoming, request)
        request = await self._exchange.admit(incoming, caller, record, request)
        if len(self._running) >= self._most:
            raise DragomanError(_BUSY)
        record.deferred = True
        name = pending.id
        source = {**_source(request), **request.shown}
        response = stored_of(request.codec.name).queued(name, int(pending.created), source)
        stored = StoredResponse(
            id=name,
            owner=pending.owner,
            created=pending.created,
            expires=responses.expiry(pending.created),
            status="queued",
            response=to_json(response),
            previous=pending.previous,
            input=pending.input,
            background=True,
        )
        request_text = msgspec.msgpack.encode(asked) if self._again else b""
        try:
            await responses.ask(partial(_begin, stored, request_text))
        except TooLarge as error:
            raise InvalidRequest.at("background", f"cannot be stored: {error}") from None
        run = BackgroundRun(
            self._conversations, self._exchange.serve, self._clock(), stored, asked, caller
        )
        run.record.admitted, record.admitted = record.admitted, None
        self._start(name, run, caller, request)
        if request.stream:
            await self.follow(stored, incoming, -1)
        else:
            incoming.reply(200, stored.response)

    async def take_over(self, now: float) -> None:
        """Make responses again whose worker died, as many as there is room for; `now` in Unix
        seconds.

        Raises:
            DragomanError: the store cannot be used.
            TooLarge: as the store does.
        """
        room = self._most - len(self._running)
        if room <= 0:
            return
        responses = self._responses()
        for left in await responses.ask(lambda store: store.take_over(now, room)):
            try:
                await self._make_again(left)
            except DragomanError as error:
                await responses.ask(
                    partial(put, failed(left.stored, error.fault, form_of(left.stored)))
                )

    async def _make_again(self, left: LeftResponse) -> None:
        """Begin to make a response again.

        Raises:
            DragomanError: its key is not valid any more, or a limit refuses it.
        """
        stored = left.stored
        asked = msgspec.msgpack.decode(left.request, type=StoredRequest)
        caller = self._keys.named(stored.owner)
        request = await self._conversations.stored_request(
            asked.protocol, asked.body, msgspec.json.decode(asked.shown)
        )
        run = BackgroundRun(
            self._conversations,
            self._exchange.serve,
            self._clock(),
            stored,
            asked,
            caller,
            left.last,
        )
        request = await self._exchange.admit(run.incoming, caller, run.record, request)
        _log.info("a background response is made again: its worker was stopped")
        self._start(stored.id, run, caller, request)

    def _start(self, name: str, run: BackgroundRun, caller: Caller, request: ClientRequest) -> None:
        run.start(caller, _streamed(request, name))
        self._running[name] = run
        # Also if it is cancelled before it begins: what it used is counted, and settled.
        run.task.add_done_callback(lambda _: self._finish(name, run))

    def _finish(self, name: str, run: BackgroundRun) -> None:
        """A response is made, or will not be."""
        del self._running[name]
        self._record_end(run.incoming, run.record)

    async def follow(self, stored: StoredResponse, incoming: IncomingRequest, after: int) -> None:
        """Give the events of a response to a client, from the one after number `after`, as they
        come.

        Raises:
            DragomanError: the store cannot be used, or the response was not made in the background,
                or its protocol refuses a number that no event has.
            ClientGone: the client left; the response goes on.
        """
        if not stored.background:
            raise DragomanError(
                Fault(
                    FaultKind.INVALID_REQUEST,
                    "Only what was made in the background can be streamed later.",
                    param="stream",
                )
            )
        form = stored_of(incoming.codec.name)
        if form.unknown_event is not None and after > await self._last_number(stored):
            raise form.unknown_event()
        done = form.done(incoming.options)
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

    async def _last_number(self, stored: StoredResponse) -> int:
        """The number of the last event that a client may have got; -1 before the first."""
        last = await self._responses().ask(lambda store: store.last_event(stored.id, stored.owner))
        number = -1 if last is None else last.sequence
        if stored.status not in FINISHED or (last and is_end(last.frame, form_of(stored))):
            return number
        # It stopped without an end, and is shown with one.
        return max(number + 1, 1)

    async def _give(
        self, stored: StoredResponse, delivery: Delivery, after: int, done: bytes
    ) -> None:
        responses = self._responses()
        name, owner, form = stored.id, stored.owner, form_of(stored)

        def look(store: ResponseStore) -> tuple[StoredResponse | None, list[StoredEvent]]:
            # The status first: a finished response has no more events.
            found = store.get(name, owner)
            return found, store.events(name, owner, after, _MOST_READ)

        while True:
            found, events = await responses.ask(look)
            if events:
                after = events[-1].sequence
                frames = b"".join([event.frame for event in events])
                if any(is_end(event.frame, form) for event in events[-2:]):
                    await delivery.end(frames if frames.rstrip().endswith(DONE) else frames + done)
                    return
                await delivery.write(frames)
                continue
            if found is None or found.status in FINISHED:
                last = await responses.ask(lambda store: store.last_event(name, owner))
                number = -1 if last is None else last.sequence
                over = after > number or (last is not None and is_end(last.frame, form))
                answer = msgspec.json.decode((found or stored).response)
                await delivery.end(b"" if over else form.last(answer, number + 1) + done)
                return
            await asyncio.sleep(_POLL_S)

    async def cancel(self, stored: StoredResponse) -> StoredResponse:
        """Stop a response, wherever it runs. Returns it as it is then.

        Raises:
            DragomanError: the store cannot be used.
        """
        responses = self._responses()
        await responses.ask(lambda store: store.cancel(stored.id, stored.owner))
        stopped = cancelled(stored)
        await responses.ask(lambda store: store.put(stopped))
        run = self._running.get(stored.id)
        if run is not None:
            run.stop()
        # It may have been finished just before.
        return await responses.ask(lambda store: store.get(stored.id, stored.owner)) or stopped

    def _responses(self) -> ResponseStoreThread:
        responses = self._conversations.responses
        assert responses is not None
        return responses


def _begin(stored: StoredResponse, request: bytes, store: ResponseStore) -> None:
    """Keep a response that begins, and what it answers if that is given."""
    store.put(stored)
    if request:
        store.keep_request(stored.id, request)


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


def form_of(stored: StoredResponse) -> StoredAnswers:
    """How answers of the protocol are stored that an answer is of: its id tells."""
    return next(
        codec.endpoint.stored
        for codec in CODECS.values()
        if codec.endpoint.stored is not None and stored.id.startswith(codec.endpoint.id_prefix)
    )

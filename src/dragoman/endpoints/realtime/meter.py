"""What a realtime session uses: each of its answers is admitted before, and recorded after, as a
request of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.canonical.usage import Usage
from dragoman.edge.auth import Caller, Keyring, without_keys
from dragoman.edge.incoming import IncomingRequest, InternalRequest
from dragoman.edge.record import Record
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.client_secrets import ClientSecret
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.realtime.events import CANCEL, NOTHING, heard
from dragoman.endpoints.table import PATHS
from dragoman.endpoints.usage import Measured
from dragoman.protocols.base import Operation
from dragoman.upstream.relayed_socket import RelayedSocket

_LAST_ANSWER_S = 5.0
"""Seconds for the usage of an answer that nobody waits for any more."""

_ROW = PATHS["/v1/realtime"].rows["GET"]
_BY_SECONDS = replace(_ROW, unit="seconds")
"""Of speech whose transcription is paid by its length."""

Count = Callable[[IncomingRequest, Record], None]
"""Records a request that came in no request of HTTP."""


class Meter:
    """Counts the answers of one session, and the speech that is transcribed.

    `call` is the session's own request, whose plan and account serve it. While `is_answering`, an
    answer was begun and is not over.
    """

    def __init__(
        self,
        exchange: EndpointExchange,
        call: EndpointCall,
        keys: Keyring,
        count: Count,
        secret: ClientSecret | None = None,
        *,
        counts: bool = True,
    ) -> None:
        """`secret` is the client's, if it has one in place of a key. `counts`: what the session
        uses is not counted elsewhere."""
        self.is_answering = False
        self._counts = counts
        self._exchange = exchange
        self._call = call
        self._keys = keys
        headers = call.incoming.headers
        self._digest = keys.digest_in(headers) if secret is None else secret.digest
        self._count = count
        self._turn: EndpointCall | None = None
        """The next answer, once it is admitted."""
        self._latest = Measured(Usage())
        """What the latest answer used: the next has its conversation, and more."""
        self._transcriber = ""
        self._told: asyncio.Event | None = None

    async def admit_first(self) -> None:
        """Admit the session, and its first answer.

        Raises:
            DragomanError: a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        call = self._call
        await self._exchange.admit_session(call)
        if not self._counts:
            return
        turn = self._made(call.caller, call.incoming)
        await self._exchange.admit_turn(turn, self._latest)
        turn.incoming = self._detached()
        self._turn = turn

    def heard(self, message: bytes) -> bool:
        """Look at a message of the upstream. Returns whether `admit_next` is to be awaited before
        the next one is handled."""
        event = heard(message) if self._counts else NOTHING
        if event.kind == "began":
            self.is_answering = True
            return self._turn is None
        if event.kind == "configured":
            self._transcriber = event.model
        elif event.kind == "transcribed":
            self._settle(event.used, self._transcriber)
            return True
        elif event.kind == "answered":
            self.is_answering = False
            self._latest = event.used or self._latest
            self._settle(event.used)
            if self._told is not None:
                self._told.set()
            return True
        return False

    async def admit_next(self) -> Fault | None:
        """Admit the next answer. Returns why the session ends, if it may not be.

        A rate that is reached for now is waited for, as long as no answer is begun meanwhile.
        """
        try:
            turn = self._made(self._caller(), self._detached())
            await self._exchange.admit_turn(turn, self._latest)
        except DragomanError as error:
            waits = error.fault.kind is FaultKind.RATE_LIMITED and not self.is_answering
            return None if waits else error.fault
        self._turn = turn
        return None

    def refusal(self) -> Fault | None:
        """Why the session ends now, if its key is none any more."""
        try:
            self._caller()
        except DragomanError as error:
            # Keys that cannot be read for the moment may be good.
            return None if error.fault.kind is FaultKind.OVERLOADED else error.fault
        return None

    def _caller(self) -> Caller:
        return self._keys.named(self._call.caller.name, self._digest)

    async def finish(self, upstream: RelayedSocket | None) -> None:
        """The session is over, or did not begin: count what is being answered, once the upstream
        has reported its end, and give back what is reserved for the next answer."""
        if upstream is not None and self.is_answering and upstream.is_open:
            self._told = asyncio.Event()
            upstream.hold(False)
            upstream.send(CANCEL)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ANSWER_S):
                    await self._told.wait()
        if self.is_answering:
            self.is_answering = False
            self._settle(None)
        turn, self._turn = self._turn, None
        if turn is not None:
            self._exchange.give_back(turn)

    def upstream_gone(self) -> None:
        """No event comes any more."""
        if self._told is not None:
            self._told.set()

    def _settle(self, used: Measured | None, model: str = "") -> None:
        """Record an answer that used so much, None for an unknown amount; or what was transcribed
        by a model, if one is named."""
        turn, self._turn = self._turn, None
        turn = turn or self._made(self._call.caller, self._detached())
        record, call = turn.record, self._call
        if model:
            plan = turn.plan
            turn.follow(replace(plan, target=replace(plan.target, model=model)))
        record.account, record.attempts, record.stream = call.record.account, 1, True
        admitted = record.admitted
        if used is None:
            expected = self._latest.usage
            if admitted is not None:
                expected = admitted.expected.at_least(expected)
            used = replace(self._latest, usage=expected, estimated=True)
        if used.units.seconds and not used.usage.total:
            turn.row = _BY_SECONDS
        turn.measured = used
        turn.settle()
        turn.incoming.status = 200
        self._count(turn.incoming, record)

    def _made(self, caller: Caller, incoming: IncomingRequest) -> EndpointCall:
        call = self._call
        turn = EndpointCall(_ROW, {}, incoming, caller, Record())
        turn.names(call.model)
        turn.plans = (call.plan,)
        turn.follow(call.plan)
        turn.record.caller, turn.record.team = caller.name, caller.team
        return turn

    def _detached(self) -> IncomingRequest:
        """A request that nobody waits for an answer to."""
        one = self._call.incoming
        headers = without_keys(one.headers)
        received = InternalRequest(_ROW.path, headers, address=one.address)
        operation = Operation(name=_ROW.path)
        return IncomingRequest(received, one.codec, one.clock, _ROW.path, operation, one.options)

"""The service of the process that owns the limits of this machine: it answers what workers ask."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable

import msgspec
from msgspec.structs import replace

from dragoman.limits.balances import Balance
from dragoman.limits.messages import (
    Admit,
    Away,
    Claim,
    Decision,
    Define,
    Defined,
    Gone,
    Granted,
    Leave,
    Left,
    Look,
    LookShared,
    Refused,
    Restore,
    Room,
    Settle,
    Settled,
    Shared,
    States,
    Written,
)
from dragoman.limits.owner import Owner
from dragoman.link.messages import Handlers, LinkError, Peer
from dragoman.serving.limits import questions
from dragoman.serving.limits.borrowing import Borrowing
from dragoman.serving.limits.turns import TurnQueue
from dragoman.storage.limit_states import LimitStates

_log = logging.getLogger("dragoman.limits")

_LOOK_AGAIN_S = 0.05
"""Seconds until a worker is asked to look again for room of which this machine does not know."""

_ASK_AGAIN_S = 1.0
"""Seconds until a worker is asked again what one that is gone has written."""


class _Queue(TurnQueue[Decision]):
    """The requests that wait for their turn at a limit, as whoever came last has claimed of it."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim

    def is_of(self, claim: Claim) -> bool:
        """Whether the limit is the same as when that was claimed."""
        return (self.claim.most, self.claim.enforced) == (claim.most, claim.enforced)


class LimitService:
    """Answers the messages of `dragoman.limits.messages`. `is_shared`: limits are lent to this
    machine by a database that several share; else it has them for itself. `states` is where the
    counters of short windows are stored between two gateways."""

    def __init__(self, *, is_shared: bool = False, states: LimitStates | None = None) -> None:
        self._states = states
        self._peers: dict[Peer, None] = {}
        self._borrowing = borrowing = Borrowing(self._peers.keys) if is_shared else None
        # From a number that no owner before gave: theirs are not to be taken for ours.
        first = time.time_ns() // 1000
        self.owner = Owner(Balance if borrowing is None else borrowing.make_slice, first)
        self._queues: dict[int, _Queue] = {}
        self._await_room: dict[int, dict[Peer, None]] = {}
        """Workers to which `Room` is reported, by the limit that has refused them."""
        self._resolving: asyncio.Task[None] | None = None
        if borrowing is not None:
            borrowing.on_lent = self._lent
            borrowing.on_away = self._report_away

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(queue.count for queue in self._queues.values())

    def register(self, handlers: Handlers) -> None:
        """Have messages about limits handled here."""
        handlers.answer(questions.DEFINE, self._define)
        handlers.answer(questions.ADMIT, self._admit)
        handlers.answer(questions.LOOK, self._look)
        handlers.answer(questions.LOOK_SHARED, self._look_shared)
        handlers.answer(questions.LEAVE, self._leave)
        handlers.receive(questions.RESTORE, self._restore)
        handlers.receive(questions.RETIRE, lambda _, message: self.owner.retire(message))
        handlers.receive(questions.SETTLE, self._settle)
        handlers.receive(questions.WRITING, self.owner.writing)
        handlers.receive(questions.WRITTEN, self._written)
        handlers.on_closed(self._gone)

    def look(self, asked: bytes) -> bytes:
        """Answer a question for the states of limits that comes from no worker."""
        states = self.owner.look(questions.LOOK.read_asked(asked), time.time())
        return msgspec.msgpack.encode(states)

    def read_anew(self) -> None:
        """The gateway from which this one has taken over has ended: count what it counted since."""
        ended = {} if self._states is None else self._states.take()
        self.owner.read_anew(ended, time.time())

    async def close(self) -> None:
        """End what is under way, once no worker serves."""
        if self._states is not None:
            self._states.write(self.owner.short_windows(time.time()))
        if self._resolving is not None:
            self._resolving.cancel()
        if self._borrowing is not None:
            await self._borrowing.close()

    def _lent(self) -> None:
        assert self._borrowing is not None
        self._borrowing.forget(self.owner.take_dropped(time.time()))
        self._serve_all()

    def _define(self, peer: Peer, message: Define) -> Defined:
        if not self._peers and self._states is not None:
            self.owner.inherit(self._states.take())
        if peer not in self._peers:
            self._peers[peer] = None
            if self._borrowing is not None and self._borrowing.away_since is not None:
                peer.report(questions.AWAY, Away(self._borrowing.away_since))
        return self.owner.define(message, time.time())

    async def _leave(self, peer: Peer, message: Leave) -> Left:
        if self._borrowing is not None and self._peers.keys() == {peer}:
            await self._borrowing.give_back()
        return Left()

    def _restore(self, peer: Peer, message: Restore) -> None:
        self.owner.restore(message, time.time())

    def _look(self, peer: Peer, message: Look) -> States:
        return self.owner.look(message, time.time())

    def _look_shared(self, peer: Peer, message: LookShared) -> Shared:
        return Shared(self.owner.shared(time.time()))

    def _settle(self, peer: Peer, message: Settle) -> None:
        self.owner.settle(peer, message, time.time())
        if self.owner.reached:
            self._report_reached(peer)
        if self._queues:
            self._serve(one.number for one in message.limits)
        if self._await_room:
            self._look_for_room(one.number for one in message.limits)

    def _written(self, peer: Peer, message: Written) -> None:
        self.owner.written(peer, done=message.done)

    def _gone(self, peer: Peer) -> None:
        """The connection of a worker has ended."""
        self._peers.pop(peer, None)
        for peers in self._await_room.values():
            peers.pop(peer, None)
        self.owner.gone(peer)
        if self.owner.doubts and (self._resolving is None or self._resolving.done()):
            self._resolving = asyncio.ensure_future(self._resolve())
        self._serve_all()

    async def _resolve(self) -> None:
        """Ask other workers, which have the store, what writers that are gone have written."""
        while self.owner.doubts:
            for writer in list(self.owner.doubts):
                for peer in list(self._peers):
                    try:
                        answer = await peer.ask(questions.GONE, Gone(writer))
                    except LinkError:
                        continue
                    self.owner.resolve(writer, answer.mark)
                    break
            await asyncio.sleep(_ASK_AGAIN_S)

    def _report_reached(self, peer: Peer) -> None:
        """Report the shares of limits that were reached to the worker that has used them."""
        for one in self.owner.reached:
            peer.report(questions.REACHED, one)
        self.owner.reached.clear()

    def _report_away(self, since: float) -> None:
        for peer in self._peers:
            peer.report(questions.AWAY, Away(since))

    def _admit(self, peer: Peer, message: Admit) -> Decision | Awaitable[Decision]:
        decision = self._decide(peer, message, time.time())
        if not isinstance(decision, Refused):
            return decision
        if self._borrowing is not None or message.claims[decision.place].queue_s:
            return self._wait(peer, message, decision)
        return self._with_room_reported(peer, message, decision)

    def _with_room_reported(self, peer: Peer, message: Admit, decision: Refused) -> Refused:
        """A refusal, upon which `Room` is reported later where that is wanted."""
        if message.awaits_room:
            number = message.claims[decision.place].number
            self._await_room.setdefault(number, {})[peer] = None
            if self._borrowing is not None:
                # Others may give back what is missing here, of which this machine does not know.
                loop = asyncio.get_running_loop()
                loop.call_later(_LOOK_AGAIN_S, self._report_room, number)
        return decision

    def _report_room(self, number: int) -> None:
        for peer in self._await_room.pop(number, ()):
            peer.report(questions.ROOM, Room(number))

    def _look_for_room(self, numbers: Iterable[int]) -> None:
        now = time.time()
        for number in numbers:
            if number in self._await_room:
                balance = self.owner.balances.get(number)
                if balance is None or balance.left(now) > 0:
                    self._report_room(number)

    def _decide(self, peer: Peer, message: Admit, now: float) -> Decision:
        refused = self._refused_by_queue(message, now) if self._queues else None
        if refused is not None:
            return refused
        decision = self.owner.admit(peer, message, now)
        if self.owner.reached:
            self._report_reached(peer)
        return decision

    def _refused_by_queue(self, message: Admit, now: float) -> Refused | None:
        """Whoever has just come waits behind those that wait at one of its limits."""
        for place, claim in enumerate(message.claims):
            queue = self._queues.get(claim.number)
            if queue is None or not queue.count:
                continue
            if not queue.is_of(claim):
                # The limit was changed since they came: they wait no longer than it says now.
                queue.claim = claim
                queue.serve()
                if not queue.count:
                    continue
            return Refused(place, claim.amount, 0, 0, now + 1.0, now + 1.0)
        return None

    async def _wait(self, peer: Peer, message: Admit, refused: Refused) -> Decision:
        """Borrow what is missing, and wait for a turn at limits of requests at one time: at several
        one after the other, but at each no longer than it says in all. Cancelled when the client or
        the worker is gone."""
        begun = time.monotonic()
        decision: Decision = refused
        if self._borrowing is not None:
            amounts = self.owner.amounts(message, time.time())
            decision = await self._borrowing.borrow(
                amounts, refused, lambda: self._decide(peer, message, time.time())
            )
        while isinstance(decision, Refused):
            claim = message.claims[decision.place]
            if not claim.queue_s or not claim.most:
                return self._with_room_reported(peer, message, decision)
            queue = self._queues.get(claim.number)
            if queue is None:
                queue = self._queues[claim.number] = _Queue(claim)
            if not queue.has_room(message.caller, claim.queue_size):
                return replace(decision, queue_is_full=True)
            seconds = claim.queue_s - (time.monotonic() - begun)
            given = await self._turn(peer, message, decision.place, queue, seconds)
            if given is None:
                free_at = self.owner.balances[claim.number].free_at(time.time(), decision.amount)
                return replace(decision, free_at=free_at)
            decision = given
        return decision

    async def _turn(
        self, peer: Peer, message: Admit, place: int, queue: _Queue, seconds: float
    ) -> Decision | None:
        """What a request is given when it is its turn, also the refusal of another limit; None if
        it was not within `seconds`."""
        number = message.claims[place].number

        def attempt() -> Decision | None:
            claims = list(message.claims)
            now = queue.claim
            claims[place] = replace(claims[place], most=now.most, enforced=now.enforced)
            found = self.owner.admit(peer, replace(message, claims=tuple(claims)), time.time())
            self._report_reached(peer)
            return None if isinstance(found, Refused) and found.place == place else found

        def give_back(given: Decision) -> None:
            if isinstance(given, Granted):
                pairs = zip(message.claims, given.amounts, strict=True)
                settled = tuple([Settled(claim.number, amount, 0) for claim, amount in pairs])
                self.owner.settle(peer, Settle(given.at, settled, is_stored=False), time.time())

        try:
            if self._borrowing is None:
                return await queue.wait(message.caller, attempt, give_back, seconds)
            with self._borrowing.waiting(self.owner.balances[number]):
                return await queue.wait(message.caller, attempt, give_back, seconds)
        finally:
            if not queue.count and self._queues.get(number) is queue:
                del self._queues[number]

    def _serve(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            queue = self._queues.get(number)
            if queue is not None:
                queue.serve()

    def _serve_all(self) -> None:
        self._serve(list(self._queues))
        self._look_for_room(list(self._await_room))

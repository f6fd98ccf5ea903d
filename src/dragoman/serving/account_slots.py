"""`max_concurrent` of accounts over all workers, and over all machines that share a database.

The number of requests that an account may have in flight is a limit like others: a worker asks the
owner of limits for a slot for each request, and gives it back when the request is over. While the
database is away each machine holds to the number by itself; so does a worker whose owner is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dragoman.config.limits import Limit
from dragoman.limits.messages import (
    Admit,
    Claim,
    Decision,
    Define,
    Granted,
    Room,
    Settle,
    Settled,
    Unknown,
)
from dragoman.link.messages import LinkError, Peer
from dragoman.serving.limits import questions


class AccountSlots:
    """Implements `dragoman.accounts.slots.Slots` for one worker. `on_room` is called with the name
    of an account of which the owner may have a slot again."""

    def __init__(self, owner: Peer, on_room: Callable[[str], None]) -> None:
        self._owner = owner
        self._on_room = on_room
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._free: dict[str, int] = {}
        self._in_use: dict[str, int] = {}
        self._rooms: Counter[str] = Counter()
        """How often there was room again of each account."""
        owner.handlers.receive(questions.ROOM, self._room)
        owner.handlers.on_closed(self._closed)

    def take(self, name: str, most: int) -> bool:
        """See `Slots.take`."""
        free, in_use = self._free.get(name, 0), self._in_use.get(name, 0)
        if free:
            self._free[name] = free - 1
        elif not self._owner.is_closed or in_use >= most:
            return False
        self._in_use[name] = in_use + 1
        return True

    def give_back(self, name: str) -> None:
        """See `Slots.give_back`."""
        self._in_use[name] -= 1
        self._free[name] = self._free.get(name, 0) + 1

    def return_free(self, name: str) -> None:
        """See `Slots.return_free`."""
        if free := self._free.pop(name, 0):
            self._return(self._numbers.get(name, 0), free)

    async def borrow(self, name: str, most: int) -> bool:
        """See `Slots.borrow`."""
        while True:
            rooms = self._rooms[name]
            try:
                decision = await self._ask(name, most)
            except LinkError:
                return self._owner.is_closed and self._in_use.get(name, 0) < most
            if isinstance(decision, Granted):
                self._free[name] = self._free.get(name, 0) + 1
                return True
            if self._rooms[name] == rooms:
                return False
            # There was room again before this refusal was read.

    async def _ask(self, name: str, most: int) -> Decision:
        while True:
            number = self._numbers.get(name) or await self._define(name, most)

            def give_back(decision: Decision, number: int = number) -> None:
                """The request has left that had asked."""
                if isinstance(decision, Granted):
                    self._return(number, 1)

            admit = Admit("", (Claim(number, 1, most),), awaits_room=True)
            decision = await self._owner.ask(questions.ADMIT, admit, give_back)
            if not isinstance(decision, Unknown):
                return decision
            # Another request may have removed it.
            if self._names.pop(number, None) is not None:
                del self._numbers[name]

    async def _define(self, name: str, most: int) -> int:
        limit = Limit(kind="concurrent", amount=most, when_away="open")
        defined = await self._owner.ask(questions.DEFINE, Define(((f"account\n{name}", limit),)))
        (number,) = defined.numbers
        self._numbers[name], self._names[number] = number, name
        return number

    def _return(self, number: int, count: int) -> None:
        settled = (Settled(number, count, 0),)
        self._owner.report(questions.SETTLE, Settle(0.0, settled, is_stored=False))

    def _room(self, owner: Peer, message: Room) -> None:
        if (name := self._names.get(message.number)) is not None:
            self._rooms[name] += 1
            self._on_room(name)

    def _closed(self, owner: Peer) -> None:
        """Requests that wait are served by what is in use here."""
        for name in self._numbers:
            self._on_room(name)

"""Who is signed in to the administration, and whose sign-ins were refused: owned for all workers.

Of what a cookie holds only the SHA-256 is known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.store import StoreError
from dragoman.edge.rates import PerMinute
from dragoman.link.messages import (
    Answer,
    Asked,
    Handlers,
    LinkError,
    Notice,
    Peer,
    Question,
)
from dragoman.storage.sessions import Session, SessionFile

MOST: Final = 16
"""Sessions of one key at once: a further one ends the one that was idle longest."""

MOST_REFUSED: Final = 5
"""Sign-ins of one address in a minute, from the first, whose answers say why they are refused."""

_MOST_ADDRESSES: Final = 256

_WRITTEN_EVERY_S: Final = 60.0
"""Seconds after which it is stored that a session was used."""


class Begin(Struct, frozen=True):
    """Someone signs in."""

    digest: bytes
    name: str
    mark: bytes


class Find(Struct, frozen=True):
    """Asks for the session of a cookie, which is used by that."""

    digest: bytes


class Found(Struct, frozen=True):
    """The session, None if there is none or it has ended."""

    session: Session | None = None


class End(Struct, frozen=True):
    """Someone signs out."""

    digest: bytes


class Refused(Struct, frozen=True):
    """A sign-in of an address was refused."""

    address: str


class Wait(Struct, frozen=True):
    """For how many seconds there were too many of them; 0 if there were not."""

    seconds: float


BEGIN = Question("sessions.begin", Begin, Session)
FIND = Question("sessions.find", Find, Found)
END = Notice("sessions.end", End)
REFUSED = Question("sessions.refused", Refused, Wait)


class SessionOwner:
    """All sessions. `file` is where they are stored, None for nowhere."""

    def __init__(
        self,
        handlers: Handlers,
        file: SessionFile | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._written_at = 0.0
        self._refused = PerMinute(_MOST_ADDRESSES, clock)
        handlers.answer(BEGIN, self._begin)
        handlers.answer(FIND, self._find)
        handlers.receive(END, self._end)
        handlers.answer(REFUSED, self._count_refusal)

    def close(self) -> None:
        """Store when sessions were used last."""
        if self._sessions:
            self._read()
            self._write()

    def _begin(self, worker: Peer, message: Begin) -> Session:
        self._read()
        now = self._clock()
        living = {digest: one for digest, one in self._sessions.items() if one.lives(now)}
        same = [digest for digest, one in living.items() if one.name == message.name]
        if len(same) >= MOST:
            del living[min(same, key=lambda digest: living[digest].seen)]
        session = living[message.digest] = Session(message.name, message.mark, now, now)
        self._sessions = living
        self._write()
        return session

    def _find(self, worker: Peer, message: Find) -> Found:
        self._read()
        session, now = self._sessions.get(message.digest), self._clock()
        if session is None or not session.lives(now):
            return Found()
        session = self._sessions[message.digest] = replace(session, seen=now)
        if now - self._written_at >= _WRITTEN_EVERY_S:
            self._write()
        return Found(session)

    def _end(self, worker: Peer, message: End) -> None:
        self._read()
        if self._sessions.pop(message.digest, None) is not None:
            self._write()

    def _count_refusal(self, worker: Peer, message: Refused) -> Wait:
        return Wait(self._refused.count(message.address, MOST_REFUSED))

    def _read(self) -> None:
        if self._file is not None and (found := self._file.changed()) is not None:
            self._sessions = found

    def _write(self) -> None:
        self._written_at = self._clock()
        if self._file is not None:
            self._file.write(self._sessions)


class Sessions:
    """The sessions, as a worker asks for them.

    Raises:
        StoreError: nobody knows them, since the gateway is ending.
    """

    def __init__(self, owner: Peer) -> None:
        self._owner = owner

    async def begin(self, digest: bytes, name: str, mark: bytes) -> Session:
        """Someone signed in; `digest` is that of the cookie."""
        return await self._ask(BEGIN, Begin(digest, name, mark))

    async def find(self, digest: bytes) -> Session | None:
        """The session of a cookie, None if there is none, or it has ended. It is used by that."""
        return (await self._ask(FIND, Find(digest))).session

    def end(self, digest: bytes) -> None:
        """End the session of a cookie, if there is one."""
        self._owner.report(END, End(digest))

    async def count_refusal(self, address: str) -> float:
        """Count a sign-in of an address that is refused. Returns the seconds for which there were
        too many."""
        try:
            return (await self._ask(REFUSED, Refused(address))).seconds
        except StoreError:
            return 0.0  # the gateway is ending

    async def _ask(self, question: Question[Asked, Answer], message: Asked) -> Answer:
        try:
            return await self._owner.ask(question, message)
        except LinkError:
            raise StoreError("the gateway is ending") from None

"""Who is signed in to the administration, and who tried wrong keys: owned for all workers.

Of what a cookie holds only the SHA-256 is known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.store import StoreError
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

MOST: Final = 64
"""Sessions at once: a further one ends the one that was idle longest."""

MOST_FAILURES: Final = 5
"""Wrong keys that one address may sign in with in a minute from the first."""

_FAILURES_S: Final = 60.0
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


class MayTry(Struct, frozen=True):
    """Asks whether someone at an address may sign in."""

    address: str


class Wait(Struct, frozen=True):
    """In how many seconds: 0 if it is now."""

    seconds: float


class Failed(Struct, frozen=True):
    """A wrong key came from an address."""

    address: str


BEGIN = Question("sessions.begin", Begin, Session)
FIND = Question("sessions.find", Find, Found)
END = Notice("sessions.end", End)
MAY_TRY = Question("sessions.may_try", MayTry, Wait)
FAILED = Notice("sessions.failed", Failed)


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
        self._failures: dict[str, tuple[float, int]] = {}
        """By address: when the first was within a minute, and how many there are."""
        handlers.answer(BEGIN, self._begin)
        handlers.answer(FIND, self._find)
        handlers.receive(END, self._end)
        handlers.answer(MAY_TRY, self._may_try)
        handlers.receive(FAILED, self._failed)

    def close(self) -> None:
        """Store when sessions were used last."""
        if self._sessions:
            self._read()
            self._write()

    def _begin(self, worker: Peer, message: Begin) -> Session:
        self._read()
        now = self._clock()
        living = {digest: one for digest, one in self._sessions.items() if one.lives(now)}
        if len(living) >= MOST:
            del living[min(living, key=lambda digest: living[digest].seen)]
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

    def _may_try(self, worker: Peer, message: MayTry) -> Wait:
        began, count = self._failures.get(message.address, (0.0, 0))
        now = self._clock()
        if count < MOST_FAILURES or not 0 <= now - began < _FAILURES_S:
            return Wait(0.0)
        return Wait(began + _FAILURES_S - now)

    def _failed(self, worker: Peer, message: Failed) -> None:
        now = self._clock()
        began, count = self._failures.pop(message.address, (now, 0))
        if not 0 <= now - began < _FAILURES_S:
            began, count = now, 0
        if len(self._failures) >= _MOST_ADDRESSES:
            del self._failures[min(self._failures, key=lambda one: self._failures[one][0])]
        self._failures[message.address] = began, count + 1

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

    async def wait(self, address: str) -> float:
        """Seconds until a key is looked at that comes from an address; 0 if it is now."""
        return (await self._ask(MAY_TRY, MayTry(address))).seconds

    def failed(self, address: str) -> None:
        """A wrong key came from an address."""
        self._owner.report(FAILED, Failed(address))

    async def _ask(self, question: Question[Asked, Answer], message: Asked) -> Answer:
        try:
            return await self._owner.ask(question, message)
        except LinkError:
            raise StoreError("the gateway is ending") from None

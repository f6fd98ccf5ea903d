"""The owner of credentials: it decides when one is obtained, once for all workers.

It obtains none itself: it asks one of the workers that want it, which have the connections to do
so, and reports the outcome to all.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

from dragoman.accounts.credentials.decide.refreshing import (
    FIRST_RETRY_S,
    Credential,
    CredentialError,
    CredentialFailure,
    next_failure,
    refresh_at,
)
from dragoman.accounts.credentials.messages import (
    KNOWN,
    LEAVE,
    OBTAIN,
    WANT,
    Known,
    Leave,
    Obtain,
    Want,
)
from dragoman.link.messages import Handlers, LinkError, Peer

_log = logging.getLogger("dragoman.accounts")

_ANSWER_S = 90.0
"""Seconds in which a worker has to obtain a credential."""


class CredentialOwner:
    """Answers the messages of `dragoman.accounts.credentials.messages`. `clock` is Unix time, in
    seconds; `spread` gives numbers in [0, 1) that keep refreshes apart."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._entries: dict[str, _Entry] = {}

    def register(self, handlers: Handlers) -> None:
        """Have messages about credentials handled here."""
        handlers.answer(WANT, self._want)
        handlers.receive(LEAVE, self._leave)
        handlers.on_closed(self._gone)

    async def close(self) -> None:
        """Obtain no more."""
        tasks = [entry.task for entry in self._entries.values()]
        self._entries.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self, peer: Peer, want: Want) -> Known:
        entry = self._entries.get(want.id)
        if entry is None:
            entry = self._entries[want.id] = _Entry(want.id)
            entry.task = asyncio.get_running_loop().create_task(self._run(entry))
        entry.peers[peer] = None
        dead = want.dead
        if dead is not None and dead.is_same(entry.credential):
            entry.kill()
            self._tell(entry)
        return entry.known()

    def _leave(self, peer: Peer, leave: Leave) -> None:
        entry = self._entries.get(leave.id)
        if entry is not None:
            self._remove(entry, peer)

    def _gone(self, peer: Peer) -> None:
        for entry in list(self._entries.values()):
            self._remove(entry, peer)

    def _remove(self, entry: _Entry, peer: Peer) -> None:
        entry.peers.pop(peer, None)
        if not entry.peers:
            entry.task.cancel()
            del self._entries[entry.id]

    async def _run(self, entry: _Entry) -> None:
        """Obtain a credential whenever it is time to."""
        soonest = 0.0
        while True:
            at = refresh_at(entry.credential, entry.failure, self._clock(), self._spread())
            # A service that caches what it hands out may have nothing newer yet.
            at = max(at, soonest)
            entry.woken.clear()
            if at == inf:
                await entry.woken.wait()
            elif (seconds := at - self._clock()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await entry.woken.wait()
            entry.learn(await self._obtained(entry))
            soonest = self._clock() + FIRST_RETRY_S
            self._tell(entry)

    def _tell(self, entry: _Entry) -> None:
        for peer in entry.peers:
            peer.report(KNOWN, entry.known())

    async def _obtained(self, entry: _Entry) -> Known:
        """What a worker has obtained."""
        ask = Obtain(entry.id, entry.dead, entry.failure)
        for peer in list(entry.peers):
            try:
                async with asyncio.timeout(_ANSWER_S):
                    return await peer.ask(OBTAIN, ask)
            except (LinkError, TimeoutError):
                continue
        error = CredentialError("unavailable", "no worker could obtain a credential")
        return Known(entry.id, failure=next_failure(entry.failure, error, self._clock()))


class _Entry:
    """One credential: who wants it, and what is known of it."""

    task: asyncio.Task[None]

    def __init__(self, id: str) -> None:
        self.id = id
        self.peers: dict[Peer, None] = {}
        self.credential: Credential | None = None
        self.dead: Credential | None = None
        self.failure: CredentialFailure | None = None
        self.woken = asyncio.Event()

    def known(self) -> Known:
        return Known(self.id, self.credential, self.failure)

    def kill(self) -> None:
        """The service has refused the credential as expired."""
        self.dead, self.credential, self.failure = self.credential, None, None
        self.woken.set()

    def learn(self, known: Known) -> None:
        if known.credential is not None:
            self.credential, self.failure = known.credential, None
        else:
            self.failure = known.failure

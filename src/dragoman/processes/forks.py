"""Keeps threads and forks apart: a lock that a thread holds would be held forever in the child."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Forks:
    """When a process may be forked from this one. Belongs to one event loop, which does not run
    while a process is forked."""

    def __init__(self) -> None:
        self._preventing = 0
        self._none_wanted = asyncio.Event()
        self._none_wanted.set()

    @asynccontextmanager
    async def prevented(self) -> AsyncIterator[None]:
        """No process is forked meanwhile, such as while a thread works. Not to be nested: a fork
        that is wanted goes first."""
        await self._none_wanted.wait()
        self._preventing += 1
        try:
            yield
        finally:
            self._preventing -= 1

    def may_fork(self) -> bool:
        """Whether a process may be forked now. If not, it is wanted, and `prevented` waits until
        `forked` is called."""
        self._none_wanted.clear()
        return not self._preventing

    def forked(self) -> None:
        """No further process is wanted."""
        self._none_wanted.set()

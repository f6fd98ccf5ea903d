"""What is counted or decided for all workers together, at its owner."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from dragoman.processes.forks import Forks
from dragoman.processes.take_over import Predecessor
from dragoman.server.common import Common
from dragoman.server.reloading import Reload, ServedConfiguration


class OwnerServices:
    """The owner of what the workers of one gateway have in common. It is in the process that starts
    them, or in the only one. `replace` ends the worker of a number, for another to be started in
    its place."""

    def __init__(self, served: ServedConfiguration, replace: Callable[[int], None]) -> None:
        self.served = served
        self.common = Common(served.config)
        self.owner = self.common.owner
        self.forks = Forks()
        self.reload = Reload(served, self.owner, self.forks, replace)

    async def start(self) -> None:
        """Begin, in the running event loop."""
        await self.reload.start()

    def follow(self, predecessor: Predecessor) -> None:
        """Have the gateway from which this one takes over end, and count what it has counted until
        then."""
        process = predecessor.stop()
        if process is None:
            self.common.limits.read_anew()
            return
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(process)
            os.close(process)
            self.common.limits.read_anew()

        loop.add_reader(process, ended)

    def on_hangup(self) -> None:
        """SIGHUP came: read the configuration anew."""
        self.reload.begin()

    async def close(self) -> None:
        """End."""
        await self.reload.close()
        await self.common.close()

"""Exchanges with the ledgers of limits, which a worker makes in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dragoman.limits.balances import window_of
from dragoman.limits.ledgers import Away, Ledger, Ledgers, Loan, is_ahead, lend
from dragoman.limits.messages import Exchange, Exchanged

_log = logging.getLogger("dragoman.limits")

_HUNG_S: Final = 4.0
"""Seconds after which an exchange is given up."""


class LedgerExchange:
    """Reports to `ledgers` what the machine has used."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-limits")

    def close(self) -> None:
        """Give the ledgers up."""
        self._thread.submit(self._ledgers.close)
        self._thread.shutdown(wait=False)

    async def exchange(self, message: Exchange) -> Exchanged:
        """See `Exchange`."""
        loop = asyncio.get_running_loop()
        hung = loop.call_later(_HUNG_S, self._ledgers.abort)
        try:
            return await loop.run_in_executor(self._thread, self._exchange, message)
        except Away as error:
            return Exchanged(away=str(error))
        finally:
            hung.cancel()

    async def read(self, names: Sequence[str]) -> Mapping[str, Ledger]:
        """The ledgers of these names, as they are called in the database; none while that is
        away."""
        loop = asyncio.get_running_loop()
        hung = loop.call_later(_HUNG_S, self._ledgers.abort)
        try:
            return await loop.run_in_executor(self._thread, self._ledgers.read, names)
        except Away:
            return {}
        finally:
            hung.cancel()

    def _exchange(self, message: Exchange) -> Exchanged:
        """In the thread."""
        loans: dict[str, Loan | None] = {}
        at = 0.0

        def decide(ledgers: Mapping[str, Ledger], now: float) -> None:
            nonlocal at
            at = now
            for name, limit, report, seed in message.reports:
                if is_ahead(ledgers[name], now):
                    _log.warning("what was used of limits is of a clock ahead: counted as of now")
                loans[name] = lend(ledgers[name], report, window_of(limit), now, seed)

        names = sorted(name for name, _, _, _ in message.reports)
        self._ledgers.exchange(names, decide)
        return Exchanged(tuple([loans[name] for name, _, _, _ in message.reports]), at)

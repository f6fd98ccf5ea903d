"""Workers of one machine in one process, whose accounts' slots have one owner."""

from __future__ import annotations

from dragoman.accounts.pool import AccountPool
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.link.peers import LocalPeer
from dragoman.serving.account_slots import AccountSlots
from dragoman.serving.limits.service import LimitService


class Machine:
    """The owner of all slots. `pools` are those of its workers, in the order of their coming."""

    def __init__(self) -> None:
        self.owner = Owner()
        LimitService().register(self.owner.handlers)
        self.pools: list[AccountPool] = []
        self.links: list[LocalPeer] = []

    def add(self, pool: AccountPool) -> AccountPool:
        """Have a pool be that of a further worker."""
        link = self.owner.join(Handlers(), len(self.pools))
        pool.share(AccountSlots(link, pool.has_room))
        self.pools.append(pool)
        self.links.append(link)
        return pool

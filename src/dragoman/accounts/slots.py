"""Slots of accounts: what a request needs of an account that has a `max_concurrent`.

All slots have one owner, who lends them to the workers. A worker asks for one when a request needs
it, and gives it back when the request has ended.
"""

from __future__ import annotations

from typing import Protocol


class Slots(Protocol):
    """The slots that this worker was lent."""

    def take(self, name: str, most: int) -> bool:
        """Take a slot of an account that has `most` in all; False if none is free here."""

    def give_back(self, name: str) -> None:
        """A request that had taken a slot has ended: it is free here."""

    def return_free(self, name: str) -> None:
        """Return the slots of an account that are free here to their owner."""

    async def borrow(self, name: str, most: int) -> bool:
        """Ask the owner for a slot of an account. Returns whether one is free here then. If not,
        `AccountPool.has_room` is called once there may be one."""

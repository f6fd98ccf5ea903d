"""The configuration that is served now, for what outlives each of them."""

from __future__ import annotations

from typing import Protocol

from dragoman.accounts.pool import AccountPool
from dragoman.config import Config


class Generation(Protocol):
    """What one configuration was made into."""

    @property
    def number(self) -> int:
        """How many there were up to it."""

    @property
    def config(self) -> Config:
        """The configuration itself."""

    @property
    def pool(self) -> AccountPool:
        """Its accounts."""


class Current:
    """What is served now. It is another at each reload, so it is asked for whenever it is needed,
    and taken once where several things must fit together."""

    generation: Generation

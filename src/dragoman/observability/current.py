"""The generation in service, for parts that outlive it."""

from __future__ import annotations

from typing import Protocol

from dragoman.accounts.pool import AccountPool
from dragoman.config import Config


class Generation(Protocol):
    """The objects built from one configuration."""

    @property
    def number(self) -> int:
        """Its number, counted from 1."""

    @property
    def config(self) -> Config:
        """The configuration itself."""

    @property
    def pool(self) -> AccountPool:
        """Its account pool."""


class Current:
    """The generation in service. A reload replaces it: read `generation` whenever it is needed, and
    once where several of its objects must fit together."""

    generation: Generation

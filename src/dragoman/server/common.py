"""What the workers of one gateway have in common, at its owner."""

from __future__ import annotations

import secrets

from dragoman.accounts.credentials.owner import CredentialOwner
from dragoman.admin.sessions import SessionOwner
from dragoman.config import Config
from dragoman.edge.logins import relay_logins
from dragoman.link.owner import Owner
from dragoman.observability.metrics.board import Board
from dragoman.serving.limits.service import LimitService
from dragoman.storage.opening import limit_states_for, sessions_for


class Common:
    """The owner of what is counted or decided for all workers, but for the configuration itself.
    `name` is that of the gateway, which no other has."""

    def __init__(self, config: Config) -> None:
        self.name = secrets.token_hex(6)
        self.owner = Owner()
        self.board = Board(self.owner.handlers)
        self.sessions = SessionOwner(self.owner.handlers, sessions_for(config))
        self.limits = LimitService(
            is_shared=config.storage.url is not None, states=limit_states_for(config)
        )
        self.limits.register(self.owner.handlers)
        self.credentials = CredentialOwner()
        self.credentials.register(self.owner.handlers)
        relay_logins(self.owner)

    async def close(self) -> None:
        """End, once no worker serves."""
        await self.limits.close()
        await self.credentials.close()
        self.sessions.close()

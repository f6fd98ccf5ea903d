"""`GET /managed/settings`: what Claude Code takes over of a person's settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from dragoman.agents.claude_code import canonical, checksum
from dragoman.canonical.errors import FaultKind
from dragoman.config.access_rules import SignInRule
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.keys.ring import Caller
from dragoman.serving.offered_models import OfferedModels

PATH: Final = "/managed/settings"


class ManagedSettings:
    """The managed settings of one configuration. All is answered from memory: Claude Code begins no
    session while it gets an error of the server. `rule_of` finds the rule by which a caller signed
    in, None for a key."""

    def __init__(self, offered: OfferedModels, rule_of: Callable[[str], SignInRule | None]) -> None:
        self._offered = offered
        self._rule_of = rule_of

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`GET` of the settings of the caller, or 304 where it has them.

        Raises:
            DragomanError: NOT_FOUND: there are none.
        """
        settings = self._offered.settings_of(caller, self._rule_of(caller.name), time.time())
        if settings is None:
            raise refusal(FaultKind.NOT_FOUND, "There are no managed settings.", code="not_found")
        text = canonical(settings)
        found = checksum(text)
        tag = f'"{found}"'.encode()
        headers = [(b"etag", tag), (b"cache-control", b"private, no-cache")]
        if tag in incoming.headers.get(b"if-none-match", b"").replace(b",", b" ").split():
            incoming.reply(304, b"", headers)
            return
        id = uuid5(NAMESPACE_URL, found)
        body = f'{{"uuid":"{id}","checksum":"{found}","settings":{text}}}'
        incoming.reply(200, body.encode(), headers)

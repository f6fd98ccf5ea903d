"""Copies of what was said, for keys whose bodies are kept. Only their requests pay for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from dragoman.canonical.masking import Mask
from dragoman.edge.incoming import Asked

BodyName = Literal["client_request", "upstream_request", "upstream_answer", "client_answer"]

BODY_NAMES: tuple[BodyName, ...] = (
    "client_request",
    "upstream_request",
    "upstream_answer",
    "client_answer",
)

_LONGEST_SECRET = 8192
"""Bytes beyond what is kept, so that no secret is cut in two before it is hidden."""


class KeptBodies:
    """The bodies of one request, each up to `most` bytes; of several attempts those of the last.
    `size` is what is held of them."""

    __slots__ = ("_masks", "_most", "_parts", "_totals", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: dict[BodyName, list[bytes]] = {}
        self._totals: dict[BodyName, int] = {}
        self._masks: list[Mask] = []
        self.size = 0

    def begin(self, mask: Mask | None) -> None:
        """Another attempt is made, with the account whose secrets `mask` hides."""
        for name in ("upstream_request", "upstream_answer"):
            self.size -= sum(map(len, self._parts.pop(name, ())))
            self._totals.pop(name, None)
        if mask is not None and mask not in self._masks:
            self._masks.append(mask)

    def add(self, name: BodyName, data: bytes) -> None:
        """Keep what is said next."""
        before = self._totals.get(name, 0)
        self._totals[name] = before + len(data)
        room = self._most + _LONGEST_SECRET - before
        if room > 0 and data:
            part = data[:room]
            self._parts.setdefault(name, []).append(bytes(part))
            self.size += len(part)

    def bodies(self) -> dict[BodyName, tuple[bytes, int]]:
        """What was kept of each, with the accounts' secrets hidden, and how long it was."""
        return {
            name: (self._hidden(b"".join(parts)), self._totals[name])
            for name, parts in self._parts.items()
        }

    def _hidden(self, data: bytes) -> bytes:
        for mask in self._masks:
            data = mask.secrets_in(data)
        return data[: self._most]


class CopyingRequest:
    """A client's request whose answer is copied on its way."""

    def __init__(self, request: Asked, kept: KeptBodies) -> None:
        self._request = request
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    @property
    def on_gone(self) -> Callable[[], object] | None:
        """What is called when the client leaves."""
        return self._request.on_gone

    @on_gone.setter
    def on_gone(self, call: Callable[[], object] | None) -> None:
        self._request.on_gone = call

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Give a whole answer."""
        self._kept.add("client_answer", body)
        self._request.respond(status, lines, body)

    def put(self, data: bytes) -> bool:
        """Send a piece of an answer, if that takes no waiting."""
        if not self._request.put(data):
            return False
        self._kept.add("client_answer", data)
        return True

    async def write(self, data: bytes) -> None:
        """Send a piece of an answer."""
        self._kept.add("client_answer", data)
        await self._request.write(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of an answer."""
        self._kept.add("client_answer", data)
        self._request.end(data)

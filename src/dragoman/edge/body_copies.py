"""Copies of bodies, for keys whose bodies are stored. Other requests pay nothing for it."""

from __future__ import annotations

from typing import Literal

from dragoman.canonical.masking import Mask

BodyName = Literal["client_request", "upstream_request", "upstream_answer", "client_answer"]

BODY_NAMES: tuple[BodyName, ...] = (
    "client_request",
    "upstream_request",
    "upstream_answer",
    "client_answer",
)

_LONGEST_SECRET = 8192
"""Bytes copied beyond what is stored, so that no secret is cut in two before it is hidden."""


class BodyCopies:
    """The bodies of one request, each up to `most` bytes; of several attempts those of the last.
    `size` is that of all copies."""

    __slots__ = ("_masks", "_most", "_parts", "_totals", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: dict[BodyName, list[bytes]] = {}
        self._totals: dict[BodyName, int] = {}
        self._masks: list[Mask] = []
        self.size = 0

    def on_request(self, mask: Mask, body: bytes) -> None:
        """Another attempt is made with this body, with the account whose secrets `mask` hides."""
        for name in ("upstream_request", "upstream_answer"):
            self.size -= sum(map(len, self._parts.pop(name, ())))
            self._totals.pop(name, None)
        if mask not in self._masks:
            self._masks.append(mask)
        self.add("upstream_request", body)

    def add(self, name: BodyName, data: bytes) -> None:
        """Copy the next part of a body."""
        before = self._totals.get(name, 0)
        self._totals[name] = before + len(data)
        room = self._most + _LONGEST_SECRET - before
        if room > 0 and data:
            part = data[:room]
            self._parts.setdefault(name, []).append(bytes(part))
            self.size += len(part)

    def on_answer(self, record: object, status: int) -> None:
        """The upstream begins to answer it."""

    def on_answer_data(self, data: bytes) -> None:
        """The upstream's answer goes on."""
        self.add("upstream_answer", data)

    def on_start(self, status: int, lines: bytes) -> None:
        """The answer to the client begins."""

    def on_data(self, data: bytes) -> None:
        """The client is sent this."""
        self.add("client_answer", data)

    def bodies(self) -> dict[BodyName, tuple[bytes, int]]:
        """The copy of each body, with the accounts' secrets hidden, and the length of the body."""
        return {
            name: (self._hidden(b"".join(parts)), self._totals[name])
            for name, parts in self._parts.items()
        }

    def _hidden(self, data: bytes) -> bytes:
        for mask in self._masks:
            data = mask.secrets_in(data)
        return data[: self._most]

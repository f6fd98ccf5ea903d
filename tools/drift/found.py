"""One thing that is not accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What it is."""

    FIELD = "field"
    MEMBER = "union member"
    EVENT = "event"
    WORD = "word"


@dataclass(frozen=True, order=True)
class Drift:
    """`where` names the protocol and the place, `what` the field, type or word, `why` what the
    gateway would do with it."""

    where: str
    kind: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} {self.what}: {self.why}"

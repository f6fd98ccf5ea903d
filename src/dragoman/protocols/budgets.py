"""Budgets, as programs of a protocol show them to who uses them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from dragoman.canonical.errors import Fault
from dragoman.protocols.fields import JsonObject

ClientHeaders = Mapping[bytes, bytes]
"""Headers of a client's request, their names in lower case."""

Headers = list[tuple[bytes, bytes]]

_DAY_S: Final = 86_400
_ROUNDING: Final = 1e-9
"""What a share of just so many percent may lack of that, as a binary number."""


class BudgetUse(Struct, frozen=True, gc=False):
    """How much a client has used of a budget, or of another quota that is used up, `at` some moment
    (Unix seconds).

    `share` is the part of it that is used, 1 or more for all. It begins anew at `resets_at` (Unix
    seconds, infinity: never) and lasts for `seconds` (infinity: for all time). `window` is that in
    words: ` per month`. `is_team`: a team has it together.
    """

    at: float
    share: float
    resets_at: float
    seconds: float
    window: str
    is_team: bool = False

    @property
    def percent(self) -> int:
        """The used part in whole percent, less than 100 as long as something is left."""
        return int(min(self.share, 1.0) * 100 + _ROUNDING)

    @property
    def resets(self) -> int | None:
        """When it begins anew, in whole Unix seconds; None for never."""
        return None if math.isinf(self.resets_at) else math.ceil(self.resets_at)

    @property
    def resets_in(self) -> float | None:
        """Seconds until it begins anew; None for never."""
        return None if math.isinf(self.resets_at) else self.resets_at - self.at

    @property
    def minutes(self) -> int | None:
        """How long it lasts, in minutes; None for all time."""
        return None if math.isinf(self.seconds) else round(self.seconds / 60)

    @property
    def period(self) -> str:
        """About how long it lasts: `daily`, `weekly` or `monthly`."""
        days = self.seconds / _DAY_S
        return "daily" if days < 2 else "weekly" if days < 10 else "monthly"


class Spending(Struct, frozen=True):
    """What a client may spend and has spent, in US cents. `use` is that of the fullest of
    its budgets, None if it has none. `limit` and `used` are of that budget, None if the client may
    not know, or `used` what was spent in this `month` without one; `day` and `week` are the same of
    these."""

    use: BudgetUse | None
    limit: int | None
    used: int | None
    day: int | None = None
    week: int | None = None


class BudgetNotices(Struct, frozen=True, kw_only=True):
    """How budgets are reported to programs of a protocol. Which program asks is known by the
    headers of its request."""

    notice: Callable[[ClientHeaders, Callable[[], BudgetUse]], Headers] = lambda client, use: []
    """Headers of a good answer to a client with a budget; its use is found out where a program
    shows it."""
    refusal: Callable[[ClientHeaders, Fault, BudgetUse | None], tuple[Fault, Headers] | None] = (
        lambda client, fault, use: None
    )
    """The error, and its headers, for a client whose budget is used up, or cannot be counted
    (None); None if this client gets the error that any other does."""
    path: str = ""
    """Path at which a client asks what it may spend; empty if none does."""
    write: Callable[[Spending], JsonObject] = lambda spending: {}
    """The answer to that."""

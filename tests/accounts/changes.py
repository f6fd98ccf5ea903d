"""What outcomes make of an account that something is known of already: the second half of the
decision table.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.accounts.decide.states import (
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Rest,
    Source,
    Succeeded,
)
from dragoman.failing import Verdict
from tests.accounts.shapes import ACTIVE, DISABLED, NOW

MODEL = "gpt-5"
KEY, OTHER_KEY = "print-1", "print-2"
_AS_BEFORE = "as before"


class Known(Struct, frozen=True):
    """What is known of an account at `NOW`, in an operator's words and as data."""

    told: str
    state: AccountState


def _cooling(seconds: float, began: float, model: str = MODEL, **more: object) -> AccountState:
    rest = Rest(NOW + seconds, "why", since=NOW - began, **more)  # type: ignore[arg-type]
    return AccountState("a", cooling={model: rest})


def _exhausted(seconds: float, began: float, by_upstream: bool = False) -> AccountState:
    rest = Rest(NOW + seconds, "why", since=NOW - began, by_upstream=by_upstream)
    return AccountState("a", refused_key=KEY, exhausted=rest)


STATES: dict[str, Known] = {
    "active": Known("active", AccountState("a")),
    "last": Known("used last for 1 s more", _cooling(1, 0.5, soft=True)),
    "rests": Known("rests 2 s more, by our own estimate", _cooling(2, 1)),
    "told": Known("rests 20 s more, as the upstream asked", _cooling(20, 1, by_upstream=True)),
    "whole": Known("rests 30 s more, for every model", _cooling(30, 1, model="", by_upstream=True)),
    "other": Known("rests 20 s more, for another model", _cooling(20, 1, model="other")),
    "tried": Known("on trial after two rests in a row", _cooling(-1, 5, streak=2)),
    "out": Known("out for 30 min more, by our own estimate", _exhausted(1800, 1800)),
    "out_told": Known(
        "out for 5 h more, as the upstream said", _exhausted(18000, 60, by_upstream=True)
    ),
    "trial": Known("on trial after it was out", _exhausted(-1, 3600)),
    "refused": Known(
        "disabled since its key was refused", AccountState("a", disabled="why", refused_key=KEY)
    ),
    "by_hand": Known("disabled by hand", AccountState("a", disabled="maintenance", by_hand=True)),
}
"""Accounts, by a short name."""


class Change(Struct, frozen=True):
    """An outcome, in an operator's words and as data, and what it makes of which accounts. Those
    that are not named stay as they were.
    """

    told: str
    outcome: Outcome
    makes: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> str:
        """What the outcome makes of the account of that name."""
        return next((what for what, names in self.makes.items() if name in names), _AS_BEFORE)


def failed(
    verdict: Verdict,
    *,
    rest: float | None = None,
    soft: bool = False,
    every_model: bool = False,
    source: Source = "traffic",
) -> Failed:
    """A failure and the decision upon it."""
    decision = Decision(verdict, "why", soft, rest, every_model)
    return Failed(decision, source=source, key=KEY)


_UNPUNISHED = {ACTIVE: ("active", "other")}
_ALL_IN = ("active", "last", "rests", "told", "whole", "other", "tried")

CHANGES: tuple[Change, ...] = (
    Change(
        "A passing limit, and the upstream does not say until when",
        failed(Verdict.COOL),
        {
            "rests 2 s, for this model": ("active", "last", "other"),
            "rests 2 s, for this model, then on trial": ("trial",),
            "rests 8 s, for this model, then on trial": ("tried",),
        },
    ),
    Change(
        "A passing limit of 5 s, as the upstream says",
        failed(Verdict.COOL, rest=5.0),
        {
            "rests 5 s, for this model": ("active", "last", "rests", "other"),
            "rests 5 s, for this model, then on trial": ("tried", "trial"),
        },
    ),
    Change(
        "A passing limit of 1 min, as the upstream says",
        failed(Verdict.COOL, rest=60.0),
        {
            "rests 1 min, for this model": ("active", "last", "rests", "told", "whole", "other"),
            "rests 1 min, for this model, then on trial": ("tried", "trial"),
        },
    ),
    Change(
        "A passing limit of 1 min for every model (a row with `every_model`)",
        failed(Verdict.COOL, rest=60.0, every_model=True),
        {
            "rests 1 min, for every model": _ALL_IN[:-1],
            "rests 1 min, for every model, then on trial": ("tried", "trial"),
        },
    ),
    Change(
        "The service fails",
        failed(Verdict.COOL, soft=True),
        {
            "used last for 1 s, for this model": ("active", "other", "trial"),
            "used last for 4 s, for this model": ("tried",),
        },
    ),
    Change(
        "Quota is spent, and the upstream does not say until when",
        failed(Verdict.EXHAUST),
        {
            "out for 1 h, then on trial": _ALL_IN,
            "out for 2 h, then on trial": ("trial",),
        },
    ),
    Change(
        "Quota is spent for 10 min, as the upstream says",
        failed(Verdict.EXHAUST, rest=600.0),
        {"out for 10 min, then on trial": (*_ALL_IN, "out", "out_told", "trial")},
    ),
    Change(
        "Quota is spent for 7 days, as the upstream says",
        failed(Verdict.EXHAUST, rest=7 * 86400.0),
        {"out for 7 d, then on trial": (*_ALL_IN, "out", "out_told", "trial")},
    ),
    Change(
        "Quota is spent for a year, as the upstream says: longer than any quota lasts",
        failed(Verdict.EXHAUST, rest=365 * 86400.0),
        {"out for 31 d, then on trial": (*_ALL_IN, "out", "out_told", "trial")},
    ),
    Change(
        "The key is refused",
        failed(Verdict.DISABLE),
        {DISABLED: (*_ALL_IN, "out", "out_told", "trial")},
    ),
    Change("The request is at fault", failed(Verdict.RETURN_TO_CLIENT), _UNPUNISHED),
    Change(
        "No answer, or one that another account may better", failed(Verdict.TRY_NEXT), _UNPUNISHED
    ),
    Change(
        "A good answer",
        Succeeded(),
        {ACTIVE: ("active", "other"), "active": ("last", "tried", "trial")},
    ),
    Change(
        "A probe is answered well",
        Succeeded("probe"),
        {
            ACTIVE: ("active", "other"),
            "active": ("last", "rests", "tried", "out", "out_told", "trial"),
        },
    ),
    Change(
        "A probe finds quota still spent",
        failed(Verdict.EXHAUST, source="probe"),
        {
            "out for 1 h, then on trial": _ALL_IN,
            "out for 2 h, then on trial": ("trial",),
        },
    ),
    Change(
        "A person tests it, and it answers well",
        Succeeded("operator"),
        {
            ACTIVE: ("active", "other"),
            "active": ("last", "rests", "tried", "out", "out_told", "trial", "refused"),
        },
    ),
    Change(
        "A person enables it",
        Enabled(),
        {
            ACTIVE: ("active", "other"),
            "active": (
                *("last", "rests", "told", "whole", "tried", "out", "out_told", "trial"),
                *("refused", "by_hand"),
            ),
        },
    ),
    Change(
        "A person disables it",
        Disabled("maintenance"),
        {"disabled by hand": (*_ALL_IN, "out", "out_told", "trial", "refused")},
    ),
    Change(
        "It is given another key",
        KeyChanged(OTHER_KEY),
        {
            ACTIVE: ("active", "other"),
            "active": ("out", "out_told", "trial", "refused"),
        },
    ),
    Change("It is given the same key again", KeyChanged(KEY), _UNPUNISHED),
)
"""Every kind of outcome."""

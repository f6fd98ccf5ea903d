"""An account as the rotation sees it: what it is set up for, and where it stands. Pure data."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.accounts.states import AccountState, Rest

BUSY = "busy"
"""Why an account that has as many requests in flight as it may cannot be chosen."""


class Terms(Struct, frozen=True):
    """What an account is set up for: see `dragoman.config.Account`, whose names these are."""

    name: str
    models: tuple[str, ...] | None = None
    priority: int = 0
    weight: float = 1.0
    max_concurrent: int | None = None
    balance: float | None = None


class Queue(Protocol):
    """Where an account waits to be chosen."""

    def add(self, member: Member) -> None:
        """Put a member in where it belongs now."""


class Member:
    """One account of a rotation. Changed by the rotation alone.

    `out` is why it serves no model now (empty: it may serve some) and `out_until` when that ends,
    `busy` whether its requests in flight are all it may have; it is `barred` if either holds, and
    `label` is why. `soft` is a rest for every model for which it is only avoided, `apart` what
    keeps it from single models while it is not out.

    `used` is when it was last chosen, here or elsewhere; `passed` is its place in an order by
    weight. `trials` are the models (empty: all) for which a request in flight is to show whether it
    can be used again, with that choice; `background` are requests elsewhere that are no trial.
    `held` is a rest that is not its own fault, such as its proxy's. `missing` are the lanes that
    let it drop because it was barred or avoided; `gone` is whether it was withdrawn.
    """

    __slots__ = (
        "apart",
        "audience",
        "background",
        "balance",
        "barred",
        "busy",
        "elsewhere",
        "gone",
        "held",
        "in_flight",
        "label",
        "missing",
        "name",
        "ordinal",
        "out",
        "out_until",
        "passed",
        "priority",
        "soft",
        "state",
        "terms",
        "trials",
        "used",
    )

    def __init__(self, terms: Terms, ordinal: int) -> None:
        self.name = terms.name
        self.terms = terms
        self.priority = terms.priority
        self.ordinal = ordinal
        self.audience = 0
        self.state = AccountState(terms.name)
        self.out = ""
        self.out_until: float | None = None
        self.busy = False
        self.label = ""
        self.barred = False
        self.gone = False
        self.soft: Rest | None = None
        self.held: Rest | None = None
        self.apart: dict[str, Rest] = {}
        self.trials: dict[str, object] = {}
        self.in_flight = 0
        self.elsewhere = 0
        self.background = 0
        self.balance = terms.balance
        self.used = 0.0
        self.passed = 0.0
        self.missing: dict[Queue, None] = {}

    def __repr__(self) -> str:
        return f"Member({self.name})"

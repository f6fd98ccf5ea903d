"""Counting what requests used, by account, client, model and route. Pure: the time is an argument.

Counts are summed in memory and taken a few times a second to be written to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, Self, TypeVar

from dragoman.accounts.store import (
    ChargeCount,
    ChargeKey,
    ErrorKey,
    LastError,
    UsageCount,
    UsageKey,
)
from dragoman.canonical.usage import Usage
from dragoman.prices.lookup import Basis, Charge

OTHER = "(other)"
"""The model under which further names are counted once there are `MOST_MODELS` of an hour."""

MOST_MODELS = 256
"""Names of models that one worker counts separately in an hour, beside those it knows. Where a
pattern leads to an upstream, clients choose the names."""

MOST_COUNTS = 50_000
"""Sums that are held separately while no store takes them; beyond, only by client and route."""

_MOST_ERRORS = 20_000
"""Counts of failed attempts that are held while no store takes them; further ones are dropped."""

_MOST_TOKENS = 10**12
"""Tokens that an answer may have to be charged: whoever tells of more is not believed."""

_HOUR_S = 3600
_LONGEST_NAME = 200

_Key = tuple[int, str, str, str, str]
_ChargeKey = tuple[int, str, str, str, str, Basis]


class Meter:
    """Sums of what has been used since they were last taken.

    `known` are names of models that are always counted separately: those that the configuration
    spells out.
    """

    __slots__ = ("_charges", "_counts", "_errors", "_hour", "_known", "_last_errors", "_models")

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._models: dict[str, str] = {}
        self._counts: dict[_Key, UsageCount] = {}
        self._errors: dict[ErrorKey, int] = {}
        self._last_errors: dict[str, LastError] = {}
        self._charges: dict[_ChargeKey, ChargeCount] = {}
        self._hour = -1

    def know(self, names: Iterable[str]) -> None:
        """Count these models separately from now on, besides those that are counted already."""
        self._known = frozenset(names)

    def count(
        self,
        now: float,
        account: str,
        client: str,
        model: str,
        route: str,
        usage: Usage | None,
        milliseconds: float,
        *,
        failed: bool = False,
        metered: bool = True,
        attempts: int = 0,
    ) -> None:
        """Add one request that ended at `now` (Unix seconds).

        `account`, `client` and `model` are empty where there was none. `metered` is false for
        requests whose answers are not paid for in tokens, such as counts: `usage` is then left
        out. `attempts` are those of this account for it that did not fail.
        """
        sums = self._sums(now, account, client, model, route)
        sums.requests += 1
        sums.attempts += attempts
        sums.milliseconds += milliseconds
        if failed:
            sums.errors += 1
        if not metered:
            return
        if usage is None:
            if not failed:
                sums.unmetered += 1
            return
        sums.input += usage.input
        sums.output += usage.output
        sums.cached += usage.cached or 0
        sums.cache_write += usage.cache_write or 0
        sums.reasoning += usage.reasoning or 0

    def count_failed(
        self,
        now: float,
        account: str,
        client: str,
        model: str,
        route: str,
        error: LastError,
        *,
        retried: bool,
    ) -> None:
        """Add one attempt that failed, for a request that ended at `now` (Unix seconds); `retried`
        tells that another attempt followed."""
        sums = self._sums(now, account, client, model, route)
        sums.attempts += 1
        sums.failed += 1
        sums.retries += retried
        self._last_errors[account] = error
        self._add_errors(ErrorKey(self._hour, account, error.kind), 1)

    def _sums(self, now: float, account: str, client: str, model: str, route: str) -> UsageCount:
        """The sums of the hour of `now` that a request belongs to."""
        hour = int(now) // _HOUR_S * _HOUR_S
        if hour != self._hour:
            self._begin_hour(hour)
        name = self._models.get(model)
        if name is None:
            name = self._admit(model)
        key = (hour, account, client, name, route)
        sums = self._counts.get(key)
        return self._begin(key) if sums is None else sums

    def _add_errors(self, key: ErrorKey, count: int) -> None:
        if key in self._errors or len(self._errors) < _MOST_ERRORS:
            self._errors[key] = self._errors.get(key, 0) + count

    def _begin_hour(self, hour: int) -> None:
        self._hour = hour
        self._models.clear()

    def take_errors(self) -> tuple[dict[ErrorKey, int], dict[str, LastError]]:
        """The failed attempts counted since the last call, and the last of each account."""
        taken = self._errors, self._last_errors
        self._errors, self._last_errors = {}, {}
        return taken

    def restore_errors(self, errors: Mapping[ErrorKey, int], last: Mapping[str, LastError]) -> None:
        """Put back what was taken and could not be written."""
        for key, count in errors.items():
            self._add_errors(key, count)
        self._last_errors = {**last, **self._last_errors}

    def charge(
        self,
        now: float,
        account: str,
        client: str,
        model: str,
        route: str,
        usage: Usage,
        charge: Charge,
    ) -> None:
        """Add what one answer costs, whose request was counted."""
        name = self._models.get(model)
        if name is None:
            name = self._admit(model)
        basis = charge.basis
        key = (int(now) // _HOUR_S * _HOUR_S, account, client, name, route, basis)
        sums = self._charges.get(key)
        if sums is None:
            if name == OTHER or len(self._charges) >= MOST_COUNTS:
                # What is not told apart by its model cannot be priced anew by it.
                basis = Basis(basis.upstream, OTHER, prices=basis.prices)
                key = (*key[:3], OTHER, route, basis)
            sums = self._charges.setdefault(key, ChargeCount())
        sums.requests += 1
        if usage.input + usage.output + (usage.searches or 0) > _MOST_TOKENS:
            sums.unpriced += 1
            return
        # As in `Price.cost_of`: no part is more than the whole.
        cached = min(usage.cached or 0, usage.input)
        written = min(usage.cache_write or 0, usage.input - cached)
        sums.input += usage.input
        sums.output += usage.output
        sums.cached += cached
        sums.cache_write += written
        sums.cache_write_1h += min(usage.cache_write_1h or 0, written)
        sums.reasoning += min(usage.reasoning or 0, usage.output)
        sums.searches += usage.searches or 0
        if charge.cost is None:
            sums.unpriced += 1
        else:
            sums.cost += charge.cost

    def take_charges(self) -> dict[ChargeKey, ChargeCount]:
        """Everything charged since the last call."""
        taken, self._charges = self._charges, {}
        return {ChargeKey(*key[:5], *key[5]): sums for key, sums in taken.items()}

    def restore_charges(self, charges: Mapping[ChargeKey, ChargeCount]) -> None:
        """Put back what was taken and could not be written."""
        for key, sums in charges.items():
            basis = Basis(key.upstream, key.priced_as, key.tier, key.above, key.prices)
            own = (key.hour, key.account, key.client, key.model, key.route, basis)
            self._charges.setdefault(own, ChargeCount()).add(sums)

    def take(self) -> dict[UsageKey, UsageCount]:
        """Everything counted since the last call."""
        taken, self._counts = self._counts, {}
        return {UsageKey(*key): sums for key, sums in taken.items()}

    def restore(self, usage: Mapping[UsageKey, UsageCount]) -> None:
        """Put back what was taken and could not be written."""
        for key, sums in usage.items():
            own = (key.hour, key.account, key.client, key.model, key.route)
            mine = self._counts.get(own)
            if mine is None:
                mine = self._begin(own)
            mine.add(sums)

    def _begin(self, key: _Key) -> UsageCount:
        """The sums for `key`, of which there are none yet."""
        if len(self._counts) >= MOST_COUNTS:
            hour, _, client, _, route = key
            return self._counts.setdefault((hour, OTHER, client, OTHER, route), UsageCount())
        sums = self._counts[key] = UsageCount()
        return sums

    def _admit(self, model: str) -> str:
        """The name to count a model under: its own as long as there is room for one."""
        if model in self._known or not model:
            return model
        if len(self._models) >= MOST_MODELS:
            return OTHER
        self._models[model] = shown = model[:_LONGEST_NAME]
        return shown


class _Sums(Protocol):
    def add(self, other: Self, /) -> None: ...


_K = TypeVar("_K")
_C = TypeVar("_C", bound=_Sums)

DIMENSIONS = ("account", "client", "model", "route")
"""What usage can be grouped by."""


def totals(
    usage: Mapping[UsageKey, UsageCount], by: Iterable[str] = ()
) -> dict[tuple[str, ...], UsageCount]:
    """The sums of `usage` for each combination of the dimensions `by` (of `DIMENSIONS`, and
    `hour`), ordered by these; with no dimension all of it under `()`.

    Raises:
        AttributeError: there is no such dimension.
    """
    return _totals(usage, by, UsageCount)


def charged(
    charges: Mapping[ChargeKey, ChargeCount], by: Iterable[str] = ()
) -> dict[tuple[str, ...], ChargeCount]:
    """As `totals`, of what was charged."""
    return _totals(charges, by, ChargeCount)


def _totals(
    counts: Mapping[_K, _C], by: Iterable[str], empty: Callable[[], _C]
) -> dict[tuple[str, ...], _C]:
    names = tuple(by)
    sums: dict[tuple[str, ...], _C] = {}
    for key, count in counts.items():
        group = tuple(str(getattr(key, name)) for name in names)
        found = sums.get(group)
        if found is None:
            found = sums[group] = empty()
        found.add(count)
    return dict(sorted(sums.items()))

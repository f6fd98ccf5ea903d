"""Counting what requests used, by account, client, model, route, upstream, team, end user and tags.
Pure: the time is an argument.

Counts are summed in memory and taken a few times a second to be written to the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import astuple

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

MOST_USERS = 1000
"""End users that one worker counts separately in an hour, whom clients name as they like."""

MOST_TAGS = 256
"""Combinations of tags that one worker counts separately in an hour."""

MOST_COUNTS = 50_000
"""Sums that are held separately while no store takes them; beyond, only by client and route."""

_MOST_ERRORS = 20_000
"""Counts of failed attempts that are held while no store takes them; further ones are dropped."""

_HOUR_S = 3600
_LONGEST_NAME = 200

_Key = tuple[int, str, str, str, str, str, str, str, str]
_ChargeKey = tuple[int, str, str, str, str, str, str, str, Basis]
"""As `ChargeKey`, but for the basis: that has the upstream."""


class Attribution(Struct, frozen=True, gc=False):
    """What usage is attributed to. Names are empty where there is none; `tags` is one text."""

    account: str
    client: str
    model: str
    route: str
    upstream: str = ""
    team: str = ""
    user: str = ""
    tags: str = ""


class Meter:
    """Sums of what has been used since they were last taken.

    `known` are names of models that are always counted separately: those that the configuration
    spells out.
    """

    __slots__ = (
        "_charges",
        "_counts",
        "_errors",
        "_hour",
        "_known",
        "_last_errors",
        "_models",
        "_tags",
        "_users",
    )

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._models: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._tags: dict[str, str] = {}
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
        whose: Attribution,
        usage: Usage | None,
        milliseconds: float,
        *,
        failed: bool = False,
        metered: bool = True,
        estimated: bool = False,
        attempts: int = 0,
    ) -> None:
        """Add one request that ended at `now` (Unix seconds).

        `metered` is false for requests whose answers are not paid for in tokens, such as counts:
        `usage` is then left out. `estimated`: the upstream did not report all of `usage`.
        `attempts` are those of the request that did not fail: `count_failed` counts the others.
        """
        sums = self._sums(now, whose)
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
        sums.estimated += estimated
        _add_tokens(sums, usage)

    def count_in_vain(self, now: float, whose: Attribution, usage: Usage) -> None:
        """Add what an answer used that was of no use, and followed by another or by an error: no
        request is counted for it."""
        _add_tokens(self._sums(now, whose), usage)

    def count_failed(
        self, now: float, whose: Attribution, error: LastError, *, retried: bool
    ) -> None:
        """Add one attempt that failed, for a request that ended at `now` (Unix seconds); `retried`:
        another attempt followed."""
        sums = self._sums(now, whose)
        sums.attempts += 1
        sums.failed += 1
        sums.retries += retried
        self._last_errors[whose.account] = error
        self._add_errors(ErrorKey(self._hour, whose.account, error.kind), 1)

    def _sums(self, now: float, whose: Attribution) -> UsageCount:
        """The sums of the hour of `now` that a request belongs to."""
        hour = int(now) // _HOUR_S * _HOUR_S
        if hour != self._hour:
            self._begin_hour(hour)
        model, user, tags = self._names(whose)
        key = (
            hour,
            whose.account,
            whose.client,
            model,
            whose.route,
            whose.upstream,
            whose.team,
            user,
            tags,
        )
        sums = self._counts.get(key)
        return self._begin(key) if sums is None else sums

    def _names(self, whose: Attribution) -> tuple[str, str, str]:
        """The names to count its model, end user and tags under, which clients choose."""
        model, user, tags = whose.model, whose.user, whose.tags
        name = self._models.get(model)
        if name is None:
            name = self._admit(model)
        if user:
            user = _admitted(self._users, user, MOST_USERS)
        if tags:
            tags = _admitted(self._tags, tags, MOST_TAGS)
        return name, user, tags

    def _add_errors(self, key: ErrorKey, count: int) -> None:
        if key in self._errors or len(self._errors) < _MOST_ERRORS:
            self._errors[key] = self._errors.get(key, 0) + count

    def _begin_hour(self, hour: int) -> None:
        self._hour = hour
        self._models.clear()
        self._users.clear()
        self._tags.clear()

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

    def charge(self, now: float, whose: Attribution, usage: Usage, charge: Charge) -> None:
        """Add what one answer costs, whose request was counted."""
        name, user, tags = self._names(whose)
        basis = charge.basis
        believed = charge.cost is not None or not basis.prices
        if not believed:
            # There is a price, and nobody would pay it: it must not be charged later either.
            basis = Basis(basis.upstream, OTHER, prices=basis.prices)
        hour = int(now) // _HOUR_S * _HOUR_S
        account, client, route, team = whose.account, whose.client, whose.route, whose.team
        key = (hour, account, client, name, route, team, user, tags, basis)
        sums = self._charges.get(key)
        if sums is None:
            if name == OTHER or len(self._charges) >= MOST_COUNTS:
                # Sums of several models cannot be repriced by model.
                basis = Basis(basis.upstream, OTHER, prices=basis.prices)
                key = (hour, account, client, OTHER, route, team, "", "", basis)
            sums = self._charges.setdefault(key, ChargeCount())
        sums.requests += 1
        if not believed:
            sums.unpriced += 1
            return
        sums.input += usage.input
        sums.output += usage.output
        sums.cached += usage.cached or 0
        sums.cache_write += usage.cache_write or 0
        sums.cache_write_1h += usage.cache_write_1h or 0
        sums.reasoning += usage.reasoning or 0
        sums.searches += usage.searches or 0
        if charge.cost is None:
            sums.unpriced += 1
        else:
            sums.cost += charge.cost

    def take_charges(self) -> dict[ChargeKey, ChargeCount]:
        """Everything charged since the last call."""
        taken, self._charges = self._charges, {}
        return {
            ChargeKey(*key[:5], *key[8], team=key[5], user=key[6], tags=key[7]): sums
            for key, sums in taken.items()
        }

    def restore_charges(self, charges: Mapping[ChargeKey, ChargeCount]) -> None:
        """Put back what was taken and could not be written."""
        for key, sums in charges.items():
            basis = Basis(key.upstream, key.priced_as, key.tier, key.above, key.prices)
            who = (key.team, key.user, key.tags)
            own = (key.hour, key.account, key.client, key.model, key.route, *who, basis)
            self._charges.setdefault(own, ChargeCount()).add(sums)

    def take(self) -> dict[UsageKey, UsageCount]:
        """Everything counted since the last call."""
        taken, self._counts = self._counts, {}
        return {UsageKey(*key): sums for key, sums in taken.items()}

    def restore(self, usage: Mapping[UsageKey, UsageCount]) -> None:
        """Put back what was taken and could not be written."""
        for key, sums in usage.items():
            own: _Key = astuple(key)
            mine = self._counts.get(own)
            if mine is None:
                mine = self._begin(own)
            mine.add(sums)

    def _begin(self, key: _Key) -> UsageCount:
        """The sums for `key`, of which there are none yet."""
        if len(self._counts) >= MOST_COUNTS:
            hour, _, client, _, route, _, team, _, _ = key
            whole = (hour, OTHER, client, OTHER, route, "", team, "", "")
            return self._counts.setdefault(whole, UsageCount())
        sums = self._counts[key] = UsageCount()
        return sums

    def _admit(self, model: str) -> str:
        """The name to count a model under: its own as long as there is room for one."""
        if model in self._known or not model:
            return model
        return _admitted(self._models, model[:_LONGEST_NAME], MOST_MODELS)


def _admitted(names: dict[str, str], name: str, most: int) -> str:
    """What to count `name` under, which a client chose: itself as long as there is room for it
    among `names`."""
    known = names.get(name)
    if known is not None:
        return known
    if len(names) >= most:
        return OTHER
    names[name] = name
    return name


def _add_tokens(sums: UsageCount, usage: Usage) -> None:
    sums.input += usage.input
    sums.output += usage.output
    sums.cached += usage.cached or 0
    sums.cache_write += usage.cache_write or 0
    sums.reasoning += usage.reasoning or 0

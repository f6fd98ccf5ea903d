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
    Sums,
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

_MOST_TALLIES = 1000
"""Of requests that are alike, held until their sums are taken or the hour is over."""

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
        "_tallies",
        "_users",
    )

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._models: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._tags: dict[str, str] = {}
        self._counts: dict[_Key, UsageCount] = {}
        self._charges: dict[_ChargeKey, ChargeCount] = {}
        self._tallies: dict[tuple[Attribution, Basis | None], Sums] = {}
        """What is not yet in `_counts` and `_charges`, by whose it is and what it is priced by."""
        self._errors: dict[ErrorKey, int] = {}
        self._last_errors: dict[str, LastError] = {}
        self._hour = -_HOUR_S

    def know(self, names: Iterable[str]) -> None:
        """Count these models separately from now on, besides those that are counted already."""
        self._add_tallies()
        self._known = frozenset(names)

    def count(
        self,
        now: float,
        whose: Attribution,
        usage: Usage | None,
        milliseconds: float,
        *,
        charge: Charge | None = None,
        failed: bool = False,
        metered: bool = True,
        estimated: bool = False,
        attempts: int = 0,
    ) -> None:
        """Add one request that ended at `now` (Unix seconds).

        `metered` is false for requests whose answers are not paid for in tokens, such as counts:
        `usage` is then left out. `charge` is what it costs, None without `usage`; `estimated`: the
        upstream did not report all of it.
        `attempts` are those of the request that did not fail: `count_failed` counts the others.
        """
        sums = self._sums(now, whose, charge)
        used = sums.usage
        used.requests += 1
        used.attempts += attempts
        used.milliseconds += milliseconds
        if failed:
            used.errors += 1
        if usage is not None and metered:
            used.estimated += estimated
            _spend(sums, usage, charge)
        elif metered and not failed:
            used.unmetered += 1

    def count_in_vain(
        self, now: float, whose: Attribution, usage: Usage, charge: Charge | None
    ) -> None:
        """Add what an answer used that was of no use, and followed by another or by an error: no
        request is counted for it."""
        _spend(self._sums(now, whose, charge), usage, charge)

    def count_failed(
        self, now: float, whose: Attribution, error: LastError, *, retried: bool
    ) -> None:
        """Add one attempt that failed, for a request that ended at `now` (Unix seconds); `retried`:
        another attempt followed."""
        used = self._sums(now, whose).usage
        used.attempts += 1
        used.failed += 1
        used.retries += retried
        self._last_errors[whose.account] = error
        self._add_errors(ErrorKey(self._hour, whose.account, error.kind), 1)

    def _sums(self, now: float, whose: Attribution, charge: Charge | None = None) -> Sums:
        """The sums of the hour of `now` that a request belongs to."""
        if not self._hour <= now < self._hour + _HOUR_S:
            self._begin_hour(int(now) // _HOUR_S * _HOUR_S)
        basis = None
        if charge is not None:
            basis = charge.basis
            if charge.cost is None and basis.prices:
                # There is a price, and nobody would pay it: it must not be charged later either.
                basis = _without_model(basis)
        return self._tallies.get((whose, basis)) or self._tally(whose, basis)

    def _tally(self, whose: Attribution, basis: Basis | None) -> Sums:
        if len(self._tallies) >= _MOST_TALLIES:
            self._add_tallies()
        sums = self._tallies[whose, basis] = Sums()
        return sums

    def _add_tallies(self) -> None:
        tallies, self._tallies = self._tallies, {}
        for (whose, basis), sums in tallies.items():
            self._add(whose, basis, sums)

    def _add(self, whose: Attribution, basis: Basis | None, sums: Sums) -> None:
        """Add the sums of requests that are alike to the counts. Of the names that clients choose
        only so many are counted by themselves."""
        model, user, tags = whose.model, whose.user, whose.tags
        if model and model not in self._known:
            model = _admitted(self._models, model[:_LONGEST_NAME], MOST_MODELS)
        if user:
            user = _admitted(self._users, user, MOST_USERS)
        if tags:
            tags = _admitted(self._tags, tags, MOST_TAGS)
        hour, account, client, route = self._hour, whose.account, whose.client, whose.route
        upstream, team = whose.upstream, whose.team
        key = (hour, account, client, model, route, upstream, team, user, tags)
        used, charged = sums.usage, sums.charged
        (self._counts.get(key) or self._begin(key)).add(used)
        if basis is None or not charged.requests:
            return
        if charged.unpriced and basis.prices:
            charged = ChargeCount(charged.requests, charged.unpriced, cost=charged.cost)
        else:
            charged.input, charged.output, charged.cached = used.input, used.output, used.cached
            charged.cache_write, charged.reasoning = used.cache_write, used.reasoning
        priced = (hour, account, client, model, route, team, user, tags, basis)
        if priced not in self._charges and (model == OTHER or len(self._charges) >= MOST_COUNTS):
            # Sums of several models cannot be repriced by model.
            whole = _without_model(basis)
            priced = (hour, account, client, OTHER, route, team, "", "", whole)
        self._charges.setdefault(priced, ChargeCount()).add(charged)

    def _add_errors(self, key: ErrorKey, count: int) -> None:
        if key in self._errors or len(self._errors) < _MOST_ERRORS:
            self._errors[key] = self._errors.get(key, 0) + count

    def _begin_hour(self, hour: int) -> None:
        self._add_tallies()
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

    def take_charges(self) -> dict[ChargeKey, ChargeCount]:
        """Everything charged since the last call."""
        self._add_tallies()
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
        self._add_tallies()
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


def _without_model(basis: Basis) -> Basis:
    return Basis(basis.upstream, OTHER, prices=basis.prices)


def _spend(sums: Sums, usage: Usage, charge: Charge | None) -> None:
    """Add what one answer used, and what it costs. What is charged has the tokens that were used,
    and gets them when these sums are added to the counts."""
    used, charged = sums.usage, sums.charged
    used.input += usage.input
    used.output += usage.output
    if usage.cached:
        used.cached += usage.cached
    if usage.cache_write:
        used.cache_write += usage.cache_write
        charged.cache_write_1h += usage.cache_write_1h or 0
    if usage.reasoning:
        used.reasoning += usage.reasoning
    if charge is not None:
        charged.requests += 1
        charged.searches += usage.searches or 0
        if charge.cost is None:
            charged.unpriced += 1
        else:
            charged.cost += charge.cost

"""Limits of keys and teams: those of the store are changed here, those of the configuration file
only shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import AccessRules
from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling, span_of
from dragoman.limits.balances import window_of
from dragoman.limits.rules import ledger_of
from dragoman.operations.errors import UnknownLimit
from dragoman.operations.inputs import InvalidInput
from dragoman.operations.key_fields import rules_changed
from dragoman.operations.key_service import KeyService


class NumberedLimit(Struct, frozen=True, kw_only=True):
    """A limit with its number among those of its key or team, from 1 on."""

    number: int
    limit: Limit


class LimitService:
    """The limits of keys and teams.

    All methods may raise `Unknown` if there is no such key or team, `UnknownLimit` if it has no
    limit of a number, and `StoreError`; those that change something, but for `reset`, `Conflict` if
    the key or team is one of the configuration file, and `InvalidInput` if a field is wrong. Those
    that change something return all limits that there are then.
    """

    def __init__(self, keys: KeyService, *, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def limits(self, name: str, *, is_team: bool = False) -> tuple[NumberedLimit, ...]:
        """The limits of a key or team."""
        view = self._keys.teams.team(name) if is_team else self._keys.key(name)
        return _numbered(view.rules.limits)

    def add(
        self, name: str, fields: Mapping[str, Any], *, is_team: bool = False
    ) -> tuple[NumberedLimit, ...]:
        """Add a limit."""
        return self._change(
            name, lambda limits: [*limits, _with_fields(None, fields)], is_team=is_team
        )

    def change(
        self, name: str, number: int, fields: Mapping[str, Any], *, is_team: bool = False
    ) -> tuple[NumberedLimit, ...]:
        """Change fields of a limit; None stands for the default. What was used stays used where the
        limit still counts the same within the same window."""
        return self._change_one(
            name, number, lambda limit: _with_fields(limit, fields), is_team=is_team
        )

    def remove(self, name: str, number: int, *, is_team: bool = False) -> tuple[NumberedLimit, ...]:
        """Remove a limit."""

        def without(limits: Sequence[Limit]) -> list[Limit]:
            _check(name, limits, number)
            return [one for place, one in enumerate(limits, 1) if place != number]

        return self._change(name, without, is_team=is_team)

    def reset(
        self, name: str, number: int | None = None, *, is_team: bool = False
    ) -> tuple[NumberedLimit, ...]:
        """Count a limit from now on, or (None) all that have a window."""
        now = datetime.fromtimestamp(int(self._clock()), UTC)

        def begun_anew(limits: Sequence[Limit]) -> list[Limit]:
            if number is not None:
                _check(name, limits, number)
            return [
                replace(one, since=now) if number in (None, place) and one.window else one
                for place, one in enumerate(limits, 1)
            ]

        owners = self._keys.config.teams if is_team else self._keys.config.clients
        for owner in owners:
            if owner.name == name:
                return self._reset_fixed(name, owner.limits, begun_anew, is_team=is_team)
        return self._change(name, begun_anew, is_team=is_team)

    def _reset_fixed(
        self,
        name: str,
        written: Sequence[Limit],
        begun_anew: Callable[[Sequence[Limit]], list[Limit]],
        *,
        is_team: bool,
    ) -> tuple[NumberedLimit, ...]:
        """Reset limits of a key or a team of the configuration, which has them as `written`."""
        keys = self._keys
        with keys.store.deciding():
            before = [one.limit for one in self.limits(name, is_team=is_team)]
            after = begun_anew(before)
            keys.store.reset_limits(
                {
                    ledger_of(one, name, is_team=is_team): reset.since.timestamp()
                    for one, reset in zip(written, after, strict=True)
                    if reset.since is not None
                }
            )
            was, became = (AccessRules(limits=tuple(limits)) for limits in (before, after))
            keys.record(rules_changed("team" if is_team else "key", name, was, became))
        return _numbered(after)

    def grant(
        self,
        name: str,
        number: int,
        amount: int | str | None,
        windows: int | None = None,
        until: datetime | None = None,
        *,
        is_team: bool = False,
    ) -> tuple[NumberedLimit, ...]:
        """Allow more than a limit has, for a time: `amount` beside its own, until the end of the
        present window, of so many `windows`, or `until` a time. It takes the place of what was
        granted before; an amount of None ends that."""

        def granted(limit: Limit) -> Limit:
            if amount is None:
                return replace(limit, granted=None, granted_until=None)
            ends = _grant_ends(limit, windows, until, self._clock())
            return replace(limit, granted=amount, granted_until=ends)

        return self._change_one(name, number, granted, is_team=is_team)

    def _change_one(
        self, name: str, number: int, change: Callable[[Limit], Limit], *, is_team: bool
    ) -> tuple[NumberedLimit, ...]:
        def changed(limits: Sequence[Limit]) -> list[Limit]:
            _check(name, limits, number)
            return [change(one) if place == number else one for place, one in enumerate(limits, 1)]

        return self._change(name, changed, is_team=is_team)

    def _change(
        self, name: str, change: Callable[[Sequence[Limit]], list[Limit]], *, is_team: bool
    ) -> tuple[NumberedLimit, ...]:
        def fields(rules: AccessRules) -> Mapping[str, Any]:
            return {"limits": tuple(change(rules.limits))}

        owner = self._keys.teams if is_team else self._keys
        return _numbered(owner.change(name, fields).rules.limits)


def _with_fields(limit: Limit | None, fields: Mapping[str, Any]) -> Limit:
    """A limit with other values of fields, or a new one; None stands for the default."""
    defaults = {info.name: info.default for info in msgspec.structs.fields(Limit)}
    values = {name: defaults[name] if one is None else one for name, one in fields.items()}
    return Limit(**values) if limit is None else replace(limit, **values)


def _grant_ends(limit: Limit, windows: int | None, until: datetime | None, now: float) -> datetime:
    """When a grant ends: a whole second, after which the window is another."""
    if until is not None:
        if windows is not None:
            raise InvalidInput.of("until", "goes not with windows")
        if until.timestamp() <= now:
            raise InvalidInput.of("until", "is past")
        return until
    window = window_of(limit)
    end = now
    if isinstance(window, Rolling):
        end = math.ceil(now + (windows or 1) * window.seconds)
    elif window is not None and window.unit is not None:
        for _ in range(windows or 1):
            end = span_of(window, end)[1]
    else:
        raise InvalidInput.of("until", "required: the limit has no window that ends")
    return datetime.fromtimestamp(end, UTC)


def _numbered(limits: Sequence[Limit]) -> tuple[NumberedLimit, ...]:
    return tuple(NumberedLimit(number=place, limit=one) for place, one in enumerate(limits, 1))


def _check(name: str, limits: Sequence[Limit], number: int) -> None:
    if not 1 <= number <= len(limits):
        raise UnknownLimit(name, number, len(limits))

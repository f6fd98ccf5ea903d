"""What an operator can do with the limits of keys and teams: those of the store, whether a gateway
runs or not. Those of the configuration file are shown, and changed there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.config import AccessRules
from dragoman.config.limits import Limit, limit_faults
from dragoman.config.windows import Rolling, parse_window, span_of
from dragoman.operations.drafts import FieldError, InvalidDraft, converted
from dragoman.operations.keys import KeyAdministration

Owner = Literal["key", "team"]
"""Whose limits they are."""


class UnknownLimit(LookupError):
    """There is no limit of this number."""

    def __init__(self, name: str, number: int, count: int) -> None:
        told = f"{name} has no limit {number}"
        super().__init__(f"{told}: they are numbered from 1 to {count}" if count else told)


class NumberedLimit(Struct, frozen=True, kw_only=True):
    """A limit with its number among those of its key or team, from 1 on."""

    number: int
    limit: Limit


class _Grant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is granted: how much, and for how many windows or until when."""

    amount: int | str | None
    windows: Annotated[int, Meta(ge=1, le=1000)] | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None


def read_limit(fields: Mapping[str, Any]) -> Limit:
    """The limit that fields make, which is stored nowhere; None is no field.

    Raises:
        InvalidDraft: a field is wrong.
    """
    told = {name: value for name, value in fields.items() if value is not None}
    limit: Limit = converted(told, Limit)
    faults = [FieldError(str(where[-1]), told) for where, told in limit_faults([limit])]
    if faults:
        raise InvalidDraft(tuple(faults))
    return limit


class LimitAdministration:
    """What can be done with the limits of keys and teams.

    All methods may raise `Unknown` if there is no such key or team, and those that change something
    `Conflict` if it is one of the configuration file; and `StoreError`.
    """

    def __init__(self, keys: KeyAdministration, *, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def limits(self, owner: Owner, name: str) -> tuple[NumberedLimit, ...]:
        """The limits of a key or team."""
        view = self._keys.team(name) if owner == "team" else self._keys.key(name)
        return _numbered(view.rules.limits)

    def add(self, owner: Owner, name: str, fields: Mapping[str, Any]) -> tuple[NumberedLimit, ...]:
        """Add a limit. Returns all that there are then.

        Raises:
            InvalidDraft: a field is wrong.
        """
        return self._change(owner, name, lambda limits: [*map(_plain, limits), dict(fields)])

    def change(
        self, owner: Owner, name: str, number: int, fields: Mapping[str, Any]
    ) -> tuple[NumberedLimit, ...]:
        """Change fields of a limit; None takes one away. What was used stays used where
        the limit still counts the same within the same window. Returns all limits.

        Raises:
            UnknownLimit: there is none of this number.
            InvalidDraft: a field is wrong.
        """

        def changed(limits: Sequence[Limit]) -> list[Any]:
            _find(name, limits, number)
            plain = [_plain(one) for one in limits]
            made = plain[number - 1] | dict(fields)
            plain[number - 1] = {key: value for key, value in made.items() if value is not None}
            return plain

        return self._change(owner, name, changed)

    def remove(self, owner: Owner, name: str, number: int) -> tuple[NumberedLimit, ...]:
        """Remove a limit. Returns those that are left.

        Raises:
            UnknownLimit: there is none of this number.
        """

        def without(limits: Sequence[Limit]) -> list[Any]:
            _find(name, limits, number)
            return [_plain(one) for place, one in enumerate(limits, 1) if place != number]

        return self._change(owner, name, without)

    def reset(
        self, owner: Owner, name: str, number: int | None = None
    ) -> tuple[NumberedLimit, ...]:
        """Count a limit from now on, or (None) all that have a window. Returns all.

        Raises:
            UnknownLimit: there is none of this number.
        """
        now = datetime.fromtimestamp(int(self._clock()), UTC).isoformat()

        def begun_anew(limits: Sequence[Limit]) -> list[Any]:
            if number is not None:
                _find(name, limits, number)
            return [
                _plain(one) | ({"since": now} if number in (None, place) and one.window else {})
                for place, one in enumerate(limits, 1)
            ]

        return self._change(owner, name, begun_anew)

    def grant(
        self, owner: Owner, name: str, number: int, fields: Mapping[str, Any]
    ) -> tuple[NumberedLimit, ...]:
        """Allow more than a limit has, for a time: `amount` beside its own, until the end of the
        present window, of so many `windows`, or `until` a time. It takes the place of what was
        granted before; an amount of None ends that. Returns all limits.

        Raises:
            UnknownLimit: there is none of this number.
            InvalidDraft: a field is wrong.
        """
        grant: _Grant = converted(dict(fields), _Grant)

        def granted(limits: Sequence[Limit]) -> list[Any]:
            _find(name, limits, number)
            plain = [_plain(one) for one in limits]
            limit, one = limits[number - 1], plain[number - 1]
            for field in ("granted", "granted_until"):
                one.pop(field, None)
            if grant.amount is not None:
                until = _grant_ends(limit, grant, self._clock())
                one |= {"granted": grant.amount, "granted_until": until.isoformat()}
            return plain

        return self._change(owner, name, granted)

    def _change(
        self, owner: Owner, name: str, change: Callable[[Sequence[Limit]], list[Any]]
    ) -> tuple[NumberedLimit, ...]:
        def fields(rules: AccessRules) -> Mapping[str, Any]:
            return {"limits": change(rules.limits)}

        if owner == "team":
            return _numbered(self._keys.change_team(name, fields).rules.limits)
        return _numbered(self._keys.change(name, fields).rules.limits)


def _grant_ends(limit: Limit, grant: _Grant, now: float) -> datetime:
    """When a grant ends: a whole second, after which the window is another."""
    if grant.until is not None:
        if grant.windows is not None:
            raise InvalidDraft((FieldError("until", "goes not with windows"),))
        if grant.until.timestamp() <= now:
            raise InvalidDraft((FieldError("until", "is past"),))
        return grant.until
    windows = 1 if grant.windows is None else grant.windows
    window = None if limit.window is None else parse_window(limit.window, limit.zone, limit.anchor)
    end = now
    if isinstance(window, Rolling):
        end = math.ceil(now + windows * window.seconds)
    elif window is not None and window.unit is not None:
        for _ in range(windows):
            end = span_of(window, end)[1]
    else:
        raise InvalidDraft((FieldError("until", "required: the limit has no window that ends"),))
    return datetime.fromtimestamp(end, UTC)


def _numbered(limits: Sequence[Limit]) -> tuple[NumberedLimit, ...]:
    return tuple(NumberedLimit(number=place, limit=one) for place, one in enumerate(limits, 1))


def _plain(limit: Limit) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(limit)
    return plain


def _find(name: str, limits: Sequence[Limit], number: int) -> None:
    if not 1 <= number <= len(limits):
        raise UnknownLimit(name, number, len(limits))

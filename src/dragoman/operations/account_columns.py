"""All accounts by columns, as a page needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.operations.account_views import AccountView

_COLUMNS: dict[str, Callable[[AccountView], object]] = {
    "name": attrgetter("name"),
    "upstream": attrgetter("upstream"),
    "state": lambda one: "trial" if one.trial else one.state,
    "why": lambda one: one.problem or (one.reasons[0].why if one.reasons else ""),
    "back_at": attrgetter("back_at"),
    "in_flight": attrgetter("in_flight"),
    "last_used": attrgetter("last_used"),
    "requests": attrgetter("requests"),
    "errors": attrgetter("errors"),
    "retries": attrgetter("retries"),
    "cost_usd": attrgetter("cost_usd"),
    "unpriced": attrgetter("unpriced"),
    "last_error": lambda one: None if one.last_error is None else one.last_error.kind,
    "failed_at": lambda one: None if one.last_error is None else round(one.last_error.at, 1),
}
_WINDOW = ("used", "resets_at", "told_at", "seconds")

_encode = msgspec.json.Encoder().encode


class AccountTable(Struct, frozen=True):
    """All accounts by columns, a third of the size of rows. `windows` among the columns are by
    their names, and by the model that they are of; `version` changes when anything but a window
    does."""

    version: str
    columns: dict[str, Any]


def columns(accounts: Iterable[AccountView]) -> AccountTable:
    """The columns of all accounts.

    Accounts are read one by one, and columns are encoded at once, so that the views of ten thousand
    accounts are never all in memory.
    """
    made: list[tuple[list[object], Callable[[AccountView], object]]]
    made = [([], read) for read in _COLUMNS.values()]
    windows: dict[str, dict[str, list[float | None]]] = {}
    lengths: dict[str, float] = {}
    number = 0
    for number, account in enumerate(accounts, 1):
        for column, read in made:
            column.append(read(account))
        for quota in account.quotas:
            name = f"{quota.name} {quota.model}".strip()
            window = windows.setdefault(name, {field: [] for field in _WINDOW})
            lengths[name] = quota.seconds or 0.0
            for field, values in window.items():
                _fill(values, number - 1)
                values[number - 1 :] = [getattr(quota, field)]
    encoded = {name: _raw(column) for name, (column, _) in zip(_COLUMNS, made, strict=True)}
    version = hashlib.sha256()
    for text in encoded.values():
        version.update(text)
    for window in windows.values():
        for values in window.values():
            _fill(values, number)
    shown = sorted(windows, key=lambda name: (lengths[name], name))
    return AccountTable(
        version.hexdigest()[:16],
        {**encoded, "windows": {name: windows[name] for name in shown}},
    )


def _fill(values: list[float | None], number: int) -> None:
    """Fill a window with None for the accounts that have none, up to `number`."""
    values.extend([None] * (number - len(values)))


def _raw(values: list[object]) -> msgspec.Raw:
    return msgspec.Raw(_encode(values))

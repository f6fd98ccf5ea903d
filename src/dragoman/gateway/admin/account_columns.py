"""The whole pool as a page wants it: by columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from dragoman.administration.views import AccountView


def columns(accounts: Sequence[AccountView]) -> dict[str, object]:
    """All accounts by columns, a third of what it is by rows. `windows` are by their names, and by
    the model that they are of; `version` is another one when something else than a window has
    changed."""
    windows = {
        f"{window.name} {window.model}".strip(): window.seconds or 0.0
        for account in accounts
        for window in account.quotas
    }
    told = {
        "name": [one.name for one in accounts],
        "upstream": [one.upstream for one in accounts],
        "state": ["trial" if one.trial else one.state for one in accounts],
        "why": [one.problem or (one.reasons[0].why if one.reasons else "") for one in accounts],
        "back_at": [one.back_at for one in accounts],
        "in_flight": [one.in_flight for one in accounts],
        "last_used": [one.last_used for one in accounts],
        "requests": [one.requests for one in accounts],
        "errors": [one.errors for one in accounts],
        "retries": [one.retries for one in accounts],
    }
    version = hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]
    shown = sorted(windows, key=lambda name: (windows[name], name))
    return {
        "version": version,
        "columns": {**told, "windows": {name: _window(name, accounts) for name in shown}},
    }


def _window(name: str, accounts: Sequence[AccountView]) -> dict[str, list[float | None]]:
    found = [
        next((one for one in account.quotas if f"{one.name} {one.model}".strip() == name), None)
        for account in accounts
    ]
    return {
        "used": [None if one is None else one.used for one in found],
        "resets_at": [None if one is None else one.resets_at for one in found],
        "told_at": [None if one is None else one.told_at for one in found],
        "seconds": [None if one is None else one.seconds for one in found],
    }

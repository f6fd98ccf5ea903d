"""Batches that could not be told, with those that came after. Pure."""

from __future__ import annotations

from dragoman.storage.base import Batch


def merge(older: Batch, newer: Batch) -> None:
    """Put what `older` tells before what `newer` tells, in `newer`; its leases stay as they are."""
    newer.transitions[:0] = older.transitions
    for key, count in older.usage.items():
        if key in newer.usage:
            newer.usage[key].add(count)
        else:
            newer.usage[key] = count
    newer.used = {**older.used, **newer.used}
    newer.pins = {**older.pins, **newer.pins}
    for name, tokens in older.spent.items():
        newer.spent[name] = newer.spent.get(name, 0.0) + tokens

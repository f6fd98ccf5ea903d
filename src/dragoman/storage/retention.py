"""How long rows of a store are stored before they are added up or dropped."""

from __future__ import annotations

from msgspec import Struct


class Retention(Struct, frozen=True, kw_only=True):
    """Days for which rows are stored, and seconds for conversations' accounts."""

    days: float = 400.0
    """Usage by the day, and the audit."""
    hours_days: float = 60.0
    """Usage by the hour: any month is exact."""
    history_days: float = 30.0
    """The history of accounts."""
    pins_s: float = 3600.0
    """Which account a conversation is with, after its last request."""


USUAL = Retention()
"""The defaults."""

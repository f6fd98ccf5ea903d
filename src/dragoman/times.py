"""Points in time as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(min|[smhdw])(?:\s+ago)?\Z")
_SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}

LONGEST_SPAN_S = 1e10
"""Seconds that a span is shorter than, some 300 years: where it leads to can be written as a date.
"""


class InvalidTime(ValueError):
    """A text is no point in time."""

    def __init__(self) -> None:
        super().__init__(
            "expected a time such as 24h, 7d, 2026-03-01, 2026-03-01T12:00:00Z or Unix seconds"
        )


def parse_time(text: str, now: float) -> float:
    """The point in time that `text` names, in Unix seconds: how long ago (`30min`, `24h`, `7d`),
    a date or date and time of ISO 8601 (of this machine's zone where it names none), or Unix
    seconds.

    Raises:
        InvalidTime: it names none, or one that is no date of the calendar.
    """
    text = text.strip()
    try:
        if found := _AGO.match(text):
            seconds = now - float(found.group(1)) * _SECONDS[found.group(2)]
        elif re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text):
            seconds = float(text)
        else:
            seconds = datetime.fromisoformat(text).timestamp()
        datetime.fromtimestamp(seconds, UTC)
        return seconds
    except (ValueError, OverflowError, OSError):
        raise InvalidTime from None

"""Windows of limits: when they begin and end. A pure function of what is configured and the time,
so that all workers and machines agree without asking one another."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from math import inf
from typing import Final, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

Calendar = Literal["hour", "day", "week", "month"]

_ROLLING = re.compile(r"([1-9][0-9]{0,5})([smhd])\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CALENDAR: Final[dict[str, Calendar]] = {
    "hour": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
}


class Rolling(Struct, frozen=True):
    """The last so many seconds, at any moment."""

    seconds: int


class Fixed(Struct, frozen=True):
    """An hour, day, week (from Monday) or month of the calendar in a zone; None: for ever."""

    unit: Calendar | None
    zone: str = "UTC"


Window = Rolling | Fixed


class WindowError(ValueError):
    """A text names no window, or no time zone. `field` is which of both is at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def parse_window(text: str, zone: str = "UTC") -> Window:
    """The window that `text` names: rolling (`30s`, `1m`, `5h`, `7d`), of the calendar (`hour`,
    `day`, `week`, `month`), or `total`.

    Raises:
        WindowError: it names none, or there is no such zone.
    """
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise WindowError("zone", f"no time zone named {zone[:64]!r}") from None
    if found := _ROLLING.match(text):
        return Rolling(int(found[1]) * _SECONDS[found[2]])
    if text == "total":
        return Fixed(None)
    if text not in _CALENDAR:
        told = "expected a window such as 30s, 1m, 5h, 7d, hour, day, week, month or total"
        raise WindowError("window", told)
    return Fixed(_CALENDAR[text], zone)


def span_of(window: Fixed, now: float) -> tuple[float, float]:
    """When the window at `now` begins and ends, in Unix seconds.

    Days are those of the zone's clocks: where these are put forward or back, a day has 23 or 25
    hours.
    """
    if window.unit is None:
        return 0.0, inf
    zone = ZoneInfo(window.zone)
    if window.unit == "hour":
        # By the offset, so that the hour that comes twice is two hours.
        offset = datetime.fromtimestamp(now, zone).utcoffset() or timedelta()
        shift = offset.total_seconds() % 3600
        begin = (now + shift) // 3600 * 3600 - shift
        return begin, begin + 3600
    local = datetime.fromtimestamp(now, zone)
    first = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    match window.unit:
        case "day":
            then = first + timedelta(days=1)
        case "week":
            first -= timedelta(days=first.weekday())
            then = first + timedelta(days=7)
        case "month":
            first = first.replace(day=1)
            then = (first + timedelta(days=32)).replace(day=1)
    return first.timestamp(), then.timestamp()

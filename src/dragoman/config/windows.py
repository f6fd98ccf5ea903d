"""The windows of limits: when they begin and end. Pure functions of the configuration and the time,
so that all workers and machines agree without communication."""

from __future__ import annotations

import re
from calendar import monthrange
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


_WEEKDAYS: Final = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\Z")
_MONTH_DAYS: Final = 31


class Rolling(Struct, frozen=True):
    """The last so many seconds, at any moment."""

    seconds: int


class Fixed(Struct, frozen=True):
    """An hour, day, week or month of the calendar in a zone; None: all time. `anchor` is where it
    begins: for a day, minutes after midnight; for a week, days after Monday; for a month, days
    after its first, or its last day if it is shorter."""

    unit: Calendar | None
    zone: str = "UTC"
    anchor: int = 0


Window = Rolling | Fixed


class WindowError(ValueError):
    """A text is not a window, time zone or anchor. `field` is which of these is at fault: `window`,
    `zone` or `anchor`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def knows_zone(zone: str) -> bool:
    """Whether this machine has the time zone."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def parse_window(text: str, zone: str = "UTC", anchor: int | str | None = None) -> Window:
    """The window that `text` describes: rolling (`30s`, `1m`, `5h`, `7d`), of the calendar (`hour`,
    `day`, `week`, `month`), or `total`. `anchor` is where a calendar window begins: a time of day
    (`06:00`), a day of the week (`sunday`) or of the month (15).

    Raises:
        WindowError: one of them is not valid.
    """
    if not knows_zone(zone):
        raise WindowError("zone", f"no time zone named {zone[:64]!r}")
    if found := _ROLLING.match(text):
        window: Window = Rolling(int(found[1]) * _SECONDS[found[2]])
    elif text == "total":
        window = Fixed(None)
    elif text not in _CALENDAR:
        message = "expected a window such as 30s, 1m, 5h, 7d, hour, day, week, month or total"
        raise WindowError("window", message)
    elif anchor is not None:
        return Fixed(_CALENDAR[text], zone, _anchor(_CALENDAR[text], str(anchor)))
    else:
        return Fixed(_CALENDAR[text], zone)
    if anchor is not None:
        raise WindowError("anchor", f"has no effect for {text}")
    return window


def _anchor(unit: Calendar, text: str) -> int:
    match unit:
        case "day":
            if found := _TIME.match(text):
                return int(found[1]) * 60 + int(found[2])
            raise WindowError("anchor", "expected a time of the day such as 06:00")
        case "week":
            if text.lower() in _WEEKDAYS:
                return _WEEKDAYS.index(text.lower())
            raise WindowError("anchor", "expected a day of the week such as sunday")
        case "month":
            if text.isdecimal() and text.isascii() and 1 <= int(text) <= _MONTH_DAYS:
                return int(text) - 1
            raise WindowError("anchor", "expected a day of the month, 1 to 31")
    raise WindowError("anchor", f"has no effect for {unit}")


def span_of(window: Fixed, now: float) -> tuple[float, float]:
    """When the window at `now` begins and ends, in Unix seconds.

    Days are those of the zone's clocks: when these change, a day has 23 or 25 hours.
    """
    if window.unit is None:
        return 0.0, inf
    zone = ZoneInfo(window.zone)
    if window.unit == "hour":
        # By the offset, so that the hour that comes twice is two hours; of standard time, as clocks
        # of Lord Howe Island change by half an hour.
        local = datetime.fromtimestamp(now, zone)
        offset = (local.utcoffset() or timedelta()) - (local.dst() or timedelta())
        shift = offset.total_seconds() % 3600
        begin = (now + shift) // 3600 * 3600 - shift
        return begin, begin + 3600
    local = datetime.fromtimestamp(now, zone)
    first = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    match window.unit:
        case "day":
            first += timedelta(minutes=window.anchor)
            # Twice if clocks that are put forward over midnight skip that time.
            while first.timestamp() > now:
                first -= timedelta(days=1)
            then = first + timedelta(days=1)
        case "week":
            first -= timedelta(days=(first.weekday() - window.anchor) % 7)
            then = first + timedelta(days=7)
        case "month":
            month = first.replace(day=1)
            first = _in_month(month, window.anchor)
            if first.timestamp() > now:
                month = (month - timedelta(days=1)).replace(day=1)
                first = _in_month(month, window.anchor)
            then = _in_month(month + timedelta(days=32), window.anchor)
    return first.timestamp(), then.timestamp()


def _in_month(month: datetime, after_first: int) -> datetime:
    """The day of a month that is so many after its first, or the last."""
    last = monthrange(month.year, month.month)[1]
    return month.replace(day=min(after_first + 1, last))

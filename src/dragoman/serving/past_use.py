"""What a limit would have done in the past, by rows of usage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from dragoman.config.windows import Rolling, Window, span_of

HOUR_S = 3600


class PastUse(NamedTuple):
    """In how many hours something was used, in how many of them more than the limit has was used
    within its window, when that began (Unix seconds, None for never), and the most that was."""

    hours: int
    over: int
    first: int | None
    most: int


def past_use(window: Window, amount: int, used: Iterable[tuple[int, int]], since: float) -> PastUse:
    """How a limit of `amount` within `window` compares with what was `used`: the beginnings of
    hours in order and what was used in each, from one window before `since`, from when on it is
    told. What it would have refused counts like the rest."""
    recent: deque[tuple[int, int]] = deque()
    total = hours = over = most = 0
    first: int | None = None
    for hour, units in used:
        if isinstance(window, Rolling):
            begin: float = hour + HOUR_S - window.seconds
        else:
            begin = span_of(window, hour)[0]
        recent.append((hour, units))
        total += units
        while recent[0][0] < begin:
            total -= recent.popleft()[1]
        if hour < since:
            continue
        hours += 1
        most = max(most, total)
        if total > amount:
            over += 1
            first = hour if first is None else first
    return PastUse(hours, over, first, most)

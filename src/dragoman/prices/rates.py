"""A price, and the cost of usage by it, in whole pico-dollars."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Protocol

from msgspec import Struct

PICO: Final = 10**12
"""Pico-dollars in a US dollar. One for a token is a millionth of a dollar for a million tokens."""

PER_MILLION: Final = 10**6
"""Pico-dollars for one token at one US dollar for a million."""

BATCH, FLEX, PRIORITY, FAST, ULTRAFAST = "batch", "flex", "priority", "fast", "ultrafast"
TIERS: Final = (BATCH, FLEX, PRIORITY, FAST, ULTRAFAST)
"""Service tiers with prices of their own, by the vendors' names (`Usage.tier`). The default tier is
the empty text."""


_MOST: Final = 2**63 - 1


class Counts(Protocol):
    """Counts as in `Usage`; None is unknown, and counts as none."""

    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cached(self) -> int | None: ...
    @property
    def cache_write(self) -> int | None: ...
    @property
    def cache_write_1h(self) -> int | None: ...
    @property
    def reasoning(self) -> int | None: ...
    @property
    def searches(self) -> int | None: ...


class Price(Struct, frozen=True, array_like=True, gc=False):
    """The price of a model's tokens from `since` (Unix seconds) on, in one service tier, for
    prompts of more than `above` tokens.

    `begins` and `ends` are the minutes of the day (UTC) between which it applies, past midnight if
    `ends` is less; both 0: all day. Then the rates in pico-dollars: for a token of plain input, of
    input read from a cache, written to one, written to one for an hour, of output, of reasoning;
    for a web search of the vendor; and for the request itself.
    """

    since: int
    tier: str
    above: int
    begins: int
    ends: int
    input: int
    cached: int
    cache_write: int
    cache_write_1h: int
    output: int
    reasoning: int
    search: int = 0
    request: int = 0

    @property
    def period(self) -> tuple[int, int, int]:
        """When it applies; the same for prices that apply together."""
        return self.since, self.begins, self.ends

    @property
    def rates(self) -> tuple[int, ...]:
        """The cost of a token of each kind."""
        return (
            self.input,
            self.cached,
            self.cache_write,
            self.cache_write_1h,
            self.output,
            self.reasoning,
        )

    @property
    def is_possible(self) -> bool:
        """Whether no rate is negative or too large for a table."""
        return all(0 <= rate <= _MOST for rate in (*self.rates, self.search, self.request))

    def applies(self, at: float) -> bool:
        """Whether it applies at a time (Unix seconds)."""
        if at < self.since:
            return False
        if self.begins == self.ends:
            return True
        minute = int(at) % 86400 // 60
        if self.begins < self.ends:
            return self.begins <= minute < self.ends
        return minute >= self.begins or minute < self.ends

    def written(self, *, for_an_hour: bool) -> int:
        """Pico-dollars for a token written to a prompt cache, for an hour or for the default
        time."""
        return self.cache_write_1h if for_an_hour else self.cache_write

    def cost_of(self, counts: Counts, requests: int = 1) -> int:
        """Pico-dollars for the counts of one answer, or for the sums of several `requests`, in
        which no part exceeds its whole (see `dragoman.canonical.usage.consistent`)."""
        total = requests * self.request + counts.input * self.input + counts.output * self.output
        cached = counts.cached
        if cached:
            total += cached * (self.cached - self.input)
        written = counts.cache_write
        if written:
            total += written * (self.cache_write - self.input)
            for_an_hour = counts.cache_write_1h
            if for_an_hour:
                total += for_an_hour * (self.cache_write_1h - self.cache_write)
        thought = counts.reasoning
        if thought and self.reasoning != self.output:
            total += thought * (self.reasoning - self.output)
        searches = counts.searches
        if searches:
            total += searches * self.search
        return total


def pico_per_token(dollars: Decimal) -> int:
    """Pico-dollars for one token, from US dollars for a million; the nearest whole number."""
    return int((dollars * PER_MILLION).to_integral_value())


def dollars(pico: int) -> str:
    """An amount in US dollars, exact, without trailing zeros: `0.00425`, `12`."""
    sign, rest = ("-", -pico) if pico < 0 else ("", pico)
    whole, part = divmod(rest, PICO)
    return f"{sign}{whole}.{part:012d}".rstrip("0").rstrip(".")

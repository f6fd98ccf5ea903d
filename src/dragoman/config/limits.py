"""Limits of keys and teams, as written in the configuration and in the store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple, force_setattr

from dragoman.config.windows import WindowError, parse_window

LimitKind = Literal["requests", "tokens", "input_tokens", "output_tokens", "cost", "concurrent"]
LimitMode = Literal["enforce", "shadow", "soft"]
WhenAway = Literal["closed", "share", "open"]

MOST = 10**15
"""Largest amount of a limit other than a cost."""

MOST_DOLLARS = 1_000_000
"""Largest amount of a cost limit."""

_DOLLARS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?\Z")
_PICO = 10**12

Weight = Annotated[int, Meta(ge=0, le=1000)]


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a token counts, by its kind. Whole numbers, so that sums are exact: if one kind
    should count a tenth of the others, the others count 10."""

    input: Weight = 1
    """Prompt tokens neither read from a prompt cache nor written to one."""
    cached: Weight = 0
    """Tokens read from a prompt cache."""
    cache_write: Weight = 1
    """Tokens written to a prompt cache."""
    output: Weight = 1
    """Tokens of the answer, without reasoning."""
    reasoning: Weight = 1
    """Reasoning tokens."""


class Limit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much may be used within a window. All limits of a key and of its team apply."""

    kind: LimitKind
    """What is counted. `tokens` are input and output tokens together; `concurrent` are requests in
    flight."""
    amount: int | float | str
    """The most that may be used; a cost in US dollars, `12.5` or `"12.50"`. 0 allows nothing."""
    window: Annotated[str, Meta(min_length=1)] | None = None
    """Rolling (`30s`, `1m`, `5h`, `7d`), of the calendar (`hour`, `day`, `week`, `month`), or
    `total` for all time. Not for `concurrent`."""
    zone: Annotated[str, Meta(min_length=1)] = "UTC"
    """Time zone of the calendar, `Europe/Berlin`."""
    anchor: int | str | None = None
    """Where a calendar window begins: a `day` at a time (`"06:00"`), a `week` on a day
    (`"sunday"`), a `month` on a day (15; its last day if it is shorter). Absent: at midnight, on
    Monday, on the first."""
    mode: LimitMode = "enforce"
    """`enforce` rejects requests that would exceed the limit. `soft` rejects none, and warns
    clients and operators at 50, 80 and 100 percent. `shadow` rejects none, and counts those that it
    would have rejected."""
    models: tuple[Annotated[str, Meta(min_length=1)], ...] | None = None
    """Model names, as clients send them, that are counted together, `*` allowed in each; absent:
    all."""
    clamp: bool = False
    """Lower the output limit of a request to what is left instead of rejecting it, while at least
    256 tokens are left; not for `requests` and `concurrent`."""
    count_cached: bool = False
    """Count tokens read from a prompt cache as well; for tokens only."""
    weights: Weights | None = None
    """For `tokens`: how much each kind counts, instead of 1 for all but those read from a prompt
    cache. `amount` is the sum of these."""
    unpriced: Literal["refuse", "allow"] = "refuse"
    """For a cost: whether models without a price may be used, which then count nothing."""
    subscriptions: Literal["count", "ignore"] = "count"
    """For a cost: whether answers of upstreams with `billing = "subscription"` count what they
    would have cost by the token, or nothing."""
    queue_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """For `concurrent`: seconds that a request waits before it is rejected."""
    queue_size: Annotated[int, Meta(ge=1)] = 100
    """For `concurrent`: requests that may wait. A key of a team with less than its share of these
    may wait even if others have taken all."""
    when_away: WhenAway = "closed"
    """What to do while the database that several machines share is unavailable and this machine has
    used up what it was lent: `closed` rejects; `share` goes on with this machine's part of what was
    left, `open` without this limit. No effect on a single machine."""
    since: Annotated[datetime, Meta(tz=True)] | None = None
    """Usage before this time is not counted. Set by `dragoman limit reset`."""
    granted: int | float | str | None = None
    """Additional amount until `granted_until`, in the same form as `amount`. `dragoman limit grant`
    sets both."""
    granted_until: Annotated[datetime, Meta(tz=True)] | None = None
    """When `granted` ends."""

    def __post_init__(self) -> None:
        if self.kind == "cost":
            for field in ("amount", "granted"):
                value = getattr(self, field)
                if isinstance(value, int | float):
                    force_setattr(self, field, number_text(value))

    @property
    def units(self) -> int:
        """The amount in whole units: tokens, requests, pico-dollars."""
        return self._in_units(self.amount)

    @property
    def granted_units(self) -> int:
        """The granted amount in the same units."""
        return 0 if self.granted is None else self._in_units(self.granted)

    @property
    def granted_ends(self) -> float:
        """When a grant ends, in Unix seconds; 0 if there is none."""
        return 0.0 if self.granted_until is None else self.granted_until.timestamp()

    def _in_units(self, amount: float | str) -> int:
        return int(Decimal(amount) * _PICO) if self.kind == "cost" else int(amount)

    @property
    def counted_as(self) -> tuple[object, ...]:
        """The identity of its counter among those of the same key or team. The amount is not part
        of it: usage stays counted when a limit is raised."""
        zone = self.zone if self.window in _OF_ZONE else ""
        models = None if self.models is None else tuple(sorted(set(self.models)))
        counted: tuple[object, ...] = (
            self.kind,
            self.window,
            zone,
            models,
            self.count_cached,
            self.since,
        )
        if self.anchor is not None:
            counted = (*counted, "anchor", str(self.anchor).lower())
        if self.subscriptions != "count":
            return (*counted, self.subscriptions)
        return counted if self.weights is None else (*counted, self.weights)


def number_text(number: float) -> str:
    """A number as it is written, without an exponent."""
    return f"{Decimal(repr(number)):f}"


_OF_ZONE = ("hour", "day", "week", "month")
_TOKENS = ("tokens", "input_tokens", "output_tokens")


def limit_faults(limits: Sequence[Limit]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Faults in the limits of a key or a team, each with its path."""
    seen: dict[tuple[object, ...], int] = {}
    for index, limit in enumerate(limits):
        for field, message in _faults(limit):
            yield ("limits", index, field), message
        first = seen.setdefault(limit.counted_as, index)
        if first != index:
            yield ("limits", index, "kind"), f"limits[{first}] counts the same"


def _faults(limit: Limit) -> Iterator[tuple[str, str]]:
    yield from _amount_faults(limit, "amount", limit.amount)
    if limit.granted is not None:
        yield from _amount_faults(limit, "granted", limit.granted)
    if (limit.granted is None) != (limit.granted_until is None):
        yield "granted_until", "is needed with granted, and granted with it"
    if limit.kind == "concurrent":
        if limit.window is not None:
            yield "window", "has no effect for concurrent"
        if limit.anchor is not None:
            yield "anchor", "has no effect for concurrent"
    elif limit.window is None:
        yield "window", "required, but not set"
    else:
        try:
            parse_window(limit.window, limit.zone, limit.anchor)
        except WindowError as error:
            yield error.field, str(error)
    for field, kinds in (
        ("clamp", (*_TOKENS, "cost")),
        ("count_cached", ("tokens", "input_tokens")),
        ("weights", ("tokens",)),
        ("unpriced", ("cost",)),
        ("subscriptions", ("cost",)),
        ("queue_s", ("concurrent",)),
        ("queue_size", ("concurrent",)),
    ):
        if limit.kind not in kinds and getattr(limit, field) != getattr(_BARE, field):
            yield field, f"has no effect for {limit.kind}"
    if limit.weights is not None:
        if limit.count_cached:
            yield "count_cached", "has no effect with weights, which have cached"
        if not any(astuple(limit.weights)):
            yield "weights", "no token would count"


_BARE = Limit(kind="requests", amount=0)


def _amount_faults(limit: Limit, field: str, amount: float | str) -> Iterator[tuple[str, str]]:
    if isinstance(amount, int):
        if not 0 <= amount <= MOST:
            yield field, f"expected a whole number from 0 to {MOST}"
    elif limit.kind != "cost" or isinstance(amount, float):
        yield field, "expected a whole number"
    elif not _DOLLARS.match(amount):
        yield field, "expected US dollars such as 12.50, with at most six decimals"
    elif Decimal(amount) > MOST_DOLLARS:
        yield field, f"expected {MOST_DOLLARS} US dollars at most"

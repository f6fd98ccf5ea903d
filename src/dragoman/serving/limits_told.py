"""What clients are told of their limits: refusals, and what is left.

Counters are read here: with the lock held, or as of the time at which the request was admitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config.windows import Rolling
from dragoman.edge.errors import Headers
from dragoman.limits.admission import Admitted, Refusal
from dragoman.limits.allowances import RENEW_S
from dragoman.limits.bound_limits import SOON_S, Amounts, BoundLimit, BoundLimits, Kind
from dragoman.limits.counters import PARTS
from dragoman.limits.crossings import reached
from dragoman.prices.rates import dollars
from dragoman.protocols.base import Codec, Endpoint, RateLimit

LIMIT_HEADER = b"x-dragoman-limit"
"""Header that names a limit that refused a request, or is reached."""

CLAMPED_HEADER = b"x-dragoman-clamped"
"""Header that tells to how many tokens of output a request was lowered."""

BUDGET_HEADER = b"x-dragoman-budget-remaining-usd"
"""Header that tells what is left of the tightest budget."""

LONGEST_WAIT_S = 60.0
"""Seconds that a client is asked to wait. SDKs do wait, for hours if they are told to, so what
takes longer is told as what it is: used up."""

_LIKE_A_STATUS = re.compile("429|50[0234]|524")
"""Amounts are left out that look like these. opencode and pi ask again whenever an error's text has
such digits in it."""


def refused(refusal: Refusal, now: float, *, shows_amounts: bool) -> tuple[DragomanError, Headers]:
    """The error for a request that a limit refuses, and the headers that belong to it."""
    limit = refusal.limit
    wait = refusal.free_at - now
    if wait < LONGEST_WAIT_S * (1 + 2 / PARTS):
        # A window of a minute is over once the part it began in is, too.
        wait = min(wait, LONGEST_WAIT_S)
    headers = [(LIMIT_HEADER, limit.name.encode())]
    is_budget = limit.kind is Kind.COST
    if not is_budget and refusal.amount > limit.amount:
        headers.append((b"x-should-retry", b"false"))
        fault = Fault(
            FaultKind.RATE_LIMITED,
            f"Request too large: it may use more {_counted(limit)} than {_whose(limit)} may"
            f" have{_window(limit)}{_amounts(refusal, shows_amounts)}.",
            code="rate_limit_exceeded",
            limited=_limited(limit),
        )
    elif wait > (SOON_S if is_budget else LONGEST_WAIT_S):
        if refusal.amount > limit.amount > 0:
            told = (
                f"Request too large: it may cost more than {_whose(limit)} may spend"
                f"{_window(limit)}{_amounts(refusal, shows_amounts)}."
            )
        else:
            told = (
                f"The {'budget' if is_budget else f'quota of {_counted(limit)}'} of"
                f" {_whose(limit)}{_window(limit)} is used up{_amounts(refusal, shows_amounts)}."
                f" {_resets(refusal)}"
            )
        fault = Fault(
            FaultKind.PAYMENT_REQUIRED,
            told,
            code="project_spend_limit_exceeded" if is_budget else "insufficient_quota",
            retry_after=wait if wait <= LONGEST_WAIT_S else None,
            limited="budget",
        )
    else:
        # What stands in the way of a budget is under way, and is given back as far as it is not
        # used.
        told = (
            f"There is no room at the moment in the budget of {_whose(limit)}{_window(limit)}"
            if is_budget
            else f"Rate limit reached for {_counted(limit)} of {_whose(limit)}{_window(limit)}"
        )
        fault = Fault(
            FaultKind.RATE_LIMITED,
            f"{told}{_amounts(refusal, shows_amounts)}. Please try again in {_span(wait)}.",
            code="rate_limit_exceeded",
            retry_after=wait,
            limited=_limited(limit),
        )
    if fault.retry_after is not None:
        headers.append((b"retry-after-ms", b"%d" % max(1, math.ceil(wait * 1000))))
    return DragomanError(fault), headers


def queue_full(limit: BoundLimit) -> tuple[DragomanError, Headers]:
    """The error for a request whose queue is full, and the headers that belong to it."""
    told = f"Too many requests of {_whose(limit)} wait for their turn. Please try again in 1s."
    fault = Fault(
        FaultKind.RATE_LIMITED, told, code="slow_down", retry_after=1.0, limited="requests"
    )
    headers = [(LIMIT_HEADER, limit.name.encode()), (b"retry-after-ms", b"1000")]
    return DragomanError(fault), headers


def unpriced(limit: BoundLimit, model: str) -> tuple[DragomanError, Headers]:
    """The error for a model that has no price, asked for with a key that has a budget."""
    told = (
        f"The model {model[:200]} has no price, and {_whose(limit)} has a budget: it cannot be"
        " counted against that."
    )
    fault = Fault(FaultKind.FORBIDDEN, told, code="model_unpriced")
    return DragomanError(fault), [(LIMIT_HEADER, limit.name.encode())]


class _RateLines:
    """Tells of the tightest limit of each name. All but what is left of it is kept ready for a
    second: most answers come at once. Of a busy key, all of it for a tenth: others use more of it
    meanwhile than one request does."""

    __slots__ = (
        "_endpoint",
        "_named",
        "_ready",
        "_ready_until",
        "_several",
        "_tightest",
        "_told",
        "_until",
    )

    def __init__(self, endpoint: Endpoint, limits: Sequence[BoundLimit]) -> None:
        self._endpoint = endpoint
        self._named: dict[str, list[BoundLimit]] = {}
        for one in limits:
            name = endpoint.limit_names.get(one.limit.kind)
            if name is not None:
                self._named.setdefault(name, []).append(one)
        self._several = any(len(group) > 1 for group in self._named.values())
        self._tightest = [group[0] for group in self._named.values()]
        self._told = self._ready = b""
        self._until = self._ready_until = 0.0

    def lines(self, now: float) -> bytes:
        """The lines once a request was admitted at `now`."""
        if 0.0 < self._until - now <= RENEW_S:
            return self._told
        if self._several:
            tightest = [
                min(group, key=lambda one: one.left(now) / (one.amount or 1))
                for group in self._named.values()
            ]
            if tightest != self._tightest:
                self._tightest, self._ready_until = tightest, 0.0
        if not 0.0 < self._ready_until - now <= 1.0:
            self._prepare(now)
        if all(now < one.row.until for one in self._tightest):
            self._until = min(now + RENEW_S, self._ready_until)
        self._told = self._ready % tuple([max(one.left(now), 0) for one in self._tightest])
        return self._told

    def _prepare(self, now: float) -> None:
        """What the request uses is the last to be free again."""
        self._ready, self._ready_until = b"", int(now) + 1.0
        for name, limit in zip(self._named, self._tightest, strict=True):
            at = limit.counter.counts_until(now)
            told = RateLimit(name, limit.amount, at - now, at)
            self._ready += self._endpoint.limit_lines(told)


def rate_lines(codec: Codec, limits: BoundLimits) -> Callable[[float], bytes]:
    """What makes the lines of the client's protocol's own headers for what is left of rates, at a
    time; `limits` keep it."""
    told = limits.told[codec.name] = _RateLines(codec.endpoint, limits.rates).lines
    return told


def soft_headers(limits: Iterable[BoundLimit], now: float) -> Headers:
    """The header that names soft limits of which a share is reached: `key:cost:month; used=80`."""
    told = [
        f"{limit.name}; used={share}"
        for limit in limits
        if limit.limit.mode == "soft" and (share := reached(limit, now))
    ]
    return [(LIMIT_HEADER, ", ".join(told).encode())] if told else []


def budget_headers(admitted: Admitted, spent: Amounts, now: float) -> Headers:
    """The header that tells what is left of the tightest budget after an answer that came to
    `spent`, where there is one and the caller may know."""
    if not admitted.shows_amounts:
        return []
    reservation = admitted.reservation
    left = [
        limit.left(now) + reserved - used
        for limit, reserved, used in zip(
            reservation.limits, reservation.amounts, spent, strict=True
        )
        if limit.kind is Kind.COST and limit.enforced and limit.is_known
    ]
    return [(BUDGET_HEADER, dollars(max(0, min(left))).encode())] if left else []


def amount_text(kind: Kind, amount: int) -> int | str:
    """An amount as it is told: a cost in US dollars, as a text."""
    return dollars(amount) if kind is Kind.COST else amount


def known_text(kind: Kind, amount: int | None) -> int | str | None:
    """The same of an amount that may be unknown."""
    return None if amount is None else amount_text(kind, amount)


def moment_text(seconds: float) -> str | None:
    """A time as it is told; None for never."""
    if math.isinf(seconds):
        return None
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counted(limit: BoundLimit) -> str:
    kind = limit.limit.kind
    return "requests at one time" if kind == "concurrent" else kind.replace("_", " ")


def _limited(limit: BoundLimit) -> Literal["requests", "tokens"]:
    return "requests" if limit.kind in (Kind.REQUESTS, Kind.CONCURRENT) else "tokens"


def _whose(limit: BoundLimit) -> str:
    return f"the team {limit.owner}" if limit.is_team else "this API key"


def _window(limit: BoundLimit) -> str:
    window = limit.limit.window
    if window is None:
        return ""
    return " in total" if window == "total" else f" per {window}"


def _amounts(refusal: Refusal, shown: bool) -> str:
    if not shown:
        return ""
    limit, most, asked = refusal.limit, refusal.limit.amount, refusal.amount
    used = most - refusal.left
    if limit.kind is Kind.COST:
        text = f" (limit ${dollars(most)}, used ${dollars(used)}, requested ${dollars(asked)})"
    else:
        text = f" (limit {most}, used {used}, requested {asked})"
    return "" if _LIKE_A_STATUS.search(text) else text


def _resets(refusal: Refusal) -> str:
    rolls = isinstance(refusal.limit.window, Rolling)
    at = moment_text(refusal.free_at if rolls else refusal.resets_at)
    if at is None:
        return "It does not begin anew by itself."
    return f"There is room for this request at {at}." if rolls else f"It resets at {at}."


def _span(seconds: float) -> str:
    """A wait, as clients read it out of the message."""
    return (
        f"{math.ceil(seconds * 1000)}ms"
        if seconds < 1
        else f"{math.ceil(seconds * 1000) / 1000:g}s"
    )

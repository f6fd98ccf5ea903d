"""What clients are sent of their limits: refusals, and what is left as of the admission."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config.windows import Rolling
from dragoman.edge.errors import Headers
from dragoman.keys.people import is_person
from dragoman.limits.balances import SOON_S
from dragoman.limits.counters import PARTS, counts_until
from dragoman.limits.messages import Granted, Refused
from dragoman.limits.owner import reached
from dragoman.limits.rules import Admitted, Amounts, Kind, Rule, Rules
from dragoman.prices.rates import dollars
from dragoman.protocols.base import Codec, Endpoint, RateLimit

LIMIT_HEADER = b"x-dragoman-limit"
"""Header that names a limit that refused a request, or is reached."""

CLAMPED_HEADER = b"x-dragoman-clamped"
"""Header with the number of tokens of output to which a request was lowered."""

BUDGET_HEADER = b"x-dragoman-budget-remaining-usd"
"""Header with what is left of the tightest budget."""

LONGEST_WAIT_S = 60.0
"""Seconds that a client is asked to wait. SDKs do wait, for hours if they are asked to, so what
takes longer is reported as what it is: used up."""

_LIKE_A_STATUS = re.compile("429|50[0234]|524")
"""Amounts are left out that look like these. opencode and pi ask again whenever an error's text has
such digits in it."""


def refused(
    limit: Rule, refusal: Refused, now: float, *, shows_amounts: bool
) -> tuple[DragomanError, Headers]:
    """The error for a request that a limit refuses, and the headers that belong to it."""
    amount = limit.amount(now)
    wait = refusal.free_at - now
    if wait < LONGEST_WAIT_S * (1 + 2 / PARTS):
        # A window of a minute is over once the part it began in is, too.
        wait = min(wait, LONGEST_WAIT_S)
    headers = [(LIMIT_HEADER, limit.name.encode())]
    is_budget = limit.kind is Kind.COST
    amounts = _amounts(limit, refusal, amount) if shows_amounts else ""
    if not is_budget and refusal.amount > amount:
        headers.append((b"x-should-retry", b"false"))
        fault = Fault(
            FaultKind.RATE_LIMITED,
            f"Request too large: it may use more {_counted(limit)} than {_whose(limit)} may"
            f" have{window_words(limit)}{amounts}.",
            code="rate_limit_exceeded",
            limited=_limited(limit),
        )
    elif wait > (SOON_S if is_budget else LONGEST_WAIT_S):
        if refusal.amount > amount > 0:
            message = (
                f"Request too large: it may cost more than {_whose(limit)} may spend"
                f"{window_words(limit)}{amounts}."
            )
        else:
            message = (
                f"The {'budget' if is_budget else f'quota of {_counted(limit)}'} of"
                f" {_whose(limit)}{window_words(limit)} is used up{amounts}."
                f" {_resets(limit, refusal)}"
            )
        fault = Fault(
            FaultKind.PAYMENT_REQUIRED,
            message,
            code="project_spend_limit_exceeded" if is_budget else "insufficient_quota",
            retry_after=wait if wait <= LONGEST_WAIT_S else None,
            limited="budget",
        )
    else:
        # What stands in the way of a budget is under way, and is given back as far as it is not
        # used.
        message = (
            f"There is no room at the moment in the budget of {_whose(limit)}{window_words(limit)}"
            if is_budget
            else f"Rate limit reached for {_counted(limit)} of {_whose(limit)}{window_words(limit)}"
        )
        fault = Fault(
            FaultKind.RATE_LIMITED,
            f"{message}{amounts}. Please try again in {_span(wait)}.",
            code="rate_limit_exceeded",
            retry_after=wait,
            limited=_limited(limit),
        )
    if fault.retry_after is not None:
        headers.append((b"retry-after-ms", b"%d" % max(1, math.ceil(wait * 1000))))
    return DragomanError(fault), headers


def queue_full(limit: Rule) -> tuple[DragomanError, Headers]:
    """The error for a request whose queue is full, and the headers that belong to it."""
    message = f"Too many requests of {_whose(limit)} wait for their turn. Please try again in 1s."
    fault = Fault(
        FaultKind.RATE_LIMITED, message, code="slow_down", retry_after=1.0, limited="requests"
    )
    headers = [(LIMIT_HEADER, limit.name.encode()), (b"retry-after-ms", b"1000")]
    return DragomanError(fault), headers


def unpriced(limit: Rule, model: str) -> tuple[DragomanError, Headers]:
    """The error for a model that has no price, asked for with a key that has a budget."""
    message = (
        f"The model {model[:200]} has no price, and {_whose(limit)} has a budget: it cannot be"
        " counted against that."
    )
    fault = Fault(FaultKind.FORBIDDEN, message, code="model_unpriced")
    return DragomanError(fault), [(LIMIT_HEADER, limit.name.encode())]


def is_held_back(rule: Rule, refusal: Refused, now: float) -> bool:
    """Whether a budget refuses a request only because it cannot be counted, while the database that
    machines share is away."""
    is_closed = rule.kind is Kind.COST and rule.limit.when_away == "closed"
    return is_closed and refusal.used + refusal.amount <= rule.amount(now)


def away() -> tuple[DragomanError, Headers]:
    """The error for a request whose limits cannot be counted, since their owner is gone: this
    worker ends, and another takes its place."""
    message = "Limits cannot be counted at the moment. Please try again in 1s."
    fault = Fault(
        FaultKind.RATE_LIMITED, message, code="slow_down", retry_after=1.0, limited="requests"
    )
    return DragomanError(fault), [(b"retry-after-ms", b"1000")]


def uncountable(rule: Rule) -> tuple[DragomanError, Headers]:
    """The error for a request with a limit of which this machine does not know the time zone."""
    message = (
        f"The limit {rule.name} of {_whose(rule)} cannot be counted: the gateway does not know the "
        f"time zone {rule.unknown_zone[:64]}. Its operator has to install it, or change the limit."
    )
    fault = Fault(FaultKind.INTERNAL, message, code="limit_uncountable", status=503)
    return DragomanError(fault), [(b"x-should-retry", b"false")]


class _RateLines:
    """Lines of headers for the tightest limit of each name. All of a line but what is left is made
    once a second: most answers come at once."""

    __slots__ = ("_endpoint", "_line", "_may_change", "_named", "_rules", "_tightest", "_until")

    def __init__(self, endpoint: Endpoint, rules: Rules) -> None:
        self._endpoint = endpoint
        self._rules = rules.all
        self._named: dict[str, list[int]] = {}
        for place in rules.rates:
            name = endpoint.limit_names.get(rules.all[place].limit.kind)
            if name is not None:
                self._named.setdefault(name, []).append(place)
        self._tightest = [places[0] for places in self._named.values()]
        self._may_change = any(len(places) > 1 for places in self._named.values())
        self._line = b""
        self._until = 0.0

    def lines(self, granted: Granted) -> bytes:
        """The lines for a request."""
        left, now = granted.left, granted.at
        if self._may_change:
            tightest = [
                min(places, key=lambda place: left[place] / (self._rules[place].amount(now) or 1))
                for places in self._named.values()
            ]
            if tightest != self._tightest:
                self._tightest, self._until = tightest, 0.0
        if not 0.0 < self._until - now <= 1.0:
            self._prepare(now)
        return self._line % tuple([max(left[place], 0) for place in self._tightest])

    def _prepare(self, now: float) -> None:
        """What the request uses is the last to be free again."""
        self._line, self._until = b"", int(now) + 1.0
        for name, place in zip(self._named, self._tightest, strict=True):
            rule = self._rules[place]
            assert rule.window is not None
            at = counts_until(rule.window, now)
            limit = RateLimit(name, rule.amount(now), at - now, at)
            self._line += self._endpoint.limit_lines(limit)


def rate_lines(codec: Codec, rules: Rules) -> Callable[[Granted], bytes]:
    """What makes the lines of the client's protocol's own headers for what is left of rates, which
    `rules` keep."""
    lines = rules.rate_lines[codec.name] = _RateLines(codec.endpoint, rules).lines
    return lines


def soft_headers(rules: Rules, granted: Granted) -> Headers:
    """The header that names soft limits of which a share is reached: `key:cost:month; used=80`."""
    found = [
        f"{rules.all[place].name}; used={share}"
        for place in rules.soft
        if (share := reached(granted.used[place], rules.all[place].amount(granted.at)))
    ]
    return [(LIMIT_HEADER, ", ".join(found).encode())] if found else []


def budget_headers(admitted: Admitted, spent: Amounts) -> Headers:
    """The header for what is left of the tightest budget after an answer that came to `spent`,
    where the caller has one and may know."""
    if not admitted.shows_amounts:
        return []
    granted = admitted.reservation.granted
    left = [
        granted.left[place] + granted.amounts[place] - spent[place]
        for place in admitted.rules.budgets
    ]
    return [(BUDGET_HEADER, dollars(max(0, min(left))).encode())] if left else []


def amount_text(kind: Kind, amount: int) -> int | str:
    """An amount as it is shown: a cost in US dollars, as a text."""
    return dollars(amount) if kind is Kind.COST else amount


def moment_text(seconds: float) -> str | None:
    """A time as it is shown; None for never."""
    if math.isinf(seconds):
        return None
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counted(limit: Rule) -> str:
    kind = limit.limit.kind
    return "requests at one time" if kind == "concurrent" else kind.replace("_", " ")


def _limited(limit: Rule) -> Literal["requests", "tokens"]:
    return "requests" if limit.kind in (Kind.REQUESTS, Kind.CONCURRENT) else "tokens"


def _whose(limit: Rule) -> str:
    if limit.is_team:
        return f"the team {limit.owner}"
    return "this account" if is_person(limit.owner) else "this API key"


def window_words(limit: Rule) -> str:
    """The window of a limit: ` per month`, ` in total`; empty if it has none."""
    window = limit.limit.window
    if window is None:
        return ""
    return " in total" if window == "total" else f" per {window}"


def _amounts(limit: Rule, refusal: Refused, most: int) -> str:
    asked = refusal.amount
    used = most - refusal.left
    if limit.kind is Kind.COST:
        text = f" (limit ${dollars(most)}, used ${dollars(used)}, requested ${dollars(asked)})"
    else:
        text = f" (limit {most}, used {used}, requested {asked})"
    return "" if _LIKE_A_STATUS.search(text) else text


def _resets(limit: Rule, refusal: Refused) -> str:
    rolls = isinstance(limit.window, Rolling)
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

"""For how long an upstream asks to be left alone, whoever the vendor is. Pure.

What is asked first decides:

1. a window of a subscription that is really at its end (100 % used, or `rejected`), not one that
   merely happens to reset some day;
2. `retry-after-ms` and `retry-after`;
3. the body: `resets_in_seconds`, Google's `RetryInfo`, "try again in 1.5s";
4. limits of which nothing remains, by their reset headers. These come last, since they give when a
   limit is full again, which is later than when the next request fits.

Sources: OpenAI, guide "Rate limits", section on headers (`x-ratelimit-*`: durations until the
limit "resets to its initial state"); Anthropic, API reference "Rate limits"
(`anthropic-ratelimit-*-reset`: RFC 3339, "fully replenished"; `retry-after`: earlier retries will
fail); for subscriptions, which no reference describes, what was recorded of them:
`anthropic-ratelimit-unified-*` in anthropics/claude-code#12829 and lidge-jun/opencodex#3809,
`x-codex-*` and the body of `usage_limit_reached` in raine/claude-code-proxy#139. OpenRouter,
"Errors and debugging", and Azure send `retry-after`; some servers the `ratelimit-reset` of the IETF
draft or an `x-ratelimit-reset` in Unix seconds or milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from dragoman.failing import answered_at, number_of, retry_after

WINDOW_SPENT = "usage_window_spent"
"""The word that stands for a subscription's window at its end, which headers report."""

_LIMIT_STATUSES = frozenset({402, 403, 429})
_LONGEST = 400 * 24 * 3600.0
"""Seconds beyond which a stated time is not believed."""


class Limits(Struct, frozen=True):
    """What an answer reports of limits. `rest` is in seconds, None if none is given; `words` are
    what its headers report besides, in the form of an error's code.
    """

    rest: float | None = None
    words: frozenset[str] = frozenset()


def limits_of(
    status: int,
    headers: Mapping[str, str],
    resets: Iterable[tuple[str, float | str]],
    text: str,
    now: float | None,
) -> Limits:
    """The limits that an answer reports.

    `headers` have lower-case names, `resets` are the members of the error body that say when to
    come back (`ErrorReport.resets`), `text` is its message in lower case. Dates are measured
    against the answer's own `date`, else against `now` (Unix seconds; None: dates are ignored).
    """
    since = answered_at(headers)
    since = now if since is None else since
    limited = status in _LIMIT_STATUSES
    words: frozenset[str] = frozenset()
    if limited:
        whole, part = _windows(headers, since)
        if whole is not None:
            words = frozenset({WINDOW_SPENT})
        for window in (whole, part):
            if window is not None and (rest := _longest(window)) is not None:
                return Limits(rest, words)
    rest = retry_after(headers, since)
    if rest is None:
        rest = _of_body(resets, since)
    if rest is None:
        rest = _of_text(text, since)
    if rest is None and limited:
        rest = _longest(_of_empty_limits(headers, since))
    return Limits(rest, words)


Resets = list[float | None]
"""Seconds to the resets of some limits, None where one is not stated."""


def _longest(resets: Iterable[float | None]) -> float | None:
    """All limits must be over, so the last of them counts."""
    return max((reset for reset in resets if reset is not None), default=None)


_UNIFIED = "anthropic-ratelimit-unified-"
_REJECTED = frozenset({"rejected", "rate_limited"})
_WHOLE_WINDOW = re.compile(r"\d+[hd]")
_WHOLE_CLAIMS = frozenset({"", "five_hour", "seven_day"})


def _windows(
    headers: Mapping[str, str], since: float | None
) -> tuple[Resets | None, Resets | None]:
    """The subscription windows at their end: those of the whole account, those of one model
    (`7d_opus`); None where there is none of the kind.
    """
    whole = [
        _reset_of_codex(headers, f"x-codex-{slot}", since)
        for slot in ("primary", "secondary")
        if (number_of(headers.get(f"x-codex-{slot}-used-percent")) or 0) >= 100
    ]
    part: Resets = []
    overall = headers.get(_UNIFIED + "status", "").lower()
    if not overall or overall in _REJECTED:
        for window in _rejected_windows(headers):
            reset = until(headers.get(f"{_UNIFIED}{window}-reset"), since)
            (whole if _WHOLE_WINDOW.fullmatch(window) else part).append(reset)
        if overall and not whole and not part:
            claim = headers.get(_UNIFIED + "representative-claim", "").lower()
            reset = until(headers.get(_UNIFIED + "reset"), since)
            (whole if claim in _WHOLE_CLAIMS else part).append(reset)
    return whole or None, part or None


def _rejected_windows(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        window, _, member = name.removeprefix(_UNIFIED).rpartition("-")
        if not name.startswith(_UNIFIED) or not window or window.startswith("overage"):
            continue
        if member == "status" and value.lower() in _REJECTED:
            yield window


def _reset_of_codex(headers: Mapping[str, str], slot: str, since: float | None) -> float | None:
    seconds = number_of(headers.get(f"{slot}-reset-after-seconds"))
    return until(headers.get(f"{slot}-reset-at"), since) if seconds is None else seconds


def _of_body(resets: Iterable[tuple[str, float | str]], since: float | None) -> float | None:
    for name, value in resets:
        if isinstance(value, str):
            seconds = duration(value) if name == "retryDelay" else None
        elif name == "resets_at":
            seconds = until(str(value), since) if 0 <= value < _EPOCH_MS else None
        else:
            seconds = value if name == "resets_in_seconds" and value >= 0 else None
        if seconds is not None and seconds < _LONGEST:
            return float(seconds)
    return None


_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_AMOUNT = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?([a-z]{1,12}) ?")
_TRY_AGAIN = re.compile(r"(?:try again|retry) (?:in|after) (?=\d)")
_DAY = 24 * 3600.0
_REGAIN = re.compile(r"regain access on (\d{4}-\d\d-\d\d)(?: at (\d\d:\d\d))?")


def _of_text(text: str, since: float | None) -> float | None:
    """OpenAI: "Please try again in 1.5s"; Azure: "Please retry after 26 seconds"; Anthropic, for a
    spend limit: "You will regain access on 2026-12-01 at 00:00 UTC".
    """
    found = _TRY_AGAIN.search(text)
    if found is not None:
        seconds, _ = _amounts(text, found.end())
        return seconds if seconds is not None and seconds < _LONGEST else None
    found = _REGAIN.search(text)
    if found is None:
        # Amazon Bedrock: "Too many tokens per day", which are counted from midnight, UTC.
        is_of_day = since is not None and "tokens per day" in text
        return _DAY - since % _DAY if is_of_day and since is not None else None
    return until(f"{found[1]}T{found[2] or '00:00'}:00Z", since)


_COUNTED = (
    ("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}", ("requests", "tokens")),
    (
        "anthropic-ratelimit-{}-remaining",
        "anthropic-ratelimit-{}-reset",
        ("requests", "tokens", "input-tokens", "output-tokens"),
    ),
    ("{}-remaining", "{}-reset", ("x-ratelimit", "ratelimit")),
)
"""Headers of what remains of a limit, of its reset, and the names of the limits."""


def _of_empty_limits(headers: Mapping[str, str], since: float | None) -> Iterator[float | None]:
    for remaining, reset, names in _COUNTED:
        for name in names:
            if number_of(headers.get(remaining.format(name))) == 0:
                yield until(headers.get(reset.format(name)), since)


_EPOCH = 1e9
_EPOCH_MS = 1e12


def until(value: str | None, since: float | None) -> float | None:
    """Seconds from `since` to a time in any of the forms that reset headers have: a duration, a
    number of seconds, Unix seconds or milliseconds, or RFC 3339. None if it cannot be read or
    is over.
    """
    if value is None:
        return None
    seconds = number_of(value)
    if seconds is None:
        seconds = duration(value.lower())
    if seconds is None:
        seconds = _rfc3339(value)
        if seconds is None:
            return None
    if seconds >= _EPOCH:
        if since is None:
            return None
        seconds = (seconds / 1000 if seconds >= _EPOCH_MS else seconds) - since
    return seconds if 0 < seconds < _LONGEST else None


def duration(text: str) -> float | None:
    """Seconds of a duration such as `6m0s`, `20ms`, `1.5s`, `26 seconds`; None if it is none."""
    text = text.strip()
    seconds, end = _amounts(text, 0)
    return seconds if end == len(text) else None


def _amounts(text: str, start: int) -> tuple[float | None, int]:
    """The sum of the amounts of time that follow one another from `start`, and where they end."""
    total: float | None = None
    while (found := _AMOUNT.match(text, start)) is not None and found[2] in _UNITS:
        total = (total or 0.0) + float(found[1]) * _UNITS[found[2]]
        start = found.end()
    return total, start


def _rfc3339(value: str) -> float | None:
    from datetime import UTC, datetime  # slow to import, and only for errors

    try:
        moment = datetime.fromisoformat(value.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None

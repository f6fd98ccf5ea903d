"""What every vendor's error answer has in common: when to come back, and a body that is no JSON."""

from __future__ import annotations

from collections.abc import Mapping

_LONGEST_TEXT = 500
_LONGEST_WAIT = 30 * 24 * 3600.0


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, from `retry-after-ms`, else from `retry-after` (seconds or an HTTP date).

    `headers` have lower-case names. A date is taken relative to the answer's own `date`, so that
    clocks need not agree, else to `now` (Unix seconds). None if nothing usable is said. Both
    vendors' SDKs read these two, in this order.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, _LONGEST_WAIT)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        until = _moment(value)
        since = _moment(headers.get("date", "")) or now
        if until is None or since is None:
            return None
        seconds = max(0.0, until - since)
    return None if seconds is None else min(seconds, _LONGEST_WAIT)


def plain_text(body: bytes) -> str:
    """The message of a server in front of the upstream: the body if it is short and no page."""
    text = body[: _LONGEST_TEXT + 1].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") or len(text) > _LONGEST_TEXT else text


def _moment(value: str) -> float | None:
    from datetime import UTC  # slow to import, and only for errors
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None

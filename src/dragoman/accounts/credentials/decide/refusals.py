"""What the refusal of a request says of the credential that it was authorised by."""

from __future__ import annotations

from collections.abc import Mapping

_EXPIRED = (
    "security token included in the request is expired",
    "expiredtoken",
    "token has expired",
)
_CLOCK = ("signature expired", "signature not yet current", "requesttimetooskewed")


def says_expired(status: int, text: str, *, is_token: bool) -> bool:
    """Whether another credential may be accepted where this one was refused; `is_token`: it is a
    token, no key that signs."""
    if is_token and status == 401:
        return True
    words = text.lower()
    return status in (400, 401, 403) and any(word in words for word in _EXPIRED)


def is_of_clock(status: int, text: str) -> bool:
    """Whether a signature was refused because the clocks differ."""
    words = text.lower()
    return status in (400, 401, 403) and any(word in words for word in _CLOCK)


def clock_of(headers: Mapping[str, str]) -> float | None:
    """The time of a service in Unix seconds, as its answer has it; None if it does not."""
    from email.utils import parsedate_to_datetime  # seldom needed

    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None

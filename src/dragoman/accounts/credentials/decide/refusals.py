"""What the refusal of a request says of the credential that it was authorised by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

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


def clock_of(headers: Mapping[str, str], text: str) -> float | None:
    """The time of a service in Unix seconds, as its refusal or its answer's head has it; None if
    neither does."""
    from email.utils import parsedate_to_datetime  # seldom needed

    if (found := _SERVICE_TIME.search(text)) is not None:
        return datetime.strptime(f"{found[1]}+0000", "%Y%m%dt%H%M%Sz%z").timestamp()
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


_SERVICE_TIME = re.compile(r"\(([0-9]{8}t[0-9]{6}z) [-+]")
"""As in "... is now earlier than 20261129T051100Z (20261129T051600Z - 5 min.)", in lower case."""

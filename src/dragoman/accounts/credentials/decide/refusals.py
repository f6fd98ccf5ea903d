"""What the refusal of a request says of the credential that it was authorised by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from datetime import datetime

# Messages may quote the request, so they are read from their beginning only.
_EXPIRED = re.compile(
    r"(?:(?:the|your|access|security) )*token (?:included in the request )?(?:has|is) expired"
)
_EXPIRED_CODES = frozenset({"expiredtoken", "expiredtokenexception"})
_CLOCK = ("signature expired", "signature not yet current")
_CLOCK_CODES = frozenset({"requesttimetooskewed"})


def says_expired(status: int, codes: Set[str], text: str, *, is_token: bool) -> bool:
    """Whether another credential may be accepted where this one was refused; `is_token`: it is a
    token, no key that signs. `codes` and `text` are in lower case."""
    if is_token and status == 401:
        return True
    is_said = not _EXPIRED_CODES.isdisjoint(codes) or _EXPIRED.match(text) is not None
    return status in (400, 401, 403) and is_said


def is_of_clock(status: int, codes: Set[str], text: str) -> bool:
    """Whether a signature was refused because the clocks differ; as `says_expired`."""
    is_said = not _CLOCK_CODES.isdisjoint(codes) or text.startswith(_CLOCK)
    return status in (400, 401, 403) and is_said


def clock_of(headers: Mapping[str, str], text: str) -> float | None:
    """The time of a service in Unix seconds, as its refusal or its answer's head has it; None if
    neither does."""
    from email.utils import parsedate_to_datetime  # seldom needed

    try:
        if (found := _SERVICE_TIME.search(text)) is not None:
            return datetime.strptime(f"{found[1]}+0000", "%Y%m%dt%H%M%Sz%z").timestamp()
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


_SERVICE_TIME = re.compile(r"\(([0-9]{8}t[0-9]{6}z) [-+]")
"""As in "... is now earlier than 20261129T051100Z (20261129T051600Z - 5 min.)", in lower case."""

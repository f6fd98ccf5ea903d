"""What every vendor's error answer has in common: when to come back, a body that is no JSON, and
the terms of the rules that decide what a failure means for an account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

_LONGEST_TEXT = 500
_LONGEST_WAIT = 30 * 24 * 3600.0


class Verdict(StrEnum):
    """What becomes of the request and of the account after a failure."""

    RETURN_TO_CLIENT = "return_to_client"
    """The request is at fault: the answer goes to the client, the account is not punished."""
    TRY_NEXT = "try_next"
    """Try the next account; this one stays active."""
    COOL = "cool"
    """Try the next account; this one rests for the model that was asked for."""
    EXHAUST = "exhaust"
    """Try the next account; this one has no quota left and rests for every model."""
    DISABLE = "disable"
    """Try the next account; this one is out until its key changes or a person enables it."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a table: a symptom it fits, and what it means.

    A row fits when everything it names fits; a row that names nothing fits every failure.
    """

    verdict: Verdict
    """`return_to_client`: the request is at fault, the account is not punished. All others try the
    next account; this one stays active (`try_next`), rests for the model that was asked for
    (`cool`), is out for every model until its quota is renewed (`exhaust`), or is out until its
    key changes or a person enables it (`disable`)."""
    why: str
    """The reason for operators and, when no account is left, for clients."""
    statuses: tuple[int, ...] = ()
    """HTTP statuses, one of which the answer has; 0 stands for no answer at all."""
    words: tuple[str, ...] = ()
    """Error types and codes, one of which the body contains; in lower case."""
    texts: tuple[str, ...] = ()
    """Texts, one of which is part of the error's message; in lower case."""
    headers: tuple[str, ...] = ()
    """Headers, one of which the answer carries: `name`, or `name: value`; in lower case."""
    soft: bool = False
    """A rest that `cool` gives only means that the account is avoided while another is left."""
    every_model: bool = False
    """A rest that `cool` gives is for every model, not only for the one that was asked for."""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, from `retry-after-ms`, else from `retry-after` (seconds or an HTTP date).

    `headers` have lower-case names. A date is taken relative to the answer's own `date`, so that
    clocks need not agree, else to `now` (Unix seconds). None if no usable value is given. Both
    vendors' SDKs read these two, in this order.
    """
    milliseconds = number_of(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, _LONGEST_WAIT)
    value = headers.get("retry-after")
    seconds = number_of(value)
    if seconds is None and value is not None:
        until = _moment(value)
        since = answered_at(headers)
        since = now if since is None else since
        if until is None or since is None:
            return None
        seconds = max(0.0, until - since)
    return None if seconds is None else min(seconds, _LONGEST_WAIT)


def answered_at(headers: Mapping[str, str]) -> float | None:
    """When the upstream answered, by its own clock (`date`), in Unix seconds."""
    value = headers.get("date")
    return None if value is None else _moment(value)


def plain_text(body: bytes) -> str:
    """The message of a server in front of the upstream: the body if it is short and no page."""
    text = body[: _LONGEST_TEXT + 1].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") or len(text) > _LONGEST_TEXT else text


def _moment(value: str) -> float | None:
    from datetime import UTC  # slow to import, and only for errors
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_NUMBER = re.compile(r"[ \t]*\+?(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2}))?[ \t]*", re.ASCII)
_MOST = 1e15
"""Numbers beyond are no counts, seconds or milliseconds of anything."""


def number_of(value: str | None) -> float | None:
    """A header's number; None if there is none, or one that is negative or makes no sense."""
    if value is None or _NUMBER.fullmatch(value) is None:
        return None
    number = float(value)
    return number if number <= _MOST else None


TEMPLATE_TEXTS = (
    "system message must be at the beginning",
    "unexpected message role",
    "unexpected reasoning effort",
    "roles must alternate",
    "no user query found in messages",
    "system role not supported",
    "only user, assistant and tool roles are supported",
)
"""Texts, in lower case, with which chat templates of models refuse a conversation. Servers send
them with the status 400 or 500."""


def is_refused_by_template(message: str) -> bool:
    """Whether an error message is the refusal of a chat template."""
    lowered = message.lower()
    return any(text in lowered for text in TEMPLATE_TEXTS)

"""Budgets, as Claude Code shows them: headers of answers, the refusal once all is spent, and what
it asks for when somebody enters `/usage`. As it was seen to take them in version 2.1.329."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dragoman.canonical.errors import Fault
from dragoman.protocols.budgets import (
    BudgetNotices,
    BudgetUse,
    ClientHeaders,
    Headers,
    Spending,
)
from dragoman.protocols.fields import JsonObject

_PROGRAM: Final = b"x-claude-code-session-id"
"""A header that all requests of Claude Code have, and of nobody else."""

_UNIFIED: Final = b"anthropic-ratelimit-unified-"
_NOTICED: Final = ((95, b"0.95"), (75, b"0.75"))
"""Percent of a budget from which on a person sees a notice, and how the header names them."""

_WARNED, _CRITICAL = 0.75, 0.95
_STATUS: Final = 429


def notice(client: ClientHeaders, find_use: Callable[[], BudgetUse]) -> Headers:
    """The function behind `BudgetNotices.notice`. A notice is shown once a threshold is passed."""
    use = find_use()
    percent = min(use.percent, 99)
    passed = next((name for least, name in _NOTICED if percent >= least), b"")
    status = b"allowed_warning" if passed else b"allowed"
    headers = [
        (_UNIFIED + b"status", status),
        (_UNIFIED + b"representative-claim", b"overage"),
        (_UNIFIED + b"overage-status", status),
        (_UNIFIED + b"overage-utilization", b"0.%02d" % percent),
        *_resets(use),
    ]
    if passed:
        headers.append((_UNIFIED + b"overage-surpassed-threshold", passed))
    return headers


def refusal(
    client: ClientHeaders, fault: Fault, use: BudgetUse | None
) -> tuple[Fault, Headers] | None:
    """The function behind `BudgetNotices.refusal`. Other programs get another status:
    some try again after this one whatever its headers say."""
    if _PROGRAM not in client:
        return None
    if use is None:
        reason = (_UNIFIED + b"overage-disabled-reason", b"fetch_error")
        return replace(fault, retry_after=None), [(b"x-should-retry", b"false"), reason]
    headers = [
        (_UNIFIED + b"status", b"rejected"),
        *_resets(use),
        (_UNIFIED + b"overage-utilization", b"1"),
        (_UNIFIED + b"overage-surpassed-threshold", b"1"),
        (_UNIFIED + b"overage-period", use.period.encode()),
        (_UNIFIED + b"overage-disabled-reason", b"org_spend_cap_reached"),
    ]
    if use.is_team:
        headers.append((_UNIFIED + b"overage-scope", b"group_pool"))
    return replace(fault, status=_STATUS, retry_after=use.resets_in), headers


def _resets(use: BudgetUse) -> Headers:
    if use.resets is None:
        return []
    at = b"%d" % use.resets
    return [(_UNIFIED + b"reset", at), (_UNIFIED + b"overage-reset", at)]


def write_spending(spending: Spending) -> JsonObject:
    """The function behind `BudgetNotices.write`."""
    use = spending.use
    extra: JsonObject = {
        "is_enabled": True,
        "monthly_limit": spending.limit,
        "used_credits": spending.used,
        "utilization": None if use is None else use.percent,
        "currency": "USD",
    }
    if use is None:
        for name, used in (("daily", spending.day), ("weekly", spending.week)):
            extra[name] = {"limit": None, "used_credits": used, "utilization": None}
        return {"extra_usage": extra, "limits": []}
    resets = use.resets
    limit: JsonObject = {
        "kind": "spend",
        "group": use.period,
        "percent": use.percent,
        "resets_at": None if resets is None else _moment(resets),
        "severity": _severity(use.share),
        "is_active": True,
    }
    return {"extra_usage": extra, "limits": [limit]}


def _severity(share: float) -> str:
    return "critical" if share > _CRITICAL else "warning" if share > _WARNED else "normal"


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000Z"


BUDGETS: Final = BudgetNotices(
    notice=notice, refusal=refusal, path="/api/oauth/usage", write=write_spending
)

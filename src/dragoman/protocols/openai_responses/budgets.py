"""Budgets, as Codex shows them: its limits, by headers of answers, and the refusal once all is
spent. As it was seen to take them in version 0.169.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from dragoman.canonical.errors import Fault
from dragoman.protocols.budgets import BudgetNotices, BudgetUse, ClientHeaders, Headers

_PROGRAM: Final = b"x-codex-window-id"
"""A header that all requests of Codex have, and of nobody else."""

_STATUS: Final = 429
_CODE: Final = "usage_limit_reached"
_LONGEST: Final = 500
"""Characters of our words: they stand in a header."""


def notice(client: ClientHeaders, find_use: Callable[[], BudgetUse]) -> Headers:
    """The function behind `BudgetNotices.notice`."""
    if _PROGRAM not in client:
        return []
    use = find_use()
    owner = "team budget" if use.is_team else "budget"
    name = (b"x-codex-limit-name", f"{owner}{use.window}".encode())
    return [name, *_primary(use)]


def _primary(use: BudgetUse) -> Headers:
    headers = [(b"x-codex-primary-used-percent", b"%d" % use.percent)]
    if use.minutes is not None:
        headers.append((b"x-codex-primary-window-minutes", b"%d" % use.minutes))
    if use.resets is not None:
        headers.append((b"x-codex-primary-reset-at", b"%d" % use.resets))
    return headers


def refusal(
    client: ClientHeaders, fault: Fault, use: BudgetUse | None
) -> tuple[Fault, Headers] | None:
    """The function behind `BudgetNotices.refusal`. Codex shows no message of this error, but that
    in a header, unless another names the limit or says by its type that it is one of spending; then
    it has words of its own."""
    if _PROGRAM not in client or use is None:
        return None
    details = {"type": _CODE, "resets_at": use.resets}
    # In the middle of its sentence.
    words = fault.message[:_LONGEST].rstrip(".").encode("ascii", "replace")
    headers = [*_primary(use), (b"x-codex-promo-message", words)]
    return replace(fault, status=_STATUS, code=_CODE, details=details), headers


BUDGETS: Final = BudgetNotices(notice=notice, refusal=refusal)

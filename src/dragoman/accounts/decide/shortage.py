"""The error of a request that no account can serve."""

from __future__ import annotations

from dragoman.accounts.decide.availability import Shortage
from dragoman.canonical.errors import DragomanError, Fault, FaultKind

_BUSY_RETRY_S = 1.0
"""Seconds after which a client may ask again where all accounts are busy."""


class NoAccount(DragomanError):
    """No account is left for a request. The message gives the reasons, `retry_after` when one may
    be back, in seconds. `reasons` has them with the number of accounts each. `refused_for` is the
    kind of failure with which the upstream refuses all accounts alike, None if it does not.
    """

    def __init__(
        self,
        fault: Fault,
        reasons: tuple[tuple[str, int], ...] = (),
        refused_for: FaultKind | None = None,
    ) -> None:
        super().__init__(fault)
        self.reasons = reasons
        self.refused_for = refused_for


class AllBusy(NoAccount):
    """Every account that could serve has as many requests in flight as it may: one of them will be
    free again."""


def no_account(
    upstream: str,
    model: str,
    shortage: Shortage,
    now: float,
    refused_for: FaultKind | None = None,
) -> NoAccount:
    """The error for a shortage of accounts of `upstream` for `model` (empty: any) at `now`.
    `refused_for` is as in `NoAccount`."""
    wait = None if shortage.soonest is None else max(0.0, shortage.soonest - now)
    if shortage.busy:
        wait = _BUSY_RETRY_S if wait is None else min(wait, _BUSY_RETRY_S)
    if not shortage.serving:
        reason = f"{upstream} has no account"
        if shortage.reasons:
            reason = f"no account of {upstream} serves the model {model[:200]}"
    else:
        reason = "; ".join(f"{why}: {count}" for why, count in shortage.reasons)
    fault = Fault(
        FaultKind.NO_ACCOUNT,
        f"No active accounts available for {model[:200] or upstream} ({reason})",
        code="no_account_available",
        retry_after=wait,
    )
    return (AllBusy if shortage.busy else NoAccount)(fault, shortage.reasons, refused_for)

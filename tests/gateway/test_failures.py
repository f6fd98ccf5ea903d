"""What a client is told when nothing more can be tried."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.rules import DEFAULT, SOP, RuleSet
from dragoman.accounts.decide.symptoms import UNREACHABLE
from dragoman.accounts.pool import NoAccount
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.serving.failures import (
    ALL_TRIED,
    NONE_LEFT,
    Failure,
    failed_call,
    final_fault,
    more_informative,
    none_left,
)
from dragoman.upstream.errors import ConnectFailed, FirstByteTimeout, Truncated


def failure(kind: FaultKind, message: str = "words") -> Failure:
    return Failure(Fault(kind, message, code="c", retry_after=7.0), UNREACHABLE)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (FaultKind.RATE_LIMITED, FaultKind.RATE_LIMITED),
        (FaultKind.OVERLOADED, FaultKind.OVERLOADED),
        (FaultKind.PAYMENT_REQUIRED, FaultKind.PAYMENT_REQUIRED),
        (FaultKind.UPSTREAM_FAILED, FaultKind.UPSTREAM_FAILED),
        (FaultKind.UPSTREAM_TIMEOUT, FaultKind.UPSTREAM_TIMEOUT),
        (FaultKind.UNAUTHENTICATED, FaultKind.NO_ACCOUNT),
        (FaultKind.FORBIDDEN, FaultKind.UPSTREAM_FAILED),
    ],
)
def test_an_accounts_trouble_is_not_told_as_the_clients(kind: FaultKind, shown: FaultKind) -> None:
    """req: 139"""
    last = final_fault(DEFAULT, failure(kind), NONE_LEFT)
    assert last.kind is shown
    assert "No active accounts available" in last.message
    assert last.retry_after == 7.0
    strict = final_fault(SOP, failure(kind), ALL_TRIED)
    assert strict.kind is FaultKind.NO_ACCOUNT
    assert strict.message.startswith("All accounts exhausted")
    assert strict.retry_after == 7.0


@pytest.mark.parametrize("rules", [DEFAULT, SOP])
@pytest.mark.parametrize("kind", [FaultKind.RATE_LIMITED, FaultKind.UNAUTHENTICATED])
def test_the_reasons_are_told_by_count_and_when_an_account_is_back(
    rules: RuleSet, kind: FaultKind
) -> None:
    """req: 139, 144"""
    none = NoAccount(
        Fault(FaultKind.NO_ACCOUNT, "none", retry_after=3.0),
        (("out of quota", 2), ("rate limited", 1)),
    )
    told = final_fault(rules, failure(kind), NONE_LEFT, none)
    assert "No active accounts available" in told.message
    assert "out of quota: 2; rate limited: 1" in told.message
    assert told.retry_after == 3.0


WAITING = NoAccount(Fault(FaultKind.NO_ACCOUNT, "none", retry_after=60.0), (("a", 1),))
FOR_HOURS = NoAccount(Fault(FaultKind.NO_ACCOUNT, "none", retry_after=18_000.0), (("a", 1),))
FOR_GOOD = NoAccount(Fault(FaultKind.NO_ACCOUNT, "none"), (("a", 1),))
ALIKE = NoAccount(
    Fault(FaultKind.NO_ACCOUNT, "none", retry_after=3.0), (("a", 3),), FaultKind.FORBIDDEN
)


@pytest.mark.parametrize(
    ("kind", "shortage", "shown"),
    [
        (FaultKind.UNAUTHENTICATED, WAITING, FaultKind.NO_ACCOUNT),
        (FaultKind.UNAUTHENTICATED, FOR_HOURS, FaultKind.PAYMENT_REQUIRED),
        (FaultKind.UNAUTHENTICATED, FOR_GOOD, FaultKind.FORBIDDEN),
        (FaultKind.FORBIDDEN, WAITING, FaultKind.UPSTREAM_FAILED),
        (FaultKind.FORBIDDEN, FOR_GOOD, FaultKind.FORBIDDEN),
        (FaultKind.RATE_LIMITED, WAITING, FaultKind.RATE_LIMITED),
        (FaultKind.RATE_LIMITED, FOR_HOURS, FaultKind.PAYMENT_REQUIRED),
        (FaultKind.RATE_LIMITED, FOR_GOOD, FaultKind.RATE_LIMITED),
        (FaultKind.UPSTREAM_FAILED, FOR_HOURS, FaultKind.UPSTREAM_FAILED),
        (FaultKind.UPSTREAM_FAILED, FOR_GOOD, FaultKind.UPSTREAM_FAILED),
        (None, WAITING, FaultKind.NO_ACCOUNT),
        (None, FOR_HOURS, FaultKind.PAYMENT_REQUIRED),
        (None, FOR_GOOD, FaultKind.FORBIDDEN),
        (FaultKind.UNAUTHENTICATED, ALIKE, FaultKind.FORBIDDEN),
        (None, ALIKE, FaultKind.FORBIDDEN),
    ],
)
def test_what_waiting_does_not_mend_is_told_as_such(
    kind: FaultKind | None, shortage: NoAccount, shown: FaultKind
) -> None:
    """Whether accounts were tried for the request, or none was left to begin with."""

    def told(rules: RuleSet) -> Fault:
        if kind is None:
            return none_left(rules, shortage)
        return final_fault(rules, failure(kind), NONE_LEFT, shortage)

    fault = told(DEFAULT)
    assert fault.kind is shown
    blocked = shown in (FaultKind.FORBIDDEN, FaultKind.PAYMENT_REQUIRED)
    assert ("not your key" in fault.message) is blocked
    assert told(SOP).kind is FaultKind.NO_ACCOUNT


def test_a_refused_key_is_not_quoted() -> None:
    told = "Incorrect API key provided: sk-proj-abcdef123456."
    last = final_fault(DEFAULT, failure(FaultKind.UNAUTHENTICATED, told), NONE_LEFT)
    assert "sk-" not in last.message
    assert "abcdef" not in last.message


def test_the_more_informative_failure_is_kept() -> None:
    limited, refused = failure(FaultKind.RATE_LIMITED), failure(FaultKind.UNAUTHENTICATED)
    broken, again = failure(FaultKind.UPSTREAM_FAILED), failure(FaultKind.UPSTREAM_FAILED)
    assert more_informative(None, refused) is refused
    assert more_informative(refused, limited) is limited
    assert more_informative(limited, refused) is limited
    assert more_informative(broken, refused) is broken
    assert more_informative(broken, again) is again


def test_calls_that_brought_no_answer() -> None:
    late = failed_call(FirstByteTimeout("h:1"), "openai").fault
    assert (late.kind, late.code) == (FaultKind.UPSTREAM_TIMEOUT, "timeout")
    for error in (ConnectFailed("10.0.0.1:443 refused"), Truncated("cut")):
        fault = failed_call(error, "openai").fault
        assert (fault.kind, fault.code) == (FaultKind.UPSTREAM_FAILED, "upstream_error")
        assert "10.0.0.1" not in fault.message

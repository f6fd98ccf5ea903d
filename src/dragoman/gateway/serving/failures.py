"""Attempts that failed, and what a client is told when every account did."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from msgspec.structs import replace

from dragoman.accounts.pool import NoAccount
from dragoman.accounts.rules import RuleSet
from dragoman.accounts.symptoms import (
    UNREACHABLE,
    Symptom,
    symptom_of_answer,
    symptom_of_fault,
)
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols.base import Codec
from dragoman.upstream.errors import (
    BodyTooLarge,
    CallError,
    ConnectionReset,
    FirstByteTimeout,
    ProxyFailed,
    UpstreamTimeout,
)

NONE_LEFT = "No active accounts available"
ALL_TRIED = "All accounts exhausted"
OUT_OF_TIME = "No time is left to try another account"
"""What clients are told when no account is left, when as many as allowed were tried (requirement
139), and when that took as long as allowed."""


class Failure(Exception):
    """An attempt that failed before the client was shown anything of an answer.

    `fault` is what the client is told if nothing else helps. `body` is the upstream's own error,
    with its `status`, where there was one. `unanswered` says that not even the head of an answer
    came, `at_proxy` that the proxy never passed the request on.
    """

    def __init__(
        self,
        fault: Fault,
        symptom: Symptom,
        status: int = 0,
        body: bytes = b"",
        *,
        unanswered: bool = False,
        at_proxy: bool = False,
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.symptom = symptom
        self.status = status
        self.body = body
        self.unanswered = unanswered
        self.at_proxy = at_proxy


def failed_call(error: CallError, upstream: str) -> Failure:
    """The failure of a call that brought no complete answer."""
    kind = FaultKind.UPSTREAM_FAILED
    told = "could not be reached, or broke off its answer"
    if isinstance(error, UpstreamTimeout):
        kind, told = FaultKind.UPSTREAM_TIMEOUT, "did not answer in time"
    elif isinstance(error, BodyTooLarge):
        told = "sent an answer that is too large"
    code = "timeout" if kind is FaultKind.UPSTREAM_TIMEOUT else "upstream_error"
    message = f"The upstream {upstream} {told} ({type(error).__name__})."
    return Failure(
        Fault(kind, message, code=code),
        UNREACHABLE,
        unanswered=not error.sent or isinstance(error, ConnectionReset | FirstByteTimeout),
        at_proxy=isinstance(error, ProxyFailed),
    )


def refused(codec: Codec, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure of a call that was answered with an error status."""
    fault = codec.translate.read_error(status, headers, body)
    symptom = symptom_of_answer(status, headers, fault.report, time.time())
    if fault.retry_after is None and symptom.retry_after is not None:
        fault = replace(fault, retry_after=symptom.retry_after)
    return Failure(fault, symptom, status, body)


def unusable(fault: Fault) -> Failure:
    """The failure of an answer with status 200 that is an error, or no answer at all."""
    return Failure(fault, symptom_of_fault(fault, time.time()))


_BAD_STATE = (
    "encrypted content",
    "encrypted_content",
    "`signature` in `thinking`",
    "signature in thinking block",
)


def is_about_reasoning(failure: Failure) -> bool:
    """Whether an upstream refused reasoning that was sent back to it: it cannot decrypt it, or
    did not sign it. Both vendors answer 400, OpenAI with a code of its own."""
    if failure.status != 400:
        return False
    symptom = failure.symptom
    return "invalid_encrypted_content" in symptom.words or any(
        text in symptom.text for text in _BAD_STATE
    )


_WORTH = {
    FaultKind.RATE_LIMITED: 3,
    FaultKind.OVERLOADED: 3,
    FaultKind.PAYMENT_REQUIRED: 2,
    FaultKind.UNAUTHENTICATED: 0,
    FaultKind.FORBIDDEN: 0,
}


def more_telling(before: Failure | None, now: Failure) -> Failure:
    """Which of two failures tells a client more about what it can do."""
    if before is None:
        return now
    return now if _worth(now) >= _worth(before) else before


def _worth(failure: Failure) -> int:
    return _WORTH.get(failure.fault.kind, 1)


def final_fault(rules: RuleSet, last: Failure, ending: str, none: NoAccount | None = None) -> Fault:
    """What a client is told when all that could be tried failed.

    `last` is the most telling failure, `ending` why nothing more is tried, `none` what the pool
    said when it had no account left: why, and when one will be back. Failures of our accounts
    (key refused, not permitted) are never told as if they were the client's.
    """
    fault = last.fault
    wait, reasons = fault.retry_after, ""
    if none is not None:
        wait = wait if none.fault.retry_after is None else none.fault.retry_after
        reasons = "; ".join(f"{why}: {count}" for why, count in none.reasons)
        reasons += _when(none.fault.retry_after) if reasons else ""
    kind = fault.kind
    message = f"{fault.message} ({ending}: {reasons})" if reasons else f"{fault.message} ({ending})"
    if kind is FaultKind.UNAUTHENTICATED:
        told = f" ({reasons})" if reasons else ""
        kind = FaultKind.NO_ACCOUNT
        message = f"{ending}: the upstream refused the account's key.{told}"
    elif kind is FaultKind.FORBIDDEN:
        kind = FaultKind.UPSTREAM_FAILED
    if rules.final == "none_left":
        told = f" ({reasons})" if reasons else ""
        kind, message = FaultKind.NO_ACCOUNT, f"{ending}: {fault.message}{told}"
    if kind is fault.kind:
        return replace(fault, message=message, retry_after=wait)
    return Fault(kind, message, code=_CODES[kind], retry_after=wait)


def none_left(none: NoAccount) -> Fault:
    """What a client is told when there was no account to begin with: also when one may be back."""
    fault = none.fault
    return replace(fault, message=fault.message + _when(fault.retry_after))


def _when(seconds: float | None) -> str:
    return "" if seconds is None else f". One may be back in {math.ceil(seconds)} s"


_CODES = {FaultKind.NO_ACCOUNT: "no_account_available", FaultKind.UPSTREAM_FAILED: "upstream_error"}

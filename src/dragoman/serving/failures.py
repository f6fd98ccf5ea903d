"""Attempts that failed, and the error for the client when every account did."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec.structs import replace

from dragoman.accounts.decide.decisions import fitting
from dragoman.accounts.decide.rules import RuleSet
from dragoman.accounts.decide.symptoms import (
    UNREACHABLE,
    Symptom,
    symptom_of_answer,
    symptom_of_fault,
)
from dragoman.accounts.pool import NoAccount
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.finish import NO_SUMMARY, UNKNOWN_FINISH
from dragoman.canonical.tools import UNUSABLE_ARGUMENTS
from dragoman.protocols.base import Codec, to_json
from dragoman.upstream.errors import (
    BodyTooLarge,
    CallError,
    ConnectFailed,
    ConnectionReset,
    ConnectTimeout,
    FirstByteTimeout,
    IdleTimeout,
    ProxyFailed,
    TLSFailed,
    UpstreamTimeout,
)

NONE_LEFT = "No active accounts available"
ALL_TRIED = "All accounts exhausted"
OUT_OF_TIME = "No time is left to try another account"
HOST_DOWN = "Its host cannot be reached"
BODY_PASSED = "The request's body was passed on and cannot be sent again"
"""Texts for clients: no account is left, the limit of attempts (requirement 139) or of time was
reached, no other account could do better, or there is nothing to send."""


class Failure(Exception):
    """An attempt that failed before the client was sent anything of an answer.

    `fault` is the error for the client if nothing else helps. `body` is the upstream's own error,
    with its `status`, where there was one. `cause` is the transport error in one word, empty
    if the upstream answered. `unanswered`: not even the head of an answer came; `at_proxy`: the
    proxy never forwarded the request. `by_model`: the service did its work, and the model's answer
    is unusable: it was paid for, and no account is at fault. `unreached`: there was no connection,
    "timed out" or "failed", through the proxy if there is one; `silent`: nothing of an answer came
    within its time limit.
    """

    def __init__(
        self,
        fault: Fault,
        symptom: Symptom,
        status: int = 0,
        body: bytes = b"",
        *,
        cause: str = "",
        unanswered: bool = False,
        at_proxy: bool = False,
        by_model: bool = False,
        unreached: Literal["", "failed", "timed out"] = "",
        silent: bool = False,
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.symptom = symptom
        self.status = status
        self.body = body
        self.cause = cause
        self.unanswered = unanswered
        self.at_proxy = at_proxy
        self.by_model = by_model
        self.unreached = unreached
        self.silent = silent


class Unauthorised(CallError):
    """A request could not be authorised. The message says why."""

    sent = False
    cause = "no_credential"


def failed_call(error: CallError, upstream: str) -> Failure:
    """The failure of a call that brought no complete answer."""
    kind = FaultKind.UPSTREAM_FAILED
    problem = "could not be reached, or broke off its answer"
    if isinstance(error, UpstreamTimeout):
        kind, problem = FaultKind.UPSTREAM_TIMEOUT, "did not answer in time"
    elif isinstance(error, BodyTooLarge):
        problem = "sent an answer that is too large"
    problem = _CAUSES.get(error.cause, problem)
    code = "timeout" if kind is FaultKind.UPSTREAM_TIMEOUT else "upstream_error"
    message = f"The upstream {upstream} {problem} ({type(error).__name__})."
    if isinstance(error, Unauthorised):
        kind, code = FaultKind.NO_ACCOUNT, "no_account_available"
        message = f"The upstream {upstream} cannot be asked by an account of the gateway: {error}."
    return Failure(
        Fault(kind, message, code=code),
        UNREACHABLE,
        cause=error.cause,
        unanswered=not error.sent or isinstance(error, ConnectionReset | FirstByteTimeout),
        at_proxy=isinstance(error, ProxyFailed),
        unreached=_unreached(error),
        silent=isinstance(error, FirstByteTimeout | IdleTimeout),
    )


_CAUSES = {
    "connection_refused": "could not be reached: it refused the connection",
    "name_not_resolved": "could not be reached: its name did not resolve",
    "certificate_untrusted": "could not be reached: its certificate is self-signed, or of an "
    "authority that is not known here (ca_file of the upstream names others)",
    "certificate_expired": "could not be reached: its certificate has expired or is not valid yet",
    "certificate_of_another_name": "could not be reached: its certificate is for another name",
    "not_tls": "could not be reached: it does not speak TLS there",
    "tls_failed": "could not be reached: its TLS handshake or certificate failed",
    "connect_timeout": "did not answer in time: no connection came about",
    "proxy_failed": "could not be reached: the proxy failed",
}
"""The problem of a failed connection, for clients, by its cause."""


def _unreached(error: CallError) -> Literal["", "failed", "timed out"]:
    if isinstance(error, ConnectTimeout):
        return "timed out"
    return "failed" if isinstance(error, ConnectFailed | TLSFailed) else ""


def refused(codec: Codec, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure of a call that was answered with an error status."""
    fault = codec.translate.read_error(status, headers, body)
    symptom = symptom_of_answer(status, headers, fault.report, time.time())
    if fault.retry_after is None and symptom.retry_after is not None:
        fault = replace(fault, retry_after=symptom.retry_after)
    return Failure(fault, symptom, status, body)


_BY_MODEL = frozenset({UNUSABLE_ARGUMENTS, UNKNOWN_FINISH, NO_SUMMARY})
"""Codes of answers that were made and paid for, and that another account would hardly better."""


def broken_thought(fault: Fault, cause: str) -> Failure:
    """The failure of a stream that broke off while it only thought. What was sent of it is as good
    as nothing, but it was paid for: it is asked for once more, as what is of no use."""
    return Failure(fault, symptom_of_fault(fault, time.time()), cause=cause, by_model=True)


def unusable(fault: Fault) -> Failure:
    """The failure of an answer with status 200 that is an error, or unusable."""
    by_model = fault.code in _BY_MODEL
    return Failure(fault, symptom_of_fault(fault, time.time()), by_model=by_model)


def quotes(symptom: Symptom, rules: RuleSet, said: Callable[[], bytes]) -> bool:
    """Whether the text by which a rule judges an error is in the request, of which `said` gives
    what its client had a part in: upstreams quote values that they refuse."""
    rule = fitting(symptom, rules.rules)
    found = [] if rule is None else [text for text in rule.texts if text in symptom.text]
    if not found:
        return False
    own = said().lower()
    return _ESCAPED.search(own) is not None or all(to_json(text)[1:-1] in own for text in found)


_ESCAPED = re.compile(rb"\\u(?:00(?:20|[46][1-9a-f]|[57][0-9a])|212a)|\xe2\x84\xaa")
"""Letters and spaces that are escaped in JSON, which no encoder does by itself, and the Kelvin
sign, whose lower case is a k."""


def is_about_reasoning(codec: Codec, failure: Failure) -> bool:
    """Whether an upstream of that protocol refused reasoning that was sent back to it."""
    if failure.status != 400:
        return False
    words, text = failure.symptom.words, failure.symptom.text
    return any(word in words or word in text for word in codec.translate.reasoning_refusals)


_INFORMATION = {
    FaultKind.RATE_LIMITED: 3,
    FaultKind.OVERLOADED: 3,
    FaultKind.PAYMENT_REQUIRED: 2,
    FaultKind.UNAUTHENTICATED: 0,
    FaultKind.FORBIDDEN: 0,
}


def more_informative(before: Failure | None, now: Failure) -> Failure:
    """The one of two failures that helps a client more to decide what to do."""
    if before is None:
        return now
    return now if _information(now) >= _information(before) else before


def _information(failure: Failure) -> int:
    return _INFORMATION.get(failure.fault.kind, 1)


_LONG_S = 3600.0
"""Seconds for which nobody waits for an answer."""

_NOT_YOURS = (
    "This concerns the gateway's own accounts, not your key: the operator of the gateway has to act"
)

_NOT_YOURS_FOR_NOW = (
    "This concerns the gateway's own accounts, not your key: the gateway keeps trying one of them, "
    "and all of them once it is answered"
)

_BLOCKED_CODES: Mapping[FaultKind, str] = {
    FaultKind.FORBIDDEN: "no_account_permitted",
    FaultKind.PAYMENT_REQUIRED: "insufficient_quota",
}
"""The codes of errors after which clients do not ask again, by their kind."""

_BLOCKED_AFTER: Mapping[FaultKind, frozenset[FaultKind]] = {
    FaultKind.FORBIDDEN: frozenset({FaultKind.UNAUTHENTICATED, FaultKind.FORBIDDEN}),
    FaultKind.PAYMENT_REQUIRED: frozenset(
        {
            FaultKind.UNAUTHENTICATED,
            FaultKind.FORBIDDEN,
            FaultKind.PAYMENT_REQUIRED,
            FaultKind.RATE_LIMITED,
        }
    ),
}
"""The kinds of failure after which a client gets an error that it does not retry, by the kind of
that error. Other failures concern the upstream or the request, not an account."""


def final_fault(
    rules: RuleSet, last: Failure, ending: str, shortage: NoAccount | None = None
) -> Fault:
    """The error for the client when all that could be tried failed.

    `last` is the most informative failure, `ending` why nothing more is tried, `shortage` the
    pool's error when it had no account left: why, and when one will be back. Failures of the
    gateway's accounts (key refused, not permitted) never look like failures of the client's key.
    Where waiting does not help, the error is one after which clients do not ask again.
    """
    fault = last.fault
    kind, wait, reasons = fault.kind, fault.retry_after, ""
    if shortage is not None:
        wait = wait if shortage.fault.retry_after is None else shortage.fault.retry_after
        reasons = "; ".join(f"{why}: {count}" for why, count in shortage.reasons)
        reasons += _when(shortage.fault.retry_after) if reasons else ""
    in_brackets = f" ({reasons})" if reasons else ""
    message = f"{fault.message} ({ending}: {reasons})" if reasons else f"{fault.message} ({ending})"
    if kind is FaultKind.UNAUTHENTICATED:
        # Its own words about a key may quote the key.
        message = f"{ending}: the upstream refused the account's key.{in_brackets}"
    if rules.final == "none_left":
        kind, message = FaultKind.NO_ACCOUNT, f"{ending}: {fault.message}{in_brackets}"
    elif shortage is not None:
        blocked = _blocked(shortage, message)
        if blocked is not None and kind in _BLOCKED_AFTER[blocked.kind]:
            return blocked
    if kind is FaultKind.UNAUTHENTICATED:
        kind = FaultKind.NO_ACCOUNT
    elif kind is FaultKind.FORBIDDEN:
        kind = FaultKind.UPSTREAM_FAILED
    if kind is fault.kind:
        return replace(fault, message=message, retry_after=wait)
    return Fault(kind, message, code=_CODES[kind], retry_after=wait)


def none_left(rules: RuleSet, shortage: NoAccount) -> Fault:
    """The error for the client when there was no account to begin with, with the time after which
    one may be back. Where waiting does not help, it is one after which clients do not ask again."""
    fault = shortage.fault
    retried = replace(fault, message=fault.message + _when(fault.retry_after))
    if rules.final == "none_left":
        return retried
    return _blocked(shortage, retried.message) or retried


def without_account(fault: Fault) -> Fault:
    """The error where the one account that has what a request names cannot be asked now."""
    message = f"The account that has what the request names cannot be asked: {fault.message}"
    return replace(fault, kind=FaultKind.NO_ACCOUNT, message=message, status=503)


def _blocked(shortage: NoAccount, message: str) -> Fault | None:
    """The error where no account will be back soon: for want of permission, or of quota if it is
    known when there will be some again. None if waiting may help."""
    wait = shortage.fault.retry_after
    if shortage.refused_for is not None:
        code = _BLOCKED_CODES[shortage.refused_for]
        return Fault(shortage.refused_for, f"{message}. {_NOT_YOURS_FOR_NOW}.", code=code)
    if wait is None:
        kind = FaultKind.FORBIDDEN
    elif wait > _LONG_S:
        kind = FaultKind.PAYMENT_REQUIRED
    else:
        return None
    return Fault(kind, f"{message}. {_NOT_YOURS}.", code=_BLOCKED_CODES[kind], retry_after=wait)


def _when(seconds: float | None) -> str:
    return "" if seconds is None else f". One may be back in {math.ceil(seconds)} s"


_CODES = {FaultKind.NO_ACCOUNT: "no_account_available", FaultKind.UPSTREAM_FAILED: "upstream_error"}

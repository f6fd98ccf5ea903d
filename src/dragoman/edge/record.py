"""The record of a request: a structured line in the log, and the header that names losses."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.accounts.pool import Alternatives
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.losses import Loss
from dragoman.canonical.usage import Units, Usage
from dragoman.edge.body_copies import BodyCopies
from dragoman.edge.log_format import timestamp
from dragoman.edge.trace_context import RequestTrace
from dragoman.failing import Verdict
from dragoman.limits.rules import Admitted
from dragoman.prices.lookup import Charge
from dragoman.prices.rates import dollars
from dragoman.protocols.purposes import Purpose
from dragoman.sse import escape
from dragoman.upstream.errors import UNSENT_CAUSES

_log = logging.getLogger("dragoman.requests")
_encoder = msgspec.json.Encoder()

LOSSES_HEADER = b"x-dragoman-losses"

CLIENT_GONE = "client_gone"
"""The error of a request whose client left: neither the gateway nor an upstream failed."""

AtFault = Literal["", "caller", "gateway", "upstream"]
"""Who caused an error: the caller; the gateway, with its configuration and accounts; or the
upstream."""

_CALLERS_ERRORS = frozenset(
    {
        CLIENT_GONE,
        FaultKind.INVALID_REQUEST,
        FaultKind.CONTEXT_TOO_LONG,
        FaultKind.POLICY_BLOCKED,
        FaultKind.NOT_FOUND,
        FaultKind.MODEL_NOT_FOUND,
        FaultKind.METHOD_NOT_ALLOWED,
        FaultKind.REQUEST_TIMEOUT,
        FaultKind.CONFLICT,
        FaultKind.TOO_LARGE,
        FaultKind.UNSUPPORTED_MEDIA_TYPE,
        FaultKind.UNPROCESSABLE,
        FaultKind.UPGRADE_REQUIRED,
    }
)
_ERRORS_OF_KEYS = frozenset(
    {
        FaultKind.UNAUTHENTICATED,
        FaultKind.FORBIDDEN,
        FaultKind.PAYMENT_REQUIRED,
        FaultKind.RATE_LIMITED,
    }
)
"""Errors of the caller's key, or of the gateway's accounts."""

_GATEWAYS_ERRORS = frozenset({FaultKind.NO_ACCOUNT, FaultKind.INTERNAL})

_RETURNED = Verdict.RETURN_TO_CLIENT
_HEADER_BYTES = 1024
_SERVER_ERROR = 500
_PATH_LENGTH = 120
_LOGGED_LOSSES = 50
_LONGEST_MODEL = 200
_HERE = "127.0.0.1"
_UNPRINTABLE = re.compile(r"[^\x21-\x2b\x2d-\x3a\x3c-\x7e]")


class FailedAttempt(Struct, frozen=True, omit_defaults=True):
    """An attempt with one account that failed.

    `kind` is the cause of a call that failed (`connection_refused`, as in
    `dragoman.upstream.errors`), else the kind of fault; `status` is that of the upstream's answer,
    0 without one; `model` is the upstream's name of the model; `at` is when it failed, in Unix
    seconds, and `ms` how long it took. The decision is `verdict`, by the row number
    `row` (from 1) of `table`, a set of rules or `own` for the upstream's own; `why` is that row's,
    and `rest_s` for how long the upstream asked to be left alone. `bytes_up` is how large the body
    of the call was, `bytes_down` what came back, head and framing included.
    """

    upstream: str
    account: str
    model: str
    kind: str
    status: int
    at: float
    ms: float
    verdict: str = ""
    why: str = ""
    row: int = 0
    table: str = ""
    rest_s: float | None = None
    bytes_up: int = 0
    bytes_down: int = 0


class InVain(Struct, frozen=True):
    """An answer that was paid for and not used: where it came from, the
    upstream's name of the model, its usage (None: not reported) and what that costs."""

    upstream: str
    account: str
    model: str
    usage: Usage | None
    charge: Charge | None


@dataclass(slots=True, eq=False)
class Record:
    """The outcome of one request, for its line in the log. Contains no key and no prompt.

    `address` is the client's, empty if it has none; `deferred` says that the answer is made later
    and recorded then. `failed` are the attempts that failed, in order, `accounts` is how many the
    upstream of the last of them has. `charge` is what the answer costs, None without `usage`, which
    is `estimated` as far as the upstream did not report it; `units` are what it used in other units
    than tokens of text, None if nothing. `user` is the end user that the request names, and `tags`
    are its own, in one text; `purpose` is what an agent makes it for, None if it does not say so.
    `in_vain` are the answers to it that were paid for
    and not used. `finish` is why the model stopped, `sent_at` when the last attempt began, by
    `time.perf_counter`, 0 without one, and `first_at` when its answer had its first content;
    `queue_s` is how long it waited for accounts, `bytes_up` how large the last request to an
    upstream was, `bytes_down` what came back for it. `conversation` is how the conversation was
    identified, `named` or `recognised`, empty if it was not; `moved` that another account had it
    before. `admitted` is what the request has reserved of its caller's limits, None if nothing;
    `limit` names the limit that refused it, `exceeded` those that would have, if they were
    enforced, each with its mode; `refusal` is the message of the error if no upstream was asked.

    Where requests are traced, `trace` is the trace, `settings` what the client asked for, as JSON
    by the name of the setting, else None, `answered` the upstream's id of the answer and its name
    of the model, as far as they were read, and `trace_id`, once the request has ended, 0 if it is
    not.
    `bodies` has copies of the bodies of a request whose key has them stored, else None;
    `alternatives` the accounts from which the first one at the last upstream was chosen, None if
    nothing logs it.
    """

    started: float = field(default_factory=time.perf_counter)
    address: str = ""
    caller: str = ""
    team: str = ""
    user: str = ""
    tags: str = ""
    purpose: Purpose | None = None
    deferred: bool = False
    model: str = ""
    upstream: str = ""
    upstream_model: str = ""
    account: str = ""
    attempts: int = 0
    accounts: int = 0
    failed: Sequence[FailedAttempt] = ()
    in_vain: Sequence[InVain] = ()
    stream: bool = False
    usage: Usage | None = None
    units: Units | None = None
    charge: Charge | None = None
    estimated: bool = False
    admitted: Admitted | None = None
    limit: str = ""
    exceeded: Sequence[str] = ()
    losses: Sequence[Loss] = ()
    error: str = ""
    refusal: str = ""
    finish: str = ""
    sent_at: float = 0.0
    first_at: float = 0.0
    queue_s: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    conversation: str = ""
    moved: bool = False
    trace: RequestTrace | None = None
    settings: Mapping[str, msgspec.Raw] | None = None
    answered: tuple[str, str] = ("", "")
    trace_id: int = 0
    bodies: BodyCopies | None = None
    alternatives: Alternatives | None = None

    def fail(self, fault: Fault) -> None:
        """Record the error of the request. Its message is recorded if it is the gateway's own: that
        of an upstream, or of the operator's check, might repeat a prompt."""
        self.error = fault.kind
        if fault.kind is FaultKind.POLICY_BLOCKED:
            self.refusal = (fault.details or {}).get("rule_id", "")
        elif not self.attempts:
            self.refusal = fault.message

    def blame_last(self) -> None:
        """The request failed: it counts for the upstream that was asked last, not for one that had
        no account to ask."""
        if self.failed:
            self.upstream, self.upstream_model = self.failed[-1].upstream, self.failed[-1].model

    @property
    def cost(self) -> int | None:
        """Pico-dollars that the request came to, with the answers that were of no use; None if of
        nothing that it used a price is known."""
        cost = None if self.charge is None else self.charge.cost
        for one in self.in_vain:
            if one.charge is not None and one.charge.cost is not None:
                cost = (cost or 0) + one.charge.cost
        return cost

    @property
    def at_fault(self) -> AtFault:
        """Who caused the request's error; empty if it has none."""
        error = self.error
        if not error:
            return ""
        if error in _CALLERS_ERRORS:
            return "caller"
        if error in _ERRORS_OF_KEYS:
            by_rule = any(one.row and one.verdict == _RETURNED for one in self.failed[-1:])
            return "caller" if self.limit or not self.upstream or by_rule else "gateway"
        if error in _GATEWAYS_ERRORS or not self.attempts:
            return "gateway"
        return "upstream"

    @property
    def is_reached(self) -> bool:
        """Whether any upstream was reached."""
        if self.usage is not None or len(self.failed) < self.attempts:
            return True
        return any(one.kind not in UNSENT_CAUSES for one in self.failed)

    def line(self, request_id: str, route: str, status: int, now: float, seconds: float) -> bytes:
        """The line: one JSON object, in which what is not set is left out. The request ended at
        `now` (Unix seconds) and took so many `seconds`."""
        line: dict[str, Any] = {
            "time": timestamp(now),
            "level": "info" if status < _SERVER_ERROR else "error",
            "request_id": request_id,
            "client": self.caller,
            "route": route,
            "status": status,
            # `round` takes four times as long.
            "ms": int(seconds * 10_000) / 10,
        }
        if self.address and self.address != _HERE:
            line["address"] = self.address
        if self.model:
            line["model"], line["stream"] = self.model[:_LONGEST_MODEL], self.stream
        if self.upstream:
            line |= {
                "upstream": self.upstream,
                "upstream_model": self.upstream_model[:_LONGEST_MODEL],
                "account": self.account,
                "attempts": self.attempts,
            }
            if self.failed:
                line["accounts"], line["failed"] = self.accounts, self.failed
        if self.in_vain:
            line["in_vain"] = [_paid_in_vain(one) for one in self.in_vain]
        if self.usage is not None:
            line["usage"] = self.usage
            if self.units is not None:
                line["units"] = self.units
            if self.estimated:
                line["estimated"] = True
        if (cost := self.cost) is not None:
            line["cost_usd"] = dollars(cost)
        if (charge := self.charge) is not None:
            if charge.cost is None:
                line["unpriced"] = True
            if not charge.billed:
                line["subscription"] = True
        if self.limit or self.exceeded or self.losses or self.error or self.trace_id:
            self._add_findings(line)
        if self.purpose is not None:
            line["purpose"] = self.purpose
        return escape(_encoder.encode(line))

    def _add_findings(self, line: dict[str, Any]) -> None:
        """Add what went wrong to a line, and the trace."""
        if self.limit:
            line["limit"] = self.limit
        if self.exceeded:
            line["exceeded"] = self.exceeded
        if self.losses:
            line["losses"] = [_shown(loss) for loss in self.losses[:_LOGGED_LOSSES]]
            line["losses_total"] = len(self.losses)
        if self.error:
            line["error"], line["at_fault"] = self.error, self.at_fault
            if line["at_fault"] != "caller":
                line["level"] = "error"
        if self.trace_id:
            line["trace_id"] = f"{self.trace_id:032x}"


def log_line(line: bytes) -> None:
    """Hand a request's line to the logger `dragoman.requests`."""
    _log.info("%s", line.decode())


def losses_header(losses: Sequence[Loss]) -> list[tuple[bytes, bytes]]:
    """The header that names what was lost: `path:kind` in order, and how many there are.

    `messages[0].name:knob, top_k:knob; total=2`. What does not fit into 1 KiB is only counted.
    Paths may contain names that a client chose; characters that a header cannot have become `?`.
    """
    if not losses:
        return []
    total = f"; total={len(losses)}"
    room = _HEADER_BYTES - len(total)
    shown: list[str] = []
    for loss in losses:
        message = _shown(loss)
        room -= len(message) + 2
        if room < 0:
            break
        shown.append(message)
    return [(LOSSES_HEADER, (", ".join(shown) + total).encode("ascii"))]


def _paid_in_vain(one: InVain) -> dict[str, Any]:
    cost = None if one.charge is None or one.charge.cost is None else dollars(one.charge.cost)
    return {"account": one.account, "model": one.model, "usage": one.usage, "cost_usd": cost}


def _shown(loss: Loss) -> str:
    return f"{_UNPRINTABLE.sub('?', loss.path)[:_PATH_LENGTH]}:{loss.kind}"

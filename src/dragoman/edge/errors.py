"""Every failure as one error in the client's own shape."""

from __future__ import annotations

import logging
import math
import traceback

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.protocols.base import OFFICIAL, Codec, to_json
from dragoman.sse import escape

_log = logging.getLogger("dragoman.gateway")

Headers = list[tuple[bytes, bytes]]

_FINAL = (FaultKind.PAYMENT_REQUIRED, FaultKind.UNAUTHENTICATED, FaultKind.POLICY_BLOCKED)
"""Kinds after which answers ask clients not to try again. The first has the status 429, which by
itself asks SDKs to come again; of the others Claude Code otherwise speaks only after retries."""


def fault_of(error: BaseException, request_id: str) -> Fault:
    """What a client may see of `error`. Where something unexpected came from is logged, but not
    its message: that may quote the request."""
    if isinstance(error, DragomanError):
        return error.fault
    places = "".join(traceback.format_tb(error.__traceback__))
    _log.error("request %s failed: %s\n%s", request_id, type(error).__name__, places)
    return Fault(
        FaultKind.INTERNAL,
        f"The gateway failed unexpectedly. See its log for {request_id}.",
        code="internal_error",
    )


def refusal(
    kind: FaultKind,
    message: str,
    *,
    code: str | None = None,
    retry_after: float | None = None,
) -> DragomanError:
    """An error of the gateway's own about how it was called. `retry_after` is in seconds."""
    return DragomanError(Fault(kind, message, code=code, retry_after=retry_after))


def rendered(
    codec: Codec, fault: Fault, request_id: str, options: Options = OFFICIAL
) -> tuple[int, bytes, Headers]:
    """Status, body and the headers that belong to a fault, as `codec`'s protocol shows it."""
    shown = codec.translate.write_error(fault, request_id, options)
    headers: Headers = []
    if fault.retry_after is not None:
        # Whole seconds: that is all the header allows (RFC 9110, section 10.2.3).
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(fault.retry_after))))
    if fault.kind in _FINAL:
        headers.append((b"x-should-retry", b"false"))
    return shown.status, escape(to_json(shown.body)), headers

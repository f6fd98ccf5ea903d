"""The wording of errors inside a stream, so that clients retry by themselves.

Once a stream has begun there is no status to decide by: coding agents look for types, codes and
phrases in the error. With those chosen here, every agent retries that retries after a broken
connection; `docs/decisions/0013-retries-of-agents.md` has each one's rule."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.canonical.errors import Fault, FaultKind

TRANSIENT = frozenset(
    {
        FaultKind.INTERNAL,
        FaultKind.NO_ACCOUNT,
        FaultKind.OVERLOADED,
        FaultKind.RATE_LIMITED,
        FaultKind.UPSTREAM_FAILED,
        FaultKind.UPSTREAM_TIMEOUT,
    }
)
"""Kinds after which the same request may succeed."""

_PHRASE = "Provider returned error"
"""The phrase on which opencode, pi and cline retry. It is OpenRouter's."""

OVERLOADED_TYPE = "overloaded_error"
"""The error type on which qwen-code waits and retries, on any protocol."""

BROKEN_CODES = {
    FaultKind.INTERNAL: "server_error",
    FaultKind.UPSTREAM_FAILED: "ECONNRESET",
    FaultKind.UPSTREAM_TIMEOUT: "ETIMEDOUT",
}
"""Codes of errors in Responses streams. On the system's codes for a broken connection qwen-code
continues the answer; on any other it gives up once content was shown."""


def worded_for_stream(fault: Fault) -> Fault:
    """The fault, worded for the stream that it ends."""
    if fault.kind not in TRANSIENT or _PHRASE in fault.message:
        return fault
    return replace(fault, message=f"{_PHRASE}: {fault.message}")

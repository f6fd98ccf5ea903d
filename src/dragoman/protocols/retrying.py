"""How an error inside a stream is worded, so that clients try again by themselves.

Once a stream has begun there is no status by which a client could decide: coding agents look for
types, codes and phrases in the error. Those chosen here make all of them ask again that ask again
after a broken connection; `docs/decisions/0013-retries-of-agents.md` has each one's rule.
"""

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
"""Kinds after which the same request may well succeed."""

_PHRASE = "Provider returned error"
"""In an error's text, what opencode, pi and cline ask again for. It is OpenRouter's."""

OVERLOADED_TYPE = "overloaded_error"
"""The type of an error on which qwen-code waits and asks again, whatever the protocol."""

BROKEN_CODES = {
    FaultKind.INTERNAL: "server_error",
    FaultKind.UPSTREAM_FAILED: "ECONNRESET",
    FaultKind.UPSTREAM_TIMEOUT: "ETIMEDOUT",
}
"""Codes of errors in Responses streams. On those of the system for a broken connection qwen-code
goes on where the answer broke off; on any other it gives up once something was shown."""


def worded_for_stream(fault: Fault) -> Fault:
    """The fault, worded for the stream that it ends."""
    if fault.kind not in TRANSIENT or _PHRASE in fault.message:
        return fault
    return replace(fault, message=f"{_PHRASE}: {fault.message}")

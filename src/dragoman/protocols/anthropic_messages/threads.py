"""Conversations stored by the service (`thread`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest


def check_thread(members: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a conversation that would be stored at one account of several: its later requests
    carry new messages only, so nothing would route them to that account.

    Raises:
        InvalidRequest: with the error code on which the SDKs send whole histories.
    """
    raw = members.get("thread")
    if raw is not None and bytes(raw) != b"null":
        raise threads_unsupported()


def threads_unsupported() -> InvalidRequest:
    """The error for a client that wants its conversation stored by the server: the SDKs then send
    whole histories by themselves (lib/threads/_thread_state.py of anthropic)."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            "thread: server-held conversations are not supported; send the whole history",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request"},
        )
    )

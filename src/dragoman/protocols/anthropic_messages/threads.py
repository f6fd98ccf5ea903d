"""Conversations that a service keeps for its clients (`thread`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest


def check_thread(members: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a conversation that one account of several would hold for itself: the requests that
    go on with it hold only what is new, so nothing would lead them there.

    Raises:
        InvalidRequest: in the words after which the SDKs go on with whole histories.
    """
    raw = members.get("thread")
    if raw is not None and bytes(raw) != b"null":
        raise threads_unsupported()


def threads_unsupported() -> InvalidRequest:
    """What a client is told that wants its conversation kept by the server: the SDKs then go on
    with whole histories by themselves (lib/threads/_thread_state.py of anthropic)."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            "thread: server-held conversations are not supported; send the whole history",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request"},
        )
    )

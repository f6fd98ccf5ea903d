"""Conversations that a service keeps for its clients (`thread`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.protocols.anthropic_messages.requests import threads_unsupported


def check_thread(members: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a conversation that one account of several would hold for itself: the requests that
    go on with it hold only what is new, so nothing would lead them there.

    Raises:
        InvalidRequest: in the words after which the SDKs go on with whole histories.
    """
    raw = members.get("thread")
    if raw is not None and bytes(raw) != b"null":
        raise threads_unsupported()

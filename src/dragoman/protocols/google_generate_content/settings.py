"""Translation settings of generateContent."""

from __future__ import annotations

from msgspec import Struct


class GoogleOptions(Struct, frozen=True, kw_only=True):
    """How clients of generateContent are answered."""

    bad_key_status_400: bool = False
    """Answer a wrong key to generateContent clients with status 400 and the reason
    `API_KEY_INVALID`, as Google does, in place of 401."""

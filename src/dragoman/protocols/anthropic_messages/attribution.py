"""For whom a client asks: `metadata.user_id`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.jsontext import object_of
from dragoman.protocols.base import Attribution
from dragoman.protocols.raw import split_object, text_of

_SESSION = "_session_"
_ACCOUNT, _DEVICE = "account_uuid", "device_id"


def told_user(members: Mapping[str, Raw]) -> Attribution:
    """The user without the session, of which one user has many. Claude Code writes
    `user_..._account_..._session_...`, later versions a JSON object."""
    told = text_of((split_object(members.get("metadata")) or {}).get("user_id"))
    if told.startswith("{") and (parts := object_of(told)) is not None:
        user = parts.get(_ACCOUNT) or parts.get(_DEVICE)
        return Attribution(user if isinstance(user, str) else "")
    return Attribution(told.partition(_SESSION)[0])

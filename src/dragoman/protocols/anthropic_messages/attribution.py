"""The end user of a request: `metadata.user_id`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.jsontext import object_of
from dragoman.protocols.base import Attribution
from dragoman.protocols.raw import split_object, text_of

_SESSION = "_session_"
_ACCOUNT, _DEVICE = "account_uuid", "device_id"


def user_attribution(members: Mapping[str, Raw]) -> Attribution:
    """The user id without the session, of which one user has many. Claude Code writes
    `user_..._account_..._session_...`, later versions a JSON object."""
    user_id = text_of((split_object(members.get("metadata")) or {}).get("user_id"))
    if user_id.startswith("{") and (parts := object_of(user_id)) is not None:
        user = parts.get(_ACCOUNT) or parts.get(_DEVICE)
        return Attribution(user if isinstance(user, str) else "")
    return Attribution(user_id.partition(_SESSION)[0])

"""For whom a client asks, as requests tell it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.protocols.base import NOBODY, Attribution
from dragoman.protocols.raw import split_object, text_of


def told_to_openai(members: Mapping[str, Raw]) -> Attribution:
    """As OpenAI's protocols have it: `safety_identifier`, which took the place of `user`; and
    `tags` of the metadata, whose values are texts, with commas between them."""
    metadata = members.get("metadata")
    user = members.get("safety_identifier") or members.get("user")
    if user is None and metadata is None:
        return NOBODY
    tags = text_of((split_object(metadata) or {}).get("tags"))
    return Attribution(text_of(user), tuple(tags.split(",")) if tags else ())

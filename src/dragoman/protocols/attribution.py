"""For whom a client asks, as requests tell it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.protocols.base import Attribution
from dragoman.protocols.raw import split_object, text_of

MEMBERS = frozenset({"safety_identifier", "user", "metadata"})
"""What `openai_attribution` looks at."""


def openai_attribution(members: Mapping[str, Raw]) -> Attribution:
    """As OpenAI's protocols have it: `safety_identifier`, which took the place of `user`; and
    `tags` of the metadata, whose values are texts, with commas between them."""
    user = members.get("safety_identifier") or members.get("user")
    tags = text_of((split_object(members.get("metadata")) or {}).get("tags"))
    return Attribution(text_of(user), tuple(tags.split(",")) if tags else ())

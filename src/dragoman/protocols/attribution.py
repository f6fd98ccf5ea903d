"""The end user of a request, as OpenAI's protocols name it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.protocols.base import Attribution
from dragoman.protocols.raw import split_object, text_of

MEMBERS = frozenset({"safety_identifier", "user", "metadata"})
"""The members that `openai_attribution` reads."""


def openai_attribution(members: Mapping[str, Raw]) -> Attribution:
    """The end user in `safety_identifier`, or in its predecessor `user`, and the comma-separated
    `tags` of the metadata."""
    user = members.get("safety_identifier") or members.get("user")
    tags = text_of((split_object(members.get("metadata")) or {}).get("tags"))
    return Attribution(text_of(user), tuple(tags.split(",")) if tags else ())

"""Types of media, and whether a conversation has any, found without reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from dragoman.jsontext import JsonError, decoder


def image_type(media_type: str) -> str:
    """The media type of an image, in lower case; `image/jpg`, which is none, as what it means."""
    media_type = media_type.lower()
    return "image/jpeg" if media_type == "image/jpg" else media_type


class _Part(Struct):
    """A message, an item, or a part of its content."""

    type: str | None = None
    content: str | list[_Part] | None = None
    output: str | list[_Part] | None = None

    def has(self, kinds: frozenset[str]) -> bool:
        return self.type in kinds or any(
            type(inner) is list and any(part.has(kinds) for part in inner)
            for inner in (self.content, self.output)
        )


class _Conversation(Struct):
    parts: str | list[_Part] | None


_conversation = decoder(_Conversation)


def media_in(member: str, *kinds: str) -> Callable[[Mapping[str, Raw]], bool]:
    """The function behind `Passthrough.has_media`, for a protocol whose conversation is `member`
    and whose parts with media have a `type` of these."""
    known = frozenset(kinds)

    def has_media(members: Mapping[str, Raw]) -> bool:
        raw = members.get(member)
        if raw is None:
            return False
        try:
            parts = _conversation(b'{"parts":%b}' % bytes(raw)).parts
        except JsonError:
            return True
        return type(parts) is list and any(part.has(known) for part in parts)

    return has_media

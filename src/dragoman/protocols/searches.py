"""What the vendors' web searches are told alike."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.protocols.fields import Fields

CONTEXT_SIZES: Final = ("low", "medium", "high")
"""How much of what it finds a search gives to the model (OpenAI)."""

PLACES: Final = ("city", "country", "region", "timezone")
"""What is told of an approximate location (web_search_tool.py of openai, user_location_param.py of
anthropic)."""


def read_location(fields: Fields, extras: list[Extra]) -> dict[str, str] | None:
    """The `user_location` of a web search; what is not known of it goes to `extras`."""
    value = fields.take("user_location")
    if not isinstance(value, dict):
        if value is not None:
            extras.append(Extra(fields.at("user_location"), value, LossKind.KNOB))
        return None
    for name, part in value.items():
        known = name == "type" or (name in PLACES and isinstance(part, str))
        if not known and part is not None:
            extras.append(Extra(fields.at(f"user_location.{name}"), part, LossKind.KNOB))
    return {name: value[name] for name in PLACES if isinstance(value.get(name), str)}

"""The common settings of the vendors' web searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, HostedTool
from dragoman.protocols.raw import hides_words

CONTEXT_SIZES: Final = ("low", "medium", "high")
"""The amount of search results given to the model (OpenAI)."""

PLACES: Final = ("city", "country", "region", "timezone")
"""The members of an approximate location (web_search_tool.py of openai, user_location_param.py of
anthropic)."""


def read_location(value: Any, path: str, extras: list[Extra]) -> dict[str, str] | None:
    """The `user_location` of a web search; unknown members go to `extras`."""
    if not isinstance(value, dict):
        if value is not None:
            extras.append(Extra(path, value, LossKind.KNOB))
        return None
    for name, part in value.items():
        known = name == "type" or (name in PLACES and isinstance(part, str))
        if not known and part is not None:
            extras.append(Extra(f"{path}.{name}", part, LossKind.KNOB))
    return {name: value[name] for name in PLACES if isinstance(value.get(name), str)}


def limits_of(tool: HostedTool) -> tuple[int | None, tuple[str, ...]]:
    """How many searches the declaration of a web search allows, None for any number, and the
    domains that are kept out, in the words of either vendor."""
    filters = tool.raw.get("filters")
    blocked = (filters if isinstance(filters, dict) else tool.raw).get("blocked_domains")
    most = tool.raw.get("max_uses")
    domains = blocked if isinstance(blocked, list) else []
    return (
        most if type(most) is int and most >= 0 else None,
        tuple([domain for domain in domains if isinstance(domain, str)]),
    )


def asks_search(members: Mapping[str, Raw]) -> bool:
    """The function behind `Endpoint.searches`: whether a client's members allow the vendor's web
    search, as a tool or as Chat has it. Where letters are escaped that need not be, they may."""
    tools = bytes(members.get("tools", b""))
    return "web_search_options" in members or b"web_search" in tools or hides_words(tools)

"""The models that a request names besides its own, which an upstream of the same protocol may ask
instead or besides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest

_NAMES_MODELS = re.compile("(?:^|_)models?$", re.IGNORECASE)
_IN_CAMEL_CASE = re.compile("[a-z]Models?$")
_HINT = re.compile(rb"model|\\u", re.IGNORECASE)
"""Without it a member's text names none: letters of a name may be escaped."""
_DEEPEST = 8

MOST_NAMED = 64
"""Models that a request may name besides its own where that matters."""


def models_besides(
    members: Mapping[str, Raw], unsearched: frozenset[str]
) -> tuple[str, ...] | None:
    """Each of them once, wherever it stands: `fallbacks` and an advisor among `tools`
    (beta/message_create_params.py of anthropic), an image generator among `tools`
    (response_create_params.py of openai), `models` and `plugins` (OpenRouter), what clients put
    into `extra_body`, and `model` in other letters, which some servers read as the same. Nothing
    is looked for in the members `unsearched`. None if there are more than `MOST_NAMED`.

    Raises:
        InvalidRequest: a member is not JSON text.
    """
    if unsearched.issuperset(members):
        return ()
    found: dict[str, None] = {}
    for name in _found(members, unsearched):
        found[name] = None
        if len(found) > MOST_NAMED:
            return None
    return tuple(found)


def _found(members: Mapping[str, Raw], unsearched: frozenset[str]) -> Iterator[str]:
    for name, raw in members.items():
        if name in unsearched:
            continue
        if _names_models(name) or name == "fallbacks":
            yield from _named_in(_decoded(name, raw))
        elif _HINT.search(raw) is not None:
            # In a tool's schema everything may be called `model`.
            yield from _within(_decoded(name, raw), 2 if name == "tools" else _DEEPEST)


def _decoded(name: str, raw: Raw) -> Any:
    try:
        return jsontext.decode(raw)
    except jsontext.JsonError:
        raise InvalidRequest.at(name, "is not valid JSON text") from None


def _names_models(name: str) -> bool:
    return _NAMES_MODELS.search(name) is not None or _IN_CAMEL_CASE.search(name) is not None


def _named_in(value: Any) -> Iterator[str]:
    """The models that a value names: as text, or as the `model` of an object."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from _within(entry, _DEEPEST)


def _within(value: Any, depth: int) -> Iterator[str]:
    """The models named in the members of an object or of objects in a list, so deep at most."""
    if not depth:
        return
    if isinstance(value, list):
        for entry in value:
            yield from _within(entry, depth - 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if _names_models(name):
                yield from _named_in(inner)
            else:
                yield from _within(inner, depth - 1)

"""Patterns of model names, and the built-in aliases."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

ALIASES: Final[dict[str, str]] = {
    "claude-sonnet-4-6": "anthropic/claude-sonnet-4-6",
    "claude-opus-4-6": "anthropic/claude-opus-4-6",
    "gpt-5-mini": "openai/gpt-5-mini",
}
"""Short names and the models they stand for."""

LEGACY: Final[dict[str, str]] = {
    "claude-3-5-sonnet-20241022": "anthropic/claude-sonnet-4-5",
    "claude-3-opus-20240229": "anthropic/claude-opus-4-6",
}
"""Names of retired models and their replacements."""

PREFIXES: Final[dict[str, str]] = {
    "claude-*": "anthropic/",
    "gpt-*": "openai/",
    "gemini-*": "google/",
    "grok-*": "xai/",
}
"""Patterns of model names and the provider prefix that such names lack."""


AUXILIARY: Final = "claude-*haiku*"
"""Small models that Claude Code asks for by itself."""


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("*"))


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern` matches `name`; `*` matches any text, also none.

    Everything else matches itself, case included. Takes time in proportion to the length of the
    name, which clients choose; a regular expression could take exponentially long.
    """
    first, *between = _parts(pattern)
    if not between:
        return name == first
    last = between.pop()
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in between:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


_LATEST: Final = ":latest"
"""The tag that a model has without another, for servers whose models have tags."""


@lru_cache(maxsize=1024)
def _spellings(name: str) -> tuple[str, ...]:
    """A model's name in the spelling in which lists compare it, and what it is called besides."""
    plain = "".join(name.casefold().split()).removesuffix(_LATEST)
    return (plain,) if ":" in plain.rpartition("/")[2] else (plain, plain + _LATEST)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> str:
    return "".join(pattern.casefold().split())


def means(pattern: str, name: str) -> bool:
    """Whether `pattern` of a list or a limit means the model `name`: without case, blanks and the
    tag `:latest`, since there are servers to which these make no difference."""
    pattern = _pattern(pattern)
    return any(matches(pattern, one) for one in _spellings(name))


def covers(general: str, special: str) -> bool:
    """Whether `general` matches every name that `special` matches."""
    # Only a star matches a character that no pattern contains, so it stands for any text.
    return matches(general, special.replace("*", "\0"))

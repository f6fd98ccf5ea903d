"""The generations of Google's models, by which requests for them differ.

Sources: ai.google.dev, guides "Thinking", "Thought signatures" and "Function calling"."""

from __future__ import annotations

import re

from msgspec import Struct

CURRENT = 3.0
"""The generation of a model that does not name its own."""

_NAMED = re.compile(r"gemini-(?:[a-z]+-)*(\d+(?:\.\d+)?)(?![\d])")
_WITHOUT_THOUGHT = re.compile(r"gemma|learnlm|-tts\b|gemini-2\.5-flash-image|embedding")
_BEFORE_THOUGHT = 2.0


class Budgets(Struct, frozen=True):
    """The thinking budgets, in tokens, that a model takes; `off` is whether 0 is one of them."""

    least: int
    most: int
    off: bool


_PRO = Budgets(128, 32768, False)
_LITE = Budgets(512, 24576, True)
_FLASH = Budgets(1, 24576, True)


def generation_of(model: str) -> float | None:
    """The generation in a model's name; that of models that do not think for those; None if the
    name has none."""
    name = model.lower()
    if _WITHOUT_THOUGHT.search(name):
        return _BEFORE_THOUGHT
    found = _NAMED.search(name)
    return None if found is None else float(found[1])


def budgets_of(model: str) -> Budgets:
    """The thinking budgets of a model of generation 2.5, by its name."""
    name = model.lower()
    if "lite" in name:
        return _LITE
    return _FLASH if "flash" in name else _PRO

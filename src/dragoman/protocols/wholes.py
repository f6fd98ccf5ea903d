"""Wholes that come after their pieces: what they have that was not said, and what contradicts."""

from __future__ import annotations

import re
from typing import Any

from dragoman.canonical.tools import is_json_object
from dragoman.jsontext import JsonError, decode, mended


def rest_of(said: str, whole: str) -> str | None:
    """What is missing of `whole` after `said`; None if they contradict each other.

    A whole that has other white space is no contradiction: servers trim it. Nor is an empty one.
    """
    if whole.startswith(said):
        return whole[len(said) :]
    if not whole or _squeezed(whole) == _squeezed(said):
        return ""
    whole, said = mended(whole), mended(said)
    if whole.startswith(said):
        return whole[len(said) :]
    thought = _THOUGHT.match(said)
    if thought is not None and _squeezed(said[thought.end() :]) == _squeezed(whole):
        return ""  # servers take it out at the end
    return None


_THOUGHT = re.compile(r"\s*<(think|thinking|thought)>.*?</\1>", re.DOTALL)
"""Thoughts in a text, as models write them that have no other place for them."""


def rest_of_arguments(said: str, whole: str) -> str | None:
    """What is missing of a call's arguments after `said`; None if they contradict each other."""
    if whole.startswith(said):
        return whole[len(said) :]
    if whole.strip() in ("", "{}"):
        return ""
    if is_json_object(said) and _value(said) == _value(whole):
        return ""  # written anew
    return None


def _value(text: str) -> Any:
    try:
        return decode(text)
    except JsonError:
        return None


def _squeezed(text: str) -> str:
    return "".join(text.split())

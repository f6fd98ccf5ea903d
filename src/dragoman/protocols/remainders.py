"""Wholes that come after their pieces: what they have that was not said, and what contradicts."""

from __future__ import annotations

import re
from typing import Any

from dragoman.canonical.tools import is_json_object
from dragoman.jsontext import JsonError, decode, mended


def rest_of(received: str, complete: str) -> str | None:
    """What is missing of `complete` after `received`; None if they contradict each other.

    A whole that has other white space is no contradiction: servers trim it. Nor is an empty one.
    """
    if complete.startswith(received):
        return complete[len(received) :]
    if not complete or _squeezed(complete) == _squeezed(received):
        return ""
    complete, received = mended(complete), mended(received)
    if complete.startswith(received):
        return complete[len(received) :]
    thought = _THOUGHT.match(received)
    if thought is not None and _squeezed(received[thought.end() :]) == _squeezed(complete):
        return ""  # servers take it out at the end
    return None


_THOUGHT = re.compile(r"\s*<(think|thinking|thought)>.*?</\1>", re.DOTALL)
"""Thoughts in a text, as models write them that have no other place for them."""


def rest_of_arguments(received: str, complete: str) -> str | None:
    """What is missing of a call's arguments after `received`; None if they contradict each
    other."""
    if complete.startswith(received):
        return complete[len(received) :]
    if complete.strip() in ("", "{}"):
        return ""
    if is_json_object(received) and _value(received) == _value(complete):
        return ""  # written anew
    return None


def _value(text: str) -> Any:
    try:
        return decode(text)
    except JsonError:
        return None


def _squeezed(text: str) -> str:
    return "".join(text.split())

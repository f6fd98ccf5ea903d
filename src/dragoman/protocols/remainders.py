"""Comparison of complete texts with the pieces received before: the remainder, or a
contradiction."""

from __future__ import annotations

import re
from typing import Any

from dragoman.canonical.tools import is_json_object
from dragoman.jsontext import JsonError, decode, mended


def rest_of(received: str, complete: str) -> str | None:
    """The remainder of `complete` after `received`; None if they contradict each other.

    Different white space is no contradiction, as servers trim it. Nor is an empty text.
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
        return ""  # servers remove it at the end
    return None


_THOUGHT = re.compile(r"\s*<(think|thinking|thought)>.*?</\1>", re.DOTALL)
"""Reasoning inside a text, as models without a reasoning field write it."""


def rest_of_arguments(received: str, complete: str) -> str | None:
    """The remainder of a call's arguments after `received`; None if they contradict each other."""
    if complete.startswith(received):
        return complete[len(received) :]
    if complete.strip() in ("", "{}"):
        return ""
    if is_json_object(received) and _value(received) == _value(complete):
        return ""  # encoded differently
    return None


def _value(text: str) -> Any:
    try:
        return decode(text)
    except JsonError:
        return None


def _squeezed(text: str) -> str:
    return "".join(text.split())

"""Text for a terminal or a line of a log."""

from __future__ import annotations


def printable(text: str, longest: int | None = None) -> str:
    """`text` without what a terminal would take for a command, or a reader for a line of its own;
    `...` stands for what is beyond `longest` characters."""
    shown = text if longest is None else text[:longest]
    if not shown.isprintable():
        shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return f"{shown}..." if len(shown) < len(text) else shown


def count(number: int, noun: str) -> str:
    """A number of things, in words that fit it."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""Escapes inside the arguments of tool calls, which are JSON text in a text, as they stream."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""An escape; the group is half of a character whose other half is missing."""

_OPEN = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
"""An escape at the end that may not be all of it, or the escape of a first half."""


_LONGEST = 11
"""Characters of what may be open at the end."""


def open_escape(text: str) -> int:
    """Where an escape begins that stands at the end of a text and may not be all of it; the length
    of the text if there is none."""
    if "\\" not in text:
        return len(text)
    # An escape begins with the first of backslashes in a row, or with each second one.
    place = max(0, len(text) - _LONGEST)
    while place > 0 and text[place - 1] == "\\":
        place -= 1
    while (place := text.find("\\", place)) >= 0:
        if _OPEN.fullmatch(text, place) is not None:
            return place
        found = _TOKEN.match(text, place)
        place = len(text) if found is None else found.end()
    return len(text)


def whole_escapes(text: str) -> str:
    """A text in which escaped halves of characters whose other half is missing are U+FFFD."""
    return _TOKEN.sub(_whole, text) if "\\u" in text else text


def _whole(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else "\\ufffd"


class Escapes:
    """The arguments of one call, in which escaped halves of characters become U+FFFD.

    An escape that is cut waits for the rest of it. `mended` is whether there was any half.
    """

    __slots__ = ("_held", "mended")

    def __init__(self) -> None:
        self._held = ""
        self.mended = False

    @property
    def waits(self) -> bool:
        """Whether an escape waits for its rest."""
        return bool(self._held)

    def push(self, text: str) -> str:
        """Take more of the arguments; return what is known of them."""
        text = self._held + text
        end = open_escape(text)
        self._held = text[end:]
        return self._mended(text[:end])

    def flush(self) -> str:
        """The arguments are over: what waited."""
        held, self._held = self._held, ""
        return self._mended(held)

    def _mended(self, text: str) -> str:
        mended = whole_escapes(text)
        self.mended = self.mended or mended != text
        return mended

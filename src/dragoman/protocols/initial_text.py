"""Texts that a block or part begins with, of which its pieces may be a repetition."""

from __future__ import annotations


class InitialText:
    """The text that stands in the start of a block or part, while its pieces may still be the same.

    The protocols leave it empty. Of servers that fill it, some go on from there, others say it all
    again in pieces. Pieces that begin with all of it are a repetition (`repeated`); those that
    differ go on from it.
    """

    __slots__ = ("_pieces", "_text", "is_over", "repeated")

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces = ""
        self.is_over = False
        """Whether it is known which of the two they are."""
        self.repeated = False

    def add(self, piece: str) -> str:
        """What is to be passed on now that a piece came: nothing while it may be a repetition."""
        self._pieces += piece
        if len(self._pieces) < len(self._text) and self._text.startswith(self._pieces):
            return ""
        return self.end()

    def end(self) -> str:
        """What is to be passed on, as no piece tells more."""
        self.is_over = True
        self.repeated = self._pieces.startswith(self._text)
        return self._pieces if self.repeated else self._text + self._pieces

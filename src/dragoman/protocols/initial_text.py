"""Initial texts of blocks or parts, which their pieces may repeat."""

from __future__ import annotations


class InitialText:
    """The text in the start of a block or part, as long as its pieces may repeat it.

    The protocols leave it empty. Of servers that fill it, some continue from there, others repeat
    it in pieces. Pieces that begin with all of it are a repetition (`repeated`); others continue
    it."""

    __slots__ = ("_pieces", "_text", "is_over", "repeated")

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces = ""
        self.is_over = False
        """Whether it is decided which of the two they are."""
        self.repeated = False

    def add(self, piece: str) -> str:
        """The text to pass on after a piece: empty while it may be a repetition."""
        self._pieces += piece
        if len(self._pieces) < len(self._text) and self._text.startswith(self._pieces):
            return ""
        return self.end()

    def end(self) -> str:
        """The text to pass on at the end of the pieces."""
        self.is_over = True
        self.repeated = self._pieces.startswith(self._text)
        return self._pieces if self.repeated else self._text + self._pieces

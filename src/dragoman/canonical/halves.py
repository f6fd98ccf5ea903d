"""Characters of which one half ends a piece of a text, and the other begins the next.

A server that slices UTF-16 text, as those in JavaScript do, writes each half as an escape.
"""

from __future__ import annotations

from dragoman import jsontext
from dragoman.canonical.events import Closed, Delta, Event
from dragoman.canonical.losses import Ledger, LossKind

MENDED = "half of a character became U+FFFD"


class Halves:
    """A stage behind a reader that joins halves that meet; others become U+FFFD and are reported.

    `seen` is set by the reader with the first half; before, there is nothing to do.
    """

    __slots__ = ("_held", "_ledger", "seen")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: dict[int, str] = {}
        """First halves, by block."""
        self.seen = False

    def push(self, event: Event) -> tuple[Event, ...]:
        """Take one event; return what it becomes."""
        if type(event) is Delta:
            text = self._held.pop(event.index, "") + event.text
            if text and "\ud800" <= text[-1] <= "\udbff":
                self._held[event.index] = text[-1]
                text = text[:-1]
            text = self._mended(text)
            return (Delta(event.index, text, event.logprobs),) if text or event.logprobs else ()
        if type(event) is Closed and self._held.pop(event.index, None) is not None:
            self._report()
            return (Delta(event.index, "\ufffd"), event)
        return (event,)

    def _mended(self, text: str) -> str:
        mended = jsontext.mended(text)
        if "\ufffd" in mended and mended.count("\ufffd") != text.count("\ufffd"):
            self._report()
        return mended

    def _report(self) -> None:
        self._ledger.add("text", LossKind.REPAIRED, MENDED)

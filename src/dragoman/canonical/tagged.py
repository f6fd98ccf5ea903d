"""Reasoning that a server without a parser for it leaves in the text of an answer, in tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from dragoman.canonical.blocks import Reasoning, Text
from dragoman.canonical.events import Closed, Delta, Event, Opened

OPENING: Final = "<think>"
CLOSING: Final = "</think>"

_BRACKET: Final = ord("<")

_INDEX: Final = -1
"""The index of the reasoning block; readers count from 0."""


def may_have_tags(body: bytes) -> bool:
    """Whether the texts in JSON may have a tag, which may be in pieces, and have escapes."""
    return _BRACKET in body or body.find(b"\\u00") >= 0


class TaggedReasoning:
    """A stage behind a reader that makes a block of the reasoning at the beginning of an answer's
    first text, whole or streamed. Text is held back only as far as it may still be a tag.

    `is_open`: the model's chat template has the opening tag, so that an answer begins with
    reasoning, with or without it. Once `over`, nothing is changed any more.
    """

    __slots__ = ("_head", "_held", "_is_open", "_state", "over")

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open
        self._head: Opened | None = None
        """The text block, until it is passed on."""
        self._held = ""
        self._state: Literal["before", "opened", "inside", "after"] = "before"
        self.over = False

    def push(self, event: Event) -> Sequence[Event]:
        """Take one event; return what it becomes."""
        head = self._head
        if self.over or head is None:
            if not self.over and type(event) is Opened and type(event.block) is Text:
                self._head = event
                return ()
            return (event,)
        if getattr(event, "index", None) != head.index:
            return (event,)
        if type(event) is Delta and event.logprobs is None:
            self._held += event.text
            return self._next()
        return self._ended(event) if type(event) is Closed else [*self._rest(), event]

    def _next(self) -> list[Event]:
        """What of the text held can be passed on."""
        passed: list[Event] = []
        if self._state == "before":
            text = self._held.lstrip()
            if text.startswith(OPENING):
                text = text[len(OPENING) :]
            elif OPENING.startswith(text):
                return []
            elif not self._is_open:
                return self._rest()
            self._held, self._state = text, "opened"
        if self._state == "opened":
            text = self._held = self._held.lstrip()
            if text.startswith(CLOSING):
                self._held, self._state = text[len(CLOSING) :], "after"
            elif CLOSING.startswith(text):
                return []
            else:
                self._state = "inside"
                passed.append(Opened(_INDEX, Reasoning(style="raw")))
        if self._state == "inside":
            thought, tag, rest = self._held.partition(CLOSING)
            if not tag:
                thought, rest = _without_beginning(self._held)
            passed += [Delta(_INDEX, thought)] if thought else ()
            self._held = rest
            if not tag:
                return passed
            passed.append(Closed(_INDEX))
            self._state = "after"
        self._held = self._held.lstrip()
        return [*passed, *self._rest()] if self._held else passed

    def _rest(self) -> list[Event]:
        """The text block with what is held; nothing is held from here on."""
        head, held = self._head, self._held
        assert head is not None
        self.over, self._head, self._held = True, None, ""
        if self._state == "inside":
            return [*([Delta(_INDEX, held)] if held else ()), Closed(_INDEX), head]
        return [head, *([Delta(head.index, held)] if held else ())]

    def _ended(self, event: Closed) -> list[Event]:
        """The end of the text block: nothing is left of one that had only reasoning."""
        state, rest = self._state, self._rest()
        if state in ("opened", "after"):
            return []
        return rest[:-1] if state == "inside" else [*rest, event]


def _without_beginning(text: str) -> tuple[str, str]:
    """The text in two: what cannot belong to a closing tag, and the beginning of one at its end."""
    for size in range(min(len(text), len(CLOSING) - 1), 0, -1):
        if CLOSING.startswith(text[-size:]):
            return text[:-size], text[-size:]
    return text, ""

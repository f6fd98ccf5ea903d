"""Emulated stop sequences: the answer is cut here where the upstream does not take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from dragoman.canonical.blocks import Text, UrlCitation
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.options import Options

EMULATED = "not taken upstream: the answer is cut at it here"
"""The detail of the ledger's entry for stop sequences that are emulated."""

MOST = 64
"""Stop sequences of one request that are emulated at most; each is looked for in every delta."""

LONGEST = 1024
"""Characters of an emulated stop sequence: as many may be buffered."""


def emulated(asked: Sequence[str], taken: Sequence[str], options: Options) -> tuple[str, ...]:
    """The stop sequences that the answer is to be cut at here: those the client `asked` for and
    the upstream has not `taken`. None if the options do not want it, or they are too many or too
    long."""
    if options.stop_on_responses != "emulate" or len(taken) == len(asked):
        return ()
    rest = tuple([stop for stop in dict.fromkeys(asked) if stop and stop not in taken])
    if len(rest) > MOST or any(len(stop) > LONGEST for stop in rest):
        return ()
    return rest


class StopCutter:
    """A stage after the sequencer that ends the answer where its text contains a stop sequence.

    The sequence that begins first counts, the shortest of those that begin at the same position.
    Text is buffered only as far as it may still become one; reasoning, refusals and tool arguments
    are not searched, and no sequence extends over the end of a block. A citation of a range of the
    text is buffered until that text was passed on, one of the whole block until the block's end.

    Once `over`, everything that follows is dropped.
    """

    __slots__ = (
        "_buffer",
        "_citations",
        "_firsts",
        "_given",
        "_index",
        "_logprobs",
        "_reach",
        "_stops",
        "over",
    )

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(sorted(stops, key=len))
        self._firsts = frozenset(stop[0] for stop in self._stops)
        self._reach = len(self._stops[-1]) - 1
        self._index: int | None = None
        """The text block that is open."""
        self._buffer = ""
        self._given = 0
        """Characters of the block that were passed on."""
        self._logprobs: list[tuple[int, Any]] = []
        """Those of buffered text, with the position in the block where each begins."""
        self._citations: list[tuple[float, Annotated]] = []
        """Those of buffered text, with the position in the block where each ends."""
        self.over = False

    def push(self, event: Event) -> Sequence[Event]:
        """Take one event; return what it becomes."""
        if self.over:
            return ()
        if type(event) is Opened:
            if type(event.block) is Text:
                self._index, self._given = event.index, 0
        elif self._index is not None:
            if type(event) is Delta:
                return self._delta(event)
            if type(event) is Annotated:
                cited = event.annotation
                end = cited.end if type(cited) is UrlCitation else None
                self._citations.append((inf if end is None else end, event))
                return self._citations_before(self._given)
            if type(event) is Closed or type(event) is Failed:
                return self._ending(event)
        return (event,)

    def _delta(self, event: Delta) -> Sequence[Event]:
        text = self._buffer + event.text
        at, found = self._find(text)
        maybe = self._possible_start(text, at)
        waits = self._buffer or self._logprobs
        if not waits and found is None and maybe == len(text):
            self._given += maybe
            return [event, *self._citations_before(self._given)] if self._citations else (event,)
        self._record_logprobs(event)
        if found is None or maybe < at:
            self._buffer = text[maybe:]
            return [*self._release(text[:maybe]), *self._citations_before(self._given)]
        return self._cut(text[:at], found)

    def _ending(self, event: Closed | Failed) -> Sequence[Event]:
        """The block ends: the buffered text may contain a shorter sequence than the one it
        began."""
        at, found = self._find(self._buffer)
        if found is not None:
            return self._cut(self._buffer[:at], found)
        rest = [*self._release(self._buffer, all_of_it=True), *self._citations_before(inf)]
        self._index, self._buffer = None, ""
        return [*rest, event]

    def _cut(self, text: str, stop: str) -> Sequence[Event]:
        """The last of the text, and the end of the answer."""
        assert self._index is not None
        self.over = True
        passed = [*self._release(text), *self._citations_before(self._given)]
        finish = Finish(FinishReason.STOP_SEQUENCE, stop)
        return [*passed, Closed(self._index), Finished(finish), Ended()]

    def _find(self, text: str) -> tuple[int, str | None]:
        """The first stop sequence in the text, and where it is; else the text's end."""
        at, found = len(text), None
        for stop in self._stops:
            position = text.find(stop, 0, at + len(stop))
            if 0 <= position < at:
                at, found = position, stop
        return at, found

    def _possible_start(self, text: str, before: int) -> int:
        """The first position, `before` if there is none below that, from which the text may still
        become a stop sequence."""
        for position in range(max(0, len(text) - self._reach), before):
            if text[position] in self._firsts:
                tail = text[position:]
                if any(stop.startswith(tail) for stop in self._stops):
                    return position
        return before

    def _record_logprobs(self, event: Delta) -> None:
        """Record where the text of each of the delta's log probabilities begins."""
        position = self._given + len(self._buffer)
        end = position + len(event.text)
        for logprob in event.logprobs or ():
            self._logprobs.append((position, logprob))
            token = logprob.get("token") if isinstance(logprob, dict) else None
            # A part of a character is written out as its bytes.
            position = min(position + (len(token) if isinstance(token, str) else 0), end)

    def _release(self, text: str, *, all_of_it: bool = False) -> list[Event]:
        """A delta of the text, with the log probabilities of what begins in it."""
        assert self._index is not None
        self._given += len(text)
        due = [found for position, found in self._logprobs if all_of_it or position < self._given]
        del self._logprobs[: len(due)]
        if not text and not due:
            return []
        return [Delta(self._index, text, tuple(due) or None)]

    def _citations_before(self, position: float) -> Sequence[Event]:
        """The citations that end at or before `position`."""
        if not self._citations:
            return ()
        due: list[Event] = [event for end, event in self._citations if end <= position]
        self._citations = [waiting for waiting in self._citations if waiting[0] > position]
        return due


def cut_whole(ordered: Sequence[Event], stops: Sequence[str]) -> list[Event]:
    """The events of a whole answer, in grammatical order, up to the first stop sequence.

    What the upstream sent at its end (usage, moderation) stays: it is what was generated.
    Citations, which follow their text in whole answers, stay in their place of what is left.
    """
    cutter = StopCutter(stops)
    meters = [event for event in ordered if type(event) is Metered]
    citations: dict[int, list[Event]] = {}
    """Those of each text block."""
    for event in ordered:
        if type(event) is Opened and type(event.block) is Text:
            citations[event.index] = []
        elif type(event) is Annotated and event.index in citations:
            citations[event.index].append(event)
    passed: list[Event] = []
    for event in ordered:
        if type(event) is Ended and cutter.over:
            passed[-1] = event
        elif type(event) is Started:
            passed += [event, *meters]
        elif type(event) is Opened:
            passed += cutter.push(event)
            for citation in citations.get(event.index, ()):
                passed += cutter.push(citation)
        elif type(event) is not Metered and not (
            type(event) is Annotated and event.index in citations
        ):
            passed += cutter.push(event)
    return passed

"""What a renderer needs to know of one answer, and what the renderers share."""

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.lab.simulator.frames import split_text
from dragoman.lab.simulator.script import Pace, Reasoning, Scenario, Step
from dragoman.lab.simulator.usage import Counts
from dragoman.lab.simulator.view import JsonObject, View

EPOCH = 1_767_225_600
"""Answers are stamped from here on, a second for each: nothing depends on the clock."""

_ARGUMENTS_PACE = Pace(size=12)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to be rendered.

    ``number`` counts the simulator's answers; ids and times derive from it. ``request`` is the
    body that Responses echoes; ``organization`` the owner of the reasoning seals.
    """

    number: int
    scenario: Scenario
    counts: Counts
    view: View
    request: JsonObject
    organization: str

    @property
    def created(self) -> int:
        """Unix time in seconds."""
        return EPOCH + self.number

    def id(self, prefix: str, index: int | None = None) -> str:
        """An id in the vendor's style; ``index`` distinguishes several in one answer."""
        tail = "" if index is None else f"x{index}"
        return f"{prefix}sim{self.number:010d}{tail}"

    def has(self, quirk: str) -> bool:
        return quirk in self.scenario.quirks

    def arguments_deltas(self, arguments: str) -> tuple[str, ...]:
        """The deltas of tool arguments: short pieces unless the pace sets another size."""
        pace = self.scenario.pace
        return split_text(arguments, pace if pace.chunks or pace.size else _ARGUMENTS_PACE)

    def steps(self, *, reasoning: bool) -> tuple[Step, ...]:
        """The scenario's steps, with or without its reasoning."""
        steps = self.scenario.steps
        return steps if reasoning else tuple(s for s in steps if not isinstance(s, Reasoning))


def alternate(pieces: list[tuple[str, ...]]) -> Iterator[tuple[int, str]]:
    """The pieces of several texts in turns: (which text, piece)."""
    for turn in range(max(map(len, pieces), default=0)):
        for which, texts in enumerate(pieces):
            if turn < len(texts):
                yield which, texts[turn]

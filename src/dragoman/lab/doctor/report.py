"""What the checks found, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from dragoman.lab.doctor.checks import Check, Weight


class State(StrEnum):
    """What became of a check."""

    OK = "ok"
    BROKEN = "BROKEN"
    WARNING = "warning"
    NOT_SEEN = "not seen"
    """The answer gave no occasion to look."""


class Finding(Struct, frozen=True):
    """One check's outcome; `problem` is what is wrong, or why the check could not be made."""

    check: Check
    state: State
    problem: str = ""

    def __str__(self) -> str:
        line = f"{self.state:<9} {self.check.id:<26} {self.check.what}"
        if self.state is State.OK:
            return line
        text = f"{line}: {self.problem}"
        if self.state is State.NOT_SEEN:
            return text
        return f"{text}\n{'':<10}breaks: {self.check.breaks}\n{'':<10}do: {self.check.remedy}"


class Findings:
    """Gathers outcomes. A check may be judged on several answers: the first problem stays."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self._checks = {check.id: check for check in checks}
        self._problems: dict[str, str] = {}
        self._unseen: dict[str, str] = {}
        self._judged: set[str] = set()

    def judge(self, check: str, problem: str | None) -> None:
        """Record a check that was made: `problem` is what is wrong, None or empty if nothing is.

        Raises:
            KeyError: there is no such check.
        """
        self._judged.add(self._checks[check].id)
        if problem:
            self._problems.setdefault(check, problem)

    def unseen(self, check: str, reason: str) -> None:
        """A check could not be made, for that reason; it may still be made on another answer."""
        self._unseen.setdefault(self._checks[check].id, reason)

    def __iter__(self) -> Iterator[Finding]:
        """Every check once, in the order of the tables."""
        for name, check in self._checks.items():
            if name in self._problems:
                state = State.BROKEN if check.weight is Weight.BROKEN else State.WARNING
                yield Finding(check, state, self._problems[name])
            elif name in self._judged:
                yield Finding(check, State.OK)
            else:
                reason = self._unseen.get(name, "there was no such answer to look at")
                yield Finding(check, State.NOT_SEEN, reason)

    @property
    def broken(self) -> bool:
        """Whether something a client needs is broken."""
        return any(finding.state is State.BROKEN for finding in self)

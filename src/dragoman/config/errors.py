"""Faults of a configuration, and how they are reported."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True):
    """One fault in a configuration file.

    `line` counts from 1. `key` is the dotted path, such as `upstreams[0].base_url`, empty if the
    whole file is at fault. `message` never contains a secret.
    """

    line: int
    key: str
    message: str

    def located(self, file: str) -> str:
        """The problem as a line of text that editors turn into a link."""
        return ": ".join(part for part in (f"{file}:{self.line}", self.key, self.message) if part)


class ConfigError(Exception):
    """A configuration cannot be used. `problems` has all faults in order of line; `files` are those
    that the configuration names, as far as it was read: one of them may be the cause."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        self.file = file
        self.problems = problems
        self.files: tuple[str, ...] = ()
        super().__init__("\n".join(problem.located(file) for problem in problems))

    @property
    def line(self) -> int:
        """The line of the first fault, counted from 1."""
        return self.problems[0].line

    @property
    def key(self) -> str:
        """The dotted key of the first fault; empty if the whole file is at fault."""
        return self.problems[0].key

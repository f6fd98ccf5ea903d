"""Counts what became of every value, and tells it at the end of the run."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.losses.verdict import Verdict

_COUNTS: Counter[tuple[str, Verdict]] = Counter()


@pytest.fixture
def verdicts() -> Counter[tuple[str, Verdict]]:
    """How often each verdict was given, by kind of message."""
    return _COUNTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per kind of message."""
    for kind in sorted({kind for kind, _ in _COUNTS}):
        told = ", ".join(f"{_COUNTS[kind, verdict]} {verdict.value}" for verdict in Verdict)
        terminalreporter.write_line(f"values of {kind}: {told}")

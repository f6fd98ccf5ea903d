"""How tests are collected, how hard properties are tried, and what is said of skipped tests.

DRAGOMAN_EXAMPLES sets another number of examples of each property.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Hundreds of processes of the gateway are started, each of which would compile it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile(
    "tests",
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES") or 12),
    # The same examples where CI is set.
    derandomize=bool(os.environ.get("CI")),
    # Times differ from machine to machine and say nothing about correctness.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes a million objects, all of which stay: have the garbage collector look for
    none of them to free, neither meanwhile nor in tests that have it look for cycles."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line for each reason why tests were skipped; it names what installs what they
    need."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")

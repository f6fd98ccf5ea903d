"""Runs tests against a mutant until one fails, each try in a process of its own."""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tools.mutation.mutants import Mutant
from tools.mutation.probes import ON_IMPORT
from tools.mutation.record import Record, steady
from tools.mutation.sources import ROOT, install
from tools.mutation.uses import Uses

BATCHES = (1, 3, 8, 1000)
"""How many files of tests a try runs: most mutants fall to the first."""
PATIENCE = 60.0
"""Seconds that a test may take beyond five times what it took unhurt."""
MEMORY = 4 << 30
"""Bytes of memory that a try may have: some bugs loop and collect."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: the test that failed (or `import`, `time`), none if it survived."""

    mutant: Mutant
    killer: str
    tests: int
    seconds: float


class Runner:
    """Knows which tests reach a mutant, and which of them to try first."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._uses = Uses(record.offsets)

    def reaching(self, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's stretch; of one that runs on import, those that run a
        stretch which reads the name defined there (all, if none does)."""
        if mutant.stretch != ON_IMPORT:
            mask = 1 << (self._record.offsets[mutant.module] + mutant.stretch)
        else:
            mask = self._uses.of(mutant.module, mutant.line)
        reached = self._record.reached
        return [test for test, seen in reached.items() if seen & mask or not mask]

    def run(self, mutant: Mutant, suites: tuple[str, ...] = ("tests",)) -> Outcome:
        """Run the tests of these suites that reach the mutant."""
        started = time.monotonic()
        prefixes = tuple(suite + end for suite in suites for end in ("/", "::", "["))
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in self.reaching(mutant):
            if test.startswith(prefixes):
                by_file[test.partition("::")[0]].append(test)
        files = sorted(by_file, key=lambda file: self._worth(file, by_file[file]), reverse=True)
        ran, killer = 0, ""
        for size in BATCHES:
            batch, files = files[:size], files[size:]
            if batch and not killer:
                tests = [test for file in batch for test in by_file[file]]
                ran += len(tests)
                killer = self._attempt(mutant, batch, tests)
        return Outcome(mutant, killer, ran, time.monotonic() - started)

    def _worth(self, file: str, tests: list[str]) -> float:
        cost = 0.3 + sum(self._record.seconds[test] for test in tests)
        return math.sqrt(len(tests)) / cost

    def _attempt(self, mutant: Mutant, files: list[str], tests: list[str]) -> str:
        slowest = max(self._record.seconds[test] for test in tests)
        patience = PATIENCE + 5 * slowest
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _try(mutant, files, tests, writing)
        os.close(writing)
        told = ""
        try:
            while not told.endswith("\n"):
                if not select.select([reading], [], [], patience)[0]:
                    os.kill(child, signal.SIGKILL)
                    return "time"
                piece = os.read(reading, 4096).decode()
                if not piece:
                    return "crash"
                told += piece
            return told.strip(".\n").removesuffix("survived")
        finally:
            os.close(reading)
            os.waitpid(child, 0)


class _Chosen:
    """A pytest plugin that runs the chosen tests alone."""

    def __init__(self, tests: list[str], alive: Callable[[], object]) -> None:
        self._tests = set(tests)
        self._alive = alive
        self.killer = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]

    def pytest_runtest_logstart(self) -> None:
        self._alive()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.killer:
            self.killer = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.killer:
            self.killer = f"{report.nodeid}::import"


def _try(mutant: Mutant, files: list[str], tests: list[str], writing: int) -> None:
    """In the child: import the core with the bug in it, run the tests, tell and end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    told = "import"
    try:
        steady()
        install({mutant.module: mutant.change})
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        chosen = _Chosen(tests, lambda: os.write(writing, b"."))
        options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
        # What is imported before stays as it is; no test asserts in it.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        pytest.main([*files, *options], plugins=[chosen])
        told = chosen.killer or "survived"
    finally:
        os.write(writing, f"{told}\n".encode())
        os._exit(0)


def warm() -> None:
    """Import what every try needs and no mutant changes."""
    sys.path.insert(0, str(ROOT))
    for name in ("anthropic", "anthropic.types", "openai", "openai.types.responses"):
        __import__(name)
    for name in ("hypothesis", "pydantic", "cryptography"):
        __import__(name)

"""Runs translations through the library calls of two versions, side by side."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import msgspec

from tools.differential.compare import Report
from tools.differential.corpus import Translation
from tools.differential.versions import Version

_WORKER = Path(__file__).parent / "worker.py"
_BATCH = 200


class Worker:
    """A process that translates with one version, until it is closed."""

    def __init__(self, version: Version) -> None:
        self.process = subprocess.Popen(
            [version.python, str(_WORKER)],
            env=version.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, lines: list[bytes]) -> list[bytes]:
        """The result of each translation."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        results = []
        for line in lines:
            self.process.stdin.write(line)
            self.process.stdin.flush()
            result = self.process.stdout.readline()
            if not result:
                raise RuntimeError(f"a worker ended at {line[:200]!r}")
            results.append(result)
        return results

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def compare(
    versions: tuple[Version, Version],
    group: str,
    translations: Iterable[Translation],
    report: Report,
) -> None:
    """Run the translations through both versions, and report differences as those of `group`."""
    workers = [Worker(version) for version in versions]
    with ThreadPoolExecutor(2) as pool:
        for batch in _batches(translations):
            lines = [msgspec.json.encode(translation) + b"\n" for translation in batch]
            results = pool.map(Worker.run, workers, repeat(lines))
            for translation, line, old, new in zip(batch, lines, *results, strict=True):
                report.count += 1
                if old != new:
                    cell = f"{translation.client}>{translation.upstream}"
                    found: list[Any] = [msgspec.json.decode(result) for result in (old, new)]
                    report.compare(group, cell, found[0], found[1], line)
    for worker in workers:
        worker.close()


def _batches(translations: Iterable[Translation]) -> Iterator[list[Translation]]:
    rest = iter(translations)
    while batch := list(islice(rest, _BATCH)):
        yield batch

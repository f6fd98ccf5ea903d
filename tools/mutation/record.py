"""Which tests reach which stretches of the core: one run over instrumented modules."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.mutation.probes import Stretches, instrument
from tools.mutation.sources import core_modules, install, parse

SUITES = (
    "tests/canonical",
    "tests/dialects",
    "tests/fuzz",
    "tests/histories",
    "tests/invented",
    "tests/losses",
    "tests/matrix",
    "tests/properties",
    "tests/protocols",
    "tests/requirements",
    "tests/tables",
    "tests/test_answered_whole.py",
    "tests/test_cli_translate.py",
    "tests/test_jsontext.py",
    "tests/test_library.py",
    "tests/test_pass_through_shape.py",
    "tests/test_sse.py",
)
"""The suites that hold translation, and so are asked whether they notice a bug in the core."""
RECORDS = Path(".mutation")
__stretches__ = bytearray()
"""The array that the probes set; it stays the same object."""


@dataclass
class Record:
    """What each test reached: per test the set of stretches as a bit mask, and its seconds."""

    offsets: dict[str, int]
    reached: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Recorder:
    """A pytest plugin that fills a record."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        __stretches__[:] = bytes(len(__stretches__))
        result = yield
        mask = __stretches__.translate(_DIGITS).decode()[::-1]
        self._record.reached[item.nodeid] = int(mask or "0", 2)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self._record.seconds
        seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._record.failed.append(report.nodeid)


_DIGITS = bytes([ord("0"), ord("1"), *range(2, 256)])


def steady() -> None:
    """Have Hypothesis try the same examples each time, as few as an ordinary run, and have less
    damaged at random: a bug that only chance finds asks for a row."""
    os.environ["CI"] = "true"
    os.environ.setdefault("DRAGOMAN_EXAMPLES", "30")
    os.environ.setdefault("DRAGOMAN_FUZZ_REQUESTS", "5000")
    os.environ.setdefault("DRAGOMAN_FUZZ_ANSWERS", "2000")


def record(suites: tuple[str, ...] = SUITES) -> Record:
    """Run the suites once over the instrumented core; an earlier record of the same is kept."""
    place = RECORDS / f"reached-{_fingerprint(suites)}.pickle"
    if not place.exists():
        RECORDS.mkdir(exist_ok=True)
        child = os.fork()
        if child == 0:
            place.write_bytes(pickle.dumps(_recorded(suites)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, "the suites could not be run"
    made: Record = pickle.loads(place.read_bytes())
    return made


def _recorded(suites: tuple[str, ...]) -> Record:
    steady()
    offsets: dict[str, int] = {}
    total = 0
    for module, path in core_modules().items():
        offsets[module] = total
        total += Stretches(parse(path)).count
    __stretches__.extend(bytes(total))
    install({m: lambda tree, at=at: instrument(tree, at) for m, at in offsets.items()})  # type: ignore[misc]
    made = Record(offsets)
    pytest.main([*suites, "-q", "-p", "no:cacheprovider", "--tb=no"], plugins=[Recorder(made)])
    sys.stdout.flush()
    return made


def _fingerprint(suites: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in core_modules().values():
        digest.update(path.read_bytes())
    for suite in suites:
        place = Path(suite)
        for path in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()[:16]

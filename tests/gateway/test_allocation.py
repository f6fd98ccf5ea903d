"""What large requests leave is kept for the next ones, where the C library can be told to."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from dragoman.server.allocation import configure_allocator

configure_allocator()

def work():
    for _ in range(100):
        [b"x" * size for size in (100_000, 300_000, 500_000)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

work()
before = faults()
work()
print(faults() - before)
"""


def faults_of(**environment: str) -> int:
    own = ("MALLOC_", "GLIBC_TUNABLES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    program = [sys.executable, "-c", PROGRAM]
    return int(subprocess.check_output(program, env={**kept, **environment}, text=True))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_memory_is_not_given_back_between_requests() -> None:
    """A page fault is the system handing out a page anew; a hundred rounds of 0.9 MB are 22,000
    pages."""
    assert faults_of() < 1000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "65536"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536"),
    ],
)
def test_what_the_operator_sets_counts(name: str, value: str) -> None:
    assert faults_of(**{name: value}) > 10_000

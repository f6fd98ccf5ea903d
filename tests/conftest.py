"""Collecting the tests makes a million objects, all of which stay."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector not look for any of them to free, neither meanwhile nor in tests
    that have it look for cycles."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

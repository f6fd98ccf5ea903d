"""Optional parts of the package, and how to install them."""

from __future__ import annotations

from typing import Final

IS_PUBLISHED: Final = False
"""Whether the name `dragoman` of the package index is this project's: until then no text names it
as a source (`tests/test_documentation.py` checks all of them)."""


def missing_extra(name: str) -> str:
    """The message for a setting that needs an extra which is not installed."""
    source = f"'dragoman[{name}]'" if IS_PUBLISHED else f"'.[{name}]' in a clone of dragoman"
    return f"needs an extra: pip install {source}"

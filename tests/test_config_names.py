"""Patterns of model names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import matches
from dragoman.config.names import covers

PATTERNS = st.text("ab*", max_size=6)
NAMES = st.text("ab", max_size=6)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("gpt-5", "gpt-5", True),
        ("gpt-5", "gpt-55", False),
        ("gpt-5", "GPT-5", False),
        ("gpt-*", "gpt-", True),
        ("*", "", True),
        ("*-mini", "gpt-5-mini", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "acb", False),
        ("gpt-5.5", "gpt-5x5", False),
        ("[a]", "a", False),
        ("a*", "a\nb", True),
        ("a*a", "a", False),
        ("*a*a*", "a", False),
        ("*a*a*", "bacad", True),
        ("**", "x", True),
        ("*ab*b", "ab", False),
    ],
)
def test_matches(pattern: str, name: str, expected: bool) -> None:
    """Exact names and `*` patterns; nothing else is special. req: 147"""
    assert matches(pattern, name) is expected


@given(PATTERNS, NAMES)
def test_a_star_stands_for_any_text(pattern: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL)
    assert matches(pattern, name) is (expected is not None)


def test_a_long_name_takes_no_long_time() -> None:
    """As a regular expression this would not end."""
    assert not matches("*a*a*a*a*b", "a" * 1_000_000)


@given(PATTERNS, PATTERNS, NAMES)
def test_covers_is_never_wrong_about_a_name(general: str, special: str, name: str) -> None:
    if covers(general, special) and matches(special, name):
        assert matches(general, name)


@given(PATTERNS, PATTERNS, st.lists(NAMES, min_size=1, max_size=3))
def test_a_pattern_that_is_not_covered_has_a_name_of_its_own(
    general: str, special: str, names: list[str]
) -> None:
    """Filling the stars with text that `general` does not hold gives such a name."""
    if not covers(general, special):
        assert not matches(general, special.replace("*", "c"))

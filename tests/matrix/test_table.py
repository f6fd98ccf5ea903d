"""The page about the matrix says what the matrix tests."""

from __future__ import annotations

from tools.pages.matrix import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.pages.matrix"

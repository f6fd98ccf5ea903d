"""The page about fields says what the translation does."""

from __future__ import annotations

import pytest

from tools.pages.translation_fields import PAGE, page

pytestmark = pytest.mark.slow


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.pages.translation_fields"

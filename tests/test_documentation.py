"""Links of the documentation lead somewhere, and its index names every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.config.extras import IS_PUBLISHED

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "deploy/README.md"),
    ROOT / "tests/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    """Where a page's links within the project lead."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors that headings become."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_the_index_names_every_page_once() -> None:
    index = ROOT / "docs/README.md"
    named = [link for link in links(index) if link.endswith(".md") and "/" not in link]
    assert sorted(named) == sorted(
        page.name for page in (ROOT / "docs").glob("*.md") if page != index
    )


@pytest.mark.skipif(IS_PUBLISHED, reason="the package is published")
def test_nobody_is_told_to_install_what_is_not_published() -> None:
    """What has our name on the package index until then is not ours."""
    texts = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "deploy").rglob("*")]
    told = re.compile(r"(pip install|uvx|pipx (run|install)) (--\S+ )*['\"]?dragoman\b")
    for text in texts:
        if text.is_file() and text.name not in ("extras.py", "first-hour.md"):
            assert not told.search(text.read_text(errors="replace")), text


def test_the_promises_of_security_are_held_by_tests() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/security.md").read_text())
    assert len(named) > 30
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(), (path, name)

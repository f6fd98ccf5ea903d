"""``docs/benchmarks.md``: what ``python -m bench`` writes, and after it what `bench.pool` does."""

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
POOL = "\n## What the pool of accounts adds\n"


def write_main(text: str) -> None:
    """Replace all but the section on the pool."""
    _, heading, pool = PAGE.read_text().partition(POOL)
    PAGE.write_text(text + heading + pool)


def write_pool(text: str) -> None:
    """Replace the section on the pool."""
    main, _, _ = PAGE.read_text().partition(POOL)
    PAGE.write_text(f"{main}{POOL}\n{text}")

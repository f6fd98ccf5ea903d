"""``docs/benchmarks.md``: figures of ``python -m bench``, text by hand, figures of `bench.pool`."""

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BY_HAND = "\n## How other gateways are measured\n"
POOL = "\n## What the pool of accounts adds\n"


def write_main(text: str, page: Path = PAGE) -> None:
    """Replace what is before the text by hand."""
    _, heading, rest = page.read_text().partition(BY_HAND)
    page.write_text(text + heading + rest)


def write_pool(text: str, page: Path = PAGE) -> None:
    """Replace the section on the pool, which is the last."""
    main, _, _ = page.read_text().partition(POOL)
    page.write_text(f"{main}{POOL}\n{text}")

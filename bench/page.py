"""``docs/benchmarks.md``: text by hand, and a section for each of three programs."""

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
TERMS = "\n## As gateways are compared\n"
MAIN = "\n## Cost by protocol\n"
BY_HAND = "\n## How other gateways are measured\n"
POOL = "\n## What the pool of accounts adds\n"


def write_terms(text: str, page: Path = PAGE) -> None:
    """Replace the figures of `bench.compare`."""
    _write(page, TERMS, text, MAIN)


def write_main(text: str, page: Path = PAGE) -> None:
    """Replace the figures of ``python -m bench``."""
    _write(page, MAIN, text, BY_HAND)


def write_pool(text: str, page: Path = PAGE) -> None:
    """Replace the figures of `bench.pool`, which are the last."""
    _write(page, POOL, text, "")


def _write(page: Path, heading: str, text: str, until: str) -> None:
    before, _, rest = page.read_text().partition(heading)
    after = until + rest.partition(until)[2] if until else ""
    page.write_text(f"{before}{heading}\n{text}{after}")

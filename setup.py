"""The page that an index of packages shows: the README, with links that lead somewhere from there.

Everything else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def published(readme: str, source: str, version: str) -> str:
    """A README whose relative links lead to the files of that version below `source`."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] else "blob"
        return f"{found['before']}{source}/{kind}/v{version}/{found['path']}{found['after']}"

    readme = re.sub(
        r"(?P<before>(?P<image>!?)\[[^\]]*\]\()(?P<path>(?!https?:|#|mailto:)[^)\s]+)(?P<after>\))",
        absolute,
        readme,
    )
    return re.sub(
        r"(?P<before>(?P<image>src|srcset)=\")(?P<path>(?!https?:)[^\"]+)(?P<after>\")",
        absolute,
        readme,
    )


def version() -> str:
    """The version, where the package says it."""
    text = (HERE / "src/dragoman/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__: Final = "(.+)"$', text, flags=re.MULTILINE)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=published(readme, project["urls"]["Source"], version()),
        long_description_content_type="text/markdown",
    )

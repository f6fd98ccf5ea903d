"""docs/translation.md speaks of every setting and of every line on which contracts disagree."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from dragoman.canonical.losses import LossKind, Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols.settings import checked, fields_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "translation.md").read_text()
SETTINGS = [
    name for kind in (Options, Capabilities) for name in fields_of(kind) if name != "policy"
]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_of_translation_is_explained(name: str) -> None:
    """By its name, with or without a value."""
    assert re.search(rf"`{name}( = [^`]+)?`", PAGE)


def test_values_of_settings_exist() -> None:
    """A setting shown with a value may be set to it."""
    shown = re.findall(r"`([a-z_0-9]+) = ([^`]+)`", PAGE)
    assert len(shown) > 10
    for name, value in shown:
        for settings in (Options, Capabilities):
            if name in fields_of(settings):
                decoded = msgspec.json.decode(value)
                assert checked(settings, {name: decoded}) == {name: decoded}


def test_every_disputed_line_is_settled() -> None:
    """All that requirements.md marks."""
    text = (DOCS / "requirements.md").read_text()
    disputed = re.findall(r"^(\d+)\. .*\*\*\[!\]\*\*", text, re.MULTILINE)
    assert len(disputed) > 20
    table = PAGE.split("## Where contracts disagree")[1]
    rows = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    settled = {number for row in rows for number in re.findall(r"\d+", row)}
    assert set(disputed) <= settled


def test_every_policy_and_kind_is_explained() -> None:
    """In the table of the first section."""
    section = PAGE.split("## ")[1]
    header = next(line for line in section.splitlines() if line.startswith("| kind"))
    assert [cell.strip() for cell in header.split("|")[3:-1]] == [str(policy) for policy in Policy]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == {str(k) for k in LossKind}


def test_links_lead_somewhere() -> None:
    """Within the documentation."""
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (DOCS / target).exists()

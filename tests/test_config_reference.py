"""The generated page about the configuration."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.config import Account, Client, Models, Route, Server, Timeouts, Upstream, parse_config
from dragoman.config.reference import attribute_docs, reference
from dragoman.protocols.settings import declared_by

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: make docs"


@pytest.mark.parametrize(
    "table",
    [Account, Capabilities, Client, Models, Options, Route, Server, Timeouts, Upstream],
)
def test_every_setting_is_explained(table: type[Struct]) -> None:
    parts = declared_by(table) if issubclass(table, Extensible) else (table,)
    for part in parts:
        docs = attribute_docs(part)
        names = {info.name for info in msgspec.structs.fields(part)} - {"own"}
        assert {name for name in names if not docs.get(name)} == set()


def test_the_example_on_the_page_is_a_configuration() -> None:
    example = reference().split("```toml\n", 1)[1].split("```", 1)[0]
    loaded = parse_config(example, environ={"OPENAI_API_KEY": "sk-test"})
    assert loaded.warnings == ()
    assert loaded.config.routes[0].match == "gpt-*"

"""The page about clouds: what it has to paste is a configuration, and its table says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.config import parse_config
from dragoman.prices.loading import load_table, provider_of

PAGE = (Path(__file__).parents[2] / "docs" / "clouds.md").read_text()
SERVICES = PAGE.partition("## Services")[2]
ROWS = re.findall(r"^\| ([^|]+) \| (`\w+[^|]*) \| ?([^|]*)\| `(https[^|`]+)` \|$", SERVICES, re.M)
VARIABLES = dict.fromkeys(re.findall(r'"env:(\w+)"', SERVICES), "secret-of-the-test")


def test_what_is_to_be_pasted_is_checked(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", SERVICES, re.DOTALL)
    file = tmp_path / "dragoman.toml"
    file.write_text(block)
    done = CliRunner().invoke(main, ["check", "--config", str(file)], env=VARIABLES)
    assert done.exit_code == 0, done.output
    assert "usable (4 upstreams, 4 accounts" in done.output


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}, {row[1][1:12]}" for row in ROWS])
def test_every_row_is_an_upstream(row: tuple[str, str, str, str]) -> None:
    _, protocols, service, base_url = row
    for protocol in re.findall(r"`(\w+)`", protocols):
        text = f'[[upstreams]]\nname = "u"\nprotocol = "{protocol}"\nbase_url = "{base_url}"\n'
        if service.strip():
            text += f'service = "{service.strip().strip("`")}"\n'
        (upstream,) = parse_config(text).config.upstreams
        assert upstream.endpoint is upstream.codec.endpoint.at(upstream.service)


def test_prices_are_those_of_the_host() -> None:
    text = re.findall(r"```toml\n(.*?)```", SERVICES, re.DOTALL)[0]
    for name, value in VARIABLES.items():
        text = text.replace(f"env:{name}", value)
    table = load_table()
    found = [provider_of(upstream, table) for upstream in parse_config(text).config.upstreams]
    assert found == ["aws", "google", "google", "azure"]


def test_the_table_has_every_service() -> None:
    assert len(ROWS) >= 11
    named = set(re.findall(r"`(bedrock_invoke|vertex|azure_deployments)`", str(ROWS)))
    assert len(named) == 3

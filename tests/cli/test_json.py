"""`--json`: what every command that tells or changes something prints, for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.storage.sqlite_schema import SQLITE
from tests.cli.conftest import Shop

WITHOUT = {
    "accounts export",  # --format
    "demo",
    "guide",
    "init",
    "serve",
    "simulate",
    "translate",
}
"""Commands that serve, write a file to be read by people, or whose output has a form of its own."""


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def test_every_command_can_be_read_by_a_script_and_its_help_is_whole() -> None:
    found = dict(commands(main))
    plain = {
        name
        for name, command in found.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert plain == WITHOUT
    for group in {name.rpartition(" ")[0] for name in found}:
        told = CliRunner().invoke(main, [*group.split(), "--help"]).output
        cut = [line for line in told.splitlines() if line.endswith("...") and "Usage:" not in line]
        assert not cut, group


CHANGES: list[tuple[str, Any]] = [
    ("team add t", {"name": "t", "keys": 0}),
    ("team set t --note x", {"name": "t"}),
    ("team disable t", {"state": "disabled"}),
    ("team enable t", {"state": "active"}),
    ("key add ci --team t", {"name": "ci"}),
    ("key set ci --note x", {"state": "active"}),
    ("key disable ci", [{"state": "disabled"}]),
    ("key enable ci", [{"state": "active"}]),
    ("key show ci", {"name": "ci"}),
    ("team show t", {"keys": 1}),
    ("limit add ci --kind requests --amount 5 --window day", [{"number": 1}]),
    ("limit reset ci 1", [{"number": 1}]),
    ("limit remove ci 1", []),
    ("key remove ci", {"removed": 1}),
    ("team remove t", {"removed": 1}),
    ("admin add ops", {"name": "ops"}),
    ("admin set ops --role viewer", {"role": "viewer"}),
    ("admin disable ops", {"enabled": False}),
    ("admin enable ops", {"enabled": True}),
    ("admin remove ops", {"removed": 1}),
    ("accounts disable fixed", {"disabled": 1}),
    ("accounts enable fixed", {"enabled": 1}),
    ("store vacuum", {}),
    ("store prepare", {"tables": SQLITE.version}),
]


def test_changes_tell_what_is_then(shop: Shop, tmp_path: Path) -> None:
    for line, told in [
        *CHANGES,
        (f"store backup {tmp_path / 'copy.db'}", {}),
        (f"store migrate --to {tmp_path / 'moved.db'}", {}),
    ]:
        found = json.loads(shop.run(*line.split(), "--json").stdout)
        if isinstance(told, list):
            assert len(found) == len(told), line
            found, told = (found or [{}])[0], (told or [{}])[0]
        assert {name: found[name] for name in told} == told, line
    assert json.loads(shop.run("accounts", "list", "--json").stdout)["accounts"]


@pytest.mark.parametrize("line", ["key show ci", "limit list ci", "usage", "audit", "prices show"])
def test_a_missing_configuration_is_said_to_be_missing(shop: Shop, line: str) -> None:
    shop.file.unlink()
    told = shop.run(*line.split(), "--json", status=1).stderr
    assert "there is no configuration at" in told

"""Who may import whom. The contracts themselves are in pyproject.toml."""

from __future__ import annotations

import logging.config
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import grimp
import pytest
from importlinter import cli

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dragoman"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

# The simulator must not share code with the writers it is to judge, or both would agree on the
# same mistake: of the rest of the package it may know only the wire types, the SSE framing, and the
# HTTP server.
SIMULATOR_MAY_IMPORT = (
    "dragoman.lab.simulator",
    "dragoman.lab.simulator.*",
    "dragoman.failing",
    "dragoman.http",
    "dragoman.http.*",
    "dragoman.sse",
    "dragoman.protocols.*.wire",
)


@pytest.fixture(autouse=True)
def loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool sets logging up anew, which would disable the loggers of other tests."""
    monkeypatch.setattr(logging.config, "dictConfig", lambda settings: None)


@pytest.mark.parametrize("contract", [entry["id"] for entry in CONTRACTS["contracts"]])
def test_contract(contract: str) -> None:
    status = cli.lint_imports(
        config_filename=str(ROOT / "pyproject.toml"),
        limit_to_contracts=(contract,),
        no_cache=True,
        no_logo=True,
    )
    assert status == 0, "the broken imports are listed above"


def test_the_simulator_shares_no_translation_code() -> None:
    graph = grimp.build_graph("dragoman", cache_dir=None)
    simulator = {"dragoman.lab.simulator", *graph.find_descendants("dragoman.lab.simulator")}
    strays = {
        f"{importer} imports {imported}"
        for importer in simulator
        for imported in graph.find_modules_directly_imported_by(importer)
        if not any(fnmatchcase(imported, allowed) for allowed in SIMULATOR_MAY_IMPORT)
    }
    assert strays == set()


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without `__init__.py` would be missing from the contracts and from the wheel."""
    folders = {module.parent for module in SOURCE.rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == set()

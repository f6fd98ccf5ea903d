"""Every option of a route and every capability of an upstream has a row that shows what it does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import fields_of

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("test_*_*.py"))
EVERYWHERE = {"policy"}
"""Every row of requests is run under all policies."""

SHOWN_BY_DIALECTS = {
    "keepalive",
    "error_style",
    "failure_events",
    "tool_turn",
    "response_fields",
}
"""What only a dialect asks for is shown under `tests/dialects`."""

SHOWN_OVER_SOCKETS = {
    "billing_header",
    "compaction",
    "final_assistant",
    "output_limit",
    "reasoning_in",
    "thinks_unasked",
    "tool_text",
    "tools_without_reasoning",
    "web_search",
}
"""What matters within one protocol, for where a request goes, or is learnt from refusals, is shown
under `tests/gateway` and `tests/local_models`."""


SHOWN_WITH_SERVICES = {"client_versions", "omit_betas", "omit_fields"}
"""What is learnt of the services of clouds is shown under `tests/services`."""

SHOWN_WITH_LIMITS = {"budget_status"}
"""What matters where a limit refuses is shown under `tests/gateway`."""

SHOWN_IN_LISTS = {"context_window"}
"""What only lists of models tell of is shown under `tests/gateway`."""


def settings_of(rows: list[Any], name: str) -> set[str]:
    """The settings that rows have under `options` or `upstream`."""
    return {setting for row in rows for setting in getattr(row, name, ())}


def test_every_setting_has_a_row() -> None:
    tables = [import_module(f"tests.tables.{name}") for name in TABLES]
    lists = [value for table in tables for value in vars(table).values() if isinstance(value, list)]
    rows = [row for rows in lists for row in rows if type(row).__name__ == "Row"]
    assert settings_of(rows, "options") == (
        set(fields_of(Options)) - EVERYWHERE - SHOWN_BY_DIALECTS - SHOWN_WITH_LIMITS
    )
    elsewhere = SHOWN_OVER_SOCKETS | SHOWN_WITH_SERVICES | SHOWN_IN_LISTS
    assert settings_of(rows, "upstream") == set(fields_of(Capabilities)) - elsewhere


def test_dialects_set_options_that_exist() -> None:
    chosen = {name for dialect in DIALECTS.values() for name in dialect}
    assert SHOWN_BY_DIALECTS <= chosen <= set(fields_of(Options))

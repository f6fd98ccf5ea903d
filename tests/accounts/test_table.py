"""The decision table: every row of it holds, and is what the documentation shows."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.decisions import observe
from dragoman.accounts.decide.explain import explain, of_account
from dragoman.accounts.decide.rules import DEFAULT, SOP
from tests.accounts.answers import TABLE
from tests.accounts.changes import CHANGES, MODEL, STATES, Change
from tests.accounts.shapes import NOW, Row
from tools.pages.accounts import PAGE, page

ROWS = [
    pytest.param(row, id=f"{situation}: {row.told}")
    for situation, rows in TABLE.items()
    for row in rows
]
KNOWN = [
    pytest.param(change, name, id=f"{change.told}: {STATES[name].told}")
    for change in CHANGES
    for name in STATES
]


def test_the_table_is_large_enough_to_be_trusted() -> None:
    """At least 150 rows of outcome and state, each told once."""
    assert len(ROWS) + len(KNOWN) >= 300
    told = [row.told for rows in TABLE.values() for row in rows]
    assert len(told) == len(set(told))


@pytest.mark.parametrize("row", ROWS)
def test_by_the_default_rules(row: Row) -> None:
    """req: 133, 134, 136, 137, 141"""
    found = explain(row.answer.symptom(), DEFAULT.rules, MODEL)
    assert (found.request, found.account) == row.default


@pytest.mark.parametrize("row", ROWS)
def test_by_the_rules_of_the_procedure(row: Row) -> None:
    """req: 133, 134, 135, 136, 137, 141"""
    found = explain(row.answer.symptom(), SOP.rules, MODEL)
    assert (found.request, found.account) == row.sop


@pytest.mark.parametrize(("change", "name"), KNOWN)
def test_of_an_account_that_is_known(change: Change, name: str) -> None:
    before = STATES[name].state
    after = observe(before, change.outcome, MODEL, NOW)
    assert of_account(before, after, MODEL, NOW) == change.of(name)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.told)
def test_every_state_is_named_once(change: Change) -> None:
    named = [name for names in change.makes.values() for name in names]
    assert set(named) <= set(STATES)
    assert len(named) == len(set(named))


def test_the_page_shows_these_rows() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run `make docs`"

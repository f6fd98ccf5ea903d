"""A Messages client before an upstream of Google's Interactions API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.requests import CONVERTED, HI, KNOB, REPAIRED, A, JsonObject, Row, check, ids
from tests.tables.wire_messages import given, said, use

INTERACTIONS = "google_interactions"
FAILED = {
    "messages": [
        HI,
        said("assistant", use("c1")),
        said("user", given("c1", "r", is_error=True)),
    ]
}

PARTS = {
    "type": "document",
    "title": "A title",
    "source": {"type": "content", "content": [{"type": "text", "text": "a"}]},
}


def result(**fields: Any) -> JsonObject:
    return {"input[3]": {"type": "function_result", "call_id": "c1", "name": "f", **fields}}


ROWS = [
    Row(
        "a failed result",
        FAILED,
        result(result="r"),
        {"messages[1]": REPAIRED, "messages[2].content[0].is_error": KNOB},
    ),
    Row(
        "a failed result for an upstream that takes the mark",
        FAILED,
        result(result="r", is_error=True),
        {"messages[1]": REPAIRED},
        upstream={"google_result_errors": True},
    ),
    Row(
        "a document of parts",
        {"messages": [said("user", PARTS)]},
        {
            "input[0].content": [
                {"type": "text", "text": "A title"},
                {"type": "text", "text": "a"},
            ]
        },
        {"messages[0].content[0]": CONVERTED},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, INTERACTIONS, row)

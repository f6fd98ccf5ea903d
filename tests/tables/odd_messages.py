"""Streams of Messages servers that read the protocol their own way."""

from __future__ import annotations

from tests.tables.cells import (
    message_end,
    message_start,
)
from tests.tables.requests import JsonObject

BEGIN = message_start(input_tokens=5)
ENDING = message_end()


def again(message_id: str) -> JsonObject:
    """The start of another message."""
    return {**BEGIN, "message": {**BEGIN["message"], "id": message_id}}

"""Dialects: the contracts that clients were written against, each a named set of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Dialect = Literal["official", "openresponses", "antwort", "tokligence", "shroud", "sop"]

DIALECTS: Mapping[Dialect, Mapping[str, Any]] = {
    "official": {},
    "openresponses": {
        "responses_done": True,
        "error_style": "openresponses",
        # Its events of raw reasoning have names that official clients do not know.
        "reasoning_as": "summary",
    },
    "antwort": {
        "responses_done": True,
        "error_style": "openresponses",
        "failure_events": "failed",
    },
    "tokligence": {"tool_turn": "required_action", "keepalive": "numbered"},
    "shroud": {"keepalive": "off"},
    "sop": {"response_fields": "classic"},
}
"""What each dialect sets in `Options`; everything else keeps its value.

`official` is what the vendors' own services do. `openresponses` is the Open Responses
specification, `antwort` a server of it that says no more than it must when it fails. `tokligence`
has clients submit what their tools gave, `shroud` streams nothing but chunks, and `sop` shows
responses with the fields that the account-pool procedure lists.
"""

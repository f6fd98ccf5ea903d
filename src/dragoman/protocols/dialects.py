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
        # Official clients do not know the names of its raw reasoning events.
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
"""The `Options` that each dialect sets; all others have their default.

`official` is the behaviour of the vendors' own services. `openresponses` is the Open Responses
specification, `antwort` a server of it with minimal errors. `tokligence` has clients submit tool
outputs, `shroud` streams nothing but chunks, and `sop` shows responses with the fields that the
account-pool procedure lists."""

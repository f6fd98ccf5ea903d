"""What the vendors' SDKs have that the gateway does not account for.

`python -m tools.drift` (`make drift`) compares the installed `openai`, `anthropic` and
`google-genai` packages with the gateway's readers and tables, and lists every field, union member,
event, stop reason and error type that none of them knows. `find` is the same as a function.
"""

from __future__ import annotations

from tools.drift.answers import answer_drift
from tools.drift.found import Drift
from tools.drift.requests import request_drift


def find() -> list[Drift]:
    """All drift of the installed SDKs, requests first."""
    return [*request_drift(), *answer_drift()]


__all__ = ["Drift", "answer_drift", "find", "request_drift"]

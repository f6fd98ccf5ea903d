"""Events of an upstream's stream."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.errors import FaultKind
from dragoman.canonical.events import Event, Failed

START: dict[str, Any] = {"type": "message_start", "message": {"id": "msg_up", "model": "m"}}
STOP = {"type": "message_stop"}


def block_start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def block_stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", usage: Any = None, **delta: Any) -> dict[str, Any]:
    event = {"type": "message_delta", "delta": {"stop_reason": reason, **delta}}
    return event if usage is None else {**event, "usage": usage}


def failure(events: list[Event]) -> FaultKind:
    """The kind of the failure that events end in."""
    assert isinstance(events[-1], Failed)
    return events[-1].fault.kind

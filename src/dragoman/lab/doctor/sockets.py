"""Judging Responses over WebSocket: two turns on one connection."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.lab.doctor.calls import Caller
from dragoman.lab.doctor.report import Findings

_PATH = "/v1/responses"
_TERMINALS = ("response.completed", "response.incomplete", "response.failed")
_TURN, _MEMORY = "responses.websocket", "responses.websocket_memory"


class _Failure(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 400
    headers: list[tuple[bytes, bytes]] = []
    event: bytes = b""
    is_retryable: bool = False


class _Turn:
    """A turn as the client plays it (see `dragoman.upstream.request.SocketCall`)."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self.asked = False
        """Whether there was a connection to ask."""
        self.events: list[dict[str, Any]] = []
        self.is_complete = self.awaits_following = False
        self.context = None
        self.error: _Failure | None = None

    def message(self, context: object) -> bytes:
        self.asked = True
        return msgspec.json.encode({"type": "response.create", **self._body})

    def receive(self, message: bytes) -> bytes:
        try:
            event = msgspec.json.decode(message)
        except msgspec.DecodeError:
            event = None
        if not isinstance(event, dict):
            self.error = _Failure(b"a message is no JSON object")
            return b""
        if event.get("type") == "error":
            self.error = _Failure(message)
            return b""
        self.events.append(event)
        self.is_complete = event.get("type") in _TERMINALS
        return message

    def give_up(self) -> bytes:
        return b""

    def is_late_error(self, message: bytes) -> bool:
        return False

    def problem(self, failure: str) -> str:
        """What is wrong with the turn, empty if nothing is; `failure` is the call's own."""
        if self.error is not None:
            return f"it is answered {self.error.body[:300].decode(errors='replace')}"
        if failure or not self.is_complete:
            return failure or "it has no terminal event"
        if self.events[0].get("type") != "response.created":
            return f"its first event is {self.events[0].get('type')}"
        if self.events[-1].get("type") != "response.completed":
            return f"it ends as {self.events[-1].get('type')}"
        return "" if self.id else "its response has no id"

    @property
    def id(self) -> str:
        """The id of its response, empty if it has none."""
        response = self.events[-1].get("response") if self.events else None
        return str(response.get("id") or "") if isinstance(response, dict) else ""


async def look_at_socket(caller: Caller, body: dict[str, Any], findings: Findings) -> None:
    """Judge a turn of `body`, and one that goes on from it, if WebSocket is offered."""
    first = _Turn(body)
    failure = await caller.over_socket(_PATH, first)
    if not first.asked:
        for check in (_TURN, _MEMORY):
            findings.unseen(check, "WebSocket is not offered")
        return
    problem = first.problem(failure)
    findings.judge(_TURN, problem)
    if problem:
        findings.unseen(_MEMORY, "there was no turn to go on from")
        return
    second = _Turn({**body, "previous_response_id": first.id})
    failure = await caller.over_socket(_PATH, second)
    findings.judge(_MEMORY, second.problem(failure))

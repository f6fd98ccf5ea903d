"""Steering an answer over a socket."""

from __future__ import annotations

from typing import Any

from dragoman.lab.simulator.testing import RunningSimulator
from tests.websocket.client import ENDS, Socket

SLOW = "responses/sim-text?words=400&delay_ms=30"
QUICK = "[[sim: words=5 delay_ms=0]]"
"""Has the response that follows end soon."""


def steer(sock: Socket, target: str, given: Any) -> None:
    sock.send({"type": "response.steer", "previous_response_id": target, "input": given})


def begun(sock: Socket) -> str:
    """The id of the response that begins next."""
    while (event := sock.event())["type"] != "response.created":
        pass
    name: str = event["response"]["id"]
    return name


def refusal(sock: Socket) -> dict[str, Any]:
    """The next event that returns input."""
    while (event := sock.event())["type"] != "response.steer.failed":
        assert event["type"] not in ENDS, event
    return event


def asked(simulator: RunningSimulator) -> list[Any]:
    """What users said in the last request upstream, in order."""
    found = simulator.last.json["input"]
    return [one.get("content") for one in found if one.get("role") == "user"]

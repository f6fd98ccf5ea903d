"""A gateway of one dialect, and what it answers."""

from __future__ import annotations

import json
from typing import Any

from dragoman.server.testing import RunningGateway
from tests.checkers.framing import frames
from tests.gateway.http import Answer, call
from tests.memory.conftest import KEY, UPSTREAMS

NAMES = list(UPSTREAMS)


def post(gateway: RunningGateway, path: str, body: dict[str, Any]) -> Answer:
    return call(gateway.base_url, "POST", path, body, key=KEY)


def events_of(answer: Answer) -> list[Any]:
    return [
        frame.data if frame.data == "[DONE]" else json.loads(frame.data)
        for frame in frames(answer.body)
    ]

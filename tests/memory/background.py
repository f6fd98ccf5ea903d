"""Responses in the background, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import openai

SLOW = "sim-text?words=60&delay_ms=50"


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def finished(me: openai.OpenAI, name: str) -> Any:
    until(lambda: me.responses.retrieve(name).status not in ("queued", "in_progress"))
    return me.responses.retrieve(name)

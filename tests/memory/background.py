"""Responses in the background, and waiting for them."""

from __future__ import annotations

from typing import Any

import openai

from tests.gateway.processes import until

SLOW = "sim-text?words=60&delay_ms=50"


def finished(me: openai.OpenAI, name: str) -> Any:
    until(lambda: me.responses.retrieve(name).status not in ("queued", "in_progress"))
    return me.responses.retrieve(name)

"""A client of stored responses."""

from __future__ import annotations

from typing import Any

import openai

from dragoman.server.testing import RunningGateway
from tests.gateway.http import TRUSTS_NOBODY
from tests.memory.conftest import KEY


def client(gateway: RunningGateway, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=gateway.openai_base_url,
        api_key=key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=TRUSTS_NOBODY),
    )


def say(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}

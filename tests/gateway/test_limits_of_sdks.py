"""The vendors' SDKs, with the retries they have by themselves, meet a rate limit and a spent
budget: of the one they wait as told and go on, of the other they stop at once and show why."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS
from tests.gateway.http import KEY
from tests.gateway.limited import config, limit, serving
from tests.gateway.load import at_once
from tests.matrix.judges import NODE_DIR, find_node

WINDOW_S = 3
MODEL = "chat/sim-text"
MESSAGES: Any = [{"role": "user", "content": "Hello"}]


def python(gateway: RunningGateway, api: str, *, stream: bool, times: int) -> list[dict[str, Any]]:
    """What the Python SDK saw of so many requests."""
    ours = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    theirs = anthropic.Anthropic(base_url=gateway.base_url, api_key=KEY)
    options: Any = {"model": MODEL, "stream": stream}
    asks: dict[str, Callable[[], Any]] = {
        "chat": lambda: ours.chat.completions.create(messages=MESSAGES, **options),
        "messages": lambda: theirs.messages.create(messages=MESSAGES, max_tokens=100, **options),
        "responses": lambda: ours.responses.create(input="Hello", store=False, **options),
    }
    seen: list[dict[str, Any]] = []
    with ours, theirs:
        for _ in range(times):
            begun = time.monotonic()
            told: dict[str, Any] = {}
            try:
                answer = asks[api]()
                if stream:
                    list(answer)
            except (openai.APIStatusError, anthropic.APIStatusError) as error:
                told = {
                    "name": type(error).__name__,
                    "status": error.status_code,
                    "message": str(error),
                }
            seen.append({"ms": (time.monotonic() - begun) * 1000, **told})
    return seen


def node(gateway: RunningGateway, api: str, *, stream: bool, times: int) -> list[dict[str, Any]]:
    """What the Node SDK saw."""
    task = {
        "api": api,
        "baseUrl": gateway.base_url,
        "key": KEY,
        "model": MODEL,
        "stream": stream,
        "times": times,
    }
    done = subprocess.run(
        [find_node(), "limits.mjs"],
        cwd=NODE_DIR,
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    seen: list[dict[str, Any]] = json.loads(done.stdout)
    return seen


SDKS = {"python": python, "node": node}
CASES = [
    (sdk, api, (place + turn) % 2 == 0)
    for turn, sdk in enumerate(SDKS)
    for place, api in enumerate(APIS)
]
"""Each SDK with each protocol. Whether it asks for a stream alternates: the refusal is the same."""


@pytest.mark.parametrize("sdk", SDKS)
def test_it_waits_for_a_rate_as_told_and_goes_on(simulator: RunningSimulator, sdk: str) -> None:
    def check(sdk: str, api: str, stream: bool) -> None:
        limits = (limit("requests", 2, f"{WINDOW_S}s"),)
        with serving(config(simulator.base_url, *limits)) as (gateway, lines):
            seen = SDKS[sdk](gateway, api, stream=stream, times=3)
            assert [one.get("status") for one in seen] == [None] * 3
            waited = sum(one["ms"] for one in seen)
            assert WINDOW_S * 1000 <= waited < (WINDOW_S + 3) * 1000
            simulator.wait_for(lambda: len(lines) == 4)
            statuses = [line["status"] for line in lines]
            assert statuses == [200, 200, 429, 200], "it asked once in vain"

    at_once([case for case in CASES if case[0] == sdk], check)


@pytest.mark.parametrize(("sdk", "api", "stream"), CASES)
def test_it_stops_at_a_spent_budget_and_shows_why(
    simulator: RunningSimulator, sdk: str, api: str, stream: bool
) -> None:
    limits = (limit("cost", "0", "month"),)
    with serving(config(simulator.base_url, *limits)) as (gateway, lines):
        (seen,) = SDKS[sdk](gateway, api, stream=stream, times=1)
        assert seen["status"] == (402 if api == "messages" else 429)
        if api != "messages":
            assert seen["name"] == "RateLimitError"
        assert "The budget of this API key per month is used up" in seen["message"]
        assert "It resets at 20" in seen["message"]
        assert seen["ms"] < 2000
        simulator.wait_for(lambda: bool(lines))
        assert len(lines) == 1, "it asked once"

"""Servers that cut a conversation to their window, and answer what is left of it."""

from __future__ import annotations

import base64
import json
import random

import pytest

from dragoman.translation.estimate import least_prompt
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, api_of, whole
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call
from tests.upstream.servers import Call

KEY = "key-of-a-server-with-a-small-window"
WORDS = "The quick brown fox jumps over the lazy dog. " * 1200
COUNTED = {"chat": "prompt_tokens", "messages": "input_tokens", "responses": "input_tokens"}


async def counts_all(call: Call) -> None:
    """Counts as many tokens as the prompt may well have."""
    api = api_of(call)
    told = json.loads(whole(api, "Good"))
    told["usage"][COUNTED[api]] = len(call.body) // 5
    await call.send(answer(json.dumps(told).encode()))


@pytest.mark.parametrize("target", COUNTED)
@pytest.mark.parametrize("client", PATHS)
def test_a_prompt_that_was_cut_is_told(
    client: str, target: str, over: Over, upstream: Upstream
) -> None:
    told = call(over(KEY).base_url, "POST", PATHS[client], body(client, f"{target}/m", WORDS))
    assert told.status == 200, told.body
    assert "content" in told.headers["x-dragoman-losses"]


def test_one_that_was_counted_is_whole(over: Over, upstream: Upstream) -> None:
    upstream.behaviours[KEY] = counts_all
    told = call(over(KEY).base_url, "POST", PATHS["chat"], body("chat", "chat/m", WORDS))
    assert told.status == 200, told.body
    assert "x-dragoman-losses" not in told.headers


def test_what_has_few_tokens_for_its_bytes_is_no_long_prompt() -> None:
    picture = base64.b64encode(random.Random(1).randbytes(60_000))
    assert least_prompt(WORDS.encode()) > 8000
    assert least_prompt(WORDS[:25_000].encode()) == 0
    assert least_prompt(b'{"type":"image","data":"' + picture + b'"}') == 0
    assert least_prompt(json.dumps("字" * 5_000).encode()) == 0

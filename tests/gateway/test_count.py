"""Counting tokens."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.account_views import status_of
from dragoman.protocols.base import to_json
from dragoman.server.count import MOST_PER_MINUTE
from dragoman.server.testing import RunningGateway
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import IMAGE_TOKENS, PAGE_TOKENS, estimate_tokens
from tests.gateway.clients import error_of
from tests.gateway.conftest import Start
from tests.gateway.http import AUTH, JSON, Connection, call
from tests.gateway.processes import gateway_process

LIMITED_KEY = "sk-of-the-limited"
CLIENT = f"""
[[clients]]
name = "limited"
key = "{LIMITED_KEY}"
"""
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}


def prompt(api: str, model: str, **more: Any) -> dict[str, Any]:
    if api == "responses":
        return {"model": model, "input": "How are you?", **more}
    return {"model": model, "messages": [{"role": "user", "content": "How are you?"}], **more}


PATHS = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
UPSTREAM_PATHS = {
    "messages": "/v1/messages/count_tokens",
    "responses": "/v1/responses/input_tokens",
}


@pytest.mark.parametrize("upstream", UPSTREAM_PATHS)
@pytest.mark.parametrize("api", PATHS)
def test_the_upstream_counts_if_it_can(
    gateway: RunningGateway, simulator: RunningSimulator, api: str, upstream: str
) -> None:
    made = prompt(api, f"{upstream}/sim-text", tools=[TOOL] if api == "messages" else [])
    answer = call(gateway.base_url, "POST", PATHS[api], made)
    assert answer.status == 200
    assert answer.json["input_tokens"] > 0
    assert answer.json.get("object") == ("response.input_tokens" if api == "responses" else None)
    assert "x-dragoman-estimate" not in answer.headers
    assert simulator.last.path == UPSTREAM_PATHS[upstream]


@pytest.mark.parametrize("api", PATHS)
def test_else_it_is_estimated(
    gateway: RunningGateway, simulator: RunningSimulator, api: str
) -> None:
    answer = call(gateway.base_url, "POST", PATHS[api], prompt(api, "chat/sim-text"))
    assert answer.status == 200
    assert answer.headers["x-dragoman-estimate"] == "true"
    assert 5 <= answer.json["input_tokens"] <= 20
    assert simulator.requests == []


@pytest.mark.parametrize("api", PATHS)
def test_accounts_without_use_do_not_stop_it(start: Start, api: str) -> None:
    gateway = start(keys=("sk-sim-401",))
    answer = call(gateway.base_url, "POST", PATHS[api], prompt(api, "messages/sim-text"))
    assert answer.status == 200
    assert answer.headers["x-dragoman-estimate"] == "true"


@pytest.mark.parametrize("api", PATHS)
def test_the_next_account_counts(start: Start, api: str) -> None:
    gateway = start(keys=("sk-sim-429", "sk-sim-good"))
    answer = call(gateway.base_url, "POST", PATHS[api], prompt(api, "messages/sim-text"))
    assert answer.status == 200
    assert "x-dragoman-estimate" not in answer.headers


@pytest.mark.parametrize("upstream", UPSTREAM_PATHS)
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("key", ["sk-sim-401", "sk-sim-402", "sk-sim-429", "sk-sim-500"])
def test_a_count_says_nothing_of_an_account(
    start: Start, api: str, upstream: str, key: str
) -> None:
    """Whatever the upstream answers to it: nobody's generation is refused for another's counts."""
    gateway = start(keys=(key,))
    for _ in range(5):
        answer = call(gateway.base_url, "POST", PATHS[api], prompt(api, f"{upstream}/sim-text"))
        assert answer.status == 200
        assert answer.headers["x-dragoman-estimate"] == "true"
    for account in gateway.app.pool.accounts():
        status = status_of(gateway.app.pool.state(account.name), time.time())
        assert status.state == "active", account.name


@pytest.mark.parametrize("api", PATHS)
def test_many_counts_of_a_caller_are_estimated(
    start: Start, simulator: RunningSimulator, api: str
) -> None:
    gateway = start()
    made = json.dumps(prompt(api, "messages/sim-text")).encode()
    with Connection(gateway.base_url) as connection:
        estimates = []
        for _ in range(MOST_PER_MINUTE + 20):
            connection.send("POST", PATHS[api], made, {**AUTH, **JSON})
            estimates.append("x-dragoman-estimate" in connection.answer().headers)
    assert estimates == [False] * MOST_PER_MINUTE + [True] * 20
    assert len(simulator.requests) == MOST_PER_MINUTE


COUNTING = """
[[clients.limits]]
kind = "requests"
amount = 1
window = "1m"
[[upstreams]]
name = "counting"
protocol = "anthropic_messages"
base_url = "{base_url}"
[[accounts]]
name = "b"
upstream = "counting"
key = "sk-sim-b"
"""


def test_counts_of_a_caller_are_few_over_all_workers(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """And count at none of its limits."""
    tables = CLIENT + COUNTING.format(base_url=simulator.base_url)
    with gateway_process(
        tmp_path, simulator.base_url, {"a": "sk-sim-a"}, workers=3, tables=tables
    ) as gateway:
        made = prompt("messages", "counting/sim-text")

        def is_estimated(_: int) -> bool:
            answer = call(gateway.url, "POST", PATHS["messages"], made, key=LIMITED_KEY)
            assert answer.status == 200
            return "x-dragoman-estimate" in answer.headers

        with ThreadPoolExecutor(8) as clients:
            estimates = list(clients.map(is_estimated, range(MOST_PER_MINUTE + 40)))
        assert estimates.count(False) == MOST_PER_MINUTE
        asked = {**prompt("messages", "counting/sim-text"), "max_tokens": 9}
        answer = call(gateway.url, "POST", "/v1/messages", asked, key=LIMITED_KEY)
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_bad_prompts(gateway: RunningGateway, simulator: RunningSimulator, upstream: str) -> None:
    made = {"model": f"{upstream}/sim-text", "messages": [{"role": "alien", "content": "x"}]}
    answer = call(gateway.base_url, "POST", PATHS["messages"], made)
    assert answer.status == 400
    assert "messages[0].role" in error_of("messages", answer)["message"]
    unknown = call(gateway.base_url, "POST", PATHS["messages"], {**made, "model": "nothing"})
    assert unknown.status == 404
    assert simulator.requests == []


def test_what_the_upstream_refuses_is_told(gateway: RunningGateway) -> None:
    made = prompt("messages", "messages/sim-text", messages=[])
    answer = call(gateway.base_url, "POST", PATHS["messages"], made)
    assert answer.status == 400
    error_of("messages", answer)


def test_the_sdk(gateway: RunningGateway) -> None:
    from anthropic import Anthropic

    from tests.gateway.http import KEY

    with Anthropic(base_url=gateway.base_url, api_key=KEY) as client:
        for upstream in ("chat", "messages", "responses"):
            counted = client.messages.count_tokens(
                model=f"{upstream}/sim-text", messages=[{"role": "user", "content": "Hello"}]
            )
            assert counted.input_tokens > 0


def estimate(**members: Any) -> int:
    made = {"model": "m", "messages": [{"role": "user", "content": ""}], **members}
    body = to_json({"max_tokens": 1, **made})
    request = ClientRequest("anthropic_messages", body)
    return estimate_tokens(request.read(Sealer()))


def said(content: Any) -> int:
    return estimate(messages=[{"role": "user", "content": content}])


class TestEstimates:
    def test_words(self) -> None:
        empty = said("x") - 1
        assert said("hello world") - empty == 2
        assert said("internationalisation") - empty == 4
        assert said("123456") - empty == 2
        assert said("你好世界") - empty == 4
        assert said("привет") - empty == 3

    def test_all_parts_count(self) -> None:
        base = said("x")
        assert estimate(system="a b c", messages=[{"role": "user", "content": "x"}]) == base + 3
        assert estimate(tools=[TOOL], messages=[{"role": "user", "content": "x"}]) > base + 10
        source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
        assert said([{"type": "image", "source": source}]) >= IMAGE_TOKENS
        pages = {"type": "base64", "media_type": "application/pdf", "data": "AAAA" * 30_000}
        assert said([{"type": "document", "source": pages}]) >= 2 * PAGE_TOKENS
        call_and_result = [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "b"}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a b c d"}],
            },
        ]
        assert estimate(messages=call_and_result) > base + 20

    def test_long_texts_are_sampled(self) -> None:
        short, long = said("hello world " * 4000), said("hello world " * 400_000)
        assert 0.9 < long / (short * 100) < 1.1

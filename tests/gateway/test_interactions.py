"""Clients of Google's Interactions API over real sockets, with Google's SDK, and its upstreams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types
from msgspec.structs import replace

from dragoman.config import Account, Config, Secret, Upstream
from dragoman.server.testing import RunningGateway
from tests.gateway.conftest import PROTOCOLS, TIMEOUTS, Start, config_for
from tests.gateway.http import KEY, call
from tests.gateway.odd_upstream import answering

GOOGLE = "google_interactions"
GOLDEN = (Path(__file__).parent.parent / "golden" / "interactions.sse").read_bytes()
PATH = "/v1/interactions"
TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def ask(gateway: RunningGateway, **members: Any) -> Any:
    """What Google's SDK returns: an interaction, or the events of a stream."""
    options = types.HttpOptions(base_url=gateway.base_url, timeout=20_000)
    with genai.Client(api_key=KEY, http_options=options) as client:
        answer: Any = client.interactions.create(store=False, **members)
        return list(answer) if members.get("stream") else answer


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_the_sdk_reads_whole_answers(gateway: RunningGateway, upstream: str) -> None:
    answer = ask(gateway, model=f"{upstream}/sim-text?words=3", input="Hello")
    assert (answer.status, answer.object) == ("completed", "interaction")
    assert answer.output_text
    assert answer.usage.total_tokens == (
        answer.usage.total_input_tokens + answer.usage.total_output_tokens
    )


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_the_sdk_reads_streams(gateway: RunningGateway, upstream: str) -> None:
    events = ask(
        gateway,
        model=f"{upstream}/sim-text?words=3",
        input="Hello",
        stream=True,
        generation_config={"thinking_summaries": "auto"},
    )
    kinds = [event.event_type for event in events]
    assert kinds[:2] == ["interaction.created", "interaction.status_update"]
    assert kinds[-2:] == ["interaction.status_update", "interaction.completed"]
    assert events[-1].interaction.usage.total_tokens > 0
    started = [event.index for event in events if event.event_type == "step.start"]
    assert started == list(range(len(started)))


def test_the_sdk_reads_an_error(gateway: RunningGateway) -> None:
    with pytest.raises(Exception, match="model_not_found"):
        ask(gateway, model="nobody/knows-it", input="Hello")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PATH, 404),
        ("PUT", PATH, 405),
        ("GET", "/v1beta1/projects/p/locations/l/interactions", 404),
    ],
)
def test_other_methods(gateway: RunningGateway, method: str, path: str, status: int) -> None:
    answer = call(gateway.base_url, method, path, None)
    assert answer.status == status
    assert isinstance(json.loads(answer.body)["error"]["code"], str)


@pytest.mark.parametrize("path", [PATH, "/v1beta/interactions"])
def test_keys(gateway: RunningGateway, path: str) -> None:
    body = {"model": "chat/sim-text?words=1", "input": "Hello"}
    for headers, query in (
        ({"x-goog-api-key": KEY}, ""),
        ({"authorization": f"Bearer {KEY}"}, ""),
        ({}, f"?key={KEY}"),
    ):
        answer = call(gateway.base_url, "POST", path + query, body, headers, key=None)
        assert answer.status == 200, answer.body
    wrong = call(gateway.base_url, "POST", path, body, {"x-goog-api-key": "no"}, key=None)
    assert (wrong.status, json.loads(wrong.body)["error"]["code"]) == (401, "authentication")


def test_clients_of_an_older_schema(gateway: RunningGateway) -> None:
    body = {"model": "chat/sim-text?words=1", "input": "Hello"}
    answer = call(gateway.base_url, "POST", PATH, body, {"api-revision": "2025-12-01"})
    assert answer.status == 400
    assert b"steps" in answer.body


def over(url: str) -> Config:
    """One upstream of the protocol."""
    made = config_for(url)
    upstream = Upstream(name="google", protocol=GOOGLE, base_url=url, timeouts=TIMEOUTS)
    account = Account(name="google-0", upstream="google", key=Secret("sk-sim-google-0"))
    return replace(made, upstreams=(upstream,), accounts=(account,))


CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "stream_options": {"include_usage": True},
        },
    ),
    "anthropic_messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    ),
    "openai_responses": ("/v1/responses", {"input": "Hi"}),
    GOOGLE: (PATH, {"input": "Hi"}),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_an_upstream_streams_to_every_client(start: Start, client: str) -> None:
    path, body = CLIENTS[client]
    with answering(200, "text/event-stream", GOLDEN) as url:
        gateway = start(over(url))
        answer = call(gateway.base_url, "POST", path, {**body, "model": "google/g", "stream": True})
    assert answer.status == 200
    for piece in (b"Looking up ", b"Oslo", b"Turin", b"call_a", b"call_b"):
        assert piece in answer.body


def test_a_blocked_answer_is_not_tried_elsewhere(start: Start) -> None:
    error = b'{"error":{"code":"safety","message":"No."}}'
    with answering(400, "application/json", error) as url:
        gateway = start(over(url))
        answer = call(gateway.base_url, "POST", PATH, {"model": "google/g", "input": "Hi"})
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "safety")
        chat, body = CLIENTS["openai_chat"]
        answer = call(gateway.base_url, "POST", chat, {**body, "model": "google/g"})
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "content_filter")


def test_a_filtered_answer_is_an_http_error_before_output(start: Start) -> None:
    """5.2: a refusal before output is an HTTP error, whole and streamed, and no account's fault."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}}
    answer = {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{**choice, "finish_reason": "content_filter"}],
    }
    chunk = {**answer, "object": "chat.completion.chunk"}
    chunk["choices"] = [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]
    stream = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()
    bodies = (("application/json", json.dumps(answer).encode()), ("text/event-stream", stream))
    for media, body in bodies:
        with answering(200, media, body) as url:
            gateway = start(base_url=url)
            asked = {"model": "chat/m", "input": "Hi", "stream": media != "application/json"}
            got = call(gateway.base_url, "POST", PATH, asked)
            assert got.status == 400, got.body
            assert json.loads(got.body)["error"]["code"] == "content_blocked"

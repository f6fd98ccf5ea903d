"""Conversations that are too long, in the words of all servers, as each client is told of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.errors import FaultKind
from dragoman.config import Fallback, Route
from dragoman.protocols import CODECS
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, api_of, good
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.upstream.servers import Call

KEY = "key-of-a-server-with-a-window"

FULL = "This model's maximum context length is 4096 tokens. However, "
SERVERS: dict[str, tuple[int, Any]] = {
    "openai": (
        400,
        {"message": "Your input exceeds the context window.", "code": "x"},
    ),
    "openrouter": (
        400,
        {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": '{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'},
        },
    ),
    "llama.cpp": (
        400,
        {
            "message": "request (9100 tokens) exceeds the available context size (8192 tokens)",
            "type": "exceed_context_size_error",
        },
    ),
    "llama.cpp, as its own fault": (
        500,
        {"message": "too long", "type": "exceed_context_size_error", "code": 500},
    ),
    "vllm": (400, {"message": f"{FULL}your request has 5000 input tokens.", "code": 400}),
    "sglang": (
        400,
        {"message": "The input (50 tokens) is longer than the model's context length (9 tokens)."},
    ),
    "lmstudio": (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    "ollama": (400, {"message": "prompt too long; exceeded max context length by 512 tokens"}),
    "kimi": (
        400,
        {"message": "Your request exceeded model token limit: 262144 (requested: 270000)"},
    ),
    "minimax": (400, {"message": "invalid params, context window exceeds limit (2013)"}),
    "qwen": (
        400,
        {
            "message": "Range of input length should be [1, 98304]",
            "code": "invalid_parameter_error",
        },
    ),
    "xai": (
        400,
        "This model's maximum prompt length is 131072 but the request contains 135000 tokens.",
    ),
    "groq": (413, {"message": "Please reduce the length of the messages or completion."}),
    "bedrock": (400, "Input is too long for requested model."),
    "gemini": (
        400,
        {
            "message": "The input token count (1048600) exceeds the maximum number of tokens "
            "allowed (1048576).",
            "status": "INVALID_ARGUMENT",
        },
    ),
    "glm": (400, {"message": "Prompt exceeds max length", "code": "1261"}),
    "copilot": (
        400,
        {
            "message": "prompt token count of 130000 exceeds the limit of 128000",
            "code": "model_max_prompt_tokens_exceeded",
        },
    ),
}
SUMS = [
    f"{FULL}you requested 4100 tokens (3100 in the messages, 1000 in the completion).",
    f"{FULL}you requested 1000 output tokens and your prompt contains at least 3100 input tokens.",
    "input length and `max_tokens` exceed context limit: 3100 + 1000 > 4096",
]
AGENTS = re.compile(r"prompt is too long|(\d+) \+ (\d+) > (\d+)")
"""What Claude Code looks for."""


@pytest.mark.parametrize("target", APIS)
@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("server", SERVERS)
def test_each_client_is_told_in_words_it_knows(
    server: str, client: str, target: str, over: Over, upstream: Upstream
) -> None:
    status, error = SERVERS[server]

    async def refuse(call: Call) -> None:
        await call.send(answer(json.dumps({"error": error}).encode(), status))

    upstream.behaviours.update({KEY: refuse, f"{KEY}-2": refuse})
    gateway = over(KEY, f"{KEY}-2")
    told = call(gateway.base_url, "POST", PATHS[client], body(client, f"{target}/m"))
    assert told.status == 400
    shown = told.json["error"]
    words = error if isinstance(error, str) else error["message"]
    assert words in shown["message"]
    if client == "messages":
        assert shown["type"] == "invalid_request_error"
        assert AGENTS.search(shown["message"])
    else:
        assert shown["code"] == "context_length_exceeded"
    assert len(upstream.calls) == 1  # no other account is asked


async def refusing_chat(call: Call) -> None:
    if api_of(call) == "chat":
        error = {"message": "prompt is too long: 9000 tokens > 8192 maximum"}
        await call.send(answer(json.dumps({"error": error}).encode(), 400))
    else:
        await good(call)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", APIS)
def test_a_fallback_that_takes_more_is_asked(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    """Where that is set; else the client is told."""
    upstream.behaviours[KEY] = refusing_chat
    shorter, longer = (
        Fallback(upstream="messages", model=model, when_too_long=model == "long")
        for model in ("short", "long")
    )
    routes = (
        Route(match="m", upstream="chat", fallbacks=(shorter, longer)),
        Route(match="n", upstream="chat", fallbacks=(shorter,)),
        Route(match="o", upstream="chat", fallbacks=(replace(longer, upstream="chat"), longer)),
    )
    gateway = over(config=config_for(upstream.url, keys=(KEY,), routes=routes))
    for model, status, asked in (("m", 200, "m long"), ("n", 400, "n"), ("o", 200, "o long long")):
        upstream.calls.clear()
        told = call(gateway.base_url, "POST", PATHS[client], body(client, model, stream=stream))
        assert told.status == status, told.body
        assert told.headers.get("x-dragoman-upstream") == ("messages" if status == 200 else None)
        assert [json.loads(one.body)["model"] for one in upstream.calls] == asked.split()


@pytest.mark.parametrize("message", SUMS)
def test_a_messages_client_is_told_by_how_much_to_lower_its_output_limit(message: str) -> None:
    error = json.dumps({"error": {"message": message}}).encode()
    fault = CODECS["openai_chat"].translate.read_error(400, {}, error)
    shown = CODECS["anthropic_messages"].translate.write_error(fault, "req_1")
    assert fault.kind is FaultKind.CONTEXT_TOO_LONG
    assert "3100 + 1000 > 4096" in shown.body["error"]["message"]


def test_a_limit_of_tokens_a_minute_is_none_of_the_conversation() -> None:
    error = b'{"error": {"message": "Too many tokens, please wait before trying again."}}'
    fault = CODECS["openai_chat"].translate.read_error(429, {}, error)
    assert fault.kind is FaultKind.RATE_LIMITED


@pytest.mark.parametrize("target", APIS)
@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("status", [400, 500])
def test_a_refusal_of_a_chat_template_is_the_requests_fault(
    status: int, client: str, target: str, over: Over, upstream: Upstream
) -> None:
    error = {"error": {"message": "Unexpected reasoning effort: high.", "code": status}}

    async def refuse(call: Call) -> None:
        await call.send(answer(json.dumps(error).encode(), status))

    upstream.behaviours.update({KEY: refuse, f"{KEY}-2": refuse})
    gateway = over(KEY, f"{KEY}-2")
    told = call(gateway.base_url, "POST", PATHS[client], body(client, f"{target}/m"))
    assert told.status == 400
    assert "Unexpected reasoning effort" in told.json["error"]["message"]
    assert len(upstream.calls) == 1

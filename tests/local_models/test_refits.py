"""What a refusal says is used for one more request, and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, OwnPrice, Route, Secret
from dragoman.config import Upstream as Service
from dragoman.config.limits import Limit
from dragoman.protocols.refits import efforts_in, output_limit_in, refitted, wants_responses
from dragoman.protocols.settings import make_capabilities
from dragoman.serving.learnt import Learnt, key_of
from dragoman.serving.routing import Router
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, good
from tests.gateway.clients import APIS, PATHS, body, completed
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.upstream.servers import Call, Handler

SERVICE = Service(name="u", protocol="openai_chat", base_url="http://127.0.0.1/v1")
KEY = "key-of-a-particular-server"

EFFORTS: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "qwen": (
        "Unexpected reasoning effort: high. Supported types are low, medium, xhigh.",
        ("low", "medium", "xhigh"),
    ),
    "groq": ("`reasoning_effort` must be one of `none` or `default`", ("none",)),
    "kimi": (
        "Validation error for `reasoning_effort`: expected one of 'low' | 'medium' | 'high', "
        "received 'xhigh'",
        ("low", "medium", "high"),
    ),
    "sglang": (
        "1 validation error: {'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), "
        "'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'xhigh'}",
        ("low", "medium", "high"),
    ),
    "openai": (
        "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. "
        "Supported values are: 'low', 'medium', and 'high'.",
        ("low", "medium", "high"),
    ),
    "mistral": (
        "Invalid reasoning_effort. Supported values: ['low', 'high', 'max']",
        ("low", "high", "max"),
    ),
    "a router": (
        'level "max" not supported, valid levels: low, medium, high, xhigh',
        ("low", "medium", "high", "xhigh"),
    ),
    "xai": ("Model grok-4 does not support parameter reasoningEffort.", ()),
    "anthropic": ("This model does not support the effort parameter.", None),
    "something else": ("messages: at least one message is required", None),
    "no list": ("Unexpected reasoning effort: high.", None),
}


@pytest.mark.parametrize(("message", "efforts"), EFFORTS.values(), ids=EFFORTS)
def test_effort_words(message: str, efforts: tuple[str, ...] | None) -> None:
    assert efforts_in(message) == efforts


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "reasoning model": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        {"max_tokens_field": "max_completion_tokens"},
    ),
    "older server": (
        "Unrecognized request argument supplied: max_completion_tokens",
        {"max_tokens_field": "max_tokens"},
    ),
    "subscription": ("Unsupported parameter: max_output_tokens", {"output_limit": False}),
    "two limits": (
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        {},
    ),
    "a value": ("Unsupported value: max_tokens of 90000 is not supported, at most 8192.", {}),
    "no prefill": (
        "This model does not support assistant message prefill. The conversation must end with a "
        "user message.",
        {"final_assistant": False},
    ),
    "mistral": (
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
        "assistant",
        {"final_assistant": False},
    ),
    "forced tool": (
        "Thinking may not be enabled when tool_choice forces tool use.",
        {"thinks_unasked": True},
    ),
    "trigger": ("Invalid value: 'compaction_trigger'.", {"compaction": False}),
    "too much": (
        "This model's maximum context length is 8192 tokens. However, you requested 8000 output "
        "tokens and your prompt contains at least 3000 input tokens.",
        {"max_output_tokens": 8192 - 3000 - 256},
    ),
    "too long": (
        "This model's maximum context length is 8192 tokens. However, you requested 100 output "
        "tokens and your prompt contains at least 9000 input tokens.",
        {},
    ),
    "no room": ("input length and `max_tokens` exceed context limit: 8000 + 500 > 8192", {}),
    "an image": ("messages.1.content.0: image exceeds 5 MB maximum", {}),
}


@pytest.mark.parametrize(("message", "corrected"), OTHERS.values(), ids=OTHERS)
def test_other_corrections(message: str, corrected: dict[str, Any]) -> None:
    assert refitted(message, make_capabilities()) == corrected


def test_a_limit_is_not_raised() -> None:
    message = OTHERS["too much"][0]
    assert output_limit_in(message) == 4936
    assert refitted(message, make_capabilities(max_output_tokens=2000)) == {}


# --- over sockets -------------------------------------------------------------------------------

ASKING: dict[str, dict[str, Any]] = {
    "chat": {"reasoning_effort": "xhigh"},
    "messages": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
    "responses": {"reasoning": {"effort": "xhigh"}},
}


def effort_of(sent: dict[str, Any]) -> Any:
    asked = sent.get("output_config") or sent.get("reasoning") or {}
    return sent.get("reasoning_effort", asked.get("effort"))


def refusing(refuses: Callable[[dict[str, Any]], bool], message: str) -> Handler:
    async def handler(call: Call) -> None:
        if not refuses(json.loads(call.body)):
            await good(call)
        else:
            error = {"message": message, "type": "invalid_request_error"}
            told = {"type": "error", "error": error}
            await call.send(answer(json.dumps(told).encode(), 400))

    return handler


def ask(gateway: Any, client: str, target: str, **more: Any) -> Answer:
    asked = body(client, f"{target}/m", **more)
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert not more.get("stream") or completed(client, told.body)
    return told


PAIRS = [(client, target) for client in APIS for target in APIS]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "target"), PAIRS)
def test_the_accepted_effort_words_are_learnt_once(
    client: str, target: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    def refuses(sent: dict[str, Any]) -> bool:
        return effort_of(sent) not in ("low", "medium", "high", None)

    upstream.behaviours[KEY] = refusing(refuses, EFFORTS["openai"][0])
    gateway = over(KEY)
    told = ask(gateway, client, target, **ASKING[client], stream=stream)
    assert "converted" in told.headers["x-dragoman-losses"]
    assert [effort_of(json.loads(one.body)) for one in upstream.calls] == ["xhigh", "high"]
    ask(gateway, client, target, **ASKING[client], stream=stream)
    assert len(upstream.calls) == 3
    assert effort_of(json.loads(upstream.calls[-1].body)) == "high"


@pytest.mark.parametrize(("client", "target"), PAIRS)
def test_one_that_takes_no_effort_is_asked_without(
    client: str, target: str, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = refusing(lambda sent: effort_of(sent) is not None, EFFORTS["xai"][0])
    told = ask(over(KEY), client, target, **ASKING[client])
    assert "knob" in told.headers["x-dragoman-losses"]
    assert len(upstream.calls) == 2


LIMITS = {"chat": "max_completion_tokens", "messages": "max_tokens"}
GIVEN = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def limit_of(sent: dict[str, Any]) -> Any:
    return next((sent[name] for name in GIVEN if name in sent), None)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "target"), PAIRS)
def test_the_output_limit_is_lowered_once_to_what_is_left(
    client: str, target: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    message = "input length and `max_tokens` exceed context limit: 3000 + 8000 > 8192"
    upstream.behaviours[KEY] = refusing(lambda sent: limit_of(sent) > 5000, message)
    gateway = over(KEY)
    limit = {LIMITS.get(client, "max_output_tokens"): 8000}
    told = ask(gateway, client, target, **limit, stream=stream)
    assert "repaired" in told.headers["x-dragoman-losses"]
    assert [limit_of(json.loads(one.body)) for one in upstream.calls] == [8000, 4936]
    # It is of this conversation alone.
    ask(gateway, client, target, **dict.fromkeys(limit, 4950), stream=stream)
    assert limit_of(json.loads(upstream.calls[-1].body)) == 4950


@pytest.mark.parametrize("has_budget", [False, True])
def test_the_limit_of_a_key_is_never_left_out(
    has_budget: bool, over: Over, upstream: Upstream
) -> None:
    """Nor after others have shown that the upstream takes none."""
    upstream.behaviours[KEY] = refusing(
        lambda sent: bool(limit_of(sent)), "Unsupported parameter: max_tokens"
    )
    made = config_for(upstream.url, keys=(KEY,))
    free = made.clients[0]
    budget = Limit(kind="tokens", amount=10**6, window="day")
    held = replace(
        free,
        name="held",
        keys=(Secret("sk-held"),),
        limits=(budget,) if has_budget else (),
        max_output_tokens=None if has_budget else 200,
    )
    gateway = over(config=replace(made, clients=(free, held)))
    asked = body("chat", "chat/m", max_tokens=100)
    for _ in range(2):
        assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 200
        before = len(upstream.calls)
        told = call(gateway.base_url, "POST", PATHS["chat"], asked, key="sk-held")
        assert told.status == 400
        assert [limit_of(json.loads(one.body)) for one in upstream.calls[before:]] == [100]


def test_what_one_key_had_refused_changes_no_request_of_another(
    over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = refusing(
        lambda sent: (limit_of(sent) or 0) > 8192, "max_tokens of 90000 is unsupported."
    )
    made = config_for(upstream.url, keys=(KEY,))
    other = replace(made.clients[0], name="other", keys=(Secret("sk-other"),))
    gateway = over(config=replace(made, clients=(*made.clients, other)))
    asked = body("chat", "chat/m", max_tokens=90000)
    assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 200
    asked = body("chat", "chat/m", max_tokens=100)
    told = call(gateway.base_url, "POST", PATHS["chat"], asked, key="sk-other")
    assert told.status == 200
    assert limit_of(json.loads(upstream.calls[-1].body)) == 100


def test_a_strict_request_stays_as_it_is(over: Over, upstream: Upstream) -> None:
    """The refusal goes to its client: before anything was learnt the upstream's, then ours."""
    upstream.behaviours[KEY] = refusing(
        lambda sent: effort_of(sent) not in ("low", "medium", "high", None), EFFORTS["openai"][0]
    )
    gateway = over(KEY)
    asked = body("chat", "messages/m", **ASKING["chat"])
    strict = {"x-dragoman-policy": "strict"}
    for calls in (1, 3):
        told = call(gateway.base_url, "POST", PATHS["chat"], asked, strict)
        assert told.status == 400, told.body
        assert "effort" in told.json["error"]["message"]
        assert len(upstream.calls) == calls
        assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 200


def test_what_is_learnt_is_bounded_and_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dragoman.gateway")
    now = [0.0]
    learnt = Learnt(lambda: now[0])
    targets = [Router(Config(upstreams=(SERVICE,))).resolve(f"u/{n}") for n in range(1100)]
    for target in targets:
        learnt.learn("me", {key_of(target): {"output_limit": False, "max_output_tokens": 5}})
    assert [bool(learnt.of("me", one)) for one in targets] == [False] * 76 + [True] * 1024
    assert learnt.of("me", targets[-1]) == {"output_limit": False}
    assert "u takes of '1099', asked by me: {'output_limit': False}" in caplog.messages
    assert learnt.of("you", targets[-1]) == {}
    now[0] = 3600.0
    assert learnt.of("me", targets[-1]) == {}


@pytest.mark.parametrize("client", APIS)
def test_a_refusal_that_stays_goes_to_the_client(
    client: str, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = refusing(lambda sent: True, EFFORTS["openai"][0])
    asked = body(client, "chat/m", **ASKING[client])
    told = call(over(KEY).base_url, "POST", PATHS[client], asked)
    assert told.status == 400
    assert "Supported values" in told.json["error"]["message"]
    assert len(upstream.calls) == 2


@pytest.mark.parametrize("target", ["chat", "responses"])
@pytest.mark.parametrize("client", APIS)
def test_an_upstream_without_output_limits(
    client: str, target: str, over: Over, upstream: Upstream
) -> None:
    message = "Unsupported parameter: max_output_tokens"
    upstream.behaviours[KEY] = refusing(lambda sent: limit_of(sent) is not None, message)
    limit = {LIMITS.get(client, "max_output_tokens"): 100}
    told = ask(over(KEY), client, target, **limit)
    assert "knob" in told.headers["x-dragoman-losses"]


TOOLS: dict[str, dict[str, Any]] = {
    "chat": {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    },
    "messages": {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
    "responses": {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]},
}
ELSEWHERE = (
    "Function tools with reasoning_effort are not supported for gpt-x in /v1/chat/completions. "
    "Please use /v1/responses instead."
)


def detouring(upstream: Upstream) -> Config:
    """Models are asked for by the Chat protocol, and where it takes no tools by Responses."""
    made = config_for(upstream.url, keys=(KEY,), routes=(Route(match="*", upstream="chat"),))
    upstreams = tuple(
        replace(one, reasoning_with_tools_via="responses") if one.name == "chat" else one
        for one in made.upstreams
    )
    return replace(made, upstreams=upstreams)


def refuses_tools(sent: dict[str, Any]) -> bool:
    return "messages" in sent and "tools" in sent


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", APIS)
def test_the_words_of_a_refusal_lead_to_responses(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    assert wants_responses(ELSEWHERE)
    upstream.behaviours[KEY] = refusing(refuses_tools, ELSEWHERE)
    gateway = over(config=detouring(upstream))
    for expected in (["completions", "responses"], ["responses"]):
        upstream.calls.clear()
        asked = body(client, "m", **TOOLS[client], stream=stream)
        told = call(gateway.base_url, "POST", PATHS[client], asked)
        assert told.status == 200, told.body
        assert [one.target.rpartition("/")[2] for one in upstream.calls] == expected
    upstream.calls.clear()
    assert call(gateway.base_url, "POST", PATHS[client], body(client, "m")).status == 200
    assert upstream.calls[-1].target.endswith("completions")  # without tools


def test_a_detour_is_learnt_once_it_was_of_use(over: Over, upstream: Upstream) -> None:
    upstream.behaviours[KEY] = refusing(lambda sent: "tools" in sent, ELSEWHERE)
    gateway = over(config=detouring(upstream))
    asked = body("chat", "m", **TOOLS["chat"])
    for _ in range(2):
        upstream.calls.clear()
        assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 400
        told = [one.target.rpartition("/")[2] for one in upstream.calls]
        assert told == ["completions", "responses"]


def test_a_budget_is_held_to_on_the_detour(over: Over, upstream: Upstream) -> None:
    """What has no price is not asked for a key with a budget."""
    upstream.behaviours[KEY] = refusing(refuses_tools, ELSEWHERE)
    made = detouring(upstream)
    budget = Limit(kind="cost", amount="5", window="day")
    clients = (replace(made.clients[0], limits=(budget,)),)
    price = OwnPrice(model="m", upstream="chat", input="1", output="1")
    gateway = over(config=replace(made, clients=clients, prices=(price,)))
    asked = body("chat", "m", max_tokens=9, **TOOLS["chat"])
    assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 400
    assert [one.target.rpartition("/")[2] for one in upstream.calls] == ["completions"]

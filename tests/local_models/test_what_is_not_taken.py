"""What one upstream takes and another refuses, by capability: both ways, within a protocol, too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Route
from dragoman.protocols.presets import completed as known_of
from dragoman.protocols.settings import make_capabilities
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, event, good, is_streamed, streamed
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import call, events
from tests.library import translate_request
from tests.local_models.gateways import limited
from tests.tables.cells import chat_answer, chat_chunk
from tests.upstream.servers import Call

KEY = "key-of-a-server-that-takes-less"
PAIRS = [(client, target) for client in APIS for target in APIS]
GIVEN = ("max_completion_tokens", "max_tokens", "max_output_tokens")

# --- a final assistant message ------------------------------------------------------------------

SAID = [{"role": "user", "content": "U"}, {"role": "assistant", "content": "The answer is"}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "target"), PAIRS)
def test_after_a_final_assistant_message_the_user_asks_to_go_on(
    client: str, target: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    gateway = over(config=limited(upstream.url, KEY, final_assistant=False))
    asked = body(client, f"{target}/m", stream=stream)
    asked["input" if client == "responses" else "messages"] = SAID
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert "repaired" in told.headers["x-dragoman-losses"]
    sent = json.loads(upstream.calls[-1].body)
    *_, before, last = sent.get("input") or sent["messages"]
    assert (before["role"], last["role"]) == ("assistant", "user")
    assert "goes on" in json.dumps(last)


# --- output limits ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["chat", "responses"])
@pytest.mark.parametrize("client", APIS)
def test_no_output_limit(client: str, target: str, over: Over, upstream: Upstream) -> None:
    gateway = over(config=limited(upstream.url, KEY, output_limit=False))
    names = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}
    asked = {**body(client, f"{target}/m"), names[client]: 100}
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert "knob" in told.headers["x-dragoman-losses"]
    assert json.loads(upstream.calls[-1].body).keys().isdisjoint(GIVEN)


# --- a forced tool where the model thinks unasked -----------------------------------------------

SCHEMA = {"type": "object", "properties": {}}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "tool_choice": "required",
    },
    "messages": {
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
    },
    "responses": {
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
        "tool_choice": "required",
    },
}


@pytest.mark.parametrize("client", APIS)
def test_a_model_that_thinks_unasked_is_told_not_to(
    client: str, over: Over, upstream: Upstream
) -> None:
    gateway = over(config=limited(upstream.url, KEY, thinks_unasked=True))
    asked = body(client, "messages/m", **TOOLS[client])
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert json.loads(upstream.calls[-1].body)["thinking"] == {"type": "disabled"}
    free = {**asked, "tool_choice": {"type": "auto"} if client == "messages" else "auto"}
    assert call(gateway.base_url, "POST", PATHS[client], free).status == 200
    assert "thinking" not in json.loads(upstream.calls[-1].body)


# --- flat tools ---------------------------------------------------------------------------------

GRAMMAR = {"syntax": "lark", "definition": "start: /.+/"}
FLAT = [
    {
        "type": "custom",
        "name": "ApplyPatch",
        "description": "D",
        "format": {"type": "grammar", **GRAMMAR},
    },
    {"type": "function", "name": "f", "description": "F", "parameters": SCHEMA},
]


def tools_of(target: str, sent: dict[str, Any]) -> list[str]:
    if target == "chat":
        return [tool[tool["type"]]["name"] for tool in sent["tools"]]
    return [tool["name"] for tool in sent["tools"]]


@pytest.mark.parametrize("native", [False, True], ids=["functions", "natively"])
@pytest.mark.parametrize("target", APIS)
def test_flat_tools_of_a_chat_client(
    target: str, native: bool, over: Over, upstream: Upstream
) -> None:
    async def calling(call: Call) -> None:
        if target != "chat":
            await good(call)
            return
        sent = json.loads(call.body)["tools"][0]
        kind = sent["type"]
        text = "*** Begin Patch" if kind == "custom" else '{"input":"*** Begin Patch"}'
        inner = {"name": "ApplyPatch", "input" if kind == "custom" else "arguments": text}
        made = {"id": "c1", "type": kind, kind: inner}
        if is_streamed(call):
            chunks = [
                chat_chunk({"role": "assistant", "tool_calls": [{"index": 0, **made}]}),
                chat_chunk({}, "tool_calls"),
            ]
            await call.send(streamed([*map(event, chunks), b"data: [DONE]\n\n"]))
        else:
            message = {"role": "assistant", "content": None, "tool_calls": [made]}
            await call.send(answer(json.dumps(chat_answer(message, "tool_calls")).encode()))

    upstream.behaviours[KEY] = calling
    gateway = over(config=limited(upstream.url, KEY, custom_tools_native=native))
    for stream in (False, True):
        asked = body("chat", f"{target}/m", tools=FLAT, stream=stream)
        told = call(gateway.base_url, "POST", PATHS["chat"], asked)
        assert told.status == 200, told.body
        sent = json.loads(upstream.calls[-1].body)
        assert tools_of(target, sent) == ["ApplyPatch", "f"]
        if target == "chat":
            assert ("custom" in sent["tools"][0]) == native
            if native:
                assert sent["tools"][0]["custom"]["format"]["grammar"] == GRAMMAR
            calls = _calls(told, stream)
            assert calls == [{"name": "ApplyPatch", "input": "*** Begin Patch"}]


def _calls(told: Any, stream: bool) -> list[dict[str, str]]:
    if not stream:
        return [one["custom"] for one in told.json["choices"][0]["message"]["tool_calls"]]
    made: dict[str, str] = {"name": "", "input": ""}
    for _, data in events(told.body):
        for choice in data["choices"] if data != "[DONE]" else ():
            for piece in choice["delta"].get("tool_calls") or ():
                for name in made:
                    made[name] += piece["custom"].get(name) or ""
    return [made]


# --- hints --------------------------------------------------------------------------------------

ADVISED = [
    {"role": "user", "content": "U"},
    {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
            {
                "type": "advisor_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {"type": "advisor_result", "text": "Be brief."},
            },
            {"type": "text", "text": "A"},
        ],
    },
    {"role": "user", "content": "V"},
]


@pytest.mark.parametrize("target", ["chat", "responses"])
def test_hints_of_the_vendors_own_are_no_content(
    target: str, over: Over, upstream: Upstream
) -> None:
    asked = {**body("messages", f"{target}/m"), "messages": ADVISED, "fallbacks": "default"}
    told = call(over(KEY).base_url, "POST", PATHS["messages"], asked)
    assert told.status == 200, told.body
    assert "fallbacks:knob" in told.headers["x-dragoman-losses"]
    named = {**asked, "fallbacks": [{"model": "x"}]}
    assert call(over(KEY).base_url, "POST", PATHS["messages"], named).status == 400


# --- caching ------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", APIS)
def test_anthropic_is_asked_to_cache_for_clients_whose_services_do(client: str) -> None:
    protocols = {
        "chat": "openai_chat",
        "messages": "anthropic_messages",
        "responses": "openai_responses",
    }
    asked = json.dumps(body(client, "m")).encode()
    for url, cached in (("https://api.anthropic.com", True), ("https://api.z.ai/anthropic", False)):
        made = translate_request(protocols[client], "anthropic_messages", asked, base_url=url)
        sent = json.loads(made.body)
        assert ("cache_control" in sent) == (cached and client != "messages")


def test_what_is_set_takes_precedence() -> None:
    chosen = make_capabilities(auto_cache=False)
    found = known_of(chosen, "anthropic_messages", "https://api.anthropic.com")
    assert found is chosen or "auto_cache" in found.given


# --- members of the body ------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "target"), PAIRS)
def test_members_for_an_upstream_alone(
    client: str, target: str, over: Over, upstream: Upstream
) -> None:
    """Tables are merged; a client's value that is replaced is reported."""
    more = {"reasoning_split": True, "metadata": {"house": "x"}}
    gateway = over(config=limited(upstream.url, KEY, body=more))
    asked = body(client, f"{target}/m", metadata={"house": "y", "user_id": "z"})
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    sent = json.loads(upstream.calls[-1].body)
    assert sent["reasoning_split"] is True
    assert sent["metadata"]["house"] == "x"
    if client == target:
        assert sent["metadata"]["user_id"] == "z"
        assert "metadata.house:knob" in told.headers["x-dragoman-losses"]


def test_those_of_a_route_hold_for_it_alone(over: Over, upstream: Upstream) -> None:
    own = Route(match="m", upstream="chat", capabilities=make_capabilities(body={"x": 1}))
    gateway = over(config=replace(config_for(upstream.url, keys=(KEY,)), routes=(own,)))
    for model, there in (("m", True), ("chat/m", False)):
        assert call(gateway.base_url, "POST", PATHS["chat"], body("chat", model)).status == 200
        assert ("x" in json.loads(upstream.calls[-1].body)) == there

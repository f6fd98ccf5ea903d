"""What each policy does with each kind of loss: the claims of docs/translation.md, run."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import Policy
from dragoman.config import Client, Route, Secret
from dragoman.gateway.testing import RunningGateway
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import body
from tests.gateway.conftest import Start
from tests.gateway.http import KEY, call
from tests.requirements.cells import (
    CHAT,
    MESSAGES,
    RESPONSES,
    WEATHER,
    Json,
    asking,
    calling,
    function_call,
    lost,
)

KNOB, CONVERTED, REPAIRED, CONTENT = "knob", "converted", "repaired", "content"
PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"


class Row(NamedTuple):
    """A request of one client, the upstreams for which something of it is lost, and what."""

    client: str
    upstreams: tuple[str, ...]
    request: Json
    path: str
    kind: str
    options: Json = {}  # noqa: RUF012  # never changed
    capabilities: Json = {}  # noqa: RUF012  # never changed


def chat(*turns: Json, **more: Any) -> Json:
    return asking(CHAT, messages=list(turns) or [user("Hi")], **more)


def messages(*turns: Json, **more: Any) -> Json:
    return asking(MESSAGES, messages=list(turns) or [user("Hi")], **more)


def responses(*items: Json, **more: Any) -> Json:
    return asking(RESPONSES, input=list(items) or [user("Hi")], **more)


def user(content: Any, **more: Any) -> Json:
    return {"role": "user", "content": content, **more}


def assistant(content: Any) -> Json:
    return {"role": "assistant", "content": content}


def document(source: Json, **more: Any) -> Json:
    return {"type": "document", "source": source, **more}


TEXT = {"type": "text", "text": "Hi"}
MARK = {"cache_control": {"type": "ephemeral"}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": WEATHER}}
PATCH = {"type": "custom", "name": "patch"}
CALL = {"role": "assistant", "content": None, "tool_calls": [function_call()]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "seen"}
USED = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
FOUND = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}
PARTS = "messages[0].content[0]"
NOT_CHAT, NOT_MESSAGES, NOT_RESPONSES = (MESSAGES, RESPONSES), (CHAT, RESPONSES), (CHAT, MESSAGES)

ROWS = [
    # system text and roles
    Row(
        CHAT,
        (MESSAGES,),
        chat(user("a"), assistant("b"), {"role": "system", "content": "c"}, user("d")),
        "messages[2]",
        CONVERTED,
    ),
    Row(CHAT, (MESSAGES,), chat(user("a"), assistant("b")), "messages[1]", CONVERTED),
    Row(CHAT, (MESSAGES,), chat(assistant("a"), user("b")), "messages[0]", REPAIRED),
    Row(CHAT, NOT_CHAT, chat(user("a", name="me")), "messages[0].name", KNOB),
    Row(
        CHAT,
        NOT_CHAT,
        chat(user("a"), {"role": "function", "name": "f", "content": "b"}),
        "messages[1]",
        CONTENT,
    ),
    # images, documents, sound
    Row(
        CHAT,
        (MESSAGES,),
        chat(
            user([{"type": "image_url", "image_url": {"url": "https://a.test", "detail": "low"}}])
        ),
        PARTS,
        KNOB,
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(user([{"type": "image", "source": {"type": "file", "file_id": "file_1"}}])),
        PARTS,
        CONTENT,
    ),
    Row(MESSAGES, NOT_MESSAGES, messages(user([IMAGE])), PARTS, CONTENT, {}, {"images": False}),
    Row(CHAT, NOT_CHAT, chat(user([AUDIO])), PARTS, CONTENT),
    Row(
        CHAT,
        (MESSAGES,),
        chat(user([{"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA"}}])),
        PARTS,
        CONTENT,
    ),
    Row(
        MESSAGES,
        (CHAT,),
        messages(user([document({"type": "url", "url": "https://a.test/a.pdf"})])),
        PARTS,
        CONTENT,
    ),
    Row(
        RESPONSES,
        (CHAT,),
        responses(user([{"type": "input_file", "file_url": "https://a.test/a.pdf"}])),
        "input[0].content[0]",
        CONTENT,
    ),
    Row(
        MESSAGES,
        (CHAT,),
        messages(
            user([document({"type": "base64", "media_type": "application/pdf", "data": PDF})])
        ),
        PARTS,
        CONTENT,
        {},
        {"chat_files": False},
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(user([document({"type": "text", "media_type": "text/plain", "data": "a"})])),
        PARTS,
        CONVERTED,
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(user([{"type": "search_result", "source": "a", "title": "b", "content": [TEXT]}])),
        PARTS,
        CONVERTED,
    ),
    # tools
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(tools=[{"type": "bash_20250124", "name": "bash"}]),
        "tools[0]",
        KNOB,
    ),
    Row(RESPONSES, NOT_RESPONSES, responses(tools=[{"type": "web_search"}]), "tools[0]", KNOB),
    Row(CHAT, NOT_CHAT, chat(web_search_options={}), "web_search_options", KNOB),
    Row(
        RESPONSES,
        NOT_RESPONSES,
        responses(tools=[{"type": "web_search"}]),
        "tools[0]",
        CONTENT,
        {"hosted_tools": "reject"},
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(mcp_servers=[{"type": "url", "url": "https://a.test", "name": "a"}]),
        "mcp_servers",
        CONTENT,
    ),
    Row(RESPONSES, NOT_RESPONSES, responses(tools=[PATCH]), "tools[0]", CONVERTED),
    Row(
        RESPONSES,
        NOT_RESPONSES,
        responses(tools=[PATCH]),
        "tools[0]",
        CONTENT,
        {"custom_tools": "reject"},
    ),
    Row(
        CHAT,
        NOT_CHAT,
        chat(tools=[LOOK], tool_choice={"type": "function", "function": {"name": "other"}}),
        "tool_choice",
        CONTENT,
    ),
    Row(
        RESPONSES,
        NOT_RESPONSES,
        responses(
            tools=[
                {
                    "type": "namespace",
                    "name": "crm",
                    "description": "The customers.",
                    "tools": [{"type": "function", "name": "f", "parameters": WEATHER}],
                }
            ]
        ),
        "tools[0].description",
        CONVERTED,
    ),
    # calls and results
    Row(CHAT, NOT_CHAT, chat(user("a"), CALL, user("b")), "messages[1].tool_calls[0]", REPAIRED),
    Row(
        CHAT,
        NOT_CHAT,
        chat(user("a"), CALL, user("b")),
        "messages[1].tool_calls[0]",
        CONTENT,
        {"orphan_calls": "reject"},
    ),
    Row(CHAT, NOT_CHAT, chat(user("a"), RESULT), "messages[1]", CONTENT),
    Row(
        CHAT,
        NOT_CHAT,
        chat(user("a"), RESULT),
        "messages[1]",
        CONVERTED,
        {"orphan_results": "drop"},
    ),
    Row(
        MESSAGES,
        (CHAT,),
        messages(user("a"), assistant([USED, TEXT]), user([FOUND])),
        "messages[1]",
        CONVERTED,
    ),
    Row(
        MESSAGES,
        (CHAT,),
        messages(user("a"), assistant([USED]), user([{**FOUND, "content": [TEXT, IMAGE]}])),
        "messages[2].content[0].content[1]",
        CONVERTED,
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(
            user("a"),
            assistant([{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}]),
            user("b"),
        ),
        "messages[1].content[0]",
        CONTENT,
    ),
    Row(
        RESPONSES,
        NOT_RESPONSES,
        responses(user("a"), {"type": "compaction", "encrypted_content": "a"}),
        "input[1]",
        CONTENT,
    ),
    # reasoning
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(user("a"), assistant([THOUGHT, TEXT]), user("b")),
        "messages[1].content[0]",
        KNOB,
    ),
    Row(CHAT, (MESSAGES,), chat(reasoning_effort="minimal"), "reasoning_effort", CONVERTED),
    Row(
        CHAT,
        (MESSAGES,),
        chat(reasoning_effort="high", tools=[LOOK], tool_choice="required"),
        "reasoning_effort",
        KNOB,
    ),
    # the shape of the answer
    Row(CHAT, (MESSAGES,), chat(response_format={"type": "json_object"}), "response_format", KNOB),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(output_config={"format": {"type": "json_schema", "schema": WEATHER}}),
        "output_config.format",
        CONVERTED,
    ),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(output_config={"format": {"type": "json_schema", "schema": WEATHER}}),
        "output_config.format",
        CONTENT,
        {},
        {"structured_output": False},
    ),
    Row(CHAT, (MESSAGES,), chat(verbosity="low"), "verbosity", KNOB),
    Row(CHAT, NOT_CHAT, chat(n=2), "n", CONTENT),
    Row(CHAT, NOT_CHAT, chat(modalities=["text", "audio"]), "modalities", CONTENT),
    Row(CHAT, (MESSAGES,), chat(logprobs=True), "logprobs", CONTENT),
    # limits and sampling
    Row(CHAT, (RESPONSES,), chat(max_tokens=5), "max_tokens", REPAIRED),
    Row(CHAT, NOT_CHAT, chat(max_tokens=50), "max_tokens", REPAIRED, {}, {"max_output_tokens": 40}),
    Row(MESSAGES, (CHAT,), messages(max_tokens=0), "max_tokens", CONTENT),
    Row(MESSAGES, (CHAT,), messages(stop_sequences=list("abcde")), "stop_sequences", CONTENT),
    Row(MESSAGES, (RESPONSES,), messages(stop_sequences=["a"]), "stop_sequences", CONTENT),
    Row(
        MESSAGES,
        (RESPONSES,),
        messages(stop_sequences=["a"]),
        "stop_sequences",
        KNOB,
        {"stop_on_responses": "drop"},
    ),
    Row(
        MESSAGES,
        (RESPONSES,),
        messages(stop_sequences=["a"]),
        "stop_sequences",
        CONVERTED,
        {"stop_on_responses": "emulate"},
    ),
    Row(
        MESSAGES,
        (CHAT,),
        messages(stop_sequences=list("abcde")),
        "stop_sequences",
        CONVERTED,
        {"stop_on_responses": "emulate"},
    ),
    Row(
        CHAT,
        (MESSAGES,),
        chat(stop=["\n"]),
        "stop",
        CONVERTED,
        {"stop_on_responses": "emulate"},
    ),
    Row(CHAT, (MESSAGES,), chat(temperature=0.2), "temperature", KNOB),
    Row(
        MESSAGES,
        NOT_MESSAGES,
        messages(temperature=0.2),
        "temperature",
        KNOB,
        {},
        {"sampling": False},
    ),
    Row(MESSAGES, NOT_MESSAGES, messages(top_k=4), "top_k", KNOB),
    Row(CHAT, NOT_CHAT, chat(seed=1), "seed", KNOB),
    # caching, state, and what belongs to one service
    Row(MESSAGES, NOT_MESSAGES, messages(user([{**TEXT, **MARK}])), PARTS, KNOB),
    Row(CHAT, (MESSAGES,), chat(prompt_cache_key="a"), "prompt_cache_key", KNOB),
    Row(
        RESPONSES,
        NOT_RESPONSES,
        responses(previous_response_id="resp_1"),
        "previous_response_id",
        CONTENT,
    ),
    Row(RESPONSES, NOT_RESPONSES, responses(conversation="conv_1"), "conversation", CONTENT),
    Row(RESPONSES, NOT_RESPONSES, responses(background=True), "background", CONTENT),
    Row(RESPONSES, NOT_RESPONSES, responses(truncation="auto"), "truncation", KNOB),
    Row(RESPONSES, NOT_RESPONSES, responses(store=True), "store", KNOB),
    Row(CHAT, (MESSAGES,), chat(service_tier="flex"), "service_tier", KNOB),
    Row(MESSAGES, NOT_MESSAGES, messages(speed="fast"), "speed", KNOB),
    Row(MESSAGES, NOT_MESSAGES, messages(container="c"), "container", CONTENT),
    Row(CHAT, NOT_CHAT, chat(unheard_of=1), "unheard_of", KNOB),
]

CASES = [pytest.param(row, up, id=f"{row.path} {up}") for row in ROWS for up in row.upstreams]


def made(row: Row, upstream: str, policy: Policy) -> Any:
    return calling(
        row.client,
        upstream,
        row.request,
        options=make_options(policy=policy, **row.options),
        capabilities=make_capabilities(**row.capabilities),
    )


@pytest.mark.parametrize(("row", "upstream"), CASES)
def test_what_is_refused_and_what_is_reported(row: Row, upstream: str) -> None:
    """Strict refuses every loss, balanced lost content, lenient none; what is not refused is
    reported under the same path."""
    refusing = [Policy.STRICT, Policy.BALANCED] if row.kind == CONTENT else [Policy.STRICT]
    for policy in Policy:
        if policy in refusing:
            with pytest.raises(Refused) as caught:
                made(row, upstream, policy)
            assert row.path in caught.value.paths
        else:
            assert lost(made(row, upstream, policy))[row.path] == row.kind


PLAIN = [
    chat(user("Hi"), CALL, RESULT, tools=[LOOK], temperature=1, parallel_tool_calls=True),
    messages(
        user("Hi"),
        assistant([TEXT, USED]),
        user([FOUND]),
        tools=[{"name": "look", "input_schema": WEATHER}],
    ),
    responses(user("Hi"), tools=[{"type": "function", "name": "look", "parameters": WEATHER}]),
]


@pytest.mark.parametrize("request_body", PLAIN)
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
def test_an_ordinary_request_loses_nothing(request_body: Json, upstream: str) -> None:
    """Strict is no policy that refuses everything."""
    client = RESPONSES if "input" in request_body else MESSAGES
    client = CHAT if request_body is PLAIN[0] else client
    assert calling(client, upstream, request_body, policy="strict").losses == ()


# --- which policy holds, and how a loss is told ---------------------------------------------------


def test_the_header_that_names_losses(gateway: RunningGateway) -> None:
    """Path and kind of each, and how many there are; nothing where nothing was lost."""
    asked = body("messages", "chat/sim-text", top_k=4, cache_control={"type": "ephemeral"})
    answer = call(gateway.base_url, "POST", "/v1/messages", asked)
    told, total = answer.headers["x-dragoman-losses"].split("; ")
    assert {"top_k:knob", "cache_control:knob"} <= set(told.split(", "))
    assert total == f"total={len(told.split(', '))}"
    streamed = call(gateway.base_url, "POST", "/v1/messages", {**asked, "stream": True})
    assert "top_k:knob" in streamed.headers["x-dragoman-losses"]
    plain = call(gateway.base_url, "POST", "/v1/messages", body("messages", "messages/sim-text"))
    assert "x-dragoman-losses" not in plain.headers


@pytest.mark.parametrize(
    ("route", "client", "header", "status"),
    [
        ("balanced", None, None, 200),
        ("strict", None, None, 400),
        ("strict", "lenient", None, 200),
        ("lenient", "strict", None, 400),
        ("lenient", "strict", "balanced", 200),
        ("lenient", "lenient", "strict", 400),
        ("balanced", None, "loud", 400),
    ],
)
def test_whose_policy_holds(
    start: Start,
    simulator: RunningSimulator,
    route: str,
    client: str | None,
    header: str | None,
    status: int,
) -> None:
    """The request's own goes over the client's, and that over the route's. A refusal names the
    field, and nothing is sent upstream."""
    gateway = start(
        routes=(Route(match="sim-*", upstream="chat", policy=Policy(route)),),
        clients=(Client(name="a", key=Secret(KEY), policy=Policy(client) if client else None),),
    )
    asked = body("messages", "sim-text", top_k=4)
    headers = {"x-dragoman-policy": header} if header else {}
    answer = call(gateway.base_url, "POST", "/v1/messages", asked, headers)
    assert answer.status == status
    if status == 400:
        assert simulator.requests == []
        assert ("x-dragoman-policy" if header == "loud" else "top_k") in json.dumps(answer.json)

"""Fields that say nothing, and fields that nobody knows: no loss without need, none in silence.

Whatever the upstream speaks; what it does with fields that it could carry is in its tables.
"""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.options import Options
from dragoman.translation import Call
from tests.library import translate_request
from tests.tables.requests import LEAST, PNG_URL, WEB, A, C, JsonObject, R

HI = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "r"}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def call(client: str, fields: JsonObject) -> Call:
    body = json.dumps({**LEAST[client], **fields}).encode()
    upstream = C if client == A else A
    return translate_request(client, upstream, body, options=Options(), model="theirs")


NOTHING: dict[str, list[JsonObject]] = {
    C: [
        {"n": 1},
        {"modalities": ["text"]},
        {"modalities": []},
        {"logit_bias": {}},
        {"frequency_penalty": 0, "presence_penalty": 0.0},
        {"frequency_penalty": 0.0, "presence_penalty": 0},
        {"min_p": 0, "repetition_penalty": 1, "extra_body": {}, "reasoning": {}},
        {"include_reasoning": True, "chat_template_kwargs": {}},
        {"stream_options": {"include_obfuscation": False}},
        {"tools": [], "functions": None, "stop": None, "tool_choice": None, "seed": None},
        {"messages": [{**HI, "name": None, "surprise": None}]},
    ],
    A: [
        {"stream": False, "speed": "standard", "tools": [], "mcp_servers": []},
        {"context_management": {"edits": []}},
        dict.fromkeys(
            ("system", "stop_sequences", "temperature", "tools", "tool_choice", "thinking")
        ),
        dict.fromkeys(("metadata", "service_tier", "container", "output_config", "top_k")),
    ],
    R: [
        {"tools": [], "include": [], "background": False, "truncation": "disabled"},
        {"context_management": [], "top_logprobs": 0, "metadata": {}, "client_metadata": {}},
        {"prompt_cache_options": {}, "text": {}, "image": {"context_compression": "auto"}},
        {"reasoning": {"context": "auto", "mode": "standard"}},
        {"stream_options": {"include_obfuscation": False}},
        {"presence_penalty": 0, "frequency_penalty": 0.0},
        {"presence_penalty": 0.0, "frequency_penalty": 0},
        # llama-index sends every option as null.
        dict.fromkeys(
            (
                *("instructions", "max_output_tokens", "temperature", "top_p", "tools"),
                *("tool_choice", "parallel_tool_calls", "store", "metadata", "user", "reasoning"),
                *("text", "include", "previous_response_id", "conversation", "prompt"),
                *("background", "truncation", "max_tool_calls", "top_logprobs", "stream"),
                *("stream_options", "service_tier", "prompt_cache_key", "prompt_cache_options"),
                *("safety_identifier", "context_management"),
            )
        ),
        {"input": [{**HI, "surprise": None}]},
        {"input": [{**HI, "content": [{"type": "input_text", "text": "hi"}]}]},
    ],
}


@pytest.mark.parametrize(
    ("client", "fields"), [(client, fields) for client in NOTHING for fields in NOTHING[client]]
)
def test_what_asks_for_nothing_is_no_loss(client: str, fields: JsonObject) -> None:
    made = call(client, fields)
    assert made.losses == ()
    assert made.body == call(client, {}).body


IN_ITEMS = [
    HI,
    {**CALL, "caller": {"type": "direct"}, "async": False, "id": "fc_1", "status": "completed"},
    {**OUTPUT, "caller": {"type": "direct"}, "status": "completed"},
]
"""A loop whose items say what goes without saying."""


def test_items_that_say_what_goes_without_saying() -> None:
    made = call(R, {"input": IN_ITEMS})
    assert made.losses == ()
    assert made.body == call(R, {"input": [HI, CALL, OUTPUT]}).body


KNOB, CONTENT, CONVERTED = "knob", "content", "converted"
LOST: list[tuple[str, JsonObject, dict[str, str]]] = [
    (
        C,
        {
            "messages": [
                {
                    **HI,
                    "content": [
                        {"type": "image_url", "image_url": {"url": PNG_URL, "x": 1}, "y": 2}
                    ],
                    "z": 3,
                },
                {"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}]},
                HI,
            ],
            "tools": [{"type": "function", "function": {"name": "f", "x": 1}, "y": 2}],
            "stream_options": {"include_obfuscation": True},
            "something_new": 1,
        },
        {
            "messages[0].content[0].image_url.x": KNOB,
            "messages[0].content[0].y": KNOB,
            "messages[0].z": KNOB,
            "messages[1].annotations": KNOB,
            "tools[0].function.x": KNOB,
            "tools[0].y": KNOB,
            "stream_options.include_obfuscation": KNOB,
            "something_new": KNOB,
        },
    ),
    (
        A,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "url", "url": WEB, "x": 1}, "y": 2}
                    ],
                    "z": 3,
                }
            ],
            "tools": [{"name": "f", "input_schema": {"type": "object"}, "x": 1}],
            "tool_choice": {"type": "auto", "y": 2},
            "thinking": {"type": "adaptive", "x": 1},
            "output_config": {"task_budget": {"type": "tokens", "total": 5}},
            "metadata": {"team": "x"},
            "something_new": 1,
        },
        {
            "messages[0].content[0].source.x": KNOB,
            "messages[0].content[0].y": KNOB,
            "messages[0].z": KNOB,
            "tools[0].x": KNOB,
            "tool_choice.y": KNOB,
            "thinking.x": KNOB,
            "output_config.task_budget": KNOB,
            "metadata.team": KNOB,
            "something_new": KNOB,
        },
    ),
    (
        R,
        {
            "input": [
                {**HI, "surprise": 1, "phase": "x"},
                {
                    **CALL,
                    "caller": {"type": "program"},
                    "async": True,
                    "status": "incomplete",
                    "x": 1,
                },
                {**OUTPUT, "name": "f", "namespace": "n", "max_output_length": 5},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_file",
                            "file_url": "https://a.example/x.pdf",
                            "detail": "low",
                        }
                    ],
                },
            ],
            "tools": [{**TOOL, "output_schema": {}, "allowed_callers": ["x"], "y": 1}],
            "reasoning": {"context": "all_turns", "mode": "pro"},
            "include": ["web_search_call.results"],
            "something_new": 1,
        },
        {
            "input[0].surprise": KNOB,
            "input[0].phase": KNOB,
            "input[1].caller": KNOB,
            "input[1].async": KNOB,
            "input[1].status": KNOB,
            "input[1].x": KNOB,
            "input[2].name": KNOB,
            "input[2].namespace": KNOB,
            "input[2].max_output_length": KNOB,
            "input[3].content[0].detail": KNOB,
            "tools[0].output_schema": KNOB,
            "tools[0].allowed_callers": KNOB,
            "tools[0].y": KNOB,
            "reasoning.context": KNOB,
            "reasoning.mode": KNOB,
            "include[0]": KNOB,
            "something_new": KNOB,
        },
    ),
    (
        R,
        {"tools": [{**TOOL, "allowed_callers": ["direct"], "async": False}]},
        {},
    ),
]


@pytest.mark.parametrize(("client", "fields", "lost"), LOST)
def test_what_nobody_knows_is_told(client: str, fields: JsonObject, lost: dict[str, str]) -> None:
    """At its path, however deep it stands."""
    assert {loss.path: loss.kind.value for loss in call(client, fields).losses} == lost


CLIENT_TOOL = {"name": "f", "input_schema": {"type": "object"}}
DEFAULTS: list[tuple[str, JsonObject, JsonObject]] = [
    # A summary under its older name.
    (
        R,
        {"reasoning": {"generate_summary": "auto"}},
        {"reasoning": {"summary": "auto"}},
    ),
    (
        A,
        {"tools": [{**CLIENT_TOOL, "eager_input_streaming": False}]},
        {"tools": [CLIENT_TOOL]},
    ),
    (A, {"messages": [{**HI, "content": [{"type": "text", "text": "hi", "citations": []}]}]}, {}),
    (
        A,
        {"system": {"type": "text", "text": "s"}},
        {"system": "s"},
    ),
    (
        A,
        {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "hi"}},
            ]
        },
        {},
    ),
]


@pytest.mark.parametrize(("client", "fields", "same"), DEFAULTS)
def test_other_forms_of_the_same(client: str, fields: JsonObject, same: JsonObject) -> None:
    made, plain = call(client, fields), call(client, same)
    assert made.body == plain.body
    assert made.losses == plain.losses


@pytest.mark.parametrize("client", [C, A, R])
@pytest.mark.parametrize("upstream", [C, A, R])
def test_half_a_character_of_the_client_is_repaired_and_told(client: str, upstream: str) -> None:
    body = json.dumps(LEAST[client]).replace(': "hi"', ': "\\ud83d"').encode()
    assert b"ud83d" in body
    made = translate_request(client, upstream, body)
    assert "\ufffd" in made.body.decode()
    assert ("body", "repaired") in [(loss.path, loss.kind.value) for loss in made.losses]

"""Requests that are malformed: the field at fault is named, whatever the upstream speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Options
from tests.library import translate_request
from tests.tables.requests import LEAST, PNG_URL, A, C, JsonObject, R

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": ""}
TOOL = {"type": "function", "name": "f"}


def deep(levels: int = 99) -> Any:
    """A schema or value nested deeper than is read."""
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def message(**fields: Any) -> JsonObject:
    """A Chat request with this message alone."""
    return {"messages": [fields]}


def chat_part(**fields: Any) -> JsonObject:
    return message(role="user", content=[fields])


def block(role: str, **fields: Any) -> JsonObject:
    """A Messages request with this block alone."""
    return {"messages": [{"role": role, "content": [fields]}]}


def part(**fields: Any) -> JsonObject:
    return {"input": [{"role": "user", "content": [fields]}]}


def item(**fields: Any) -> JsonObject:
    return {"input": [fields]}


PATH = "messages[0].content[0]"

FROM_CHAT: list[tuple[JsonObject, str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": 5}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"temperature": "[undefined]"}, "temperature"),
    ({"temperature": 3}, "temperature"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"n": "[undefined]"}, "n"),
    ({"n": 0}, "n"),
    ({"seed": "x"}, "seed"),
    ({"frequency_penalty": "[undefined]"}, "frequency_penalty"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", 5]}, "stop[1]"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"tools": {}}, "tools"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
        "tools[0].function.parameters",
    ),
    (
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "x"}}}]},
        "tools[0].custom.format.type",
    ),
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
    (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "x"}]},
            }
        },
        "tool_choice.allowed_tools.tools[0].type",
    ),
    ({"function_call": "required"}, "function_call"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"reasoning_effort": "extreme"}, "reasoning_effort"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": deep()}}]},
        "tools[0].function.parameters",
    ),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    (chat_part(type="video_url"), f"{PATH}.type"),
    (chat_part(text="x"), f"{PATH}.type"),
    (chat_part(type="text", text=5), f"{PATH}.text"),
    (chat_part(type="image_url"), f"{PATH}.image_url"),
    (chat_part(type="image_url", image_url={"url": "ftp://x"}), f"{PATH}.image_url.url"),
    (
        chat_part(type="image_url", image_url={"url": "data:image/png;base64,@@@"}),
        f"{PATH}.image_url.url",
    ),
    (chat_part(type="image_url", image_url={"url": "data:image/png,abc"}), f"{PATH}.image_url.url"),
    (
        chat_part(type="image_url", image_url={"url": "data:image/png;charset=utf-8,aGk="}),
        f"{PATH}.image_url.url",
    ),
    (chat_part(type="image_url", image_url={"url": "data:;base64,aGk="}), f"{PATH}.image_url.url"),
    (
        chat_part(type="image_url", image_url={"url": PNG_URL, "detail": "huge"}),
        f"{PATH}.image_url.detail",
    ),
    (chat_part(type="file", file={}), f"{PATH}.file.file_data"),
    (chat_part(type="file", file={"file_data": "not base64!"}), f"{PATH}.file.file_data"),
    (
        chat_part(type="input_audio", input_audio={"data": "aGk=", "format": "flac"}),
        f"{PATH}.input_audio.format",
    ),
    (
        chat_part(type="input_audio", input_audio={"data": "a", "format": "wav"}),
        f"{PATH}.input_audio.data",
    ),
    ({"messages": [{"role": "system", "content": [{"type": "image_url"}]}]}, f"{PATH}.type"),
    ({"messages": [{"role": "assistant", "content": [{"type": "image_url"}]}]}, f"{PATH}.type"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        "messages[0].tool_calls[0].function",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "function", "function": {}}]}]},
        "messages[0].tool_calls[0].id",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "shell"}]}]},
        "messages[0].tool_calls[0].type",
    ),
]

FROM_MESSAGES: list[tuple[JsonObject, str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": 1}, "model"),
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": "[undefined]"}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
    ({"system": 5}, "system"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"temperature": 2}, "temperature"),
    ({"temperature": "[undefined]"}, "temperature"),
    ({"top_k": "x"}, "top_k"),
    ({"stop_sequences": "END"}, "stop_sequences"),
    ({"stop_sequences": ["a", 1]}, "stop_sequences[1]"),
    ({"stream": "yes"}, "stream"),
    ({"metadata": {"user_id": 5}}, "metadata.user_id"),
    ({"service_tier": "gold"}, "service_tier"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({"tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
    ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].type"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"thinking": {"type": "hard"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"cache_control": {"type": "forever"}}, "cache_control.type"),
    ({"thread": {"type": "create"}}, "thread"),
    ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, f"{PATH}.type"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, f"{PATH}.type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, f"{PATH}.text"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, f"{PATH}.text"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, f"{PATH}.source"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "ftp"}}]}]},
        f"{PATH}.source.type",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "url", "url": "file:///x"}}],
                }
            ]
        },
        f"{PATH}.source.url",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "a", "data": "?"},
                        }
                    ],
                }
            ]
        },
        f"{PATH}.source.data",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
                }
            ]
        },
        f"{PATH}.type",
    ),
    (
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
            ]
        },
        f"{PATH}.type",
    ),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "thinking", "thinking": "t", "signature": "s"}],
                }
            ]
        },
        f"{PATH}.type",
    ),
    (
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {}}]}
            ]
        },
        f"{PATH}.id",
    ),
    (
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}
            ]
        },
        f"{PATH}.input",
    ),
    (
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}],
                }
            ]
        },
        f"{PATH}.input",
    ),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, f"{PATH}.tool_use_id"),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [{"type": "thinking"}],
                        }
                    ],
                }
            ]
        },
        f"{PATH}.content[0].type",
    ),
    (
        {"messages": [{"role": "system", "content": [{"type": "image", "source": {}}]}]},
        f"{PATH}.type",
    ),
    (block("assistant", type="tool_use", id="a", name="f", input=deep()), f"{PATH}.input"),
]

FROM_RESPONSES: list[tuple[JsonObject, str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": 5}, "model"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": 5}, "input"),
    ({"input": ["hi"]}, "input[0]"),
    ({"instructions": 5}, "instructions"),
    ({"stream": "yes"}, "stream"),
    ({"temperature": "[undefined]"}, "temperature"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": -1}, "top_p"),
    ({"max_output_tokens": "[undefined]"}, "max_output_tokens"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"top_logprobs": "[undefined]"}, "top_logprobs"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": []}, "metadata"),
    ({"include": "all"}, "include"),
    ({"include": [1]}, "include[0]"),
    ({"stream_options": []}, "stream_options"),
    ({"reasoning": "high"}, "reasoning"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
    ({"text": {"format": {}}}, "text.format.type"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"verbosity": "loud"}}, "text.verbosity"),
    (item(content="hi"), "input[0].type"),
    (item(type="message", content="hi"), "input[0].role"),
    (item(role="tool", content="hi"), "input[0].role"),
    (item(role="user"), "input[0].content"),
    (item(role="user", content=5), "input[0].content"),
    (item(role="user", content=["hi"]), "input[0].content[0]"),
    (item(role="user", content=[{}]), "input[0].content[0].type"),
    (part(type="telepathy"), "input[0].content[0].type"),
    (part(type="input_text"), "input[0].content[0].text"),
    (part(type="input_text", text=5), "input[0].content[0].text"),
    (part(type="input_image"), "input[0].content[0].image_url"),
    (part(type="input_image", image_url={"url": "x"}), "input[0].content[0].image_url"),
    (part(type="input_image", image_url="ftp://x"), "input[0].content[0].image_url"),
    (part(type="input_image", image_url="data:image/png,x"), "input[0].content[0].image_url"),
    (
        part(type="input_image", image_url="data:image/png;base64,not base64"),
        "input[0].content[0].image_url",
    ),
    (part(type="input_image", image_url="data:;base64,aGk="), "input[0].content[0].image_url"),
    (part(type="input_image", file_id="f", detail="huge"), "input[0].content[0].detail"),
    (part(type="input_file"), "input[0].content[0].file_data"),
    (part(type="input_file", file_data="***"), "input[0].content[0].file_data"),
    (part(type="input_file", file_data=""), "input[0].content[0].file_data"),
    (part(type="input_file", file_url="/etc/passwd"), "input[0].content[0].file_url"),
    (
        part(type="input_text", text="a", prompt_cache_breakpoint={"mode": "often"}),
        "input[0].content[0].prompt_cache_breakpoint.mode",
    ),
    (part(type="output_text", text="a", annotations=["x"]), "input[0].content[0].annotations[0]"),
    (item(**{**CALL, "call_id": None}), "input[0].call_id"),
    (item(**{**CALL, "call_id": ""}), "input[0].call_id"),
    (item(**{**CALL, "name": None}), "input[0].name"),
    (item(**{**CALL, "arguments": {"a": 1}}), "input[0].arguments"),
    (item(type="custom_tool_call", call_id="c", name="g"), "input[0].input"),
    (item(**{**OUTPUT, "call_id": None}), "input[0].call_id"),
    (item(**{**OUTPUT, "output": None}), "input[0].output"),
    (item(**{**OUTPUT, "output": 0}), "input[0].output"),
    (item(**{**OUTPUT, "output": {}}), "input[0].output"),
    (item(**{**OUTPUT, "output": [{"type": "x"}]}), "input[0].output[0].type"),
    (item(type="reasoning", summary="s"), "input[0].summary"),
    (item(type="reasoning", summary=["s"]), "input[0].summary[0]"),
    (item(type="reasoning", summary=[], encrypted_content=5), "input[0].encrypted_content"),
    (item(type="web_search_call", action=deep(99)), "input[0]"),
    ({"tools": {}}, "tools"),
    ({"tools": ["f"]}, "tools[0]"),
    ({"tools": [{}]}, "tools[0].type"),
    ({"tools": [{"type": "functoin", "name": "f"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "parameters": "x"}]}, "tools[0].parameters"),
    ({"tools": [{**TOOL, "parameters": deep(99)}]}, "tools[0].parameters"),
    ({"tools": [{**TOOL, "strict": "yes"}]}, "tools[0].strict"),
    (
        {"tools": [{"type": "custom", "name": "g", "format": {"type": "grammar"}}]},
        "tools[0].format.syntax",
    ),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
        "tools[0].tools[0].type",
    ),
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": 5}, "tool_choice"),
    ({"tool_choice": {"type": "telepathy"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "maybe", "tools": []}}, "tool_choice.mode"),
    (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x"}]}},
        "tool_choice.tools[0].type",
    ),
]

TABLES = {C: FROM_CHAT, A: FROM_MESSAGES, R: FROM_RESPONSES}
CASES = [
    pytest.param(client, fields, path, id=f"{client}-{path}-{number}")
    for client, table in TABLES.items()
    for number, (fields, path) in enumerate(table)
]


@pytest.mark.parametrize(("client", "fields", "path"), CASES)
def test_row(client: str, fields: JsonObject, path: str) -> None:
    """A 400 that names the field, before anything is sent. req: 152, 154"""
    body = json.dumps({**LEAST[client], **fields}).encode()
    upstream = R if client == A else A
    with pytest.raises(InvalidRequest) as caught:
        translate_request(client, upstream, body)
    assert not isinstance(caught.value, Refused)
    assert caught.value.fault.param == path


@pytest.mark.parametrize("client", [C, A, R])
@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (b'"\\ud800"', None),
    ],
    ids=["not JSON", "no object", "too deep", "a lone surrogate"],
)
def test_a_body_that_is_no_object_of_json(client: str, body: bytes, path: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        translate_request(client, R if client == A else A, body)
    assert caught.value.fault.param == path


def test_threads_are_refused_in_the_words_the_sdks_know() -> None:
    """Their tool runner then goes on with whole histories."""
    body = json.dumps({**LEAST[A], "thread": {"type": "create"}}).encode()
    with pytest.raises(InvalidRequest) as caught:
        translate_request(A, C, body)
    assert caught.value.fault.details == {"error_code": "thread_unsupported_request"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_not_found"),
        ({"conversation": "conv_1"}, "unsupported_by_upstream"),
    ],
)
def test_a_refusal_names_the_code_that_clients_know(fields: JsonObject, code: str) -> None:
    body = json.dumps({**LEAST[R], **fields}).encode()
    with pytest.raises(Refused) as caught:
        translate_request(R, C, body, options=Options(policy=Policy.STRICT))
    assert caught.value.fault.code == code

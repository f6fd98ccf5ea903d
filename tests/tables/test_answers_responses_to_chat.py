"""A Responses upstream's answers for a Chat client."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind
from tests.protocols.openai_responses.upstream import (
    call,
    custom_call,
    message,
    reasoning,
    refusal,
    text,
)
from tests.tables.answers import CHAT_USAGE, RESPONSES_USAGE, Row, check, ids
from tests.tables.requests import CONVERTED, KNOB, C, JsonObject, R

FAILED = FaultKind.UPSTREAM_FAILED
STATE_LOST = {"reasoning": KNOB}
LOGPROB = {"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}
PLACE = {"start_index": 1, "end_index": 3, "title": "T", "url": "https://e"}
X = message(text("x"))


def output(*items: JsonObject, **fields: Any) -> JsonObject:
    return {"output": list(items), **fields}


def cut(reason: str, *items: JsonObject) -> JsonObject:
    return output(*items, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str) -> JsonObject:
    return output(status="failed", error={"code": code, "message": "m"})


def says(finish: str = "stop", logprobs: Any = None, **fields: Any) -> JsonObject:
    """The client's choice: a message with these fields, and why it ended."""
    told = {"role": "assistant", "content": "x", "refusal": None, **fields}
    choice = {"index": 0, "message": told, "logprobs": logprobs, "finish_reason": finish}
    return {"choices": [choice]}


def function(call_id: str, arguments: str = "{}", name: str = "f") -> JsonObject:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def details(**fields: Any) -> JsonObject:
    return {**fields, "format": "openai", "index": 0}


ROWS = [
    Row("parts", output(message(text("Hello"), text(" world"))), says(content="Hello world")),
    Row(
        "messages of two phases",
        output(
            message(text("a"), phase="commentary"),
            message(text("b"), id="msg_u2", phase="final_answer"),
        ),
        says(content="ab"),
        {"output[0].phase": KNOB, "output[1].phase": KNOB},
    ),
    Row("refusal", output(message(refusal("No."))), says(content=None, refusal="No.")),
    Row(
        "refusal after text",
        output(message(text("a"), refusal("No."))),
        says(content="a", refusal="No."),
    ),
    Row(
        "citation, its place counted in the whole message",
        output(message(text("ab"), text("cdef", annotations=[{"type": "url_citation", **PLACE}]))),
        says(
            content="abcdef",
            annotations=[
                {
                    "type": "url_citation",
                    "url_citation": {**PLACE, "start_index": 3, "end_index": 5},
                }
            ],
        ),
    ),
    *(
        Row(
            f"citation of the type {kind}",
            output(message(text("x", annotations=[{"type": kind, "file_id": "f", "index": 0}]))),
            says(),
            {"output[0].content[0].annotations": KNOB, "annotations": KNOB},
        )
        for kind in ("file_citation", "container_file_citation", "file_path")
    ),
    Row(
        "log probabilities",
        output(message(text("x", logprobs=[LOGPROB]))),
        says(logprobs={"content": [LOGPROB], "refusal": None}),
        asked={"logprobs": True},
    ),
    Row(
        "log probabilities that nobody asked for",
        output(message(text("x", logprobs=[LOGPROB]))),
        says(),
        {"logprobs": KNOB},
    ),
    Row(
        "reasoning",
        output(reasoning("one", "two", encrypted_content="E"), X),
        says(reasoning_content="one\n\ntwo"),
        STATE_LOST,
    ),
    Row(
        "reasoning without its text",
        output(reasoning(encrypted_content="E"), X),
        says(),
        STATE_LOST,
    ),
    Row(
        "raw reasoning",
        output(reasoning(content=[{"type": "reasoning_text", "text": "raw"}]), X),
        says(reasoning_content="raw"),
    ),
    Row(
        "reasoning with its state",
        output(reasoning("one", encrypted_content="E"), X),
        says(
            reasoning_content="one",
            reasoning_details=[
                details(type="reasoning.text", text="one", signature="envelope of E")
            ],
        ),
        options={"reasoning_details": True},
    ),
    Row(
        "reasoning not to be shown",
        output(reasoning("one", encrypted_content="E"), X),
        says(),
        STATE_LOST,
        options={"show_reasoning": "never"},
    ),
    Row(
        "calls",
        output(X, call('{"a":1}'), call("", id="fc_u2", call_id="call_9")),
        says(tool_calls=[function("call_1", '{"a":1}'), function("call_9")], finish="tool_calls"),
    ),
    Row(
        "text after a call",
        output(call(), X),
        says(tool_calls=[function("call_1")], finish="tool_calls"),
        {"content": CONVERTED},
    ),
    Row(
        "a call in a namespace",
        output(call(namespace="ns")),
        says(content=None, tool_calls=[function("call_1", name="ns__f")], finish="tool_calls"),
    ),
    Row(
        "a free-text call",
        output(custom_call("free")),
        says(
            content=None,
            tool_calls=[
                {"id": "call_2", "type": "custom", "custom": {"name": "g", "input": "free"}}
            ],
            finish="tool_calls",
        ),
        asked={"tools": [{"type": "custom", "custom": {"name": "g"}}]},
    ),
    Row("arguments that are no JSON object", output(call('{"a":')), fault=FAILED),
    *(
        Row(
            f"hosted item {item['type']}",
            output({"id": "h", **item}, X),
            says(),
            {"output[0]": KNOB},
        )
        for item in (
            {"type": "web_search_call", "status": "completed", "action": {}},
            {"type": "file_search_call", "status": "completed", "queries": []},
            {"type": "code_interpreter_call", "status": "completed", "code": ""},
            {"type": "image_generation_call", "status": "completed", "result": "x"},
            {"type": "mcp_call", "name": "n", "arguments": "{}", "server_label": "s"},
            {"type": "mcp_list_tools", "server_label": "s", "tools": []},
        )
    ),
    *(
        Row(f"item {kind}", output({"type": kind, "id": "h", "call_id": "c"}), fault=FAILED)
        for kind in (
            "mcp_approval_request",
            "computer_call",
            "shell_call",
            "apply_patch_call",
            "local_shell_call",
        )
    ),
    Row("nothing said", output(), says(content="")),
    *(
        Row(f"incomplete for {reason}", cut(reason, X), says(finish))
        for reason, finish in (
            ("max_output_tokens", "length"),
            ("max_messages", "length"),
            ("content_filter", "content_filter"),
        )
    ),
    Row(
        "a call that the limit cut",
        cut("max_output_tokens", call('{"a":', status="incomplete")),
        says("length", content=None, tool_calls=[function("call_1", '{"a":')]),
    ),
    *(
        Row(f"failed for {code}", failed(code), fault=kind)
        for code, kind in (
            ("rate_limit_exceeded", FaultKind.RATE_LIMITED),
            ("invalid_prompt", FaultKind.INVALID_REQUEST),
            ("server_error", FAILED),
            ("vector_store_timeout", FAILED),
        )
    ),
    *(
        Row(f"status {status}", output(status=status), fault=FAILED)
        for status in ("cancelled", "queued", "in_progress")
    ),
    Row("usage", {}, {"usage": CHAT_USAGE}),
    Row("no usage", {"usage": None}, {"usage": None}),
    Row(
        "finer counts",
        {
            "usage": {
                **RESPONSES_USAGE,
                "input_tokens_details": {
                    "cached_tokens": 4,
                    "cache_write_tokens": 3,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 3},
                },
            }
        },
        {},
        {"usage.input_tokens_details.cache_write_tokens_details": KNOB},
    ),
    *(
        Row(f"service tier {tier}", {"service_tier": tier}, {"service_tier": shown})
        for tier, shown in (("default", "default"), ("flex", "flex"), ("ultrafast", "priority"))
    ),
    Row(
        "what only Responses tells of an answer",
        {
            "conversation": {"id": "c"},
            "input_transformations": [{"type": "x"}],
            "tool_usage": {"web_search": {"num_requests": 1}},
        },
        {},
        {"conversation": KNOB, "input_transformations": KNOB, "tool_usage": KNOB},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(R, C, row)

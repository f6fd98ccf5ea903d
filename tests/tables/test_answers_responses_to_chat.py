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
from tests.tables.requests import CONTENT, CONVERTED, KNOB, C, JsonObject, R
from tests.tables.wire_chat import call as function
from tests.tables.wire_chat import choice
from tests.tables.wire_responses import answer, cut, failed

FAILED = FaultKind.UPSTREAM_FAILED
STATE_LOST = {"reasoning": KNOB}
LOGPROB = {"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}
PLACE = {"start_index": 1, "end_index": 3, "title": "T", "url": "https://e"}
X = message(text("x"))


def details(**fields: Any) -> JsonObject:
    return {**fields, "format": "openai", "index": 0}


ROWS = [
    Row("parts", answer(message(text("Hello"), text(" world"))), choice(content="Hello world")),
    Row(
        "messages of two phases",
        answer(
            message(text("a"), phase="commentary"),
            message(text("b"), id="msg_u2", phase="final_answer"),
        ),
        choice(content="ab"),
        {"output[0].phase": KNOB, "output[1].phase": KNOB},
    ),
    Row("refusal", answer(message(refusal("No."))), choice(content=None, refusal="No.")),
    Row(
        "refusal after text",
        answer(message(text("a"), refusal("No."))),
        choice(content="a", refusal="No."),
    ),
    Row(
        "citation, its place counted in the whole message",
        answer(message(text("ab"), text("cdef", annotations=[{"type": "url_citation", **PLACE}]))),
        choice(
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
            answer(message(text("x", annotations=[{"type": kind, "file_id": "f", "index": 0}]))),
            choice(),
            {"output[0].content[0].annotations": KNOB, "annotations": KNOB},
        )
        for kind in ("file_citation", "container_file_citation", "file_path")
    ),
    Row(
        "log probabilities",
        answer(message(text("x", logprobs=[LOGPROB]))),
        choice(logprobs={"content": [LOGPROB], "refusal": None}),
        asked={"logprobs": True},
    ),
    Row(
        "log probabilities that nobody asked for",
        answer(message(text("x", logprobs=[LOGPROB]))),
        choice(),
        {"logprobs": KNOB},
    ),
    Row(
        "reasoning",
        answer(reasoning("one", "two", encrypted_content="E"), X),
        choice(reasoning_content="one\n\ntwo"),
        STATE_LOST,
    ),
    Row(
        "reasoning without its text",
        answer(reasoning(encrypted_content="E"), X),
        choice(),
        STATE_LOST,
    ),
    Row(
        "raw reasoning",
        answer(reasoning(content=[{"type": "reasoning_text", "text": "raw"}]), X),
        choice(reasoning_content="raw"),
    ),
    Row(
        "reasoning with its state",
        answer(reasoning("one", encrypted_content="E"), X),
        choice(
            reasoning_content="one",
            reasoning_details=[
                details(type="reasoning.text", text="one", signature="envelope of E")
            ],
        ),
        options={"reasoning_details": True},
    ),
    Row(
        "reasoning not to be shown",
        answer(reasoning("one", encrypted_content="E"), X),
        choice(),
        STATE_LOST,
        options={"show_reasoning": "never"},
    ),
    Row(
        "calls",
        answer(X, call('{"a":1}'), call("", id="fc_u2", call_id="call_9")),
        choice(tool_calls=[function("call_1", '{"a":1}'), function("call_9")], finish="tool_calls"),
    ),
    Row(
        "text after a call",
        answer(call(), X),
        choice(tool_calls=[function("call_1")], finish="tool_calls"),
        {"content": CONVERTED},
    ),
    Row(
        "a call in a namespace",
        answer(call(namespace="ns")),
        choice(content=None, tool_calls=[function("call_1", name="ns__f")], finish="tool_calls"),
    ),
    Row(
        "a free-text call",
        answer(custom_call("free")),
        choice(
            content=None,
            tool_calls=[
                {"id": "call_2", "type": "custom", "custom": {"name": "g", "input": "free"}}
            ],
            finish="tool_calls",
        ),
        asked={"tools": [{"type": "custom", "custom": {"name": "g"}}]},
    ),
    Row("arguments that are no JSON object", answer(call('{"a":')), fault=FAILED),
    *(
        Row(
            f"hosted item {item['type']}",
            answer({"id": "h", **item}, X),
            choice(),
            {"output[0]": CONTENT if "result" in item else KNOB},
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
        Row(f"item {kind}", answer({"type": kind, "id": "h", "call_id": "c"}), fault=FAILED)
        for kind in (
            "mcp_approval_request",
            "computer_call",
            "shell_call",
            "apply_patch_call",
            "local_shell_call",
        )
    ),
    Row("nothing said", answer(), choice(content="")),
    *(
        Row(f"incomplete for {reason}", cut(reason, X), choice(finish))
        for reason, finish in (
            ("max_output_tokens", "length"),
            ("max_messages", "length"),
            ("content_filter", "content_filter"),
        )
    ),
    Row(
        "a call that the limit cut",
        cut("max_output_tokens", call('{"a":', status="incomplete")),
        choice("length", content=None, tool_calls=[function("call_1", '{"a":')]),
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
        Row(f"status {status}", answer(status=status), fault=FAILED)
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

"""A Responses upstream's answers for a Messages client."""

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
from tests.tables import wire_messages as shown
from tests.tables.answers import MESSAGES_USAGE, Row, check, ids
from tests.tables.requests import CLOSED, CONVERTED, KNOB, REPAIRED, A, JsonObject, R

FAILED = FaultKind.UPSTREAM_FAILED
THINKS = {"thinking": {"type": "adaptive"}}
JSON = {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}
LOGPROB = {"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}
PLACE = {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e"}
X = message(text("x"))
FOUND = {"type": "web_search_call", "id": "w", "status": "completed"}
SEARCHED = {
    "image_gen": {"input_tokens": 0, "input_tokens_details": {"text_tokens": 0}},
    "web_search": {"num_requests": 2},
}
SEARCHED_TWICE = {"web_search_requests": 2, "web_fetch_requests": 0}


def output(*items: JsonObject, **fields: Any) -> JsonObject:
    return {"output": list(items), **fields}


def cut(reason: str, *items: JsonObject) -> JsonObject:
    return output(*items, status="incomplete", incomplete_details={"reason": reason})


def content(*blocks: JsonObject | str, stop: str = "end_turn", **fields: Any) -> JsonObject:
    found = [shown.text(block) if isinstance(block, str) else block for block in blocks]
    return {"content": found, "stop_reason": stop, **fields}


def declined(explanation: str | None) -> JsonObject:
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {"stop": "refusal", "stop_details": details}


def thought(value: str, state: str) -> JsonObject:
    return shown.thinking(value, f"envelope of {state}")


def failed(code: str) -> JsonObject:
    return output(status="failed", error={"code": code, "message": "m"})


ROWS = [
    Row("parts are blocks", output(message(text("a"), text("b"))), content("a", "b")),
    Row(
        "messages of two phases",
        output(
            message(text("a"), phase="commentary"),
            message(text("b"), id="msg_u2", phase="final_answer"),
        ),
        content("a", "b"),
        {"output[0].phase": KNOB, "output[1].phase": KNOB},
    ),
    Row(
        "an answer in JSON is one block without remarks",
        output(
            message(text("Let me see"), phase="commentary"),
            message(text('{"a":'), text('"b"}'), id="msg_u2", phase="final_answer"),
        ),
        content('{"a":"b"}'),
        {"output[0].phase": KNOB, "output[1].phase": KNOB, "content": KNOB},
        JSON,
    ),
    Row("refusal", output(message(refusal("No."))), content("No.", **declined("No."))),
    Row(
        "refusal after text",
        output(message(text("a"), refusal("No."))),
        content("a", "No.", **declined("No.")),
    ),
    Row(
        "refusal in place of JSON is no JSON",
        output(message(refusal("No."))),
        content(**declined("No.")),
        asked=JSON,
    ),
    Row(
        "citation",
        output(message(text("x", annotations=[{"type": "url_citation", **PLACE}]))),
        content("x"),
        {"annotations": KNOB},
    ),
    Row(
        "log probabilities nobody could ask for",
        output(message(text("x", logprobs=[LOGPROB]))),
        content("x"),
        {"logprobs": KNOB},
    ),
    Row(
        "reasoning",
        output(reasoning("one", "two", encrypted_content="E"), X),
        content(thought("one\n\ntwo", "E"), "x"),
        asked=THINKS,
    ),
    Row(
        "reasoning without its text",
        output(reasoning(encrypted_content="E"), X),
        content(thought("", "E"), "x"),
        asked=THINKS,
    ),
    Row(
        "raw reasoning without state",
        output(reasoning(content=[{"type": "reasoning_text", "text": "raw"}]), X),
        content(thought("raw", "nothing"), "x"),
        asked=THINKS,
    ),
    Row(
        "reasoning of which only the state is wanted",
        output(reasoning("one", encrypted_content="E"), X),
        content(thought("", "E"), "x"),
        asked={"thinking": {"type": "adaptive", "display": "omitted"}},
    ),
    Row(
        "reasoning nobody asked for",
        output(reasoning("one", encrypted_content="E"), X),
        content("x"),
        {"reasoning": KNOB},
    ),
    Row(
        "calls",
        output(X, call('{"a":1}'), call("", id="fc_u2", call_id="call_9")),
        content("x", shown.use("call_1", {"a": 1}), shown.use("call_9"), stop="tool_use"),
    ),
    Row(
        "text after a call keeps its place",
        output(call(), X),
        content(shown.use("call_1"), "x", stop="tool_use"),
    ),
    Row(
        "a free-text call nobody declared",
        output(custom_call("free")),
        content(shown.use("call_2", {"input": "free"}, "g"), stop="tool_use"),
        {"content": CONVERTED},
    ),
    Row("arguments that are no JSON object", output(call('{"a":')), fault=FAILED),
    Row(
        "a hosted item",
        output({"type": "web_search_call", "id": "w", "status": "completed", "action": {}}, X),
        content("x"),
        {"output[0]": KNOB},
    ),
    Row(
        "an item that waits for the client",
        output({"type": "shell_call", "id": "s", "call_id": "c", "action": {}}),
        fault=FAILED,
    ),
    Row("nothing said", output(), content()),
    *(
        Row(f"incomplete for {reason}", cut(reason, X), told)
        for reason, told in (
            ("max_output_tokens", content("x", stop="max_tokens")),
            ("max_messages", content("x", stop="max_tokens")),
            ("content_filter", content("x", **declined(None))),
        )
    ),
    Row(
        "a call that the limit cut",
        cut("max_output_tokens", call('{"a":1,"b":"x', status="incomplete")),
        content(shown.use("call_1", {"a": 1}), stop="max_tokens"),
        {"content": REPAIRED},
        streamed=False,
    ),
    *(
        Row(f"failed for {code}", failed(code), fault=kind)
        for code, kind in (
            ("rate_limit_exceeded", FaultKind.RATE_LIMITED),
            ("invalid_prompt", FaultKind.INVALID_REQUEST),
            ("server_error", FAILED),
        )
    ),
    Row("status queued", output(status="queued"), fault=FAILED),
    Row("usage", {}, {"usage": MESSAGES_USAGE}),
    Row("searches", {"tool_usage": SEARCHED}, {}, {"tool_usage": KNOB}),
    Row(
        "a search, mapped",
        output({**FOUND, "action": {"type": "search", "query": "q"}}, X, tool_usage=SEARCHED),
        {**content("x"), "usage": {**MESSAGES_USAGE, "server_tool_use": SEARCHED_TWICE}},
        {"output[0]": KNOB},
        options={"hosted_tools": "map"},
    ),
    Row(
        "images, where searches are mapped",
        {"tool_usage": {**SEARCHED, "image_gen": {"input_tokens": 3, "output_tokens": 4}}},
        {"usage": {**MESSAGES_USAGE, "server_tool_use": SEARCHED_TWICE}},
        {"tool_usage": KNOB},
        options={"hosted_tools": "map"},
    ),
    Row(
        "no usage",
        {"usage": None},
        {
            "usage": {
                "input_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
            }
        },
    ),
    *(
        Row(
            f"service tier {tier}",
            {"service_tier": tier},
            {"usage": {**MESSAGES_USAGE, "service_tier": word}},
        )
        for tier, word in (("default", "standard"), ("priority", "priority"))
    ),
    Row("service tier flex", {"service_tier": "flex"}, {}, {"service_tier": KNOB}),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(R, A, row)

"""A Responses upstream's answers for a Messages client."""

from __future__ import annotations

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
from tests.tables.requests import CLOSED, CONVERTED, KNOB, REPAIRED, A, R
from tests.tables.wire_messages import content, declined, thought
from tests.tables.wire_responses import answer, cut, failed

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


ROWS = [
    Row("parts are blocks", answer(message(text("a"), text("b"))), content("a", "b")),
    Row(
        "messages of two phases",
        answer(
            message(text("a"), phase="commentary"),
            message(text("b"), id="msg_u2", phase="final_answer"),
        ),
        content("a", "b"),
        {"output[0].phase": KNOB, "output[1].phase": KNOB},
    ),
    Row(
        "an answer in JSON is one block without remarks",
        answer(
            message(text("Let me see"), phase="commentary"),
            message(text('{"a":'), text('"b"}'), id="msg_u2", phase="final_answer"),
        ),
        content('{"a":"b"}'),
        {"output[0].phase": KNOB, "output[1].phase": KNOB, "content": KNOB},
        JSON,
    ),
    Row("refusal", answer(message(refusal("No."))), content("No.", **declined("No."))),
    Row(
        "refusal after text",
        answer(message(text("a"), refusal("No."))),
        content("a", "No.", **declined("No.")),
    ),
    Row(
        "refusal in place of JSON is no JSON",
        answer(message(refusal("No."))),
        content(**declined("No.")),
        asked=JSON,
    ),
    Row(
        "citation",
        answer(message(text("x", annotations=[{"type": "url_citation", **PLACE}]))),
        content("x"),
        {"annotations": KNOB},
    ),
    Row(
        "log probabilities nobody could ask for",
        answer(message(text("x", logprobs=[LOGPROB]))),
        content("x"),
        {"logprobs": KNOB},
    ),
    Row(
        "reasoning",
        answer(reasoning("one", "two", encrypted_content="E"), X),
        content(thought("one\n\ntwo", "E"), "x"),
        asked=THINKS,
    ),
    Row(
        "reasoning without its text",
        answer(reasoning(encrypted_content="E"), X),
        content(thought("", "E"), "x"),
        asked=THINKS,
    ),
    Row(
        "raw reasoning without state",
        answer(reasoning(content=[{"type": "reasoning_text", "text": "raw"}]), X),
        content(thought("raw", "nothing"), "x"),
        asked=THINKS,
    ),
    Row(
        "reasoning of which only the state is wanted",
        answer(reasoning("one", encrypted_content="E"), X),
        content(thought("", "E"), "x"),
        asked={"thinking": {"type": "adaptive", "display": "omitted"}},
    ),
    Row(
        "reasoning nobody asked for",
        answer(reasoning("one", encrypted_content="E"), X),
        content("x"),
        {"reasoning": KNOB},
    ),
    Row(
        "calls",
        answer(X, call('{"a":1}'), call("", id="fc_u2", call_id="call_9")),
        content("x", shown.use("call_1", {"a": 1}), shown.use("call_9"), stop="tool_use"),
    ),
    Row(
        "text after a call keeps its place",
        answer(call(), X),
        content(shown.use("call_1"), "x", stop="tool_use"),
    ),
    Row(
        "a free-text call nobody declared",
        answer(custom_call("free")),
        content(shown.use("call_2", {"input": "free"}, "g"), stop="tool_use"),
        {"content": CONVERTED},
    ),
    Row("arguments that are no JSON object", answer(call('{"a":')), fault=FAILED),
    Row(
        "a hosted item",
        answer({"type": "web_search_call", "id": "w", "status": "completed", "action": {}}, X),
        content("x"),
        {"output[0]": KNOB},
    ),
    Row(
        "an item that waits for the client",
        answer({"type": "shell_call", "id": "s", "call_id": "c", "action": {}}),
        fault=FAILED,
    ),
    Row("nothing said", answer(), content()),
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
    Row("status queued", answer(status="queued"), fault=FAILED),
    Row("usage", {}, {"usage": MESSAGES_USAGE}),
    Row("searches", {"tool_usage": SEARCHED}, {}, {"tool_usage": KNOB}),
    Row(
        "a search, mapped",
        answer({**FOUND, "action": {"type": "search", "query": "q"}}, X, tool_usage=SEARCHED),
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

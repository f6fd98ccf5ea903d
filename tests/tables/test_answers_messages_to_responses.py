"""A Messages upstream's answers for a Responses client."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.answers import MESSAGES_USAGE, RESPONSES_USAGE, Row, check, ids
from tests.tables.requests import CONVERTED, KNOB, WEB, A, JsonObject, R
from tests.tables.wire_messages import content, text, thinking, use
from tests.tables.wire_responses import answer, called, called_free, part, refused, spoken

REDACTED = {"type": "redacted_thinking", "data": "HIDDEN"}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
DECLINED = "The model declined to answer."
FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


def ended(reason: str, **fields: Any) -> JsonObject:
    return content(text("x"), stop_reason=reason, **fields)


def reasoning(state: str, *summary: str) -> JsonObject:
    texts = [{"type": "summary_text", "text": piece} for piece in summary]
    envelope = f"envelope of {state}"
    return {"type": "reasoning", "id": "rs_", "summary": texts, "encrypted_content": envelope}


MAP = {"hosted_tools": "map"}
SEARCHED_ONCE = {"web_search_requests": 1, "web_fetch_requests": 0}
FAILED_SEARCH = {"type": "web_search_tool_result_error", "error_code": "unavailable"}


def looked_for(query: str, id: str = "s") -> JsonObject:
    head = {"type": "server_tool_use", "id": id, "name": "web_search"}
    return {**head, "input": {"query": query}}


def found(*urls: str, id: str = "s") -> JsonObject:
    page = {"type": "web_search_result", "title": "T", "encrypted_content": "HIDDEN"}
    pages = [{**page, "url": url, "page_age": None} for url in urls]
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": pages}


def searched(query: str, *urls: str) -> JsonObject:
    action: JsonObject = {"type": "search", "query": query, "queries": [query]}
    if urls:
        action["sources"] = [{"type": "url", "url": url} for url in urls]
    return {"type": "web_search_call", "id": "ws_", "status": "completed", "action": action}


def tool_usage(searches: int) -> JsonObject:
    details = {"image_tokens": 0, "text_tokens": 0}
    none = {"input_tokens": 0, "input_tokens_details": details, "output_tokens": 0}
    return {
        "image_gen": {**none, "total_tokens": 0},
        "web_search": {"num_requests": searches},
    }


def cited(**fields: Any) -> JsonObject:
    return text("cited", citations=[{"cited_text": "q", **fields}])


WEB_CITED = cited(
    type="web_search_result_location", url="https://e", title="T", encrypted_index="i"
)
PAGE_CITED = cited(type="page_location", document_index=0, start_page_number=1)
X = spoken("x")
CUSTOM = {"type": "custom", "name": "g"}
SPACE = {
    "type": "namespace",
    "name": "ns",
    "description": "ns",
    "tools": [{"type": "function", "name": "f", "parameters": None, "strict": None}],
}

ROWS = [
    Row("texts side by side are one part", content(text("a"), text("b")), answer(spoken("ab"))),
    Row("nothing said", content(), answer(spoken(""))),
    Row(
        "thinking",
        content(thinking("one", "S1"), thinking("two", "S2"), text("x")),
        answer(reasoning("S1", "one"), reasoning("S2", "two"), X),
    ),
    Row(
        "thinking without its text",
        content(thinking("", "S"), text("x")),
        answer(reasoning("S"), X),
    ),
    Row("withheld thinking", content(REDACTED, text("x")), answer(reasoning("HIDDEN"), X)),
    Row(
        "thinking of which only the state may be shown",
        content(thinking("one", "S"), text("x")),
        answer(reasoning("S"), X),
        {"reasoning": KNOB},
        options={"show_reasoning": "never"},
    ),
    Row(
        "calls keep their place among texts",
        content(text("a"), use("c1", {"a": 1}), use("c2"), text("b"), stop_reason="tool_use"),
        answer(spoken("a"), called("c1", '{"a":1}'), called("c2"), spoken("b")),
    ),
    Row("calls alone", content(use("c1"), stop_reason="tool_use"), answer(called("c1"))),
    Row(
        "a call of an emulated free-text tool",
        content(use("c1", {"input": "free"}, "g"), stop_reason="tool_use"),
        answer(called_free("c1", "free")),
        asked={"tools": [CUSTOM]},
    ),
    *(
        Row(
            f"free text that the model called {name}",
            content(use("c1", {name: "free"}, "g"), stop_reason="tool_use"),
            answer(called_free("c1", "free")),
            asked={"tools": [CUSTOM]},
        )
        for name in ("patch", "content")
    ),
    Row(
        "a call of a tool in a namespace",
        content(use("c1", name="ns__f"), stop_reason="tool_use"),
        answer(called("c1", namespace="ns")),
        asked={"tools": [SPACE]},
    ),
    Row(
        "server tools",
        content(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            text("x"),
        ),
        answer(X),
        {"content[0]": KNOB, "content[1]": KNOB},
    ),
    Row(
        "how often was searched, not mapped",
        content(text("x"), usage={**MESSAGES_USAGE, "server_tool_use": SEARCHED_ONCE}),
        answer(X),
    ),
    Row(
        "a web search, mapped",
        content(
            looked_for("q"),
            found(WEB),
            text("x"),
            usage={**MESSAGES_USAGE, "server_tool_use": SEARCHED_ONCE},
        ),
        {**answer(searched("q"), X), "tool_usage": tool_usage(1)},
        {"content[1]": KNOB},
        options=MAP,
    ),
    Row(
        "a web search and its sources, mapped",
        content(text("a"), looked_for("q"), found(WEB, WEB + "b"), text("x")),
        answer(spoken("a"), searched("q", WEB, WEB + "b"), X),
        {"content[2]": KNOB},
        asked={
            "tools": [{"type": "web_search"}],
            "include": ["web_search_call.action.sources"],
        },
        options=MAP,
    ),
    Row(
        "two web searches at once, mapped",
        content(looked_for("q", "s1"), looked_for("r", "s2"), found(id="s2"), found(id="s1")),
        answer(searched("q"), searched("r")),
        {"content[2]": KNOB, "content[3]": KNOB},
        options=MAP,
    ),
    Row(
        "a web search that fails, mapped",
        content(looked_for("q"), {**found(), "content": FAILED_SEARCH}, text("x")),
        answer(searched("q"), X),
        {"content[1]": KNOB},
        options=MAP,
    ),
    Row(
        "a web search that is not over, mapped",
        content(text("x"), looked_for("q"), stop_reason="pause_turn"),
        answer(spoken("x"), searched("q")),
        {"stop_reason": CONVERTED},
        options=MAP,
    ),
    Row(
        "other server tools, mapped",
        content({**looked_for("q"), "name": "web_fetch"}, found(), text("x")),
        answer(X),
        {"content[0]": KNOB, "content[1]": KNOB},
        options=MAP,
    ),
    Row(
        "citation of a web page, its place counted in the whole part",
        content(text("ab"), WEB_CITED, text("tail")),
        answer(
            spoken(
                part(
                    "abcitedtail",
                    {
                        "type": "url_citation",
                        "start_index": 2,
                        "end_index": 7,
                        "title": "T",
                        "url": "https://e",
                    },
                )
            )
        ),
        {"citations.encrypted_index": KNOB, "citations": KNOB},
    ),
    Row("citation of a page", content(PAGE_CITED), answer(spoken("cited")), {"citations": KNOB}),
    Row("end_turn", ended("end_turn"), answer(X)),
    Row("tool_use", content(use("c1"), stop_reason="tool_use"), answer(called("c1"))),
    Row("stop_sequence", ended("stop_sequence", stop_sequence="END"), {}, {"stop_sequence": KNOB}),
    *(
        Row(
            f"{reason}, in a text",
            ended(reason),
            {**CUT, **answer(spoken("x", status="incomplete"))},
        )
        for reason in ("max_tokens", "model_context_window_exceeded")
    ),
    Row(
        "max_tokens, in a call",
        content(text("a"), use("c1", {"a": 1}), stop_reason="max_tokens"),
        {**CUT, **answer(spoken("a"), called("c1", '{"a":1}', "incomplete"))},
    ),
    Row("pause_turn", ended("pause_turn"), {}, {"stop_reason": CONVERTED}),
    Row("refusal without words", ended("refusal"), answer(spoken("x", refused(DECLINED)))),
    Row(
        "refusal with words",
        ended("refusal", stop_details={"type": "refusal", "category": None, "explanation": "No."}),
        answer(spoken("x", refused("No."))),
    ),
    Row(
        "refusal with words, shown as incomplete",
        ended("refusal", stop_details={"type": "refusal", "category": None, "explanation": "No."}),
        {**FILTERED, **answer(spoken("x", refused("No.")))},
        options={"refusal_as": "incomplete"},
    ),
    Row(
        "refusal of a category",
        ended("refusal", stop_details={"type": "refusal", "category": "bio", "explanation": None}),
        answer(spoken("x", refused(DECLINED))),
        {"stop_details.category": KNOB},
    ),
    Row("compaction", ended("compaction"), fault=FaultKind.UPSTREAM_FAILED),
    Row("usage", {}, {"usage": RESPONSES_USAGE}),
    Row(
        "usage without details",
        {"usage": {"input_tokens": 10, "output_tokens": 5}},
        {
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 15,
            }
        },
    ),
    Row(
        "what the client asked for is repeated",
        {},
        {
            "instructions": "s",
            "metadata": {"a": "b"},
            "reasoning": {"effort": "low", "summary": None},
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "parameters": None,
                    "strict": None,
                    "description": None,
                }
            ],
            "tool_choice": "auto",
            "temperature": 0.5,
            "max_output_tokens": 99,
            "store": False,
        },
        asked={
            "instructions": "s",
            "metadata": {"a": "b"},
            "reasoning": {"effort": "low"},
            "text": {"verbosity": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": None, "strict": None}],
            "tool_choice": "auto",
            "temperature": 0.5,
            "max_output_tokens": 99,
        },
    ),
    Row(
        "what nobody asked for is there all the same",
        {},
        {
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "max_tool_calls": None,
            "previous_response_id": None,
            "parallel_tool_calls": True,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "background": False,
            "temperature": 1.0,
            "top_p": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "top_logprobs": 0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "truncation": "disabled",
            "service_tier": "default",
            "user": None,
            "safety_identifier": None,
            "prompt_cache_key": None,
            "metadata": {},
        },
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, R, row)

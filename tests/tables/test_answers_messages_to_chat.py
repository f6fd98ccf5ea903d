"""A Messages upstream's answers for a Chat client."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.answers import CHAT_USAGE, Row, check, ids
from tests.tables.requests import CONVERTED, KNOB, A, C, JsonObject
from tests.tables.wire_chat import call, choice
from tests.tables.wire_messages import content, text, thinking, use

THOUGHT = thinking("hm", "SIG")
REDACTED = {"type": "redacted_thinking", "data": "HIDDEN"}
STATE_LOST = {"reasoning": KNOB}


def ended(reason: str, **fields: Any) -> JsonObject:
    return content(text("x"), stop_reason=reason, **fields)


def cited(**fields: Any) -> JsonObject:
    return text("cited", citations=[{"cited_text": "q", **fields}])


def annotation(url: str, title: str) -> JsonObject:
    """A citation of the second of three texts: `ab`, `cited`, `tail`."""
    place = {"start_index": 2, "end_index": 7, "title": title, "url": url}
    return {"type": "url_citation", "url_citation": place}


WEB_CITED = cited(
    type="web_search_result_location", url="https://e", title="T", encrypted_index="i"
)
SEARCH_CITED = cited(
    type="search_result_location",
    source="https://s",
    title="S",
    search_result_index=0,
    start_block_index=0,
    end_block_index=1,
)
PAGE_CITED = cited(type="page_location", document_index=0, start_page_number=1)


def usage(**counts: Any) -> JsonObject:
    return {"usage": {"input_tokens": 10, "output_tokens": 5, **counts}}


SUM = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

ROWS = [
    Row("texts", content(text("Hello "), text("world")), choice(content="Hello world")),
    Row("nothing said", content(), choice(content="")),
    Row(
        "thinking",
        content(THOUGHT, thinking("two", "SIG2"), text("x")),
        choice(reasoning_content="hm\n\ntwo"),
        STATE_LOST,
    ),
    Row("thinking without its text", content(thinking("", "SIG"), text("x")), choice(), STATE_LOST),
    Row("withheld thinking", content(REDACTED, text("x")), choice(), STATE_LOST),
    Row(
        "thinking with its state",
        content(THOUGHT, REDACTED, text("x")),
        choice(
            reasoning_content="hm",
            reasoning_details=[
                {
                    "type": "reasoning.text",
                    "text": "hm",
                    "signature": "envelope of SIG",
                    "format": "anthropic",
                    "index": 0,
                },
                {
                    "type": "reasoning.encrypted",
                    "data": "envelope of HIDDEN",
                    "format": "anthropic",
                    "index": 1,
                },
            ],
        ),
        options={"reasoning_details": True},
    ),
    Row(
        "thinking under another name",
        content(THOUGHT, text("x")),
        choice(reasoning="hm"),
        STATE_LOST,
        options={"reasoning_field": "reasoning"},
    ),
    Row(
        "thinking under both names",
        content(THOUGHT, text("x")),
        choice(reasoning="hm", reasoning_content="hm"),
        STATE_LOST,
        options={"reasoning_field": "both"},
    ),
    Row(
        "thinking not to be shown",
        content(THOUGHT, text("x")),
        choice(),
        {"reasoning": KNOB},
        options={"show_reasoning": "never"},
    ),
    Row(
        "calls",
        content(text("x"), use("c1", {"a": 1}), use("c2", name="g"), stop_reason="tool_use"),
        choice(tool_calls=[call("c1", '{"a":1}'), call("c2", "{}", "g")], finish="tool_calls"),
    ),
    Row(
        "calls alone",
        content(use("c1"), stop_reason="tool_use"),
        choice(content=None, tool_calls=[call("c1", "{}")], finish="tool_calls"),
    ),
    Row(
        "text after a call",
        content(text("a"), use("c1"), text("b"), stop_reason="tool_use"),
        choice(content="ab", tool_calls=[call("c1", "{}")], finish="tool_calls"),
        {"content": CONVERTED},
    ),
    Row(
        "a call under a wrong stop reason",
        content(use("c1"), stop_reason="end_turn"),
        choice(content=None, tool_calls=[call("c1", "{}")], finish="tool_calls"),
    ),
    Row(
        "a call beside a stop sequence",
        content(use("c1"), stop_reason="stop_sequence", stop_sequence="END"),
        choice(content=None, tool_calls=[call("c1", "{}")], finish="tool_calls"),
        {"stop_sequence": KNOB},
    ),
    Row("tool_use without a call", ended("tool_use"), choice()),
    Row(
        "a call of an emulated free-text tool",
        content(use("c1", {"input": "free"}, "g"), stop_reason="tool_use"),
        choice(
            content=None,
            tool_calls=[{"id": "c1", "type": "custom", "custom": {"name": "g", "input": "free"}}],
            finish="tool_calls",
        ),
        asked={"tools": [{"type": "custom", "custom": {"name": "g"}}]},
    ),
    Row(
        "a call of a tool with a shortened name",
        content(use("c1", name="a_b_5a5032ca"), stop_reason="tool_use"),
        choice(content=None, tool_calls=[call("c1", "{}", "a.b")], finish="tool_calls"),
        asked={"tools": [{"type": "function", "function": {"name": "a.b"}}]},
    ),
    Row(
        "server tools",
        content(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            text("x"),
        ),
        choice(),
        {"content[0]": KNOB, "content[1]": KNOB},
    ),
    Row(
        "a web search, mapped",
        content(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": [{"type": "web_search_result", "url": "https://e", "title": "T"}],
            },
            text("x"),
        ),
        choice(),
        {"content": KNOB, "content[1]": KNOB},
        options={"hosted_tools": "map"},
    ),
    Row(
        "citation of a web page",
        content(text("ab"), WEB_CITED, text("tail")),
        choice(content="abcitedtail", annotations=[annotation("https://e", "T")]),
        {"citations.encrypted_index": KNOB, "annotations.cited_text": KNOB},
    ),
    Row(
        "citation of a search result with an address",
        content(text("ab"), SEARCH_CITED, text("tail")),
        choice(content="abcitedtail", annotations=[annotation("https://s", "S")]),
        {
            "citations.search_result_index": KNOB,
            "citations.start_block_index": KNOB,
            "citations.end_block_index": KNOB,
            "annotations.cited_text": KNOB,
        },
    ),
    Row(
        "citation of a page",
        content(text("ab"), PAGE_CITED),
        choice(content="abcited"),
        {"annotations": KNOB},
    ),
    Row("end_turn", ended("end_turn"), choice()),
    Row(
        "stop_sequence",
        ended("stop_sequence", stop_sequence="END"),
        choice(),
        {"stop_sequence": KNOB},
    ),
    Row("max_tokens", ended("max_tokens"), choice(finish="length")),
    Row("context window", ended("model_context_window_exceeded"), choice(finish="length")),
    Row("pause_turn", ended("pause_turn"), choice(), {"stop_reason": CONVERTED}),
    Row("refusal without words", ended("refusal"), choice(finish="content_filter")),
    Row(
        "refusal with words",
        ended("refusal", stop_details={"type": "refusal", "category": None, "explanation": "No."}),
        choice(refusal="No.", finish="content_filter"),
    ),
    Row(
        "refusal of a category",
        ended("refusal", stop_details={"type": "refusal", "category": "bio", "explanation": None}),
        choice(finish="content_filter"),
        {"stop_details.category": KNOB},
    ),
    Row("compaction", ended("compaction"), fault=FaultKind.UPSTREAM_FAILED),
    Row("usage", {}, {"usage": CHAT_USAGE}),
    Row("usage without details", usage(), {"usage": SUM}),
    Row(
        "service tier standard",
        usage(service_tier="standard"),
        {"usage": SUM, "service_tier": "default"},
    ),
    Row(
        "service tier priority",
        usage(service_tier="priority"),
        {"usage": SUM, "service_tier": "priority"},
    ),
    Row(
        "service tier batch",
        usage(service_tier="batch"),
        {"usage": SUM},
        {"usage.service_tier": KNOB},
    ),
    Row("speed", usage(speed="fast"), {"usage": SUM}, {"usage.speed": KNOB}),
    Row(
        "speed as a tier",
        usage(speed="fast"),
        {"usage": SUM, "service_tier": "priority"},
        options={"map_fast": True},
    ),
    Row(
        "what only Anthropic tells of an answer",
        {
            "container": {"id": "c", "expires_at": "2026-11-21T00:00:00Z"},
            "diagnostics": {"cache_miss_reason": None, "a": 1},
            "context_management": {"applied_edits": [{"type": "clear_thinking_20251015"}]},
            "input_transformations": [{"type": "thinking_dropped"}],
        },
        {},
        {
            "container": KNOB,
            "diagnostics": KNOB,
            "context_management": KNOB,
            "input_transformations": KNOB,
        },
    ),
    Row(
        "the client's own metadata",
        {},
        {"metadata": {"a": "b"}},
        asked={"metadata": {"a": "b"}},
        streamed=False,
    ),
    Row(
        "an error in place of an answer",
        {"type": "error", "content": None, "error": {"type": "overloaded_error", "message": "m"}},
        fault=FaultKind.OVERLOADED,
        streamed=False,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, C, row)

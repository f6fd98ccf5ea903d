"""Requests on routes that map hosted tools: the web search of one vendor becomes the other's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import Refused
from tests.library import translate_request
from tests.tables import wire_messages, wire_responses
from tests.tables.requests import (
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    LEAST,
    NO_ARGUMENTS,
    WEB,
    A,
    C,
    JsonObject,
    R,
    Row,
    check,
)

MAP = {"hosted_tools": "map"}
PLACE = {"city": "C", "country": "DE", "region": "R", "timezone": "Europe/Berlin"}
NEAR = {"type": "approximate", **PLACE}


def claude_search(**fields: Any) -> JsonObject:
    return {"type": "web_search_20250305", "name": "web_search", **fields}


def sent_claude_search(**fields: Any) -> JsonObject:
    head = {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]}
    return {**head, **fields}


def search(**fields: Any) -> JsonObject:
    return {"type": "web_search", **fields}


def asked(*tools: JsonObject, choice: Any = None, **fields: Any) -> JsonObject:
    """Members of a request that offers tools."""
    chosen = {} if choice is None else {"tool_choice": choice}
    return {"tools": list(tools), **chosen, **fields}


F = wire_responses.function(strict=None, parameters=None)
SENT_F = wire_messages.tool("f", NO_ARGUMENTS)
G = wire_messages.tool("f", NO_ARGUMENTS)
SENT_G = wire_responses.function(strict=False, parameters=NO_ARGUMENTS)

RESPONSES_TO_MESSAGES = [
    *(
        Row(kind, asked({"type": kind}), asked(sent_claude_search()), {}, MAP)
        for kind in (
            "web_search",
            "web_search_2025_08_26",
            "web_search_preview",
            "web_search_preview_2025_03_11",
        )
    ),
    Row(
        "what both vendors know",
        asked(search(filters={"allowed_domains": ["e.org"]}, user_location=NEAR)),
        asked(sent_claude_search(allowed_domains=["e.org"], user_location=NEAR)),
        {},
        MAP,
    ),
    Row(
        "what asks for nothing",
        asked(
            search(
                filters={"allowed_domains": []},
                user_location={"type": "approximate", "city": None},
                search_context_size="medium",
                external_web_access=True,
                search_content_types=["text"],
            )
        ),
        asked(sent_claude_search()),
        {},
        MAP,
    ),
    Row(
        "what only OpenAI knows",
        asked(
            search(
                search_context_size="high",
                external_web_access=False,
                search_content_types=["text", "image"],
            )
        ),
        asked(sent_claude_search()),
        {
            "tools[0].search_context_size": KNOB,
            "tools[0].external_web_access": CONVERTED,
            "tools[0].search_content_types": KNOB,
        },
        MAP,
    ),
    Row(
        "domains that are kept out",
        asked(search(filters={"blocked_domains": ["e.org"]})),
        asked(sent_claude_search()),
        {"tools[0].filters.blocked_domains": CONTENT},
        MAP,
    ),
    Row(
        "domains and a place that nobody understands",
        asked(search(filters={"allowed_domains": "e.org"}, user_location="here")),
        asked(sent_claude_search()),
        {"tools[0].filters.allowed_domains": CONTENT, "tools[0].user_location": KNOB},
        MAP,
    ),
    Row(
        "sources are asked for",
        asked(search(), include=["web_search_call.action.sources"]),
        asked(sent_claude_search()),
        {},
        MAP,
    ),
    Row(
        "sources are asked for, but no search is there",
        {"include": ["web_search_call.action.sources"]},
        {},
        {"include[0]": KNOB},
        MAP,
    ),
    Row(
        "choice of the search",
        asked(F, search(), choice={"type": "web_search"}),
        asked(SENT_F, sent_claude_search(), choice={"type": "tool", "name": "web_search"}),
        {},
        MAP,
    ),
    Row(
        "choice of the search, and no parallel calls",
        asked(search(), choice={"type": "web_search_preview"}, parallel_tool_calls=False),
        asked(
            sent_claude_search(),
            choice={"type": "tool", "name": "web_search", "disable_parallel_tool_use": True},
        ),
        {},
        MAP,
    ),
    Row(
        "choice of the search, which is not there",
        asked(F, choice={"type": "web_search"}),
        asked(SENT_F),
        {"tool_choice": CONTENT},
        MAP,
    ),
    Row(
        "choice of another hosted tool",
        asked(F, search(), choice={"type": "code_interpreter"}),
        asked(SENT_F, sent_claude_search()),
        {"tool_choice": CONTENT},
        MAP,
    ),
    Row(
        "allowed tools, the search among them",
        asked(
            F,
            search(),
            choice=wire_responses.allowed(
                "required", wire_responses.function(), {"type": "web_search"}
            ),
        ),
        asked(SENT_F, sent_claude_search(), choice={"type": "any"}),
        {"tool_choice": CONVERTED},
        MAP,
    ),
    Row(
        "allowed tools, the search not among them",
        asked(F, search(), choice=wire_responses.allowed("auto", wire_responses.function())),
        asked(SENT_F, choice={"type": "auto"}),
        {"tool_choice": CONVERTED},
        MAP,
    ),
    Row(
        "only the search is allowed, and required",
        asked(F, search(), choice=wire_responses.allowed("required", {"type": "web_search"})),
        asked(SENT_F, sent_claude_search(), choice={"type": "tool", "name": "web_search"}),
        {},
        MAP,
    ),
    Row(
        "only the search is allowed, but not required",
        asked(F, search(), choice=wire_responses.allowed("auto", {"type": "web_search"})),
        asked(SENT_F, sent_claude_search()),
        {"tool_choice": CONTENT},
        MAP,
    ),
    Row(
        "a function of the same name",
        asked(wire_responses.function("web_search", strict=None, parameters=None), search()),
        asked(wire_messages.tool("web_search", NO_ARGUMENTS)),
        {"tools[1]": KNOB},
        MAP,
    ),
    Row(
        "two searches",
        asked(search(), search(type="web_search_preview")),
        asked(sent_claude_search()),
        {"tools[1]": KNOB},
        MAP,
    ),
    Row(
        "another hosted tool",
        asked({"type": "code_interpreter", "container": {"type": "auto"}}, search()),
        asked(sent_claude_search()),
        {"tools[0]": KNOB},
        MAP,
    ),
    Row(
        "a search in the history",
        wire_responses.items(
            wire_responses.user("hi"),
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            wire_responses.message("assistant", "x"),
            wire_responses.user("more"),
        ),
        {
            "messages": [
                wire_messages.said("user", "hi"),
                wire_messages.said("assistant", "x"),
                wire_messages.said("user", "more"),
            ]
        },
        {"input[1]": KNOB},
        MAP,
    ),
]

MESSAGES_TO_RESPONSES = [
    *(
        Row(kind, asked(claude_search(type=kind)), asked(search()), {}, MAP)
        for kind in ("web_search_20250305", "web_search_20260209", "web_search_20260318")
    ),
    Row(
        "what both vendors know",
        asked(claude_search(allowed_domains=["e.org"], user_location=NEAR)),
        asked(search(filters={"allowed_domains": ["e.org"]}, user_location=NEAR)),
        {},
        MAP,
    ),
    Row(
        "what asks for nothing",
        asked(
            claude_search(
                allowed_domains=[],
                blocked_domains=[],
                allowed_callers=["direct"],
                user_location=None,
                response_inclusion="full",
                defer_loading=False,
                strict=False,
            )
        ),
        asked(search()),
        {},
        MAP,
    ),
    Row(
        "what only Anthropic knows",
        asked(
            claude_search(
                max_uses=8,
                allowed_callers=["code_execution_20260521"],
                response_inclusion="excluded",
                cache_control={"type": "ephemeral"},
                defer_loading=True,
                strict=True,
            ),
            G,
        ),
        asked(search(), SENT_G),
        {
            f"tools[0].{name}": KNOB
            for name in (
                "max_uses",
                "allowed_callers",
                "response_inclusion",
                "cache_control",
                "defer_loading",
                "strict",
            )
        },
        MAP,
    ),
    Row(
        "domains that are kept out",
        asked(claude_search(blocked_domains=["e.org"])),
        asked(search()),
        {"tools[0].blocked_domains": CONTENT},
        MAP,
    ),
    Row(
        "domains and a place that nobody understands",
        asked(claude_search(allowed_domains=[1], user_location={"type": "exact", "street": "S"})),
        asked(search(user_location={"type": "approximate"})),
        {"tools[0].allowed_domains": CONTENT, "tools[0].user_location.street": KNOB},
        MAP,
    ),
    Row(
        "choice of the only tool",
        asked(claude_search(), choice={"type": "tool", "name": "web_search"}),
        asked(search(), choice="required"),
        {},
        MAP,
    ),
    Row(
        "choice of the search",
        asked(G, claude_search(), choice={"type": "tool", "name": "web_search"}),
        asked(
            SENT_G,
            search(),
            choice=wire_responses.allowed("required", {"type": "web_search"}),
        ),
        {},
        MAP,
    ),
    Row(
        "choice of another tool",
        asked(G, claude_search(), choice={"type": "tool", "name": "f"}),
        asked(SENT_G, search(), choice={"type": "function", "name": "f"}),
        {},
        MAP,
    ),
    Row(
        "another server tool",
        asked({"type": "web_fetch_20260318", "name": "web_fetch"}, claude_search()),
        asked(search()),
        {"tools[0]": KNOB},
        MAP,
    ),
    Row(
        "a search in the history",
        {
            "messages": [
                HI,
                wire_messages.said(
                    "assistant",
                    "so",
                    {
                        "type": "server_tool_use",
                        "id": "s",
                        "name": "web_search",
                        "input": {"query": "q"},
                    },
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "s",
                        "content": [
                            {
                                "type": "web_search_result",
                                "url": WEB,
                                "title": "T",
                                "encrypted_content": "x",
                            }
                        ],
                    },
                    "x",
                ),
                HI,
            ]
        },
        wire_responses.items(
            wire_responses.user("hi"),
            wire_responses.message("assistant", "so"),
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "q",
                    "queries": ["q"],
                    "sources": [{"type": "url", "url": WEB}],
                },
            },
            wire_responses.message("assistant", "x"),
            wire_responses.user("hi"),
        ),
        {"messages[1].content[1]": KNOB, "messages[1].content[2]": KNOB},
        MAP,
    ),
    Row(
        "a search in the history that failed",
        {
            "messages": [
                HI,
                wire_messages.said(
                    "assistant",
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "s",
                        "content": {
                            "type": "web_search_tool_result_error",
                            "error_code": "unavailable",
                        },
                    },
                    "x",
                ),
                HI,
            ]
        },
        wire_responses.items(
            wire_responses.user("hi"),
            {
                "type": "web_search_call",
                "status": "failed",
                "action": {"type": "search", "query": "", "queries": []},
            },
            wire_responses.message("assistant", "x"),
            wire_responses.user("hi"),
        ),
        {"messages[1].content[0]": KNOB, "messages[1].content[1]": KNOB},
        MAP,
    ),
    Row(
        "other server tools in the history",
        {
            "messages": [
                HI,
                wire_messages.said(
                    "assistant",
                    {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {}},
                    {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                    "x",
                ),
                HI,
            ]
        },
        wire_responses.items(
            wire_responses.user("hi"),
            wire_responses.message("assistant", "x"),
            wire_responses.user("hi"),
        ),
        {f"messages[1].content[{number}]": CONTENT for number in range(3)},
        MAP,
    ),
]

CHAT_NEAR = {"type": "approximate", "approximate": PLACE}

CHAT_TO_MESSAGES = [
    Row("options", {"web_search_options": {}}, asked(sent_claude_search()), {}, MAP),
    Row(
        "a place and a size",
        {"web_search_options": {"search_context_size": "low", "user_location": CHAT_NEAR}},
        asked(sent_claude_search(user_location=NEAR)),
        {"web_search_options.search_context_size": KNOB},
        MAP,
    ),
]

CHAT_TO_RESPONSES = [
    Row("options", {"web_search_options": {}}, asked(search()), {}, MAP),
    Row(
        "a place and a size",
        {"web_search_options": {"search_context_size": "low", "user_location": CHAT_NEAR}},
        asked(search(search_context_size="low", user_location=NEAR)),
        {},
        MAP,
    ),
    Row(
        "a place and a size that nobody understands",
        {
            "web_search_options": {
                "search_context_size": "all",
                "user_location": {"type": "exact", "approximate": {"city": 1}},
                "depth": 3,
            }
        },
        asked(search(user_location={"type": "approximate"})),
        {
            f"web_search_options.{name}": KNOB
            for name in ("search_context_size", "user_location", "depth")
        },
        MAP,
    ),
]

TO_CHAT = [
    Row("an OpenAI search", asked(search()), {}, {"tools[0]": KNOB}, MAP),
    Row(
        "a search in the history",
        wire_responses.items(
            wire_responses.user("hi"),
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        ),
        {},
        {"input[1]": KNOB},
        MAP,
    ),
]

ROWS = [
    *((R, A, row) for row in RESPONSES_TO_MESSAGES),
    *((A, R, row) for row in MESSAGES_TO_RESPONSES),
    *((C, A, row) for row in CHAT_TO_MESSAGES),
    *((C, R, row) for row in CHAT_TO_RESPONSES),
    *((R, C, row) for row in TO_CHAT),
]


@pytest.mark.parametrize(
    ("client", "upstream", "row"),
    ROWS,
    ids=[f"{client}-{upstream}-{row.name}" for client, upstream, row in ROWS],
)
def test_row(client: str, upstream: str, row: Row) -> None:
    check(client, upstream, row)


@pytest.mark.parametrize("upstream", [C, R])
def test_a_search_that_must_be_made_is_refused_in_clear_words(upstream: str) -> None:
    """As Claude Code's, which has no other tool."""
    chosen = asked(claude_search(max_uses=8), choice={"type": "tool", "name": "web_search"})
    with pytest.raises(Refused, match=r"tool_choice: there are no tools .* such as web search"):
        translate_request(A, upstream, json.dumps(LEAST[A] | chosen).encode())

"""A Chat client before a Messages upstream: tools, settings and thinking of a request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.requests import (
    ABSENT,
    CLOSED,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    NO_ARGUMENTS,
    REPAIRED,
    SCHEMA,
    A,
    C,
    JsonObject,
    Row,
    check,
    ids,
)
from tests.tables.wire_chat import (
    allowed,
    assistant,
    call,
    free,
    function,
    grammar,
    msgs,
    parts,
    result,
    schema_format,
    text,
)
from tests.tables.wire_messages import emulated, given, said, use

OLD = {"anthropic_version": "2023-06-01"}
"""The version of the service that still takes sampling parameters."""
BUDGETS = {"adaptive_thinking": False}
"""An upstream whose models know token budgets only."""


F = function(description="d", parameters=SCHEMA)
SENT_F = {"name": "f", "description": "d", "input_schema": SCHEMA}
FREE = free()
FREE_G = free(description="d", format=grammar("start: /x/"))


def marked(*ttls: str | None) -> JsonObject:
    """A message of texts with a cache mark each, of these lifetimes."""
    marks = [{"mode": "explicit", **({"ttl": ttl} if ttl else {})} for ttl in ttls]
    return parts(*(text("x", prompt_cache_breakpoint=mark) for mark in marks))


def cached(*ttls: str | None) -> list[JsonObject]:
    """The message that the service is sent for `marked`."""
    marks = [{"type": "ephemeral", **({"ttl": ttl} if ttl else {})} for ttl in ttls]
    return [said("user", *(text("x", cache_control=mark) for mark in marks))]


OFFER = {"tools": [F, function("g")]}
SENT_G = {"name": "g", "input_schema": NO_ARGUMENTS}
SENT_OFFER = {"tools": [SENT_F, SENT_G]}

TOOLS = [
    # req: 42
    Row("function tool", {"tools": [F]}, {"tools": [SENT_F]}),
    Row("function without parameters", {"tools": [function("g")]}, {"tools": [SENT_G]}),
    Row(
        "parameters without a root type",
        {"tools": [function(parameters={"properties": {}})]},
        {"tools": [{"name": "f", "input_schema": NO_ARGUMENTS}]},
        {"tools[0].function": REPAIRED},
    ),
    Row(
        "strict function",
        {"tools": [function(parameters=CLOSED, strict=True)]},
        {"tools": [{"name": "f", "input_schema": CLOSED, "strict": True}]},
    ),
    Row(
        "strict function for an upstream that takes none",
        {"tools": [function(parameters=CLOSED, strict=True)]},
        {"tools": [{"name": "f", "input_schema": CLOSED}]},
        {"tools[0].function.strict": KNOB},
        upstream={"strict_tools": False},
    ),
    Row(
        "free-text tool with a grammar, emulated",
        {"tools": [FREE_G]},
        {
            "tools": [
                emulated(
                    "g",
                    "d\n\nThe text in `input` must conform to this lark grammar:\nstart: /x/",
                )
            ]
        },
        {"tools[0].custom": CONVERTED},
    ),
    Row(
        "free-text tool, refused",
        {"tools": [FREE]},
        {},
        {"tools[0].custom": CONTENT},
        {"custom_tools": "reject"},
    ),
    Row(
        "choice none",
        {**OFFER, "tool_choice": "none"},
        {**SENT_OFFER, "tool_choice": {"type": "none"}},
    ),
    Row(
        "choice auto",
        {**OFFER, "tool_choice": "auto"},
        {**SENT_OFFER, "tool_choice": {"type": "auto"}},
    ),
    Row(
        "choice required",
        {**OFFER, "tool_choice": "required"},
        {**SENT_OFFER, "tool_choice": {"type": "any"}},
    ),
    # req: 43
    Row(
        "choice of a function",
        {**OFFER, "tool_choice": function("f")},
        {**SENT_OFFER, "tool_choice": {"type": "tool", "name": "f"}},
    ),
    Row(
        "choice of a free-text tool",
        {"tools": [FREE], "tool_choice": FREE},
        {"tools": [emulated("g")], "tool_choice": {"type": "tool", "name": "g"}},
        {"tools[0].custom": CONVERTED},
    ),
    *(
        Row(
            f"allowed tools, {mode}",
            {
                **OFFER,
                "tool_choice": allowed(mode, function("g")),
            },
            {"tools": [SENT_G], "tool_choice": {"type": kind}},
            {"tool_choice": CONVERTED},
        )
        for mode, kind in (("auto", "auto"), ("required", "any"))
    ),
    Row(
        "choice of a tool that is not offered",
        {**OFFER, "tool_choice": function("x")},
        {**SENT_OFFER, "tool_choice": {"type": "auto"}},
        {"tool_choice": CONTENT},
    ),
    Row("choice required, but no tools", {"tool_choice": "required"}, {}, {"tool_choice": CONTENT}),
    Row("choice auto, but no tools", {"tool_choice": "auto"}),
    Row(
        "no parallel calls",
        {**OFFER, "parallel_tool_calls": False},
        {**SENT_OFFER, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    Row(
        "no parallel calls, one required",
        {**OFFER, "parallel_tool_calls": False, "tool_choice": "required"},
        {**SENT_OFFER, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    ),
    Row(
        "no parallel calls, none wanted",
        {**OFFER, "parallel_tool_calls": False, "tool_choice": "none"},
        {**SENT_OFFER, "tool_choice": {"type": "none"}},
    ),
    Row("parallel calls", {**OFFER, "parallel_tool_calls": True}, SENT_OFFER),
    Row("web search", {"web_search_options": {}}, {}, {"web_search_options": KNOB}),
    Row(
        "web search, refused",
        {"web_search_options": {}},
        {},
        {"web_search_options": CONTENT},
        {"hosted_tools": "reject"},
    ),
]

SETTINGS = [
    Row("output limit", {"max_completion_tokens": 7}, {"max_tokens": 7}),
    Row("older output limit", {"max_tokens": 7}, {"max_tokens": 7}),
    Row(
        "both output limits",
        {"max_completion_tokens": 7, "max_tokens": 9},
        {"max_tokens": 7},
        {"max_tokens": KNOB},
    ),
    Row("no output limit", {}, {"max_tokens": 16384}),
    Row(
        "no output limit, by configuration", {}, {"max_tokens": 99}, {}, {"default_max_tokens": 99}
    ),
    Row(
        "no output limit, of a small model",
        {},
        {"max_tokens": 8192},
        upstream={"max_output_tokens": 8192},
    ),
    Row(
        "output limit above the model's",
        {"max_tokens": 9000},
        {"max_tokens": 8192},
        {"max_tokens": REPAIRED},
        upstream={"max_output_tokens": 8192},
    ),
    Row(
        "output limit of a long answer",
        {"max_tokens": 9000},
        {"max_tokens": 9000, "stream": True},
        upstream={"stream_above": 8999},
    ),
    Row(
        "output limit of the longest answer that is waited for",
        {"max_tokens": 9000},
        {"max_tokens": 9000},
        upstream={"stream_above": 9000},
    ),
    Row(
        "sampling under the newer version",
        {"temperature": 0, "top_p": 0.5, "top_k": 5},
        {},
        {"temperature": KNOB, "top_p": KNOB, "top_k": KNOB},
    ),
    Row("sampling at its defaults", {"temperature": 1, "top_p": 1}),
    Row(
        "sampling under the older version",
        {"temperature": 0, "top_p": 0.5, "top_k": 5},
        {"temperature": 0.0, "top_p": 0.5, "top_k": 5},
        upstream=OLD,
    ),
    Row(
        "sampling under the older version, beside thinking",
        {"temperature": 0, "top_p": 0.5, "top_k": 5, "reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"temperature": KNOB, "top_p": KNOB, "top_k": KNOB},
        upstream=OLD,
    ),
    Row(
        "a temperature above one",
        {"temperature": 1.5},
        {"temperature": 1.0},
        {"temperature": REPAIRED},
        upstream=OLD,
    ),
    Row("stop string", {"stop": "x"}, {"stop_sequences": ["x"]}),
    Row(
        "stop strings, a blank one among them",
        {"stop": ["x", " "]},
        {"stop_sequences": ["x"]},
        {"stop": CONVERTED},
    ),
    Row(
        "stop strings, a blank one among them, not emulated",
        {"stop": ["x", " "]},
        {"stop_sequences": ["x"]},
        {"stop": KNOB},
        {"stop_on_responses": "reject"},
    ),
    Row("one choice", {"n": 1}),
    Row("two choices", {"n": 2}, {}, {"n": CONTENT}),
    Row(
        "log probabilities",
        {"logprobs": True, "top_logprobs": 2},
        {},
        {"logprobs": CONTENT, "top_logprobs": CONTENT},
    ),
    Row("no log probabilities", {"logprobs": False, "top_logprobs": 0}),
    *(
        Row(f"knob {name}", {name: value}, {}, {name: KNOB})
        for name, value in (
            ("seed", 1),
            ("logit_bias", {"1": 2}),
            ("frequency_penalty", 0.5),
            ("presence_penalty", 0.5),
            ("prediction", {"type": "content", "content": "x"}),
            ("verbosity", "low"),
            ("moderation", {"model": "x"}),
            ("metadata", {"a": "b"}),
            ("prompt_cache_key", "k"),
            ("prompt_cache_retention", "24h"),
            ("prompt_cache_options", {"mode": "explicit"}),
            ("store", True),
            ("min_p", 0.1),
            ("repetition_penalty", 1.1),
            ("chat_template_kwargs", {"a": 1}),
            ("enable_thinking", True),
            ("thinking", {"type": "enabled"}),
            ("reasoning", {"effort": "high"}),
            ("a_field_nobody_knows", 1),
        )
    ),
    Row("store nothing", {"store": False}),
    Row("answer as text", {"response_format": {"type": "text"}}),
    Row(
        "answer by a schema",
        {"response_format": schema_format(CLOSED, name="n", description="d", strict=True)},
        {
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {"title": "n", "description": "d", **CLOSED},
                }
            }
        },
    ),
    Row(
        "answer by a schema that need not be kept",
        {"response_format": schema_format(CLOSED, name="n", strict=False)},
        {"output_config": {"format": {"type": "json_schema", "schema": {"title": "n", **CLOSED}}}},
        {"response_format": KNOB},
    ),
    Row(
        "answer by a schema, for a model that takes none",
        {"response_format": schema_format(CLOSED, name="n")},
        {},
        {"response_format": CONTENT},
        upstream={"structured_output": False},
    ),
    Row(
        "answer as some JSON",
        {"response_format": {"type": "json_object"}},
        {},
        {"response_format": KNOB},
    ),
    Row("end user", {"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
    Row("end user, older field", {"user": "u"}, {"metadata": {"user_id": "u"}}),
    Row(
        "end user in both fields",
        {"safety_identifier": "s", "user": "u"},
        {"metadata": {"user_id": "s"}},
        {"user": KNOB},
    ),
    Row("cache mark", marked(None), {"messages": cached(None)}),
    Row(
        "cache mark of 30 minutes",
        marked("30m"),
        {"messages": cached("5m")},
        {"messages[0].content[0].prompt_cache_breakpoint": KNOB},
    ),
    Row(
        "cache mark of 30 minutes, as an hour",
        marked("30m"),
        {"messages": cached("1h")},
        {"messages[0].content[0].prompt_cache_breakpoint": KNOB},
        upstream={"cache_ttl_30m_as": "1h"},
    ),
    Row(
        "cache mark of 12 hours",
        marked("12h"),
        {"messages": cached("1h")},
        {"messages[0].content[0].prompt_cache_breakpoint": KNOB},
    ),
    Row(
        "cache mark of 12 hours behind a shorter one",
        marked(None, "12h"),
        {"messages": cached(None, "5m")},
        {"messages[0].content[1].prompt_cache_breakpoint": KNOB},
    ),
    Row(
        "cache unasked", {}, {"cache_control": {"type": "ephemeral"}}, upstream={"auto_cache": True}
    ),
    Row(
        "cache unasked, but the client marks itself",
        {"prompt_cache_options": {"mode": "explicit"}},
        {"cache_control": ABSENT},
        {"prompt_cache_options": KNOB},
        upstream={"auto_cache": True},
    ),
    Row("service tier auto", {"service_tier": "auto"}, {"service_tier": "auto"}),
    Row("service tier default", {"service_tier": "default"}, {"service_tier": "standard_only"}),
    *(
        Row(f"service tier {tier}", {"service_tier": tier}, {}, {"service_tier": KNOB})
        for tier in ("flex", "scale", "priority", "fast")
    ),
    *(
        Row(
            f"service tier {tier} as speed",
            {"service_tier": tier},
            {"speed": "fast"},
            {},
            {"map_fast": True},
        )
        for tier in ("priority", "fast")
    ),
    Row("stream", {"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    Row(
        "stream with padding",
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        {"stream": True},
        {"stream_options.include_obfuscation": KNOB},
    ),
    Row("a word for a number", {"temperature": "[undefined]"}, invalid="temperature"),
]


def effort(word: str, **fields: Any) -> JsonObject:
    return {"reasoning_effort": word, "max_tokens": 100_000, **fields}


LIMIT = {"max_tokens": 100_000}
FORCED = {"tools": [F], "tool_choice": "required"}

THINKING = [
    Row("no effort given", {}),
    Row("effort none", effort("none"), {**LIMIT, "thinking": {"type": "disabled"}}),
    Row(
        "effort none, for a model that always thinks",
        effort("none"),
        {**LIMIT, "output_config": {"effort": "low"}},
        {"reasoning_effort": CONVERTED},
        upstream={"disable_thinking": False},
    ),
    Row(
        "effort minimal",
        effort("minimal"),
        {**LIMIT, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"reasoning_effort": CONVERTED},
    ),
    *(
        Row(
            f"effort {word}",
            effort(word),
            {**LIMIT, "thinking": {"type": "adaptive"}, "output_config": {"effort": word}},
        )
        for word in ("low", "medium", "high", "xhigh", "max")
    ),
    Row(
        "effort xhigh, for a model without it",
        effort("xhigh"),
        {**LIMIT, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        {"reasoning_effort": CONVERTED},
        upstream={"efforts": ("low", "medium", "high")},
    ),
    Row(
        "effort none, by budget",
        effort("none"),
        {**LIMIT, "thinking": {"type": "disabled"}},
        upstream=BUDGETS,
    ),
    *(
        Row(
            f"effort {word}, by budget",
            effort(word),
            {**LIMIT, "thinking": {"type": "enabled", "budget_tokens": budget}},
            upstream=BUDGETS,
        )
        for word, budget in (
            ("minimal", 1024),
            ("low", 2048),
            ("medium", 8192),
            ("high", 16384),
            ("xhigh", 32768),
            ("max", 65536),
        )
    ),
    Row(
        "a budget of the operator's own",
        effort("high"),
        {**LIMIT, "thinking": {"type": "enabled", "budget_tokens": 5000}},
        upstream={**BUDGETS, "thinking_budgets": {"high": 5000}},
    ),
    Row(
        "a budget that leaves the answer a quarter",
        effort("high", max_tokens=8000),
        {"max_tokens": 8000, "thinking": {"type": "enabled", "budget_tokens": 6000}},
        {"reasoning_effort": KNOB},
        upstream=BUDGETS,
    ),
    Row(
        "a budget that leaves the answer 1024",
        effort("high", max_tokens=2500),
        {"max_tokens": 2500, "thinking": {"type": "enabled", "budget_tokens": 1476}},
        {"reasoning_effort": KNOB},
        upstream=BUDGETS,
    ),
    Row(
        "no room for a budget",
        effort("high", max_tokens=1024),
        {"max_tokens": 1024, "thinking": {"type": "disabled"}},
        {"reasoning_effort": KNOB},
        upstream=BUDGETS,
    ),
    Row(
        "a forced call beside an effort",
        effort("high", **FORCED),
        {
            **LIMIT,
            "tools": [SENT_F],
            "tool_choice": {"type": "any"},
            "thinking": {"type": "disabled"},
            "output_config": {"effort": "high"},
        },
        {"reasoning_effort": KNOB},
    ),
    Row(
        "a forced call beside an effort, for a model that always thinks",
        effort("high", **FORCED),
        {
            **LIMIT,
            "tools": [SENT_F],
            "tool_choice": {"type": "auto"},
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
        },
        {"reasoning_effort": KNOB},
        upstream={"disable_thinking": False},
    ),
    Row(
        "a tool loop that began without thinking, by budget",
        effort("high", **msgs(HI, assistant(tool_calls=[call("c1")]), result("c1", "r"))),
        {
            **LIMIT,
            "messages": [
                said("user", "hi"),
                said("assistant", use("c1")),
                said("user", given("c1", "r")),
            ],
            "thinking": {"type": "disabled"},
        },
        {"reasoning_effort": KNOB},
        upstream=BUDGETS,
    ),
]

ROWS = [*TOOLS, *SETTINGS, *THINKING]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, A, row)

"""A Messages client before a Chat upstream: tools, settings and thinking of a request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import wire_chat as sent
from tests.tables.requests import (
    ABSENT,
    CLOSED,
    CONTENT,
    CONVERTED,
    KNOB,
    NO_ARGUMENTS,
    REPAIRED,
    SCHEMA,
    WEB,
    A,
    C,
    JsonObject,
    Row,
    check,
    ids,
)
from tests.tables.wire_messages import (
    EPHEMERAL,
    said,
    text,
    tool,
)

MARKS = {"prompt_cache_breakpoints": True}


def msgs(*messages: JsonObject) -> JsonObject:
    return {"messages": list(messages)}


def user(*blocks: JsonObject | str) -> JsonObject:
    return msgs(said("user", *blocks))


def one(content: Any) -> JsonObject:
    """`messages` with one user message, as it is sent."""
    return {"messages": [sent.user(content)]}


BLOCK = "messages[0].content[0]"
CACHED = f"{BLOCK}.cache_control"

T = tool("f", SCHEMA, description="d")
SENT_T = sent.function(description="d", parameters=SCHEMA)
LONG = "m" * 100
SHORT = "m" * 55 + "_f66dc0bd"


def chosen(**choice: Any) -> JsonObject:
    return {"tools": [T], "tool_choice": choice}


TOOLS = [
    # req: 25
    Row("client tool", {"tools": [T]}, {"tools": [SENT_T]}),
    Row("client tool that says so", {"tools": [{**T, "type": "custom"}]}, {"tools": [SENT_T]}),
    Row(
        "client tool with an empty schema",
        {"tools": [tool("g", {"type": "object"})]},
        {"tools": [sent.function("g", parameters=NO_ARGUMENTS)]},
    ),
    Row(
        "strict tool",
        {"tools": [tool("f", CLOSED, strict=True)]},
        {"tools": [sent.function(parameters=CLOSED, strict=True)]},
    ),
    Row(
        "strict tool whose schema OpenAI would refuse",
        {"tools": [tool("f", SCHEMA, strict=True)]},
        {"tools": [sent.function(parameters=SCHEMA, strict=False)]},
        {"tools[0].strict": KNOB},
    ),
    *(
        Row(f"tool with {name}", {"tools": [{**T, name: value}]}, {"tools": [SENT_T]}, {path: KNOB})
        for name, value, path in (
            ("cache_control", EPHEMERAL, "tools[0].cache_control"),
            ("defer_loading", True, "tools[0].defer_loading"),
            ("eager_input_streaming", True, "tools[0].eager_input_streaming"),
            ("allowed_callers", ["code_execution_20260120"], "tools[0].allowed_callers"),
            ("input_examples", [{"a": "b"}], "tools[0].input_examples"),
        )
    ),
    Row(
        "tool with a name too long for Chat",
        {"tools": [tool(LONG, SCHEMA)], "tool_choice": {"type": "tool", "name": LONG}},
        {
            "tools": [sent.function(SHORT, parameters=SCHEMA)],
            "tool_choice": sent.function(SHORT),
        },
    ),
    *(
        Row(
            f"{kind} tool",
            {"tools": [{"type": kind, "name": kind}, T]},
            {"tools": [SENT_T]},
            {"tools[0]": KNOB},
        )
        for kind in (
            "bash_20250124",
            "text_editor_20250728",
            "memory_20250818",
            "computer_toolset_20260801",
            "web_search_20260318",
            "code_execution_20260521",
            "tool_search_tool_regex",
            "mcp_toolset",
        )
    ),
    Row(
        "hosted tool, refused",
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {},
        {"tools[0]": CONTENT},
        {"hosted_tools": "reject"},
    ),
    *(
        Row(f"choice {kind}", chosen(type=kind), {"tools": [SENT_T], "tool_choice": word})
        for kind, word in (("auto", "auto"), ("any", "required"), ("none", "none"))
    ),
    # req: 26
    Row(
        "choice of a tool",
        chosen(type="tool", name="f"),
        {"tools": [SENT_T], "tool_choice": sent.function("f")},
    ),
    Row(
        "choice of a hosted tool",
        {
            "tools": [T, {"type": "web_search_20260318", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
        {"tools": [SENT_T]},
        {"tools[1]": KNOB, "tool_choice": CONTENT},
    ),
    Row("choice any, but no tools", {"tool_choice": {"type": "any"}}, {}, {"tool_choice": CONTENT}),
    Row(
        "no parallel calls",
        chosen(type="any", disable_parallel_tool_use=True),
        {"tools": [SENT_T], "tool_choice": "required", "parallel_tool_calls": False},
    ),
]

FORMAT = {"format": {"type": "json_schema", "schema": CLOSED}}
SENT_FORMAT = sent.schema_format(CLOSED, name="output", strict=True)
HASH = "2c9df2b3a1434b135d6ae66d05fa469fc17f1b26e904d889c96dfd14b49717be"
"""SHA-256 of two hundred u."""

SETTINGS = [
    # req: 27
    Row("output limit", {"max_tokens": 7}, {"max_completion_tokens": 7}),
    Row(
        "output limit under its older name",
        {"max_tokens": 7},
        {"max_tokens": 7, "max_completion_tokens": ABSENT},
        upstream={"max_tokens_field": "max_tokens"},
    ),
    Row(
        "output limit above the model's",
        {"max_tokens": 9000},
        {"max_completion_tokens": 8192},
        {"max_tokens": REPAIRED},
        upstream={"max_output_tokens": 8192},
    ),
    Row(
        "output limit of zero",
        {"max_tokens": 0},
        {"max_completion_tokens": ABSENT},
        {"max_tokens": CONTENT},
    ),
    Row("stop sequences", {"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
    Row(
        "five stop sequences",
        {"stop_sequences": list("abcde")},
        {"stop": list("abcd")},
        {"stop_sequences": CONVERTED},
    ),
    Row(
        "five stop sequences, the fifth refused",
        {"stop_sequences": list("abcde")},
        {"stop": list("abcd")},
        {"stop_sequences": CONTENT},
        {"stop_on_responses": "reject"},
    ),
    # req: 28
    Row("sampling", {"temperature": 0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    Row(
        "sampling, for a model that takes none",
        {"temperature": 0, "top_p": 0.5},
        {},
        {"temperature": KNOB, "top_p": KNOB},
        upstream={"sampling": False},
    ),
    Row("top_k", {"top_k": 5}, {}, {"top_k": KNOB}),
    Row("top_k, for a server that takes it", {"top_k": 5}, {"top_k": 5}, upstream={"top_k": True}),
    Row("answer by a schema", {"output_config": FORMAT}, {"response_format": SENT_FORMAT}),
    Row(
        "answer by a schema, older field",
        {"output_format": FORMAT["format"]},
        {"response_format": SENT_FORMAT},
    ),
    Row(
        "answer by a schema that OpenAI would refuse",
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"response_format": sent.schema_format(SCHEMA, name="output", strict=False)},
        {"output_config.format": CONVERTED},
    ),
    Row("end user", {"metadata": {"user_id": "u"}}, {"safety_identifier": "u"}),
    Row(
        "end user with a long id",
        {"metadata": {"user_id": "u" * 200}},
        {"safety_identifier": HASH},
        {"metadata.user_id": CONVERTED},
    ),
    Row("service tier auto", {"service_tier": "auto"}),
    Row(
        "service tier standard_only", {"service_tier": "standard_only"}, {"service_tier": "default"}
    ),
    Row("speed", {"speed": "fast"}, {}, {"speed": KNOB}),
    Row("speed as a tier", {"speed": "fast"}, {"service_tier": "fast"}, {}, {"map_fast": True}),
    Row("no speed as no tier", {}, {}, {}, {"map_fast": True}),
    *(
        Row(f"{name}", {name: value}, {}, {name: kind})
        for name, value, kind in (
            ("inference_geo", "us", KNOB),
            ("diagnostics", {"previous_message_id": None}, KNOB),
            ("context_management", {"edits": [{"type": "clear_thinking_20251015"}]}, KNOB),
            ("safeguards", {"a": 1}, CONTENT),
            ("tags", ["a"], KNOB),
            ("a_field_nobody_knows", 1, KNOB),
            ("mcp_servers", [{"type": "url", "url": WEB, "name": "n"}], CONTENT),
            ("container", "c", CONTENT),
            ("fallbacks", [{"model": "x"}], CONTENT),
            ("compaction", {"type": "auto"}, CONTENT),
        )
    ),
    Row(
        "empty lists of what no other upstream has",
        {"mcp_servers": [], "fallbacks": [], "context_management": {"edits": []}},
    ),
    Row("a thread", {"thread": {"type": "create"}}, invalid="thread"),
    Row(
        "task budget",
        {"output_config": {"task_budget": {"type": "tokens", "total": 9}}},
        {},
        {"output_config.task_budget": KNOB},
    ),
    # req: 30
    Row(
        "cache marks",
        {
            "system": [text("s", cache_control=EPHEMERAL)],
            "cache_control": EPHEMERAL,
            **user(text("x", cache_control=EPHEMERAL)),
        },
        {"messages": [sent.system("s"), sent.user("x")]},
        {"system[0].cache_control": KNOB, "cache_control": KNOB, CACHED: KNOB},
    ),
    Row(
        "cache mark, for an upstream that takes it",
        user(text("x", cache_control=EPHEMERAL)),
        one([text("x", prompt_cache_breakpoint={"mode": "explicit"})]),
        upstream=MARKS,
    ),
    Row(
        "cache mark for an hour",
        user(text("x", cache_control={**EPHEMERAL, "ttl": "1h"})),
        one([text("x", prompt_cache_breakpoint={"mode": "explicit"})]),
        {CACHED: KNOB},
        upstream=MARKS,
    ),
    Row(
        "five cache marks",
        user(*(text(str(n), cache_control=EPHEMERAL) for n in range(5))),
        one(
            [text("0")]
            + [text(str(n), prompt_cache_breakpoint={"mode": "explicit"}) for n in range(1, 5)]
        ),
        {CACHED: KNOB},
        upstream=MARKS,
    ),
    Row(
        "stream",
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
    ),
    Row(
        "stream, from a server that takes no wish for usage",
        {"stream": True},
        {"stream": True},
        upstream={"stream_usage": False},
    ),
]


def asked(value: JsonObject, **fields: Any) -> JsonObject:
    return {"thinking": value, "max_tokens": 64_000, **fields}


LIMIT = {"max_completion_tokens": 64_000}

THINKING = [
    Row("disabled", asked({"type": "disabled"}), {**LIMIT, "reasoning_effort": "none"}),
    Row(
        "disabled, for a model without none",
        asked({"type": "disabled"}),
        {**LIMIT, "reasoning_effort": "minimal"},
        {"thinking": CONVERTED},
        upstream={"efforts": ("minimal", "low", "medium", "high")},
    ),
    Row("adaptive", asked({"type": "adaptive"}), LIMIT),
    Row(
        "adaptive, for a server where thinking is on or off",
        asked({"type": "adaptive"}),
        LIMIT,
        {"thinking": KNOB},
        upstream={"effort": "enable_thinking"},
    ),
    Row(
        "between tools",
        asked({"type": "between_tools"}),
        {**LIMIT, "reasoning_effort": "none"},
        {"thinking": CONVERTED},
    ),
    *(
        Row(
            f"budget of {budget}",
            asked({"type": "enabled", "budget_tokens": budget}),
            {**LIMIT, "reasoning_effort": effort},
            {"thinking": CONVERTED},
        )
        for budget, effort in (
            (2048, "low"),
            (2049, "medium"),
            (12288, "medium"),
            (12289, "high"),
            (32768, "high"),
            (32769, "xhigh"),
        )
    ),
    *(
        Row(
            f"effort {effort}",
            {"output_config": {"effort": effort}},
            {"reasoning_effort": effort},
        )
        for effort in ("low", "medium", "high", "xhigh", "max")
    ),
    Row(
        "an effort says more than the mode",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        {"reasoning_effort": "max"},
    ),
    Row(
        "effort max, for a model without it",
        {"output_config": {"effort": "max"}},
        {"reasoning_effort": "high"},
        {"output_config.effort": CONVERTED},
        upstream={"efforts": ("low", "medium", "high")},
    ),
    Row(
        "how thinking is shown is the gateway's affair",
        {
            "thinking": {"type": "adaptive", "display": "omitted"},
            "output_config": {"effort": "low"},
        },
        {"reasoning_effort": "low"},
    ),
    *(
        Row(
            f"effort as {style}, {effort}",
            asked({"type": "disabled"} if effort == "none" else {"type": "adaptive"})
            | ({} if effort == "none" else {"output_config": {"effort": effort}}),
            {**LIMIT, **written},
            {} if effort == "none" else {"thinking": CONVERTED},
            upstream={"effort": style},
        )
        for style, effort, written in (
            ("chat_template_kwargs", "high", {"chat_template_kwargs": {"enable_thinking": True}}),
            ("chat_template_kwargs", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
            ("enable_thinking", "high", {"enable_thinking": True}),
            ("enable_thinking", "none", {"enable_thinking": False}),
        )
    ),
    *(
        Row(
            f"tools and {asked}, for a model that takes no reasoning beside tools",
            {"tools": [T], **given},
            {"tools": [SENT_T], "reasoning_effort": "none"},
            lost,
            upstream={"reasoning_with_tools": False},
        )
        for asked, given, lost in (
            ("an effort", {"output_config": {"effort": "high"}}, {"output_config.effort": KNOB}),
            ("no effort", {}, {"thinking": KNOB}),
            ("no thinking", {"thinking": {"type": "disabled"}}, {}),
        )
    ),
    Row(
        "an effort without tools, for a model that takes no reasoning beside tools",
        {"output_config": {"effort": "high"}},
        {"reasoning_effort": "high"},
        upstream={"reasoning_with_tools": False},
    ),
    # req: 29
    Row(
        "a server that cannot be asked to think",
        {"output_config": {"effort": "high"}},
        {},
        {"output_config.effort": KNOB},
        upstream={"effort": "none"},
    ),
]

ROWS = [*TOOLS, *SETTINGS, *THINKING]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, C, row)

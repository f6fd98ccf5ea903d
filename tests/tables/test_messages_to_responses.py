"""A Messages client before a Responses upstream: requests."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import Sealer
from tests.tables import wire_responses as sent
from tests.tables.requests import (
    ABSENT,
    CLOSED,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    REPAIRED,
    SCHEMA,
    UNAVAILABLE,
    WEB,
    A,
    JsonObject,
    R,
    Row,
    check,
    ids,
)
from tests.tables.wire_messages import (
    EPHEMERAL,
    given,
    linked,
    note,
    pdf,
    picture,
    said,
    stored,
    text,
    thinking,
    tool,
    use,
)

SENT_HI = sent.user("hi")
MARKS = {"prompt_cache_breakpoints": True}
EXPLICIT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def msgs(*messages: JsonObject) -> JsonObject:
    return {"messages": list(messages)}


def user(*blocks: JsonObject | str) -> JsonObject:
    return msgs(said("user", *blocks))


def answered(number: int, *content: JsonObject) -> JsonObject:
    """A message of the model that takes more than a string, as it is sent."""
    head = {"id": f"msg_{number}", "status": "completed"}
    return sent.message("assistant", list(content), **head)


def looped(*blocks: JsonObject | str) -> JsonObject:
    """`messages` with a call, and the user's turn after it."""
    return msgs(HI, said("assistant", use("c1")), said("user", *blocks))


def sent_looped(*found: JsonObject) -> JsonObject:
    return sent.items(SENT_HI, sent.call("c1"), *found)


X = sent.items(sent.user("x"))
BLOCK = "messages[0].content[0]"
CACHED = f"{BLOCK}.cache_control"

OWN_STATE = Sealer().seal(Reasoning(parts=("t",), opaque=Opaque(R, "E", "rs_1")))

MESSAGES = [
    Row("system as a string", {"system": "s"}, {"instructions": "s"}),
    Row("system as blocks", {"system": [text("a"), text("b")]}, {"instructions": "a\n\nb"}),
    Row(
        "system with a cache mark",
        {"system": [text("a"), text("b", cache_control=EPHEMERAL)]},
        sent.items(
            sent.message("developer", [sent.text("a"), sent.text("b", **EXPLICIT)]), SENT_HI
        ),
        upstream=MARKS,
    ),
    Row(
        "system with a cache mark nobody takes",
        {"system": [text("a"), text("b", cache_control=EPHEMERAL)]},
        sent.items(sent.message("developer", [sent.text("a"), sent.text("b")]), SENT_HI),
        {"system[1].cache_control": KNOB},
    ),
    Row(
        "the billing header of Claude Code",
        {"system": [text("x-anthropic-billing-header: cch=1"), text("b")]},
        {"instructions": "b"},
        {"system[0]": KNOB},
    ),
    Row(
        "the billing header of Claude Code before other text",
        {"system": "x-anthropic-billing-header: cch=1\n\nb"},
        {"instructions": "b"},
        {"system": KNOB},
    ),
    Row(
        "the billing header of Claude Code inside the conversation",
        msgs(HI, said("system", text("x-anthropic-billing-header: cch=1"))),
        sent.items(SENT_HI),
        {"messages[1].content[0]": KNOB},
    ),
    Row(
        "system messages inside the conversation",
        msgs(HI, said("system", "late"), said("assistant", "x"), HI),
        sent.items(
            SENT_HI, sent.message("developer", "late"), sent.message("assistant", "x"), SENT_HI
        ),
    ),
    Row("user text", user("a", "b"), sent.parts(sent.text("a"), sent.text("b"))),
    Row(
        "assistant text",
        msgs(HI, said("assistant", "a"), HI),
        sent.items(SENT_HI, sent.message("assistant", "a"), SENT_HI),
    ),
    Row(
        "assistant texts",
        msgs(HI, said("assistant", "a", "b"), HI),
        sent.items(SENT_HI, answered(1, sent.told("a"), sent.told("b")), SENT_HI),
    ),
    Row(
        "images",
        user(picture(PNG), linked(WEB)),
        sent.parts(sent.image(PNG_URL), sent.image(WEB)),
    ),
    Row("image in Anthropic's store", user(stored("file_1"), "x"), X, {BLOCK: CONTENT}),
    Row("document in a store", user(stored("f", "document"), "x"), X, {BLOCK: CONTENT}),
    Row(
        "PDF",
        user(pdf(PDF, title="T")),
        sent.parts(sent.file(filename="T", file_data=PDF_URL)),
    ),
    Row(
        "PDF without a title",
        user(pdf(PDF)),
        sent.parts(sent.file(filename="document.pdf", file_data=PDF_URL)),
    ),
    Row("document by URL", user(linked(WEB, "document")), sent.parts(sent.file(file_url=WEB))),
    Row(
        "text document",
        user(note("body", title="T")),
        sent.items(sent.user("Document: T\n\nbody")),
        {BLOCK: CONVERTED},
    ),
    Row(
        "document of blocks, an image among them",
        user(
            {
                "type": "document",
                "title": "T",
                "source": {"type": "content", "content": [text("a"), picture(PNG)]},
            }
        ),
        sent.parts(sent.text("Document: T"), sent.text("a"), sent.image(PNG_URL)),
        {BLOCK: CONVERTED},
    ),
    Row(
        "context of a document, and a wish for citations",
        user(pdf(PDF, context="about", citations={"enabled": True})),
        sent.parts(sent.text("about"), sent.file(filename="document.pdf", file_data=PDF_URL)),
        {f"{BLOCK}.context": CONVERTED, f"{BLOCK}.citations": KNOB},
    ),
    Row(
        "search result",
        user({"type": "search_result", "source": WEB, "title": "T", "content": [text("a")]}),
        sent.items(sent.user(f"T\n{WEB}\n\na")),
        {BLOCK: CONVERTED},
    ),
    Row(
        "thinking of another model",
        msgs(HI, said("assistant", thinking("t", "s"), thinking("t", ""), "x"), HI),
        sent.items(SENT_HI, sent.message("assistant", "x"), SENT_HI),
        {"messages[1].content[0]": KNOB, "messages[1].content[1]": KNOB},
    ),
    Row(
        "own reasoning that led to nothing",
        msgs(HI, said("assistant", thinking("t", OWN_STATE)), HI),
        sent.items(SENT_HI, SENT_HI),
        {"messages[1].content[0]": KNOB},
    ),
    Row(
        "own reasoning",
        msgs(HI, said("assistant", thinking("t", OWN_STATE), "x"), HI),
        sent.items(
            SENT_HI,
            {**sent.summarized("t"), "encrypted_content": "E"},
            sent.message("assistant", "x"),
            SENT_HI,
        ),
    ),
    Row(
        "a call between texts keeps its place",
        msgs(HI, said("assistant", "x", use("c1", {"a": 1}), "y"), said("user", given("c1", "r"))),
        sent.items(
            SENT_HI,
            sent.message("assistant", "x"),
            sent.call("c1", '{"a": 1}'),
            sent.message("assistant", "y"),
            sent.output("c1", "r"),
        ),
    ),
    Row(
        "text, image and PDF in a result",
        looped(given("c1", [text("see"), picture(PNG), pdf(PDF, title="a.pdf")]), "more"),
        sent_looped(
            sent.output(
                "c1",
                [
                    sent.text("see"),
                    sent.image(PNG_URL),
                    sent.file(filename="a.pdf", file_data=PDF_URL),
                ],
            ),
            sent.user("more"),
        ),
    ),
    Row("result of one text", looped(given("c1", "r")), sent_looped(sent.output("c1", "r"))),
    Row("result without content", looped(given("c1")), sent_looped(sent.output("c1", ""))),
    # req: 52
    Row(
        "failed tool",
        looped(given("c1", "bad", is_error=True)),
        sent_looped(sent.output("c1", "bad")),
        {"messages[2].content[0]": KNOB},
    ),
    Row(
        "failed tool, with a prefix",
        looped(given("c1", "bad", is_error=True)),
        sent_looped(sent.output("c1", "Error: bad")),
        {"messages[2].content[0]": CONVERTED},
        {"tool_error_prefix": "Error: "},
    ),
    Row(
        "a found tool as the result",
        looped(given("c1", [{"type": "tool_reference", "tool_name": "g"}])),
        sent_looped(sent.output("c1", "Tool found: g")),
        {"messages[2].content[0].content[0]": CONVERTED},
    ),
    Row(
        "a call without a result",
        looped("more"),
        sent_looped(sent.output("c1", UNAVAILABLE), sent.user("more")),
        {"messages[1].content[0]": REPAIRED},
    ),
    Row("a result without a call", user(given("c9", "r"), "x"), X, {BLOCK: CONTENT}),
    Row(
        "server tools in the history",
        msgs(
            HI,
            said(
                "assistant",
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                "x",
            ),
            HI,
        ),
        sent.items(SENT_HI, sent.message("assistant", "x"), SENT_HI),
        {"messages[1].content[0]": CONTENT, "messages[1].content[1]": CONTENT},
    ),
    Row(
        "a prefill",
        msgs(HI, said("assistant", "so")),
        sent.items(SENT_HI, sent.message("assistant", "so")),
        {"messages[1]": CONVERTED},
    ),
]

T = tool("f", SCHEMA, description="d")
SENT_T = sent.function(description="d", parameters=SCHEMA, strict=False)


def chosen(**choice: Any) -> JsonObject:
    return {"tools": [T], "tool_choice": choice}


TOOLS = [
    Row("client tool", {"tools": [T]}, {"tools": [SENT_T]}),
    Row(
        "a schema that says no more than object",
        {"tools": [tool("f", {"type": "object"})]},
        {"tools": [sent.function(parameters={"type": "object", "properties": {}}, strict=False)]},
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
        Row(
            f"tool with {name}",
            {"tools": [{**T, name: value}]},
            {"tools": [SENT_T]},
            {f"tools[0].{name}": KNOB},
        )
        for name, value in (
            ("cache_control", EPHEMERAL),
            ("defer_loading", True),
            ("eager_input_streaming", True),
            ("allowed_callers", ["code_execution_20260120"]),
            ("input_examples", [{"a": "b"}]),
        )
    ),
    *(
        Row(
            f"{kind} tool",
            {"tools": [{"type": kind, "name": kind}, T]},
            {"tools": [SENT_T]},
            {"tools[0]": KNOB},
        )
        for kind in ("bash_20250124", "web_search_20260318", "computer_toolset_20260801")
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
    Row(
        "choice of a tool",
        chosen(type="tool", name="f"),
        {"tools": [SENT_T], "tool_choice": sent.function()},
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
        chosen(type="auto", disable_parallel_tool_use=True),
        {"tools": [SENT_T], "tool_choice": "auto", "parallel_tool_calls": False},
    ),
]

FORMAT = {"format": {"type": "json_schema", "schema": CLOSED}}
HASH = "2c9df2b3a1434b135d6ae66d05fa469fc17f1b26e904d889c96dfd14b49717be"
"""SHA-256 of two hundred u."""

SETTINGS = [
    Row("nothing is stored", {}, {"store": False}),
    Row("output limit", {"max_tokens": 100}, {"max_output_tokens": 100}),
    Row(
        "an output limit below the least",
        {"max_tokens": 5},
        {"max_output_tokens": 16},
        {"max_tokens": REPAIRED},
    ),
    Row(
        "an output limit of zero only warms the cache",
        {"max_tokens": 0},
        {"max_output_tokens": ABSENT, "prompt_cache_options": {"prewarm": True}},
    ),
    Row("stop sequences", {"stop_sequences": ["a"]}, {}, {"stop_sequences": CONVERTED}),
    Row(
        "stop sequences, dropped",
        {"stop_sequences": ["a"]},
        {},
        {"stop_sequences": KNOB},
        {"stop_on_responses": "drop"},
    ),
    Row(
        "stop sequences, refused",
        {"stop_sequences": ["a"]},
        {},
        {"stop_sequences": CONTENT},
        {"stop_on_responses": "reject"},
    ),
    Row(
        "a stop sequence too long to be emulated",
        {"stop_sequences": ["a" * 1025]},
        {},
        {"stop_sequences": CONTENT},
    ),
    Row("sampling", {"temperature": 0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    Row(
        "sampling, for a model that takes none",
        {"temperature": 0, "top_p": 0.5},
        {},
        {"temperature": KNOB, "top_p": KNOB},
        upstream={"sampling": False},
    ),
    Row("top_k", {"top_k": 5}, {}, {"top_k": KNOB}),
    Row(
        "answer by a schema",
        {"output_config": FORMAT},
        {"text": {"format": sent.schema_format(CLOSED, name="output", strict=True)}},
    ),
    Row(
        "answer by a schema that OpenAI would refuse",
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"text": {"format": sent.schema_format(SCHEMA, name="output", strict=False)}},
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
    *(
        Row(f"{name}", {name: value}, {}, {name: kind})
        for name, value, kind in (
            ("inference_geo", "us", KNOB),
            ("diagnostics", {"previous_message_id": None}, KNOB),
            ("context_management", {"edits": [{"type": "clear_thinking_20251015"}]}, KNOB),
            ("a_field_nobody_knows", 1, KNOB),
            ("mcp_servers", [{"type": "url", "url": WEB, "name": "n"}], CONTENT),
            ("container", "c", CONTENT),
            ("fallbacks", [{"model": "x"}], CONTENT),
            ("compaction", {"type": "auto"}, CONTENT),
        )
    ),
    Row("a thread", {"thread": {"type": "create"}}, invalid="thread"),
    Row(
        "cache marks",
        {"cache_control": EPHEMERAL, **user(text("x", cache_control=EPHEMERAL))},
        X,
        {"cache_control": KNOB, CACHED: KNOB},
    ),
    Row(
        "cache mark for an hour, for an upstream that takes marks",
        user(text("x", cache_control={**EPHEMERAL, "ttl": "1h"})),
        sent.parts(sent.text("x", **EXPLICIT)),
        {CACHED: KNOB},
        upstream=MARKS,
    ),
    Row(
        "five cache marks",
        user(*(text(str(n), cache_control=EPHEMERAL) for n in range(5))),
        sent.parts(sent.text("0"), *(sent.text(str(n), **EXPLICIT) for n in range(1, 5))),
        {CACHED: KNOB},
        upstream=MARKS,
    ),
    Row(
        "stream",
        {"stream": True},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
    ),
]


def asked(value: JsonObject, **fields: Any) -> JsonObject:
    return {"thinking": value, "max_tokens": 64_000, **fields}


LIMIT = {"max_output_tokens": 64_000}
STATE = {"include": ["reasoning.encrypted_content"]}

THINKING = [
    Row("disabled", asked({"type": "disabled"}), {**LIMIT, "reasoning": {"effort": "none"}}),
    Row(
        "disabled, for a model without none",
        asked({"type": "disabled"}),
        {**LIMIT, "reasoning": {"effort": "minimal"}},
        {"thinking": CONVERTED},
        upstream={"efforts": ("minimal", "low", "medium", "high")},
    ),
    Row(
        "adaptive",
        asked({"type": "adaptive"}),
        {**LIMIT, **STATE, "reasoning": {"summary": "auto"}},
    ),
    Row(
        "adaptive, not to be shown",
        asked({"type": "adaptive", "display": "omitted"}),
        LIMIT | STATE,
    ),
    Row(
        "between tools",
        asked({"type": "between_tools"}),
        {**LIMIT, "reasoning": {"effort": "none"}},
        {"thinking": CONVERTED},
    ),
    *(
        Row(
            f"budget of {budget}",
            asked({"type": "enabled", "budget_tokens": budget}),
            {**LIMIT, **STATE, "reasoning": {"effort": effort, "summary": "auto"}},
            {"thinking": CONVERTED},
        )
        for budget, effort in ((2048, "low"), (2049, "medium"), (12289, "high"), (32769, "xhigh"))
    ),
    *(
        Row(
            f"effort {effort}",
            asked({"type": "adaptive"}, output_config={"effort": effort}),
            {**LIMIT, **STATE, "reasoning": {"effort": effort, "summary": "auto"}},
        )
        for effort in ("low", "medium", "high", "xhigh", "max")
    ),
    Row(
        "effort max, for a model without it",
        {"output_config": {"effort": "max"}},
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"output_config.effort": CONVERTED},
        upstream={"efforts": ("low", "medium", "high")},
    ),
    Row(
        "thinking that is shown to nobody",
        asked({"type": "adaptive"}, output_config={"effort": "low"}),
        {**LIMIT, "reasoning": {"effort": "low"}},
        {},
        {"show_reasoning": "never"},
    ),
    Row(
        "a way of showing that only Anthropic has",
        asked({"type": "adaptive", "display": "updates"}),
        {**LIMIT, **STATE, "reasoning": {"summary": "auto"}},
        {"thinking": KNOB},
    ),
    Row(
        "an upstream without reasoning state",
        asked({"type": "adaptive"}),
        {**LIMIT, "reasoning": {"summary": "auto"}},
        upstream={"encrypted_reasoning": False},
    ),
]

ROWS = [*MESSAGES, *TOOLS, *SETTINGS, *THINKING]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, R, row)

"""A Chat client before a Responses upstream: requests."""

from __future__ import annotations

import pytest

from tests.tables import wire_responses as sent
from tests.tables.requests import (
    CLOSED,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    NO_ARGUMENTS,
    NOTE,
    PDF_URL,
    PNG_URL,
    REPAIRED,
    SCHEMA,
    UNAVAILABLE,
    WEB,
    C,
    JsonObject,
    R,
    Row,
    check,
    ids,
)
from tests.tables.wire_chat import (
    allowed,
    assistant,
    call,
    file,
    free,
    free_call,
    function,
    grammar,
    image,
    msgs,
    parts,
    result,
    schema_format,
    system,
    text,
    user,
)

ASKS_STATE = ["reasoning.encrypted_content"]
SENT_HI = sent.user("hi")


def answered(number: int, *content: JsonObject) -> JsonObject:
    """A message of the model that takes more than a string, as it is sent."""
    head = {"id": f"msg_{number}", "status": "completed"}
    return sent.message("assistant", list(content), **head)


def one(*content: JsonObject) -> JsonObject:
    return sent.parts(*content)


PART = "messages[0].content[0]"

MESSAGES = [
    Row(
        "system and developer texts keep role and place",
        msgs(system("s"), HI, system("d", "developer"), HI),
        sent.items(sent.message("system", "s"), SENT_HI, sent.message("developer", "d"), SENT_HI),
    ),
    Row(
        "system parts",
        msgs(system([text("a"), text("b")]), HI),
        sent.items(sent.message("system", [sent.text("a"), sent.text("b")]), SENT_HI),
    ),
    Row(
        "images",
        parts(image(PNG_URL), image(WEB, detail="high")),
        one(sent.image(PNG_URL), sent.image(WEB, "high")),
    ),
    Row(
        "files",
        parts(file(file_data=PDF_URL, filename="a.pdf"), file(file_id="file-1")),
        one(sent.file(file_data=PDF_URL, filename="a.pdf"), sent.file(file_id="file-1")),
    ),
    *(
        Row(
            f"a file of the type {kind} without a name",
            parts(file(file_data=f"data:{kind};base64,{NOTE}")),
            one(sent.file(filename=name, file_data=f"data:{kind};base64,{NOTE}")),
        )
        for kind, name in (
            ("application/pdf", "document.pdf"),
            ("text/csv", "document.txt"),
            ("application/zip", "document"),
        )
    ),
    Row(
        "recorded sound",
        parts({"type": "input_audio", "input_audio": {"data": NOTE, "format": "wav"}}, text("x")),
        sent.items(sent.user("x")),
        {PART: CONTENT},
    ),
    Row(
        "spoken answers",
        {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}},
        {},
        {"modalities": CONTENT, "audio": CONTENT},
    ),
    Row(
        "assistant text",
        msgs(HI, assistant("x"), HI),
        sent.items(SENT_HI, sent.message("assistant", "x"), SENT_HI),
    ),
    Row(
        "assistant text parts",
        msgs(HI, assistant([text("a"), text("b")]), HI),
        sent.items(SENT_HI, answered(1, sent.told("a"), sent.told("b")), SENT_HI),
    ),
    Row(
        "assistant refusal",
        msgs(HI, assistant(None, refusal="no"), HI),
        sent.items(SENT_HI, answered(1, sent.refused("no")), SENT_HI),
    ),
    Row(
        "assistant refusal part after text",
        msgs(HI, assistant([text("a"), {"type": "refusal", "refusal": "no"}]), HI),
        sent.items(SENT_HI, answered(1, sent.told("a"), sent.refused("no")), SENT_HI),
    ),
    *(
        Row(
            f"reasoning of another model in {name}",
            msgs(HI, assistant("x", **{name: value}), HI),
            sent.items(SENT_HI, sent.message("assistant", "x"), SENT_HI),
            {f"messages[1].{name}": KNOB},
        )
        for name, value in (
            ("reasoning_content", "t"),
            ("reasoning", "t"),
            ("reasoning_details", [{"type": "reasoning.text", "text": "t", "signature": "s"}]),
        )
    ),
    Row(
        "calls of both kinds and their results",
        msgs(
            HI,
            assistant("x", tool_calls=[call("c1", '{"a": 1}'), free_call("c2"), call("c3", "")]),
            result("c1", "r1"),
            result("c2", [text("p"), text("q")]),
            result("c3", ""),
            user("more"),
        ),
        sent.items(
            SENT_HI,
            sent.message("assistant", "x"),
            sent.call("c1", '{"a": 1}'),
            sent.free_call("c2"),
            sent.call("c3", "{}"),
            sent.output("c1", "r1"),
            sent.free_output("c2", [sent.text("p"), sent.text("q")]),
            sent.output("c3", ""),
            sent.user("more"),
        ),
    ),
    Row(
        "an id too long for the service",
        msgs(HI, assistant(tool_calls=[call("c" * 70)]), result("c" * 70, "r")),
        sent.items(
            SENT_HI, sent.call("c" * 55 + "_6fe5981a"), sent.output("c" * 55 + "_6fe5981a", "r")
        ),
    ),
    Row(
        "a call without a result",
        msgs(HI, assistant(tool_calls=[call("c1")]), user("more")),
        sent.items(SENT_HI, sent.call("c1"), sent.output("c1", UNAVAILABLE), sent.user("more")),
        {"messages[1].tool_calls[0]": REPAIRED},
    ),
    Row("a result without a call", msgs(HI, result("c9", "r")), {}, {"messages[1]": CONTENT}),
    Row(
        "legacy function_call and the role function",
        msgs(
            HI,
            assistant("x", function_call={"name": "f", "arguments": "{}"}),
            {"role": "function", "name": "f", "content": "r"},
            HI,
        ),
        sent.items(SENT_HI, sent.message("assistant", "x"), SENT_HI),
        {"messages[1].function_call": CONTENT, "messages[2]": CONTENT},
    ),
]

OFFER = {"tools": [function(description="d", parameters=SCHEMA), free()]}
SENT_OFFER = {
    "tools": [sent.function(description="d", parameters=SCHEMA, strict=False), sent.free()]
}

TOOLS = [
    Row(
        "function tool: what is not said to be strict is said not to be",
        {"tools": [function(parameters=SCHEMA)]},
        {"tools": [sent.function(parameters=SCHEMA, strict=False)]},
    ),
    Row(
        "function without parameters",
        {"tools": [function()]},
        {"tools": [sent.function(parameters=NO_ARGUMENTS, strict=False)]},
    ),
    Row(
        "parameters without a root type",
        {"tools": [function(parameters={"properties": {"a": {}}})]},
        {
            "tools": [
                sent.function(parameters={"type": "object", "properties": {"a": {}}}, strict=False)
            ]
        },
        {"tools[0].function": REPAIRED},
    ),
    Row(
        "strict function",
        {"tools": [function(parameters=CLOSED, strict=True)]},
        {"tools": [sent.function(parameters=CLOSED, strict=True)]},
    ),
    Row(
        "strict function with a schema that cannot be",
        {"tools": [function(parameters=SCHEMA, strict=True)]},
        {"tools": [sent.function(parameters=SCHEMA, strict=False)]},
        {"tools[0].function.strict": KNOB},
    ),
    Row(
        "free-text tools",
        {"tools": [free(description="d", format=grammar("x")), free("h", format={"type": "text"})]},
        {"tools": [sent.free(description="d", format=sent.grammar("x")), sent.free("h")]},
    ),
    Row(
        "a free-text tool in the form of Responses",
        {"tools": [{"type": "custom", "name": "g", "format": sent.grammar("x")}]},
        {"tools": [sent.free(format=sent.grammar("x"))]},
    ),
    Row(
        "legacy functions and their choice",
        {"functions": [{"name": "f", "parameters": SCHEMA}], "function_call": {"name": "f"}},
        {
            "tools": [sent.function(parameters=SCHEMA, strict=False)],
            "tool_choice": sent.function(),
        },
        {"functions": CONVERTED},
    ),
    *(
        Row(f"choice {word}", {**OFFER, "tool_choice": word}, {**SENT_OFFER, "tool_choice": word})
        for word in ("none", "auto", "required")
    ),
    Row(
        "choice of a function",
        {**OFFER, "tool_choice": function()},
        {**SENT_OFFER, "tool_choice": sent.function()},
    ),
    Row(
        "choice of a free-text tool",
        {**OFFER, "tool_choice": free()},
        {**SENT_OFFER, "tool_choice": sent.free()},
    ),
    Row(
        "allowed tools",
        {**OFFER, "tool_choice": allowed("required", function(), free())},
        {**SENT_OFFER, "tool_choice": sent.allowed("required", sent.function(), sent.free())},
    ),
    Row(
        "choice of a tool that is not offered",
        {**OFFER, "tool_choice": function("x")},
        SENT_OFFER,
        {"tool_choice": CONTENT},
    ),
    Row("choice required, but no tools", {"tool_choice": "required"}, {}, {"tool_choice": CONTENT}),
    Row(
        "no parallel calls",
        {**OFFER, "parallel_tool_calls": False},
        {**SENT_OFFER, "parallel_tool_calls": False},
    ),
    Row("web search", {"web_search_options": {}}, {}, {"web_search_options": KNOB}),
]

SCHEMA_FORMAT = schema_format(CLOSED, name="n", description="d", strict=True)
MARK = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}

SETTINGS = [
    Row("nothing is stored unless asked", {}, {"store": False}),
    Row("store", {"store": True}, {"store": True}),
    Row("output limit", {"max_completion_tokens": 100}, {"max_output_tokens": 100}),
    Row("older output limit", {"max_tokens": 100}, {"max_output_tokens": 100}),
    Row(
        "an output limit below the least",
        {"max_tokens": 5},
        {"max_output_tokens": 16},
        {"max_tokens": REPAIRED},
    ),
    Row(
        "an output limit above the model's",
        {"max_tokens": 9000},
        {"max_output_tokens": 8192},
        {"max_tokens": REPAIRED},
        upstream={"max_output_tokens": 8192},
    ),
    Row("sampling", {"temperature": 0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    Row(
        "log probabilities",
        {"logprobs": True, "top_logprobs": 3},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 3},
    ),
    Row("alternatives without log probabilities", {"top_logprobs": 3}, {}, {"top_logprobs": KNOB}),
    Row("two choices", {"n": 2}, {}, {"n": CONTENT}),
    Row("stop strings", {"stop": ["x"]}, {}, {"stop": CONVERTED}),
    Row(
        "stop strings, dropped",
        {"stop": ["x"]},
        {},
        {"stop": KNOB},
        {"stop_on_responses": "drop"},
    ),
    Row(
        "stop strings, refused",
        {"stop": ["x"]},
        {},
        {"stop": CONTENT},
        {"stop_on_responses": "reject"},
    ),
    *(
        Row(f"knob {name}", {name: value}, {}, {name: KNOB})
        for name, value in (
            ("seed", 1),
            ("logit_bias", {"1": 2}),
            ("frequency_penalty", 0.5),
            ("presence_penalty", 0.5),
            ("prediction", {"type": "content", "content": "x"}),
            ("top_k", 5),
            ("enable_thinking", True),
            ("a_field_nobody_knows", 1),
        )
    ),
    *(
        Row(f"the same {name}", {name: value}, {name: value})
        for name, value in (
            ("metadata", {"a": "b"}),
            ("user", "u"),
            ("safety_identifier", "s"),
            ("prompt_cache_key", "k"),
            ("prompt_cache_retention", "24h"),
            ("prompt_cache_options", {"mode": "explicit", "ttl": "30m"}),
            ("service_tier", "flex"),
            ("moderation", {"model": "x"}),
        )
    ),
    Row("answer as text", {"response_format": {"type": "text"}}),
    Row(
        "answer as some JSON",
        {"response_format": {"type": "json_object"}},
        {"text": {"format": {"type": "json_object"}}},
    ),
    Row(
        "answer by a schema",
        {"response_format": SCHEMA_FORMAT},
        {"text": {"format": sent.schema_format(CLOSED, name="n", description="d", strict=True)}},
    ),
    Row("verbosity", {"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    Row("effort none", {"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
    *(
        Row(
            f"effort {word}",
            {"reasoning_effort": word},
            {"reasoning": {"effort": word, "summary": "auto"}},
        )
        for word in ("minimal", "low", "medium", "high", "xhigh", "max")
    ),
    Row(
        "effort, where reasoning is not shown",
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": "low"}},
        {},
        {"show_reasoning": "never"},
    ),
    Row(
        "reasoning state, for clients that are given it",
        {},
        {"include": ASKS_STATE},
        {},
        {"reasoning_details": True},
    ),
    Row(
        "cache mark",
        parts(text("x", **MARK)),
        sent.items(sent.user("x")),
        {f"{PART}.prompt_cache_breakpoint": KNOB},
    ),
    Row(
        "cache mark, for an upstream that takes it",
        parts(text("x", **MARK)),
        one(sent.text("x", **MARK)),
        upstream={"prompt_cache_breakpoints": True},
    ),
    Row(
        "stream",
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
    ),
]

ROWS = [*MESSAGES, *TOOLS, *SETTINGS]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, R, row)

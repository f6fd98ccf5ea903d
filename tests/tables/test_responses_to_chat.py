"""A Responses client before a Chat upstream: requests."""

from __future__ import annotations

import pytest

from tests.tables import hosted
from tests.tables import wire_chat as sent
from tests.tables.requests import (
    CLOSED,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    NO_ARGUMENTS,
    NOTE,
    PDF,
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
from tests.tables.wire_responses import (
    allowed,
    call,
    file,
    free,
    free_call,
    free_output,
    function,
    grammar,
    image,
    items,
    message,
    output,
    parts,
    refused,
    schema_format,
    summarized,
    text,
    told,
    user,
)

YOU = user("hi")
NATIVE = {"custom_tools_native": True}


def talk(*between: JsonObject) -> JsonObject:
    """`input` with these items between two user messages."""
    return items(YOU, *between, YOU)


def sent_talk(*between: JsonObject) -> JsonObject:
    return sent.msgs(HI, *between, HI)


def one(*content: JsonObject) -> JsonObject:
    return sent.parts(*content)


PART = "input[0].content[0]"
X = sent.msgs(sent.user("x"))

MESSAGES = [
    # req: 45
    Row("input as a string", {}, {"messages": [HI]}),
    # req: 46
    Row("instructions", {"instructions": "s"}, sent.msgs(sent.system("s"), HI)),
    # req: 47
    Row(
        "messages of all roles, one without a type",
        items(
            {"role": "user", "content": "a"},
            message("system", "s"),
            message("developer", [text("d"), text("e")]),
            message("assistant", "x"),
            user([text("b"), told("c"), {"type": "text", "text": "d"}]),
        ),
        sent.msgs(
            sent.user("a"),
            sent.system("s"),
            sent.system([sent.text("d"), sent.text("e")]),
            sent.assistant("x"),
            sent.user([sent.text("b"), sent.text("c"), sent.text("d")]),
        ),
    ),
    Row(
        "messages that say nothing",
        items(message("user", []), message("assistant", []), YOU),
        {"messages": [HI]},
    ),
    Row(
        "developer messages, for an upstream that knows the role",
        items(message("developer", "d"), YOU),
        sent.msgs(sent.system("d", "developer"), HI),
        upstream={"system_role": "developer"},
    ),
    Row(
        "images",
        parts(image(PNG_URL), image(WEB, "high")),
        one(sent.image(PNG_URL, detail="auto"), sent.image(WEB, detail="high")),
    ),
    Row(
        "image in OpenAI's store",
        parts({"type": "input_image", "file_id": "file-1"}, text("x")),
        X,
        {PART: CONTENT},
    ),
    Row(
        "files",
        parts(file(file_data=PDF_URL, filename="a.pdf"), file(file_id="file-1")),
        one(sent.file(file_data=PDF_URL, filename="a.pdf"), sent.file(file_id="file-1")),
    ),
    Row(
        "file in bare base64",
        parts(file(file_data=PDF, filename="a.pdf")),
        one(sent.file(file_data=PDF_URL, filename="a.pdf")),
    ),
    Row(
        "how closely to look at a file",
        parts(file(file_data=PDF_URL, filename="a.pdf", detail="high")),
        one(sent.file(file_data=PDF_URL, filename="a.pdf")),
        {f"{PART}.detail": KNOB},
    ),
    Row("file by URL", parts(file(file_url=WEB), text("x")), X, {PART: CONTENT}),
    Row(
        "recorded sound",
        parts({"type": "input_audio", "input_audio": {"data": NOTE, "format": "wav"}}),
        one({"type": "input_audio", "input_audio": {"data": NOTE, "format": "wav"}}),
    ),
    # req: 48
    Row(
        "the model's own message",
        talk(
            message(
                "assistant",
                [
                    told("A", annotations=[{"type": "file_path"}], logprobs=[{"token": "A"}]),
                    refused("no"),
                ],
                id="msg_1",
                status="completed",
                phase="final_answer",
            )
        ),
        sent_talk(sent.assistant("A", refusal="no")),
        {
            "input[1].content[0]": KNOB,
            "input[1].content[0].logprobs": KNOB,
            "input[1].phase": KNOB,
        },
    ),
    Row(
        "reasoning",
        talk(summarized("s", encrypted_content="E"), message("assistant", "x")),
        sent_talk(sent.assistant("x")),
        {"input[1]": KNOB},
    ),
    Row(
        "reasoning, replayed",
        talk(
            {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "t"}],
            },
            message("assistant", "x"),
        ),
        sent_talk(sent.assistant("x", reasoning_content="t")),
        upstream={"replay_reasoning": "always"},
    ),
    Row(
        "a message and calls are one message",
        talk(
            message("assistant", "x"),
            call("c1", '{"a": 1}', id="fc_1", status="completed"),
            call("c2", ""),
            output("c1", "1"),
            output("c2", [text("p"), text("q")]),
        ),
        sent_talk(
            sent.assistant("x", tool_calls=[sent.call("c1", '{"a": 1}'), sent.call("c2")]),
            sent.result("c1", "1"),
            sent.result("c2", "pq"),
        ),
    ),
    Row(
        "text after a call",
        talk(call("c1"), message("assistant", "x"), output("c1", "r")),
        sent_talk(sent.assistant("x", tool_calls=[sent.call("c1")]), sent.result("c1", "r")),
        {"input[1]": CONVERTED},
    ),
    Row(
        "free-text call, emulated",
        talk(free_call("c1"), free_output("c1", "r")),
        sent_talk(
            sent.assistant(tool_calls=[sent.call("c1", '{"input":"free"}', "g")]),
            sent.result("c1", "r"),
        ),
        {"input[1]": CONVERTED},
    ),
    Row(
        "free-text call, for a server that knows it",
        talk(free_call("c1"), free_output("c1", "r")),
        sent_talk(sent.assistant(tool_calls=[sent.free_call("c1")]), sent.result("c1", "r")),
        upstream=NATIVE,
    ),
    Row(
        "image and file in an output",
        items(
            YOU,
            call("c1"),
            output("c1", [text("see"), image(PNG_URL), file(file_data=PDF_URL, filename="a.pdf")]),
        ),
        sent.msgs(
            HI,
            sent.assistant(tool_calls=[sent.call("c1")]),
            sent.result("c1", "see\n\n[Attached in the next message: image, a.pdf]"),
            sent.user(
                [
                    sent.text("[Attached by the result of f (c1): image, a.pdf]"),
                    sent.image(PNG_URL, detail="auto"),
                    sent.file(filename="a.pdf", file_data=PDF_URL),
                ]
            ),
        ),
        {"input[2].output[1]": CONVERTED, "input[2].output[2]": CONVERTED},
    ),
    Row(
        "what an output says of itself",
        talk(
            call("c1"),
            output("c1", "r", status="incomplete", name="f", caller={"type": "program"}),
        ),
        sent_talk(sent.assistant(tool_calls=[sent.call("c1")]), sent.result("c1", "r")),
        {"input[2].status": KNOB, "input[2].name": KNOB, "input[2].caller": KNOB},
    ),
    Row(
        "a call without an output",
        talk(call("c1")),
        sent_talk(sent.assistant(tool_calls=[sent.call("c1")]), sent.result("c1", UNAVAILABLE)),
        {"input[1]": REPAIRED},
    ),
    Row("an output without a call", items(YOU, output("c9", "r")), {}, {"input[1]": CONTENT}),
    Row(
        "a reference to a stored item",
        items(YOU, {"type": "item_reference", "id": "i"}),
        {},
        {"input[1]": CONTENT},
    ),
    Row("a reference without a type", items(YOU, {"id": "i"}), {}, {"input[1]": CONTENT}),
    *(
        Row(f"item {item['type']}", talk(item), sent_talk(), {"input[1]": CONTENT})
        for item in hosted.ITEMS
    ),
    Row(
        "settings changed in the conversation",
        items(
            YOU,
            {
                "type": "configuration_update",
                "reasoning": {"effort": "low"},
                "text": {"format": {"type": "json_object"}},
            },
        ),
        {"reasoning_effort": "low", "response_format": {"type": "json_object"}},
        {"input[1]": CONVERTED},
    ),
]

F = function(description="d", parameters=SCHEMA, strict=None)
SENT_F = sent.function(description="d", parameters=SCHEMA)
OFFER = {"tools": [F, free()]}
IN_GRAMMAR = "The text in `input` must conform to this lark grammar:"
SENT_OFFER = {"tools": [SENT_F, sent.emulated("g")]}
FREE_LOST = {"tools[1]": CONVERTED}
SPACE = {"type": "namespace", "name": "ns", "description": "ns", "tools": [F, free()]}

TOOLS = [
    # req: 51
    Row("function, strictness left open", {"tools": [F]}, {"tools": [SENT_F]}),
    Row(
        "strict function",
        {"tools": [function(parameters=CLOSED, strict=True)]},
        {"tools": [sent.function(parameters=CLOSED, strict=True)]},
    ),
    Row(
        "function that is not strict",
        {"tools": [function(parameters=SCHEMA, strict=False)]},
        {"tools": [sent.function(parameters=SCHEMA, strict=False)]},
    ),
    Row(
        "function with parameters null",
        {"tools": [function(parameters=None, strict=None)]},
        {"tools": [sent.function(parameters=NO_ARGUMENTS)]},
    ),
    Row(
        "free-text tool with a grammar, emulated",
        {"tools": [free(description="d", format=grammar("x"))]},
        {"tools": [sent.emulated("g", f"d\n\n{IN_GRAMMAR}\nx")]},
        {"tools[0]": CONVERTED},
    ),
    Row(
        "free-text tool with a grammar, for a server that knows it",
        {"tools": [free(description="d", format=grammar("x"))]},
        {"tools": [sent.free(description="d", format=sent.grammar("x"))]},
        upstream=NATIVE,
    ),
    Row(
        "free-text tool, refused",
        {"tools": [free()]},
        {},
        {"tools[0]": CONTENT},
        {"custom_tools": "reject"},
    ),
    Row(
        "tools in a namespace, and a call of one",
        {
            "tools": [SPACE, F],
            **items(YOU, call("c1", namespace="ns"), output("c1", "r")),
        },
        {
            "tools": [
                sent.function("ns__f", description="d", parameters=SCHEMA),
                sent.emulated("ns__g"),
                SENT_F,
            ],
            **sent.msgs(
                HI,
                sent.assistant(tool_calls=[sent.call("c1", name="ns__f")]),
                sent.result("c1", "r"),
            ),
        },
        {"tools[0].tools[1]": CONVERTED},
    ),
    Row(
        "tools whose names would be the same",
        {
            "tools": [
                {**SPACE, "name": "a", "description": "a", "tools": [function("b__c")]},
                {**SPACE, "name": "a__b", "description": "a__b", "tools": [function("c")]},
                function("a__b__c"),
            ]
        },
        {
            "tools": [
                sent.function(name, parameters=NO_ARGUMENTS)
                for name in ("a__b__c_a597cb53", "a__b__c_c42f5e03", "a__b__c")
            ]
        },
    ),
    Row(
        "what a namespace is for",
        {"tools": [{**SPACE, "description": "about", "tools": [F]}]},
        {"tools": [sent.function("ns__f", description="d", parameters=SCHEMA)]},
        {"tools[0].description": CONVERTED},
    ),
    Row(
        "tools given in the input, as Codex gives them",
        items(
            {"type": "additional_tools", "role": "developer", "tools": [{**SPACE, "tools": [F]}]},
            YOU,
        ),
        {"tools": [sent.function("ns__f", description="d", parameters=SCHEMA)]},
        {"input[0]": CONVERTED},
    ),
    *(
        Row(
            f"function with {name}",
            {"tools": [{**F, name: value}]},
            {"tools": [SENT_F]},
            {f"tools[0].{name}": kind},
        )
        for name, value, kind in (
            ("defer_loading", True, KNOB),
            ("output_schema", SCHEMA, KNOB),
            ("allowed_callers", ["programmatic"], KNOB),
            ("async", True, CONTENT),
        )
    ),
    *(
        Row(f"tool {kind}", {"tools": [{"type": kind}, F]}, {"tools": [SENT_F]}, {"tools[0]": KNOB})
        for kind in hosted.TOOLS
    ),
    Row(
        "hosted tool, refused",
        {"tools": [{"type": "web_search"}]},
        {},
        {"tools[0]": CONTENT},
        {"hosted_tools": "reject"},
    ),
    *(
        Row(
            f"choice {word}",
            {**OFFER, "tool_choice": word},
            {**SENT_OFFER, "tool_choice": word},
            FREE_LOST,
        )
        for word in ("none", "auto", "required")
    ),
    # req: 51
    Row(
        "choice of a function",
        {**OFFER, "tool_choice": function()},
        {**SENT_OFFER, "tool_choice": sent.function()},
        FREE_LOST,
    ),
    Row(
        "choice of a free-text tool",
        {**OFFER, "tool_choice": free()},
        {**SENT_OFFER, "tool_choice": sent.function("g")},
        FREE_LOST,
    ),
    Row(
        "choice of a free-text tool, for a server that knows it",
        {**OFFER, "tool_choice": free()},
        {"tools": [SENT_F, sent.free()], "tool_choice": sent.free()},
        upstream=NATIVE,
    ),
    Row(
        "allowed tools, a hosted one among them",
        {**OFFER, "tool_choice": allowed("required", function(), {"type": "web_search"})},
        {**SENT_OFFER, "tool_choice": sent.allowed("required", sent.function())},
        {**FREE_LOST, "tool_choice.tools[1]": KNOB},
    ),
    *(
        Row(
            f"choice of {choice['type']}",
            {**OFFER, "tool_choice": choice},
            SENT_OFFER,
            {**FREE_LOST, "tool_choice": CONTENT},
        )
        for choice in (
            {"type": "web_search_preview"},
            {"type": "mcp", "server_label": "s"},
            {"type": "shell"},
            {"type": "apply_patch"},
        )
    ),
    Row("choice auto, but no tools", {"tool_choice": "auto", "tools": []}),
    Row("choice required, but no tools", {"tool_choice": "required"}, {}, {"tool_choice": CONTENT}),
    Row(
        "no parallel calls",
        {"tools": [F], "parallel_tool_calls": False},
        {"tools": [SENT_F], "parallel_tool_calls": False},
    ),
]

SCHEMA_FORMAT = schema_format(CLOSED, name="n", description="d", strict=True)
MARK = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}

SETTINGS = [
    # req: 49
    Row("output limit", {"max_output_tokens": 20}, {"max_completion_tokens": 20}),
    Row(
        "output limit under its older name",
        {"max_output_tokens": 20},
        {"max_tokens": 20},
        upstream={"max_tokens_field": "max_tokens"},
    ),
    Row(
        "no output limit, where long answers are not waited for",
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        upstream={"stream_above": 9000},
    ),
    # req: 50
    Row("sampling", {"temperature": 0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    Row(
        "log probabilities",
        {"top_logprobs": 2, "include": ["message.output_text.logprobs"]},
        {"logprobs": True, "top_logprobs": 2},
    ),
    Row("alternatives without log probabilities", {"top_logprobs": 2}, {}, {"top_logprobs": KNOB}),
    Row("state of reasoning is given in any case", {"include": ["reasoning.encrypted_content"]}),
    Row(
        "what else an answer might include",
        {"include": ["web_search_call.action.sources"]},
        {},
        {"include[0]": KNOB},
    ),
    Row("answer as text", {"text": {"format": {"type": "text"}}}),
    Row(
        "answer as some JSON",
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
    ),
    Row(
        "answer by a schema",
        {"text": {"format": SCHEMA_FORMAT, "verbosity": "high"}},
        {
            "response_format": sent.schema_format(CLOSED, name="n", description="d", strict=True),
            "verbosity": "high",
        },
    ),
    Row(
        "effort and summary",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"reasoning_effort": "high"},
    ),
    Row(
        "reasoning beyond what Chat knows",
        {"reasoning": {"context": "all_turns", "mode": "pro"}},
        {},
        {"reasoning.context": KNOB, "reasoning.mode": KNOB},
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
    Row(
        "a cache lifetime Chat does not know",
        {"prompt_cache_options": {"mode": "explicit", "ttl": "12h"}},
        {"prompt_cache_options": {"mode": "explicit"}},
        {"prompt_cache_options.ttl": KNOB},
    ),
    *(
        Row(name if kind is KNOB else f"{name}, refused", {name: value}, {}, {name: kind})
        for name, value, kind in (
            ("store", True, KNOB),
            ("max_tool_calls", 3, KNOB),
            ("truncation", "auto", KNOB),
            ("context_management", [{"type": "compaction"}], KNOB),
            ("client_metadata", {"a": "b"}, KNOB),
            ("a_field_nobody_knows", 1, KNOB),
            ("background", True, CONTENT),
            ("previous_response_id", "resp_1", CONTENT),
            ("conversation", "c", CONTENT),
            ("prompt", {"id": "p"}, CONTENT),
        )
    ),
    Row("service tier ultrafast", {"service_tier": "ultrafast"}, {}, {"service_tier": KNOB}),
    Row(
        "warming the cache alone",
        {"prompt_cache_options": {"prewarm": True}},
        {},
        {"prompt_cache_options.prewarm": CONTENT},
    ),
    Row(
        "options at their defaults, and nulls",
        {
            "store": False,
            "truncation": "disabled",
            "background": False,
            "tools": [],
            "include": [],
            "max_output_tokens": None,
            "previous_response_id": None,
            "user": None,
        },
    ),
    Row("a word for a number", {"temperature": "[undefined]"}, invalid="temperature"),
    Row("cache mark", parts(text("x", **MARK)), X, {f"{PART}.prompt_cache_breakpoint": KNOB}),
    Row(
        "cache mark, for an upstream that takes it",
        parts(text("x", **MARK)),
        one(sent.text("x", **MARK)),
        upstream={"prompt_cache_breakpoints": True},
    ),
    Row(
        "stream",
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
    ),
]

ROWS = [*MESSAGES, *TOOLS, *SETTINGS]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(R, C, row)

"""A Responses client before a Messages upstream: requests."""

from __future__ import annotations

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import Sealer
from tests.tables import hosted
from tests.tables import wire_messages as sent
from tests.tables.requests import (
    CLOSED,
    CONTENT,
    CONVERTED,
    KNOB,
    NO_ARGUMENTS,
    NOTE,
    NOTE_URL,
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
from tests.tables.wire_messages import note, said
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
OLD = {"anthropic_version": "2023-06-01"}


def talk(*between: JsonObject) -> JsonObject:
    """`input` with these items between two user messages."""
    return items(YOU, *between, YOU)


def sent_talk(*content: JsonObject | str) -> JsonObject:
    """The same, when the items become one turn of the model."""
    return {"messages": [said("user", "hi"), said("assistant", *content), said("user", "hi")]}


def looped(calls: list[JsonObject], *after: JsonObject | str) -> JsonObject:
    """A turn of calls and the user's turn after it, as they are sent."""
    return {"messages": [said("user", "hi"), said("assistant", *calls), said("user", *after)]}


def one(*content: JsonObject | str) -> JsonObject:
    return {"messages": [said("user", *content)]}


PART = "input[0].content[0]"

OWN_STATE = Sealer().seal(Reasoning(parts=("t",), opaque=Opaque(A, "SIG")))

MESSAGES = [
    Row("input as a string", {}, one("hi")),
    Row("instructions", {"instructions": "s"}, {"system": "s"}),
    Row(
        "instructions before leading system and developer messages",
        {
            "instructions": "a",
            **items(message("system", "b"), message("developer", [text("c"), text("d")]), YOU),
        },
        {"system": [sent.text(value) for value in "abcd"]},
    ),
    Row(
        "later developer message after a user turn",
        items(YOU, message("developer", "late"), message("assistant", "x"), YOU),
        {
            "messages": [
                said("user", "hi"),
                said("system", "late"),
                said("assistant", "x"),
                said("user", "hi"),
            ]
        },
    ),
    Row(
        "later developer message where it may not stand",
        items(YOU, message("assistant", "x"), message("developer", "late"), YOU),
        {"messages": [*sent_talk("x")["messages"], said("system", "late")]},
        {"input[2]": CONVERTED},
    ),
    Row(
        "user parts of all spellings",
        parts(text("a"), told("b"), {"type": "text", "text": "c"}),
        one("a", "b", "c"),
    ),
    Row("images", parts(image(PNG_URL), image(WEB)), one(sent.picture(PNG), sent.linked(WEB))),
    Row(
        "detail of an image",
        parts(image(PNG_URL, "high")),
        one(sent.picture(PNG)),
        {PART: KNOB},
    ),
    Row(
        "image in OpenAI's store",
        parts({"type": "input_image", "file_id": "file-1"}, text("x")),
        one("x"),
        {PART: CONTENT},
    ),
    Row("file in OpenAI's store", parts(file(file_id="f"), text("x")), one("x"), {PART: CONTENT}),
    Row(
        "PDF",
        parts(file(file_data=PDF_URL, filename="a.pdf")),
        one(sent.pdf(PDF, title="a.pdf")),
    ),
    Row(
        "own thinking that led to nothing",
        items(user("hi"), summarized("t", encrypted_content=OWN_STATE), user("hi")),
        {"messages": [said("user", "hi", "hi")]},
        {"input[1]": KNOB},
    ),
    Row(
        "text file known by its name alone",
        parts(file(filename="a.txt", file_data=NOTE)),
        {"messages": [said("user", {**note("a note"), "title": "a.txt"})]},
    ),
    Row(
        "text file",
        parts(file(file_data=NOTE_URL, filename="a.txt")),
        one(sent.note("a note", title="a.txt")),
    ),
    Row(
        "file of another type",
        parts(file(file_data=f"data:application/zip;base64,{NOTE}"), text("x")),
        one("x"),
        {PART: CONTENT},
    ),
    Row("file by URL", parts(file(file_url=WEB)), one(sent.linked(WEB, "document"))),
    Row(
        "recorded sound",
        parts({"type": "input_audio", "input_audio": {"data": NOTE, "format": "wav"}}, text("x")),
        one("x"),
        {PART: CONTENT},
    ),
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
        sent_talk("A", "no"),
        {
            "input[1].content[0]": KNOB,
            "input[1].phase": KNOB,
            "input[1].content[1]": CONVERTED,
        },
    ),
    Row(
        "reasoning of another model",
        talk(summarized("s", encrypted_content="E"), message("assistant", "x")),
        sent_talk("x"),
        {"input[1]": KNOB},
    ),
    Row(
        "items of the model's side are one turn in their order",
        items(
            YOU,
            message("assistant", "x"),
            call("c1", '{"a": 1}', id="fc_1", status="completed"),
            message("assistant", "y"),
            call("c2", "{}"),
            output("c1", "1"),
            output("c2", [text("p"), text("q")]),
            user("more"),
        ),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", "x", sent.use("c1", {"a": 1}), "y", sent.use("c2")),
                said(
                    "user",
                    sent.given("c1", "1"),
                    sent.given("c2", [sent.text("p"), sent.text("q")]),
                    "more",
                ),
            ]
        },
    ),
    Row(
        "arguments that are no JSON object",
        items(YOU, call("c1", '{"a":'), output("c1", "r")),
        looped([sent.use("c1", {"invalid_arguments": '{"a":'})], sent.given("c1", "r")),
        {"input[1]": CONVERTED},
    ),
    Row(
        "free-text call, emulated",
        items(YOU, free_call("c1"), free_output("c1", "r")),
        looped([sent.use("c1", {"input": "free"}, "g")], sent.given("c1", "r")),
        {"input[1]": CONVERTED},
    ),
    Row(
        "free-text call, refused",
        items(YOU, free_call("c1"), free_output("c1", "r")),
        {"messages[2].content[0].content": "r"},
        {"input[1]": CONTENT},
        {"custom_tools": "reject"},
    ),
    Row(
        "image and file in an output",
        items(
            YOU,
            call("c1"),
            output("c1", [text("see"), image(PNG_URL), file(file_data=PDF_URL, filename="a.pdf")]),
        ),
        looped(
            [sent.use("c1")],
            sent.given("c1", [sent.text("see"), sent.picture(PNG), sent.pdf(PDF, title="a.pdf")]),
        ),
    ),
    Row(
        "what an output says of itself",
        items(YOU, call("c1"), output("c1", "r", status="incomplete", name="f")),
        looped([sent.use("c1")], sent.given("c1", "r")),
        {"input[2].status": KNOB, "input[2].name": KNOB},
    ),
    Row(
        "a call without an output",
        talk(call("c1")),
        looped([sent.use("c1")], sent.given("c1", UNAVAILABLE, is_error=True), "hi"),
        {"input[1]": REPAIRED},
    ),
    Row("an output without a call", items(YOU, output("c9", "r")), {}, {"input[1]": CONTENT}),
    Row(
        "a reference to a stored item",
        items(YOU, {"type": "item_reference", "id": "i"}),
        {},
        {"input[1]": CONTENT},
    ),
    *(
        Row(f"item {item['type']}", talk(item), one("hi", "hi"), {"input[1]": CONTENT})
        for item in hosted.ITEMS
    ),
    Row(
        "settings changed in the conversation",
        items(YOU, {"type": "configuration_update", "reasoning": {"effort": "low"}}),
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"input[1]": CONVERTED},
    ),
]

F = function(description="d", parameters=SCHEMA, strict=None)
SENT_F = sent.tool("f", SCHEMA, description="d")
OFFER = {"tools": [F, function("h", parameters=None, strict=None)]}
SENT_OFFER = {"tools": [SENT_F, sent.tool("h", NO_ARGUMENTS)]}

TOOLS = [
    Row("function, strictness left open", {"tools": [F]}, {"tools": [SENT_F]}),
    Row(
        "strict function",
        {"tools": [function(parameters=CLOSED, strict=True)]},
        {"tools": [sent.tool("f", CLOSED, strict=True)]},
    ),
    Row(
        "free-text tool with a grammar, emulated",
        {"tools": [free(description="d", format=grammar("x"))]},
        {
            "tools": [
                sent.emulated("g", "d\n\nThe text in `input` must conform to this lark grammar:\nx")
            ]
        },
        {"tools[0]": CONVERTED},
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
            "tools": [{"type": "namespace", "name": "ns", "description": "ns", "tools": [F]}, F],
            **items(YOU, call("c1", namespace="ns"), output("c1", "r")),
        },
        {
            "tools": [sent.tool("ns__f", SCHEMA, description="d"), SENT_F],
            **looped([sent.use("c1", name="ns__f")], sent.given("c1", "r")),
        },
    ),
    Row(
        "tools given in the input, as Codex gives them",
        items({"type": "additional_tools", "role": "developer", "tools": [F]}, YOU),
        {"tools": [SENT_F]},
        {"input[0]": CONVERTED},
    ),
    Row(
        "deferred tool beside others",
        {"tools": [F, {**function("h", parameters=SCHEMA), "defer_loading": True}]},
        {"tools": [SENT_F, sent.tool("h", SCHEMA, defer_loading=True)]},
    ),
    Row(
        "deferred tool that only OpenAI's search could find",
        {"tools": [{**F, "defer_loading": True}, {"type": "tool_search"}]},
        {"tools": [SENT_F]},
        {"tools[0].defer_loading": KNOB, "tools[1]": KNOB},
    ),
    *(
        Row(
            f"function with {name}",
            {"tools": [{**F, name: value}]},
            {"tools": [SENT_F]},
            {f"tools[0].{name}": kind},
        )
        for name, value, kind in (
            ("output_schema", SCHEMA, KNOB),
            ("allowed_callers", ["programmatic"], KNOB),
            ("async", True, CONTENT),
        )
    ),
    *(
        Row(f"tool {kind}", {"tools": [{"type": kind}, F]}, {"tools": [SENT_F]}, {"tools[0]": KNOB})
        for kind in hosted.TOOLS
    ),
    *(
        Row(
            f"choice {word}",
            {**OFFER, "tool_choice": word},
            {**SENT_OFFER, "tool_choice": {"type": kind}},
        )
        for word, kind in (("none", "none"), ("auto", "auto"), ("required", "any"))
    ),
    Row(
        "choice of a function",
        {**OFFER, "tool_choice": function()},
        {**SENT_OFFER, "tool_choice": {"type": "tool", "name": "f"}},
    ),
    Row(
        "allowed tools",
        {**OFFER, "tool_choice": allowed("required", function())},
        {"tools": [SENT_F], "tool_choice": {"type": "any"}},
        {"tool_choice": CONVERTED},
    ),
    Row(
        "choice of a hosted tool",
        {**OFFER, "tool_choice": {"type": "mcp", "server_label": "s"}},
        SENT_OFFER,
        {"tool_choice": CONTENT},
    ),
    Row("choice auto, but no tools", {"tool_choice": "auto", "tools": []}),
    Row("choice required, but no tools", {"tool_choice": "required"}, {}, {"tool_choice": CONTENT}),
    Row(
        "no parallel calls",
        {**OFFER, "parallel_tool_calls": False},
        {**SENT_OFFER, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
]

SCHEMA_FORMAT = schema_format(CLOSED, name="n", description="d", strict=True)

SETTINGS = [
    Row("output limit", {"max_output_tokens": 20}, {"max_tokens": 20}),
    Row("no output limit", {}, {"max_tokens": 16384}),
    Row(
        "sampling under the newer version",
        {"temperature": 0, "top_p": 0.5},
        {},
        {"temperature": KNOB, "top_p": KNOB},
    ),
    Row(
        "sampling under the older version",
        {"temperature": 1.5, "top_p": 0.5},
        {"temperature": 1.0, "top_p": 0.5},
        {"temperature": REPAIRED},
        upstream=OLD,
    ),
    Row(
        "log probabilities",
        {"top_logprobs": 2, "include": ["message.output_text.logprobs"]},
        {},
        {"top_logprobs": CONTENT, "include": CONTENT},
    ),
    Row("alternatives of zero tokens", {"top_logprobs": 0}),
    Row("state of reasoning is given in any case", {"include": ["reasoning.encrypted_content"]}),
    Row(
        "answer by a schema",
        {"text": {"format": SCHEMA_FORMAT}},
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
        "answer as some JSON",
        {"text": {"format": {"type": "json_object"}}},
        {},
        {"text.format": KNOB},
    ),
    Row("verbosity", {"text": {"verbosity": "low"}}, {}, {"text.verbosity": KNOB}),
    Row(
        "effort",
        {"reasoning": {"effort": "high"}},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    ),
    Row(
        "effort and summary",
        {"reasoning": {"effort": "high", "summary": "concise"}},
        {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
        },
    ),
    Row(
        "summary alone",
        {"reasoning": {"summary": "auto"}},
        {"thinking": {"type": "adaptive", "display": "summarized"}},
    ),
    Row(
        "summary by budget",
        {"reasoning": {"effort": "low", "summary": "auto"}},
        {"thinking": {"type": "enabled", "budget_tokens": 2048, "display": "summarized"}},
        upstream={"adaptive_thinking": False},
    ),
    Row(
        "reasoning beyond what Anthropic knows",
        {"reasoning": {"context": "all_turns", "mode": "pro"}},
        {},
        {"reasoning.context": KNOB, "reasoning.mode": KNOB},
    ),
    Row("end user", {"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
    Row("end user, older field", {"user": "u"}, {"metadata": {"user_id": "u"}}),
    Row("service tier auto", {"service_tier": "auto"}, {"service_tier": "auto"}),
    Row("service tier default", {"service_tier": "default"}, {"service_tier": "standard_only"}),
    Row("service tier ultrafast", {"service_tier": "ultrafast"}, {}, {"service_tier": KNOB}),
    *(
        Row(name if kind is KNOB else f"{name}, refused", {name: value}, {}, {name: kind})
        for name, value, kind in (
            ("metadata", {"a": "b"}, KNOB),
            ("moderation", {"model": "x"}, KNOB),
            ("prompt_cache_key", "k", KNOB),
            ("prompt_cache_retention", "24h", KNOB),
            ("prompt_cache_options", {"mode": "explicit"}, KNOB),
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
    Row(
        "warming the cache alone",
        {"prompt_cache_options": {"prewarm": True}},
        {"max_tokens": 0},
    ),
    Row(
        "cache mark of 12 hours",
        parts(text("x", prompt_cache_breakpoint={"mode": "explicit", "ttl": "12h"})),
        one(sent.text("x", cache_control={"type": "ephemeral", "ttl": "1h"})),
        {f"{PART}.prompt_cache_breakpoint": KNOB},
    ),
    Row("stream", {"stream": True}, {"stream": True}),
]

ROWS = [*MESSAGES, *TOOLS, *SETTINGS]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(R, A, row)

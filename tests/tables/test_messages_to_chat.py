"""A Messages client before a Chat upstream: the conversation of a request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import wire_chat as sent
from tests.tables.requests import (
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
    C,
    JsonObject,
    Row,
    check,
    ids,
)
from tests.tables.wire_messages import (
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

LOOP = [HI, said("assistant", use("c1"))]
"""A conversation that waits for the result of one call."""
SENT_LOOP = [HI, sent.assistant(tool_calls=[sent.call("c1")])]


def msgs(*messages: JsonObject) -> JsonObject:
    return {"messages": list(messages)}


def user(*blocks: JsonObject | str) -> JsonObject:
    return msgs(said("user", *blocks))


def looped(*blocks: JsonObject | str) -> JsonObject:
    """`messages` with the loop and the user's turn after it."""
    return msgs(*LOOP, said("user", *blocks))


def sent_looped(*messages: JsonObject) -> JsonObject:
    return {"messages": [*SENT_LOOP, *messages]}


def one(content: Any) -> JsonObject:
    """`messages` with one user message, as it is sent."""
    return {"messages": [sent.user(content)]}


BLOCK = "messages[0].content[0]"

MESSAGES = [
    # req: 14
    Row("system as a string", {"system": "s"}, {"messages": [sent.system("s"), HI]}),
    # req: 15
    Row(
        "system as blocks",
        {"system": [text("a"), text("b")]},
        {"messages": [sent.system([text("a"), text("b")]), HI]},
    ),
    Row(
        "system as blocks, for a server that wants a string",
        {"system": [text("a"), text("b")]},
        {"messages": [sent.system("a\n\nb"), HI]},
        upstream={"late_system": "user"},
    ),
    Row(
        "system, as the developer's words",
        {"system": "s"},
        {"messages": [sent.system("s", "developer"), HI]},
        upstream={"system_role": "developer"},
    ),
    Row(
        "the billing header of Claude Code",
        {"system": [text("x-anthropic-billing-header: cch=1"), text("b")]},
        {"messages": [sent.system("b"), HI]},
        {"system[0]": KNOB},
    ),
    Row(
        "the billing header of Claude Code before other text",
        {"system": "x-anthropic-billing-header: cch=1\n\nb"},
        {"messages": [sent.system("b"), HI]},
        {"system": KNOB},
    ),
    Row(
        "the billing header of Claude Code inside the conversation",
        msgs(HI, said("system", text("x-anthropic-billing-header: cch=1"))),
        {"messages": [HI]},
        {"messages[1].content[0]": KNOB},
    ),
    # req: 16
    Row(
        "system messages inside the conversation",
        msgs(HI, said("system", "late"), said("assistant", "x"), HI),
        {"messages": [HI, sent.system("late"), sent.assistant("x"), HI]},
    ),
    Row(
        "settings on a system message inside the conversation",
        msgs(HI, {**said("system", "late"), "output_config": {"effort": "low"}}),
        {"messages": [HI, sent.system("late")]},
        {"messages[1].output_config": KNOB},
    ),
    # req: 17
    Row("user text", user("a", "b"), one([text("a"), text("b")])),
    Row(
        "assistant text",
        msgs(HI, said("assistant", "a", "b"), HI),
        {"messages": [HI, sent.assistant([text("a"), text("b")]), HI]},
    ),
    # req: 18
    Row(
        "images",
        user(picture(PNG), linked(WEB)),
        one([sent.image(PNG_URL), sent.image(WEB)]),
    ),
    Row(
        "image whose data is in lines",
        user(picture(f"{PNG[:4]}\n{PNG[4:]}")),
        one([sent.image(PNG_URL)]),
    ),
    Row("image in Anthropic's store", user(stored("file_1"), "x"), one("x"), {BLOCK: CONTENT}),
    Row(
        "how to shrink an image",
        user(picture(PNG, transformations={"oversized_image": "error"})),
        one([sent.image(PNG_URL)]),
        {f"{BLOCK}.transformations": KNOB},
    ),
    Row(
        "PDF",
        user(pdf(PDF)),
        one([sent.file(filename="document.pdf", file_data=PDF_URL)]),
    ),
    Row(
        "PDF with a title",
        user(pdf(PDF, title="T")),
        one([sent.file(filename="T", file_data=PDF_URL)]),
    ),
    Row(
        "PDF for a server without files",
        user(pdf(PDF), "x"),
        one("x"),
        {BLOCK: CONTENT},
        upstream={"chat_files": False},
    ),
    Row(
        "text document",
        user(note("body", title="T")),
        one("Document: T\n\nbody"),
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
        one([text("Document: T"), text("a"), sent.image(PNG_URL)]),
        {BLOCK: CONVERTED},
    ),
    Row(
        "document of blocks that is a string",
        user({"type": "document", "source": {"type": "content", "content": "a"}}),
        one("a"),
        {BLOCK: CONVERTED},
    ),
    Row("document by URL", user(linked(WEB, "document"), "x"), one("x"), {BLOCK: CONTENT}),
    Row("document in a store", user(stored("f", "document"), "x"), one("x"), {BLOCK: CONTENT}),
    Row(
        "context of a document, and a wish for citations",
        user(pdf(PDF, context="about", citations={"enabled": True})),
        one([text("Context: about"), sent.file(filename="document.pdf", file_data=PDF_URL)]),
        {f"{BLOCK}.context": CONVERTED, f"{BLOCK}.citations": KNOB},
    ),
    Row(
        "search result",
        user({"type": "search_result", "source": WEB, "title": "T", "content": [text("a")]}),
        one(f"T\n{WEB}\n\na"),
        {BLOCK: CONVERTED},
    ),
    # req: 19
    Row(
        "thinking of earlier turns",
        msgs(
            HI,
            said("assistant", thinking("t", "s"), {"type": "redacted_thinking", "data": "d"}, "x"),
            HI,
        ),
        {"messages": [HI, sent.assistant("x"), HI]},
        {"messages[1].content[0]": KNOB, "messages[1].content[1]": KNOB},
    ),
    Row(
        "what tells that another model answered",
        msgs(HI, said("assistant", {"type": "fallback", "model": "m"}, "x"), HI),
        {"messages": [HI, sent.assistant("x"), HI]},
        {"messages[1].content[0]": KNOB},
    ),
    Row(
        "thinking of earlier turns, replayed",
        msgs(HI, said("assistant", thinking("t", "s"), "x"), HI),
        {"messages": [HI, sent.assistant("x", reasoning_content="t"), HI]},
        {"messages[1].content[0]": KNOB},
        upstream={"replay_reasoning": "always"},
    ),
    Row(
        "thinking of tool turns, replayed",
        msgs(
            HI,
            said("assistant", thinking("t", "s"), use("c1")),
            said("user", given("c1", "r")),
            said("assistant", thinking("u", "s"), "x"),
            HI,
        ),
        {
            "messages": [
                HI,
                sent.assistant(reasoning_content="t", tool_calls=[sent.call("c1")]),
                sent.result("c1", "r"),
                sent.assistant("x"),
                HI,
            ]
        },
        {"messages[1].content[0]": KNOB, "messages[3].content[0]": KNOB},
        upstream={"replay_reasoning": "tool_turns"},
    ),
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
        {"messages": [HI, sent.assistant("x"), HI]},
        {"messages[1].content[0]": CONTENT, "messages[1].content[1]": CONTENT},
    ),
    *(
        Row(f"{block['type']} block", user(block, "x"), one("x"), {BLOCK: CONTENT})
        for block in (
            {"type": "container_upload", "file_id": "f"},
            {"type": "mcp_tool_result", "tool_use_id": "m", "content": []},
            {"type": "compaction", "content": "c"},
        )
    ),
    Row(
        "tools added in the conversation by name",
        msgs(
            HI,
            said(
                "system",
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}},
                "late",
            ),
        ),
        {"messages": [HI, sent.system("late")]},
        {"messages[1].content[0]": KNOB},
    ),
    Row(
        "a tool declared in the conversation",
        msgs(
            HI,
            said(
                "system",
                {
                    "type": "tool_addition",
                    "tool": {"type": "tool_definition", "definition": tool("f", SCHEMA)},
                },
                "late",
            ),
        ),
        {
            "messages": [HI, sent.system("late")],
            "tools": [sent.function(parameters=SCHEMA)],
        },
        {"messages[1].content[0]": CONVERTED},
    ),
    Row(
        "a prefill",
        msgs(HI, said("assistant", "so")),
        {"messages": [HI, sent.assistant("so")]},
        {"messages[1]": CONVERTED},
    ),
]

CALLS = [
    Row(
        "call and result, and what follows",
        msgs(
            HI,
            said("assistant", "x", use("c1", {"a": 1})),
            said("user", given("c1", "r"), "more"),
        ),
        {
            "messages": [
                HI,
                sent.assistant("x", tool_calls=[sent.call("c1", '{"a": 1}')]),
                sent.result("c1", "r"),
                sent.user("more"),
            ]
        },
    ),
    Row(
        "text after a call",
        msgs(HI, said("assistant", "x", use("c1"), "y"), said("user", given("c1", "r"))),
        {
            "messages": [
                HI,
                sent.assistant([text("x"), text("y")], tool_calls=[sent.call("c1")]),
                sent.result("c1", "r"),
            ]
        },
        {"messages[1]": CONVERTED},
    ),
    # req: 38
    Row(
        "results after text and in another order",
        msgs(
            HI,
            said("assistant", use("c1"), use("c2")),
            said("user", "before", given("c2", "2"), given("c1", [text("p"), text("q")])),
        ),
        {
            "messages": [
                HI,
                sent.assistant(tool_calls=[sent.call("c1"), sent.call("c2")]),
                sent.result("c1", "pq"),
                sent.result("c2", "2"),
                sent.user("before"),
            ]
        },
    ),
    Row(
        "a result after text",
        msgs(*LOOP, said("user", "x", given("c1", "r"))),
        sent_looped(sent.result("c1", "r"), sent.user("x")),
    ),
    Row(
        "turns of one side in several messages",
        msgs(
            HI,
            said("assistant", use("c1")),
            said("assistant", use("c2")),
            said("user", given("c1", "1")),
            said("user", given("c2", "2"), "x"),
        ),
        {
            "messages": [
                HI,
                sent.assistant(tool_calls=[sent.call("c1"), sent.call("c2")]),
                sent.result("c1", "1"),
                sent.result("c2", "2"),
                sent.user("x"),
            ]
        },
    ),
    Row(
        "a result that comes after the next turn",
        msgs(
            HI,
            said("assistant", use("c1")),
            said("user", "wait"),
            said("assistant", "ok"),
            said("user", given("c1", "r"), "so?"),
        ),
        {
            "messages": [
                HI,
                sent.assistant(tool_calls=[sent.call("c1")]),
                sent.result("c1", "r"),
                sent.user("wait"),
                sent.assistant("ok"),
                sent.user("so?"),
            ]
        },
        {"messages[4].content[0]": REPAIRED},
    ),
    Row(
        "numbers of any size in the arguments of a call",
        msgs(
            HI,
            said("assistant", use("c1", {"n": 12345678901234567890123, "x": 1.0})),
            said("user", given("c1", "r")),
        ),
        {
            "messages": [
                HI,
                sent.assistant(
                    tool_calls=[sent.call("c1", '{"n": 12345678901234567890123, "x": 1.0}')]
                ),
                sent.result("c1", "r"),
            ]
        },
    ),
    # req: 22
    Row(
        "image and PDF in a result",
        looped(given("c1", [text("see"), picture(PNG), pdf(PDF, title="x.pdf")]), "more"),
        sent_looped(
            sent.result("c1", "see\n\n[Attached in the next message: image, x.pdf]"),
            sent.user(
                [
                    text("[Attached by the result of f (c1): image, x.pdf]"),
                    sent.image(PNG_URL),
                    sent.file(filename="x.pdf", file_data=PDF_URL),
                    text("more"),
                ]
            ),
        ),
        {
            "messages[2].content[0].content[1]": CONVERTED,
            "messages[2].content[0].content[2]": CONVERTED,
        },
    ),
    Row(
        "image in a result, for a server that takes it there",
        looped(given("c1", [text("see"), picture(PNG)])),
        sent_looped(sent.result("c1", [text("see"), sent.image(PNG_URL)])),
        upstream={"tool_message_images": True},
    ),
    # req: 24, 39
    Row(
        "failed tool",
        looped(given("c1", "bad", is_error=True)),
        sent_looped(sent.result("c1", "bad")),
        {"messages[2].content[0].is_error": KNOB},
    ),
    Row(
        "failed tool, with a prefix",
        looped(given("c1", "bad", is_error=True)),
        sent_looped(sent.result("c1", "Error: bad")),
        {"messages[2].content[0].is_error": CONVERTED},
        {"tool_error_prefix": "Error: "},
    ),
    Row("result without content", looped(given("c1")), sent_looped(sent.result("c1", ""))),
    Row(
        "a found tool as the result",
        looped(given("c1", [{"type": "tool_reference", "tool_name": "g"}])),
        sent_looped(sent.result("c1", "The tool g is now available.")),
        {"messages[2].content[0].content[0]": CONVERTED},
    ),
    Row(
        "a call without a result",
        looped("more"),
        sent_looped(sent.result("c1", UNAVAILABLE), sent.user("more")),
        {"messages[1].content[0]": REPAIRED},
    ),
    Row(
        "a result without a call",
        user(given("c9", "r"), "x"),
        one("x"),
        {BLOCK: CONTENT},
    ),
]

ROWS = [*MESSAGES, *CALLS]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(A, C, row)

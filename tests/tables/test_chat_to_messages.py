"""A Chat client before a Messages upstream: the conversation of a request."""

from __future__ import annotations

import pytest

from tests.tables.requests import (
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    NOTE,
    NOTE_URL,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    REPAIRED,
    UNAVAILABLE,
    WEB,
    A,
    C,
    JsonObject,
    Row,
    check,
    ids,
)
from tests.tables.wire_chat import (
    assistant,
    call,
    file,
    free,
    free_call,
    image,
    msgs,
    parts,
    result,
    system,
    text,
    user,
)
from tests.tables.wire_messages import emulated, given, note, pdf, picture, said, use

FREE = free()
FREE_CALL = msgs(HI, assistant(tool_calls=[free_call("c1")]), result("c1", "r"))
BROKEN = msgs(HI, assistant(tool_calls=[call("c1", '{"a":')]), result("c1", "r"))


def broken_sent(arguments: JsonObject) -> list[JsonObject]:
    return [
        said("user", "hi"),
        said("assistant", use("c1", arguments)),
        said("user", given("c1", "r")),
    ]


MESSAGES = [
    Row("one leading system text", msgs(system("s"), HI), {"system": "s"}),
    Row(
        "system texts alone",
        msgs(system("a"), system("b")),
        {"system": "a", "messages[0].content": [{"type": "text", "text": "b"}]},
        {"messages[1]": CONVERTED},
    ),
    # req: 31
    Row(
        "several leading system and developer texts",
        msgs(system([text("a"), text("b")]), system("c", "developer", name="n"), HI),
        {"system": [text("a"), text("b"), text("c")]},
        {"messages[1].name": KNOB},
    ),
    Row(
        "later system text after a user turn, at the end",
        msgs(HI, system("late")),
        {"messages": [said("user", "hi"), said("system", "late")]},
    ),
    Row(
        "later system texts between user and assistant, merged",
        msgs(HI, system("x"), system("y", "developer"), assistant("a"), HI),
        {
            "messages": [
                said("user", "hi"),
                said("system", "x", "y"),
                said("assistant", "a"),
                said("user", "hi"),
            ]
        },
    ),
    Row(
        "later system text where it may not stand",
        msgs(HI, assistant("a"), system("late"), HI),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", "a"),
                said("user", "hi"),
                said("system", "late"),
            ],
        },
        {"messages[2]": CONVERTED},
    ),
    Row(
        "later system text, always moved to the front",
        msgs(HI, system("late")),
        {"system": "late"},
        {"messages[1]": CONVERTED},
        upstream={"late_system": "hoist"},
    ),
    Row(
        "later system text as user text",
        msgs(HI, system("late")),
        {"messages": [said("user", "hi", "<system-reminder>\nlate\n</system-reminder>")]},
        {"messages[1]": CONVERTED},
        upstream={"late_system": "user"},
    ),
    Row("name of a speaker", msgs(user("hi", name="bob")), {}, {"messages[0].name": KNOB}),
    # req: 32
    Row("user text parts", parts(text("a"), text("b")), {"messages": [said("user", "a", "b")]}),
    # req: 33, 44
    Row("image in a data URL", parts(image(PNG_URL)), {"messages": [said("user", picture(PNG))]}),
    Row(
        "image of the type image/jpg",
        parts(image(f"data:image/jpg;base64,{PNG}")),
        {"messages": [said("user", picture(PNG, "image/jpeg"))]},
    ),
    Row(
        "image of a type the service does not take",
        parts(image(f"data:image/bmp;base64,{PNG}"), text("x")),
        {"messages": [said("user", "x")]},
        {"messages[0].content[0]": CONTENT},
    ),
    # req: 44
    Row(
        "image by URL",
        parts(image(WEB, detail="auto")),
        {"messages": [said("user", {"type": "image", "source": {"type": "url", "url": WEB}})]},
    ),
    Row(
        "detail of an image",
        parts(image(PNG_URL, detail="high")),
        {"messages": [said("user", picture(PNG))]},
        {"messages[0].content[0]": KNOB},
    ),
    Row(
        "image for a model that takes none",
        parts(image(PNG_URL), text("x")),
        {"messages": [said("user", "[image left out: the model takes no images]", "x")]},
        {"messages[0].content[0]": CONTENT},
        upstream={"images": False},
    ),
    # req: 33
    Row(
        "PDF in a data URL",
        parts(file(file_data=PDF_URL, filename="a.pdf")),
        {"messages": [said("user", pdf(PDF, title="a.pdf"))]},
    ),
    Row(
        "PDF in bare base64",
        parts(file(file_data=PDF, filename="a.pdf")),
        {"messages": [said("user", pdf(PDF, title="a.pdf"))]},
    ),
    Row(
        "text file",
        parts(file(file_data=NOTE_URL, filename="a.txt")),
        {"messages": [said("user", note("a note", title="a.txt"))]},
    ),
    Row(
        "text file in bare base64",
        parts(file(file_data=NOTE, filename="a.TXT")),
        {"messages": [said("user", note("a note", title="a.TXT"))]},
    ),
    Row(
        "file of an unknown type, for it has no name",
        parts(file(file_data=NOTE), text("x")),
        {"messages": [said("user", "x")]},
        {"messages[0].content[0]": CONTENT},
    ),
    Row(
        "file of another type",
        parts(file(file_data=f"data:application/zip;base64,{NOTE}", filename="a"), text("x")),
        {"messages": [said("user", "x")]},
        {"messages[0].content[0]": CONTENT},
    ),
    Row(
        "file in OpenAI's store",
        parts(file(file_id="file-1"), text("x")),
        {"messages": [said("user", "x")]},
        {"messages[0].content[0]": CONTENT},
    ),
    # req: 34
    Row(
        "recorded sound",
        parts({"type": "input_audio", "input_audio": {"data": NOTE, "format": "wav"}}, text("x")),
        {"messages": [said("user", "x")]},
        {"messages[0].content[0]": CONTENT},
    ),
    Row(
        "spoken answers",
        {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}},
        {},
        {"modalities": CONTENT, "audio": CONTENT},
    ),
    Row(
        "a spoken answer in the history",
        msgs(HI, assistant("x", audio={"id": "au"}), HI),
        {"messages": [said("user", "hi"), said("assistant", "x"), said("user", "hi")]},
        {"messages[1].audio": CONTENT},
    ),
    Row(
        "assistant text parts, an empty one among them",
        msgs(HI, assistant([text(""), text("x")]), HI),
        {"messages": [said("user", "hi"), said("assistant", "x"), said("user", "hi")]},
    ),
    Row(
        "assistant refusal",
        msgs(HI, assistant(None, refusal="no"), HI),
        {"messages": [said("user", "hi"), said("assistant", "no"), said("user", "hi")]},
        {"messages[1].refusal": CONVERTED},
    ),
    Row(
        "assistant refusal part",
        msgs(HI, assistant([{"type": "refusal", "refusal": "no"}]), HI),
        {"messages": [said("user", "hi"), said("assistant", "no"), said("user", "hi")]},
        {"messages[1].content[0]": CONVERTED},
    ),
    *(
        Row(
            f"reasoning of another model in {name}",
            msgs(HI, assistant("x", **{name: value}), HI),
            {"messages": [said("user", "hi"), said("assistant", "x"), said("user", "hi")]},
            {f"messages[1].{name}": KNOB},
        )
        for name, value in (
            ("reasoning_content", "t"),
            ("reasoning", "t"),
            ("reasoning_details", [{"type": "reasoning.text", "text": "t", "signature": "s"}]),
        )
    ),
    Row(
        "an assistant message first",
        msgs(assistant("so"), HI),
        {
            "messages": [
                said("user", "(The conversation begins with the assistant.)"),
                said("assistant", "so"),
                said("user", "hi"),
            ]
        },
        {"messages[0]": REPAIRED},
    ),
    Row(
        "a final assistant message is a prefill",
        msgs(HI, assistant("so")),
        {"messages": [said("user", "hi"), said("assistant", "so")]},
        {"messages[1]": CONVERTED},
    ),
    Row(
        "a prefill with white space at its end",
        msgs(HI, assistant("so \n")),
        {"messages": [said("user", "hi"), said("assistant", "so")]},
        {"messages[1]": (CONVERTED, REPAIRED)},
    ),
    Row(
        "a prefill where thinking is asked for",
        {**msgs(HI, assistant("so")), "reasoning_effort": "low"},
        {
            "messages": [
                said("user", "hi"),
                said("assistant", "so"),
                said("user", "(The conversation goes on with the assistant.)"),
            ],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "low"},
        },
        {"messages[1]": REPAIRED},
    ),
    Row(
        "a final assistant message, refused",
        msgs(HI, assistant("so")),
        {"messages": [said("user", "hi"), said("assistant", "so")]},
        {"messages[1]": CONTENT},
        {"trailing_assistant": "reject"},
    ),
]

CALLS = [
    # req: 38, 42
    Row(
        "calls, their results together in one user turn, and what follows",
        msgs(
            HI,
            assistant("x", tool_calls=[call("c1", '{"a": 1}'), call("c2")]),
            result("c1", "r1"),
            result("c2", [text("p"), text("q")]),
            user("more"),
        ),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", "x", use("c1", {"a": 1}), use("c2")),
                said("user", given("c1", "r1"), given("c2", [text("p"), text("q")]), "more"),
            ]
        },
    ),
    Row(
        "results in another order than the calls",
        msgs(
            HI, assistant(tool_calls=[call("c1"), call("c2")]), result("c2", "2"), result("c1", "1")
        ),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", use("c1"), use("c2")),
                said("user", given("c1", "1"), given("c2", "2")),
            ]
        },
    ),
    Row(
        "an id with characters the service refuses",
        msgs(HI, assistant(tool_calls=[call("functions.f:0")]), result("functions.f:0", "r")),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", use("functions_f_0_d6bdd4de")),
                said("user", given("functions_f_0_d6bdd4de", "r")),
            ]
        },
    ),
    Row(
        "arguments that are no JSON object, wrapped",
        BROKEN,
        {"messages": broken_sent({"invalid_arguments": '{"a":'})},
        {"messages[1].tool_calls[0]": CONVERTED},
    ),
    Row(
        "arguments that are no JSON object, emptied",
        BROKEN,
        {"messages": broken_sent({})},
        {"messages[1].tool_calls[0]": CONVERTED},
        {"invalid_tool_arguments": "empty"},
    ),
    # req: 36
    Row(
        "arguments that are no JSON object, refused",
        BROKEN,
        {"messages": broken_sent({"invalid_arguments": '{"a":'})},
        {"messages[1].tool_calls[0]": CONTENT},
        {"invalid_tool_arguments": "error"},
    ),
    Row(
        "free-text call, emulated",
        {**FREE_CALL, "tools": [FREE]},
        {
            "tools": [emulated("g")],
            "messages": [
                said("user", "hi"),
                said("assistant", use("c1", {"input": "free"}, "g")),
                said("user", given("c1", "r")),
            ],
        },
        {"tools[0].custom": CONVERTED, "messages[1].tool_calls[0]": CONVERTED},
    ),
    # req: 41
    Row(
        "free-text call, refused",
        FREE_CALL,
        {"messages[1].content[0].name": "g"},
        {"messages[1].tool_calls[0]": CONTENT},
        {"custom_tools": "reject"},
    ),
    # req: 40
    Row(
        "legacy function_call and the role function",
        msgs(
            HI,
            assistant("x", function_call={"name": "f", "arguments": "{}"}),
            {"role": "function", "name": "f", "content": "r"},
            HI,
        ),
        {"messages": [said("user", "hi"), said("assistant", "x"), said("user", "hi")]},
        {"messages[1].function_call": CONTENT, "messages[2]": CONTENT},
    ),
    Row(
        "a call without a result",
        msgs(HI, assistant(tool_calls=[call("c1")]), user("more")),
        {
            "messages": [
                said("user", "hi"),
                said("assistant", use("c1")),
                said("user", given("c1", UNAVAILABLE, is_error=True), "more"),
            ]
        },
        {"messages[1].tool_calls[0]": REPAIRED},
    ),
    Row(
        "a call without a result, refused",
        msgs(HI, assistant(tool_calls=[call("c1")]), user("more")),
        {"messages[2].content[0].tool_use_id": "c1"},
        {"messages[1].tool_calls[0]": CONTENT},
        {"orphan_calls": "reject"},
    ),
    Row(
        "a result without a call",
        msgs(HI, result("c9", "r")),
        {},
        {"messages[1]": CONTENT},
    ),
    Row(
        "a result without a call, dropped",
        msgs(HI, result("c9", "r")),
        {},
        {"messages[1]": CONVERTED},
        {"orphan_results": "drop"},
    ),
    Row(
        "a result without a call, as user text",
        msgs(HI, result("c9", "r")),
        {"messages": [said("user", "hi", "r")]},
        {"messages[1]": CONVERTED},
        {"orphan_results": "text"},
    ),
]

ROWS = [*MESSAGES, *CALLS]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, A, row)

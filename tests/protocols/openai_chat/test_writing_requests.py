"""A request for a Chat upstream, from canonical values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Foreign,
    Image,
    Nested,
    Opaque,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
    UrlCitation,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    Grammar,
    HostedTool,
    JsonObject,
    JsonSchema,
    Thinking,
    ToolChoice,
    ToolRef,
    Turn,
)
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    REPAIRED,
    SCHEMA,
    SEALER,
    Losses,
    assistant,
    check_request,
    read,
    user,
    write,
)

NATIVE = Capabilities(custom_tools_native=True)
MARKS = Capabilities(prompt_cache_breakpoints=True)
CALL = ToolCall(id="c1", name="f", arguments='{"a":1}', path="call")


def text(value: str, **fields: Any) -> Text:
    """A text block with a path."""
    return Text(text=value, path="t", **fields)


def messages(*turns: Turn, **fields: Any) -> list[Any]:
    """The messages of a request that loses nothing."""
    body, losses = write(*turns, **fields)
    assert losses == set()
    check_request(body)
    written: list[Any] = body["messages"]
    return written


def content_of(block: Block, **fields: Any) -> tuple[Any, Losses]:
    """The content of a user message with one block, and the losses."""
    body, losses = write(user(block), **fields)
    return body["messages"][0]["content"] if body["messages"] else None, losses


# --- system -------------------------------------------------------------------------------------


def test_instructions_come_first() -> None:
    """One system message, before all others. req: 14, 46"""
    assert messages(user(text("hi")), instructions=(text("be good"),)) == [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "hi"},
    ]


def test_several_system_texts_keep_their_boundaries() -> None:
    """Parts, or for servers that want strings a blank line. req: 15"""
    two = (text("a"), text("b"))
    assert messages(instructions=two)[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    strings = Capabilities(system_as_string=True)
    assert messages(instructions=two, capabilities=strings)[0]["content"] == "a\n\nb"


def test_the_system_role_is_the_upstreams() -> None:
    late = Turn(role="developer", blocks=(text("b"),))
    developer = Capabilities(system_role="developer")
    written = messages(late, instructions=(text("a"),), capabilities=developer)
    assert [message["role"] for message in written] == ["developer", "developer"]
    written = messages(late, instructions=(text("a"),))
    assert [message["role"] for message in written] == ["system", "system"]


def test_system_turns_stay_in_place() -> None:
    late = Turn(role="system", blocks=(text("b"),), name="n")
    written = messages(user(text("a")), late)
    assert written[1] == {"role": "system", "content": "b", "name": "n"}


def test_a_billing_header_is_stripped_and_reported() -> None:
    header = Text(text="x-anthropic-billing-header: cch=1", path="system[0]")
    body, losses = write(user(text("hi")), instructions=(header, text("a")))
    assert body["messages"][0] == {"role": "system", "content": "a"}
    assert losses == {("system[0]", KNOB)}


def test_a_system_turn_takes_text_alone() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    body, losses = write(Turn(role="system", blocks=(text("a"), image)))
    assert body["messages"] == [{"role": "system", "content": "a"}]
    assert losses == {("i", CONTENT)}


# --- user turns ---------------------------------------------------------------------------------


def test_a_single_text_is_a_string_and_several_are_parts() -> None:
    """A string for one text, parts for more. req: 16, 17, 45, 47, 48"""
    assert messages(user(text("a"), name="n"))[0] == {"role": "user", "content": "a", "name": "n"}
    assert messages(user(text("a"), text("b")))[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            Image(source=Base64("image/png", PNG), detail="low"),
            {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}},
        ),
        (
            Image(source=Url("https://x.org/a.png")),
            {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
        ),
        (
            Document(source=Base64("application/pdf", PDF), title="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
        ),
        (
            Document(source=Base64("application/pdf", PDF)),
            {"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}},
        ),
        (
            Document(source=FileId("file-1", "openai")),
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            Audio(data="aGk=", format="wav"),
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        ),
    ],
)
def test_media_parts(block: Block, part: dict[str, Any]) -> None:
    """Base64 becomes a data URL, an address stays one. req: 18"""
    assert messages(user(block)) == [{"role": "user", "content": [part]}]


@pytest.mark.parametrize(
    ("block", "content", "losses"),
    [
        (
            Document(source=PlainText("body"), title="T", path="d"),
            "Document: T\n\nbody",
            {("d", CONVERTED)},
        ),
        (Document(source=PlainText("body"), path="d"), "body", {("d", CONVERTED)}),
        (
            Document(source=PlainText("body"), context="c", citations=True, path="d"),
            "Context: c\n\nbody",
            {("d", CONVERTED), ("d.context", CONVERTED), ("d.citations", KNOB)},
        ),
        (
            Document(
                source=Nested((Text(text="a"), Image(source=Base64("image/png", PNG)))),
                title="T",
                path="d",
            ),
            [
                {"type": "text", "text": "Document: T"},
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
            {("d", CONVERTED)},
        ),
        (
            Document(source=Base64("application/pdf", PDF), context="c", path="d"),
            [
                {"type": "text", "text": "Context: c"},
                {"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}},
            ],
            {("d.context", CONVERTED)},
        ),
        (
            SearchResult(
                source="https://x.org",
                title="T",
                content=(Text(text="a"), Text(text="b")),
                path="s",
            ),
            "T\nhttps://x.org\n\na\n\nb",
            {("s", CONVERTED)},
        ),
        (ToolReference(name="f", path="r"), "The tool f is now available.", set()),
        (Refusal(text="no", path="r"), "no", set()),
        (
            Text(
                text="a",
                annotations=(UrlCitation(url="u"),),
                logprobs=({},),
                phase="commentary",
                path="input[0].content[0]",
            ),
            "a",
            {
                ("input[0].content[0].annotations", KNOB),
                ("input[0].content[0].logprobs", KNOB),
                ("input[0].phase", KNOB),
            },
        ),
    ],
)
def test_blocks_that_become_text(block: Block, content: Any, losses: Losses) -> None:
    assert content_of(block) == (content, losses)


@pytest.mark.parametrize(
    ("block", "capabilities"),
    [
        (Image(source=FileId("file-1", "openai"), path="b"), Capabilities()),
        (Image(source=Base64("image/png", PNG), path="b"), Capabilities(images=False)),
        (Document(source=Url("https://x.org/a.pdf"), path="b"), Capabilities()),
        (Document(source=FileId("file_1", "anthropic"), path="b"), Capabilities()),
        (
            Document(source=Base64("application/pdf", PDF), path="b"),
            Capabilities(chat_files=False),
        ),
        (Foreign(origin="anthropic_messages", type="x", raw={}, path="b"), Capabilities()),
        (Reasoning(parts=("a",), path="b"), Capabilities()),
    ],
)
def test_what_cannot_be_said_is_lost_content(block: Block, capabilities: Capabilities) -> None:
    body, losses = write(user(block), user(text("hi")), capabilities=capabilities)
    assert losses == {("b", CONTENT)}
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_a_foreign_block_says_itself_what_its_loss_is() -> None:
    block = Foreign(origin="x", type="y", raw={}, path="b", loss=LossKind.KNOB)
    assert write(user(block))[1] == {("b", KNOB)}


def test_a_text_file_is_text_where_files_are_not_taken() -> None:
    block = Document(source=Base64("text/plain", "aGk="), title="a.txt", path="d")
    content, losses = content_of(block, capabilities=Capabilities(chat_files=False))
    assert (content, losses) == ("Document: a.txt\n\nhi", {("d", CONVERTED)})


# --- assistant turns ----------------------------------------------------------------------------


def test_text_and_calls_of_a_turn_are_one_message() -> None:
    """Arguments are the text they came as. req: 20"""
    turn = assistant(text("I look."), CALL, ToolCall(id="c2", name="g", arguments=" "))
    results = user(ToolResult(call_id="c1"), ToolResult(call_id="c2"))
    assert messages(turn, results)[0] == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_a_turn_of_calls_alone_has_no_content() -> None:
    turn = messages(assistant(CALL), user(ToolResult(call_id="c1")))[0]
    assert turn["content"] is None


def test_text_after_calls_is_reported_once() -> None:
    body, losses = write(assistant(CALL, text("a"), text("b")), user(ToolResult(call_id="c1")))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert losses == {("a", CONVERTED)}


def test_a_refusal_has_its_own_field() -> None:
    turn = assistant(text("a"), Refusal(text="no"), Refusal(text="!"), name="n")
    assert messages(turn)[0] == {
        "role": "assistant",
        "content": "a",
        "name": "n",
        "refusal": "no!",
    }


def test_an_assistant_turn_that_says_nothing() -> None:
    assert messages(assistant())[0] == {"role": "assistant", "content": ""}
    body, losses = write(assistant(Reasoning(parts=("a",), path="r")), user(text("hi")))
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert losses == {("r", KNOB)}


@pytest.mark.parametrize(
    ("replay", "calls", "shown"),
    [
        ("never", True, False),
        ("tool_turns", False, False),
        ("tool_turns", True, True),
        ("always", False, True),
    ],
)
def test_reasoning_is_replayed_as_the_upstream_wants(replay: Any, calls: bool, shown: bool) -> None:
    """Left out, or sent back as text. req: 19"""
    thought = Reasoning(parts=("a", "b"), path="r")
    later = (CALL,) if calls else (text("x"),)
    turns = (assistant(thought, *later), user(*([ToolResult(call_id="c1")] if calls else [])))
    body, losses = write(*turns, capabilities=Capabilities(replay_reasoning=replay))
    assert body["messages"][0].get("reasoning_content") == ("a\n\nb" if shown else None)
    assert losses == (set() if shown else {("r", KNOB)})


def test_state_of_another_vendor_is_reported_even_if_its_text_is_sent() -> None:
    thought = Reasoning(parts=("a",), opaque=Opaque("anthropic_messages", "S"), path="r")
    always = Capabilities(replay_reasoning="always")
    assert write(assistant(thought, text("x")), capabilities=always)[1] == {("r", KNOB)}
    marked = Reasoning(parts=("a",), opaque=Opaque("marker", "S"), path="r")
    assert write(assistant(marked, text("x")), capabilities=always)[1] == set()


def test_a_chat_servers_own_state_goes_back_as_it_came() -> None:
    entries = [{"type": "reasoning.text", "text": "hm", "signature": "SIG", "index": 0}]
    turn = read(
        {"role": "assistant", "content": "x", "reasoning_details": entries, "reasoning": "hm"}
    ).turns[0]
    body, losses = write(turn)
    assert body["messages"][0]["reasoning_details"] == entries
    assert losses == set()


# --- tool results -------------------------------------------------------------------------------


def test_results_come_right_after_the_calls_and_before_user_text() -> None:
    """Results first, each a tool message of its own. req: 21, 23"""
    turn = user(text("and?"), ToolResult(call_id="c1", content=(text("4"),)))
    assert messages(assistant(CALL), turn)[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "user", "content": "and?"},
    ]


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ((), ""),
        ((Text(text="a"), Text(text="b")), "ab"),
        ((ToolReference(name="f"), ToolReference(name="g")), None),
    ],
)
def test_texts_of_a_result_are_one_string(content: Any, written: str | None) -> None:
    """Texts are joined with nothing between them. req: 22"""
    message = messages(assistant(CALL), user(ToolResult(call_id="c1", content=content)))[1]
    expected = "The tool f is now available.\n\nThe tool g is now available."
    assert message["content"] == (expected if written is None else written)


def test_images_of_a_result_move_to_the_user_with_a_note() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    pdf = Document(source=Base64("application/pdf", PDF), title="a.pdf", path="d")
    result = ToolResult(call_id="c1", content=(text("see"), image, pdf))
    body, losses = write(assistant(CALL), user(result, text("so?")))
    assert body["messages"][1:] == [
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "see\n\n[Attached in the next message: image, a.pdf]",
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[Attached by the result of f (c1): image, a.pdf]"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
                {"type": "text", "text": "so?"},
            ],
        },
    ]
    assert losses == {("i", CONVERTED), ("d", CONVERTED)}


def test_attachments_follow_the_last_of_several_results() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    calls = assistant(CALL, ToolCall(id="c2", name="g", arguments="{}"))
    results = user(
        ToolResult(call_id="c1", content=(image,)), ToolResult(call_id="c2", content=(image,))
    )
    body, _ = write(calls, results)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["assistant", "tool", "tool", "user"]
    notes = [part["text"] for part in body["messages"][3]["content"] if part["type"] == "text"]
    assert notes == [
        "[Attached by the result of f (c1): image]",
        "[Attached by the result of g (c2): image]",
    ]


def test_images_stay_in_the_result_where_the_upstream_takes_them() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    result = ToolResult(call_id="c1", content=(text("see"), image))
    capable = Capabilities(tool_message_images=True)
    body, losses = write(assistant(CALL), user(result), capabilities=capable)
    assert body["messages"][1:] == [
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
        }
    ]
    assert losses == set()


def test_a_failed_tool_is_reported_and_its_text_unchanged() -> None:
    """No error flag upstream: the text goes through as it is. req: 24"""
    result = ToolResult(call_id="c1", content=(text("boom"),), is_error=True, path="r")
    body, losses = write(assistant(CALL), user(result))
    assert body["messages"][1] == {"role": "tool", "tool_call_id": "c1", "content": "boom"}
    assert losses == {("r.is_error", KNOB)}
    body, losses = write(
        assistant(CALL), user(result), options=Options(tool_error_prefix="Error: ")
    )
    assert body["messages"][1]["content"] == "Error: boom"
    assert losses == set()


def test_a_call_without_a_result_is_answered_for_it() -> None:
    """A truncated history is completed, and reported. req: 151"""
    body, losses = write(assistant(CALL), user(text("go on")))
    assert body["messages"][1]["role"] == "tool"
    assert "unavailable" in body["messages"][1]["content"]
    assert losses == {("call", REPAIRED)}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("toolu_01A", True),
        ("functions.get_weather:0", True),
        ("x" * 40, True),
        ("x" * 41, False),
        ("a b", False),
        ("", False),
    ],
)
def test_call_ids_are_kept_if_they_are_legal(given: str, kept: bool) -> None:
    """The id goes through unchanged wherever it can. req: 111"""
    call = ToolCall(id=given, name="f", arguments="{}")
    written = messages(assistant(call), user(ToolResult(call_id=given)))
    call_id = written[0]["tool_calls"][0]["id"]
    assert written[1]["tool_call_id"] == call_id
    assert (call_id == given) is kept
    assert 0 < len(call_id) <= 40


# --- custom tools -------------------------------------------------------------------------------

PATCH = CustomTool(
    name="patch", description="Edit.", grammar=Grammar("lark", "start: X"), path="tools[0]"
)
PATCHED = ToolCall(id="c1", name="patch", arguments="*** Begin", custom=True, path="call")
PATCH_RESULT = ToolResult(call_id="c1", content=(Text(text="ok"),), custom=True, path="r")


def test_a_custom_tool_is_emulated_by_a_function() -> None:
    body, losses = write(assistant(PATCHED), user(PATCH_RESULT), tools=(PATCH,))
    function = body["tools"][0]["function"]
    assert function["name"] == "patch"
    assert function["parameters"]["required"] == ["input"]
    assert function["parameters"]["properties"]["input"]["type"] == "string"
    assert "Edit." in function["description"]
    assert "start: X" in function["description"]
    assert body["messages"][0]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "patch", "arguments": '{"input":"*** Begin"}'},
    }
    assert losses == {("tools[0]", CONVERTED), ("call", CONVERTED)}


def test_a_custom_tool_is_sent_as_it_is_where_it_is_known() -> None:
    choice = ToolChoice(mode="tool", tool=ToolRef("patch", custom=True))
    body, losses = write(
        assistant(PATCHED),
        user(PATCH_RESULT),
        tools=(PATCH,),
        tool_choice=choice,
        capabilities=NATIVE,
    )
    check_request(body)
    assert body["tools"][0]["custom"] == {
        "name": "patch",
        "description": "Edit.",
        "format": {
            "type": "grammar",
            "grammar": {"syntax": "lark", "definition": "start: X"},
        },
    }
    assert body["messages"][0]["tool_calls"][0] == {
        "id": "c1",
        "type": "custom",
        "custom": {"name": "patch", "input": "*** Begin"},
    }
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    assert losses == set()


def test_custom_tools_can_be_rejected() -> None:
    reject = Options(custom_tools="reject")
    body, losses = write(assistant(PATCHED), user(PATCH_RESULT), tools=(PATCH,), options=reject)
    assert "tools" not in body
    assert losses == {("tools[0]", CONTENT), ("call", CONTENT)}


# --- tools --------------------------------------------------------------------------------------


def test_function_tools() -> None:
    """Nested under `function`. req: 25, 51"""
    tool = FunctionTool(name="f", description="d", schema=SCHEMA, strict=True)
    body, losses = write(tools=(tool,), parallel_tool_calls=False)
    check_request(body)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
        }
    ]
    assert body["parallel_tool_calls"] is False
    assert losses == set()


@pytest.mark.parametrize(
    ("schema", "written", "losses"),
    [
        (None, {"type": "object", "properties": {}}, set()),
        ({"type": "object"}, {"type": "object", "properties": {}}, set()),
        (
            {"properties": {"a": {}}},
            {"properties": {"a": {}}, "type": "object"},
            {("tools[0]", REPAIRED)},
        ),
    ],
)
def test_schemas_are_completed(schema: Any, written: Any, losses: Losses) -> None:
    body, found = write(tools=(FunctionTool(name="f", schema=schema, path="tools[0]"),))
    assert body["tools"][0]["function"]["parameters"] == written
    assert found == losses


def test_what_a_tool_declaration_cannot_carry_is_reported() -> None:
    """Marks and flags without a place upstream. req: 30"""
    tool = FunctionTool(
        name="f",
        schema=SCHEMA,
        strict=True,
        deferred=True,
        cache=CacheMark(),
        path="tools[0]",
    )
    body, losses = write(tools=(tool,), capabilities=Capabilities(strict_tools=False))
    assert body["tools"][0]["function"] == {"name": "f", "parameters": SCHEMA}
    assert losses == {
        ("tools[0].strict", KNOB),
        ("tools[0].defer_loading", KNOB),
        ("tools[0]", KNOB),
    }


def test_namespaces_are_flattened() -> None:
    tool = FunctionTool(name="f", namespace="ns", schema=SCHEMA)
    call = ToolCall(id="c1", name="f", namespace="ns", arguments="{}")
    choice = ToolChoice(mode="tool", tool=ToolRef("f", namespace="ns"))
    body, losses = write(
        assistant(call), user(ToolResult(call_id="c1")), tools=(tool,), tool_choice=choice
    )
    assert body["tools"][0]["function"]["name"] == "ns__f"
    assert body["messages"][0]["tool_calls"][0]["function"]["name"] == "ns__f"
    assert body["tool_choice"]["function"]["name"] == "ns__f"
    assert losses == set()


@pytest.mark.parametrize(("option", "kind"), [("drop", KNOB), ("reject", CONTENT)])
def test_hosted_tools_are_left_out(option: Any, kind: LossKind) -> None:
    tool = HostedTool(origin="openai_responses", type="web_search", raw={}, path="tools[0]")
    body, losses = write(tools=(tool,), options=Options(hosted_tools=option))
    assert "tools" not in body
    assert losses == {("tools[0]", kind)}


def test_the_vendors_own_search_is_kept() -> None:
    body, losses = write(tools=read(web_search_options={"search_context_size": "low"}).tools)
    assert body["web_search_options"] == {"search_context_size": "low"}
    assert losses == set()


TOOLS = (FunctionTool(name="f", schema=SCHEMA), FunctionTool(name="g", schema=SCHEMA))


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (ToolChoice(mode="auto"), "auto"),
        (ToolChoice(mode="none"), "none"),
        (ToolChoice(mode="required"), "required"),
        (
            ToolChoice(mode="tool", tool=ToolRef("f")),
            {"type": "function", "function": {"name": "f"}},
        ),
        (
            ToolChoice(mode="required", allowed=(ToolRef("g"),)),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "g"}}],
                },
            },
        ),
    ],
)
def test_tool_choices(choice: ToolChoice, written: Any) -> None:
    """All modes in Chat's words. req: 26"""
    body, losses = write(tools=TOOLS, tool_choice=choice)
    check_request(body)
    assert body["tool_choice"] == written
    assert losses == set()


def test_a_choice_without_tools_is_not_sent() -> None:
    required = ToolChoice(mode="required", path="tool_choice")
    body, losses = write(tool_choice=required, parallel_tool_calls=True)
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body
    assert losses == {("tool_choice", REPAIRED)}
    assert write(tool_choice=ToolChoice(mode="auto"))[1] == set()


def test_a_choice_of_a_tool_that_is_not_offered_is_lost_content() -> None:
    choice = ToolChoice(mode="tool", tool=ToolRef("web_search"), path="tool_choice")
    body, losses = write(tools=TOOLS, tool_choice=choice)
    assert "tool_choice" not in body
    assert losses == {("tool_choice", CONTENT)}


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"verbosity": "low"}, {"verbosity": "low"}),
        ({"thinking": Thinking(effort="max")}, {"reasoning_effort": "max"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        ({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
        ({"prompt_cache_retention": "24h"}, {"prompt_cache_retention": "24h"}),
        (
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}},
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}},
        ),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"moderation": {"model": "x"}}, {"moderation": {"model": "x"}}),
        ({"store": False}, {}),
        ({"speed": "standard"}, {}),
        ({"output_format": JsonObject()}, {"response_format": {"type": "json_object"}}),
        (
            {"output_format": JsonSchema(schema=SCHEMA, name="n", description="d", strict=False)},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "description": "d",
                        "schema": SCHEMA,
                        "strict": False,
                    },
                }
            },
        ),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False, "include_usage": True}, {}),
    ],
)
def test_settings(fields: dict[str, Any], written: dict[str, Any]) -> None:
    """Each in Chat's own name; 0 is a value; usage is always asked for. req: 27, 28, 49, 50"""
    body, losses = write(**fields)
    check_request(body)
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert losses == set()


@pytest.mark.parametrize(
    ("fields", "capabilities", "written", "losses"),
    [
        ({"max_output_tokens": 5}, {"max_tokens_field": "max_tokens"}, {"max_tokens": 5}, set()),
        (
            {"max_output_tokens": 500},
            {"max_output_tokens": 100},
            {"max_completion_tokens": 100},
            {("max_output_tokens", REPAIRED)},
        ),
        ({"max_output_tokens": 0}, {}, {}, {("max_output_tokens", CONTENT)}),
        (
            {"stop": tuple("abcde")},
            {},
            {"stop": list("abcd")},
            {("stop", CONTENT)},
        ),
        (
            {"temperature": 0.5, "top_p": 1.0},
            {"sampling": False},
            {},
            {("temperature", KNOB)},
        ),
        ({"top_k": 4}, {"top_k": True}, {"top_k": 4}, set()),
        ({"top_k": 4}, {}, {}, {("top_k", KNOB)}),
        ({"top_logprobs": 4}, {}, {}, {("top_logprobs", KNOB)}),
        ({"store": True}, {}, {}, {("store", KNOB)}),
        ({"auto_cache": CacheMark()}, {}, {}, {("auto_cache", KNOB)}),
        ({"service_tier": "ultrafast"}, {}, {}, {("service_tier", KNOB)}),
        ({"speed": "fast"}, {}, {}, {("speed", KNOB)}),
        (
            {"prompt_cache_options": {"ttl": "12h", "prewarm": True}},
            {},
            {},
            {("prompt_cache_options.ttl", KNOB), ("prompt_cache_options.prewarm", KNOB)},
        ),
        (
            {"output_format": JsonSchema(schema=SCHEMA)},
            {"structured_output": False},
            {},
            {("output_format", CONTENT)},
        ),
        ({"stream": True}, {"stream_usage": False}, {"stream": True}, set()),
    ],
)
def test_settings_that_depend_on_the_upstream(
    fields: dict[str, Any],
    capabilities: dict[str, Any],
    written: dict[str, Any],
    losses: Losses,
) -> None:
    body, found = write(capabilities=Capabilities(**capabilities), **fields)
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert found == losses


STRICT_SCHEMA = {**SCHEMA, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT_SCHEMA, True),
        (SCHEMA, False),
        ({**STRICT_SCHEMA, "required": []}, False),
        ({**STRICT_SCHEMA, "allOf": []}, False),
        ({"anyOf": [STRICT_SCHEMA]}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"type": "array", "items": SCHEMA}}}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"anyOf": [STRICT_SCHEMA]}}}, True),
        ({**STRICT_SCHEMA, "$defs": {"x": SCHEMA}}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"type": ["object", "null"]}}}, False),
    ],
)
def test_a_format_without_a_name_is_strict_if_its_schema_can_be(schema: Any, strict: bool) -> None:
    """Messages always enforces the schema; here only the strict subset can be."""
    body, losses = write(output_format=JsonSchema(schema=schema))
    written = body["response_format"]["json_schema"]
    assert written == {"name": "output", "schema": schema, "strict": strict}
    assert losses == (set() if strict else {("output_format", CONVERTED)})


@pytest.mark.parametrize(
    ("thinking", "capabilities", "written", "lossy"),
    [
        (Thinking(), {}, {}, False),
        (Thinking(mode="adaptive"), {}, {}, False),
        (Thinking(mode="adaptive", effort="low"), {}, {"reasoning_effort": "low"}, False),
        (Thinking(mode="disabled"), {}, {"reasoning_effort": "none"}, False),
        (Thinking(mode="between_tools"), {}, {"reasoning_effort": "none"}, True),
        (Thinking(mode="enabled", budget=2048), {}, {"reasoning_effort": "low"}, True),
        (Thinking(mode="enabled", budget=12288), {}, {"reasoning_effort": "medium"}, True),
        (Thinking(mode="enabled", budget=32768), {}, {"reasoning_effort": "high"}, True),
        (Thinking(mode="enabled", budget=32769), {}, {"reasoning_effort": "xhigh"}, True),
        (
            Thinking(effort="max"),
            {"efforts": ("low", "high")},
            {"reasoning_effort": "high"},
            True,
        ),
        (
            Thinking(effort="none"),
            {"efforts": ("minimal", "high")},
            {"reasoning_effort": "minimal"},
            True,
        ),
        (
            Thinking(effort="minimal"),
            {"efforts": ("none", "low")},
            {"reasoning_effort": "low"},
            True,
        ),
        (Thinking(effort="low"), {"efforts": ()}, {}, True),
        (Thinking(effort="low"), {"effort": "none"}, {}, True),
        (
            Thinking(effort="none"),
            {"effort": "chat_template_kwargs"},
            {"chat_template_kwargs": {"enable_thinking": False}},
            False,
        ),
        (
            Thinking(effort="high"),
            {"effort": "chat_template_kwargs"},
            {"chat_template_kwargs": {"enable_thinking": True}},
            True,
        ),
        (
            Thinking(mode="disabled"),
            {"effort": "enable_thinking"},
            {"enable_thinking": False},
            False,
        ),
    ],
)
def test_thinking(
    thinking: Thinking, capabilities: dict[str, Any], written: dict[str, Any], lossy: bool
) -> None:
    """How much to think, in the upstream's way of saying it. req: 29"""
    body, losses = write(thinking=thinking, capabilities=Capabilities(**capabilities))
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert losses == ({("thinking", KNOB)} if lossy else set())


def test_a_long_user_id_is_hashed() -> None:
    """Deterministically, so that the user stays the same user."""
    first, losses = write(safety_identifier="x" * 129)
    second, _ = write(safety_identifier="x" * 129)
    assert len(first["safety_identifier"]) == 64
    assert first == second
    assert losses == set()


def test_fast_can_be_mapped() -> None:
    body, losses = write(speed="fast", options=Options(map_fast=True))
    assert body["service_tier"] == "fast"
    assert losses == set()


def test_losses_are_told_in_the_clients_words() -> None:
    paths = {"max_output_tokens": "max_tokens", "stop": "stop_sequences"}
    losses = write(max_output_tokens=0, stop=tuple("abcde"), paths=paths)[1]
    assert losses == {("max_tokens", CONTENT), ("stop_sequences", CONTENT)}


def test_extras_of_the_client_are_losses() -> None:
    extra = Extra("container", "x", CONTENT, code="previous_response_not_found")
    assert write(extras=(extra,))[1] == {("container", CONTENT)}


# --- caching ------------------------------------------------------------------------------------


def marks(content: Iterable[Any]) -> list[Any]:
    """The cache marks on parts."""
    return [part.get("prompt_cache_breakpoint") for part in content]


@pytest.mark.parametrize(
    ("ttl", "mark", "losses"),
    [
        (None, {"mode": "explicit"}, set()),
        ("30m", {"mode": "explicit", "ttl": "30m"}, set()),
        ("12h", {"mode": "explicit", "ttl": "12h"}, set()),
        ("5m", {"mode": "explicit"}, {("t", KNOB)}),
        ("1h", {"mode": "explicit"}, {("t", KNOB)}),
    ],
)
def test_cache_marks_where_the_upstream_takes_them(ttl: Any, mark: Any, losses: Losses) -> None:
    body, found = write(user(text("a", cache=CacheMark(ttl))), capabilities=MARKS)
    check_request(body)
    assert marks(body["messages"][0]["content"]) == [mark]
    assert found == losses


def test_cache_marks_are_stripped_elsewhere() -> None:
    """From system texts, blocks and results alike. req: 30"""
    mark = CacheMark()
    call = ToolCall(id="c1", name="f", arguments="{}", cache=mark, path="call")
    body, losses = write(
        user(Text(text="a", cache=mark, path="u")),
        assistant(call),
        user(ToolResult(call_id="c1", content=(text("r"),), cache=mark, path="r")),
        instructions=(Text(text="s", cache=mark, path="system[0]"),),
    )
    assert [message["content"] for message in body["messages"]] == ["s", "a", None, "r"]
    assert losses == {("system[0]", KNOB), ("u", KNOB), ("call", KNOB), ("r", KNOB)}


def test_only_the_last_four_marks_are_sent() -> None:
    texts = [Text(text=str(n), cache=CacheMark(), path=f"t{n}") for n in range(6)]
    body, losses = write(user(*texts), capabilities=MARKS)
    kept = [mark is not None for mark in marks(body["messages"][0]["content"])]
    assert kept == [False, False, True, True, True, True]
    assert losses == {("t0", KNOB), ("t1", KNOB)}


def test_a_mark_on_a_result_stands_on_its_last_text() -> None:
    result = ToolResult(call_id="c1", content=(text("a"), text("b")), cache=CacheMark())
    body, losses = write(assistant(CALL), user(result), capabilities=MARKS)
    assert marks(body["messages"][1]["content"]) == [None, {"mode": "explicit"}]
    assert losses == set()


# --- stability ----------------------------------------------------------------------------------


def test_a_longer_conversation_keeps_its_earlier_messages() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    turns = [
        user(text("a")),
        assistant(Reasoning(parts=("x",), opaque=Opaque("marker", "")), CALL),
        user(ToolResult(call_id="c1", content=(text("r"), image))),
        assistant(text("b")),
        user(text("c")),
    ]
    short = write(*turns[:3])[0]["messages"]
    assert write(*turns)[0]["messages"][: len(short)] == short


def test_an_envelope_is_not_sent_upstream() -> None:
    """The client's reasoning field never carries what only we can read."""
    sealed = Reasoning(parts=("a",), opaque=Opaque("anthropic_messages", "S"))
    entry = {"type": "reasoning.text", "text": "a", "signature": SEALER.seal(sealed)}
    turn = read({"role": "assistant", "content": "x", "reasoning_details": [entry]}).turns[0]
    body, _ = write(turn)
    assert body["messages"] == [{"role": "assistant", "content": "x"}]

"""Turns as the messages of a request for a Chat upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
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
from dragoman.canonical.options import Capabilities
from dragoman.canonical.requests import (
    Turn,
)
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    REPAIRED,
    SEALER,
    Losses,
    assistant,
    check_request,
    read,
    user,
    write,
)

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


# --- system ---------------------------------------------------------------------------------------


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
    strings = make_capabilities(system_as_string=True)
    assert messages(instructions=two, capabilities=strings)[0]["content"] == "a\n\nb"


def test_the_system_role_is_the_upstreams() -> None:
    late = Turn(role="developer", blocks=(text("b"),))
    developer = make_capabilities(system_role="developer")
    written = messages(late, instructions=(text("a"),), capabilities=developer)
    assert [message["role"] for message in written] == ["developer", "developer"]
    written = messages(late, instructions=(text("a"),))
    assert [message["role"] for message in written] == ["system", "system"]


def test_system_turns_stay_in_place() -> None:
    late = Turn(role="system", blocks=(text("b"),), name="n")
    written = messages(user(text("a")), late)
    assert written[1] == {"role": "system", "content": "b", "name": "n"}


def test_a_system_turn_takes_text_alone() -> None:
    image = Image(source=Base64("image/png", PNG), path="i")
    body, losses = write(Turn(role="system", blocks=(text("a"), image)))
    assert body["messages"] == [{"role": "system", "content": "a"}]
    assert losses == {("i", CONTENT)}


# --- user turns -----------------------------------------------------------------------------------


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
        (ToolReference(name="f", path="r"), "The tool f is now available.", {("r", CONVERTED)}),
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
                ("input[0].content[0]", KNOB),
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
        (Image(source=Base64("image/png", PNG), path="b"), make_capabilities(images=False)),
        (Document(source=Url("https://x.org/a.pdf"), path="b"), Capabilities()),
        (Document(source=FileId("file_1", "anthropic"), path="b"), Capabilities()),
        (
            Document(source=Base64("application/pdf", PDF), path="b"),
            make_capabilities(chat_files=False),
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
    assert write(user(block), user(text("hi")))[1] == {("b", KNOB)}


def test_a_request_that_says_nothing_is_lost_content() -> None:
    silent = Turn(role="assistant", blocks=(text(""),), path="messages[0]")
    assert write(silent)[1] == {("messages", CONTENT)}
    assert write(silent, user(text("hi")))[1] == set()


def test_a_text_file_is_text_where_files_are_not_taken() -> None:
    block = Document(source=Base64("text/plain", "aGk="), title="a.txt", path="d")
    content, losses = content_of(block, capabilities=make_capabilities(chat_files=False))
    assert (content, losses) == ("Document: a.txt\n\nhi", {("d", CONVERTED)})


# --- assistant turns ------------------------------------------------------------------------------


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
    body, losses = write(*turns, capabilities=make_capabilities(replay_reasoning=replay))
    assert body["messages"][0].get("reasoning_content") == ("a\n\nb" if shown else None)
    assert losses == (set() if shown else {("r", KNOB)})


def test_state_of_another_vendor_is_reported_even_if_its_text_is_sent() -> None:
    thought = Reasoning(parts=("a",), opaque=Opaque("anthropic_messages", "S"), path="r")
    always = make_capabilities(replay_reasoning="always")
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


# --- tool results ---------------------------------------------------------------------------------


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
    body, _ = write(assistant(CALL), user(ToolResult(call_id="c1", content=content)))
    message = body["messages"][1]
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
    capable = make_capabilities(tool_message_images=True)
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
        assistant(CALL), user(result), options=make_options(tool_error_prefix="Error: ")
    )
    assert body["messages"][1]["content"] == "Error: boom"
    assert losses == {("r.is_error", CONVERTED)}


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


# --- stability ------------------------------------------------------------------------------------


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

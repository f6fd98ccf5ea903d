"""What is said in a request for a Messages upstream."""

from __future__ import annotations

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
    ForeignCitation,
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
from dragoman.canonical.requests import FunctionTool, Turn
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    DEFAULTS,
    KNOB,
    NAME,
    OLD_VERSION,
    REPAIRED,
    request_of,
    write,
)
from tests.protocols.anthropic_messages.requests import HI, PNG, F


def user(*blocks: Block, **options: Any) -> tuple[Any, set[tuple[str, LossKind]]]:
    """The content of one user message, and the losses."""
    body, losses = write(request_of(Turn(role="user", blocks=(*blocks, Text(text="."))), **options))
    (message,) = body["messages"]
    return message["content"][:-1], losses


def assistant(*blocks: Block, options: Options = DEFAULTS) -> tuple[Any, set[tuple[str, LossKind]]]:
    """The content of one assistant message in a conversation, and the losses."""
    turn = Turn(role="assistant", blocks=(*blocks, Text(text=".")))
    body, losses = write(request_of(HI, turn, HI), options)
    return body["messages"][1]["content"][:-1], losses


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            Image(source=Url("https://a.example/i.png"), detail="auto"),
            {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
        ),
        (
            Image(source=Base64("image/jpg", PNG)),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG},
            },
        ),
        (
            Image(source=FileId("file_1", "anthropic")),
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            Document(source=Base64("application/pdf", PNG), title="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
                "title": "a.pdf",
            },
        ),
        (
            Document(source=Base64("text/markdown; charset=utf-8", "w6k="), citations=True),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "é"},
                "citations": {"enabled": True},
            },
        ),
        (
            Document(source=PlainText("t"), context="c"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "t"},
                "context": "c",
            },
        ),
        (
            Document(source=Url("https://a.example/x.pdf")),
            {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
        ),
        (
            Document(source=Nested((Text(text="t"),))),
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "text", "text": "t"}]},
            },
        ),
        (
            SearchResult(source="s", title="t", content=(Text(text="c"),)),
            {
                "type": "search_result",
                "source": "s",
                "title": "t",
                "content": [{"type": "text", "text": "c"}],
            },
        ),
        (
            Foreign(origin=NAME, type="container_upload", raw={"type": "container_upload"}),
            {"type": "container_upload"},
        ),
    ],
)
def test_user_content(block: Block, expected: Any) -> None:
    """req: 33, 44"""
    assert user(block) == ([expected], set())


@pytest.mark.parametrize(
    "block",
    [
        Image(source=Base64("image/tiff", PNG), path="p"),
        Image(source=FileId("file-1", "openai"), path="p"),
        Document(source=FileId("file-1", "openai"), path="p"),
        Document(source=Base64("application/zip", PNG), path="p"),
        Document(source=Base64("text/plain", "/w=="), path="p"),
        Audio(data="x", format="wav", path="p"),
        Foreign(origin="openai_responses", type="computer_call_output", raw={}, path="p"),
    ],
)
def test_user_content_that_cannot_be_carried_is_lost_content(block: Block) -> None:
    """It is never dropped without a word; the default policy refuses it. req: 34"""
    assert user(block) == ([], {("p", CONTENT)})


def test_smaller_losses_of_content() -> None:
    image = Image(source=Url("https://a.example/i.png"), detail="high", path="image")
    fallback = Foreign(origin="openai_responses", type="x", raw={}, loss=KNOB, path="foreign")
    content, losses = user(image, fallback, Text(text=" \n", path="blank"), Text(text=""))
    assert len(content) == 1
    assert losses == {("image", KNOB), ("foreign", KNOB), ("blank", REPAIRED)}


def test_images_where_the_upstream_takes_none() -> None:
    turn = Turn(role="user", blocks=(Image(source=Url("https://a.example"), path="p"),))
    _, losses = write(request_of(turn, HI), capabilities=make_capabilities(images=False))
    assert losses == {("p", CONTENT)}


@pytest.mark.parametrize("old", [True, False])
def test_media_of_the_assistant(old: bool) -> None:
    turn = Turn(role="assistant", blocks=(Image(source=Url("https://a.example"), path="p"),))
    body, losses = write(
        request_of(HI, turn, HI), capabilities=OLD_VERSION if old else Capabilities()
    )
    assert losses == (set() if old else {("p", CONTENT)})
    assert len(body["messages"]) == (3 if old else 1)


@pytest.mark.parametrize(
    ("block", "expected", "losses"),
    [
        (Refusal(text="No.", path="p"), [{"type": "text", "text": "No."}], {("p", CONVERTED)}),
        (
            Reasoning(parts=("t",), opaque=Opaque(NAME, "SIG"), path="p"),
            [{"type": "thinking", "thinking": "t", "signature": "SIG"}],
            set(),
        ),
        (
            Reasoning(opaque=Opaque(NAME, "SIG"), path="p"),
            [{"type": "thinking", "thinking": "", "signature": "SIG"}],
            set(),
        ),
        (
            Reasoning(redacted=True, opaque=Opaque(NAME, "D"), path="p"),
            [{"type": "redacted_thinking", "data": "D"}],
            set(),
        ),
        (Reasoning(parts=("t",), path="p"), [], {("p", KNOB)}),
        (Reasoning(opaque=Opaque("openai_responses", "E"), path="p"), [], {("p", KNOB)}),
        (Reasoning(parts=("t",), opaque=Opaque("marker", "x"), path="p"), [], {("p", KNOB)}),
        (Reasoning(path="p"), [], set()),
        (
            Text(text="t", annotations=(UrlCitation(url="https://a.example"),), path="p"),
            [{"type": "text", "text": "t"}],
            {("p", KNOB)},
        ),
        (
            Text(text="t", annotations=(ForeignCitation(NAME, {"type": "page_location"}),)),
            [{"type": "text", "text": "t", "citations": [{"type": "page_location"}]}],
            set(),
        ),
        (
            Text(text="t", phase="commentary", path="input[2].content[0]"),
            [{"type": "text", "text": "t"}],
            {("input[2].phase", KNOB)},
        ),
    ],
)
def test_assistant_content(block: Block, expected: Any, losses: Any) -> None:
    assert assistant(block) == (expected, losses)


def calls(*blocks: ToolCall | ToolResult, **options: Any) -> tuple[list[Any], Any]:
    """The messages of a tool loop of these calls and results."""
    made = Turn(role="assistant", blocks=tuple(b for b in blocks if isinstance(b, ToolCall)))
    given = Turn(role="user", blocks=tuple(b for b in blocks if isinstance(b, ToolResult)))
    body, losses = write(request_of(HI, made, given, tools=(F,)), **options)
    return body["messages"], losses


def test_tool_calls_and_results() -> None:
    """Same id and name, parsed arguments, results in a user message. req: 35, 37, 38, 42"""
    messages, losses = calls(
        ToolCall(id="call_1", name="f", arguments='{"a": [1]}'),
        ToolCall(id="call_2", name="f", arguments=""),
        ToolResult(call_id="call_1", content=(Text(text="r1"),)),
        ToolResult(call_id="call_2"),
    )
    assert losses == set()
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": [1]}},
                {"type": "tool_use", "id": "call_2", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "r1"},
                {"type": "tool_result", "tool_use_id": "call_2"},
            ],
        },
    ]


def test_is_error_is_never_invented() -> None:
    """req: 39"""
    messages, _ = calls(
        ToolCall(id="a", name="f", arguments="{}"),
        ToolCall(id="b", name="f", arguments="{}"),
        ToolResult(call_id="a", content=(Text(text="Error: failed"),)),
        ToolResult(call_id="b", is_error=True),
    )
    first, second = messages[2]["content"]
    assert "is_error" not in first
    assert second["is_error"] is True


def test_tool_results_with_more_than_text() -> None:
    image = Image(source=Url("https://a.example"))
    messages, losses = calls(
        ToolCall(id="a", name="f", arguments="{}"),
        ToolResult(call_id="a", content=(Text(text="t"), image, ToolReference(name="g"))),
    )
    assert losses == set()
    assert messages[2]["content"][0]["content"] == [
        {"type": "text", "text": "t"},
        {"type": "image", "source": {"type": "url", "url": "https://a.example"}},
        {"type": "tool_reference", "tool_name": "g"},
    ]


def test_ids_the_service_refuses_are_replaced_alike() -> None:
    messages, _ = calls(
        ToolCall(id="functions.f:0", name="f", arguments="{}"), ToolResult(call_id="functions.f:0")
    )
    made, given = messages[1]["content"][0]["id"], messages[2]["content"][0]["tool_use_id"]
    assert made == given != "functions.f:0"


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "null", '"x"', "nothing"])
@pytest.mark.parametrize(
    ("option", "expected", "loss"),
    [("wrap", None, CONVERTED), ("empty", {}, CONVERTED), ("error", None, CONTENT)],
)
def test_invalid_arguments(arguments: str, option: Any, expected: Any, loss: LossKind) -> None:
    """They never become an empty object in silence. req: 36"""
    messages, losses = calls(
        ToolCall(id="a", name="f", arguments=arguments, path="p"),
        ToolResult(call_id="a"),
        options=make_options(invalid_tool_arguments=option),
    )
    assert losses == {("p", loss)}
    found = messages[1]["content"][0]["input"]
    assert found == ({"invalid_arguments": arguments} if expected is None else expected)


@pytest.mark.parametrize(
    ("ttl", "half_hour", "expected", "lossy"),
    [
        (None, "5m", {"type": "ephemeral"}, False),
        (None, "1h", {"type": "ephemeral", "ttl": "1h"}, False),
        ("5m", "5m", {"type": "ephemeral", "ttl": "5m"}, False),
        ("1h", "5m", {"type": "ephemeral", "ttl": "1h"}, False),
        ("30m", "5m", {"type": "ephemeral", "ttl": "5m"}, True),
        ("30m", "1h", {"type": "ephemeral", "ttl": "1h"}, True),
        ("12h", "5m", {"type": "ephemeral", "ttl": "1h"}, True),
    ],
)
def test_cache_lifetimes(ttl: str | None, half_hour: Any, expected: Any, lossy: bool) -> None:
    turn = Turn(role="user", blocks=(Text(text="t", cache=CacheMark(ttl), path="p"),))
    body, losses = write(
        request_of(turn), capabilities=make_capabilities(cache_ttl_30m_as=half_hour)
    )
    assert body["messages"][0]["content"][0]["cache_control"] == expected
    assert losses == ({("p", KNOB)} if lossy else set())


def test_at_most_four_cache_marks_and_the_last_ones() -> None:
    texts = tuple(
        Text(text=str(n), cache=CacheMark(), path=f"messages[0].content[{n}]") for n in range(3)
    )
    system = Text(text="s", cache=CacheMark(), path="system[0]")
    tool = FunctionTool(name="f", cache=CacheMark(), path="tools[0]")
    turn = Turn(role="user", blocks=texts)
    request = request_of(turn, tools=(tool,), instructions=(system,), auto_cache=CacheMark())
    body, losses = write(request)
    marked = [block["text"] for block in body["messages"][0]["content"] if "cache_control" in block]
    assert marked == ["0", "1", "2"]
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body["tools"][0]
    assert body["system"] == "s"
    assert losses == {("tools[0]", KNOB), ("system[0]", KNOB)}


def test_no_cache_mark_outlives_one_before_it() -> None:
    system = Text(text="s", cache=CacheMark("5m"))
    turn = Turn(role="user", blocks=(Text(text="t", cache=CacheMark("1h"), path="p"),))
    body, losses = write(request_of(turn, instructions=(system,)))
    assert body["messages"][0]["content"][0]["cache_control"]["ttl"] == "5m"
    assert losses == {("p", KNOB)}


def test_caching_unasked() -> None:
    caches = make_capabilities(auto_cache=True)
    assert "cache_control" in write(request_of(HI), capabilities=caches)[0]
    explicit = request_of(HI, prompt_cache_options={"mode": "explicit"})
    assert "cache_control" not in write(explicit, capabilities=caches)[0]

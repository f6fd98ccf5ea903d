"""What is said in a client's Messages request, in canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Base64,
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
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.requests import FunctionTool
from dragoman.protocols.anthropic_messages.request_reader import read_request
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    NAME,
    SEALER,
    body_of,
    extras,
    read,
    refusal,
)

PNG = "iVBORw0KGgo="


def block_of(block: dict[str, Any], role: str = "user") -> Any:
    """The one block of the one message, read."""
    request = read(messages=[{"role": role, "content": [block]}])
    (turn,) = request.turns
    (found,) = turn.blocks
    return found


def result_content(*content: Any) -> tuple[Any, ...]:
    block = block_of({"type": "tool_result", "tool_use_id": "t", "content": list(content)})
    assert isinstance(block, ToolResult)
    return block.content


def test_string_content_is_one_text() -> None:
    """req: 16"""
    (turn,) = read().turns
    assert (turn.role, turn.path) == ("user", "messages[0]")
    assert turn.blocks == (Text(text="hi", path="messages[0].content"),)


def test_system_messages_stay_where_they_are() -> None:
    request = read(
        messages=[
            {"role": "user", "content": "a"},
            {"role": "system", "content": [{"type": "text", "text": "b"}]},
            {"role": "system", "output_config": {"effort": "low"}, "clear_at": "next_user_message"},
        ]
    )
    assert [turn.role for turn in request.turns] == ["user", "developer", "developer"]
    assert request.turns[2].blocks == ()
    assert extras(request) == {("messages[2].output_config", KNOB), ("messages[2].clear_at", KNOB)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "base64", "media_type": "image/png", "data": PNG}, Base64("image/png", PNG)),
        (
            {"type": "base64", "media_type": "image/png", "data": "iVBO\nRw0KGgo="},
            Base64("image/png", PNG),
        ),
        ({"type": "url", "url": "https://a.example/i.png"}, Url("https://a.example/i.png")),
        ({"type": "file", "file_id": "file_1"}, FileId("file_1", "anthropic")),
    ],
)
def test_images(source: dict[str, Any], expected: Any) -> None:
    """req: 18"""
    block = block_of({"type": "image", "source": source})
    assert block == Image(source=expected, path="messages[0].content[0]")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"type": "base64", "media_type": "application/pdf", "data": PNG},
            Base64("application/pdf", PNG),
        ),
        ({"type": "text", "media_type": "text/plain", "data": "T"}, PlainText("T")),
        ({"type": "url", "url": "http://a.example/x.pdf"}, Url("http://a.example/x.pdf")),
        ({"type": "file", "file_id": "file_1"}, FileId("file_1", "anthropic")),
        (
            {"type": "content", "content": "inner"},
            Nested((Text(text="inner", path="messages[0].content[0].source.content"),)),
        ),
        (
            {"type": "content", "content": [{"type": "text", "text": "inner"}]},
            Nested((Text(text="inner", path="messages[0].content[0].source.content[0]"),)),
        ),
    ],
)
def test_documents(source: dict[str, Any], expected: Any) -> None:
    wire = {"type": "document", "source": source, "title": "t", "context": "c"}
    block = block_of({**wire, "citations": {"enabled": True}})
    path = "messages[0].content[0]"
    assert block == Document(source=expected, title="t", context="c", citations=True, path=path)


def test_search_results() -> None:
    wire = {"type": "search_result", "source": "https://a.example", "title": "t"}
    block = block_of({**wire, "content": [{"type": "text", "text": "c"}]})
    path = "messages[0].content[0]"
    content = (Text(text="c", path=f"{path}.content[0]"),)
    assert block == SearchResult(source=wire["source"], title="t", content=content, path=path)


def test_text_keeps_citations_of_this_protocol() -> None:
    citation = {"type": "char_location", "cited_text": "x"}
    block = block_of({"type": "text", "text": "t", "citations": [citation]}, "assistant")
    assert block.annotations == (ForeignCitation(NAME, citation),)


def test_citations_elsewhere_are_reported() -> None:
    block = {"type": "text", "text": "t", "citations": [{"type": "char_location"}]}
    request = read(system=[block], messages=[{"role": "user", "content": [block]}])
    paths = ("system[0].citations", "messages[0].content[0].citations")
    assert extras(request) == {(path, KNOB) for path in paths}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "thinking", "thinking": "t", "signature": "SIG"},
            Reasoning(parts=("t",), opaque=Opaque(NAME, "SIG")),
        ),
        (
            {"type": "thinking", "thinking": "", "signature": "SIG"},
            Reasoning(opaque=Opaque(NAME, "SIG")),
        ),
        ({"type": "thinking", "thinking": "t", "signature": ""}, Reasoning(parts=("t",))),
        ({"type": "thinking", "thinking": "t"}, Reasoning(parts=("t",))),
        (
            {"type": "redacted_thinking", "data": "D"},
            Reasoning(redacted=True, opaque=Opaque(NAME, "D")),
        ),
    ],
)
def test_thinking_keeps_its_signature(block: dict[str, Any], expected: Reasoning) -> None:
    """Signatures pass as they are; blocks without one are thinking all the same. req: 19"""
    found = block_of(block, "assistant")
    assert isinstance(found, Reasoning)
    assert (found.parts, found.opaque, found.redacted) == (
        expected.parts,
        expected.opaque,
        expected.redacted,
    )


def test_envelopes_are_opened_with_their_exact_text() -> None:
    sealer = Sealer(key=b"k")
    original = Reasoning(parts=("one", "two"), opaque=Opaque("openai_responses", "ENC", "rs_1"))
    wire = {"type": "thinking", "thinking": "changed", "signature": sealer.seal(original)}
    request = read(sealer, messages=[{"role": "assistant", "content": [wire]}])
    (block,) = request.turns[0].blocks
    assert isinstance(block, Reasoning)
    assert (block.parts, block.opaque) == (original.parts, original.opaque)
    assert block.path == "messages[0].content[0]"


def test_markers_leave_plain_thinking() -> None:
    marker = SEALER.seal(Reasoning(parts=("t",)))
    block = block_of({"type": "thinking", "thinking": "t", "signature": marker}, "assistant")
    assert (block.parts, block.opaque) == (("t",), None)


def test_a_forged_envelope_is_a_foreign_signature() -> None:
    forged = SEALER.seal(Reasoning(parts=("x",), opaque=Opaque("openai_responses", "ENC")))
    wire = {"type": "thinking", "thinking": "t", "signature": forged}
    body = body_of(messages=[{"role": "assistant", "content": [wire]}])
    (block,) = read_request(body, Sealer(key=b"k")).turns[0].blocks
    assert isinstance(block, Reasoning)
    assert block.opaque == Opaque(NAME, forged)


def test_tool_calls_keep_id_name_and_input_text() -> None:
    """req: 20"""
    wire = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": [True, "é"]}}
    block = block_of({**wire, "cache_control": {"type": "ephemeral"}}, "assistant")
    assert block == ToolCall(
        id="toolu_1",
        name="f",
        arguments='{"b":1,"a":[true,"é"]}',
        cache=CacheMark(),
        path="messages[0].content[0]",
    )


def test_who_called_a_tool_is_reported() -> None:
    wire = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    direct = {**wire, "caller": {"type": "direct"}}
    hosted = {**wire, "caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    inside = {**wire, "toolset_name": "browser"}
    request = read(messages=[{"role": "assistant", "content": [direct, hosted, inside]}])
    assert extras(request) == {
        ("messages[0].content[1].caller", KNOB),
        ("messages[0].content[2].toolset_name", KNOB),
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("ok", (Text(text="ok", path="messages[0].content[0].content"),)),
        (None, ()),
        ([], ()),
        ("", ()),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            (
                Text(text="a", path="messages[0].content[0].content[0]"),
                Text(text="b", path="messages[0].content[0].content[1]"),
            ),
        ),
    ],
)
def test_tool_results(content: Any, expected: Any) -> None:
    """req: 21, 22"""
    block = block_of({"type": "tool_result", "tool_use_id": "t", "content": content})
    path = "messages[0].content[0]"
    assert block == ToolResult(call_id="t", content=expected, path=path)


def test_tool_results_hold_more_than_text() -> None:
    path = "messages[0].content[0].content[0]"
    image = {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}
    state = {"type": "browser_state", "tabs": []}
    reference = {"type": "tool_reference", "tool_name": "g"}
    assert result_content(image) == (Image(source=Url("https://a.example/i.png"), path=path),)
    assert result_content(reference) == (ToolReference(name="g", path=path),)
    assert result_content(state) == (
        Foreign(origin=NAME, type="browser_state", raw=state, path=path),
    )


@pytest.mark.parametrize("flag", [True, False, None])
def test_tool_results_say_whether_they_failed(flag: bool | None) -> None:
    """req: 24"""
    block = block_of({"type": "tool_result", "tool_use_id": "t", "is_error": flag})
    assert block.is_error is flag


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("server_tool_use", CONTENT),
        ("web_search_tool_result", CONTENT),
        ("web_fetch_tool_result", CONTENT),
        ("code_execution_tool_result", CONTENT),
        ("bash_code_execution_tool_result", CONTENT),
        ("text_editor_code_execution_tool_result", CONTENT),
        ("tool_search_tool_result", CONTENT),
        ("container_upload", CONTENT),
        ("mcp_tool_use", CONTENT),
        ("mcp_tool_result", CONTENT),
        ("advisor_tool_result", CONTENT),
        ("compaction", CONTENT),
        ("fallback", KNOB),
        ("tool_removal", KNOB),
    ],
)
def test_blocks_of_this_protocol_only(kind: str, loss: Any) -> None:
    raw = {"type": kind, "id": "x"}
    block = block_of(raw, "assistant")
    path = "messages[0].content[0]"
    assert block == Foreign(origin=NAME, type=kind, raw=raw, loss=loss, path=path)


def test_tools_added_in_the_conversation_are_offered() -> None:
    definition = {"name": "late", "input_schema": {"type": "object"}}
    added = [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "known"}},
    ]
    request = read(
        tools=[{"name": "known", "input_schema": {"type": "object"}, "defer_loading": True}],
        messages=[{"role": "user", "content": "a"}, {"role": "system", "content": added}],
    )
    assert [tool.name for tool in request.tools if isinstance(tool, FunctionTool)] == [
        "known",
        "late",
    ]
    assert extras(request) == {("messages[1].content[0]", CONVERTED)}
    (kept,) = request.turns[1].blocks
    assert isinstance(kept, Foreign)
    assert kept.loss is KNOB


@pytest.mark.parametrize(
    ("role", "block", "path"),
    [
        ("user", {"type": "hologram"}, "type"),
        ("user", {"text": "x"}, "type"),
        ("user", {"type": "text"}, "text"),
        ("user", {"type": "text", "text": 5}, "text"),
        ("user", {"type": "image"}, "source"),
        ("user", {"type": "image", "source": {"type": "ftp"}}, "source.type"),
        ("user", {"type": "image", "source": {"type": "url", "url": "file:///x"}}, "source.url"),
        (
            "user",
            {"type": "image", "source": {"type": "base64", "media_type": "a", "data": "?"}},
            "source.data",
        ),
        ("user", {"type": "tool_use", "id": "a", "name": "f", "input": {}}, "type"),
        ("assistant", {"type": "tool_result", "tool_use_id": "a"}, "type"),
        ("user", {"type": "thinking", "thinking": "t", "signature": "s"}, "type"),
        ("assistant", {"type": "tool_use", "name": "f", "input": {}}, "id"),
        ("assistant", {"type": "tool_use", "id": "a", "name": "f"}, "input"),
        ("assistant", {"type": "tool_use", "id": "a", "name": "f", "input": "{}"}, "input"),
        ("user", {"type": "tool_result"}, "tool_use_id"),
        (
            "user",
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "thinking"}]},
            "content[0].type",
        ),
        ("system", {"type": "image", "source": {}}, "type"),
    ],
)
def test_bad_blocks_are_named(role: str, block: dict[str, Any], path: str) -> None:
    found = refusal(messages=[{"role": role, "content": [block]}])
    assert found == f"messages[0].content[0].{path}"


def test_deep_input_is_refused() -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": deep}
    path = refusal(messages=[{"role": "assistant", "content": [block]}])
    assert path == "messages[0].content[0].input"


@pytest.mark.parametrize(
    ("final", "lost"),
    [
        ({"role": "assistant", "content": "The answer is"}, {("messages[1]", CONVERTED)}),
        ({"role": "assistant", "content": []}, set()),
        ({"role": "user", "content": "go on"}, set()),
    ],
)
def test_a_beginning_put_into_the_models_mouth_is_reported(final: object, lost: object) -> None:
    """Other protocols answer after a final assistant message instead of continuing it."""
    request = read(messages=[{"role": "user", "content": "a"}, final])
    assert extras(request) == lost

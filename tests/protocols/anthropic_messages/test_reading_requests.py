"""A client's Messages request, in canonical form."""

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
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.requests import (
    FunctionTool,
    HostedTool,
    JsonSchema,
    Request,
    Thinking,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.anthropic_messages.requests import read_request
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    SEALER,
    body_of,
    extras,
    read,
    refusal,
)

NAME = "anthropic_messages"
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


@pytest.mark.parametrize(
    ("system", "texts"),
    [
        ("Be brief.", ["Be brief."]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
        ([], []),
        ("", []),
        (None, []),
        ({"type": "text", "text": "a"}, ["a"]),
    ],
)
def test_system_is_read_with_its_boundaries(system: Any, texts: list[str]) -> None:
    """A string or blocks, never joined. req: 14, 15"""
    assert [text.text for text in read(system=system).instructions] == texts


def test_marks_on_system_blocks_are_kept() -> None:
    """req: 30"""
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert read(system=[block]).instructions == (
        Text(text="a", cache=CacheMark("1h"), path="system[0]"),
    )


def test_the_billing_header_of_claude_code_is_no_prompt() -> None:
    blocks = [{"type": "text", "text": t} for t in ("x-anthropic-billing-header: cch=1;", "S")]
    request = read(system=blocks)
    assert [text.text for text in request.instructions] == ["S"]
    assert extras(request) == {("system[0]", KNOB)}


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
    assert [turn.role for turn in request.turns] == ["user", "system", "system"]
    assert request.turns[2].blocks == ()
    assert extras(request) == {("messages[2].output_config", KNOB), ("messages[2].clear_at", KNOB)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": PNG},
            Base64("image/png", PNG),
        ),
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


def test_client_tools() -> None:
    """req: 25"""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}
    plain = {"name": "f", "description": "d", "input_schema": schema, "strict": True}
    typed = {
        "type": "custom",
        "name": "g",
        "input_schema": {"type": "object"},
        "defer_loading": True,
        "cache_control": {"type": "ephemeral"},
        "eager_input_streaming": True,
        "allowed_callers": ["direct", "code_execution_20260120"],
        "input_examples": [{"a": 1}],
    }
    request = read(tools=[plain, typed])
    assert request.tools == (
        FunctionTool(name="f", description="d", schema=schema, strict=True, path="tools[0]"),
        FunctionTool(
            name="g",
            schema={"type": "object"},
            deferred=True,
            cache=CacheMark(),
            path="tools[1]",
        ),
    )
    names = ("eager_input_streaming", "allowed_callers", "input_examples")
    assert extras(request) == {(f"tools[1].{name}", KNOB) for name in names}


@pytest.mark.parametrize(
    "kind",
    [
        "bash_20250124",
        "text_editor_20250728",
        "memory_20250818",
        "computer_toolset_20260801",
        "browser_toolset_20260801",
        "web_search_20260318",
        "web_fetch_20260318",
        "code_execution_20260521",
        "tool_search_tool_bm25",
        "mcp_toolset",
        "advisor_20260301",
    ],
)
def test_hosted_tools(kind: str) -> None:
    raw = {"type": kind, "name": "n"}
    assert read(tools=[raw]).tools == (
        HostedTool(origin=NAME, type=kind, raw=raw, path="tools[0]"),
    )


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(mode="auto", path="tool_choice"), None),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(mode="required", path="tool_choice"),
            False,
        ),
        ({"type": "none"}, ToolChoice(mode="none", path="tool_choice"), None),
        (
            {"type": "tool", "name": "f", "disable_parallel_tool_use": False},
            ToolChoice(mode="tool", tool=ToolRef("f"), path="tool_choice"),
            None,
        ),
    ],
)
def test_tool_choice(choice: dict[str, Any], expected: ToolChoice, parallel: bool | None) -> None:
    """req: 26"""
    request = read(tool_choice=choice)
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "adaptive"}}, Thinking(mode="adaptive")),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            Thinking(mode="adaptive", display="omitted"),
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 32000, "display": "summarized"}},
            Thinking(mode="enabled", budget=32000, display="summarized"),
        ),
        ({"thinking": {"type": "disabled"}}, Thinking(mode="disabled")),
        ({"thinking": {"type": "between_tools"}}, Thinking(mode="between_tools")),
        ({"output_config": {"effort": "xhigh"}}, Thinking(effort="xhigh")),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            Thinking(mode="adaptive", effort="low"),
        ),
        ({}, None),
        ({"thinking": None}, None),
    ],
)
def test_thinking(fields: dict[str, Any], expected: Thinking | None) -> None:
    """req: 29"""
    assert read(**fields).thinking == expected


@pytest.mark.parametrize("path", ["output_config.format", "output_format"])
def test_output_formats(path: str) -> None:
    schema = {"type": "object", "properties": {}}
    shape = {"type": "json_schema", "schema": schema}
    fields = {"output_config": {"format": shape}} if "." in path else {"output_format": shape}
    request = read(**fields)
    assert request.output_format == JsonSchema(schema=schema)
    assert request.path_of("output_format") == path
    assert extras(request) == set()


def test_numbers_and_words_of_the_top_level() -> None:
    """Zero is a value, not an absence. req: 27, 28"""
    request = read(
        max_tokens=0,
        temperature=0,
        top_p=0.5,
        top_k=0,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "u"},
        service_tier="standard_only",
        speed="fast",
        cache_control={"type": "ephemeral", "ttl": "1h"},
    )
    assert request.max_output_tokens == 0
    assert (request.temperature, request.top_p, request.top_k) == (0.0, 0.5, 0)
    assert (request.stop, request.stream, request.safety_identifier) == (("END",), True, "u")
    assert (request.service_tier, request.speed) == ("default", "fast")
    assert request.auto_cache == CacheMark("1h")
    assert extras(request) == set()


def test_words_that_ask_for_nothing() -> None:
    request = read(
        stream=False,
        service_tier="auto",
        speed="standard",
        tools=[],
        stop_sequences=None,
        temperature=None,
        mcp_servers=[],
        context_management={"edits": []},
    )
    assert (request.stream, request.service_tier, request.speed) == (False, None, None)
    assert (request.tools, request.stop, request.temperature) == ((), (), None)
    assert extras(request) == set()


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("container", "c", CONTENT),
        ("mcp_servers", [{"type": "url", "name": "n", "url": "https://a.example"}], CONTENT),
        ("fallbacks", [{"model": "x"}], CONTENT),
        ("compaction", {"type": "summarize"}, CONTENT),
        ("context_management", {"edits": [{"type": "clear_thinking_20251015"}]}, KNOB),
        ("inference_geo", "us", KNOB),
        ("diagnostics", {"previous_message_id": None}, KNOB),
        ("safeguards", {"mode": "auto"}, KNOB),
        ("something_new", 1, KNOB),
    ],
)
def test_fields_without_a_home_are_kept(field: str, value: Any, kind: Any) -> None:
    request = read(**{field: value})
    assert extras(request) == {(field, kind)}
    assert request.extras[0].value == value


def test_fields_inside_objects_are_accounted_for() -> None:
    image = {
        "type": "image",
        "source": {"type": "url", "url": "https://a.example", "x": 1},
        "transformations": {"oversized_image": "error"},
    }
    request = read(
        messages=[{"role": "user", "content": [image], "extra": 1}],
        thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop"}},
        output_config={"task_budget": {"type": "tokens", "total": 5}},
        metadata={"team": "x"},
        tool_choice={"type": "auto", "y": 2},
    )
    assert extras(request) == {
        ("messages[0].content[0].source.x", KNOB),
        ("messages[0].content[0].transformations", KNOB),
        ("messages[0].extra", KNOB),
        ("thinking.block_binding", KNOB),
        ("output_config.task_budget", KNOB),
        ("metadata.team", KNOB),
        ("tool_choice.y", KNOB),
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "[undefined]"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"system": 5}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"temperature": 2}, "temperature"),
        ({"temperature": "[undefined]"}, "temperature"),
        ({"top_k": "x"}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"stop_sequences": ["a", 1]}, "stop_sequences[1]"),
        ({"stream": "yes"}, "stream"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].type"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"cache_control": {"type": "forever"}}, "cache_control.type"),
        ({"thread": {"type": "create"}}, "thread"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], path: str) -> None:
    """req: 154"""
    assert refusal(**fields) == path


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


def test_threads_are_refused_in_the_words_the_sdks_know() -> None:
    """Their tool runner then goes on with whole histories."""
    with pytest.raises(InvalidRequest) as caught:
        read(thread={"type": "create"})
    assert caught.value.fault.details == {"error_code": "thread_unsupported_request"}


def test_counting_needs_no_limit() -> None:
    body = body_of()
    del body["max_tokens"]
    request: Request = read_request(body, SEALER, counting=True)
    assert request.max_output_tokens is None


def test_deep_input_is_refused() -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": deep}
    path = refusal(messages=[{"role": "assistant", "content": [block]}])
    assert path == "messages[0].content[0].input"


def test_the_body_is_not_changed() -> None:
    body = body_of(system="S", tools=[{"name": "f", "input_schema": {"type": "object"}}])
    before = repr(body)
    request = read_request(body, SEALER)
    assert repr(body) == before
    assert request.source is body

"""What clients of generateContent send, as it is read."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Document,
    FileId,
    Foreign,
    Image,
    Media,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    FunctionTool,
    HostedTool,
    JsonObject,
    JsonSchema,
    Request,
    Thinking,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json

CODEC = CODECS["google_generate_content"]
SEALER = Sealer(b"a key of the tests")
HI = {"role": "user", "parts": [{"text": "Hi"}]}
SIGNATURE = base64.b64encode(b"a signature?>").decode()
PNG = "iVBORw0KGgo="


def read(**members: Any) -> Request:
    members.setdefault("contents", [HI])
    return CODEC.translate.read_request(to_json(members), SEALER)


def said(*parts: dict[str, Any]) -> list[Any]:
    """The blocks of a model's turn with these parts, without their paths."""
    request = read(contents=[HI, {"role": "model", "parts": list(parts)}, HI])
    return list(request.turns[1].blocks)


def test_both_spellings_are_read_at_every_level() -> None:
    camel = read(
        contents=[{"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}],
        systemInstruction={"parts": [{"text": "Be kind."}]},
        generationConfig={
            "maxOutputTokens": 7,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 5},
        },
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        tools=[
            {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}
        ],
    )
    snake = read(
        contents=[{"parts": [{"inline_data": {"mime_type": "image/png", "data": PNG}}]}],
        system_instruction={"parts": [{"text": "Be kind."}]},
        generation_config={
            "max_output_tokens": 7,
            "thinking_config": {"include_thoughts": True, "thinking_budget": 5},
        },
        tool_config={"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
        tools=[
            {"function_declarations": [{"name": "f", "parameters_json_schema": {"type": "object"}}]}
        ],
    )
    assert to_json(camel) == to_json(snake)
    assert camel.max_output_tokens == 7
    assert camel.tool_choice == ToolChoice(
        mode="tool", tool=ToolRef("f"), path="toolConfig.functionCallingConfig"
    )


@pytest.mark.parametrize(
    ("members", "field", "problem"),
    [
        ({"contents": []}, "contents", "must not be empty"),
        ({"contents": None}, "contents", "is required"),
        ({"contents": HI}, "contents", "must be an array"),
        ({"contents": [{"role": "system", "parts": []}]}, "contents[0].role", "user or model"),
        ({"contents": [{"parts": []}]}, "contents[0].parts", "must not be empty"),
        ({"contents": [{"parts": [{}]}]}, "contents[0].parts[0]", "must have one of text"),
        (
            {
                "contents": [
                    {
                        "parts": [
                            {"functionResponse": {"name": "f", "parts": [{"audioMetadata": {}}]}}
                        ]
                    }
                ]
            },
            "contents[0].parts[0].functionResponse.parts[0]",
            "must have either inlineData or fileData",
        ),
        (
            {"contents": [{"parts": [{"text": "a", "functionResponse": {"name": "f"}}]}]},
            "contents[0].parts[0].functionResponse",
            "cannot stand beside text",
        ),
        (
            {"contents": [{"parts": [{"functionCall": {"name": "f"}}]}]},
            "contents[0].parts[0].functionCall",
            "the model's",
        ),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "%"}}]}]},
            "contents[0].parts[0].inlineData.data",
            "is not base64",
        ),
        (
            {"contents": [{"parts": [{"inlineData": {"data": PNG}}]}]},
            "contents[0].parts[0].inlineData.mimeType",
            "must not be empty",
        ),
        (
            {"contents": [{"role": "model", "parts": [{"text": "", "thoughtSignature": "%"}]}]},
            "contents[0].parts[0].thoughtSignature",
            "is not base64",
        ),
        (
            {
                "contents": [
                    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": 1}}]}
                ]
            },
            "contents[0].parts[0].functionCall.args",
            "must be an object",
        ),
        (
            {"generationConfig": {"maxOutputTokens": "many"}},
            "generationConfig.maxOutputTokens",
            "must be a whole number",
        ),
        (
            {"generationConfig": {"temperature": 3}},
            "generationConfig.temperature",
            "must be between 0 and 2",
        ),
        (
            {"generationConfig": {"maxoutputtokens": 3}},
            "generationConfig.maxoutputtokens",
            "write maxOutputTokens",
        ),
        (
            {"generationConfig": {"responseMimeType": "text/html"}},
            "generationConfig.responseMimeType",
            "must be text/plain",
        ),
        (
            {"generationConfig": {"responseSchema": {"type": "OBJECT"}}},
            "generationConfig.responseMimeType",
            "must be application/json",
        ),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}},
            "generationConfig.thinkingConfig.thinkingLevel",
            "must be one of MINIMAL",
        ),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}},
            "generationConfig.thinkingConfig.thinkingBudget",
            "cannot stand beside thinkingLevel",
        ),
        (
            {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames",
            "ANY or VALIDATED",
        ),
        (
            {"tools": [{"functionDeclarations": [{"name": ""}]}]},
            "tools[0].functionDeclarations[0].name",
            "must not be empty",
        ),
        (
            {
                "tools": [
                    {
                        "functionDeclarations": [
                            {"name": "f", "parameters": {}, "parametersJsonSchema": {}}
                        ]
                    }
                ]
            },
            "tools[0].functionDeclarations[0].parameters",
            "cannot stand beside parametersJsonSchema",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_requests_name_the_field(members: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**members)
    assert caught.value.fault.param == field
    assert problem in str(caught.value)


def test_a_member_in_both_spellings_is_refused() -> None:
    for names in (("maxOutputTokens", "max_output_tokens"), ("topP", "top_p")):
        with pytest.raises(InvalidRequest, match="is given twice"):
            read(generationConfig=dict.fromkeys(names, 1))
    with pytest.raises(InvalidRequest, match="is given twice"):
        CODEC.passthrough.check_names(
            {"generationConfig": to_raw({}), "generation_config": to_raw({})}
        )


def to_raw(value: Any) -> Any:
    import msgspec

    return msgspec.Raw(to_json(value))


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"text": "Hi"}, Text(text="Hi")),
        (
            {"inlineData": {"mimeType": "image/png", "data": "-_8"}},
            Image(source=Base64("image/png", "+/8=")),
        ),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": PNG, "displayName": "a.pdf"}},
            Document(source=Base64("application/pdf", PNG), title="a.pdf"),
        ),
        (
            {"inlineData": {"mimeType": "audio/mpeg", "data": PNG}},
            Audio(data=PNG, format="mp3"),
        ),
        (
            {"inlineData": {"mimeType": "video/mp4", "data": PNG}},
            Media(source=Base64("video/mp4", PNG), media_type="video/mp4"),
        ),
        (
            {"fileData": {"fileUri": "https://example.org/a.png", "mimeType": "image/png"}},
            Image(source=Url("https://example.org/a.png")),
        ),
        (
            {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}},
            Document(source=FileId("gs://bucket/a.pdf", "google")),
        ),
        (
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
            Media(source=FileId("https://www.youtube.com/watch?v=1", "google"), media_type=""),
        ),
        (
            {
                "inlineData": {"mimeType": "image/png", "data": PNG},
                "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
            },
            Image(source=Base64("image/png", PNG), detail="high"),
        ),
    ],
    ids=lambda value: "",
)
def test_parts_are_blocks(part: dict[str, Any], block: Any) -> None:
    import msgspec

    (read_block,) = read(contents=[{"parts": [part]}]).turns[0].blocks
    assert msgspec.structs.replace(read_block, path="") == block


def test_results_find_their_calls_by_id_else_by_name_and_order() -> None:
    call, other = {"name": "f", "args": {}}, {"name": "g"}
    turns = read(
        contents=[
            HI,
            {"role": "model", "parts": [{"functionCall": one} for one in (call, other, call)]},
            {
                "parts": [
                    {"functionResponse": {"name": name, "response": {"output": name}}}
                    for name in ("g", "f", "f")
                ]
            },
            {"role": "model", "parts": [{"functionCall": {**call, "id": "one"}}]},
            {"parts": [{"functionResponse": {"id": "one", "name": "f", "response": {"a": 1}}}]},
        ]
    ).turns
    made = [block.id for block in turns[1].blocks if isinstance(block, ToolCall)]
    assert len(set(made)) == 3
    answered = [block.call_id for block in turns[2].blocks if isinstance(block, ToolResult)]
    assert answered == [made[1], made[0], made[2]]
    (result,) = turns[4].blocks
    assert isinstance(result, ToolResult)
    assert result.call_id == "one"
    (text,) = result.content
    assert isinstance(text, Text)
    assert text.text == '{"a":1}'


def test_minted_ids_stay_the_same_in_longer_conversations() -> None:
    called = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
    result = {"parts": [{"functionResponse": {"name": "f", "response": {}}}]}
    short = read(contents=[HI, called, result]).turns
    long = read(contents=[HI, called, result, called, result]).turns
    assert long[:3] == short
    assert long[1].blocks != long[3].blocks


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "fine"}, "fine", None),
        ({"result": "fine"}, "fine", None),
        ({"output": {"a": [1]}}, '{"a":[1]}', None),
        ({"error": "broke"}, "broke", True),
        ({"a": 1, "output": "x"}, '{"a":1,"output":"x"}', None),
    ],
)
def test_results_are_texts(response: Any, text: str, failed: bool | None) -> None:
    contents = [{"parts": [{"functionResponse": {"name": "f", "response": response}}]}]
    (result,) = read(contents=contents).turns[0].blocks
    assert isinstance(result, ToolResult)
    (inner,) = result.content
    assert isinstance(inner, Text)
    assert (inner.text, result.is_error) == (text, failed)


def test_neighbouring_contents_of_the_model_are_one_turn() -> None:
    pieces = [
        {"role": "model", "parts": [part]}
        for part in (
            {"text": "Let me ", "thought": True},
            {"text": "see.", "thought": True},
            {"text": "The sky"},
            {"text": " is blue."},
            {"text": ""},
        )
    ]
    turns = read(contents=[HI, *pieces, HI]).turns
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    thought, text = turns[1].blocks
    assert isinstance(thought, Reasoning)
    assert isinstance(text, Text)
    assert (thought.text, text.text) == ("Let me see.", "The sky is blue.")


def test_signatures_stay_on_their_parts() -> None:
    urlsafe = SIGNATURE.replace("+", "-").replace("/", "_").rstrip("=")
    call = {"functionCall": {"name": "f"}, "thoughtSignature": urlsafe}
    blocks = said(call, {"functionCall": {"name": "f"}})
    assert [type(block) for block in blocks] == [Reasoning, ToolCall, ToolCall]
    assert blocks[0].opaque == Opaque(CODEC.name, SIGNATURE, anchor="next")
    blocks = said({"text": "a"}, {"text": "b", "thoughtSignature": SIGNATURE}, {"text": "c"})
    assert [block.text for block in blocks] == ["a", "b", "", "c"]
    assert blocks[2].opaque.anchor == "previous"
    blocks = said({"text": "a"}, {"text": "", "thoughtSignature": SIGNATURE})
    assert [block.text for block in blocks] == ["a", ""]
    assert blocks[1].opaque == Opaque(CODEC.name, SIGNATURE)


@pytest.mark.parametrize(
    "dummy", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"]
)
def test_what_stands_in_for_a_signature_is_none(dummy: str) -> None:
    (call,) = said({"functionCall": {"name": "f"}, "thoughtSignature": dummy})
    assert isinstance(call, ToolCall)


def test_reasoning_of_others_is_put_back_where_it_was() -> None:
    thought = Reasoning(parts=("Let me see.",), opaque=Opaque("another", "state"))
    sealed = base64.urlsafe_b64encode(SEALER.seal(thought).encode()).decode()
    call = {"functionCall": {"name": "f"}, "thoughtSignature": sealed}
    for shown in ([], [{"text": "Let me see.", "thought": True}]):
        blocks = said(*shown, {"text": "Hm."}, call)
        assert [type(block) for block in blocks] == [Reasoning, Text, ToolCall]
        assert blocks[0].opaque == thought.opaque
        assert blocks[0].parts == thought.parts


def test_work_of_hosted_tools_is_carried() -> None:
    (block,) = said({"executableCode": {"language": "PYTHON", "code": "1+1"}})
    assert isinstance(block, Foreign)
    assert block.type == "executableCode"
    assert "1+1" in block.text


@pytest.mark.parametrize(
    ("config", "thinking"),
    [
        ({}, None),
        ({"thinkingLevel": "low"}, Thinking(effort="low", display="omitted")),
        (
            {"includeThoughts": True, "thinkingLevel": "HIGH"},
            Thinking(effort="high", display="summarized", summary="auto"),
        ),
        ({"thinkingBudget": 0}, Thinking(mode="disabled")),
        ({"thinkingBudget": -1}, Thinking(mode="adaptive", display="omitted")),
        ({"thinkingBudget": "12"}, Thinking(mode="enabled", budget=12, display="omitted")),
    ],
)
def test_thinking(config: dict[str, Any], thinking: Thinking | None) -> None:
    assert read(generationConfig={"thinkingConfig": config}).thinking == thinking


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, JsonObject()),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
            JsonSchema(schema={"type": "object"}),
        ),
        (
            {
                "responseMimeType": "application/json",
                "responseSchema": {
                    "type": "OBJECT",
                    "properties": {
                        "a": {"type": "STRING", "nullable": True, "enum": ["x"]},
                        "type": {"type": "ARRAY", "min_items": "2", "items": {"type": "INTEGER"}},
                        "c": {"any_of": [{"ref": "#/defs/T"}, {"type": "NUMBER"}]},
                    },
                    "propertyOrdering": ["a", "type"],
                    "defs": {"T": {"type": "BOOLEAN", "example": True}},
                },
            },
            JsonSchema(
                schema={
                    "type": "object",
                    "properties": {
                        "a": {"type": ["string", "null"], "enum": ["x", None]},
                        "type": {"type": "array", "minItems": 2, "items": {"type": "integer"}},
                        "c": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "number"}]},
                    },
                    "$defs": {"T": {"type": "boolean", "examples": [True]}},
                }
            ),
        ),
    ],
    ids=["text", "json", "schema", "subset"],
)
def test_output_formats(config: dict[str, Any], wanted: Any) -> None:
    assert read(generationConfig=config).output_format == wanted


def test_tools_of_all_objects_are_read() -> None:
    request = read(
        tools=[
            {"functionDeclarations": [{"name": "f"}]},
            {"google_search": {}, "functionDeclarations": [{"name": "g", "description": "G"}]},
        ],
        toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}},
    )
    assert [getattr(tool, "name", tool.path) for tool in request.tools] == [
        "f",
        "g",
        "tools[1].googleSearch",
    ]
    assert isinstance(request.tools[1], FunctionTool)
    assert isinstance(request.tools[2], HostedTool)
    assert request.tool_choice is not None
    assert request.tool_choice.mode == "auto"
    assert [extra.path for extra in request.extras] == ["toolConfig.functionCallingConfig.mode"]


@pytest.mark.parametrize(
    ("members", "path", "kind"),
    [
        ({"safetySettings": [{"category": "A"}]}, "safetySettings", LossKind.KNOB),
        ({"cachedContent": "cachedContents/1"}, "cachedContent", LossKind.CONTENT),
        ({"futureMember": 1}, "futureMember", LossKind.KNOB),
        (
            {"generationConfig": {"candidateCount": 2}},
            "generationConfig.candidateCount",
            LossKind.CONTENT,
        ),
        (
            {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
            "generationConfig.responseModalities",
            LossKind.CONTENT,
        ),
        (
            {"contents": [{"parts": [{"text": "a", "videoMetadata": {"fps": 1}}]}]},
            "contents[0].parts[0].videoMetadata",
            LossKind.CONTENT,
        ),
        (
            {"contents": [{"parts": [{"text": "a", "hologram": {"d": 3}}]}]},
            "contents[0].parts[0].hologram",
            LossKind.KNOB,
        ),
        (
            {"contents": [{"parts": [{"hologram": {"d": 3}}]}]},
            "contents[0].parts[0].hologram",
            LossKind.CONTENT,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_counterpart_is_told(
    members: dict[str, Any], path: str, kind: LossKind
) -> None:
    assert [(extra.path, extra.kind) for extra in read(**members).extras] == [(path, kind)]


def test_what_asks_for_nothing_is_no_loss() -> None:
    request = read(
        safetySettings=[],
        cachedContent="",
        generationConfig={
            "candidateCount": 1,
            "responseModalities": ["TEXT"],
            "audioTimestamp": False,
        },
        toolConfig={"includeServerSideToolInvocations": False},
    )
    assert request.extras == ()

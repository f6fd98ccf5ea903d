"""Requests of clients of the Interactions API as they are read, and as they are written for its
upstreams."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    Foreign,
    Image,
    Media,
    Opaque,
    PlainText,
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
from dragoman.jsontext import decode, members
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.translation import Call, CallSettings, ClientRequest
from tests.library import translate_request

NAME = "google_interactions"
CODEC = CODECS[NAME]
SEALER = Sealer(b"a key of the tests")
PNG = "iVBORw0KGgo="
SIGNED = base64.b64encode(b"a signature?>").decode()
URL_SAFE = SIGNED.replace("+", "-").replace("/", "_")
CALL = {"type": "function_call", "id": "c1", "name": "find", "arguments": {"a": 1}}
RESULT = {"type": "function_result", "call_id": "c1", "name": "find", "result": "found"}


def read(**more: Any) -> Request:
    body = {"model": "m", "input": "Hi", **more}
    return CODEC.translate.read_request(to_json(body), SEALER)


def blocks(*items: dict[str, Any]) -> list[Block]:
    """The blocks of an input, of all turns."""
    return [block for turn in read(input=list(items)).turns for block in turn.blocks]


def refused(**more: Any) -> tuple[str | None, str | None, int | None]:
    """Path, code and status of the error for a request."""
    with pytest.raises(InvalidRequest) as caught:
        ClientRequest(NAME, to_json({"model": "m", "input": "Hi", **more})).read(SEALER)
    fault = caught.value.fault
    return fault.param, fault.code, fault.status


# --- what clients send ----------------------------------------------------------------------------


def test_an_input_is_a_text_content_or_steps() -> None:
    part = {"type": "text", "text": "Hi"}
    for given in ("Hi", part, [part], [{"type": "user_input", "content": [part]}]):
        (turn,) = read(input=given).turns
        assert turn.role == "user"
        assert [block.text for block in turn.blocks if isinstance(block, Text)] == ["Hi"]


def test_steps_of_one_side_are_one_turn() -> None:
    thought = {"type": "thought", "signature": URL_SAFE, "summary": [{"type": "text", "text": "T"}]}
    said = {"type": "model_output", "content": [{"type": "text", "text": "A"}]}
    more = {"type": "user_input", "content": [{"type": "text", "text": "B"}]}
    ask, answer, last = read(input=[more, thought, said, CALL, RESULT, more]).turns
    assert [turn.role for turn in (ask, answer, last)] == ["user", "assistant", "user"]
    assert answer.blocks == (
        # Signatures are written in the standard alphabet.
        Reasoning(parts=("T",), opaque=Opaque(NAME, SIGNED), path="input[1]"),
        Text(text="A", path="input[2].content[0].text"),
        ToolCall(id="c1", name="find", arguments='{"a":1}', path="input[3]"),
    )
    result = ToolResult(
        call_id="c1", content=(Text(text="found", path="input[4].result"),), path="input[4]"
    )
    assert last.blocks == (result, Text(text="B", path="input[5].content[0].text"))


def test_a_result_is_a_text_an_object_or_content() -> None:
    image = {"type": "image", "data": PNG, "mime_type": "image/png"}
    for given, expected in (
        ({"b": [2]}, [Text(text='{"b":[2]}', path="input[1].result")]),
        ([image], [Image(source=Base64("image/png", PNG), path="input[1].result[0]")]),
        ("", []),
    ):
        *_, result = blocks(CALL, {**RESULT, "result": given, "is_error": True})
        assert isinstance(result, ToolResult)
        assert (list(result.content), result.is_error) == (expected, True)


def test_files_are_read_by_their_type() -> None:
    found = blocks(
        {"type": "image", "uri": "https://h/a.png", "resolution": "ultra_high"},
        {"type": "document", "data": PNG, "mime_type": "application/pdf"},
        {"type": "audio", "data": PNG, "mime_type": "audio/mp3"},
        {"type": "audio", "data": PNG, "mime_type": "audio/ogg"},
        {"type": "video", "uri": "https://h/a.mp4", "mime_type": "video/mp4"},
    )
    assert found == [
        Image(source=Url("https://h/a.png"), detail="high", path="input[0]"),
        Document(source=Base64("application/pdf", PNG), path="input[1]"),
        Audio(data=PNG, format="mp3", path="input[2]"),
        Media(source=Base64("audio/ogg", PNG), media_type="audio/ogg", path="input[3]"),
        Media(source=Url("https://h/a.mp4"), media_type="video/mp4", path="input[4]"),
    ]


def test_an_envelope_is_opened_where_it_stands() -> None:
    own = Reasoning(parts=("T",), opaque=Opaque("anthropic_messages", "c2ln"))
    sealed = base64.urlsafe_b64encode(SEALER.seal(own).encode()).decode().rstrip("=")
    thought, _ = blocks({"type": "thought", "signature": sealed}, CALL)
    assert thought == Reasoning(parts=("T",), opaque=own.opaque, path="input[0]")


def test_steps_of_tools_that_the_vendor_runs_are_carried() -> None:
    step = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}}
    (block,) = blocks(step)
    assert isinstance(block, Foreign)
    assert (block.origin, block.raw) == (NAME, step)


def test_settings_are_read() -> None:
    config = {
        "max_output_tokens": 9,
        "thinking_level": "low",
        "thinking_summaries": "auto",
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["find"]}},
        "stop_sequences": ["x"],
    }
    tools = [
        {"type": "function", "name": "find", "parameters": {"type": "object"}},
        {"type": "google_search"},
    ]
    request = read(
        generation_config=config, tools=tools, system_instruction="Be kind.", labels={"a": "b"}
    )
    assert request.max_output_tokens == 9
    assert request.thinking == Thinking(effort="low", display="summarized", summary="auto")
    assert request.tool_choice is not None
    assert request.tool_choice.tool == ToolRef("find")
    assert request.metadata == {"a": "b"}
    function, search = request.tools
    assert isinstance(function, FunctionTool)
    assert isinstance(search, HostedTool)
    assert search.search is not None
    assert request.instructions == (Text(text="Be kind.", path="system_instruction"),)


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SCHEMA, JsonSchema(schema=SCHEMA)),
        ({"type": "text", "mime_type": "application/json"}, JsonObject()),
        ([{"type": "text", "mime_type": "application/json", "schema": SCHEMA}], None),
        ({"type": "text"}, None),
        ({"type": ["object", "null"]}, JsonSchema(schema={"type": ["object", "null"]})),
    ],
)
def test_forms_of_the_answer(given: Any, expected: Any) -> None:
    if isinstance(given, list):
        expected = JsonSchema(schema=SCHEMA)
    assert read(response_format=given).output_format == expected


def test_a_picture_that_is_asked_for_is_lost_content() -> None:
    (extra,) = read(response_format={"type": "image", "image_size": "1K"}).extras
    assert (extra.path, extra.kind) == ("response_format", LossKind.CONTENT)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "path", "code"),
    [
        ({"colour": "red"}, "colour", "parameter_unknown"),
        ({"generation_config": {"top_k": 4}}, "generation_config.top_k", "parameter_unknown"),
        (
            {"tools": [{"type": "function", "name": "f", "strict": True}]},
            "tools[0].strict",
            "parameter_unknown",
        ),
        ({"input": [CALL, {**RESULT, "id": "r"}]}, "input[1].id", "parameter_unknown"),
        ({"input": [{"role": "user", "content": "Hi"}]}, "input[0]", None),
        ({"input": [{"type": "text", "text": "a"}, CALL]}, "input[1]", None),
        ({"input": [CALL, {"type": "text", "text": "a"}]}, "input[1]", None),
        ({"input": [CALL, CALL]}, "input[1].id", None),
        ({"input": []}, "input", None),
        (
            {"input": [{"type": "image", "data": "!", "mime_type": "image/png"}]},
            "input[0].data",
            None,
        ),
        (
            {"generation_config": {"thinking_level": "max"}},
            "generation_config.thinking_level",
            None,
        ),
        ({"agent": "deep-research"}, "model", None),
    ],
)
def test_bad_requests_name_the_field(given: dict[str, Any], path: str, code: str | None) -> None:
    assert refused(**given) == (path, code, None)


def test_an_agent_is_not_implemented() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ClientRequest(NAME, to_json({"agent": "deep-research", "input": "Hi"}))
    assert (caught.value.fault.status, caught.value.fault.code) == (501, "unimplemented")


def test_neither_model_nor_agent_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ClientRequest(NAME, to_json({"input": "Hi"}))
    assert caught.value.fault.param == "model"


def test_a_result_without_a_call_is_refused() -> None:
    body = to_json({"model": "m", "input": [RESULT]})
    with pytest.raises(InvalidRequest) as caught:
        Call(ClientRequest(NAME, body), "openai_chat", CallSettings())
    assert caught.value.fault.param == "input[0]"


def test_a_prefix_of_models_is_taken_off() -> None:
    assert ClientRequest(NAME, to_json({"model": "models/gemini-3", "input": "Hi"})).model == (
        "gemini-3"
    )


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("api-revision", "2026-05-20", False),
        ("api-revision", "2026-09-01", False),
        ("api-revision", "2025-12-01", True),
        ("user-agent", "google-genai-sdk/3.6.1 gl-python/3.11.7", False),
        ("user-agent", "GeminiNextGenAPIClient/Python 1.75.0", True),
        ("user-agent", "GeminiNextGenAPIClient/Python 2.8.0", False),
    ],
)
def test_clients_of_the_schema_before_steps_are_refused(
    name: str, value: str, is_refused: bool
) -> None:
    check = CODEC.endpoint.check_client
    if not is_refused:
        check({name.encode(): value.encode()})
        return
    with pytest.raises(InvalidRequest, match="steps"):
        check({name.encode(): value.encode()})


# --- what is written for upstreams ----------------------------------------------------------------


def written(body: dict[str, Any], client: str = "openai_chat") -> tuple[Any, list[tuple[str, str]]]:
    """The body for an upstream, and the losses."""
    call = translate_request(client, NAME, to_json(body))
    return decode(call.body), [(loss.path, loss.kind.value) for loss in call.losses]


CHAT_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}
    ],
}
CHAT_TURNS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    CHAT_CALL,
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
]


def test_a_conversation_becomes_steps() -> None:
    body, losses = written({"model": "m", "messages": CHAT_TURNS, "stream": True})
    assert (
        body
        == {
            "model": "m",
            "store": False,
            "stream": True,
            "system_instruction": "Be kind.",
            "input": [
                {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
                {"type": "thought", "signature": "skip_thought_signature_validator"},
                CALL,
                RESULT,
            ],
            "generation_config": {"thinking_summaries": "auto"},
        }
        or "generation_config" not in body
    )
    assert losses == [("messages[2]", "repaired")]


def test_a_failed_result_is_told_in_its_text() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "find", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [result]},
        ],
    }
    sent, losses = written(body, "anthropic_messages")
    assert sent["input"][-1] == {**RESULT, "result": "no"}
    assert ("messages[2].content[0].is_error", "knob") in losses


def test_own_thoughts_are_sent_back_and_unsigned_ones_are_not() -> None:
    signed = {"type": "thought", "signature": SIGNED, "summary": [{"type": "text", "text": "T"}]}
    unsigned = {"type": "thought", "summary": [{"type": "text", "text": "T"}]}
    given = ["Hi", signed, CALL, RESULT]
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        *given[1:],
    ]
    request = read(input=[*steps[:1], unsigned, *steps[1:]])
    made = Call(ClientRequest.of(NAME, request), NAME, CallSettings())
    assert decode(made.body)["input"] == steps


def test_tools_and_their_choice_are_written() -> None:
    tool = {
        "type": "function",
        "function": {"name": "find", "description": "Finds.", "parameters": SCHEMA},
    }
    body, _ = written(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [tool],
            "tool_choice": {"type": "function", "function": {"name": "find"}},
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA},
            },
            "max_completion_tokens": 9,
        }
    )
    assert body["tools"] == [
        {"type": "function", "name": "find", "description": "Finds.", "parameters": SCHEMA}
    ]
    config = body["generation_config"]
    assert config["tool_choice"] == {"allowed_tools": {"mode": "any", "tools": ["find"]}}
    assert config["max_output_tokens"] == 9
    assert body["response_format"] == {
        "type": "text",
        "mime_type": "application/json",
        "schema": SCHEMA,
    }


def test_files_are_written_by_their_type() -> None:
    request = Request(
        model="m",
        turns=(
            read(
                input=[
                    {"type": "image", "data": PNG, "mime_type": "image/png", "resolution": "low"},
                    {"type": "audio", "data": PNG, "mime_type": "audio/mp3"},
                ]
            ).turns[0],
        ),
    )
    sent = decode(Call(ClientRequest.of("openai_chat", request), NAME, CallSettings()).body)
    image, audio = sent["input"][0]["content"]
    assert image == {"type": "image", "data": PNG, "mime_type": "image/png", "resolution": "low"}
    assert audio == {"type": "audio", "data": PNG, "mime_type": "audio/mpeg"}


def test_a_document_of_text_is_text() -> None:
    turn = read().turns[0]
    block = Document(source=PlainText("words"), path="x")
    request = Request(model="m", turns=(type(turn)(role="user", blocks=(block,), path="x"),))
    call = Call(ClientRequest.of("openai_chat", request), NAME, CallSettings())
    assert decode(call.body)["input"][0]["content"] == [{"type": "text", "text": "words"}]
    assert [(loss.path, loss.kind) for loss in call.losses] == [("x", LossKind.CONVERTED)]


def test_limits_and_tiers_are_found() -> None:
    endpoint = CODEC.endpoint
    given = members(
        to_json({"generation_config": {"max_output_tokens": 9}, "service_tier": "flex"})
    )
    assert endpoint.limits(given) == 9
    assert endpoint.tier(given) == "flex"
    assert endpoint.searches(members(to_json({"tools": [{"type": "google_search"}]})))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/interactions",
        "/v1beta/interactions",
        "/v1beta1/projects/p/locations/l/interactions",
    ],
)
def test_paths(path: str) -> None:
    operation = CODEC.endpoint.operation_of(path)
    assert operation is not None
    assert (operation.name, operation.model) == ("/v1/interactions", None)


def test_a_choice_among_tools_by_a_word() -> None:
    for word, mode in (("any", "required"), ("none", "none"), ("auto", "auto")):
        choice = read(generation_config={"tool_choice": word}).tool_choice
        assert choice == ToolChoice(mode=mode, path="generation_config.tool_choice")  # type: ignore[arg-type]

"""What is written for upstreams of Google's generateContent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    FileId,
    Image,
    Opaque,
    PlainText,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.canonical.requests import (
    FunctionTool,
    JsonSchema,
    Request,
    Role,
    Thinking,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.protocols import CODECS, google_wire
from dragoman.protocols.base import Outbound
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.request_writer import write_request
from dragoman.protocols.presets import completed
from dragoman.protocols.settings import make_options
from dragoman.translation import tool_names

STUDIO = "https://generativelanguage.googleapis.com"
VERTEX = "https://europe-west4-aiplatform.googleapis.com"
SIGNATURE = "c2lnbmF0dXJl"


def capable(model: str = "gemini-3.5-flash", url: str = STUDIO, **own: Any) -> Capabilities:
    """The capabilities of an upstream, as they are completed."""
    known = completed(Capabilities(), wire.NAME, url, model)
    changed = replace(known.of(GoogleCapabilities), **own)
    return replace(known, own={**known.own, GoogleCapabilities: changed})


def written(
    *turns: Turn,
    model: str = "gemini-3.5-flash",
    url: str = STUDIO,
    own: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The body of a request, and its losses: paths and kinds."""
    request = Request(model=model, turns=turns or (said("hi"),), **fields)
    ledger = Ledger()
    outbound = Outbound(
        model=model,
        names=tool_names(request, CODECS[wire.NAME]),
        ledger=ledger,
        sealer=Sealer(),
        capabilities=capable(model, url, **(own or {})),
        options=make_options(**(options or {})),
    )
    body = msgspec.json.decode(msgspec.json.encode(write_request(request, outbound)))
    return body, [(loss.path, loss.kind.value) for loss in ledger]


def said(*texts: str, role: Role = "user") -> Turn:
    return Turn(role=role, blocks=tuple(Text(text=text) for text in texts), path="messages[0]")


def turn(role: Role, *blocks: Block) -> Turn:
    return Turn(role=role, blocks=blocks, path="messages[1]")


def call(number: int, arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments, path=f"calls[{number}]")


def result(number: int, *content: Block, failed: bool | None = None) -> ToolResult:
    return ToolResult(call_id=f"call_{number}", content=content, is_error=failed, path="results")


def own(data: str, anchor: Any = "") -> Reasoning:
    return Reasoning(opaque=Opaque(wire.NAME, data, anchor=anchor), path="reasoning")


def test_results_of_one_turn_are_in_one_content_and_media_follows_them() -> None:
    picture = Image(source=Base64("image/jpg", "QQ=="))
    turns = (
        said("go"),
        turn("assistant", call(1), call(2)),
        turn("user", result(2, Text(text="two")), result(1, Text(text="one"), picture)),
    )
    body, _ = written(*turns)
    _, asked, given = body["contents"]
    assert [part["functionCall"]["id"] for part in asked["parts"]] == ["call_1", "call_2"]
    first, second = given["parts"]
    assert first["functionResponse"]["name"] == "look"
    assert first["functionResponse"]["response"] == {"output": "one"}
    inline = {"inlineData": {"mimeType": "image/jpeg", "data": "QQ=="}}
    assert first["functionResponse"]["parts"] == [inline]
    assert second["functionResponse"]["response"] == {"output": "two"}

    body, losses = written(*turns, model="gemini-2.5-flash")
    parts = body["contents"][2]["parts"]
    assert ["functionResponse" in part for part in parts] == [True, True, False, False]
    assert parts[3] == inline
    assert ("results", "converted") in losses


def test_the_first_call_of_each_turn_has_a_signature_or_its_placeholder() -> None:
    turns = (
        said("go"),
        turn("assistant", own(SIGNATURE, "next"), call(1), call(2)),
        turn("user", result(1), result(2)),
        turn("assistant", call(3), call(4)),
        turn("user", result(3), result(4)),
    )
    body, losses = written(*turns)
    signed = [
        [part.get("thoughtSignature") for part in content["parts"]]
        for content in body["contents"]
        if content["role"] == "model"
    ]
    assert signed == [[SIGNATURE, None], [google_wire.DUMMY, None]]
    assert [kind for _, kind in losses].count("repaired") == 1

    body, losses = written(*turns, model="gemini-2.5-pro")
    assert body["contents"][3]["parts"][0].keys() == {"functionCall"}
    assert losses == []


def test_signatures_stand_on_their_part() -> None:
    thought = Reasoning(parts=("hm",), opaque=Opaque(wire.NAME, "dGhvdWdodA=="))
    body, losses = written(
        said("go"),
        turn("assistant", thought, Text(text="So."), own("dGV4dA", "previous"), own("bGFzdA==")),
        said("on"),
    )
    assert body["contents"][1]["parts"] == [
        {"text": "hm", "thought": True, "thoughtSignature": "dGhvdWdodA=="},
        {"text": "So.", "thoughtSignature": "dGV4dA"},
        {"text": "", "thoughtSignature": "bGFzdA=="},
    ]
    assert losses == []


@pytest.mark.parametrize("origin", ["anthropic_messages", "openai_responses", "marker"])
def test_no_other_vendors_state_is_a_signature(origin: str) -> None:
    block = Reasoning(parts=("hm",), opaque=Opaque(origin, "c3RhdGU=", anchor="next"), path="r")
    body, losses = written(said("go"), turn("assistant", block, call(1)), turn("user", result(1)))
    assert b"c3RhdGU" not in msgspec.json.encode(body)
    assert ("r", "knob") in losses


def test_identifiers_of_calls_are_not_sent_where_foreign_ones_are_refused() -> None:
    turns = (said("go"), turn("assistant", call(1)), turn("user", result(1, failed=True)))
    body, _ = written(*turns, url=VERTEX)
    assert body["contents"][1]["parts"][0]["functionCall"] == {"name": "look", "args": {}}
    response = body["contents"][2]["parts"][0]["functionResponse"]
    assert response == {"name": "look", "response": {"error": ""}}


def test_the_user_speaks_first_and_last() -> None:
    body, losses = written(said("I begin.", role="assistant"))
    roles = [content["role"] for content in body["contents"]]
    assert roles == ["user", "model", "user"]
    assert body["contents"][0]["parts"] == [{"text": " "}]
    assert [kind for _, kind in losses] == ["repaired", "repaired"]


def test_system_text_is_an_instruction_and_later_text_the_users() -> None:
    body, losses = written(
        turn("system", Text(text="Be brief.")), said("hi"), turn("developer", Text(text="Now."))
    )
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    (content,) = body["contents"]
    assert "Now." in content["parts"][1]["text"]
    assert losses == [("messages[1]", "converted")]


def test_no_part_and_no_instruction_is_empty() -> None:
    body, _ = written(said("", "hi"), instructions=(Text(text=""),))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert "systemInstruction" not in body


MEDIA = {
    "pdf": (Document(source=Base64("application/pdf", "QQ==")), "application/pdf"),
    "text": (Document(source=PlainText("A")), "text/plain"),
    "wav": (Audio(data="QQ==", format="wav"), "audio/wav"),
    "mp3": (Audio(data="QQ==", format="mp3"), "audio/mpeg"),
    "png": (Image(source=Base64("image/png", "QQ==")), "image/png"),
}


@pytest.mark.parametrize(("block", "kind"), MEDIA.values(), ids=MEDIA)
def test_media_is_inline(block: Block, kind: str) -> None:
    body, losses = written(turn("user", block))
    inline = {"mimeType": kind, "data": "QQ=="}
    assert body["contents"][0]["parts"] == [{"inlineData": inline}]
    assert losses == []


REFUSED: dict[str, Block] = {
    "gif": Image(source=Base64("image/gif", "QQ=="), path="p"),
    "address": Image(source=Url("https://a.example/b.png"), path="p"),
    "file of another": Image(source=FileId("file_1", "openai"), path="p"),
    "docx": Document(source=Base64("application/vnd.x", "QQ=="), path="p"),
}


@pytest.mark.parametrize("block", REFUSED.values(), ids=REFUSED)
def test_what_the_upstream_cannot_see_is_lost_content(block: Block) -> None:
    _, losses = written(turn("user", Text(text="see"), block))
    assert losses == [("p", "content")]


def test_addresses_are_passed_where_the_upstream_fetches_them() -> None:
    body, losses = written(
        turn("user", Image(source=Url("https://a.example/b.png?c=1.gif"))), url=VERTEX
    )
    file = {"fileUri": "https://a.example/b.png?c=1.gif", "mimeType": "image/png"}
    assert body["contents"][0]["parts"] == [{"fileData": file}]
    assert losses == []


# --- thinking -----------------------------------------------------------------------------------

LEVELS = {
    "none": ("gemini-3.5-flash", Thinking(effort="none"), {"thinkingLevel": "MINIMAL"}),
    "none of pro": ("gemini-3.1-pro", Thinking(effort="none"), {"thinkingLevel": "LOW"}),
    "minimal of pro": (
        "gemini-3.1-pro",
        Thinking(effort="minimal"),
        {"thinkingLevel": "LOW", "includeThoughts": True},
    ),
    "medium of old pro": (
        "gemini-3-pro-preview",
        Thinking(effort="medium"),
        {"thinkingLevel": "HIGH", "includeThoughts": True},
    ),
    "max": (
        "gemini-3.5-flash",
        Thinking(effort="max"),
        {"thinkingLevel": "HIGH", "includeThoughts": True},
    ),
    "adaptive": ("gemini-3.5-flash", Thinking(mode="adaptive"), {"includeThoughts": True}),
    "omitted": (
        "gemini-3.5-flash",
        Thinking(effort="low", display="omitted"),
        {"thinkingLevel": "LOW"},
    ),
    "budget": (
        "gemini-2.5-flash",
        Thinking(mode="enabled", budget=2000),
        {"thinkingBudget": 2000, "includeThoughts": True},
    ),
    "off": ("gemini-2.5-flash", Thinking(mode="disabled"), {"thinkingBudget": 0}),
    "off of pro": ("gemini-2.5-pro", Thinking(effort="none"), {"thinkingBudget": 128}),
    "dynamic": (
        "gemini-2.5-pro",
        Thinking(mode="adaptive"),
        {"thinkingBudget": -1, "includeThoughts": True},
    ),
    "most": (
        "gemini-2.5-pro",
        Thinking(effort="max"),
        {"thinkingBudget": 32768, "includeThoughts": True},
    ),
    "too little": (
        "gemini-2.5-flash-lite",
        Thinking(mode="enabled", budget=10),
        {"thinkingBudget": 512, "includeThoughts": True},
    ),
    "none at all": ("gemini-2.0-flash", Thinking(effort="high"), None),
}


@pytest.mark.parametrize(("model", "wish", "config"), LEVELS.values(), ids=LEVELS)
def test_thinking_is_asked_for_as_the_generation_has_it(
    model: str, wish: Thinking, config: dict[str, Any] | None
) -> None:
    body, _ = written(model=model, thinking=wish)
    found = body.get("generationConfig", {}).get("thinkingConfig")
    assert found == config


def test_a_budget_leaves_room_for_the_answer() -> None:
    body, losses = written(
        model="gemini-2.5-flash",
        thinking=Thinking(mode="enabled", budget=8000),
        max_output_tokens=8000,
    )
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 6000
    assert losses == [("thinking", "repaired")]


# --- tools --------------------------------------------------------------------------------------

TOOL = FunctionTool(
    name="look",
    description="Look.",
    schema={"type": "object", "properties": {"at": {"type": ["string", "null"]}}},
    path="tools[0]",
)
CHOICES = {
    "none": (ToolChoice(mode="none"), {"mode": "NONE"}),
    "auto": (ToolChoice(mode="auto"), {"mode": "AUTO"}),
    "required": (ToolChoice(mode="required"), {"mode": "ANY"}),
    "named": (
        ToolChoice(mode="tool", tool=ToolRef("look")),
        {"mode": "ANY", "allowedFunctionNames": ["look"]},
    ),
    "allowed": (
        ToolChoice(mode="auto", allowed=(ToolRef("look"),)),
        {"mode": "VALIDATED", "allowedFunctionNames": ["look"]},
    ),
    "allowed and required": (
        ToolChoice(mode="required", allowed=(ToolRef("look"),)),
        {"mode": "ANY", "allowedFunctionNames": ["look"]},
    ),
}


@pytest.mark.parametrize(("choice", "config"), CHOICES.values(), ids=CHOICES)
def test_choices_of_tools(choice: ToolChoice, config: dict[str, Any]) -> None:
    body, _ = written(tools=(TOOL,), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == TOOL.schema


@pytest.mark.parametrize(
    "choice",
    [
        ToolChoice(mode="required", path="tool_choice"),
        ToolChoice(mode="tool", tool=ToolRef("look"), path="tool_choice"),
    ],
)
def test_a_choice_without_tools_to_choose_from_is_lost(choice: ToolChoice) -> None:
    body, losses = written(tool_choice=choice)
    assert "toolConfig" not in body
    assert losses == [("tool_choice", "content")]


def test_strict_tools_are_validated_and_those_without_arguments_have_no_schema() -> None:
    body, losses = written(tools=(replace(TOOL, strict=True, schema=None),))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body["tools"] == [{"functionDeclarations": [{"name": "look", "description": "Look."}]}]
    assert losses == []


def test_older_services_are_sent_the_subset_of_openapi() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "properties": {
            "at": {"type": ["string", "null"], "const": "a"},
            "$ref": {"$ref": "#/$defs/N"},
        },
        "$defs": {"N": {"type": "integer", "exclusiveMinimum": 0}},
        "additionalProperties": False,
    }
    body, losses = written(tools=(replace(TOOL, schema=schema),), own={"google_json_schema": False})
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {
        "type": "OBJECT",
        "properties": {
            "at": {"nullable": True, "type": "STRING", "enum": ["a"]},
            "$ref": {"type": "INTEGER", "description": "{exclusiveMinimum: 0}"},
        },
    }
    assert losses == [("tools[0]", "converted")]


# --- settings -----------------------------------------------------------------------------------


def test_settings_have_their_members() -> None:
    body, losses = written(
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        stop=("a", "b"),
        seed=1,
        logprobs=True,
        top_logprobs=2,
        service_tier="flex",
        output_format=JsonSchema(schema={"type": "object", "properties": {}}),
    )
    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 5,
        "stopSequences": ["a", "b"],
        "seed": 1,
        "responseLogprobs": True,
        "logprobs": 2,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {}},
        "thinkingConfig": {"includeThoughts": True},
    }
    assert body["serviceTier"] == "flex"
    assert losses == []


LOST = {
    "penalty": {"presence_penalty": 1.0},
    "metadata": {"metadata": {"a": "b"}},
    "verbosity": {"verbosity": "low"},
    "cache key": {"prompt_cache_key": "k"},
    "store": {"store": True},
    "parallel": {"parallel_tool_calls": False, "tools": (TOOL,)},
}


@pytest.mark.parametrize("fields", LOST.values(), ids=LOST)
def test_what_has_no_place_is_reported(fields: dict[str, Any]) -> None:
    _, losses = written(**fields)
    assert losses == [(next(iter(fields)), LossKind.KNOB.value)]


def test_sampling_is_not_sent_to_models_that_ignore_it() -> None:
    body, losses = written(model="gemini-3.7-flash", temperature=0.5, top_k=3)
    assert "temperature" not in body["generationConfig"]
    assert losses == [("temperature", "knob"), ("top_k", "knob")]


def test_labels_are_for_vertex() -> None:
    body, losses = written(url=VERTEX, metadata={"team": "a", "B": "c"}, user="me")
    assert body["labels"] == {"team": "a", "user": "me"}
    assert losses == [("metadata", "knob")]

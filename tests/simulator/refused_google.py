"""Wrong Google requests, one a row: what is set, a part of the complaint's words."""

from __future__ import annotations

from typing import Any

from tests.simulator.google import SAY_IT, model, user
from tests.simulator.requests import JsonObject

CALL: JsonObject = {"functionCall": {"name": "f", "args": {}}}
SIGNED: JsonObject = {**CALL, "thoughtSignature": "skip_thought_signature_validator"}
RESULT: JsonObject = {"functionResponse": {"name": "f", "response": {"output": "ok"}}}
PIXEL = "iVBORw0KGgo="


def said(*contents: JsonObject) -> JsonObject:
    return {"contents": [SAY_IT, *contents]}


def part(**members: Any) -> JsonObject:
    return {"contents": [user(members)]}


def declared(**members: Any) -> JsonObject:
    return {"tools": [{"functionDeclarations": [{"name": "f", **members}]}]}


def parameters(**members: Any) -> JsonObject:
    properties = {"a": members}
    return declared(parameters={"type": "OBJECT", "properties": properties})


def settings(**members: Any) -> JsonObject:
    return {"generationConfig": members}


def calling(**members: Any) -> JsonObject:
    return {**declared(), "toolConfig": {"functionCallingConfig": members}}


REFUSED: list[tuple[JsonObject, str]] = [
    ({"contents": []}, "contents is not specified"),
    ({"contents": None}, "contents"),
    ({"contents": SAY_IT}, "Expected `array`"),
    ({"messages": []}, 'Unknown name "messages": Cannot find field.'),
    ({"systemInstruction": {"parts": []}}, "must not be empty"),
    ({"systemInstruction": user({"inlineData": {"mimeType": "image/png", "data": PIXEL}})}, "text"),
    ({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, "valid role"),
    ({"contents": [user()]}, "must not be empty"),
    ({"contents": [user({})]}, "required oneof field 'data'"),
    (part(text="x", functionCall={"name": "f"}), "oneof field 'data' is already set"),
    (part(text="x", cache_control={}), 'Unknown name "cacheControl"'),
    (part(thought=True), "required oneof field 'data'"),
    (part(inlineData={"mimeType": "image/jpg", "data": PIXEL}), "Unsupported MIME type"),
    (part(inlineData={"mimeType": "image/png", "data": "?"}), "Base64 decoding failed"),
    (part(functionResponse={"name": "", "response": {}}), "length"),
    (part(functionResponse={"name": "f", "response": "text"}), "Expected `object`"),
    (part(functionCall={"name": "f", "args": "{}"}), "Expected `object"),
    (part(text="x", thoughtSignature="c2ln"), "Corrupted thought signature"),
    (said(model({"text": "x", "thoughtSignature": "dgm1.x"}), SAY_IT), "Base64 decoding failed"),
    (said(model({"text": "x", "thoughtSignature": "c2ln"}), SAY_IT), "Corrupted thought"),
    ({"contents": [model({"text": "x"}), SAY_IT]}, "start with a user turn"),
    (said(model({"text": "x"})), "end with a user turn"),
    (said(model(SIGNED), SAY_IT), "number of function response parts"),
    (said(model(SIGNED, CALL), user(RESULT)), "number of function response parts"),
    (said(model(SIGNED), user(RESULT, RESULT)), "number of function response parts"),
    (said(model(SIGNED, CALL), user(RESULT), user(RESULT)), "number of function response parts"),
    (said(model({"text": "x"}), user(RESULT)), "immediately after a function call turn"),
    (said(model(SIGNED), SAY_IT, user(RESULT)), "immediately after a function call turn"),
    (said(model(CALL), user(RESULT)), "missing a thought_signature in functionCall parts"),
    (
        said(model(SIGNED), user({"functionResponse": {"name": "call_1", "response": {}}})),
        "'call_1' answers a call of 'f'",
    ),
    (declared(strict=True), 'Unknown name "strict"'),
    (declared(name="a b"), "matching regex"),
    (declared(name="a" * 65), "matching regex"),
    ({"tools": [*declared()["tools"], *declared()["tools"]]}, "Duplicate function"),
    ({"tools": [{}]}, "must have one of its fields"),
    (declared(parameters={"type": "STRING"}, parametersJsonSchema={}), "only one of"),
    (parameters(type=["string", "null"]), "enum Type"),
    (parameters(const=1), 'Unknown name "const"'),
    (parameters(type="STRING", additionalProperties=False, uniqueItems=True), "uniqueItems"),
    (parameters(type="INTEGER", enum=[1]), "strings only"),
    (parameters(type="ARRAY"), "missing field"),
    (declared(parameters={"type": "OBJECT", "properties": {}}), "should be non-empty"),
    (declared(parametersJsonSchema={"$ref": "#", "type": "object"}), "$ref"),
    (declared(parametersJsonSchema={"type": "text"}), "Invalid type"),
    ({**declared(), "tools": [*declared()["tools"], {"googleSearch": {}}]}, "server_side_tool"),
    (calling(mode="AUTO", allowedFunctionNames=["f"]), "mode is ANY"),
    (calling(mode="ANY", allowedFunctionNames=["g"]), "not declared"),
    (calling(mode="required"), "Invalid enum value"),
    ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "without function_declarations"),
    (settings(max_tokens=3), 'Unknown name "maxTokens"'),
    (settings(maxOutputTokens=0), "Expected `int` >= 1"),
    (settings(temperature=2.5), "<= 2"),
    (settings(stopSequences=list("abcdef")), "length <= 5"),
    (settings(responseSchema={"type": "STRING"}), "mime type"),
    (
        settings(
            responseMimeType="application/json",
            responseSchema={"type": "STRING"},
            responseJsonSchema={"type": "string"},
        ),
        "Only one of",
    ),
    (settings(thinkingConfig={"thinkingBudget": 1, "thinkingLevel": "LOW"}), "only one of"),
    (settings(thinkingConfig={"thinkingLevel": "low"}), "Invalid enum value"),
    (settings(logprobs=2), "response_logprobs"),
    ({"safetySettings": [{"category": "x", "threshold": "OFF"}]}, "matching regex"),
    ({"cachedContent": "cachedContents/x"}, "permission denied"),
    ({"serviceTier": "auto"}, "Invalid enum value"),
]
"""Requests that are refused of every model."""

REFUSED_OF_2: list[tuple[JsonObject, str]] = [
    (settings(thinkingConfig={"thinkingLevel": "LOW"}), "Thinking level is not supported"),
    ({**declared(), **settings(responseMimeType="application/json")}, "is unsupported"),
]
"""Requests that only models before Gemini 3 refuse."""

ACCEPTED: list[JsonObject] = [
    {"contents": [{"parts": [{"text": "x"}]}]},
    {
        "contents": [
            user({"text": "x"}, {"inline_data": {"mime_type": "image/png", "data": "-_8="}})
        ]
    },
    {"system_instruction": {"parts": [{"text": "x"}], "role": "system"}},
    said(model({"text": ""}), SAY_IT),
    said(model(SIGNED, CALL), user(RESULT, RESULT, {"text": "and"})),
    said(model(SIGNED), model(CALL), model({"text": ""}), user(RESULT, RESULT)),
    said(model(CALL), user(RESULT), model({"text": "x"}), SAY_IT),
    declared(parameters={"type": "object", "properties": {"my_key": {"type": "STRING"}}}),
    declared(parametersJsonSchema={"type": ["object", "null"], "const": 1, "$schema": "x"}),
    calling(mode="VALIDATED", allowedFunctionNames=["f"]),
    settings(thinkingConfig={"include_thoughts": True, "thinking_level": "LOW"}, top_k=3.0),
    {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]},
    {"labels": {"my_label": "x"}, "serviceTier": "flex", "store": False, "cachedContent": None},
]
"""Requests that the service takes."""

"""One request for every field of the types of google-genai that a client of generateContent sends.

The SDK has no type of the whole body: its members are put together here. Its types have no
required fields, so what makes each meaningful is stated beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from google.genai import types
from pydantic import BaseModel

from tests.losses.requests import GOOGLE, Case
from tests.losses.shapes import FieldShape, Many, Record, fields_of
from tests.losses.values import FILLER, Owner
from tests.losses.walker import ABSENT, Probe, walk

Json = dict[str, Any]


class GenerateContent(BaseModel):
    """The body of a request."""

    contents: list[types.Content]
    systemInstruction: types.Content | None = None  # noqa: N815
    tools: list[types.Tool] | None = None
    toolConfig: types.ToolConfig | None = None  # noqa: N815
    generationConfig: types.GenerationConfig | None = None  # noqa: N815
    safetySettings: list[types.SafetySetting] | None = None  # noqa: N815
    cachedContent: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    serviceTier: types.ServiceTier | None = None  # noqa: N815
    store: bool | None = None


USER = {"role": "user", "parts": [{"text": FILLER}]}
MODEL = {"role": "model", "parts": [{"text": FILLER}]}
_DECLARED = {"functionDeclarations": [{"name": FILLER}, {"name": "declared_one"}]}
_OF_MODEL = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "thought")
"""Members of parts that only the model says, or that are about what it said."""

EXCUSED: dict[str, str] = {
    "Content.role": "A system instruction has no sides, and others are in turns of both.",
    "Part.thought": "A system instruction is not thought.",
    "Part.thoughtSignature": "Nor is it signed; a signature on a text is recommended, not needed.",
    "*.displayName": "A name to show, which the protocol gives to Vertex AI alone.",
    "PartMediaResolution.*": "How much of a medium is looked at; it stands on a text here.",
    "FunctionDeclaration.behavior=BLOCKING": "A function is waited for in any case.",
    "GenerationConfig.responseModalities=TEXT": "An answer is text unless asked otherwise.",
    "ThinkingConfig.includeThoughts": "Chat shows what it is given, asked or not.",
    "ExecutableCode.*": "What a hosted tool ran is told as text: the code without its language.",
    "CodeExecutionResult.*": "What a hosted tool ran is told as text: the output without its end.",
    "Schema.nullable": "Of a schema without a type, to which null could be added.",
    "Schema.propertyOrdering": "JSON Schema has no order of properties but that of its text.",
    "Transcription.*": "A part of answers, which no client sends.",
    "WordInfo.*": "A part of answers, which no client sends.",
}


@cache
def google_cases() -> tuple[Case, ...]:
    """All cases."""
    record = Record(GenerateContent)
    found: list[Case] = []
    for field in fields_of(record):
        owner = Owner().field(record.name, field.name)
        if field.name == "contents":
            found += _conversation(field, owner)
            continue
        for probe in walk(field.shape, owner):
            if not probe.path:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            build = _top(field.name, str(probe.path))
            found.append(Case("google", GOOGLE, (field.name, *probe.path), probe, build))
    return tuple(found)


def _top(name: str, place: str) -> Callable[[Any], Json]:
    def build(value: Any) -> Json:
        body: Json = {"model": FILLER, "contents": [USER]}
        if name == "toolConfig":
            body["tools"] = [_DECLARED]
        if value is not ABSENT:
            body[name] = value
            if name == "generationConfig" and "Schema" in place:
                body[name] = {**value, "responseMimeType": "application/json"}
        return body

    return build


def _conversation(field: FieldShape, owner: Owner) -> Iterator[Case]:
    """Probes of single contents, each put where it is legal."""
    assert isinstance(field.shape, Many)
    for probe in walk(field.shape.item, owner):
        at, build = _place(probe)
        yield Case("google", GOOGLE, ("contents", at, *probe.path), probe, build)


def _place(probe: Probe) -> tuple[int, Callable[[Any], Json]]:
    place = str(probe.path)

    def build(turn: Any) -> Json:
        contents = [USER]
        if turn is not ABSENT:
            contents = _around(turn, place)
        return {"model": FILLER, "contents": contents}

    of_model = any(name in place for name in (*_OF_MODEL, "functionCall"))
    return (1 if of_model else 2), build


def _around(turn: Json, place: str) -> list[Json]:
    parts = turn.get("parts") or [{}]
    part = parts[0]
    if "functionCall" in part:
        call = part["functionCall"]
        result = {**_paired(call), "response": {"output": FILLER}}
        answer = {"role": "user", "parts": [{"functionResponse": result}]}
        return [USER, {**turn, "role": "model"}, answer]
    if "functionResponse" in part:
        calls = [{"functionCall": _paired(part["functionResponse"])}]
        return [USER, {"role": "model", "parts": calls}, {**turn, "role": "user"}]
    if any(name in place for name in _OF_MODEL):
        return [USER, {**turn, "role": "model"}, USER]
    return [USER, MODEL, turn]


def _paired(given: Json) -> Json:
    """The name and id by which a call and its result are paired."""
    return {name: given[name] for name in ("name", "id") if name in given}

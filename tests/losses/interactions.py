"""One request for every field of the types of google-genai that a client of the Interactions API
sends to a model, as the SDK's own types have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from google.genai._gaos.types.interactions import CreateModelInteractionParam, StepParam

from tests.losses.requests import Case
from tests.losses.shapes import Record, fields_of, shape_of
from tests.losses.values import FILLER, Owner
from tests.losses.walker import ABSENT, Probe, walk

Json = dict[str, Any]

INTERACTIONS = "google_interactions"
_TOOLS = [{"type": "function", "name": name} for name in (FILLER, "declared_one", "declared_two")]


def _step(kind: str) -> Json:
    return {"type": kind, "content": [{"type": "text", "text": FILLER}]}


USER, MODEL = _step("user_input"), _step("model_output")

EXCUSED: dict[str, str] = {
    "CreateModelInteractionParam.model=*": "The path names the model.",
    "CreateModelInteractionParam.stream": "The path says whether an answer is streamed.",
    "CreateModelInteractionParam.response_modalities=text": "An answer is text unless asked "
    "otherwise.",
    "TextResponseFormatParam": "An answer is text unless asked otherwise.",
    "TextResponseFormatParam.mime_type=text/plain": "An answer is plain unless asked otherwise.",
    "GenerationConfigParam.thinking_summaries=*": "Chat shows what it is given, asked or not.",
}


@cache
def interaction_cases() -> tuple[Case, ...]:
    """All cases."""
    record = Record(CreateModelInteractionParam)
    found: list[Case] = []
    for field in fields_of(record):
        if field.name == "input":
            continue
        for probe in walk(field.shape, Owner().field(record.name, field.name)):
            path = (field.name, *probe.path)
            found.append(Case("interactions", INTERACTIONS, path, probe, _top(field.name)))
    for probe in walk(shape_of(StepParam), Owner().field(record.name, "input")):
        at, build = _place(probe)
        found.append(Case("interactions", INTERACTIONS, ("input", at, *probe.path), probe, build))
    return tuple(found)


def _top(name: str) -> Callable[[Any], Json]:
    def build(value: Any) -> Json:
        body: Json = {"model": FILLER, "input": [USER]}
        if name == "generation_config":
            body["tools"] = _TOOLS
        if value is not ABSENT:
            body[name] = value
        return body

    return build


def _place(probe: Probe) -> tuple[int, Callable[[Any], Json]]:
    """The place of a step in the input, and what puts it there with what it needs."""
    kind = str(probe.document["type"])

    def build(one: Any) -> Json:
        if one is ABSENT:
            return {"model": FILLER, "input": [USER]}
        before, after = [USER], [USER]
        if kind == "user_input":
            before, after = [USER, MODEL], []
        elif kind == "function_call":
            after = [{"type": "function_result", "call_id": one.get("id"), "result": FILLER}]
        elif kind == "function_result":
            call = {"type": "function_call", "id": one.get("call_id"), "arguments": {}}
            before = [USER, {**call, "name": one.get("name", FILLER)}]
            after = []
        return {"model": FILLER, "input": [*before, one, *after]}

    return (2 if kind in ("user_input", "function_result") else 1), build

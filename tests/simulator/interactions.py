"""Interactions of the simulator, and what their streams say."""

from __future__ import annotations

import json
from typing import Any

from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.requests import CITY, KEY, Answer, JsonObject, call

PATH = "/v1/interactions"
HEADERS = {"content-type": "application/json", "x-goog-api-key": KEY}
TOOLS: list[JsonObject] = [
    {"type": "function", "name": name, "parameters": CITY} for name in ("get_weather", "get_time")
]
SUMMARIES: JsonObject = {"generation_config": {"thinking_summaries": "auto"}}


def ask(simulator: RunningSimulator, model: str, given: Any = "Say it.", **fields: Any) -> Answer:
    body = {"model": model, "input": given, **fields}
    return call(simulator, "POST", PATH, body, HEADERS)


def say(text: str) -> JsonObject:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def results(steps: list[JsonObject], *texts: str) -> list[JsonObject]:
    """Results of the calls in some steps."""
    calls = [step for step in steps if step["type"] == "function_call"]
    return [
        {"type": "function_result", "call_id": one["id"], "name": one["name"], "result": text}
        for one, text in zip(calls, texts, strict=True)
    ]


def text_of(interaction: JsonObject) -> str:
    outputs = [step for step in interaction["steps"] if step["type"] == "model_output"]
    return "".join(part["text"] for step in outputs for part in step["content"])


def events(body: bytes) -> list[JsonObject]:
    """The events of a stream, which each have the name of their type."""
    *frames, done, rest = body.decode().split("\n\n")
    assert (done.removeprefix("event: done\n"), rest) == ("data: [DONE]", "")
    found = []
    for frame in frames:
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['event_type']}"
        found.append(event)
    return found


def folded(found: list[JsonObject]) -> list[JsonObject]:
    """The steps that a stream says, one after the other."""
    steps: list[JsonObject] = []
    arguments = ""
    for event in found:
        if event["event_type"] == "step.start":
            assert event["index"] == len(steps)
            steps.append(event["step"])
            arguments = ""
        elif event["event_type"] == "step.delta":
            assert event["index"] == len(steps) - 1
            arguments += _add(steps[-1], event["delta"])
        elif event["event_type"] == "step.stop" and arguments:
            steps[-1]["arguments"] = json.loads(arguments)
    return steps


def _add(step: JsonObject, delta: JsonObject) -> str:
    """Add a delta to its step; returns a piece of arguments."""
    match delta["type"]:
        case "arguments_delta":
            return str(delta["arguments"])
        case "text":
            content = step.setdefault("content", [{"type": "text", "text": ""}])
            content[0]["text"] += delta["text"]
        case "text_annotation_delta":
            step["content"][0]["annotations"] = delta["annotations"]
        case "thought_summary":
            parts = step.setdefault("summary", [{"type": "text", "text": ""}])
            parts[0]["text"] += delta["content"]["text"]
        case "thought_signature":
            step["signature"] = delta["signature"]
        case _:
            step |= delta
    return ""

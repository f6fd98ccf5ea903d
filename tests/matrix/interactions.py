"""Google's SDK for Python as a judge of interactions, and requests as its users make them.

The SDKs have no helper that makes one interaction of a stream: its events are put together here.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from google import genai
from google.genai import types

JsonObject = dict[str, Any]


def ask_interactions(mode: str, base_url: str, key: str, body: JsonObject) -> Any:
    """The answer of google-genai: an interaction, or the events of its stream.

    Raises:
        Exception: as its users meet it.
    """
    options = types.HttpOptions(base_url=base_url, timeout=20_000)
    with warnings.catch_warnings(), genai.Client(api_key=key, http_options=options) as client:
        warnings.simplefilter("ignore")
        create: Any = client.interactions.create
        if mode == "full":
            return _dumped(create(**body))
        return [_dumped(event) for event in create(**body, stream=True)]


def _dumped(answer: Any) -> Any:
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def fold_events(events: list[JsonObject]) -> JsonObject:
    """The interaction that a stream is of. Each step starts, goes on and stops in its turn, and
    exactly one event is the end."""
    first, *_, last = events
    assert first["event_type"] == "interaction.created", first
    assert last["event_type"] == "interaction.completed", last
    steps: list[JsonObject] = []
    pieces: list[str] = []
    is_open = False
    for event in events:
        match event["event_type"]:
            case "step.start":
                assert not is_open, "the step before is not stopped"
                assert event["index"] == len(steps), event
                steps.append(dict(event["step"]))
                pieces, is_open = [], True
            case "step.delta":
                assert is_open, event
                assert event["index"] == len(steps) - 1, event
                _add(steps[-1], event["delta"], pieces)
            case "step.stop":
                assert is_open, event
                is_open = False
                if pieces:
                    steps[-1]["arguments"] = json.loads("".join(pieces))
    assert not is_open, "the last step is not stopped"
    return {**last["interaction"], "steps": steps}


def _add(step: JsonObject, delta: JsonObject, pieces: list[str]) -> None:
    match delta["type"]:
        case "arguments_delta":
            pieces.append(delta["arguments"])
        case "text":
            contents = step.setdefault("content", [])
            if not contents:
                contents.append({"type": "text", "text": ""})
            contents[-1]["text"] += delta["text"]
        case "text_annotation_delta":
            step["content"][-1].setdefault("annotations", []).extend(delta["annotations"])
        case "thought_summary":
            parts = step.setdefault("summary", [])
            if not parts:
                parts.append({"type": "text", "text": ""})
            parts[-1]["text"] += delta["content"]["text"]
        case "thought_signature":
            assert "signature" not in step, "signed twice"
            step["signature"] = delta["signature"]
        case _:
            step |= delta


def error_of(error: Any) -> tuple[str, int | None, str | None, str]:
    """Class, status, code and message."""
    body = error.body if isinstance(error.body, dict) else {}
    told = body.get("error") or {}
    return type(error).__name__, error.status_code, told.get("code"), told.get("message", "")


# --- requests -------------------------------------------------------------------------------------


def say(text: str) -> JsonObject:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def next_interaction(
    first: JsonObject, final: JsonObject, results: list[tuple[str, str]], more: str
) -> JsonObject:
    """The request of the turn after an answer, without what is stored; of each result the id of its
    call and the text."""
    names = {one["id"]: one["name"] for one in final["steps"] if one["type"] == "function_call"}
    given = first["input"]
    steps = [say(given)] if isinstance(given, str) else list(given)
    steps += final["steps"]
    steps += [
        {"type": "function_result", "call_id": call_id, "name": names[call_id], "result": text}
        for call_id, text in results
    ]
    return {**first, "input": [*steps, say(more)] if more else steps}

"""Google's Interaction, as the Gemini API sends it.

Shapes: ``Interaction`` and ``InteractionSSEEvent`` of the google-genai package. An answer is a list
of steps; a stream starts, fills and stops one after the other. What was thought is signed, in a
step of its own before what followed from it. A filter answers with an error, not with an end.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.lab.simulator.errors import ApiError, interactions_error
from dragoman.lab.simulator.frames import DONE, json_text, named_frame, split_text
from dragoman.lab.simulator.reading.interactions import shown_of
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.script import (
    Failure,
    HostedSearch,
    Reasoning,
    Refusal,
    Scenario,
    Text,
    ToolCall,
    calls_of,
    unusual_call,
)
from dragoman.lab.simulator.seals import sign_part
from dragoman.lab.simulator.view import JsonObject

_DONE_EVENT = b"event: done\n" + DONE
_MALFORMED = Failure(status=500, code="malformed_function_call", message="A call is malformed.")
_TOKEN = "c2Vjb25kIGhhbGY="
"""The token of an answer's second half."""

_LENGTHS = ("length", "context_window")


def cannot(scenario: Scenario) -> str | None:
    """Why an interaction cannot express the scenario: one answer, only JSON tools, no pauses."""
    if scenario.choices > 1:
        return "an interaction has exactly one answer"
    if scenario.finish == "pause":
        return "an interaction has no paused turns"
    return unusual_call(scenario.steps, "an interaction")


def full(answer: Answer) -> JsonObject:
    """A whole interaction.

    Raises:
        ApiError: 400, a filter refused the request or its answer.
    """
    if (failure := _refusal(answer)) is not None:
        raise ApiError(failure.status, failure.message or "", code=failure.code)
    found: JsonObject = {**_head(answer), "status": _status(answer)}
    if _is_malformed(answer):
        found["errors"] = [interactions_error(_MALFORMED)]
    found |= {"updated": _time(answer), "steps": _steps(answer), **_tail(answer)}
    for name in ("previous_interaction_id", "service_tier", "labels"):
        if answer.request.get(name) is not None:
            found[name] = answer.request[name]
    return found


def started(answer: Answer) -> JsonObject:
    """An interaction in the background, as it is answered."""
    return {**_head(answer), "status": "in_progress", "updated": _time(answer), "steps": []}


def stream(answer: Answer) -> Iterator[bytes]:
    """The events.

    Raises:
        ApiError: 400, a filter refused the request.
    """
    failure = _refusal(answer)
    if failure is not None and not any(isinstance(one, Text) for one in answer.scenario.steps):
        raise ApiError(failure.status, failure.message or "", code=failure.code)
    return _written(answer, _events(answer, failure))


def error_frames(answer: Answer, failure: Failure, sent: int) -> tuple[bytes, ...]:
    """An event that is an error, and the end."""
    error = interactions_error(failure)
    if answer.has("bare_error"):
        return (msgspec.json.encode({"error": error}) + b"\n",)
    event = {"event_type": "error", "error": error}
    if _is_stored(answer):
        event["event_id"] = f"e{sent + 1}"
    return (named_frame("error", msgspec.json.encode(event)), _end(answer))


# --- contents ------------------------------------------------------------------------------------


def _refusal(answer: Answer) -> Failure | None:
    """The error that a filter answers with."""
    refusals = [step.text for step in answer.scenario.steps if isinstance(step, Refusal)]
    if refusals:
        return Failure(status=400, code="content_blocked", message="".join(refusals))
    if answer.scenario.reason() in ("content_filter", "refusal") or answer.has("prompt_blocked"):
        return Failure(status=400, code="safety", message="The request was blocked.")
    return None


def _is_malformed(answer: Answer) -> bool:
    calls = [call for step in answer.scenario.steps for call in calls_of(step)]
    return any(not call.cut and _arguments(call) is None for call in calls)


def _arguments(call: ToolCall) -> JsonObject | None:
    try:
        decoded = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _status(answer: Answer) -> str:
    if _is_malformed(answer):
        return "failed"
    if _is_first_half(answer):
        return "requires_continuation"
    if answer.scenario.reason() in _LENGTHS:
        return "incomplete"
    has_calls = any(step["type"] == "function_call" for step in _steps(answer))
    return "requires_action" if has_calls else "completed"


def _is_first_half(answer: Answer) -> bool:
    return answer.has("continuation") and answer.request.get("continuation_token") != _TOKEN


def _half(answer: Answer, text: str) -> str:
    """The text, or the half of it that this answer has."""
    if not answer.has("continuation"):
        return text
    middle = len(text) // 2
    return text[:middle] if _is_first_half(answer) else text[middle:]


def _steps(answer: Answer) -> list[JsonObject]:
    """The steps of the answer; nothing of one with a malformed call."""
    if _is_malformed(answer):
        return []
    steps: list[JsonObject] = []
    thoughts = calls = 0
    for step in answer.scenario.steps:
        if isinstance(step, Reasoning):
            thoughts += 1
            steps.append(_thought(answer, step))
        elif isinstance(step, Text):
            if text := _half(answer, step.text):
                steps.append({"type": "model_output", "content": [_text(step, text)]})
        elif isinstance(step, HostedSearch):
            steps += _search(answer, step, len(steps))
        for call in calls_of(step):
            if call.cut:
                continue
            if not calls and not thoughts:
                steps.append(_thought(answer, Reasoning(())))
            steps.append(
                {
                    "type": "function_call",
                    "id": answer.id("call_", calls),
                    "name": call.name,
                    "arguments": _arguments(call),
                }
            )
            calls += 1
    return steps


def _thought(answer: Answer, step: Reasoning) -> JsonObject:
    """What was thought, which is shown only if that was asked for; its signature has all of it."""
    made: JsonObject = {"type": "thought"}
    if answer.view.thinking and not step.redacted and step.parts:
        made["summary"] = [{"type": "text", "text": part} for part in step.parts]
    return {**made, "signature": sign_part(shown_of(made), step.text, answer.organization)}


def _text(step: Text, text: str) -> JsonObject:
    content: JsonObject = {"type": "text", "text": text}
    if step.citations:
        end = len(text.encode())
        content["annotations"] = [
            {
                "type": "url_citation",
                "url": one.url,
                "title": one.title,
                "start_index": 0,
                "end_index": end,
            }
            for one in step.citations
        ]
    return content


def _search(answer: Answer, step: HostedSearch, number: int) -> list[JsonObject]:
    call_id = answer.id("search_", number)
    signature = sign_part(step.query, "", answer.organization)
    call = {"type": "google_search_call", "id": call_id, "arguments": {"queries": [step.query]}}
    result = {"type": "google_search_result", "call_id": call_id}
    found = [{"search_suggestions": "<div></div>"}]
    return [
        {**call, "signature": signature},
        {**result, "result": found, "signature": signature},
    ]


def _head(answer: Answer) -> JsonObject:
    return {
        "id": interaction_id(answer),
        "object": "interaction",
        "model": answer.view.model,
        "created": _time(answer),
    }


def interaction_id(answer: Answer) -> str:
    """The id of an answer."""
    return answer.id("v1_")


def _time(answer: Answer) -> str:
    return datetime.fromtimestamp(answer.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tail(answer: Answer) -> JsonObject:
    """Usage, and the token with which an answer goes on."""
    tail: JsonObject = {} if answer.has("usage_none") else {"usage": _usage(answer)}
    return {**tail, "continuation_token": _TOKEN} if _is_first_half(answer) else tail


def _usage(answer: Answer) -> JsonObject:
    counts = answer.counts
    thoughts = min(counts.reasoning, counts.output)
    visible = counts.output - thoughts
    usage: JsonObject = {"total_input_tokens": counts.input}
    if counts.cached:
        usage["total_cached_tokens"] = counts.cached
    usage["total_output_tokens"] = visible
    usage["output_tokens_by_modality"] = [{"modality": "text", "tokens": visible}]
    if thoughts:
        usage["total_thought_tokens"] = thoughts
    return {**usage, "total_tokens": counts.input + counts.output}


# --- the stream -----------------------------------------------------------------------------------


def _events(answer: Answer, failure: Failure | None) -> Iterator[JsonObject]:
    interaction_id, status = _head(answer)["id"], _status(answer)
    yield {
        "event_type": "interaction.created",
        "interaction": {**_head(answer), "status": "in_progress"},
    }
    update = {"event_type": "interaction.status_update", "interaction_id": interaction_id}
    yield {**update, "status": "in_progress"}
    for index, step in enumerate(_steps(answer)):
        yield from _step(answer, index, step)
    failure = _MALFORMED if _is_malformed(answer) else failure
    if failure is not None:
        yield {"event_type": "error", "error": interactions_error(failure)}
        return
    if answer.has("no_finish"):
        return
    if status != "completed":
        yield {**update, "status": status}
    end = {**_head(answer), "status": status, **_tail(answer)}
    yield {"event_type": "interaction.completed", "interaction": end}


def _step(answer: Answer, index: int, step: JsonObject) -> Iterator[JsonObject]:
    kind = step["type"]
    empty = {"type": kind}
    if kind == "function_call":
        empty = {**step, "arguments": {}}
    elif "id" in step or "call_id" in step:
        empty |= {name: step[name] for name in ("id", "call_id") if name in step}
        empty |= {"arguments": {}} if "arguments" in step else {"result": []}
    yield {"event_type": "step.start", "index": index, "step": empty}
    for delta in _DELTAS.get(kind, _whole)(answer, step):
        yield {"event_type": "step.delta", "index": index, "delta": delta}
    yield {"event_type": "step.stop", "index": index}


def _of_thought(answer: Answer, step: JsonObject) -> Iterator[JsonObject]:
    for part in step.get("summary") or ():
        for text in split_text(part["text"], answer.scenario.pace):
            yield {"type": "thought_summary", "content": {"type": "text", "text": text}}
    yield {"type": "thought_signature", "signature": step["signature"]}


def _of_output(answer: Answer, step: JsonObject) -> Iterator[JsonObject]:
    for content in step["content"]:
        for text in split_text(content["text"], answer.scenario.pace):
            yield {"type": "text", "text": text}
        if annotations := content.get("annotations"):
            yield {"type": "text_annotation_delta", "annotations": annotations}


def _of_call(answer: Answer, step: JsonObject) -> Iterator[JsonObject]:
    if step["arguments"]:
        text = msgspec.json.encode(step["arguments"]).decode()
        for piece in answer.arguments_deltas(text):
            yield {"type": "arguments_delta", "arguments": piece}


def _whole(answer: Answer, step: JsonObject) -> Iterator[JsonObject]:
    """A step of the service's own tools, in one piece."""
    yield {name: value for name, value in step.items() if name not in ("id", "call_id")}


_DELTAS: dict[str, Callable[[Answer, JsonObject], Iterator[JsonObject]]] = {
    "thought": _of_thought,
    "model_output": _of_output,
    "function_call": _of_call,
}


def _written(answer: Answer, events: Iterator[JsonObject]) -> Iterator[bytes]:
    is_stored, escape = _is_stored(answer), answer.scenario.pace.escape
    for number, event in enumerate(events):
        if is_stored:
            event["event_id"] = f"e{number + 1}"
        data = msgspec.json.encode(_escaped(event) if escape else event)
        yield named_frame(event["event_type"], data)
    yield _end(answer)


def _escaped(value: Any) -> Any:
    """A value that is written with no byte above 127."""
    if isinstance(value, str):
        return msgspec.Raw(json_text(value, escape=True))
    if isinstance(value, dict):
        return {name: _escaped(inner) for name, inner in value.items()}
    return list(map(_escaped, value)) if isinstance(value, list) else value


def _end(answer: Answer) -> bytes:
    return _DONE_EVENT if answer.has("done_event") else DONE


def _is_stored(answer: Answer) -> bool:
    return answer.request.get("store") is not False

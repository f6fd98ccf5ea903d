"""Google's GenerateContentResponse, as the Gemini API sends it.

Shapes: ``types.py`` of the google-genai package. A stream is the parts of the whole answer, each
text in deltas and each call in a chunk of its own; a stream without ``alt=sse`` is one array.
"""

from collections.abc import Iterator

import msgspec

from dragoman.lab.simulator.errors import google_error
from dragoman.lab.simulator.frames import crlf_frame, json_text, split_text
from dragoman.lab.simulator.reading.google import signed_content
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.script import (
    Citation,
    Failure,
    FinishReason,
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

_FINISH: dict[FinishReason, str] = {
    "stop": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "context_window": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
    "pause": "STOP",
}
_FAULTS = {
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "missing_signature": "MISSING_THOUGHT_SIGNATURE",
}
"""Ends that leave nothing of the answer, by quirk."""


def cannot(scenario: Scenario) -> str | None:
    """Why Google cannot express the scenario: no free-text tools, namespaces or paused turns."""
    if scenario.finish == "pause":
        return "Google has no paused turns"
    return unusual_call(scenario.steps, "Google")


def full(answer: Answer) -> JsonObject:
    """A whole response."""
    if answer.has("prompt_blocked") or answer.has("no_candidates"):
        return _without_candidates(answer)
    parts, last = _parts(answer), _last_part(answer)
    if last and parts and "text" in parts[-1] and "thought" not in parts[-1]:
        parts[-1]["thoughtSignature"] = _signature(answer, parts[-1])
    else:
        parts += last
    content = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    candidates = [
        {"content": content, "index": index, **_end(answer)}
        for index in range(_choice_count(answer))
    ]
    return {"candidates": candidates, **_tail(answer, None)}


def stream(answer: Answer) -> Iterator[bytes]:
    """The chunks, as events or as the elements of one array."""
    chunks = _chunks(answer)
    return _array(answer, chunks) if answer.view.array else _events(answer, chunks)


def error_frames(answer: Answer, failure: Failure, sent: int) -> tuple[bytes, ...]:
    """A frame that is an error; the stream ends there."""
    error = {"error": google_error(failure)}
    if answer.view.array:
        return ((b",\r\n" if sent else b"[") + msgspec.json.encode(error) + b"]",)
    if answer.has("bare_error"):
        return (msgspec.json.format(msgspec.json.encode(error), indent=2) + b"\n",)
    return (crlf_frame(msgspec.json.encode(error)),)


def _events(answer: Answer, chunks: Iterator[JsonObject]) -> Iterator[bytes]:
    return (crlf_frame(_encoded(answer, chunk)) for chunk in chunks)


def _array(answer: Answer, chunks: Iterator[JsonObject]) -> Iterator[bytes]:
    before = b"["
    for chunk in chunks:
        yield before + _encoded(answer, chunk)
        before = b",\r\n"
    yield b"]"


def _encoded(answer: Answer, chunk: JsonObject) -> bytes:
    if not answer.scenario.pace.escape:
        return msgspec.json.encode(chunk)
    parts = [part for candidate in chunk.get("candidates", ()) for part in _parts_of(candidate)]
    for part in parts:
        if "text" in part:
            part["text"] = msgspec.Raw(json_text(part["text"], escape=True))
    return msgspec.json.encode(chunk)


def _parts_of(candidate: JsonObject) -> list[JsonObject]:
    parts: list[JsonObject] = (candidate.get("content") or {}).get("parts") or []
    return parts


def _chunks(answer: Answer) -> Iterator[JsonObject]:
    if answer.has("prompt_blocked") or answer.has("no_candidates"):
        yield _without_candidates(answer)
        return
    sent = 0
    for part in _parts(answer):
        for piece in _pieces(answer, part):
            sent += 1
            yield _chunk(answer, [piece], sent)
    parts = _last_part(answer) or [{"text": ""}]
    candidates = []
    for index in range(_choice_count(answer)):
        candidate = _candidate(answer, index, parts)
        if answer.has("no_content"):
            del candidate["content"]
        elif answer.has("no_parts"):
            candidate["content"] = {"role": "model"}
        candidates.append({**candidate, **_end(answer)})
    yield {"candidates": candidates, **_tail(answer, None)}


def _chunk(answer: Answer, parts: list[JsonObject], sent: int) -> JsonObject:
    candidates = [_candidate(answer, index, parts) for index in range(_choice_count(answer))]
    if answer.has("stop_every"):
        for candidate in candidates:
            candidate["finishReason"] = "STOP"
    return {"candidates": candidates, **_tail(answer, sent)}


def _pieces(answer: Answer, part: JsonObject) -> Iterator[JsonObject]:
    """A part as the chunks have it: a text in deltas, with its signature on the last."""
    if "text" not in part:
        yield part
        return
    others = {name: value for name, value in part.items() if name != "text"}
    for text in split_text(part["text"], answer.scenario.pace):
        yield {"text": text, **others}


def _candidate(answer: Answer, index: int, parts: list[JsonObject]) -> JsonObject:
    return {"content": {"parts": parts, "role": "model"}, "index": index}


def _choice_count(answer: Answer) -> int:
    return max(answer.scenario.choices, answer.view.choices)


def _is_fault(answer: Answer) -> str | None:
    """The word of an end by which the model's fault leaves no answer, or None."""
    for quirk, word in _FAULTS.items():
        if answer.has(quirk):
            return word
    for step in answer.scenario.steps:
        for call in calls_of(step):
            if not call.cut and _arguments(call) is None:
                return "MALFORMED_FUNCTION_CALL"
    return None


def _arguments(call: ToolCall) -> JsonObject | None:
    """The arguments of a call as an object; None if they are not one."""
    try:
        decoded = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _parts(answer: Answer) -> list[JsonObject]:
    """The parts of the answer but for an empty last one with the signature of a text."""
    if _is_fault(answer) is not None:
        return []
    parts: list[JsonObject] = []
    calls = 0
    for step in answer.scenario.steps:
        if isinstance(step, Reasoning):
            if answer.view.thinking and not step.redacted:
                parts.append({"text": step.text, "thought": True})
        elif isinstance(step, Text) and step.text:
            parts.append({"text": step.text})
        for call in calls_of(step):
            if call.cut:
                continue
            part: JsonObject = {"functionCall": _call(answer, call, calls)}
            if not calls:
                part["thoughtSignature"] = _signature(answer, part)
            parts.append(part)
            calls += 1
    return parts


def _call(answer: Answer, call: ToolCall, number: int) -> JsonObject:
    found: JsonObject = {"name": call.name, "args": _arguments(call)}
    if not answer.has("call_without_id"):
        found["id"] = answer.id("call_", number)
    return found


def _thought(answer: Answer) -> str:
    return "\n\n".join(s.text for s in answer.scenario.steps if isinstance(s, Reasoning))


def _signature(answer: Answer, part: JsonObject) -> str:
    return sign_part(signed_content(part), _thought(answer), answer.organization)


def _last_part(answer: Answer) -> list[JsonObject]:
    """An empty text with the signature of what was thought before a text without calls."""
    if _is_fault(answer) is not None or any(calls_of(step) for step in answer.scenario.steps):
        return []
    if not _thought(answer):
        return []
    part: JsonObject = {"text": ""}
    return [{**part, "thoughtSignature": _signature(answer, part)}]


def _end(answer: Answer) -> JsonObject:
    """The reason of the end, and what the text rests on."""
    end: JsonObject = {}
    if not answer.has("no_finish"):
        fault = "OTHER" if answer.has("finish_other") else _is_fault(answer)
        end["finishReason"] = fault or _FINISH[answer.scenario.reason()]
        if fault is not None:
            end["finishMessage"] = "The model's answer could not be used."
    refusals = [step.text for step in answer.scenario.steps if isinstance(step, Refusal)]
    if refusals:
        end["finishMessage"] = "".join(refusals)
    if grounding := _grounding(answer):
        end["groundingMetadata"] = grounding
    if answer.view.logprobs is not None:
        end["logprobsResult"] = _logprobs(answer, answer.view.logprobs)
    return end


def _grounding(answer: Answer) -> JsonObject:
    searches = [step for step in answer.scenario.steps if isinstance(step, HostedSearch)]
    sources: list[Citation] = []
    supports: list[JsonObject] = []
    said = 0
    for step in answer.scenario.steps:
        if not isinstance(step, Text):
            continue
        start, said = said, said + len(step.text.encode())
        for citation in step.citations:
            if citation not in sources:
                sources.append(citation)
            segment = {"startIndex": start, "endIndex": said, "text": step.text}
            index = sources.index(citation)
            supports.append({"segment": segment, "groundingChunkIndices": [index]})
    for search in searches:
        sources += [result for result in search.results if result not in sources]
    if not sources and not searches:
        return {}
    grounding: JsonObject = {
        "groundingChunks": [{"web": {"uri": one.url, "title": one.title}} for one in sources],
        "groundingSupports": supports,
    }
    if searches:
        grounding["webSearchQueries"] = [search.query for search in searches]
        grounding["searchEntryPoint"] = {"renderedContent": "<div></div>"}
    return grounding


def _logprobs(answer: Answer, most: int) -> JsonObject:
    chosen = [
        {"token": piece, "tokenId": number, "logProbability": -0.25}
        for step in answer.scenario.steps
        if isinstance(step, Text)
        for number, piece in enumerate(split_text(step.text, answer.scenario.pace))
    ]
    top = [{"candidates": [one, *([{**one, "token": "?"}] * (most - 1))][:most]} for one in chosen]
    return {"chosenCandidates": chosen, "topCandidates": top if most else []}


def _without_candidates(answer: Answer) -> JsonObject:
    counts = answer.counts
    usage = {"promptTokenCount": counts.input, "totalTokenCount": counts.input}
    body: JsonObject = {"usageMetadata": usage, **_head(answer)}
    if answer.has("prompt_blocked"):
        body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **body}
    return body


def _head(answer: Answer) -> JsonObject:
    return {"modelVersion": answer.view.model, "responseId": answer.id("")}


def _tail(answer: Answer, sent: int | None) -> JsonObject:
    """Usage, model and id. ``sent`` is the number of chunks so far, None for the last of all."""
    if answer.has("usage_none") or (answer.has("usage_final") and sent is not None):
        return _head(answer)
    return {"usageMetadata": _usage(answer, sent), **_head(answer)}


def _usage(answer: Answer, sent: int | None) -> JsonObject:
    counts = answer.counts
    visible, thoughts = counts.output - min(counts.reasoning, counts.output), counts.reasoning
    thoughts = min(thoughts, counts.output)
    if sent is not None:
        visible, thoughts = min(sent - 1, visible), min(sent, thoughts)
    usage: JsonObject = {"promptTokenCount": counts.input}
    if visible:
        usage["candidatesTokenCount"] = visible
    usage["totalTokenCount"] = counts.input + visible + thoughts
    if counts.cached:
        usage["cachedContentTokenCount"] = counts.cached
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": counts.input}]
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    return usage

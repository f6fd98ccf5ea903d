"""A client's own reading of the stream it is given: the whole answer it makes of it.

The checkers assert the grammar first; then the answer is put together as the official SDKs do,
in the form of an answer that came whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.checkers import CHECKERS

JsonObject = dict[str, Any]


def _chat_answer(chunks: list[JsonObject]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None, "refusal": None}
    logprobs: list[Any] = []
    answer: JsonObject = {**chunks[0], "object": "chat.completion"}
    finish = None
    for chunk in chunks:
        answer["usage"] = chunk.get("usage")
        for choice in chunk["choices"]:
            finish = choice["finish_reason"]
            logprobs += (choice.get("logprobs") or {}).get("content") or ()
            _add_delta(message, choice["delta"])
    if "service_tier" in chunks[-1]:
        answer["service_tier"] = chunks[-1]["service_tier"]
    if not (message["content"] or message["refusal"] or "tool_calls" in message):
        message["content"] = ""
    answer["choices"] = [
        {
            "index": 0,
            "message": message,
            "finish_reason": finish,
            "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
        }
    ]
    return answer


def _add_delta(message: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for fragment in value:
                _add_fragment(message.setdefault("tool_calls", []), fragment)
        elif isinstance(value, list):
            message[name] = [*message.get(name, ()), *value]
        elif name != "role" and value:
            message[name] = (message.get(name) or "") + value


def _add_fragment(calls: list[JsonObject], fragment: JsonObject) -> None:
    given = {name: value for name, value in fragment.items() if name != "index"}
    if fragment["index"] == len(calls):
        calls.append(given)
        return
    call = calls[fragment["index"]]
    for kind in ("function", "custom"):
        for name, piece in given.get(kind, {}).items():
            call[kind][name] += piece


def _messages_answer(events: list[JsonObject]) -> JsonObject:
    answer: JsonObject = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                answer = event["message"]
            case "content_block_start":
                answer["content"].append(event["content_block"])
            case "content_block_delta":
                _add_to_block(answer["content"], event["index"], event["delta"], inputs)
            case "message_delta":
                answer.update(event["delta"])
                answer["usage"].update(event["usage"])
    for index, text in inputs.items():
        answer["content"][index]["input"] = json.loads(text)
    return answer


def _add_to_block(
    content: list[JsonObject], index: int, delta: JsonObject, inputs: dict[int, str]
) -> None:
    block = content[index]
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]


def _google_answer(chunks: list[JsonObject]) -> JsonObject:
    parts: list[JsonObject] = []
    answer: JsonObject = {}
    for chunk in chunks:
        answer |= chunk
        for candidate in chunk.get("candidates", ()):
            for part in candidate["content"]["parts"]:
                _add_part(parts, dict(part))
    logprobs = [one.get("logprobsResult") for c in chunks for one in c.get("candidates", ())]
    for candidate in answer.get("candidates", ()):
        candidate["content"] = {"parts": parts or [{"text": ""}], "role": "model"}
        found = [one for one in logprobs if one is not None]
        if found:
            candidate["logprobsResult"] = {
                name: [token for one in found for token in one[name]]
                for name in ("chosenCandidates", "topCandidates")
            }
    return answer


def _add_part(parts: list[JsonObject], part: JsonObject) -> None:
    """Texts of one kind are one part, up to a signature; an empty one is none, unless it is
    signed."""
    last = parts[-1] if parts else {}
    if part.get("text") == "" and "thoughtSignature" not in part:
        return
    alike = "text" in last and "text" in part and last.get("thought") == part.get("thought")
    if alike and "thoughtSignature" not in last and part["text"]:
        last["text"] += part.pop("text")
        last |= part
    else:
        parts.append(part)


def _responses_answer(events: list[JsonObject]) -> JsonObject:
    response: JsonObject = events[-1]["response"]
    return response


_ANSWERS: dict[str, Callable[[list[JsonObject]], JsonObject]] = {
    "openai_chat": _chat_answer,
    "anthropic_messages": _messages_answer,
    "openai_responses": _responses_answer,
    "google_generate_content": _google_answer,
}


def answer_of(protocol: str, stream: bytes) -> JsonObject:
    """The answer that a client of `protocol` makes of a stream that succeeds."""
    verdict = CHECKERS[protocol](stream)
    assert verdict.succeeded, stream
    return _ANSWERS[protocol](verdict.events)

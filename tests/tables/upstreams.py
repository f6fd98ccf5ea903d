"""The stream an upstream would send in place of a whole answer, per protocol.

Written from the protocols' grammars and by hand, so that it shares nothing with the writers
under test: texts come in two pieces, calls and reasoning in fragments, usage at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.protocols.openai_responses.upstream import events_of

JsonObject = dict[str, Any]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _data(value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _named(event: JsonObject) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


# --- Chat ---------------------------------------------------------------------------------------

_TEXT_FIELDS = (("reasoning_content", "reasoning"), ("content",), ("refusal",))
"""Fields that stream, those together that servers send in the same delta."""


def chat_stream(answer: JsonObject) -> bytes:
    """A `chat.completion` as its chunks."""
    head = {
        name: value for name, value in answer.items() if name not in ("choices", "usage", "object")
    }
    head["object"] = "chat.completion.chunk"
    chunks: list[JsonObject] = []
    for choice in answer["choices"]:
        others = {
            name: value
            for name, value in choice.items()
            if name not in ("message", "finish_reason", "logprobs")
        }
        for delta, logprobs in _chat_deltas(choice):
            made = {**others, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            chunks.append({**head, "choices": [made]})
        last = {**others, "delta": {}, "finish_reason": choice["finish_reason"]}
        chunks.append({**head, "choices": [last]})
    if answer.get("usage") is not None:
        chunks.append({**head, "choices": [], "usage": answer["usage"]})
    return b"".join(map(_data, chunks)) + b"data: [DONE]\n\n"


def _chat_deltas(choice: JsonObject) -> Iterator[tuple[JsonObject, Any]]:
    message = choice["message"]
    yield {"role": "assistant", "content": "", "refusal": None}, None
    if message.get("reasoning_details"):
        yield {"reasoning_details": message["reasoning_details"]}, None
    for names in _TEXT_FIELDS:
        told = {name: _halves(message[name]) for name in names if message.get(name)}
        for number in range(max(map(len, told.values()), default=0)):
            spoken = choice.get("logprobs") if "content" in told and number == 0 else None
            yield {name: pieces[number] for name, pieces in told.items()}, spoken
    for name in ("annotations", "audio"):
        if message.get(name):
            yield {name: message[name]}, None
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = call["type"]
        text = "input" if kind == "custom" else "arguments"
        first = {**call, "index": index, kind: {**call[kind], text: ""}}
        yield {"tool_calls": [first]}, None
        for piece in _halves(call[kind][text]):
            yield {"tool_calls": [{"index": index, kind: {text: piece}}]}, None
    legacy = message.get("function_call")
    if legacy:
        yield {"function_call": {**legacy, "arguments": ""}}, None
        for piece in _halves(legacy["arguments"]):
            yield {"function_call": {"arguments": piece}}, None


# --- Messages -----------------------------------------------------------------------------------

_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")


def messages_stream(answer: JsonObject) -> bytes:
    """A `message` as its events."""
    usage = answer["usage"]
    start = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    for name in ("stop_details", "container"):
        start.pop(name, None)
    start["usage"] = {**usage, "output_tokens": 1}
    events: list[JsonObject] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        events += _block_events(index, block)
    delta = {name: answer[name] for name in _AT_THE_END if name in answer}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    return b"".join(map(_named, [*events, {"type": "message_stop"}]))


def _block_events(index: int, block: JsonObject) -> Iterator[JsonObject]:
    head, deltas = dict(block), []
    match block["type"]:
        case "text":
            head = {**block, "text": ""}
            head.pop("citations", None)
            deltas = [{"type": "text_delta", "text": piece} for piece in _halves(block["text"])]
            deltas += [
                {"type": "citations_delta", "citation": citation}
                for citation in block.get("citations") or ()
            ]
        case "thinking":
            head = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in _halves(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use" | "server_tool_use":
            head = {**block, "input": {}}
            if block["input"]:
                text = json.dumps(block["input"], separators=(",", ":"))
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece} for piece in _halves(text)
                ]
    yield {"type": "content_block_start", "index": index, "content_block": head}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


# --- Responses ----------------------------------------------------------------------------------


def responses_stream(answer: JsonObject) -> bytes:
    """A `response` as its events."""
    return b"".join(map(_named, events_of(answer)))


# --- generateContent ----------------------------------------------------------------------------


def google_stream(answer: JsonObject) -> bytes:
    """A whole answer as its chunks: each candidate's parts one after the other, then its end."""
    others = {name: value for name, value in answer.items() if name != "candidates"}
    chunks: list[JsonObject] = []
    for candidate in answer.get("candidates") or ():
        index = {"index": candidate["index"]} if "index" in candidate else {}
        end = {name: value for name, value in candidate.items() if name != "content"}
        for piece in _google_pieces((candidate.get("content") or {}).get("parts") or ()):
            content = {"role": "model", "parts": [piece]}
            chunks.append({**others, "candidates": [{"content": content, **index}]})
        last = {"role": "model", "parts": [{"text": ""}]}
        chunks.append({**others, "candidates": [{"content": last, **end}]})
    frames = [_data(chunk) for chunk in chunks or [answer]]
    return b"".join(frames).replace(b"\n", b"\r\n")


def _google_pieces(parts: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for part in parts:
        if not part.get("text") or "thoughtSignature" in part:
            yield part
            continue
        for piece in _halves(part["text"]):
            yield {**part, "text": piece}


STREAMS: dict[str, Callable[[JsonObject], bytes]] = {
    "openai_chat": chat_stream,
    "anthropic_messages": messages_stream,
    "openai_responses": responses_stream,
    "google_generate_content": google_stream,
}
"""Stream of a whole answer, by protocol."""

"""Anthropic Messages, as the official service sends it.

Shapes: ``types/message.py``, ``types/raw_message_stream_event.py`` and neighbours of the
anthropic package. A stream is made from the finished blocks, so it always folds back to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dragoman.lab.simulator.errors import anthropic_error
from dragoman.lab.simulator.frames import encoded_deltas, json_text, named_frame
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.script import (
    Citation,
    Failure,
    FinishReason,
    HostedSearch,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Text,
    ToolCall,
    unusual_call,
)
from dragoman.lab.simulator.seals import redact, sign_thinking
from dragoman.lab.simulator.view import JsonObject

_STOP: dict[FinishReason, str] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "context_window": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
}
_OPAQUE = "c2ltdWxhdGVk"
_PING = named_frame("ping", b'{"type":"ping"}')
_MESSAGE_STOP = named_frame("message_stop", b'{"type":"message_stop"}')


@dataclass(frozen=True, slots=True)
class _SearchResults:
    """The block that follows a hosted search's own."""

    results: tuple[Citation, ...]


_Block = Reasoning | Text | ToolCall | HostedSearch | _SearchResults


def cannot(scenario: Scenario) -> str | None:
    """Why Messages cannot express the scenario: one message, only JSON tools, no namespaces."""
    if scenario.choices > 1:
        return "Messages answers with exactly one message"
    return unusual_call(scenario.steps, "Messages")


def full(answer: Answer) -> JsonObject:
    """A ``message`` object. Tool input that is not a JSON object needs a stream.

    Raises:
        ValueError: a call's arguments are no JSON object.
    """
    blocks = [_block(answer, step, n) for n, step in enumerate(_block_steps(answer))]
    return {
        **_message(answer),
        "content": blocks,
        **_stop(answer),
        "usage": _usage(answer, with_tiers=True),
    }


def stream(answer: Answer) -> Iterator[bytes]:
    """``message_start``, a ping, the blocks one after the other, ``message_delta`` and -stop."""
    start = {
        **_message(answer),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(answer, with_tiers=True), "output_tokens": 1},
    }
    for late in ("output_tokens_details", "server_tool_use"):
        start["usage"].pop(late, None)
    yield _event("message_start", {"message": start})
    if not answer.has("no_ping"):
        yield _PING
    for index, step in enumerate(_block_steps(answer)):
        yield _event(
            "content_block_start",
            {"index": index, "content_block": _block(answer, step, index, empty=True)},
        )
        head = b'{"type":"content_block_delta","index":%d,"delta":{"type":' % index
        for delta in _deltas(answer, step):
            yield named_frame("content_block_delta", head + delta + b"}}")
        yield _event("content_block_stop", {"index": index})
    yield _event("message_delta", {"delta": _stop(answer), "usage": _usage(answer)})
    yield _MESSAGE_STOP


def error_frames(answer: Answer, failure: Failure, sent: int) -> tuple[bytes, ...]:
    """An ``error`` event; the stream ends there, without ``message_stop``."""
    return (
        _event(
            "error",
            {"error": anthropic_error(failure), "request_id": answer.id("req_")},
        ),
    )


def _event(name: str, payload: JsonObject) -> bytes:
    return named_frame(name, msgspec.json.encode({"type": name, **payload}))


def _message(answer: Answer) -> JsonObject:
    return {
        "id": answer.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.view.model,
    }


def _stop(answer: Answer) -> JsonObject:
    reason = answer.scenario.reason()
    stop: JsonObject = {
        "stop_reason": _STOP[reason],
        "stop_sequence": answer.scenario.stop_sequence if reason == "stop_sequence" else None,
    }
    if stop["stop_reason"] == "refusal":
        refusal = next((s for s in answer.scenario.steps if isinstance(s, Refusal)), None)
        stop["stop_details"] = {
            "type": "refusal",
            "category": refusal.category if refusal else None,
            "explanation": refusal.text if refusal else None,
        }
    return stop


def _usage(answer: Answer, *, with_tiers: bool = False) -> JsonObject:
    """Anthropic's counting: ``input_tokens`` leaves out what was read from or put in the cache."""
    counts = answer.counts
    usage: JsonObject = {
        "input_tokens": max(0, counts.input - counts.cached - counts.written),
        "cache_creation_input_tokens": counts.written,
        "cache_read_input_tokens": counts.cached,
    }
    if with_tiers:
        usage["cache_creation"] = {
            "ephemeral_5m_input_tokens": counts.written,
            "ephemeral_1h_input_tokens": 0,
        }
        usage["service_tier"] = "standard"
    usage["output_tokens"] = counts.output
    if counts.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
    searches = sum(isinstance(step, HostedSearch) for step in answer.scenario.steps)
    if searches:
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    return usage


def _block_steps(answer: Answer) -> tuple[_Block, ...]:
    """The content blocks. A refusal is none: it stands in ``stop_details``."""
    blocks: list[_Block] = []
    for step in answer.steps(reasoning=answer.view.thinking):
        if isinstance(step, ParallelTools):
            blocks.extend(step.calls)
        elif isinstance(step, HostedSearch):
            blocks += [step, _SearchResults(step.results)]
        elif not isinstance(step, Refusal):
            blocks.append(step)
    return tuple(blocks)


def _shown(answer: Answer, step: Reasoning) -> str:
    return "" if answer.view.thinking_hidden else step.text


def _block(answer: Answer, step: _Block, index: int, *, empty: bool = False) -> JsonObject:
    """The step's block, whole, or as ``content_block_start`` shows it."""
    if isinstance(step, Text):
        block: JsonObject = {"type": "text", "text": "" if empty else step.text}
        if step.citations:
            block["citations"] = [] if empty else [_citation(c) for c in step.citations]
        return block
    if isinstance(step, ToolCall):
        return {
            "type": "tool_use",
            "id": answer.id("toolu_", index),
            "name": step.name,
            "input": {} if empty else _input(step),
        }
    if isinstance(step, HostedSearch):
        return {
            "type": "server_tool_use",
            "id": answer.id("srvtoolu_", index),
            "name": "web_search",
            "input": {} if empty else {"query": step.query},
        }
    if isinstance(step, _SearchResults):
        return {
            "type": "web_search_tool_result",
            "tool_use_id": answer.id("srvtoolu_", index - 1),
            "content": [_search_result(result) for result in step.results],
        }
    if step.redacted:
        return {"type": "redacted_thinking", "data": redact(step.text, answer.organization)}
    shown = _shown(answer, step)
    return {
        "type": "thinking",
        "thinking": "" if empty else shown,
        "signature": "" if empty else sign_thinking(shown, answer.organization),
    }


def _input(call: ToolCall) -> msgspec.Raw:
    if call.cut:
        return msgspec.Raw(b"{}")
    arguments = call.arguments or "{}"
    try:
        decoded = msgspec.json.decode(arguments)
    except msgspec.DecodeError as error:
        raise ValueError("the arguments are not JSON") from error
    if not isinstance(decoded, dict):
        raise ValueError("the arguments are no object")
    return msgspec.Raw(arguments.encode())


def _citation(citation: Citation) -> JsonObject:
    return {
        "type": "web_search_result_location",
        "cited_text": citation.cited_text,
        "url": citation.url,
        "title": citation.title,
        "encrypted_index": _OPAQUE,
    }


def _search_result(result: Citation) -> JsonObject:
    return {
        "type": "web_search_result",
        "url": result.url,
        "title": result.title,
        "encrypted_content": _OPAQUE,
        "page_age": None,
    }


def _deltas(answer: Answer, step: _Block) -> Iterator[bytes]:
    """The step's deltas from the value of ``type`` on."""
    pace = answer.scenario.pace
    if isinstance(step, Text):
        for delta in encoded_deltas(step.text, pace):
            yield b'"text_delta","text":' + delta
        for citation in step.citations:
            yield b'"citations_delta","citation":' + msgspec.json.encode(_citation(citation))
    elif isinstance(step, ToolCall):
        if step.arguments:
            yield b'"input_json_delta","partial_json":""'
        for piece in answer.arguments_deltas(step.arguments):
            yield b'"input_json_delta","partial_json":' + json_text(piece, pace.escape)
    elif isinstance(step, HostedSearch):
        for piece in answer.arguments_deltas(msgspec.json.encode({"query": step.query}).decode()):
            yield b'"input_json_delta","partial_json":' + json_text(piece, pace.escape)
    elif isinstance(step, Reasoning) and not step.redacted:
        shown = _shown(answer, step)
        for delta in encoded_deltas(shown, pace):
            yield b'"thinking_delta","thinking":' + delta
        signature = sign_thinking(shown, answer.organization)
        yield b'"signature_delta","signature":' + json_text(signature, pace.escape)

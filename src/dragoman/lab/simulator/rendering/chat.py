"""OpenAI Chat Completions, as the official service and its compatible servers send it.

Shapes: ``chat_completion.py`` and ``chat_completion_chunk.py`` of the openai package. Reasoning
text is no part of the official protocol; it travels in ``reasoning_content`` as DeepSeek, Qwen
and others send it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.lab.simulator.errors import openai_error
from dragoman.lab.simulator.frames import DONE, data_frame, encoded_deltas, json_text, split_text
from dragoman.lab.simulator.rendering.answer import Answer, alternate
from dragoman.lab.simulator.script import (
    Citation,
    Failure,
    FinishReason,
    HostedSearch,
    Reasoning,
    Refusal,
    Scenario,
    Step,
    Text,
    ToolCall,
    calls_of,
)
from dragoman.lab.simulator.view import JsonObject

FINGERPRINT = "fp_simulator"

_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "refusal": "stop",
    "length": "length",
    "context_window": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "pause": "stop",
}


def cannot(scenario: Scenario) -> str | None:
    """Why Chat cannot express the scenario: no opaque reasoning, namespaces or hosted calls."""
    if scenario.finish == "pause":
        return "Chat Completions has no paused turns"
    for step in scenario.steps:
        if isinstance(step, HostedSearch):
            return "Chat Completions has no hosted tool calls"
        if isinstance(step, Reasoning) and step.redacted:
            return "Chat Completions has no redacted reasoning"
        if any(call.namespace for call in calls_of(step)):
            return "Chat Completions has no tool namespaces"
    return None


def full(answer: Answer) -> JsonObject:
    """A ``chat.completion`` object."""
    choices = [_choice(answer, index) for index in range(_choice_count(answer))]
    completion: JsonObject = {
        "id": answer.id("chatcmpl-"),
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.view.model,
        "choices": choices,
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }
    if not answer.has("usage_none"):
        completion["usage"] = _usage(answer)
    return completion


def stream(answer: Answer) -> Iterator[bytes]:
    """The chunks and ``[DONE]``."""
    chunk = _Chunks(answer)
    indexes = range(_choice_count(answer))
    if answer.has("azure_preamble"):
        yield chunk.without_choices(b"")
    for index in indexes:
        yield chunk.delta(_role_delta(answer), index)
    for delta, logprobs in _deltas(answer):
        for index in indexes:
            yield chunk.delta(delta, index, logprobs=logprobs)
    finish = b"null"
    if not answer.has("no_finish"):
        finish = json_text(_FINISH[answer.scenario.reason()], escape=False)
    for index in indexes:
        yield chunk.delta(b"{}", index, finish=finish)
    if chunk.separate_usage:
        yield chunk.without_choices(b',"usage":' + chunk.usage)
    yield DONE


def error_frames(answer: Answer, failure: Failure, sent: int) -> tuple[bytes, ...]:
    """A frame whose top level is ``error``; the official service sends nothing after it."""
    frame = data_frame(msgspec.json.encode({"error": openai_error(failure)}))
    return (frame, DONE) if answer.has("error_done") else (frame,)


class _Chunks:
    """Writes the chunks of one answer; what they share is encoded once."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        scenario_usage = not answer.has("usage_none")
        asked = answer.view.include_usage
        self.separate_usage = scenario_usage and (
            (asked and not answer.has("usage_final") and not answer.has("usage_every"))
            or answer.has("usage_always")
        )
        self.usage = msgspec.json.encode(_usage(answer))
        self._every = scenario_usage and answer.has("usage_every")
        self._final = scenario_usage and answer.has("usage_final")
        self._sent = 0
        head = {
            "id": answer.id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": answer.created,
            "model": answer.view.model,
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
        }
        self._head = b"data: " + msgspec.json.encode(head)[:-1]
        self._null_usage = b',"usage":null' if asked else b""
        self._tail = self._null_usage + b"}\n\n"
        self._obfuscated = answer.has("obfuscation")

    def delta(
        self,
        delta: bytes,
        index: int = 0,
        *,
        logprobs: bytes = b"null",
        finish: bytes = b"null",
    ) -> bytes:
        """A chunk with one choice."""
        choice = b',"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b' % (
            index,
            delta,
            logprobs,
            finish,
        )
        if finish != b"null" and self._answer.has("vllm_stop_reason"):
            stop = msgspec.json.encode(self._answer.scenario.stop_sequence)
            choice += b',"stop_reason":' + stop
        if self._every:
            return self._head + choice + b'}],"usage":' + self._usage_so_far() + b"}\n\n"
        if self._final and finish != b"null":
            return self._head + choice + b'}],"usage":' + self.usage + b"}\n\n"
        if self._obfuscated:
            choice += b'}],"obfuscation":"simulated"'
            return self._head + choice + self._tail
        return self._head + choice + b"}]" + self._tail

    def without_choices(self, usage: bytes) -> bytes:
        """A chunk with empty ``choices``."""
        return self._head + b',"choices":[]' + (usage or self._null_usage) + b"}\n\n"

    def _usage_so_far(self) -> bytes:
        self._sent += 1
        return msgspec.json.encode(_usage(self._answer, at_most=self._sent))


def _choice_count(answer: Answer) -> int:
    return max(answer.scenario.choices, answer.view.choices)


def _usage(answer: Answer, at_most: int | None = None) -> JsonObject:
    counts = answer.counts
    output = counts.output if at_most is None else min(at_most, counts.output)
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": output,
        "total_tokens": counts.input + output,
        "prompt_tokens_details": {
            "cached_tokens": counts.cached,
            "cache_write_tokens": counts.written,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": min(counts.reasoning, output),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _choice(answer: Answer, index: int) -> JsonObject:
    steps = _steps(answer)
    calls = [call for step in steps for call in calls_of(step)]
    texts = [step.text for step in steps if isinstance(step, Text)]
    if answer.has("think_tags"):
        texts = [_tagged(step) for step in steps if isinstance(step, Reasoning)] + texts
    refusals = [step.text for step in steps if isinstance(step, Refusal)]
    message: JsonObject = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": "".join(refusals) if refusals else None,
        "annotations": [a for step in steps if isinstance(step, Text) for a in _annotations(step)],
    }
    if answer.has("think_tags"):
        thoughts = []
    else:
        thoughts = [step.text for step in steps if isinstance(step, Reasoning)]
    if thoughts:
        for name in _reasoning_fields(answer):
            message[name] = "".join(thoughts)
    if calls:
        message["tool_calls"] = [
            _call(answer, call, number, call.arguments) for number, call in enumerate(calls)
        ]
    choice: JsonObject = {
        "index": index,
        "message": message,
        "logprobs": _all_logprobs(answer, texts),
        "finish_reason": None if answer.has("no_finish") else _FINISH[answer.scenario.reason()],
    }
    if answer.has("vllm_stop_reason"):
        choice["stop_reason"] = answer.scenario.stop_sequence
    return choice


def _tagged(step: Reasoning) -> str:
    return f"<think>\n{step.text}\n</think>\n\n"


def _steps(answer: Answer) -> tuple[Step, ...]:
    return answer.steps(reasoning=answer.view.thinking)


def _reasoning_fields(answer: Answer) -> tuple[str, ...]:
    if answer.has("reasoning_both"):
        return ("reasoning_content", "reasoning")
    return ("reasoning",) if answer.has("reasoning_field") else ("reasoning_content",)


def _call(answer: Answer, call: ToolCall, number: int, text: str) -> JsonObject:
    head = {"id": answer.id("call_", number), "type": call.kind}
    field = "arguments" if call.kind == "function" else "input"
    return {**head, call.kind: {"name": call.name, field: text}}


def _annotations(step: Text) -> list[JsonObject]:
    return [_annotation(step.text, citation) for citation in step.citations]


def _annotation(text: str, citation: Citation) -> JsonObject:
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": 0,
            "end_index": len(text),
            "title": citation.title,
            "url": citation.url,
        },
    }


def _role_delta(answer: Answer) -> bytes:
    has_text = any(isinstance(step, Text) for step in answer.scenario.steps)
    content = b'""' if has_text else b"null"
    return b'{"role":"assistant","content":%b,"refusal":null}' % content


def _deltas(answer: Answer) -> Iterator[tuple[bytes, bytes]]:
    """The deltas of one choice, each with its logprobs."""
    pace = answer.scenario.pace
    wants_logprobs = answer.view.logprobs is not None
    number = 0
    for step in _steps(answer):
        if isinstance(step, Text):
            deltas = encoded_deltas(step.text, pace)
            if wants_logprobs:
                pieces = split_text(step.text, pace)
                for piece, delta in zip(pieces, deltas, strict=True):
                    content = {"content": [_logprob(answer, piece)], "refusal": None}
                    yield b'{"content":' + delta + b"}", msgspec.json.encode(content)
            else:
                for delta in deltas:
                    yield b'{"content":' + delta + b"}", b"null"
            if step.citations:
                yield msgspec.json.encode({"annotations": _annotations(step)}), b"null"
        elif isinstance(step, Reasoning) and answer.has("think_tags"):
            for delta in encoded_deltas(_tagged(step), pace):
                yield b'{"content":' + delta + b"}", b"null"
        elif isinstance(step, Reasoning):
            names = _reasoning_fields(answer)
            for delta in encoded_deltas(step.text, pace):
                yield (
                    b"{" + b",".join(b'"%b":%b' % (n.encode(), delta) for n in names) + b"}",
                    (b"null"),
                )
        elif isinstance(step, Refusal):
            for delta in encoded_deltas(step.text, pace):
                yield b'{"refusal":' + delta + b"}", b"null"
        else:
            calls = calls_of(step)
            for delta in _call_deltas(answer, calls, number):
                yield delta, b"null"
            number += len(calls)


def _call_deltas(answer: Answer, calls: tuple[ToolCall, ...], first: int) -> Iterator[bytes]:
    escape = answer.scenario.pace.escape
    for offset, call in enumerate(calls):
        start = {"index": first + offset, **_call(answer, call, first + offset, "")}
        yield msgspec.json.encode({"tool_calls": [start]})
    pieces = [answer.arguments_deltas(call.arguments) for call in calls]
    for offset, piece in alternate(pieces):
        call = calls[offset]
        field = b'"function":{"arguments":' if call.kind == "function" else b'"custom":{"input":'
        yield b'{"tool_calls":[{"index":%d,%b%b}}]}' % (
            first + offset,
            field,
            json_text(piece, escape),
        )


def _logprob(answer: Answer, token: str) -> JsonObject:
    """One token's probability; the alternatives asked for follow the token itself."""

    def entry(text: str, logprob: float) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    wanted = answer.view.logprobs or 0
    top = [entry(token, -0.125)] + [entry(f"alt{n}", -2.0 - n) for n in range(1, wanted)]
    return {**entry(token, -0.125), "top_logprobs": top[:wanted]}


def _all_logprobs(answer: Answer, texts: list[str]) -> JsonObject | None:
    if answer.view.logprobs is None:
        return None
    pieces = [piece for text in texts for piece in split_text(text, answer.scenario.pace)]
    return {"content": [_logprob(answer, piece) for piece in pieces], "refusal": None}

"""Saying a scenario natively: one module for each protocol, with the same functions in each.

``full(answer)`` is the JSON object of a full answer, ``stream(answer)`` its stream frame by
frame, ``error_frames(answer, failure, sent)`` the frames of an error after ``sent`` frames, and
``cannot(scenario)`` the reason why the protocol cannot express a scenario, or None.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman.lab.simulator.rendering import (
    chat,
    google,
    interactions,
    messages,
    responses,
)
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.script import Failure, Protocol, Scenario
from dragoman.lab.simulator.view import JsonObject


@dataclass(frozen=True, slots=True)
class Renderer:
    """One protocol's functions."""

    full: Callable[[Answer], JsonObject]
    stream: Callable[[Answer], Iterator[bytes]]
    error_frames: Callable[[Answer, Failure, int], tuple[bytes, ...]]
    cannot: Callable[[Scenario], str | None]


RENDERERS: dict[Protocol, Renderer] = {
    "chat": Renderer(chat.full, chat.stream, chat.error_frames, chat.cannot),
    "messages": Renderer(messages.full, messages.stream, messages.error_frames, messages.cannot),
    "responses": Renderer(
        responses.full, responses.stream, responses.error_frames, responses.cannot
    ),
    "google": Renderer(google.full, google.stream, google.error_frames, google.cannot),
    "interactions": Renderer(
        interactions.full, interactions.stream, interactions.error_frames, interactions.cannot
    ),
}

QUIRKS: dict[str, str] = {
    "reasoning_field": "Chat: reasoning in `reasoning`, as newer vLLM and OpenRouter send it",
    "reasoning_both": "Chat: reasoning in `reasoning_content` and in `reasoning`",
    "think_tags": "Chat: reasoning in the content, between `<think>` and `</think>`",
    "usage_final": "Chat and Google: usage on the chunk with the finish reason",
    "usage_every": "Chat: cumulative usage on every chunk",
    "usage_none": "Chat, Google and Interactions: no usage at all, asked or not",
    "usage_always": "Chat: the separate usage chunk although nobody asked",
    "no_finish": "Chat and Google: no finish reason; Interactions: no `interaction.completed`",
    "vllm_stop_reason": "Chat: the choice carries `stop_reason`, the stop string that matched",
    "obfuscation": "Chat and Responses: `obfuscation` padding in the deltas",
    "azure_preamble": "Chat: a first chunk without choices",
    "error_done": "Chat: `[DONE]` after an error in the stream",
    "raw_reasoning": "Responses: reasoning as `reasoning_text` content, without a summary",
    "keepalive_events": "Responses: typed `keepalive` events between the others",
    "flat_error": "Responses: the `error` event's fields flat, as the types have it",
    "error_only": "Responses: an `error` event without `response.failed`",
    "failed_only": "Responses: `response.failed` without an `error` event",
    "no_ping": "Messages: no ping after message_start",
    "prompt_blocked": "Google: no candidates, but a `promptFeedback`; Interactions: an error",
    "no_candidates": "Google: no candidates, and nothing that says why",
    "no_content": "Google: the last chunk's candidate has no content",
    "no_parts": "Google: the last chunk's content has no parts",
    "stop_every": "Google: the finish reason on every chunk",
    "malformed_call": "Google: it ends with MALFORMED_FUNCTION_CALL and says nothing",
    "missing_signature": "Google: it ends with MISSING_THOUGHT_SIGNATURE and says nothing",
    "finish_other": "Google: it ends with OTHER",
    "call_without_id": "Google: calls have no ids",
    "bare_error": "Google, Interactions: an error in the stream as JSON without `data: `",
    "continuation": "Interactions: half of the answer, which then requires a continuation",
    "done_event": "Interactions: `event: done` before `[DONE]`",
}
"""Quirks of the content; those of the framing are ``frames.FRAMINGS``."""

"""What is known of a Chat Completions upstream's answers."""

from __future__ import annotations

from dragoman.protocols import finish_words
from dragoman.protocols.openai_chat import loose, shapes, wire
from dragoman.protocols.reading import members_of
from tools.drift.known import WHOLE, Object, Tagged, Vocabulary, named

_CALL = named({"id", "index", "type"}, function=named({"name", "arguments"}))
_CALLS = Tagged(
    {
        "function": _CALL,
        "custom": named({"id", "index", "type"}, custom=named({"name", "input"})),
    }
)
_FINISH = Vocabulary(
    finish_words.STOP_WORDS
    | finish_words.LENGTH_WORDS
    | finish_words.TOOL_WORDS
    | finish_words.FILTER_WORDS
    | finish_words.FAILURE_WORDS
)
_ANNOTATIONS = Tagged(
    {
        "url_citation": named(
            {"type"}, url_citation=named({"url", "title", "start_index", "end_index"})
        )
    }
)
_SAID = Object(
    members_of(shapes.Said) | loose.ANSWER.keys(),
    {
        "tool_calls": _CALLS,
        "function_call": named({"name", "arguments"}),
        "annotations": _ANNOTATIONS,
        "audio": WHOLE,
    },
)
_USAGE = Object(
    wire.USAGE_FIELDS,
    {
        # Counts of other kinds are reported as not counted apart.
        "prompt_tokens_details": named(
            wire.PROMPT_DETAILS | {"audio_tokens", "image_tokens", "text_tokens"}
        ),
        "completion_tokens_details": named(
            wire.COMPLETION_DETAILS
            | {
                "accepted_prediction_tokens",
                "audio_tokens",
                "rejected_prediction_tokens",
                "text_tokens",
            }
        ),
    },
)


def _top(said: str) -> Object:
    known = members_of(shapes.Choice)
    choice = Object(known, {said: _SAID, "finish_reason": _FINISH, "logprobs": WHOLE})
    return Object(
        members_of(shapes.Answer) | loose.ANSWER.keys(),
        {"choices": choice, "usage": _USAGE, "service_tier": Vocabulary(wire.SERVICE_TIERS)},
    )


ANSWER = _top("message")
CHUNK = _top("delta")

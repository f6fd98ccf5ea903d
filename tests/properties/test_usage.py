"""Token counts in all six directions: totals include cached tokens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from dragoman.canonical.usage import Usage
from tests.checkers import CHECKERS
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import CROSSINGS, call, translated

TEXT = "Hi"


def chat_usage(usage: Usage) -> dict[str, Any]:
    """The counts as a Chat upstream says them."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def messages_usage(usage: Usage) -> dict[str, Any]:
    """The counts as a Messages upstream says them: input without what was cached."""
    return {
        "input_tokens": usage.input - (usage.cached or 0) - (usage.cache_write or 0),
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def responses_usage(usage: Usage) -> dict[str, Any]:
    """The counts as a Responses upstream says them."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def whole(upstream: str, usage: Usage) -> dict[str, Any]:
    """A small answer of the upstream with the given usage."""
    match upstream:
        case "openai_chat":
            message = {"role": "assistant", "content": TEXT, "refusal": None}
            return {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 5,
                "model": "filler",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": chat_usage(usage),
            }
        case "anthropic_messages":
            return {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "filler",
                "content": [{"type": "text", "text": TEXT}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": messages_usage(usage),
            }
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 5,
        "status": "completed",
        "model": "filler",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        ],
        "usage": responses_usage(usage),
    }


def data(value: Any) -> bytes:
    """A frame without a name."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def named(*events: dict[str, Any]) -> bytes:
    """Frames named by their types."""
    return b"".join(b"event: " + event["type"].encode() + b"\n" + data(event) for event in events)


def stream(upstream: str, usage: Usage) -> bytes:
    """The same answer, streamed, with usage where the upstream puts it."""
    answer = whole(upstream, usage)
    match upstream:
        case "openai_chat":
            head = {name: answer[name] for name in ("id", "created", "model")}
            delta = {"role": "assistant", "content": TEXT}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
            chunks: tuple[tuple[list[Any], Any], ...] = (([choice], None), ([], answer["usage"]))
            frames = [{**head, "choices": choices, "usage": used} for choices, used in chunks]
            return b"".join(data(frame) for frame in frames) + b"data: [DONE]\n\n"
        case "anthropic_messages":
            known = {**answer["usage"], "output_tokens": 1}
            message = {**answer, "content": [], "stop_reason": None, "usage": known}
            final = {"output_tokens": usage.output}
            final |= {"output_tokens_details": answer["usage"]["output_tokens_details"]}
            return named(
                {"type": "message_start", "message": message},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                    "usage": final,
                },
                {"type": "message_stop"},
            )
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    return named(
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "response.completed", "sequence_number": 1, "response": answer},
    )


def expected(client: str, usage: Usage) -> dict[str, Any]:
    """The counts a client has to be told, flattened."""
    match client:
        case "openai_chat":
            return flat(chat_usage(usage))
        case "anthropic_messages":
            return flat(messages_usage(usage))
    return flat(responses_usage(usage))


def flat(usage: dict[str, Any]) -> dict[str, Any]:
    """Details and totals side by side; what is zero or unknown is left out."""
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            found.update({f"{name}.{inner}": count for inner, count in value.items() if count})
        elif value:
            found[name] = value
    return found


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(usage=own.usages())
def test_whole_answers_keep_their_counts(client: str, upstream: str, usage: Usage) -> None:
    """req: 58, 68, 143"""
    body = msgspec.json.encode(whole(upstream, usage))

    shown = msgspec.json.decode(call(client, upstream).translate_response(body))["usage"]

    assert flat(shown).items() >= expected(client, usage).items()
    check_totals(client, shown, usage)


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(usage=own.usages())
def test_streams_keep_their_counts(client: str, upstream: str, usage: Usage) -> None:
    """req: 78, 83, 90, 107, 143"""
    shown = CHECKERS[client](translated(client, upstream, [stream(upstream, usage)])).usage

    assert shown is not None
    assert flat(shown).items() >= expected(client, usage).items()
    check_totals(client, shown, usage)


def check_totals(client: str, shown: dict[str, Any], usage: Usage) -> None:
    """All counts together are what the upstream counted."""
    if client == MESSAGES:
        counted = (
            shown["input_tokens"]
            + shown["cache_read_input_tokens"]
            + shown["cache_creation_input_tokens"]
            + shown["output_tokens"]
        )
    else:
        counted = shown["total_tokens"]
    assert counted == usage.total


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_overlapping_cache_counts_never_go_below_zero(upstream: str) -> None:
    """Servers that count a token as read and as written give no negative input."""
    usage = Usage(input=10, output=1, cached=8, cache_write=8, reasoning=0)

    shown = msgspec.json.decode(
        call(MESSAGES, upstream).translate_response(msgspec.json.encode(whole(upstream, usage)))
    )["usage"]

    assert shown["input_tokens"] == 0

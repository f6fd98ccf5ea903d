"""Token counts in all twelve directions: totals include cached tokens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from dragoman.canonical.usage import Usage
from tests.checkers import CHECKERS
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import CROSSINGS, call, translated
from tests.tables.answers import LEAST_ANSWER
from tests.tables.upstreams import STREAMS


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
    return {**LEAST_ANSWER[upstream], MEMBER.get(upstream, "usage"): COUNTED[upstream](usage)}


def google_usage(usage: Usage) -> dict[str, Any]:
    """The counts as a Google upstream says them: what was thought is no part of the output."""
    thoughts = usage.reasoning or 0
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.input + usage.output,
    }


COUNTED = {
    CHAT: chat_usage,
    MESSAGES: messages_usage,
    RESPONSES: responses_usage,
    GOOGLE: google_usage,
}
MEMBER = {GOOGLE: "usageMetadata"}
"""Where the counts are, if not in `usage`."""


def flat(usage: dict[str, Any]) -> dict[str, Any]:
    """Details and totals side by side; what is zero or unknown is left out."""
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            found.update({f"{name}.{inner}": count for inner, count in value.items() if count})
        elif value:
            found[name] = value
    return found


def known(usage: Usage, upstream: str) -> Usage:
    """What a client can be told: a Google upstream does not count writes to a cache."""
    return replace(usage, cache_write=0) if upstream == GOOGLE else usage


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(usage=own.usages())
def test_whole_answers_keep_their_counts(client: str, upstream: str, usage: Usage) -> None:
    """req: 58, 68, 143"""
    body = msgspec.json.encode(whole(upstream, usage))

    answer = msgspec.json.decode(call(client, upstream).translate_response(body))
    shown = answer[MEMBER.get(client, "usage")]

    assert flat(shown).items() >= flat(COUNTED[client](known(usage, upstream))).items()
    check_totals(client, shown, usage)


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(usage=own.usages())
def test_streams_keep_their_counts(client: str, upstream: str, usage: Usage) -> None:
    """req: 78, 83, 90, 107, 143"""
    shown = CHECKERS[client](
        translated(client, upstream, [STREAMS[upstream](whole(upstream, usage))])
    ).usage

    assert shown is not None
    assert flat(shown).items() >= flat(COUNTED[client](known(usage, upstream))).items()
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
    elif client == GOOGLE:
        counted = shown["totalTokenCount"]
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

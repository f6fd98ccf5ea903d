"""What tests know of each protocol: one module each, and no other place names its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct


class Facts(Struct, frozen=True, kw_only=True):
    """What tests know of one protocol, beside its package.

    `path` is where its clients ask for an answer of a model, streamed or not; `body` what they send
    with a text, for that; `tool` a declaration of `get_weather`; `limit` the members that set an
    output limit; `prompt` members with a system text and a tool; `text_of` the text in a whole
    answer; `ends` whether a stream is complete."""

    path: Callable[[str, bool], str]
    body: Callable[[str, str, bool], dict[str, Any]]
    tool: dict[str, Any]
    limit: Callable[[int], dict[str, Any]]
    prompt: dict[str, Any]
    text_of: Callable[[Any], str]
    ends: Callable[[bytes], bool]


SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
"""The arguments of `get_weather`."""


def facts_of() -> dict[str, Facts]:
    """The facts by the names of the protocols."""
    from tests.facts import (
        anthropic_messages,
        google_generate_content,
        google_interactions,
        openai_chat,
        openai_responses,
    )
    from tests.invented import facts as parley

    return {
        "openai_chat": openai_chat.FACTS,
        "anthropic_messages": anthropic_messages.FACTS,
        "openai_responses": openai_responses.FACTS,
        "google_generate_content": google_generate_content.FACTS,
        "google_interactions": google_interactions.FACTS,
        "parley": parley.FACTS,
    }

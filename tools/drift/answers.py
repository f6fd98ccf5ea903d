"""Drift of what upstreams answer: whole answers, stream events, stop reasons, errors.

Each specification is made of the tables the readers themselves use. What a reader knows and
reports as lost is named here with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.shared import ErrorObject, ErrorType
from google.genai.interactions import Interaction, InteractionSSEEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from tests.losses.shapes import shape_of
from tools.drift import chat, google, interactions, messages, responses
from tools.drift.found import Drift
from tools.drift.known import Known, compare


@dataclass(frozen=True)
class Root:
    """A type of the SDK and what is known of it."""

    where: str
    type: Any
    known: Known


ROOTS = (
    Root("chat answer", ChatCompletion, chat.ANSWER),
    Root("chat chunk", ChatCompletionChunk, chat.CHUNK),
    Root("messages answer", Message, messages.ANSWER),
    Root("messages beta answer", BetaMessage, messages.ANSWER),
    Root("messages stream", RawMessageStreamEvent, messages.STREAM),
    Root("messages beta stream", BetaRawMessageStreamEvent, messages.STREAM),
    Root("messages error", ErrorObject, messages.ERROR),
    Root("messages error", ErrorType, messages.ERROR_TYPES),
    Root("responses answer", Response, responses.ANSWER),
    Root("responses stream", ResponseStreamEvent, responses.STREAM),
    Root("google answer", GenerateContentResponse, google.ANSWER),
    Root("interactions answer", Interaction, interactions.ANSWER),
    Root("interactions stream", InteractionSSEEvent, interactions.STREAM),
)


def answer_drift(roots: Iterable[Root] = ROOTS) -> list[Drift]:
    """What the types have that no table names; each once."""
    return sorted(set(_all(roots)))


def _all(roots: Iterable[Root]) -> Iterator[Drift]:
    for root in roots:
        yield from compare(shape_of(root.type), root.known, root.where)

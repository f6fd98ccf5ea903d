"""Canonical answers, and what the SDK makes of them once written."""

from __future__ import annotations

from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from dragoman.canonical.blocks import Block, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.protocols.base import Reply
from dragoman.protocols.openai_chat import CODEC
from tests.folded import Response, write_whole
from tests.protocols.openai_chat.helpers import frames_of, reply, write_stream

STOPPED = Finish(FinishReason.STOP)


def events_of(*blocks: Block, finish: Finish = STOPPED) -> list[Event]:
    """The events of an answer, each text in two pieces."""
    events: list[Event] = [Started("up_1", "up", 5)]
    for index, block in enumerate(blocks):
        match block:
            case Text():
                events += [Opened(index, Text(text="")), *_pieces(index, block.text)]
                events += [Annotated(index, annotation) for annotation in block.annotations]
            case Refusal():
                events += [Opened(index, Refusal(text="")), *_pieces(index, block.text)]
            case ToolCall():
                head = ToolCall(
                    id=block.id, name=block.name, custom=block.custom, namespace=block.namespace
                )
                events += [Opened(index, head), *_pieces(index, block.arguments)]
            case Reasoning():
                head_ = Reasoning(style=block.style, redacted=block.redacted)
                events.append(Opened(index, head_))
                for number, part in enumerate(block.parts):
                    events += [PartBreak(index)] if number else []
                    events += _pieces(index, part)
                events += [Sealed(index, block.opaque)] if block.opaque else []
            case _:
                events.append(Opened(index, block))
        events.append(Closed(index))
    return [*events, Finished(finish), Ended()]


def _pieces(index: int, text: str) -> list[Event]:
    half = len(text) // 2
    return [Delta(index, piece) for piece in (text[:half], text[half:]) if piece]


def streamed(events: list[Event], given: Reply | None = None) -> dict[str, Any]:
    """The answer that openai-python's own accumulator makes of the written stream."""
    state: Any = ChatCompletionStreamState()
    for frame in frames_of(write_stream(events, given)):
        state.handle_chunk(ChatCompletionChunk.model_validate(frame, strict=True))
    answer: dict[str, Any] = state.current_completion_snapshot.model_dump(
        exclude_unset=True, warnings=False
    )
    return answer


def whole(response: Response, given: Reply | None = None) -> dict[str, Any]:
    """The written answer, which must be of the SDK's type."""
    body = write_whole(CODEC, response, given or reply())
    ChatCompletion.model_validate(body, strict=True)
    return body

"""Answers as one value, for comparing: from events, and back to events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import Reasoning, Refusal, Text, ToolCall, UrlCitation, WebSearch
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.fold import fold
from dragoman.canonical.responses import Response
from dragoman.protocols.base import Codec, Reply

__all__ = ["Response", "fold", "unfold", "write_whole"]


def unfold(answer: Response) -> Iterator[Event]:
    """The events of an answer, as a reader gives those of a whole one: each text in one piece."""
    yield Started(answer.id, answer.model, answer.created, answer.service_tier)
    for index, block in enumerate(answer.blocks):
        match block:
            case Text():
                yield Opened(index, replace(block, text="", annotations=(), logprobs=None))
                if block.text or block.logprobs is not None:
                    yield Delta(index, block.text, block.logprobs)
                yield from (Annotated(index, note) for note in block.annotations)
            case Refusal():
                yield Opened(index, replace(block, text=""))
                yield Delta(index, block.text)
            case ToolCall():
                yield Opened(index, replace(block, arguments=""))
                yield Delta(index, block.arguments)
            case Reasoning():
                yield Opened(index, replace(block, parts=(), opaque=None))
                for number, part in enumerate(block.parts):
                    if number:
                        yield PartBreak(index)
                    yield Delta(index, part)
                if block.opaque is not None:
                    yield Sealed(index, block.opaque)
            case WebSearch():
                yield Opened(index, replace(block, query="", sources=()))
                if block.query:
                    yield Delta(index, block.query)
                yield from (Annotated(index, UrlCitation(url=url)) for url in block.sources)
            case _:
                yield Opened(index, block)
        yield Closed(index)
    yield Finished(answer.finish)
    if answer.usage is not None:
        yield Metered(answer.usage, answer.service_tier)
    yield Ended(answer.moderation)


def write_whole(codec: Codec, answer: Response, reply: Reply) -> dict[str, Any]:
    """The client's whole answer."""
    writer = codec.translate.answer_writer(reply, False)
    for event in unfold(answer):
        writer.write(event)
    return writer.answer()

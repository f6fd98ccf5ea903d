"""Answers in canonical form, as the writers are given them, and what the tests see of them."""

from __future__ import annotations

from typing import Any

import msgspec
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from dragoman.canonical.blocks import (
    Block,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
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
from dragoman.canonical.options import Options
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from tests.checkers import check_responses
from tests.folded import fold
from tests.protocols.openai_responses.helpers import (
    DEFAULTS,
    JsonObject,
    decoded,
    reply,
    write_response,
    write_stream,
)

SDK_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
STOP = FinishReason.STOP
ENVELOPE = Opaque("anthropic_messages", "c2ln")
"""State of another vendor's reasoning."""


def events_of(
    *blocks: Block,
    reason: FinishReason = STOP,
    usage: Usage | None = None,
    category: str | None = None,
) -> list[Event]:
    """The events of an answer of these blocks, texts in pieces."""
    events: list[Event] = [Started("up_1", "up-model", 5)]
    for index, block in enumerate(blocks):
        match block:
            case Text():
                head: Block = Text(text="", phase=block.phase)
                parts = [block.text]
            case Refusal():
                head, parts = Refusal(text=""), [block.text]
            case ToolCall():
                head, parts = msgspec.structs.replace(block, arguments=""), [block.arguments]
            case Reasoning():
                head = msgspec.structs.replace(block, parts=(), opaque=None)
                parts = list(block.parts)
            case _:
                head, parts = block, []
        events.append(Opened(index, head))
        for number, part in enumerate(parts):
            if number:
                events.append(PartBreak(index))
            events += [Delta(index, part[at : at + 4]) for at in range(0, len(part), 4)]
        if isinstance(block, Text):
            events += [Annotated(index, annotation) for annotation in block.annotations]
        if isinstance(block, Reasoning) and block.opaque is not None:
            events.append(Sealed(index, block.opaque))
        events.append(Closed(index))
    events.append(Finished(Finish(reason, category=category)))
    return [*events, *([Metered(usage)] if usage else []), Ended()]


def kinds(stream: bytes) -> list[str]:
    """The types of a stream's events, without their common beginning."""
    return [event["type"].removeprefix("response.") for event in decoded(stream)]


def output_of(events: list[Event], options: Options = DEFAULTS) -> list[JsonObject]:
    """The output, after checking that a stream and a whole answer have the same, and that the
    vendor's types and our checker accept both."""
    to = reply(options=options)
    stream = write_stream(events, to)
    check_responses(stream)
    final = decoded(stream)[-1]["response"]
    for event in decoded(stream):
        SDK_EVENT.validate_python(event)
    answer = write_response(fold(events), reply(options=options))
    assert {**answer, "completed_at": 0} == {**final, "completed_at": 0}
    SdkResponse.model_validate(answer)
    output: list[JsonObject] = answer["output"]
    return output

"""Answers as canonical events, and as a client puts them together."""

from __future__ import annotations

from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from dragoman.canonical.blocks import Block, Opaque, Reasoning, Text, ToolCall
from dragoman.canonical.events import (
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
from dragoman.canonical.requests import Request
from dragoman.canonical.responses import Finish, FinishReason
from tests.folded import Response
from tests.protocols.anthropic_messages.helpers import (
    NAME,
    THINKS,
    reply,
    whole_of,
    wire_events,
    write_stream,
)

OWN = Opaque(NAME, "SIG")
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def block(index: int, head: Block, *events: Event) -> list[Event]:
    return [Opened(index, head), *events, Closed(index)]


def answer(*events: Event, finish: FinishReason = FinishReason.STOP) -> list[Event]:
    return [Started("up", "x"), *events, Finished(Finish(finish)), Ended()]


def text(index: int, said: str) -> list[Event]:
    return block(index, Text(text=""), Delta(index, said))


def thought(index: int, *parts: str, opaque: Opaque | None = None) -> list[Event]:
    events: list[Event] = []
    for number, part in enumerate(parts):
        events += [PartBreak(index)] if number else []
        events.append(Delta(index, part))
    if opaque is not None:
        events.append(Sealed(index, opaque))
    return block(index, Reasoning(), *events)


def call(index: int, arguments: str = "{}", **fields: Any) -> list[Event]:
    head = ToolCall(id=f"call_{index}", name="f", **fields)
    return block(index, head, Delta(index, arguments))


def content_of(events: list[Event], request: Request = THINKS, **options: Any) -> Any:
    """The content a client puts together, which must be the same in a whole answer."""
    given = reply(request, **options)
    streamed = accumulated(write_stream(events, given))
    assert whole_of(events, reply(request, **options)) == streamed
    return streamed["content"]


def accumulated(data: bytes) -> dict[str, Any]:
    """The message the official SDK builds from a stream."""
    snapshot: Any = None
    inputs: dict[int, bytes] = {}
    for event in wire_events(data):
        if event["type"] == "ping":
            continue
        parsed = _EVENT.validate_python(event)
        snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=inputs)
    Message.model_validate(snapshot.model_dump())
    found: dict[str, Any] = snapshot.model_dump(mode="json", exclude_unset=True)
    if found["stop_details"] is None:
        del found["stop_details"]
    for member in found["content"]:
        member.pop("parsed_output", None)
    return found


def whole(*blocks: Block, reason: FinishReason = FinishReason.STOP) -> Response:
    return Response(id="u", model="x", created=1, blocks=blocks, finish=Finish(reason))

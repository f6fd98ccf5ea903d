"""One answer for every field and union member of the SDKs' answer and stream event types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.losses.shapes import Choice, FieldShape, Record, fields_of, shape_of
from tests.losses.streams import USAGE, chat_stream, messages_stream, responses_stream
from tests.losses.values import Owner
from tests.losses.walker import ABSENT, Path, Probe, path_text, smallest, smallest_record, walk


@dataclass(frozen=True)
class AnswerCase:
    """An upstream's answer that contains one value under test.

    `source` is the SDK's type; `event` the type of the stream event that holds the value, empty
    for a whole answer; `path` leads to it inside the answer or the event.
    """

    source: str
    upstream: str
    event: str
    path: Path
    probe: Probe
    build: Callable[[Any], bytes]

    @property
    def id(self) -> str:
        """A readable name: the type, the union members on the way, the path, the word."""
        turns = "".join(f"<{turn}>" for turn in self.probe.turns)
        return f"{self.source}-{path_text(self.path)}{turns}-{self.probe.label}"

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""
        return bool(self.event)

    def body(self, *value: Any) -> bytes:
        """The answer; with another value in the place of the one under test, if one is given."""
        return self.build(self.probe.with_value(value[0]) if value else self.probe.document)


ECHO = frozenset(
    {
        "background",
        "conversation",
        "image",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
"""Fields of a Responses answer that repeat the request; walked no deeper, tested once each."""

REPEATS = frozenset(
    f"response.{name}"
    for name in (
        "created",
        "in_progress",
        "queued",
        "content_part.added",
        "content_part.done",
        "output_text.done",
        "refusal.done",
        "reasoning_summary_part.added",
        "reasoning_summary_part.done",
        "reasoning_summary_text.done",
        "reasoning_text.done",
    )
)
"""Events that hold nothing other events of the stream do not say as well. They are tested as a
whole: what they hold has events of its own, and is tested there."""

_GOOD: Mapping[str, dict[str, Any]] = {
    CHAT: {},
    MESSAGES: {"stop_reason": "end_turn", "stop_sequence": None},
    RESPONSES: {"status": "completed"},
}
_ENDINGS: Mapping[str, dict[str, Any]] = {
    "stop_sequence": {"stop_reason": "stop_sequence"},
    "stop_details": {"stop_reason": "refusal"},
    "incomplete_details": {"status": "incomplete"},
    "error": {"status": "failed"},
}
"""How an answer ends that has the given field."""

_NOT_YET = frozenset({"content", "stop_reason", "stop_sequence", "stop_details"})
"""Fields of a message that are empty while it begins; they have events of their own."""


@cache
def answer_cases() -> tuple[AnswerCase, ...]:
    """One whole answer per field and union member."""
    found: list[AnswerCase] = []
    for upstream, model in ((CHAT, ChatCompletion), (MESSAGES, Message), (RESPONSES, Response)):
        found += _whole(upstream, Record(model))
    return tuple(found)


def _whole(upstream: str, record: Record) -> Iterator[AnswerCase]:
    base = {**smallest_record(record, Owner()), **_GOOD[upstream]}
    for field in fields_of(record):
        owner = Owner().field(record.name, field.name)
        for probe in _probes(record, field.name):
            if not probe.path and not field.required:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            build = _whole_answer({**base, **_ENDINGS.get(field.name, {})}, field.name)
            path = (field.name, *probe.path)
            yield AnswerCase(owner.record, upstream, "", path, probe, build)


def _probes(record: Record, name: str) -> Iterator[Probe]:
    field = next(field for field in fields_of(record) if field.name == name)
    owner = Owner().field(record.name, name)
    if record.type is Response and name in ECHO:
        yield Probe(smallest(field.shape, owner), (), owner.label)
    else:
        yield from walk(field.shape, owner)


def _whole_answer(base: dict[str, Any], name: str) -> Callable[[Any], bytes]:
    def build(value: Any) -> bytes:
        answer = {**base, name: value}
        if value is ABSENT:
            del answer[name]
        return msgspec.json.encode(answer)

    return build


@cache
def stream_cases() -> tuple[AnswerCase, ...]:
    """One stream per field and union member of every event."""
    found = list(_events(CHAT, Record(ChatCompletionChunk), "chat.completion.chunk", chat_stream))
    for upstream, union, stream in (
        (MESSAGES, RawMessageStreamEvent, messages_stream),
        (RESPONSES, ResponseStreamEvent, responses_stream),
    ):
        shape = shape_of(union)
        assert isinstance(shape, Choice)
        for member in shape.members:
            assert isinstance(member, Record)
            kind = smallest_record(member, Owner())["type"]
            found += _events(upstream, member, kind, stream)
    return tuple(found)


def _events(
    upstream: str,
    record: Record,
    kind: str,
    stream: Callable[[dict[str, Any], str | None], bytes],
) -> Iterator[AnswerCase]:
    base = smallest_record(record, Owner())
    fields = [field for field in fields_of(record) if field.name not in ("type", "sequence_number")]
    if not fields or kind in REPEATS:
        whole = Probe(base, (), record.name, rivals=(ABSENT,))
        build = lambda event: stream(base, None if event is ABSENT else "")  # noqa: E731
        yield AnswerCase(record.name, upstream, kind, (), whole, build)
        return
    for field in fields:
        for probe in _event_probes(record, kind, field):
            if not probe.path and not field.required:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            path = (field.name, *probe.path)
            build = _event(base, field.name, stream)
            yield AnswerCase(record.name, upstream, kind, path, probe, build)


def _event_probes(record: Record, kind: str, field: FieldShape) -> Iterator[Probe]:
    owner = Owner().field(record.name, field.name)
    if field.name == "response":
        assert isinstance(field.shape, Record)
        yield from _lifecycle(field.shape, kind, owner)
        return
    for probe in walk(field.shape, owner):
        if not (kind == "message_start" and probe.path[0] in _NOT_YET):
            yield probe


def _lifecycle(shape: Record, kind: str, owner: Owner) -> Iterator[Probe]:
    """Probes of the response inside an event; output items have events of their own."""
    ending = {"status": kind.removeprefix("response."), "usage": USAGE}
    base = {**smallest_record(shape, owner), **ending}
    for field in fields_of(shape):
        if field.name in ("output", "status") or (field.name in ECHO and kind != _COMPLETED):
            continue
        if field.name in ("error", "incomplete_details") and kind == _COMPLETED:
            continue
        for probe in _probes(shape, field.name):
            if not probe.path and not field.required:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            document = {**base, field.name: probe.document}
            yield replace(probe, document=document, path=(field.name, *probe.path))


_COMPLETED = "response.completed"


def _event(
    base: dict[str, Any], name: str, stream: Callable[[dict[str, Any], str | None], bytes]
) -> Callable[[Any], bytes]:
    def build(value: Any) -> bytes:
        event = {**base, name: value}
        if value is ABSENT:
            del event[name]
        return stream(event, name)

    return build

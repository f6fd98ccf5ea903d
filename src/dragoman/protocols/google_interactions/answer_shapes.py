"""The objects of an answer, whole or streamed (`Interaction` and the events of google-genai 3.6.1).

One shape has the members of all steps, and one those of all deltas: the type says which count."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Raw, Struct

from dragoman.protocols.reading import Reader, Shape

_Object: TypeAlias = dict[str, Any]


class Content(Shape, omit_defaults=True):
    """Content that the model made."""

    type: str
    text: str | None = None
    annotations: list[_Object] | None = None
    data: str | None = None
    uri: str | None = None
    mime_type: str | None = None
    resolution: str | None = None
    sample_rate: int | None = None
    channels: int | None = None
    processing: Any = None
    name: str | None = None


class Step(Shape, omit_defaults=True):
    """One step of the model, or of a tool that the vendor runs."""

    type: str
    content: list[Content] | None = None
    error: _Object | None = None
    summary: list[Content] | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Raw = Raw()
    server_name: str | None = None
    search_type: str | None = None
    call_id: str | None = None
    result: Any = None
    is_error: bool | None = None


class Delta(Shape, omit_defaults=True):
    """A piece of a step."""

    type: str
    text: str | None = None
    annotations: list[_Object] | None = None
    content: Content | None = None
    signature: str | None = None
    arguments: Raw = Raw()
    data: str | None = None
    uri: str | None = None
    mime_type: str | None = None
    resolution: str | None = None
    sample_rate: int | None = None
    rate: int | None = None
    channels: int | None = None
    name: str | None = None
    server_name: str | None = None
    result: Any = None
    is_error: bool | None = None


class Interaction(Shape):
    """An answer, or what an event has of it. The members in the second half repeat the
    request."""

    id: str | None = None
    object: str | None = None
    model: str | None = None
    agent: str | None = None
    status: str | None = None
    created: str | None = None
    updated: str | None = None
    steps: list[Step] | None = None
    usage: _Object | None = None
    errors: list[_Object] | None = None
    continuation_token: str | None = None
    environment_id: str | None = None
    service_tier: str | None = None
    previous_interaction_id: str | None = None
    input: Any = None
    system_instruction: Any = None
    tools: Any = None
    generation_config: Any = None
    agent_config: Any = None
    response_format: Any = None
    response_mime_type: Any = None
    response_modalities: Any = None
    safety_settings: Any = None
    cached_content: Any = None
    environment: Any = None
    labels: Any = None
    webhook_config: Any = None
    store: Any = None
    background: Any = None
    stream: Any = None


class Event(Shape):
    """One event of a stream."""

    event_type: str
    event_id: str | None = None
    interaction: Interaction | None = None
    interaction_id: str | None = None
    status: str | None = None
    usage: _Object | None = None
    step_usage: _Object | None = None
    continuation_token: str | None = None
    index: int = 0
    step: Step | None = None
    delta: Delta | None = None
    metadata: _Object | None = None
    error: _Object | None = None


ANSWER: Final = Reader(Interaction)
EVENT: Final = Reader(Event)


def raw_of(value: Struct) -> _Object:
    """A step as its service wrote it, without members that are absent."""
    found = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: given
        for name, given in found.items()
        if given is not None and not (isinstance(given, Raw) and not bytes(given))
    }

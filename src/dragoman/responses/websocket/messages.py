"""Messages of clients, as events. Large ones are read in another process, as large bodies are."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.protocols.openai_responses.additions import Addition
from dragoman.protocols.openai_responses.websocket import Create, read_event
from dragoman.serving.large import LargeBodies
from dragoman.serving.large_body_tasks import holds_more_values, too_large
from dragoman.serving.resolver import MOST_VALUES

Event = Create | Addition | None


async def read_large_event(large: LargeBodies, message: bytes) -> Event:
    """As `read_event`, of a message with at most as many values as a body may have.

    Raises:
        DragomanError: as there, or TOO_LARGE.
    """
    event, body = await large.run(_event_in, message, MOST_VALUES)
    return replace(event, body=body) if isinstance(event, Create) else event


def _event_in(message: bytes, max_values: int) -> tuple[Event, bytes]:
    if holds_more_values(message, max_values):
        raise too_large(f"The message contains more than {max_values} values.")
    event = read_event(message)
    if isinstance(event, Create):
        return replace(event, body=b""), event.body
    return event, b""

"""What is looked for in large bodies that are stored or compacted, in another process."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from dragoman.protocols.base import to_json
from dragoman.protocols.fields import decode_object
from dragoman.protocols.openai_responses.compaction import compacting, users_messages
from dragoman.protocols.openai_responses.conversations import outputs_as_items
from dragoman.protocols.stored_answers import GivenItems
from dragoman.serving.large_body_tasks import (
    MOST_VALUES,
    Source,
    holds_more_values,
    request_of,
    too_large,
)


def items_given(body: bytes, source: Source) -> tuple[GivenItems | None, bytes]:
    """The items of a request's `input`, as `StoredAnswers.given`, and their body.

    Raises:
        DragomanError: TOO_LARGE.
    """
    request = request_of(body, source)
    stored = request.codec.endpoint.stored
    given = None if stored is None else stored.given(request.members.get("input"))
    if given is None:
        return None, b""
    if len(given.ids) + len(given.references) > MOST_VALUES:
        raise too_large(f"The input contains more than {MOST_VALUES} ids.")
    return replace(given, body=b""), given.body


def compacting_body(body: bytes, source: Source) -> tuple[None, bytes]:
    """The body of a request that only compacts, as that of one for an answer.

    Raises:
        InvalidRequest: as `compacting`.
    """
    return None, to_json(compacting(request_of(body, source).members))


def messages_said(body: bytes, source: Source) -> tuple[None, bytes]:
    """The messages of the user in a request, as `users_messages`."""
    return None, users_messages(request_of(body, source).members)


def outputs_submitted(body: bytes, waiting: Mapping[str, str]) -> tuple[bool, bytes]:
    """Whether a stream is asked for by a body of `submit_tool_outputs`, and the items that answer
    the `waiting` calls.

    Raises:
        InvalidRequest: as `outputs_as_items`.
        DragomanError: TOO_LARGE.
    """
    if holds_more_values(body, MOST_VALUES):
        raise too_large(f"The body holds more than {MOST_VALUES} values.")
    given = decode_object(body)
    return given.get("stream") is True, to_json(outputs_as_items(given, waiting))

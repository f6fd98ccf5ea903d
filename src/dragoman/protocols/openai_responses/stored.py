"""Stored responses, for the response store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.canonical.options import Options
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.conversations import (
    given_items,
    unstored_members,
    whole_members,
)
from dragoman.protocols.openai_responses.errors import failed_object
from dragoman.protocols.openai_responses.response_object import queued
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.openai_responses.websocket import numbered
from dragoman.protocols.stored_answers import NumberedEvent, StoredAnswers
from dragoman.sse import DONE, encode

PREVIOUS: Final = "previous_response_id"
_LONGEST_SHOWN: Final = 256


def previous_not_found(previous: str) -> DragomanError:
    """The error for an earlier response that is not there, in the official API's words."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            f"Previous response with id '{previous[:_LONGEST_SHOWN]}' not found.",
            param=PREVIOUS,
            code="previous_response_not_found",
        )
    )


def response_not_found(name: str, why: str = "") -> DragomanError:
    """The error for a response that is not there, in the official API's words."""
    message = f"Response with id '{name[:_LONGEST_SHOWN]}' not found{why}."
    return DragomanError(Fault(FaultKind.NOT_FOUND, message))


class _Numbered(Struct):
    sequence_number: int | None = None


_numbering = decoder(_Numbered)


def _number(data: bytes, before: int, shift: int) -> NumberedEvent | None:
    """Events have numbers of their own."""
    try:
        number = _numbering(data).sequence_number
    except JsonError:
        return None
    if number is None or not shift:
        return None if number is None else NumberedEvent(number, data)
    return NumberedEvent(number + shift, numbered(data, number + shift))


def _last(response: JsonObject, number: int) -> bytes:
    """The last event of a response that had none: it was cancelled, or its worker died. Clients
    have no event for a cancelled one (response_stream_event.py)."""
    status = response.get("status")
    kind = status if status in ("completed", "incomplete") else "failed"
    event = {"type": f"response.{kind}", "sequence_number": number, "response": response}
    return encode(to_json(event), f"response.{kind}".encode())


def _done(options: Options) -> bytes:
    return encode(DONE) if options.of(ResponsesOptions).responses_done else b""


def _read_after(query: Mapping[str, str]) -> int:
    given = query.get("starting_after", "")
    if not given:
        return -1
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise InvalidRequest.at("starting_after", "must be a whole number")
    if int(given) > 2**53:
        raise InvalidRequest.at("starting_after", f"must be between 0 and {2**53}")
    return int(given)


STORED = StoredAnswers(
    previous=PREVIOUS,
    items="output",
    answer="response",
    ends=frozenset({b"response.completed", b"response.incomplete", b"response.failed"}),
    given=given_items,
    whole=whole_members,
    unstored=unstored_members,
    previous_not_found=previous_not_found,
    not_found=response_not_found,
    queued=queued,
    failed=lambda fault: {"error": failed_object(fault)},
    number=_number,
    last=_last,
    done=_done,
    read_after=_read_after,
    deleted=lambda name: {"id": name, "object": "response", "deleted": True},
)

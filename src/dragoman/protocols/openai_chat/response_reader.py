"""Reads whole answers, as the streams they could have been."""

from __future__ import annotations

from typing import Any

from dragoman import jsontext
from dragoman.canonical.blocks import Text
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import (
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.jsontext import JsonError
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import is_error, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_chat.finish import read_finish
from dragoman.protocols.openai_chat.shapes import TextAnswer
from dragoman.protocols.openai_chat.stream_reader import ChatReader
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_chat.whole_message import numbered
from dragoman.protocols.openai_errors import fault_of

_text_answer = jsontext.decoder(TextAnswer)
_NO_TEXT = Text(text="")
_ENDED = Ended()


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream: unless it is mere text, it is read as a stream of
    one chunk.

    Raises:
        UpstreamError: it is an error, has no choice or several answers, or did not finish.
    """
    try:
        answer = _text_answer(body)
    except JsonError:
        pass
    else:
        return _events(answer, inbound)
    reader = ChatReader(inbound, "message")
    events = reader.take(_as_chunk(inbound.decode_answer(body)))
    events += reader.finish()
    if reader.fault is not None:
        raise UpstreamError(reader.fault)
    return events


def _events(answer: TextAnswer, inbound: Inbound) -> list[Event]:
    choice, tier = answer.choices[0], answer.service_tier or None
    events: list[Event] = [
        Started(answer.id, answer.model, whole_number(answer.created) or 0, tier),
        Opened(0, _NO_TEXT),
        Delta(0, choice.message.content),
    ]
    if answer.usage:
        events.append(Metered(read_usage(answer.usage, inbound.ledger, tier), tier))
    finish = read_finish(choice.finish_reason, {}, has_calls=False)
    return [*events, Closed(0), Finished(finish), _ENDED]


def _as_chunk(body: JsonObject) -> JsonObject:
    """An answer that can be read as a chunk: itself, unless something has to be put right."""
    if (error := body.get("error")) and is_error(error):
        return body
    error = stray_error(body, "choices")
    if error is not None:
        raise UpstreamError(fault_of(error))
    choices = body.get("choices")
    if type(choices) is not list or not choices:
        raise UpstreamError.unreadable("it has no choices")
    first = _read_choice(choices[0])
    if len(choices) == 1:
        return body if first is choices[0] else {**body, "choices": [first]}
    return {**body, "choices": [first, *map(_read_choice, choices[1:])]}


def _read_choice(choice: Any) -> JsonObject:
    """A choice that can be read as one of a stream."""
    message = choice.get("message") if type(choice) is dict else None
    if type(message) is not dict:
        raise UpstreamError.unreadable("its choice has no message")
    changed: JsonObject = {}
    if choice.get("finish_reason") == "":
        # Some servers leave it blank; an answer that came whole is complete all the same.
        changed["finish_reason"] = "stop"
    ordered = numbered(message)
    if ordered is not message:
        changed["message"] = ordered
    return {**choice, **changed} if changed else choice

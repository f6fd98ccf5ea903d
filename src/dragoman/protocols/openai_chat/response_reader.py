"""Reads whole answers, as the streams they could have been."""

from __future__ import annotations

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
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_chat.finish import read_finish
from dragoman.protocols.openai_chat.loose import Loose
from dragoman.protocols.openai_chat.shapes import TextAnswer
from dragoman.protocols.openai_chat.stream_reader import ChatReader, exact_answer
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_chat.whole_message import numbered

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
        return _events(_text_answer(body), inbound)
    except JsonError:
        pass
    answer = exact_answer(body)
    if answer is None:
        answer = Loose("message", inbound.ledger).answer(inbound.decode_answer(body))
    if not answer.choices:
        raise UpstreamError.unreadable("it has no choices")
    for choice in answer.choices:
        message = choice.message
        if message is None:
            raise UpstreamError.unreadable("its choice has no message")
        choice.delta, choice.message, choice.text = numbered(message), None, None
        # Some servers leave it blank; an answer that came whole is complete all the same.
        choice.finish_reason = "stop" if choice.finish_reason == "" else choice.finish_reason
    reader = ChatReader(inbound, "message")
    events = reader.take(answer)
    events += reader.finish()
    if reader.fault is not None:
        raise UpstreamError(reader.fault)
    return events


def _events(answer: TextAnswer, inbound: Inbound) -> list[Event]:
    choice, tier = answer.choices[0], answer.service_tier or None
    events: list[Event] = [
        Started(answer.id or "", answer.model or "", whole_number(answer.created) or 0, tier),
        Opened(0, _NO_TEXT),
        Delta(0, choice.message.content),
    ]
    if answer.usage:
        events.append(Metered(read_usage(answer.usage, inbound.ledger, tier), tier))
    finish = read_finish(choice.finish_reason, choice, has_calls=False)
    return [*events, Closed(0), Finished(finish), _ENDED]

"""Answers within one protocol, passed or translated, and what a client reads of them."""

from __future__ import annotations

import msgspec

from dragoman.canonical.envelope import Sealer
from dragoman.protocols import CODECS
from dragoman.translation import Call, ClientRequest
from dragoman.translation.call import CallSettings
from dragoman.translation.streams import AnswerStream
from tests.fuzz.readings import Reading, reading_of
from tests.fuzz.streams import LENIENT, decoded
from tests.library import translate_request
from tests.losses.clients import asking


def passing(protocol: str, model: str = "m") -> Call:
    """A call within one protocol."""
    body = {**asking(protocol, stream=True), "model": model}
    return translate_request(protocol, protocol, msgspec.json.encode(body), options=LENIENT)


def translating(protocol: str) -> Call:
    """The same, with an answer that is read and written in any case: it has no body to pass on."""
    body = msgspec.json.encode(asking(protocol, stream=True))
    operation = CODECS[protocol].endpoint.operation_for("m", stream=True)
    request = ClientRequest(protocol, body, operation=operation).read(Sealer())
    return Call(ClientRequest.of(protocol, request), protocol, CallSettings(options=LENIENT))


def shown(call: Call, stream: bytes) -> tuple[bytes, AnswerStream]:
    """What a client is shown of a stream."""
    answer = call.open_stream()
    made = answer.feed(stream) + answer.finish()
    assert answer.over
    return made, answer


def reading(protocol: str, made: bytes, answer: AnswerStream) -> Reading | None:
    """What a client is told by an answer that succeeded, None of any other."""
    return None if answer.outcome.fault is not None else reading_of(protocol, decoded(made))

"""Events of realtime sessions, as far as they are read or written here."""

from __future__ import annotations

import secrets
from typing import Any, Literal

from msgspec import Struct

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.endpoints.usage import Measured, json_object, of_transcription
from dragoman.jsontext import JsonError, decoder, object_of
from dragoman.protocols.base import to_json

CANCEL = b'{"type":"response.cancel"}'
"""Ends the answer that is being given; what it used is reported all the same."""

_TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
_SPENT = frozenset({FaultKind.PAYMENT_REQUIRED})
_MOST_UNITS = 10**9


class Heard(Struct, frozen=True):
    """What an event of the upstream says. `began`: an answer begins; `answered`: it is over, and
    has `used` so much, None if that is not reported; `transcribed`: speech was, by `model` if that
    is known; `configured`: speech is transcribed by `model` from now on, empty if it is not."""

    kind: Literal["", "began", "answered", "transcribed", "configured"] = ""
    used: Measured | None = None
    model: str = ""


class _Event(Struct):
    type: Any = None
    response: Any = None
    session: Any = None
    usage: Any = None


_event = decoder(_Event)
NOTHING = Heard()


def heard(message: bytes) -> Heard:
    """What a message of the upstream says, whatever it is."""
    try:
        event = _event(message)
    except JsonError:
        # There may be half a character in what was said, which a strict reader refuses.
        found = object_of(message)
        if found is None:
            return NOTHING
        event = _Event(*(found.get(name) for name in _Event.__struct_fields__))
    kind = event.type
    if kind == "response.created":
        return Heard("began")
    if kind == "response.done":
        return Heard("answered", of_transcription(json_object(event.response)))
    if kind == _TRANSCRIBED:
        return Heard("transcribed", of_transcription({"usage": event.usage}))
    if kind in ("session.created", "session.updated"):
        return Heard("configured", model=transcriber_of(event.session))
    return NOTHING


def transcriber_of(session: object) -> str:
    """The model that transcribes the speech of a session; empty if none does."""
    given = json_object(json_object(json_object(session).get("audio")).get("input"))
    # Sessions of the older form have it at the top.
    found = given.get("transcription") or json_object(session).get("input_audio_transcription")
    model = json_object(found).get("model")
    return model if isinstance(model, str) else ""


def error_event(fault: Fault) -> bytes:
    """An `error` event that says why the session ends."""
    code = "insufficient_quota" if fault.kind in _SPENT else fault.code or "server_error"
    kind = code if fault.kind in _SPENT else _TYPES.get(fault.kind, "server_error")
    error = {"type": kind, "code": code, "message": fault.message, "param": None, "event_id": None}
    return to_json({"type": "error", "event_id": f"event_{secrets.token_hex(8)}", "error": error})


_TYPES = {
    FaultKind.RATE_LIMITED: "rate_limit_exceeded",
    FaultKind.INVALID_REQUEST: "invalid_request_error",
    FaultKind.TOO_LARGE: "invalid_request_error",
    FaultKind.UNAUTHENTICATED: "invalid_request_error",
    FaultKind.FORBIDDEN: "invalid_request_error",
}

"""The events of Messages in an AWS event stream, as Bedrock's `invoke-with-response-stream` has
them: each in the payload of a message, in base64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder as JsonDecoder

from dragoman import eventstream
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json
from dragoman.protocols.numbers import token_count
from dragoman.sse import Frame

MEDIA: Final = eventstream.MEDIA

_METRICS = "amazon-bedrock-invocationMetrics"
"""The member of the last event that is the service's own."""

_EXCEPTIONS: Final[Mapping[str, str]] = {
    "modelTimeoutException": "timeout_error",
    "serviceUnavailableException": "overloaded_error",
    "throttlingException": "rate_limit_error",
    "validationException": "invalid_request_error",
}
"""The error types of exceptions within a stream; of others it is `api_error`."""


class _Payload(Struct, frozen=True):
    event: bytes = field(name="bytes", default=b"")


class _Typed(Struct, frozen=True):
    type: str = ""


_payload = JsonDecoder(_Payload).decode
_typed = JsonDecoder(_Typed).decode

_BEGINNING = b'{"type":"'
_PIECE = b'{"type":"content_block_delta"'


class InvokeDecoder:
    """Turns byte chunks, cut anywhere, into frames as those of server-sent events. An exception of
    the service, and damage to the bytes, is an `error` event."""

    __slots__ = ("_is_metered", "_messages", "_of_events", "_over")

    def __init__(self) -> None:
        self._messages = eventstream.Decoder()
        self._is_metered = False
        """Whether an event with the usage of the whole answer was seen."""
        self._over = False
        self._of_events: Mapping[str, str] | None = None
        """The headers of the last message with an event."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes; return the frames they complete."""
        frames: list[Frame] = []
        for headers, payload in self._messages.feed(chunk):
            try:
                if headers is not self._of_events and not self._is_event(headers, payload, frames):
                    continue
                data = _payload(payload).event
                if data.startswith(_PIECE) and data.find(b"\n") < 0:
                    # Nearly all events: nothing of them is of interest here.
                    frames.append(Frame(b"content_block_delta", data))
                else:
                    self._read(data, frames)
            except (DecodeError, UnicodeDecodeError):
                frames.append(_error("api_error", "the payload of an event cannot be read"))
        if self._messages.damage:
            self._end(frames)
        return frames

    def finish(self) -> list[Frame]:
        """The bytes are over: a message that is not complete is an error."""
        frames: list[Frame] = []
        self._messages.finish()
        if self._messages.damage:
            self._end(frames)
        return frames

    def _end(self, frames: list[Frame]) -> None:
        if not self._over:
            self._over = True
            damage = f"the event stream is damaged: {self._messages.damage}"
            frames.append(_error("api_error", damage))

    def _is_event(self, headers: Mapping[str, str], payload: bytes, frames: list[Frame]) -> bool:
        """Whether a message has an event of the model. One with an error is taken here."""
        kind = headers.get(":message-type", "event")
        if kind != "event":
            frames.append(_failure(kind, headers, payload))
            return False
        if headers.get(":event-type") != "chunk":
            return False
        self._of_events = headers
        return True

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        if data.startswith(_BEGINNING):
            name = data[9 : data.find(b'"', 9)]
        else:
            name = _typed(data).type.encode()
            if not name:
                return
        if data.find(b"\n") >= 0:
            # Between the members of a JSON value a line feed is mere white space.
            data = data.replace(b"\n", b" ")
        if name == b"message_delta":
            self._is_metered = data.find(b'"usage"') >= 0
        elif name == b"message_stop" and _METRICS.encode() in data:
            data = self._without_metrics(data, frames)
        frames.append(Frame(name, data))

    def _without_metrics(self, data: bytes, frames: list[Frame]) -> bytes:
        """The last event as the protocol has it, after one with the service's count of tokens
        where the model gave none."""
        event = object_of(data) or {}
        metrics = event.pop(_METRICS, None)
        if not self._is_metered and isinstance(metrics, dict):
            usage = {
                "input_tokens": token_count(metrics.get("inputTokenCount")),
                "output_tokens": token_count(metrics.get("outputTokenCount")),
            }
            if None not in usage.values():
                metered = {"type": "message_delta", "delta": {}, "usage": usage}
                frames.append(_frame("message_delta", metered))
        return to_json(event)


def _failure(kind: str, headers: Mapping[str, str], payload: bytes) -> Frame:
    """The `error` event of an exception or error of the service."""
    if kind == "exception":
        name = headers.get(":exception-type", "")
        details = object_of(payload) or {}
        text = details.get("originalMessage") or details.get("message")
    else:
        name, text = headers.get(":error-code", ""), headers.get(":error-message")
    error = _EXCEPTIONS.get(name, "api_error")
    return _error(error, text if isinstance(text, str) and text else name or "an unnamed error")


def _error(kind: str, message: str) -> Frame:
    return _frame("error", {"type": "error", "error": {"type": kind, "message": message}})


def _frame(name: str, event: Mapping[str, Any]) -> Frame:
    return Frame(name.encode(), to_json(event))

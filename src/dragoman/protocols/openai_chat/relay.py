"""Pass-through of streams, byte for byte. A frame is decoded only if a search for a few byte
strings shows that it must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman import jsontext
from dragoman.canonical.errors import Fault, UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import NOTHING, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.errors import (
    error_frames,
    failure,
    is_failure,
)
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.raw import blank_pattern, blank_run
from dragoman.sse import DONE, Frame, encode, escape

_MODEL = re.compile(rb'("model"\s*:\s*)"(?:[^"\\]|\\.)*"')
"""The model's name in a chunk. Inside texts quotes are escaped, so it matches no content."""

_NEEDS_DECODING = re.compile(rb'"(?:finish_reason|usage)"\s*:\s*["{]|"error"\s*:')
"""What makes a frame worth decoding: a finish reason, usage, or an error."""

_BLANK = blank_pattern("arguments")
"""Arguments of a tool call that are nothing but white space."""


class ChatRelay:
    """Watches a stream that is passed through.

    Only two things are changed: the model's name when another is to be shown, and the usage
    chunk is left out when the client did not ask for it.
    """

    __slots__ = (
        "_blank_finish",
        "_finished",
        "_model",
        "_wants_usage",
        "answer_id",
        "begun",
        "blank",
        "ended",
        "fault",
        "usage",
    )

    def __init__(
        self, model: str | None, include_usage: bool, shown: Mapping[str, Any] = NOTHING
    ) -> None:
        self._model = None if model is None else b"\\1" + _as_replacement(model)
        self._wants_usage = include_usage
        self._finished = False
        self._blank_finish = False
        self.begun = False
        self.blank = 0
        self.answer_id = ""
        self.usage: Usage | None = None
        self.ended = False
        self.fault: Fault | None = None

    def relay(self, frame: Frame) -> bytes:
        """The bytes to pass on."""
        if self.ended or self.fault is not None:
            return b""
        data = frame.data
        if data.startswith(DONE):
            if not self._finished and not self._blank_finish:
                return self._unfinished()
            self.ended = True
            return encode(DONE)
        if not self.begun:
            self.begun = _holds_content(_decoded(data))
        if b'"arguments"' in data:
            self.blank = blank_run(self.blank, _BLANK, data)
        elif self.blank:
            self.blank = 0
        after = b""
        if _NEEDS_DECODING.search(data) is not None or frame.event == b"error":
            chunk = _decoded(data)
            if not self._is_shown(chunk):
                return b""
            after = self._check(chunk, frame.event)
        raw = encode(data) if frame.event else frame.raw  # Chat's events have no names
        if self._model is not None:
            raw = _MODEL.sub(self._model, raw, 1)
        return raw + after if after else raw

    def finish(self) -> bytes:
        """The bytes are over: the terminator, which some servers leave out; or an error, if
        the model had not finished."""
        if self.ended or self.fault is not None:
            return b""
        if not self._finished:
            return self._unfinished()
        self.ended = True
        return encode(DONE)

    def fail(self, fault: Fault) -> bytes:
        """The stream is cut short: the error, and the terminator."""
        self.fault = fault
        return error_frames(fault)

    def _is_shown(self, chunk: JsonObject) -> bool:
        """Note the usage; False if the chunk is there only for a usage nobody asked for."""
        usage = chunk.get("usage")
        if type(usage) is not dict:
            return True
        self.usage = read_usage(usage, tier=chunk.get("service_tier"))
        return self._wants_usage or bool(chunk.get("choices"))

    def _check(self, chunk: JsonObject, event: bytes) -> bytes:
        """Note how the answer ends; return what has to follow the chunk if it failed."""
        error = chunk.get("error")
        if error or event == b"error":
            self.fault = fault_of(error or chunk)
            return encode(DONE)  # the upstream's own terminator may never come
        choices = chunk.get("choices")
        for choice in choices if type(choices) is list else ():
            reason = choice.get("finish_reason") if type(choice) is dict else None
            if reason == "":
                delta = choice.get("delta")
                self._blank_finish = type(delta) is not dict or not any(delta.values())
            elif reason and is_failure(reason):
                return self.fail(failure(reason))
            elif reason:
                self._finished = True
        return b""

    def _unfinished(self) -> bytes:
        return self.fail(UpstreamError.unreadable("it ends before the model finished").fault)


def _holds_content(chunk: JsonObject) -> bool:
    """Whether a chunk holds something of an answer besides the role that gives it."""
    choices = chunk.get("choices")
    for choice in choices if type(choices) is list else ():
        delta = choice.get("delta") if type(choice) is dict else None
        if type(delta) is dict and any(delta[name] for name in delta if name != "role"):
            return True
    return False


def _as_replacement(model: str) -> bytes:
    return escape(to_json(model)).replace(b"\\", b"\\\\")


def _decoded(data: bytes) -> JsonObject:
    return jsontext.object_of(data) or {}

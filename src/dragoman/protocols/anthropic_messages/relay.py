"""Pass-through of streams, byte for byte; only the model's name changes where the client is to
see another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman import jsontext
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.anthropic_messages.errors import error_event, fault_of
from dragoman.protocols.anthropic_messages.repetition import index_of, is_said_again
from dragoman.protocols.anthropic_messages.usage import merge_usage, read_usage
from dragoman.protocols.base import NOTHING, to_json
from dragoman.protocols.error_body import is_readable, is_typed, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import failure, is_failure, told
from dragoman.protocols.raw import blank_pattern, blank_run
from dragoman.sse import Frame, encode

_BLANK = blank_pattern("partial_json")
"""Arguments of a tool call that are nothing but white space."""


class MessagesRelay:
    """Watches a stream that is passed on; see `base.Relay`."""

    __slots__ = (
        "_counts",
        "_heads",
        "_id",
        "_is_moved",
        "_model",
        "_next",
        "_request_id",
        "_unspelt",
        "answer_id",
        "begun",
        "blank",
        "ended",
        "fault",
        "reason",
        "usage",
    )

    thinks = False  # its thoughts are signed, or have places
    untold = 0

    def __init__(
        self,
        model: str | None,
        include_usage: bool = True,
        shown: Mapping[str, Any] = NOTHING,
        request_id: str = "",
        choices: int = 1,
    ) -> None:
        self._model = model
        self._request_id = request_id
        self._counts: JsonObject = {}
        self._heads: dict[int, tuple[JsonObject, int]] = {}
        """The start of the latest block at each index, and the index that it is shown at."""
        self._unspelt: JsonObject | None = None
        """The start of the block that began last, until a piece of a call came."""
        self._id = ""
        self._next = 0
        """The index after all that were shown."""
        self._is_moved = False
        """Whether any block is shown at another index than its own."""
        self.begun = False
        self.blank = 0
        self.answer_id = ""
        self.usage: Usage | None = None
        self.ended = False
        self.reason = ""
        self.fault: Fault | None = None

    def relay(self, frame: Frame) -> bytes:
        """The bytes to pass on. Nothing follows the end."""
        if self.ended or self.fault is not None:
            return b""
        if not frame.event:
            if not frame.data.strip():
                return b""
            # Clients ignore events without a name.
            name = _type_of(frame.data)
            frame = Frame(name, frame.data, encode(frame.data, name))
        name = frame.event
        if name == b"content_block_delta":
            if self._is_moved:
                frame = self._placed(frame)
            if not self.begun:
                self.begun = _has_content(_decoded(frame.data).get("delta"))
            if frame.data.find(b'"partial_json"') >= 0:
                self.blank = blank_run(self.blank, _BLANK, frame.data)
                self._unspelt = None
            return frame.raw
        if name == b"message_start":
            return self._start(frame)
        if name == b"content_block_start":
            return self._begin_block(frame)
        if name == b"content_block_stop":
            self.blank = 0
            frame = self._placed(frame, is_over=True)
        elif name == b"message_delta":
            self._note(frame.data, ())
        elif name == b"message_stop":
            if is_failure(self.reason):
                return self.fail(failure(self.reason))
            if not self.reason:
                # As in translated streams: it may have been cut off behind a proxy that closes it.
                return self.fail(UpstreamError.unreadable("it ends without a reason").fault)
            self.ended = True
        elif name == b"error" or not is_typed(name.decode(errors="replace")):
            event = _decoded(frame.data)
            error = stray_error(event)
            if is_readable(error) and error is event.get("error"):
                self.fault = fault_of(error)
            elif error is not None or name:
                return self.fail(fault_of(error))
        return frame.raw

    def finish(self) -> bytes:
        """The bytes are over."""
        if self.ended or self.fault is not None:
            return b""
        message = "The upstream's answer is unusable: it ends before message_stop"
        return self.fail(Fault(FaultKind.UPSTREAM_FAILED, message, code="upstream_error"))

    def fail(self, fault: Fault) -> bytes:
        """End the stream with an error event."""
        self.fault = fault
        return error_event(fault, self._request_id)

    def _start(self, frame: Frame) -> bytes:
        message = self._note(frame.data, ("message",))
        name = message.get("id") if isinstance(message, dict) else None
        if self.begun and isinstance(name, str) and name not in ("", self._id):
            # Clients would put the two together.
            return self.fail(UpstreamError.unreadable("a second message begins in it").fault)
        self._id = name if isinstance(name, str) else ""
        if self._model is None:
            return frame.raw
        try:
            event = jsontext.members(frame.data)
            message = jsontext.members(event["message"])
        except (JsonError, KeyError):
            return frame.raw
        shown: JsonObject = {**event, "message": {**message, "model": self._model}}
        return b"event: message_start\ndata: " + to_json(shown) + b"\n\n"

    def _begin_block(self, frame: Frame) -> bytes:
        """A block begins: under an index of its own, for clients put together what has one index.
        Nothing of a start that is said again."""
        event = _decoded(frame.data)
        index, block = index_of(event, self._next), event.get("content_block")
        if not self.begun:
            self.begun = _has_content(block)
        if type(block) is not dict:
            return frame.raw
        before = self._heads.get(index)
        if before is not None:
            fresh = before[0] is self._unspelt or before[0].get("type") != "tool_use"
            if is_said_again(before[0], block, fresh):
                return b""
        shown = index if before is None and index >= self._next else self._next
        self._next = shown + 1
        self._unspelt = block
        self._heads[index] = block, shown
        if shown == event.get("index"):
            return frame.raw
        self._is_moved = True
        data = to_json({**event, "index": shown})
        return encode(data, frame.event)

    def _placed(self, frame: Frame, *, is_over: bool = False) -> Frame:
        """A piece or the end of a block under the index at which the block is shown."""
        event = _decoded(frame.data)
        index = index_of(event, next(reversed(self._heads), 0))
        head = self._heads.get(index)
        if head is not None and is_over:
            self._heads[index] = _OVER, head[1]
        if head is None or head[1] == event.get("index"):
            return frame
        data = to_json({**event, "index": head[1]})
        return Frame(frame.event, data, encode(data, frame.event))

    def _note(self, data: bytes, path: tuple[str, ...]) -> Any:
        """Remember the usage of an event, at `path` inside it, and the reason it tells. Returns
        what stands there."""
        value: Any = _decoded(data)
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        delta = value.get("delta", value) if isinstance(value, dict) else None
        if isinstance(delta, dict) and told(delta.get("stop_reason")):
            self.reason = str(delta["stop_reason"])
        usage = value.get("usage") if isinstance(value, dict) else None
        if isinstance(usage, dict) and usage:
            merge_usage(self._counts, usage)
            self.usage = read_usage(self._counts)
        return value


_OVER: JsonObject = {}
"""In place of the start of a block that is over."""

_TEXTS = frozenset({"text", "thinking"})


def _has_content(part: Any) -> bool:
    """Whether a block's head or a delta holds something of an answer: anything but a text or
    thinking that is still empty."""
    if not isinstance(part, dict):
        return False
    kind = str(part.get("type"))
    if kind in _TEXTS or kind.endswith("_delta"):
        return any(value for name, value in part.items() if name != "type")
    return True


def _type_of(data: bytes) -> bytes:
    """The type of an event whose server left out its name."""
    kind = _decoded(data).get("type")
    return kind.encode() if isinstance(kind, str) else b""


def _decoded(data: bytes) -> JsonObject:
    return jsontext.object_of(data) or {}

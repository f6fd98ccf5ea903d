"""Pass-through of streams, byte for byte. A frame is decoded only if a search for a few byte
strings shows that it must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman import jsontext
from dragoman.canonical.errors import Fault, UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.base import NOTHING, to_json
from dragoman.protocols.error_body import is_readable, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import failure, is_failure
from dragoman.protocols.openai_chat.errors import error_frames
from dragoman.protocols.openai_chat.relayed_calls import RelayedCalls
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_chat.whole_message import Said, WholeCalls, numbered
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.raw import blank_pattern, blank_run
from dragoman.sse import DONE, Frame, encode, escape

_MODEL = re.compile(rb'("model"\s*:\s*)("(?:[^"\\]|\\.)*")')
"""The model's name in a chunk. Inside texts quotes are escaped, so it matches no content."""

_NEEDS_DECODING = re.compile(
    rb'"(?:finish_reason"\s*:\s*["{]|usage"\s*:\s*["{]|error"\s*:|message"\s*:'
    rb'|index"\s*:\s*[1-9]|name"\s*:\s*"[^"]|delta"\s*:\s*")'
)
"""What makes a frame with choices worth decoding: a finish reason, usage, an error, a message where
a delta belongs, a choice (else a tool call) that is not the first, the name of a tool that is
called, or a text in place of a delta."""

_DELTA_TEXT = re.compile(rb'"delta"\s*:\s*"')

_BLANK = blank_pattern("arguments")
"""Arguments of a tool call that are nothing but white space."""

_CONTENT = b'"content":"'
"""What stands before the text of a chunk, as it is commonly written."""

_MOST_UNALIKE = 8
"""Chunks that are remembered to compare others with: where they differ in more than their text, all
are looked at."""

_TEXT = re.compile(rb'"content"\s*:\s*"[^"]')
"""A text that is not empty."""

_SPOKEN = re.compile(
    rb'"(?:(?:content|refusal)"\s*:\s*(?:"[^"]|[\[{])|tool_calls"\s*:\s*\[\s*[^\]\s]'
    rb'|function_call"\s*:\s*\{|audio"\s*:\s*\{|reasoning_details"|message"\s*:)'
)
"""What is more than a thought in plain text: an answer, or a thought that may be signed."""

_REASONING = frozenset({"role", "reasoning", "reasoning_content", "reasoning_details", "refusal"})

_NO_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*""')


class ChatRelay:
    """Watches a stream that is passed through.

    Only two things are changed: the model's name when another is to be shown, and the usage
    chunk is left out when the client did not ask for it.
    """

    __slots__ = (
        "_asked",
        "_before",
        "_behind",
        "_blank",
        "_calls",
        "_choices",
        "_finished",
        "_has_no_deltas",
        "_head",
        "_id",
        "_id_repeats",
        "_is_odd",
        "_likely_alike",
        "_messages",
        "_name",
        "_new_head",
        "_says_null",
        "_shown",
        "_spoken",
        "_texts",
        "_tier",
        "_wants_usage",
        "answer_id",
        "begun",
        "blank",
        "ended",
        "fault",
        "reason",
        "usage",
    )

    def __init__(
        self,
        model: str | None,
        include_usage: bool,
        shown: Mapping[str, Any] = NOTHING,
        request_id: str = "",
        choices: int = 1,
    ) -> None:
        self._shown = model
        self._name = b"" if model is None else escape(to_json(model))
        """The model's name as chunks are to have it; empty if they have it, or any will do."""
        self._head = self._new_head = b""
        """How the last chunk began whose model was renamed, and how it was passed on."""
        self._wants_usage = include_usage
        self._id = ""
        self._id_repeats: bool | None = None
        """Whether the chunks have one id, once that is known."""
        self._finished: set[int] = set()
        """Indexes of the choices that finished."""
        self._asked = choices
        self._choices = {0}
        """Indexes of those that came, and of the first."""
        self._blank: set[int] = set()
        """Indexes of those whose last chunk was an empty one with an empty finish reason."""
        self._calls = RelayedCalls()
        self._messages: dict[int, tuple[Said, WholeCalls]] = {}
        """What whole messages said in place of deltas, by the index of their choice."""
        self._is_odd = False
        """Whether every frame has to be decoded."""
        self._before = self._behind = b""
        """What stands before and behind the text of a chunk that was passed on without a look."""
        self._likely_alike = _MOST_UNALIKE
        self._says_null = False
        """Whether finish reasons that are none are a word."""
        self._has_no_deltas = False
        """Whether messages or texts stand where deltas belong."""
        self._tier: Any = None
        """The service tier that the first chunks tell."""
        self._texts = False
        """Whether a text was passed on."""
        self._spoken = choices > 1
        """Whether more than a thought in plain text came."""
        self.begun = False
        self.blank = 0
        self.answer_id = ""
        self.reason = ""
        self.usage: Usage | None = None
        self.ended = False
        self.fault: Fault | None = None

    def relay(self, frame: Frame) -> bytes:
        """The bytes to pass on."""
        if self.ended or self.fault is not None:
            return b""
        data = frame.data
        before = self._before
        if (
            before
            and data.startswith(before)
            and data.endswith(self._behind)
            and data.find(b'"', len(before), len(data) - len(self._behind)) < 0
            and not frame.event
        ):
            # Nothing but the text differs from a chunk that was passed on.
            self.blank = 0
            raw, head = frame.raw, self._head
            if not self._name:
                return raw
            if head and raw.startswith(head):
                return self._new_head + raw[len(head) :]
        if data.startswith(DONE):
            if not self._choices <= self._finished | self._blank:
                return self._unfinished()
            self.ended = True
            return encode(DONE)
        begun = self.begun
        if not begun:
            chunk = _decoded(data)
            self._tier = chunk.get("service_tier") or self._tier
            name = _text(chunk.get("id"))
            if self._id and name and self._id_repeats is None:
                self._id_repeats = name == self._id
            self._id = self._id or name
            self.begun = self._holds_content(chunk)
        elif self._begins_again(data):
            return self.fail(UpstreamError.unreadable("a second answer begins in it").fault)
        arguments = data.find(b'"arguments"') >= 0
        if arguments:
            self.blank = blank_run(self.blank, _BLANK, data)
        elif self.blank:
            self.blank = 0
        after = b""
        if (
            _NEEDS_DECODING.search(data) is not None
            or data.find(b'"choices"') < 0
            or self._is_odd
            or frame.event == b"error"
        ):
            chunk = _decoded(data)
            if not self._is_shown(chunk) or not (chunk or data.strip() or frame.event == b"error"):
                return b""
            if self._is_error(chunk, frame.event):
                return self._error(chunk, frame)
            after = self._check(chunk)
            changed = chunk if self._says_null else None
            try:
                if self._has_no_deltas or b'"message"' in data or _DELTA_TEXT.search(data):
                    changed = self._streamed(chunk, begun) or changed
                if self._calls.renumber(changed or chunk):
                    changed = changed or chunk
            except UpstreamError as error:
                return self.fail(error.fault)
            self._is_odd = self._calls.moved or self._has_no_deltas or bool(self._blank)
            if self._is_odd:
                self._before, self._likely_alike = b"", 0
            if changed is not None:
                data = to_json(changed)
                frame = Frame(b"", data, encode(data))
        elif arguments:
            if _NO_ARGUMENTS.search(data) is None:
                self._calls.pass_on(data)
        elif self._likely_alike and self.begun:
            self._remember(data)
        raw = encode(data) if frame.event else frame.raw  # Chat's events have no names
        if not self._spoken and _SPOKEN.search(data) is not None:
            self._spoken = True
        if not self._texts and self._spoken and _TEXT.search(data) is not None:
            self._texts = True
        if self._head and raw.startswith(self._head):
            # Chunks begin alike, up to the model's name and beyond.
            raw = self._new_head + raw[len(self._head) :]
        elif self._name:
            raw = self._renamed(data, raw)
        return raw + after if after else raw

    def _begins_again(self, data: bytes) -> bool:
        """Whether a chunk is the first of another answer: clients would put the two together. With
        some servers each chunk has an id of its own."""
        if self._id_repeats is None:
            self._id_repeats = self._id != "" and data.find(self._id.encode()) >= 0
        if not self._id_repeats or data.find(b'"role"') < 0:
            return False
        chunk = _decoded(data)
        name, choices = _text(chunk.get("id")), chunk.get("choices")
        if name in ("", self._id) or type(choices) is not list:
            return False
        deltas = [choice.get("delta") for choice in choices if type(choice) is dict]
        return any(type(delta) is dict and delta.get("role") for delta in deltas)

    def _remember(self, data: bytes) -> None:
        """A chunk of text needed no look: one that differs in nothing else needs none either."""
        start = data.find(_CONTENT) + len(_CONTENT)
        end = data.find(b'"', start)
        if start < len(_CONTENT) or end < 0 or data.find(b"\\", start, end) >= 0:
            return
        self._texts = self._texts or end > start
        if not self._texts:
            return
        self._before, self._behind = data[:start], data[end:]
        self._likely_alike -= 1

    def _renamed(self, data: bytes, raw: bytes) -> bytes:
        """The frame with the model's name that is to be shown."""
        found = _MODEL.search(raw)
        if found is None:
            return raw
        if raw.find(b"{", raw.find(b"{") + 1, found.start()) >= 0:
            # The first of that name may be inside of another member.
            try:
                members = jsontext.members(data)
            except JsonError:
                return raw
            if "model" not in members:
                return raw
            return encode(to_json({**members, "model": self._shown}))
        if found[2] == self._name:
            # The upstream says it as the client does: in all chunks, since it is of the answer.
            self._name = b""
            return raw
        self._head = raw[: found.end()]
        self._new_head = raw[: found.start(2)] + self._name
        return self._new_head + raw[found.end() :]

    def _said(self) -> frozenset[str]:
        """The members that a whole message has only as a repetition of the deltas before it."""
        if self._asked > 1 or len(self._choices) > 1:
            return frozenset()
        calls = {"tool_calls", "function_call"} if self._calls else set()
        return _REASONING | calls | ({"content"} if self._texts else set())

    def _holds_content(self, chunk: JsonObject) -> bool:
        """Whether a chunk begins the answer; note whether it does so with a delta."""
        choices = chunk.get("choices")
        for choice in choices if type(choices) is list else ():
            if type(choice) is not dict:
                continue
            delta = choice.get("delta")
            if _is_filled(delta):
                return True
            if not delta and (_is_filled(choice.get("message")) or choice.get("text")):
                self._is_odd = self._has_no_deltas = True
                return True
        return False

    def _streamed(self, chunk: JsonObject, begun: bool) -> JsonObject | None:
        """A chunk that has a whole message where its delta belongs, as clients read it; None of any
        other."""
        choices = chunk.get("choices")
        if self._messages:
            self._check_deltas(choices)
        if type(choices) is not list or not any(map(_is_whole, choices)):
            return None
        said = self._said() if begun else frozenset()
        return {
            **chunk,
            "object": "chat.completion.chunk",
            "choices": [
                self._with_delta(choice, said) if _is_whole(choice) else choice
                for choice in choices
            ],
        }

    def _check_deltas(self, choices: Any) -> None:
        """Raises UpstreamError: a choice goes on with deltas, of which messages said the first."""
        for choice in choices if type(choices) is list else ():
            index = choice.get("index") if type(choice) is dict else None
            if (index or 0) in self._messages and _is_filled(choice.get("delta")):
                raise UpstreamError.unreadable("deltas go on after a whole message")

    def _with_delta(self, choice: JsonObject, said: frozenset[str]) -> JsonObject:
        """A choice with a delta that has what its message says beyond `said` and what the messages
        before it said.

        Raises:
            UpstreamError: it says something else.
        """
        kept = {name: value for name, value in choice.items() if name not in ("message", "text")}
        message = choice.get("message")
        if type(choice.get("delta")) is str:
            return {**kept, "delta": {"content": choice["delta"]}}
        if not message and (self._has_no_deltas or not said):
            return {**kept, "delta": {"content": _text(choice.get("text"))}}
        if type(message) is not dict:
            message = {"content": message or choice.get("text")}
        message, index = numbered(message), choice.get("index")
        index = index if type(index) is int else 0
        known = self._messages.get(index)
        if known is None and said:
            more: JsonObject = {name: message[name] for name in message if name not in said}
            if "tool_calls" in said:
                more["tool_calls"] = self._calls.after(index, message.get("tool_calls"))
            # What it has beyond them stays where it is: the texts of deltas are not kept.
            return {**choice, "delta": {name: value for name, value in more.items() if value}}
        before, calls = self._messages.setdefault(index, (Said(), WholeCalls()))
        message = before.rest(message, {}, calls)
        before.add(message)
        return {**kept, "delta": message}

    def _is_finished(self) -> bool:
        """Whether every choice finished, also those that were asked for and did not come yet. Only
        the upstream's own terminator says that there are no more: many servers know no `n`."""
        return len(self._finished) >= self._asked and self._choices <= self._finished

    @property
    def thinks(self) -> bool:
        """See `Relay`."""
        return self.begun and not self._spoken and not self._has_no_deltas

    def finish(self) -> bytes:
        """The bytes are over: the terminator, which some servers leave out; or an error, if
        the model had not finished."""
        if self.ended or self.fault is not None:
            return b""
        if not self._is_finished():
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
        self.usage = read_usage(usage, tier=chunk.get("service_tier") or self._tier)
        return self._wants_usage or bool(chunk.get("choices"))

    def _is_error(self, chunk: JsonObject, event: bytes) -> bool:
        """Whether a frame tells of an error in place of an answer."""
        return event == b"error" or stray_error(chunk, "choices", "usage") is not None

    def _error(self, chunk: JsonObject, frame: Frame) -> bytes:
        """The error that ends the stream: as it came, if clients can read it."""
        error = chunk.get("error")
        if not is_readable(error):
            return self.fail(fault_of(stray_error(chunk)))
        self.fault = fault_of(error)
        # The upstream's own terminator may never come.
        return encode(frame.data) + encode(DONE)

    def _check(self, chunk: JsonObject) -> bytes:
        """Note how the answer ends; return what has to follow the chunk if it failed."""
        choices = chunk.get("choices")
        for choice in choices if type(choices) is list else ():
            if type(choice) is not dict:
                continue
            reason, index = choice.get("finish_reason"), choice.get("index")
            index = index if type(index) is int else 0
            self._choices.add(index)
            self._blank.discard(index)
            if reason == "":
                delta = choice.get("delta")
                if type(delta) is not dict or not any(delta.values()):
                    self._blank.add(index)
            elif reason == "null":
                choice["finish_reason"] = None
                self._says_null = True
            elif reason and is_failure(reason):
                return self.fail(failure(reason))
            elif reason:
                self._finished.add(index)
                self.reason = _text(reason)
        return b""

    def _unfinished(self) -> bytes:
        return self.fail(UpstreamError.unreadable("it ends before the model finished").fault)


def _is_filled(delta: Any) -> bool:
    """Whether a delta holds something of an answer besides the role that gives it."""
    if type(delta) is str:
        return bool(delta)
    return type(delta) is dict and any(delta[name] for name in delta if name != "role")


def _is_whole(choice: Any) -> bool:
    if type(choice) is not dict:
        return False
    delta, message = choice.get("delta"), choice.get("message")
    if delta:
        return type(delta) is str
    return type(message) is dict or bool(_text(message) or _text(choice.get("text")))


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _decoded(data: bytes) -> JsonObject:
    return jsontext.object_of(data) or {}

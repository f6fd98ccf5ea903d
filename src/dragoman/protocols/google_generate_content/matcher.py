"""Matches answers that are passed through with what the protocol allows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman import jsontext
from dragoman.canonical.requests import Extra
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.google_generate_content.answer_shapes import (
    ANSWER,
    Answer,
    Call,
    Candidate,
    Part,
    is_empty,
)
from dragoman.protocols.google_generate_content.errors import fault_of, is_own_error
from dragoman.protocols.google_generate_content.finish import OF_REQUEST
from dragoman.protocols.google_generate_content.usage import merge_usage, read_usage
from dragoman.protocols.matching import Read, Run, Watch
from dragoman.sse import Frame, encode

_HEAD = b'{"candidates":[{"content":{"role":"model","parts":[{'
_TAIL = b'"}]}}]}'
_TEXT = _HEAD + b'"text":"'
_THOUGHT = _HEAD + b'"thought":true,"text":"'


_VERSION = b',"modelVersion":'
_NAMED_LAST = re.compile(_VERSION + rb'("[^"\\]*")(?:,"\w+":"[^"\\]*")*\}')
"""The model's name and what follows it, where that is in nothing but the chunk itself."""


def _exact(data: bytes) -> Answer | None:
    """What `data` is exactly, but for unknown members without content; None of anything else."""
    extras: list[Extra] = []
    found = ANSWER.exact(data, extras)
    if found is None or not extras:
        return found
    is_read = any(extra.path.rpartition(".")[2] in _READ for extra in extras)
    return None if is_read else found


_READ = SPEAKING | {"error"}


def _is_refused(candidate: Candidate) -> bool:
    """Whether it ended with an error about the request or the account."""
    return candidate.finish_reason in OF_REQUEST


def _parts_of(candidate: Candidate) -> list[Part]:
    return (candidate.content and candidate.content.parts) or []


def _calls_of(candidates: Iterable[Candidate]) -> list[Call]:
    return [
        part.function_call
        for candidate in candidates
        for part in _parts_of(candidate)
        if part.function_call is not None
    ]


def _are_calls(calls: Iterable[Call], ids: set[str]) -> bool:
    """Whether clients can answer all calls: each has a name and, if any, an id of its own, which is
    added to those before. One in pieces, which the client has asked for, has them once."""
    for call in calls:
        if call.partial_args or call.will_continue:
            continue
        if call.id in ids or not (call.name or is_empty(call)):
            return False
        if call.id:
            ids.add(call.id)
    return True


def _says(part: Part) -> bool:
    """Whether a part has content."""
    if part.text is not None:
        return bool(part.text) or part.thought_signature is not None
    return True


class GoogleMatcher(Watch):
    """The matcher of generateContent; see `base.Matcher`. Only the model name changes in exact
    events."""

    __slots__ = ("_counts", "_ends", "_ids", "_model", "_passed", "_started", "_waits")

    def __init__(
        self,
        model: str | None,
        include_usage: bool = True,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
    ) -> None:
        super().__init__()
        self._model = model
        self._counts: JsonObject = {}
        self._passed: list[Frame | Run] = []
        """What was passed on: chunks as received, or the text of several that have nothing else."""
        self._ids: set[str] = set()
        """The ids of the calls so far."""
        self._started = False
        self._waits: set[int] = set()
        """The candidates that have not ended."""
        self._ends = False
        """Whether a reason was given, or the prompt was blocked."""

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the event is not exact."""
        data = frame.data
        if frame.event:
            return None
        answer = _exact(data)
        if answer is None:
            return self._failed(frame)
        candidates = answer.candidates or []
        if any(map(_is_refused, candidates)) or not _are_calls(_calls_of(candidates), self._ids):
            return None
        for candidate in candidates:
            self._take(candidate)
        if answer.prompt_feedback is not None and answer.prompt_feedback.block_reason:
            self._ends = True
            self.reason = self.reason or "SAFETY"
        if answer.usage_metadata:
            merge_usage(self._counts, answer.usage_metadata)
            self.usage = read_usage(self._counts)
        self._record(answer, frame)
        return self._shown(answer, frame)

    def _failed(self, frame: Frame) -> bytes | None:
        """An error in the stream, in the form that clients read."""
        value = jsontext.object_of(frame.data)
        error = None if value is None else value.get("error")
        if value is None or value.keys() != {"error"} or type(error) is not dict:
            return None
        if not is_own_error(frame.data):
            return None
        self.fault = fault_of(error)
        return frame.raw

    def _take(self, candidate: Candidate) -> None:
        index = candidate.index or 0
        if candidate.finish_reason:
            self._waits.discard(index)
            self._ends = True
            self.reason = candidate.finish_reason
        elif candidate.content is not None:
            self._waits.add(index)
        for part in _parts_of(candidate):
            self.begun = self.begun or _says(part)
            self.text_bytes += len((part.text or "").encode(errors="replace"))
            if part.function_call is not None:
                self.text_bytes += len(bytes(part.function_call.args))

    def _record(self, answer: Answer, frame: Frame) -> None:
        text = _only_text(answer) if self._started else None
        if text is None:
            self._started = True
            self._passed.append(frame)
            return
        head = _THOUGHT if text.thought else _TEXT
        last = self._passed[-1]
        if not isinstance(last, Run) or last.head != head:
            last = Run(head, _TAIL)
            self._passed.append(last)
        last.add(text.text or "")

    def _shown(self, answer: Answer, frame: Frame) -> bytes:
        """The event with the client's name of the model."""
        if self._model is None or answer.model_version in (None, self._model):
            return frame.raw
        at = frame.data.rfind(_VERSION)
        if at >= 0 and (found := _NAMED_LAST.fullmatch(frame.data, at)) is not None:
            start, end = found.span(1)
            return encode(frame.data[:start] + to_json(self._model) + frame.data[end:])
        name = "modelVersion"
        members = jsontext.members(frame.data)
        if name not in members:
            name = "model_version"
        return encode(to_json({**members, name: self._model}))

    def finish(self) -> bytes | None:
        """Handle the end of the bytes, which is that of the answer if its reason was given."""
        self.ended = self._ends and not self._waits
        return b"" if self.ended else None

    def hand_over(self, read: Read, writer: AnswerWriter) -> None:
        """Feed the passed events to the reader. The writer has no state but that of the events."""
        for passed in self._passed:
            read(passed.frame() if isinstance(passed, Run) else passed)
        if self._counts:
            read(Frame(b"", to_json({"usageMetadata": self._counts})))


def _only_text(answer: Answer) -> Part | None:
    """The part of a chunk that is one piece of text, and nothing else that a reader needs."""
    candidates = answer.candidates
    if candidates is None or len(candidates) != 1 or answer.prompt_feedback is not None:
        return None
    candidate = candidates[0]
    content, index = candidate.content, candidate.index
    if index or content is None or candidate != Candidate(content=content, index=index):
        return None
    parts = content.parts or ()
    if len(parts) != 1 or not parts[0].text:
        return None
    part = parts[0]
    return part if part == Part(text=part.text, thought=part.thought) else None


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`."""
    answer = _exact(body)
    if answer is None:
        return None
    candidates = answer.candidates or []
    feedback = answer.prompt_feedback
    reasons = [candidate.finish_reason for candidate in candidates]
    if not candidates and (feedback is None or not feedback.block_reason):
        return None
    if not all(reasons) or any(map(_is_refused, candidates)):
        return None
    counts = answer.usage_metadata
    usage = read_usage(counts) if counts else None
    if not _are_calls(_calls_of(candidates), set()):
        return None
    parts = [part for candidate in candidates for part in _parts_of(candidate)]
    text_bytes = 0 if usage and usage.output else sum(map(_text_bytes, parts))
    if answer.model_version not in (None, model):
        members = jsontext.members(body)
        name = "modelVersion" if "modelVersion" in members else "model_version"
        body = to_json({**members, name: model})
    return Passed(body, usage, str(reasons[0]) if reasons else "SAFETY", text_bytes)


def _text_bytes(part: Part) -> int:
    """The bytes of text in a part."""
    call = part.function_call
    args = 0 if call is None else len(bytes(call.args)) + len(call.name or "")
    return args + len((part.text or "").encode(errors="replace"))

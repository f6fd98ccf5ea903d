"""Matches answers that are passed through with what the protocol allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.requests import Extra
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.fields import SPEAKING
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.answer_shapes import (
    ANSWER,
    EVENT,
    Event,
    Step,
)
from dragoman.protocols.google_interactions.errors import END, fault_of
from dragoman.protocols.google_interactions.stream_writer import InteractionsWriter
from dragoman.protocols.google_interactions.usage import read_usage
from dragoman.protocols.matching import Read, Run, Watch
from dragoman.protocols.raw import join_object, split_object
from dragoman.sse import DONE, Frame, encode

_ENDS: Final = frozenset(
    {"completed", "requires_action", "incomplete", "budget_exceeded", "requires_continuation"}
)
"""The status of interactions that are answers, and over."""
_REASONS: Final = {
    "requires_action": "tool_calls",
    "budget_exceeded": "incomplete",
    "requires_continuation": "incomplete",
}
"""Finish reasons for a status that is none."""


def _says(extras: list[Extra]) -> bool:
    """Whether unknown members may have content, or an error."""
    return any(extra.path.rpartition(".")[2] in _READ for extra in extras)


_READ = SPEAKING | {"error", "errors"}


class InteractionsMatcher(Watch):
    """The matcher of a stream; see `base.Matcher`. Only the model name and members that are shown
    to the client change in exact events."""

    __slots__ = ("_count", "_index", "_is_completed", "_model", "_passed", "_shown")

    def __init__(
        self,
        model: str | None,
        include_usage: bool = True,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
    ) -> None:
        super().__init__()
        self._model = model
        self._shown = shown
        self._count = 0
        self._index = -1
        """Index of the last step that began."""
        self._is_completed = False
        self._passed: list[Frame | Run] = []
        """What was passed on: events as received, or the text of several pieces."""

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the event is not exact."""
        if frame.data == DONE:
            self.ended = self._is_completed
            return frame.raw if self.ended else None
        if self._is_completed:
            return b""
        extras: list[Extra] = []
        event = EVENT.exact(frame.data, extras)
        if event is None or _says(extras) or not self._takes(event):
            return None
        self._count += 1
        if not _is_text(event) or not self._joins(event):
            self._passed.append(frame)
        return self._changed(event, frame)

    def _takes(self, event: Event) -> bool:
        """Take note of an event. Whether it is one that may be passed on."""
        usage = event.usage
        match event.event_type:
            case "step.start" if event.step is not None:
                self._index = event.index
                self.begun = self.begun or _has_content(event.step)
            case "step.delta" if event.delta is not None:
                delta, arguments = event.delta, bytes(event.delta.arguments)
                text = delta.text or (delta.content and delta.content.text) or ""
                self.begun = self.begun or delta.type != "text" or bool(text)
                self.text_bytes += len(text.encode(errors="replace")) + len(arguments)
                usage = (event.metadata or {}).get("total_usage")
            case "step.stop" | "interaction.status_update":
                pass
            case "interaction.created" if event.interaction is not None:
                self.answer_id = event.interaction.id or self.answer_id
            case "interaction.completed" if event.interaction is not None:
                answer = event.interaction
                if answer.status not in _ENDS or answer.errors:
                    return False
                self.reason = _REASONS.get(answer.status, answer.status)
                self._is_completed, usage = True, answer.usage
            case "error" if event.error is not None and type(event.error.get("code")) is str:
                if event.error["code"] in wire.BLOCKED or "message" not in event.error:
                    return False
                self.fault = fault_of(event.error)
            case _:
                return False
        self.usage = read_usage(usage) or self.usage
        return True

    def _joins(self, event: Event) -> bool:
        """Add a piece of text to the last one, if it continues that."""
        assert event.delta is not None
        head = (
            b'{"event_type":"step.delta","index":%d,"delta":{"type":"text","text":"' % event.index
        )
        last = self._passed[-1] if self._passed else None
        if not isinstance(last, Run) or last.head != head:
            last = Run(head, b'"}}')
            self._passed.append(last)
        last.add(event.delta.text or "")
        return True

    def _changed(self, event: Event, frame: Frame) -> bytes:
        """The event with the client's name of the model."""
        answer, name = event.interaction, self._shown.get("id")
        if answer is None and (name is None or event.interaction_id is None):
            return frame.raw
        members = split_object(Raw(frame.data)) or {}
        if answer is None:
            return encode(to_json({**members, "interaction_id": name}), frame.event)
        inner = _with_shown(split_object(members["interaction"]) or {}, self._model, self._shown)
        if inner is None:
            return frame.raw
        return encode(to_json({**members, "interaction": join_object(inner)}), frame.event)

    def finish(self) -> bytes | None:
        """Handle the end of the bytes: some services leave the last frame out."""
        if not self._is_completed:
            return None
        if self.ended:
            return b""
        self.ended = True
        return END

    def hand_over(self, read: Read, writer: AnswerWriter) -> None:
        """Feed the passed events to the reader, and so to the writer, which goes on after them."""
        for passed in self._passed:
            read(passed.frame() if isinstance(passed, Run) else passed)
        cast(InteractionsWriter, writer).resume(self._index, self._count)


def _is_text(event: Event) -> bool:
    """Whether an event is a piece of text, and nothing else that a reader needs."""
    delta = event.delta
    if delta is None or delta.type != "text" or event.metadata or not delta.text:
        return False
    return delta.annotations is None


def _has_content(step: Step) -> bool:
    """Whether the start of a step has content already: the name of a tool is content."""
    if step.type in ("model_output", "thought"):
        return bool(step.content or step.summary or step.signature)
    return True


_SHOWN: Final = ("id", "previous_interaction_id")


def _with_shown(
    answer: dict[str, Raw], model: str | None, shown: Mapping[str, Any]
) -> dict[str, Raw] | None:
    """An interaction with the client's name of the model and what else it is shown; None if it is
    so already."""
    changed = {name: shown[name] for name in _SHOWN if name in shown}
    if model is not None and "model" in answer:
        changed["model"] = model
    encoded = {name: Raw(to_json(value)) for name, value in changed.items()}
    if all(bytes(answer.get(name, b"")) == bytes(value) for name, value in encoded.items()):
        return None
    return {**answer, **encoded}


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`."""
    extras: list[Extra] = []
    answer = ANSWER.exact(body, extras)
    if answer is None or _says(extras) or answer.status not in _ENDS or answer.errors:
        return None
    steps = answer.steps or []
    if any(step.error for step in steps):
        return None
    usage = read_usage(answer.usage)
    text_bytes = 0 if usage and usage.output else sum(map(_text_bytes, steps))
    changed = _with_shown(jsontext.members(body), model, shown)
    if changed is not None:
        body = to_json(changed)
    assert answer.status is not None
    reason = _REASONS.get(answer.status, answer.status)
    return Passed(body, usage, reason, text_bytes)


def _text_bytes(step: Step) -> int:
    """The bytes of text in a step."""
    texts = [part.text or "" for part in (*(step.content or ()), *(step.summary or ()))]
    return len(bytes(step.arguments)) + len("".join(texts).encode(errors="replace"))

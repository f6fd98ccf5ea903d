"""Stored interactions, for the response store.

Events are numbered by their ids, `e1`, `e2`, ... The last event of a stream has no steps, so these
are collected from the events before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.errors import END, error_object, frame
from dragoman.protocols.google_interactions.stream_writer import time_of
from dragoman.protocols.raw import is_text, split_list, split_object, text_of
from dragoman.protocols.stored_answers import GivenItems, NumberedEvent, StoredAnswers, whole_of
from dragoman.sse import Frame

PREVIOUS: Final = "previous_interaction_id"
_LONGEST_SHOWN: Final = 256
_EVENT_ID: Final = re.compile(r"e([1-9][0-9]{0,14})")


def given_steps(given: Raw | None) -> GivenItems | None:
    """The steps of a request's input; None if it is neither text nor content nor steps."""
    if given is None:
        return GivenItems()
    if is_text(given):
        content: list[Any] = [{"type": "text", "text": given}]
        return GivenItems(to_json([{"type": "user_input", "content": content}]))
    items = split_list(given)
    if items is None:
        items = [given]
    kinds = [text_of((split_object(item) or {}).get("type")) for item in items]
    if kinds and all(kind in wire.CONTENTS for kind in kinds):
        return GivenItems(to_json([{"type": "user_input", "content": items}]))
    if not all(kinds) or any(kind in wire.CONTENTS for kind in kinds):
        return None
    return GivenItems(bytes(given))


def _whole(
    members: Mapping[str, Raw], earlier: Iterable[bytes], given: GivenItems
) -> dict[str, Raw]:
    return whole_of(members, PREVIOUS, earlier, given)


def _not_found(name: str, why: str = "") -> DragomanError:
    message = f"Interaction '{name[:_LONGEST_SHOWN]}' was not found{why}."
    return DragomanError(Fault(FaultKind.NOT_FOUND, message))


def _queued(name: str, created: int, source: JsonObject) -> JsonObject:
    time = time_of(created)
    previous = source.get(PREVIOUS)
    return {
        "id": name,
        "object": "interaction",
        "model": source.get("model"),
        "status": "in_progress",
        "created": time,
        "updated": time,
        "steps": [],
        **({PREVIOUS: previous} if previous else {}),
    }


def _number(data: bytes, before: int, shift: int) -> NumberedEvent | None:
    try:
        members = jsontext.members(data)
    except JsonError:
        return None
    number = before + 1
    return NumberedEvent(number, to_json({**members, "event_id": f"e{number}"}))


def _last(answer: JsonObject, number: int) -> bytes:
    """The last event of an interaction that had none: it was cancelled, or its worker died."""
    shown = {name: value for name, value in answer.items() if name != "steps"}
    return frame(
        {
            "event_type": "interaction.completed",
            "interaction": shown,
            "event_id": f"e{max(number, 1)}",
        }
    )


def _read_after(query: Mapping[str, str]) -> int:
    given = query.get("last_event_id", "")
    if not given:
        return -1
    if query.get("stream") != "true":
        raise InvalidRequest.at("last_event_id", "needs stream=true")
    found = _EVENT_ID.fullmatch(given)
    if found is None:
        raise _unknown_event()
    return int(found[1])


def _unknown_event() -> InvalidRequest:
    return InvalidRequest.at("last_event_id", "is the id of no event")


def _shown(answer: JsonObject, given: bytes, query: Mapping[str, str]) -> JsonObject:
    """An interaction with its timeline from the user's input on. An input of one text is shown as
    that: most are given so, and no other is stored differently."""
    steps = jsontext.decode(given)
    shown = {**answer, "steps": [*steps, *(answer.get("steps") or ())]}
    if query.get("include_input") == "true":
        shown["input"] = _only_text(steps) or steps
    return shown


def _only_text(steps: list[JsonObject]) -> str | None:
    """The text of an input that is nothing else."""
    match steps:
        case [{"type": "user_input", "content": [{"type": "text", "text": str(text)} as part]}]:
            return text if len(part) == len(("type", "text")) else None
    return None


class StepCollector:
    """The steps of an answer, put together from the events of its stream."""

    __slots__ = ("_pieces", "_steps")

    def __init__(self) -> None:
        self._steps: dict[int, JsonObject] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        """Texts and arguments in pieces, by the index of their step."""

    def take(self, frame: Frame) -> None:
        """Take the next event."""
        if not frame.event.startswith(b"step.") and b'"step.' not in frame.data:
            return
        event = jsontext.object_of(frame.data) or {}
        index, step, delta = event.get("index", 0), event.get("step"), event.get("delta")
        if event.get("event_type") == "step.start" and isinstance(step, dict):
            self._steps[index] = step
        elif isinstance(delta, dict) and index in self._steps:
            self._add(index, self._steps[index], delta)

    def _add(self, index: int, step: JsonObject, delta: JsonObject) -> None:
        kind = delta.get("type")
        text = delta.get("text")
        content = delta.get("content")
        if kind == "text" and isinstance(text, str):
            self._pieces.setdefault((index, "content"), []).append(text)
        elif kind == "text_annotation_delta":
            step.setdefault("_cited", []).extend(delta.get("annotations") or ())
        elif kind == "thought_summary" and isinstance(content, dict):
            self._pieces.setdefault((index, "summary"), []).append(str(content.get("text") or ""))
        elif kind == "arguments_delta":
            piece = delta.get("arguments")
            self._pieces.setdefault((index, "arguments"), []).append(str(piece or ""))
        elif kind in wire.MEDIA:
            step.setdefault("content", []).append(delta)
        else:
            step |= {name: value for name, value in delta.items() if name != "type"}

    def items(self) -> bytes:
        """The steps, as a JSON array."""
        return to_json([self._whole(index) for index in sorted(self._steps)])

    def _whole(self, index: int) -> JsonObject:
        step = self._steps[index]
        cited = step.pop("_cited", None)
        for name in ("content", "summary"):
            pieces = self._pieces.get((index, name))
            if pieces:
                part: JsonObject = {"type": "text", "text": "".join(pieces)}
                if cited and name == "content":
                    part["annotations"] = cited
                step[name] = [*step.get(name, ()), part]
        if pieces := self._pieces.get((index, "arguments")):
            step["arguments"] = jsontext.object_of("".join(pieces)) or {}
        if step.get("type") == "model_output":
            step.setdefault("content", [])
        return step


STORED = StoredAnswers(
    previous=PREVIOUS,
    items="steps",
    answer="interaction",
    ends=frozenset({b"interaction.completed", b"error"}),
    given=given_steps,
    whole=_whole,
    unstored=lambda members: {**members, "store": Raw(b"false")},
    asks_service=lambda members: bytes(members.get("store", b"")) == b"true",
    previous_not_found=_not_found,
    not_found=_not_found,
    queued=_queued,
    failed=lambda fault: {"errors": [error_object(fault)]},
    number=_number,
    last=_last,
    done=lambda options: END,
    collector=StepCollector,
    read_after=_read_after,
    unknown_event=_unknown_event,
    shown=_shown,
    deleted=lambda name: {},
    cancels_finished=True,
)

"""OpenAI Responses, as the official service sends it.

Shapes: ``types/responses/response.py``, ``response_output_item.py`` and
``response_stream_event.py`` of the openai package. A stream is made from the finished items, so
it always folds back to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dragoman.lab.simulator.errors import openai_error
from dragoman.lab.simulator.frames import encoded_deltas, json_text, split_text
from dragoman.lab.simulator.rendering.answer import Answer, alternate
from dragoman.lab.simulator.rendering.responses_object import (
    annotation,
    failed,
    finished,
    in_progress,
    logprob,
)
from dragoman.lab.simulator.script import (
    Failure,
    HostedSearch,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Text,
    ToolCall,
    calls_of,
)
from dragoman.lab.simulator.seals import encrypt
from dragoman.lab.simulator.view import JsonObject


def cannot(scenario: Scenario) -> str | None:
    """Why Responses cannot express the scenario: it has one answer and no stop sequences."""
    if scenario.choices > 1:
        return "Responses has exactly one answer"
    if scenario.finish == "stop_sequence":
        return "Responses has no stop sequences"
    if scenario.finish == "pause":
        return "Responses has no paused turns"
    return None


@dataclass(frozen=True, slots=True)
class _Item:
    """A finished output item with its step; items of one ``group`` stream together."""

    item: JsonObject
    step: Reasoning | Text | Refusal | ToolCall | HostedSearch
    group: int


def full(answer: Answer) -> JsonObject:
    """A ``response`` object that is completed or incomplete."""
    return finished(answer, [item.item for item in _items(answer)])


def stream(answer: Answer) -> Iterator[bytes]:
    """The lifecycle events, the events of each item, and one terminal event."""
    events = _Events(answer)
    started = msgspec.json.encode(in_progress(answer))
    yield events.write("response.created", b',"response":' + started)
    yield events.write("response.in_progress", b',"response":' + started)
    items = _items(answer)
    index = 0
    while index < len(items):
        group = [item for item in items[index:] if item.group == items[index].group]
        yield from _group(events, answer, group, index)
        index += len(group)
    response = finished(answer, [item.item for item in items])
    yield events.write(
        f"response.{response['status']}", b',"response":' + msgspec.json.encode(response)
    )


def error_frames(answer: Answer, failure: Failure, sent: int) -> tuple[bytes, ...]:
    """``error`` with its fields nested, then ``response.failed`` with the same response id."""
    events = _Events(answer, sent)
    error = openai_error(failure)
    frames = []
    if not answer.has("failed_only"):
        fields = error if answer.has("flat_error") else {"error": error}
        # The flat form has a `type` of its own that would hide the event's.
        fields = {key: value for key, value in fields.items() if key != "type"}
        frames.append(events.write("error", b"," + msgspec.json.encode(fields)[1:-1]))
    if not answer.has("error_only"):
        response = msgspec.json.encode(failed(answer, failure))
        frames.append(events.write("response.failed", b',"response":' + response))
    return tuple(frames)


class _Events:
    """Numbers the events of one stream."""

    def __init__(self, answer: Answer, first: int = 0) -> None:
        self._number = first
        self._keepalive = answer.has("keepalive_events")
        self._padding = b',"obfuscation":"simulated"' if answer.has("obfuscation") else b""

    def write(self, name: str, fields: bytes) -> bytes:
        """One event; ``fields`` are those after ``sequence_number``, with a leading comma."""
        kind = name.encode()
        before = self._keepalive_frame() if self._keepalive and self._number else b""
        frame = b'event: %b\ndata: {"type":"%b","sequence_number":%d%b}\n\n' % (
            kind,
            kind,
            self._number,
            fields,
        )
        self._number += 1
        return before + frame

    def _keepalive_frame(self) -> bytes:
        self._number += 1
        return b'event: keepalive\ndata: {"type":"keepalive","sequence_number":%d}\n\n' % (
            self._number - 1
        )

    def delta(self, name: str, where: bytes, delta: bytes, extra: bytes = b"") -> bytes:
        """A delta event; ``where`` locates it, ``delta`` is its JSON."""
        return self.write(name, where + b',"delta":' + delta + extra + self._padding)


def _items(answer: Answer) -> list[_Item]:
    """The finished items. Adjacent text and refusal steps each are a message of their own."""
    items: list[_Item] = []
    cut = answer.scenario.reason() in ("length", "context_window", "content_filter")
    last = len(answer.scenario.steps) - 1
    for group, step in enumerate(answer.scenario.steps):
        done = "incomplete" if cut and group == last else "completed"
        if isinstance(step, ParallelTools | ToolCall):
            for call in calls_of(step):
                index = len(items)
                items.append(_Item(_call_item(answer, call, index, done), call, group))
        else:
            items.append(_Item(_item(answer, step, len(items), done), step, group))
    return items


def _item(
    answer: Answer, step: Reasoning | Text | Refusal | HostedSearch, index: int, status: str
) -> JsonObject:
    if isinstance(step, Reasoning):
        return _reasoning_item(answer, step, index)
    if isinstance(step, HostedSearch):
        return _search_item(answer, step, index)
    return _message_item(answer, step, index, status)


def _search_item(answer: Answer, step: HostedSearch, index: int) -> JsonObject:
    action: JsonObject = {"type": "search", "query": step.query, "queries": [step.query]}
    if "web_search_call.action.sources" in (answer.request.get("include") or ()):
        action["sources"] = [{"type": "url", "url": result.url} for result in step.results]
    return {
        "type": "web_search_call",
        "id": answer.id("ws_", index),
        "status": "completed",
        "action": action,
    }


def _reasoning_item(answer: Answer, step: Reasoning, index: int) -> JsonObject:
    item_id = answer.id("rs_", index)
    item: JsonObject = {"type": "reasoning", "id": item_id, "summary": []}
    if not step.redacted and answer.has("raw_reasoning"):
        item["content"] = [{"type": "reasoning_text", "text": part} for part in step.parts]
    elif not step.redacted and answer.view.thinking:
        item["summary"] = [{"type": "summary_text", "text": part} for part in step.parts]
    item["encrypted_content"] = encrypt(item_id, step.text, answer.organization)
    return item


def _message_item(answer: Answer, step: Text | Refusal, index: int, status: str) -> JsonObject:
    if isinstance(step, Refusal):
        part: JsonObject = {"type": "refusal", "refusal": step.text}
    else:
        part = {
            "type": "output_text",
            "text": step.text,
            "annotations": [annotation(step.text, c) for c in step.citations],
            "logprobs": _logprobs(answer, step.text),
        }
    return {
        "type": "message",
        "id": answer.id("msg_", index),
        "status": status,
        "role": "assistant",
        "content": [part],
    }


def _call_item(answer: Answer, call: ToolCall, index: int, status: str) -> JsonObject:
    function = call.kind == "function"
    item: JsonObject = {
        "type": "function_call" if function else "custom_tool_call",
        "id": answer.id("fc_" if function else "ctc_", index),
        "call_id": answer.id("call_", index),
        "name": call.name,
        "arguments" if function else "input": call.arguments,
        "status": status,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def _logprobs(answer: Answer, text: str) -> list[JsonObject]:
    if answer.view.logprobs is None:
        return []
    pieces = split_text(text, answer.scenario.pace)
    return [logprob(piece, answer.view.logprobs, with_bytes=True) for piece in pieces]


def _group(events: _Events, answer: Answer, group: list[_Item], first: int) -> Iterator[bytes]:
    """The events of items that stream together: added, deltas in turns, done."""
    for offset, entry in enumerate(group):
        added = {**entry.item}
        if entry.item["type"] != "reasoning":
            added["status"] = "in_progress"
        for field, empty in (("content", []), ("summary", []), ("arguments", ""), ("input", "")):
            if field in added:
                added[field] = empty
        added.pop("encrypted_content", None)
        yield _item_event(events, "response.output_item.added", first + offset, added)
    if isinstance(group[0].step, ToolCall):
        yield from _call_deltas(events, answer, group, first)
    else:
        yield from _body(events, answer, group[0], first)
    for offset, entry in enumerate(group):
        if isinstance(entry.step, ToolCall):
            yield _call_done(events, entry, first + offset)
        yield _item_event(events, "response.output_item.done", first + offset, entry.item)


def _item_event(events: _Events, name: str, index: int, item: JsonObject) -> bytes:
    return events.write(name, b',"output_index":%d,"item":' % index + msgspec.json.encode(item))


def _where(entry: _Item, index: int, part: tuple[bytes, int] | None = None) -> bytes:
    where = b',"item_id":"%b","output_index":%d' % (entry.item["id"].encode(), index)
    return where if part is None else where + b',"%b":%d' % part


def _call_deltas(
    events: _Events, answer: Answer, group: list[_Item], first: int
) -> Iterator[bytes]:
    escape = answer.scenario.pace.escape
    calls = [entry.step for entry in group if isinstance(entry.step, ToolCall)]
    names = [_call_events(call)[0] for call in calls]
    places = [_where(entry, first + offset) for offset, entry in enumerate(group)]
    for which, piece in alternate([answer.arguments_deltas(call.arguments) for call in calls]):
        yield events.delta(f"{names[which]}.delta", places[which], json_text(piece, escape))


def _call_events(call: ToolCall) -> tuple[str, str]:
    """The prefix of the call's events, and the field of its text."""
    if call.kind == "function":
        return "response.function_call_arguments", "arguments"
    return "response.custom_tool_call_input", "input"


def _call_done(events: _Events, entry: _Item, index: int) -> bytes:
    assert isinstance(entry.step, ToolCall)
    prefix, field = _call_events(entry.step)
    fields: JsonObject = {field: entry.step.arguments}
    if entry.step.kind == "function":
        fields = {"name": entry.step.name, **fields}
    return events.write(
        f"{prefix}.done", _where(entry, index) + b"," + msgspec.json.encode(fields)[1:-1]
    )


def _body(events: _Events, answer: Answer, entry: _Item, index: int) -> Iterator[bytes]:
    if isinstance(entry.step, Reasoning):
        parts = entry.item["summary"] or entry.item.get("content", [])
        for number, part in enumerate(parts):
            summary = part["type"] == "summary_text"
            yield from _reasoning_part(events, answer, entry, index, number, summary)
    elif isinstance(entry.step, HostedSearch):
        for progress in ("in_progress", "searching", "completed"):
            yield events.write(f"response.web_search_call.{progress}", _where(entry, index))
    elif isinstance(entry.step, Refusal):
        yield from _text_part(events, answer, entry, index, "refusal", entry.step.text)
    elif isinstance(entry.step, Text):
        yield from _text_part(events, answer, entry, index, "output_text", entry.step.text)


def _reasoning_part(
    events: _Events, answer: Answer, entry: _Item, index: int, number: int, summary: bool
) -> Iterator[bytes]:
    part = entry.item["summary" if summary else "content"][number]
    kind = "reasoning_summary_text" if summary else "reasoning_text"
    frame = "response.reasoning_summary_part" if summary else "response.content_part"
    where = _where(entry, index, (b"summary_index" if summary else b"content_index", number))
    empty = msgspec.json.encode({**part, "text": ""})
    whole = msgspec.json.encode(part)
    yield events.write(f"{frame}.added", where + b',"part":' + empty)
    for delta in encoded_deltas(part["text"], answer.scenario.pace):
        yield events.delta(f"response.{kind}.delta", where, delta)
    text = msgspec.json.encode(part["text"])
    yield events.write(f"response.{kind}.done", where + b',"text":' + text)
    yield events.write(f"{frame}.done", where + b',"part":' + whole)


def _text_part(
    events: _Events, answer: Answer, entry: _Item, index: int, kind: str, text: str
) -> Iterator[bytes]:
    """One content part. ``kind`` is "output_text" or "refusal"."""
    pace = answer.scenario.pace
    where = _where(entry, index, (b"content_index", 0))
    part = entry.item["content"][0]
    is_text = kind == "output_text"
    empty = (
        {**part, "text": "", "annotations": [], "logprobs": []} if is_text else {**part, kind: ""}
    )
    yield events.write(
        "response.content_part.added", where + b',"part":' + msgspec.json.encode(empty)
    )
    deltas = encoded_deltas(text, pace)
    if is_text and answer.view.logprobs is not None:
        for piece, delta in zip(split_text(text, pace), deltas, strict=True):
            found = [logprob(piece, answer.view.logprobs, with_bytes=False)]
            extra = b',"logprobs":' + msgspec.json.encode(found)
            yield events.delta(f"response.{kind}.delta", where, delta, extra)
    else:
        extra = b',"logprobs":[]' if is_text else b""
        for delta in deltas:
            yield events.delta(f"response.{kind}.delta", where, delta, extra)
    for number, one in enumerate(part.get("annotations", ())):
        yield events.write(
            "response.output_text.annotation.added",
            where + b',"annotation_index":%d,"annotation":' % number + msgspec.json.encode(one),
        )
    done: JsonObject = {"text": text} if is_text else {"refusal": text}
    if is_text:
        pieces = split_text(text, pace) if answer.view.logprobs is not None else ()
        wanted = answer.view.logprobs or 0
        done["logprobs"] = [logprob(piece, wanted, with_bytes=False) for piece in pieces]
    yield events.write(f"response.{kind}.done", where + b"," + msgspec.json.encode(done)[1:-1])
    yield events.write(
        "response.content_part.done", where + b',"part":' + msgspec.json.encode(part)
    )

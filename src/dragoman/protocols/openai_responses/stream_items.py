"""Output items as they are written into a stream: each knows its own events.

An item is announced, grows, and is finished with the whole of what was written; the finished
item is kept encoded, for the last event of the stream repeats it.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from dragoman.canonical.blocks import Opaque, Reasoning, ToolCall, WebSearch
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.output_items import (
    CALL_PAYLOAD,
    call_item,
    encrypted_content,
    message_item,
    reasoning_item,
    reasoning_part,
    refusal_part,
    text_part,
)
from dragoman.protocols.openai_responses.web_search import search_item
from dragoman.sse import escape

_EVENT = b'event: %b\ndata: {"type":"%b","sequence_number":%d%b%b}\n\n'
_encode_text = msgspec.json.Encoder().encode


class Frames:
    """Writes events with their sequence numbers, which count every one from zero; keeps the
    finished items.
    """

    __slots__ = ("done", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self.done: list[bytes] = []

    def write(self, kind: str, fields: JsonObject) -> bytes:
        """An event of type `response.` + `kind`."""
        return self.write_raw(f"response.{kind}", to_json(fields)[1:-1])

    def write_raw(self, kind: str, members: bytes) -> bytes:
        """An event whose members beside type and number are encoded already."""
        number = self.sequence
        self.sequence = number + 1
        name = kind.encode()
        return _EVENT % (name, name, number, b"," if members else b"", escape(members))

    def announce(self, item: JsonObject) -> tuple[int, bytes]:
        """The next item begins: its index and event."""
        index = len(self.done)
        return index, self.write("output_item.added", {"output_index": index, "item": item})

    def finish(self, item: JsonObject) -> bytes:
        """The item is done."""
        encoded = to_json(item)
        members = b'"output_index":%d,"item":%b' % (len(self.done), encoded)
        self.done.append(encoded)
        return self.write_raw("response.output_item.done", members)


class DeltaLine:
    """Writes the deltas of one part. All but their number and text is built once."""

    __slots__ = ("_frames", "_head", "_place", "_tail")

    def __init__(self, frames: Frames, kind: str, place: JsonObject, tail: bytes = b"") -> None:
        name = kind.encode()
        self._frames = frames
        self._head = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":' % (
            name,
            name,
        )
        self._place = b"," + to_json(place)[1:-1] + b',"delta":'
        self._tail = tail + b"}\n\n"

    def write(self, text: str) -> bytes:
        """One delta."""
        frames = self._frames
        number = frames.sequence
        frames.sequence = number + 1
        return b"%b%d%b%b%b" % (
            self._head,
            number,
            self._place,
            escape(_encode_text(text)),
            self._tail,
        )


class Item(Protocol):
    """An item in progress. `line` writes the deltas of its open part, `pieces` collects their
    texts; without an open part `line` is None."""

    line: DeltaLine | None
    pieces: list[str]

    def finish(self, status: str) -> bytes:
        """The rest of its events; `status` is completed or incomplete."""
        ...


class MessageItem:
    """A message: text and refusal parts."""

    __slots__ = (
        "_annotations",
        "_counted",
        "_frames",
        "_id",
        "_index",
        "_length",
        "_logprobs",
        "_parts",
        "_refusing",
        "line",
        "opening",
        "phase",
        "pieces",
    )

    def __init__(self, frames: Frames, item_id: str, phase: str | None) -> None:
        self._frames = frames
        self._id = item_id
        self.phase = phase
        head = message_item(item_id, phase, [], "in_progress")
        self._index, self.opening = frames.announce(head)
        self._parts: list[JsonObject] = []
        self._refusing = False
        self.line: DeltaLine | None = None
        self._clear()

    def _clear(self) -> None:
        self.pieces: list[str] = []
        self._annotations: list[JsonObject] = []
        self._logprobs: list[Any] = []
        self._counted = 0
        self._length = 0

    def _place(self) -> JsonObject:
        return {
            "item_id": self._id,
            "output_index": self._index,
            "content_index": len(self._parts),
        }

    def open_part(self, *, refusing: bool) -> bytes:
        """Begin a part of that kind, unless one is open."""
        if self.line is not None and refusing == self._refusing:
            return b""
        ended = self.end_part()
        self._refusing = refusing
        place = self._place()
        part = refusal_part() if refusing else text_part()
        opened = self._frames.write("content_part.added", {**place, "part": part})
        if refusing:
            self.line = DeltaLine(self._frames, "refusal.delta", place)
        else:
            self.line = DeltaLine(self._frames, "output_text.delta", place, b',"logprobs":[]')
        return ended + opened

    def length(self) -> int:
        """How long the open part's text is, in characters."""
        self._length += sum(map(len, self.pieces[self._counted :]))
        self._counted = len(self.pieces)
        return self._length

    def with_logprobs(self, text: str, logprobs: tuple[Any, ...]) -> bytes:
        """A delta that comes with its token probabilities."""
        self.pieces.append(text)
        self._logprobs += logprobs
        fields = {**self._place(), "delta": text, "logprobs": logprobs}
        return self._frames.write("output_text.delta", fields)

    def annotate(self, annotation: JsonObject) -> bytes:
        """A citation in the open part."""
        number = len(self._annotations)
        self._annotations.append(annotation)
        fields = {**self._place(), "annotation_index": number, "annotation": annotation}
        return self._frames.write("output_text.annotation.added", fields)

    def end_part(self) -> bytes:
        """End the open part, if one is."""
        if self.line is None:
            return b""
        text = "".join(self.pieces)
        place = self._place()
        if self._refusing:
            part = refusal_part(text)
            done = self._frames.write("refusal.done", {**place, "refusal": text})
        else:
            part = text_part(text, self._annotations, self._logprobs)
            fields = {**place, "text": text, "logprobs": self._logprobs}
            done = self._frames.write("output_text.done", fields)
        done += self._frames.write("content_part.done", {**place, "part": part})
        self._parts.append(part)
        self.line = None
        self._clear()
        return done

    def finish(self, status: str) -> bytes:
        """The rest of its events."""
        ended = self.end_part()
        return ended + self._frames.finish(message_item(self._id, self.phase, self._parts, status))


class CallItem:
    """A call of a function, of a custom tool, or of a tool that has items of its own."""

    __slots__ = ("_call", "_frames", "_id", "_index", "line", "opening", "pieces")

    def __init__(self, frames: Frames, item_id: str, call: ToolCall) -> None:
        self._frames = frames
        self._id = item_id
        self._call = call
        self._index, self.opening = frames.announce(call_item(item_id, call, "", "in_progress"))
        self.pieces: list[str] = []
        place = {"item_id": item_id, "output_index": self._index}
        self.line: DeltaLine | None = None
        if call.form is None:
            # Other items than calls of functions and custom tools come whole.
            self.line = DeltaLine(frames, f"{self._family()}.delta", place)

    def _family(self) -> str:
        return "custom_tool_call_input" if self._call.custom else "function_call_arguments"

    def finish(self, status: str) -> bytes:
        """The rest of its events."""
        payload = "".join(self.pieces)
        whole = call_item(self._id, self._call, payload, status)
        if self._call.form is not None:
            return self._frames.finish(whole)
        fields: JsonObject = {"item_id": self._id, "output_index": self._index}
        if not self._call.custom:
            fields["name"] = self._call.name
        fields[CALL_PAYLOAD[self._call.custom]] = payload
        done = self._frames.write(f"{self._family()}.done", fields)
        return done + self._frames.finish(whole)


class ReasoningItem:
    """Reasoning: its readable parts as a summary or as raw content, and its state."""

    __slots__ = (
        "_as_summary",
        "_frames",
        "_head",
        "_id",
        "_index",
        "_parts",
        "_sealer",
        "line",
        "opaque",
        "opening",
        "pieces",
    )

    def __init__(
        self, frames: Frames, item_id: str, head: Reasoning, sealer: Sealer, *, as_summary: bool
    ) -> None:
        self._frames = frames
        self._id = item_id
        self._head = head
        self._sealer = sealer
        self._as_summary = as_summary
        self.opaque: Opaque | None = head.opaque
        self._index, self.opening = frames.announce(
            reasoning_item(item_id, Reasoning(), None, "completed", as_summary=True)
        )
        self._parts: list[str] = []
        self.pieces: list[str] = []
        self.line: DeltaLine | None = None

    def _place(self) -> JsonObject:
        index = "summary_index" if self._as_summary else "content_index"
        return {
            "item_id": self._id,
            "output_index": self._index,
            index: len(self._parts),
        }

    def open_part(self) -> bytes:
        """Begin a part, unless one is open."""
        if self.line is not None:
            return b""
        place = self._place()
        part = reasoning_part("", as_summary=self._as_summary)
        self.line = DeltaLine(self._frames, f"{self._text_events()}.delta", place)
        return self._frames.write(f"{self._part_events()}.added", {**place, "part": part})

    def end_part(self) -> bytes:
        """End the open part, if one is."""
        if self.line is None:
            return b""
        text = "".join(self.pieces)
        place = self._place()
        part = reasoning_part(text, as_summary=self._as_summary)
        done = self._frames.write(f"{self._text_events()}.done", {**place, "text": text})
        done += self._frames.write(f"{self._part_events()}.done", {**place, "part": part})
        self._parts.append(text)
        self.pieces = []
        self.line = None
        return done

    def _text_events(self) -> str:
        return "reasoning_summary_text" if self._as_summary else "reasoning_text"

    def _part_events(self) -> str:
        return "reasoning_summary_part" if self._as_summary else "content_part"

    def finish(self, status: str) -> bytes:
        """The rest of its events."""
        ended = self.end_part()
        block = whole_reasoning(self._head, self._parts, self.opaque)
        encrypted = encrypted_content(block, self._sealer)
        return ended + self._frames.finish(
            reasoning_item(self._id, block, encrypted, status, as_summary=self._as_summary)
        )


class HiddenReasoning:
    """Reasoning that the client is not shown. Only state of a vendor is given, so that the
    client can send it back.
    """

    __slots__ = ("_frames", "_head", "_id", "_parts", "_sealer", "line", "opaque", "pieces")

    def __init__(self, frames: Frames, item_id: str, head: Reasoning, sealer: Sealer) -> None:
        self._frames = frames
        self._id = item_id
        self._head = head
        self._sealer = sealer
        self.opaque: Opaque | None = head.opaque
        self._parts: list[str] = []
        self.pieces: list[str] = []
        self.line: DeltaLine | None = None

    def end_part(self) -> None:
        """A readable part is over: nothing is written."""
        self._parts.append("".join(self.pieces))
        self.pieces = []

    def finish(self, status: str) -> bytes:
        """All events of the item, if it has any."""
        if self.opaque is None or self.opaque.origin == MARKER:
            return b""
        if self.pieces or self._parts:
            self.end_part()
        block = whole_reasoning(self._head, self._parts, self.opaque)
        empty = reasoning_item(self._id, Reasoning(), None, "completed", as_summary=True)
        _, opening = self._frames.announce(empty)
        empty["encrypted_content"] = encrypted_content(block, self._sealer)
        return opening + self._frames.finish(empty)


class SearchItem:
    """A search of the web by the model's vendor: when it began, what for, and that it is over."""

    __slots__ = (
        "_frames",
        "_id",
        "_index",
        "_tells_sources",
        "line",
        "opening",
        "pieces",
        "sources",
    )

    def __init__(
        self, frames: Frames, item_id: str, head: WebSearch, *, tells_sources: bool
    ) -> None:
        self._frames = frames
        self._id = item_id
        self._tells_sources = tells_sources
        self.sources = [*head.sources]
        self.pieces: list[str] = [head.query] if head.query else []
        self.line: DeltaLine | None = None
        self._index, opening = frames.announce(self._whole("in_progress"))
        self.opening = opening + self._tell("in_progress")

    def _whole(self, status: str) -> JsonObject:
        sources = self.sources if self._tells_sources else None
        return search_item(self._id, "".join(self.pieces), sources, status)

    def _tell(self, progress: str) -> bytes:
        place = {"item_id": self._id, "output_index": self._index}
        return self._frames.write(f"web_search_call.{progress}", place)

    def search(self, query: str) -> bytes:
        """It is known what for."""
        self.pieces.append(query)
        return self._tell("searching")

    def finish(self, status: str) -> bytes:
        """The rest of its events."""
        return self._tell("completed") + self._frames.finish(self._whole("completed"))


def whole_reasoning(head: Reasoning, parts: list[str], opaque: Opaque | None) -> Reasoning:
    """The block that was written."""
    return Reasoning(
        parts=(*head.parts, *parts), style=head.style, opaque=opaque, redacted=head.redacted
    )

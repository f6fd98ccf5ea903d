"""The output items of an answer in progress (types: response_output_item.py), and their events. An
item starts, is extended, and is added to the output when it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.blocks import Opaque, Reasoning, ToolCall, WebSearch
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.frames import (
    CollectedText,
    Frames,
    JsonText,
    StreamedText,
    TextInProgress,
)
from dragoman.protocols.openai_responses.machine_tools import PREFIXES, machine_call_item
from dragoman.protocols.openai_responses.tool_search import TOOL_SEARCH, search_call_item
from dragoman.protocols.openai_responses.web_search import search_item


class Output(Struct):
    """The output of one answer. `items` are the complete ones, encoded in a stream; `frames` is
    None if the answer is not streamed."""

    frames: Frames | None
    items: list[JsonObject | Raw] = []

    def repeated(self, text: str) -> JsonText:
        """The text of a complete item."""
        return text if self.frames is None else self.frames.repeated(text)

    def add(self, item: JsonObject) -> bytes:
        """Add a complete item."""
        if self.frames is None:
            self.items.append(item)
            return b""
        encoded = to_json(item)
        members = b'"output_index":%d,"item":%b' % (len(self.items), encoded)
        self.items.append(Raw(encoded))
        return self.frames.encoded_event("response.output_item.done", members)


class Item(Struct):
    """An item in progress: `value` is its object so far, `text` takes the text of
    its open part (None if no part is open)."""

    output: Output
    value: JsonObject
    text: TextInProgress | None = None

    def begin(self) -> bytes:
        """The event that announces it."""
        frames = self.output.frames
        if frames is None:
            return b""
        fields = {"output_index": len(self.output.items), "item": self.value}
        return frames.event("output_item.added", fields)

    def finish(self, status: str) -> bytes:
        """End the item as `completed` or `incomplete`; returns the rest of its events."""
        raise NotImplementedError

    def _place(self) -> JsonObject:
        """The output index of its events. While it is in progress no other item is added."""
        return {"item_id": self.value["id"], "output_index": len(self.output.items)}


class MessageItem(Item, kw_only=True):
    """A message: text and refusal parts. `part` is the open one."""

    part: JsonObject = {}

    @classmethod
    def new(cls, output: Output, item_id: str, phase: str | None) -> MessageItem:
        """A message without parts; `phase` is its role in the answer, in the model's words."""
        value: JsonObject = {
            "type": "message",
            "id": item_id,
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        if phase is not None:
            value["phase"] = phase
        return cls(output, value)

    def _part_place(self) -> JsonObject:
        return {**self._place(), "content_index": len(self.value["content"])}

    def open_part(self, kind: Literal["output_text", "refusal"]) -> bytes:
        """Begin a part of that type, unless one is open."""
        if self.text is not None and self.part["type"] == kind:
            return b""
        ended = b"" if self.text is None else self.end_part()
        if kind == "refusal":
            self.part = {"type": kind, "refusal": ""}
        else:
            # Clients expect both lists even when they are empty.
            self.part = {"type": kind, "text": "", "annotations": [], "logprobs": []}
        frames = self.output.frames
        if frames is None:
            self.text = CollectedText()
            return b""
        place = self._part_place()
        tail = b"" if kind == "refusal" else b',"logprobs":[]'
        self.text = StreamedText(frames, f"{kind}.delta", place, tail)
        return ended + frames.event("content_part.added", {**place, "part": self.part})

    def length(self) -> int:
        """The length of the open part's text in characters."""
        return 0 if self.text is None else self.text.length()

    def with_logprobs(self, text: str, logprobs: tuple[Any, ...]) -> bytes:
        """Add text to the open part, with its token probabilities."""
        assert self.text is not None
        self.text.add(text)
        self.part["logprobs"] += logprobs
        frames = self.output.frames
        if frames is None:
            return b""
        fields = {**self._part_place(), "delta": text, "logprobs": logprobs}
        return frames.event("output_text.delta", fields)

    def annotate(self, annotation: JsonObject) -> bytes:
        """A citation in the open text part."""
        annotations = self.part["annotations"]
        annotations.append(annotation)
        frames = self.output.frames
        if frames is None:
            return b""
        number = len(annotations) - 1
        fields = {**self._part_place(), "annotation_index": number, "annotation": annotation}
        return frames.event("output_text.annotation.added", fields)

    def end_part(self) -> bytes:
        """End the open part, if one is."""
        if self.text is None:
            return b""
        part, text = self.part, self.text.value()
        self.text = None
        refuses = part["type"] == "refusal"
        part["refusal" if refuses else "text"] = text
        frames, content = self.output.frames, self.value["content"]
        if frames is None:
            content.append(part)
            return b""
        place, encoded = self._part_place(), Raw(to_json(part))
        content.append(encoded)
        if refuses:
            done = frames.event("refusal.done", {**place, "refusal": text})
        else:
            fields = {**place, "text": text, "logprobs": part["logprobs"]}
            done = frames.event("output_text.done", fields)
        return done + frames.event("content_part.done", {**place, "part": encoded})

    def finish(self, status: str) -> bytes:
        ended = b"" if self.text is None else self.end_part()
        self.value["status"] = status
        return ended + self.output.add(self.value)


class ForeignItem(Item):
    """A whole item that only this protocol has."""

    def finish(self, status: str) -> bytes:
        return self.output.add(self.value)


class CallItem(Item, kw_only=True):
    """A call of a function, of a custom tool, or of a tool that has items of its own."""

    call: ToolCall

    @classmethod
    def new(cls, output: Output, mint: Callable[[str], str], call: ToolCall) -> CallItem:
        """A call without arguments."""
        value = _call_item(mint(_call_prefix(call)), call, "", "in_progress")
        return cls(output, value, call=call)

    def begin(self) -> bytes:
        """The event that announces it; it takes its arguments then."""
        frames = self.output.frames
        # Other items than calls of functions and custom tools come whole.
        if frames is None or self.call.form is not None:
            self.text = CollectedText()
        else:
            self.text = StreamedText(frames, f"{self._family()}.delta", self._place())
        return super().begin()

    def _family(self) -> str:
        return "custom_tool_call_input" if self.call.custom else "function_call_arguments"

    def is_cut(self) -> bool:
        """Whether its arguments are shown as an object but were cut, and so are not valid."""
        if self.call.form is None or self.text is None:
            return False
        return not _is_json(self.text.plain())

    def finish(self, status: str) -> bytes:
        assert self.text is not None
        call, frames = self.call, self.output.frames
        if call.form is not None:
            self.value = _call_item(self.value["id"], call, self.text.plain(), status)
            return self.output.add(self.value)
        payload = self.text.value()
        field = "input" if call.custom else "arguments"
        self.value[field] = payload
        self.value["status"] = status
        if frames is None:
            return self.output.add(self.value)
        named = {} if call.custom else {"name": call.name}
        done = frames.event(f"{self._family()}.done", {**self._place(), **named, field: payload})
        return done + self.output.add(self.value)


def _call_prefix(call: ToolCall) -> str:
    """Prefix of the ids of such items."""
    if call.form is not None:
        return "tsc_" if call.form == TOOL_SEARCH else PREFIXES[call.form]
    return "ctc_" if call.custom else "fc_"


def _call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    if call.form == TOOL_SEARCH:
        return search_call_item(item_id, call, payload, status)
    if call.form is not None:
        return machine_call_item(item_id, call, payload, status)
    item: JsonObject = {
        "type": "custom_tool_call" if call.custom else "function_call",
        "id": item_id,
        "call_id": call.id,
        "name": call.name,
        "input" if call.custom else "arguments": payload,
        "status": status,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def _is_json(text: str) -> bool:
    try:
        jsontext.decode(text)
    except JsonError:
        return False
    return True


class ReasoningItem(Item, kw_only=True):
    """Reasoning: its readable parts as a summary or as raw content, and its state. It has a status
    only if it was cut short, as with the service. `texts` are the complete parts."""

    block: Reasoning
    sealer: Sealer
    as_summary: bool
    opaque: Opaque | None
    texts: list[str] = []

    @classmethod
    def new(
        cls, output: Output, item_id: str, block: Reasoning, sealer: Sealer, *, as_summary: bool
    ) -> ReasoningItem:
        """Reasoning without any text; `block` is its head."""
        return cls(
            output,
            {"type": "reasoning", "id": item_id, "summary": []},
            block=block,
            sealer=sealer,
            as_summary=as_summary,
            opaque=block.opaque,
        )

    def _parts(self) -> list[JsonObject]:
        parts: list[JsonObject] = self.value["summary" if self.as_summary else "content"]
        return parts

    def _part_place(self) -> JsonObject:
        index = "summary_index" if self.as_summary else "content_index"
        return {**self._place(), index: len(self._parts())}

    def _part(self, text: JsonText) -> JsonObject:
        return {"type": "summary_text" if self.as_summary else "reasoning_text", "text": text}

    def open_part(self) -> bytes:
        """Begin a part, unless one is open."""
        if self.text is not None:
            return b""
        if not self.as_summary:
            self.value.setdefault("content", [])
        frames = self.output.frames
        if frames is None:
            self.text = CollectedText()
            return b""
        place = self._part_place()
        self.text = StreamedText(frames, f"{self._text_events()}.delta", place)
        return frames.event(f"{self._part_events()}.added", {**place, "part": self._part("")})

    def end_part(self) -> bytes:
        """End the open part, if one is."""
        if self.text is None:
            return b""
        text, frames = self.text.value(), self.output.frames
        self.texts.append(self.text.plain())
        self.text = None
        part = self._part(text)
        if frames is None:
            self._parts().append(part)
            return b""
        place = self._part_place()
        self._parts().append(part)
        done = frames.event(f"{self._text_events()}.done", {**place, "text": text})
        return done + frames.event(f"{self._part_events()}.done", {**place, "part": part})

    def _text_events(self) -> str:
        return "reasoning_summary_text" if self.as_summary else "reasoning_text"

    def _part_events(self) -> str:
        return "reasoning_summary_part" if self.as_summary else "content_part"

    def finish(self, status: str) -> bytes:
        ended = self.end_part()
        state = _state(self.block, self.texts, self.opaque, self.sealer)
        self.value["encrypted_content"] = self.output.repeated(state)
        if status != "completed":
            self.value["status"] = status
        return ended + self.output.add(self.value)


class HiddenReasoning(Struct):
    """Reasoning that the client is not shown. The item has only a vendor's state, for the client to
    send back; without state there is no item."""

    output: Output
    id: str
    block: Reasoning
    sealer: Sealer
    opaque: Opaque | None
    text: TextInProgress | None = None
    parts: list[str] = []

    @classmethod
    def new(cls, output: Output, item_id: str, block: Reasoning, sealer: Sealer) -> HiddenReasoning:
        """Reasoning without any text; `block` is its head."""
        return cls(output, item_id, block, sealer, block.opaque)

    def begin(self) -> bytes:
        """No event: it is announced when it is over."""
        return b""

    def open_part(self) -> bytes:
        """Begin a part, unless one is open: no event."""
        if self.text is None:
            self.text = CollectedText()
        return b""

    def end_part(self) -> bytes:
        """End the open part, if one is: no event."""
        if self.text is not None:
            self.parts.append(self.text.plain())
            self.text = None
        return b""

    def finish(self, status: str) -> bytes:
        """The block is over: all events of its item."""
        self.end_part()
        if self.opaque is None or self.opaque.origin == MARKER:
            return b""
        item = Item(self.output, {"type": "reasoning", "id": self.id, "summary": []})
        state = _state(self.block, self.parts, self.opaque, self.sealer)
        item.value["encrypted_content"] = self.output.repeated(state)
        return item.begin() + self.output.add(item.value)


def _state(block: Reasoning, parts: list[str], opaque: Opaque | None, sealer: Sealer) -> str:
    """The state for a client to send back: this protocol's own unchanged, any other in an
    envelope."""
    if opaque is not None and opaque.origin == wire.NAME:
        return opaque.data
    return sealer.seal(
        Reasoning(parts=tuple(parts), style=block.style, opaque=opaque, redacted=block.redacted)
    )


class SearchItem(Item, kw_only=True):
    """A web search by the model's vendor: its start, query, sources and end."""

    query: str
    sources: list[str] | None
    """The URLs it found; None if the client did not ask for them."""

    @classmethod
    def new(
        cls, output: Output, item_id: str, block: WebSearch, *, with_sources: bool
    ) -> SearchItem:
        """A search that has just begun; `block` is its head."""
        query, sources = block.query, [*block.sources] if with_sources else None
        value = search_item(item_id, query, sources, "in_progress")
        return cls(output, value, query=query, sources=sources)

    def begin(self) -> bytes:
        """The events that announce it."""
        return super().begin() + self._progress("in_progress")

    def _progress(self, progress: str) -> bytes:
        frames = self.output.frames
        if frames is None:
            return b""
        return frames.event(f"web_search_call.{progress}", self._place())

    def search(self, query: str) -> bytes:
        """Set the query."""
        self.query += query
        return self._progress("searching")

    def found(self, url: str) -> None:
        """Add a source."""
        if self.sources is not None:
            self.sources.append(url)

    def finish(self, status: str) -> bytes:
        self.value = search_item(self.value["id"], self.query, self.sources, "completed")
        return self._progress("completed") + self.output.add(self.value)

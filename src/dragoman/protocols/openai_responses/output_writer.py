"""The output items of an answer in progress (types: response_output_item.py), and their events. An
item starts, is extended, and is added to the output when it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.blocks import Opaque, Reasoning, ToolCall, WebSearch
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.client_tools import PREFIXES, client_call_item
from dragoman.protocols.openai_responses.frames import Frames, TextInProgress
from dragoman.protocols.openai_responses.web_search import search_item


class Output(Struct):
    """The output of one answer; `items` are the complete ones, encoded."""

    frames: Frames
    items: list[Raw] = []

    def add(self, item: JsonObject) -> bytes:
        """Add a complete item."""
        encoded, done = Raw(to_json(item)), b""
        if not self.frames.is_silent:
            done = self.frames.event("output_item.done", {**self.place, "item": encoded})
        self.items.append(encoded)
        return done

    @property
    def place(self) -> JsonObject:
        """The index of the item in progress: meanwhile no other one is added."""
        return {"output_index": len(self.items)}


class Item(Struct):
    """An item in progress: `value` is its object so far, `text` takes the text of
    its open part (None if no part is open)."""

    output: Output
    value: JsonObject
    text: TextInProgress | None = None

    def begin(self) -> bytes:
        """The event that announces it."""
        output = self.output
        if output.frames.is_silent:
            return b""
        return output.frames.event("output_item.added", {**output.place, "item": self.value})

    def finish(self, status: str) -> bytes:
        """End the item as `completed` or `incomplete`; returns the rest of its events."""
        raise NotImplementedError

    def _place(self) -> JsonObject:
        """The place of its events."""
        return {"item_id": self.value["id"], **self.output.place}


class _Form(Struct, frozen=True):
    """The forms of a type of parts: the names of the events of its text and of its own, of the
    item's list that it is in, and of the index there; and what it begins with."""

    texts: str
    parts: str
    content: str
    index: str
    empty: Callable[[], JsonObject]


def _empty_output() -> JsonObject:
    """Clients expect both lists even when they are empty."""
    return {"text": "", "annotations": [], "logprobs": []}


def _empty_text() -> JsonObject:
    return {"text": ""}


_IN_CONTENT = ("content_part", "content", "content_index")
_FORMS = {
    "output_text": _Form("output_text", *_IN_CONTENT, _empty_output),
    "refusal": _Form("refusal", *_IN_CONTENT, lambda: {"refusal": ""}),
    "reasoning_text": _Form("reasoning_text", *_IN_CONTENT, _empty_text),
    "summary_text": _Form(
        "reasoning_summary_text", "reasoning_summary_part", "summary", "summary_index", _empty_text
    ),
}


class PartsItem(Item, kw_only=True):
    """An item of parts: `part` is the open one."""

    part: JsonObject = {}

    def _part_place(self, form: _Form) -> JsonObject:
        return {**self._place(), form.index: len(self.value[form.content])}

    def open_part(self, kind: str) -> bytes:
        """Begin a part of that type, unless one is open."""
        if self.text is not None and self.part["type"] == kind:
            return b""
        ended, form, frames = self.end_part(), _FORMS[kind], self.output.frames
        self.part = {"type": kind, **form.empty()}
        self.value.setdefault(form.content, [])
        if frames.is_silent:
            self.text = TextInProgress(frames)
            return ended
        place = self._part_place(form)
        tail = b',"logprobs":[]' if kind == "output_text" else b""
        self.text = TextInProgress(frames, f"{form.texts}.delta", place, tail)
        return ended + frames.event(f"{form.parts}.added", {**place, "part": self.part})

    def end_part(self) -> bytes:
        """End the open part, if one is."""
        if self.text is None:
            return b""
        part, form = self.part, _FORMS[self.part["type"]]
        member = "refusal" if "refusal" in part else "text"
        part[member], self.text = self.text.value(), None
        if self.output.frames.is_silent:
            self.value[form.content].append(part)
            return b""
        encoded = Raw(to_json(part))
        ended = self._part_ended(form, member, encoded)
        self.value[form.content].append(encoded)
        return ended

    def _part_ended(self, form: _Form, member: str, encoded: Raw) -> bytes:
        """The events that end the open part, the text of which is in `member`."""
        place, frames = self._part_place(form), self.output.frames
        whole = {**place, member: self.part[member]}
        if "logprobs" in self.part:
            whole["logprobs"] = self.part["logprobs"]
        done = frames.event(f"{form.texts}.done", whole)
        return done + frames.event(f"{form.parts}.done", {**place, "part": encoded})


class MessageItem(PartsItem, kw_only=True):
    """A message: text and refusal parts."""

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

    def length(self) -> int:
        """The length of the open part's text in characters."""
        return 0 if self.text is None else self.text.length()

    def with_logprobs(self, text: str, logprobs: tuple[Any, ...]) -> bytes:
        """Add text to the open part, with its token probabilities."""
        assert self.text is not None
        self.text.add(text)
        self.part["logprobs"] += logprobs
        return self._text_event("delta", {"delta": text, "logprobs": logprobs})

    def annotate(self, annotation: JsonObject) -> bytes:
        """A citation in the open text part."""
        annotations = self.part["annotations"]
        annotations.append(annotation)
        number = len(annotations) - 1
        fields = {"annotation_index": number, "annotation": annotation}
        return self._text_event("annotation.added", fields)

    def _text_event(self, kind: str, fields: JsonObject) -> bytes:
        place = self._part_place(_FORMS["output_text"])
        return self.output.frames.event(f"output_text.{kind}", {**place, **fields})

    def finish(self, status: str) -> bytes:
        ended = self.end_part()
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
        # Other items than calls of functions and custom tools come whole.
        frames = self.output.frames if self.call.form is None else Frames(is_silent=True)
        self.text = TextInProgress(frames, f"{self._family()}.delta", self._place())
        return super().begin()

    def _family(self) -> str:
        return "custom_tool_call_input" if self.call.custom else "function_call_arguments"

    def is_cut(self) -> bool:
        """Whether its arguments are shown as an object but were cut, and so are not valid."""
        if self.call.form is None or self.text is None:
            return False
        return jsontext.object_of(self.text.plain()) is None

    def finish(self, status: str) -> bytes:
        assert self.text is not None
        call = self.call
        if call.form is not None:
            self.value = _call_item(self.value["id"], call, self.text.plain(), status)
            return self.output.add(self.value)
        field = "input" if call.custom else "arguments"
        self.value[field] = payload = self.text.value()
        self.value["status"] = status
        named = {} if call.custom else {"name": call.name}
        fields = {**self._place(), **named, field: payload}
        return self.output.frames.event(f"{self._family()}.done", fields) + self.output.add(
            self.value
        )


def _call_prefix(call: ToolCall) -> str:
    """Prefix of the ids of such items."""
    if call.form is not None:
        return PREFIXES[call.form]
    return "ctc_" if call.custom else "fc_"


def _call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    if call.form is not None:
        return client_call_item(item_id, call, payload, status)
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


class ReasoningItem(PartsItem, kw_only=True):
    """Reasoning: its readable parts, of the type `kind`, as a summary or as raw content, and its
    state. It has a status only if it was cut short, as with the service. `texts` are the complete
    parts."""

    block: Reasoning
    sealer: Sealer
    kind: str
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
            kind="summary_text" if as_summary else "reasoning_text",
            opaque=block.opaque,
        )

    def end_part(self) -> bytes:
        if self.text is not None:
            self.texts.append(self.text.plain())
        return super().end_part()

    def finish(self, status: str) -> bytes:
        ended = self.end_part()
        self.value["encrypted_content"] = self.output.frames.repeated(self._state())
        if status != "completed":
            self.value["status"] = status
        return ended + self.output.add(self.value)

    def _state(self) -> str:
        """The state for a client to send back: this protocol's own unchanged, any other in an
        envelope."""
        block, opaque = self.block, self.opaque
        if opaque is not None and opaque.origin == wire.NAME:
            return opaque.data
        parts, style, redacted = tuple(self.texts), block.style, block.redacted
        return self.sealer.seal(
            Reasoning(parts=parts, style=style, opaque=opaque, redacted=redacted)
        )

    def hidden(self) -> HiddenReasoning:
        """The same for a client that is not shown it."""
        return HiddenReasoning(
            Output(Frames(is_silent=True)),
            self.value,
            block=self.block,
            sealer=self.sealer,
            kind=self.kind,
            opaque=self.opaque,
            shown=self.output,
        )


class HiddenReasoning(ReasoningItem, kw_only=True):
    """Reasoning that the client is not shown. The item has only a vendor's state, for the client to
    send back; without state there is no item. `shown` is the client's output."""

    shown: Output

    def finish(self, status: str) -> bytes:
        self.end_part()
        if self.opaque is None or self.opaque.origin == MARKER:
            return b""
        item = Item(self.shown, {"type": "reasoning", "id": self.value["id"], "summary": []})
        item.value["encrypted_content"] = self.shown.frames.repeated(self._state())
        return item.begin() + self.shown.add(item.value)


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
        return self.output.frames.event(f"web_search_call.{progress}", self._place())

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

"""Events as the stream of a Chat client: exactly what the strictest of them reads.

One id, `created` and `model` in all chunks; the role once; id, name and type once per tool call,
indexes dense; usage only when asked for, and then in a chunk of its own; `[DONE]` last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Annotation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.grammar import State, step
from dragoman.canonical.losses import LossKind
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.errors import error_frames
from dragoman.protocols.openai_chat.reasoning import BREAK, details_entry, is_foreign_state
from dragoman.protocols.openai_chat.responses import (
    finish_word,
    lose_block,
    lose_order,
    lose_state,
    reasoning_fields,
    shown_name,
    shown_tier,
    write_annotations,
    write_moderation,
)
from dragoman.protocols.openai_chat.usage import write_usage
from dragoman.sse import COMMENT, DONE, encode, escape

_DONE = encode(DONE)
_ROLE = b'{"role":"assistant","content":"","refusal":null}'


class ChatStreamWriter:
    """Writes one stream. Byte strings around a delta's text are built once per block."""

    __slots__ = (
        "_after",
        "_annotations",
        "_asks_usage",
        "_before",
        "_block",
        "_calls",
        "_created",
        "_details",
        "_gap",
        "_head",
        "_id",
        "_keeps_details",
        "_ledger",
        "_length",
        "_model",
        "_opaque",
        "_opening",
        "_parts",
        "_pieces",
        "_places",
        "_reasoned",
        "_reasoning_fields",
        "_sealer",
        "_shows_reasoning",
        "_start",
        "_state",
        "_tail",
        "_tier",
        "_told_tier",
        "_usage",
    )

    def __init__(self, reply: Reply) -> None:
        # Not the reply: it holds the client's whole request, and a stream may be long.
        self._id, self._created, self._model = reply.id, reply.created, reply.model
        self._ledger, self._sealer = reply.ledger, reply.sealer
        self._reasoning_fields = reasoning_fields(reply)
        self._state = State.NEW
        self._head = b""
        self._tail = b""
        self._opening = b""
        """What every chunk begins with."""
        self._asks_usage = reply.request.include_usage
        self._usage: Usage | None = None
        self._tier: str | None = None
        self._told_tier: str | None = None
        self._block: Any = None
        """Head of the open block."""
        self._before: tuple[bytes, ...] = ()
        """What stands before and after the text of a delta of the open block; empty for a
        block that is not shown."""
        self._after = b""
        self._calls = 0
        self._length = 0
        """Characters of visible text so far: citations count in the whole message."""
        self._start = 0
        self._places: list[Annotation] = []
        self._annotations: list[JsonObject] = []
        self._shows_reasoning = reply.options.show_reasoning != "never"
        self._keeps_details = reply.options.reasoning_details
        self._reasoned = False
        self._gap = False
        """Whether a blank line is due before the next piece of reasoning."""
        self._opaque: Opaque | None = None
        self._parts: list[str] = []
        self._pieces: list[str] = []
        """Whole parts, and pieces of the last part, of the open reasoning block; kept only if
        the client is given its state."""
        self._details = 0

    def write(self, event: Event) -> bytes:
        """The frames of one event, ready to be sent in one piece."""
        self._state = step(self._state, event)
        if type(event) is Delta:
            return self._delta(event)
        return _WRITERS[type(event)](self, event)

    def answer(self) -> JsonObject:
        """Not kept: the answer is streamed."""
        raise NotImplementedError

    def keepalive(self) -> bytes:
        """A comment."""
        return COMMENT

    # --- chunks ---------------------------------------------------------------------------------

    def _chunk(self, delta: bytes) -> bytes:
        return escape(self._head + delta + self._tail)

    def _started(self, event: Started) -> bytes:
        head: JsonObject = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": event.created or self._created,
            "model": self._model,
        }
        opening = self._opening = b"data: " + escape(to_json(head))[:-1]
        tier = self._told_tier = shown_tier(event.service_tier, self._ledger)
        self._head = opening + _tier_member(tier) + b',"choices":[{"index":0,"delta":'
        closing = b',"usage":null}\n\n' if self._asks_usage else b"}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}]' + closing
        return self._chunk(_ROLE)

    def _finished(self, event: Finished) -> bytes:
        word = finish_word(event.finish, calls=self._calls > 0, ledger=self._ledger)
        cited = b""
        if self._annotations:
            # Once, in the last chunk with content: clients that accumulate cannot merge two.
            cited = self._chunk(to_json({"content": "", "annotations": self._annotations}))
        tail = self._tail.replace(b'"finish_reason":null', b'"finish_reason":' + to_json(word), 1)
        return cited + self._head + b"{}" + tail

    def _metered(self, event: Metered) -> bytes:
        self._usage = event.usage
        self._tier = event.service_tier or self._tier
        return b""

    def _ended(self, event: Ended) -> bytes:
        ledger = self._ledger
        tier = shown_tier(self._tier, ledger) or self._told_tier
        usage = self._usage if self._asks_usage else None
        if usage is not None or event.moderation is not None:
            # One chunk for both: clients keep the usage of the last one, even if it is null.
            counts = None if usage is None else write_usage(usage)
            last: JsonObject = {"choices": [], "usage": counts}
            if event.moderation is not None:
                last["moderation"] = write_moderation(event.moderation)
            members = b"," + escape(to_json(last))[1:] + b"\n\n"
            return self._opening + _tier_member(tier) + members + _DONE
        if tier != self._told_tier:
            ledger.add("service_tier", LossKind.KNOB, "it was known only at the end")
        return _DONE

    def _failed(self, event: Failed) -> bytes:
        return error_frames(event.fault)

    # --- blocks ---------------------------------------------------------------------------------

    def _opened(self, event: Opened) -> bytes:
        block = self._block = event.block
        if self._calls and isinstance(block, Text | Refusal):
            lose_order(self._ledger)
        if type(block) is Text:
            self._start = self._length
            self._wrap(b'{"content":', b"}")
        elif type(block) is ToolCall:
            return self._open_call(block)
        elif type(block) is Reasoning:
            return self._open_reasoning(block)
        elif type(block) is Refusal:
            self._wrap(b'{"refusal":', b"}")
        else:
            self._before = ()
            lose_block(block, self._ledger)
        return b""

    def _wrap(self, before: bytes, after: bytes) -> None:
        self._before = (self._head + before,)
        self._after = after + self._tail

    def _delta(self, event: Delta) -> bytes:
        if not self._before:
            return b""
        text = event.text
        kind = type(self._block)
        if kind is Text:
            self._length += len(text)
            if event.logprobs:
                return self._with_logprobs(text, event.logprobs)
        elif kind is Reasoning:
            return self._reasoning_delta(text)
        if not text:
            return b""
        return self._before[0] + escape(to_json(text)) + self._after

    def _with_logprobs(self, text: str, records: tuple[Any, ...]) -> bytes:
        logprobs = to_json({"content": records, "refusal": None})
        tail = self._tail.replace(b'"logprobs":null', b'"logprobs":' + logprobs, 1)
        return escape(self._head + to_json({"content": text}) + tail)

    def _closed(self, event: Closed) -> bytes:
        block = self._block
        if self._places and type(block) is Text:
            end = self._length
            self._annotations += write_annotations(self._places, self._start, end, self._ledger)
            self._places.clear()
        elif type(block) is Reasoning:
            return self._close_reasoning(block)
        return b""

    def _annotated(self, event: Annotated) -> bytes:
        if type(self._block) is Text:
            self._places.append(event.annotation)
        return b""

    def _open_call(self, block: ToolCall) -> bytes:
        index = self._calls
        self._calls += 1
        kind, field = ("custom", "input") if block.custom else ("function", "arguments")
        inner = {"name": shown_name(block), field: ""}
        call = {"index": index, "id": block.id, "type": kind, kind: inner}
        names = (index, kind.encode(), field.encode())
        self._wrap(b'{"tool_calls":[{"index":%d,"%b":{"%b":' % names, b"}}]}")
        return self._chunk(to_json({"tool_calls": [call]}))

    # --- reasoning ------------------------------------------------------------------------------

    def _open_reasoning(self, block: Reasoning) -> bytes:
        self._before = ()
        self._opaque = block.opaque
        self._parts.clear()
        self._pieces.clear()
        self._gap = self._reasoned
        if not self._shows_reasoning:
            self._ledger.add("reasoning", LossKind.KNOB, "reasoning is not shown")
            return b""
        first, *others = self._reasoning_fields
        self._before = (
            self._head + b'{"%b":' % first.encode(),
            *(b',"%b":' % name.encode() for name in others),
        )
        self._after = b"}" + self._tail
        return b""

    def _reasoning_delta(self, text: str) -> bytes:
        if not text:
            return b""
        if self._keeps_details:
            self._pieces.append(text)
        if self._gap:
            # One text field shows all pieces: a blank line parts them.
            self._gap = False
            text = BREAK + text
        self._reasoned = True
        return escape(to_json(text)).join((*self._before, self._after))

    def _part_break(self, event: PartBreak) -> bytes:
        self._gap = self._reasoned
        self._parts.append("".join(self._pieces))
        self._pieces.clear()
        return b""

    def _sealed(self, event: Sealed) -> bytes:
        self._opaque = event.opaque
        return b""

    def _close_reasoning(self, head: Reasoning) -> bytes:
        if not self._shows_reasoning or not is_foreign_state(self._opaque):
            return b""
        if not self._keeps_details:
            lose_state(self._ledger)
            return b""
        text = "".join(self._pieces)
        parts = (*self._parts, text) if text or self._parts else ()
        block = replace(head, parts=parts, opaque=self._opaque)
        entry = details_entry(block, self._details, self._sealer)
        self._details += 1
        return self._chunk(to_json({"reasoning_details": [entry]}))


def _tier_member(tier: str | None) -> bytes:
    return b"" if tier is None else b',"service_tier":' + to_json(tier)


_WRITERS: dict[type, Callable[[ChatStreamWriter, Any], bytes]] = {
    Started: ChatStreamWriter._started,
    Opened: ChatStreamWriter._opened,
    PartBreak: ChatStreamWriter._part_break,
    Annotated: ChatStreamWriter._annotated,
    Sealed: ChatStreamWriter._sealed,
    Closed: ChatStreamWriter._closed,
    Finished: ChatStreamWriter._finished,
    Metered: ChatStreamWriter._metered,
    Ended: ChatStreamWriter._ended,
    Failed: ChatStreamWriter._failed,
}

"""An upstream's Chat stream as events.

Tolerant on purpose: blocks open with the first piece of their kind, usage may come anywhere, and
the deviating forms of compatible servers are read. Strict about one thing: an answer without a
finish reason is incomplete, whatever ends it. The reason counts that came last: some servers have
one in every chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from dragoman.canonical.blocks import (
    Block,
    Reasoning,
    Refusal,
    Text,
)
from dragoman.canonical.errors import Fault, UpstreamError
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
    Sealed,
    Started,
)
from dragoman.canonical.losses import LossKind, Policy
from dragoman.jsontext import JsonError
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.error_body import is_error, stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.annotations import read_annotation
from dragoman.protocols.openai_chat.call_state import call_entry, unread_members
from dragoman.protocols.openai_chat.choices import Choices, has_content, indexed, with_own_delta
from dragoman.protocols.openai_chat.reasoning import TEXT_FIELDS, Details, text_in, text_of
from dragoman.protocols.openai_chat.tool_fragments import ToolFragments
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_chat.whole_message import (
    FOREIGN_FIELDS,
    Received,
    as_known,
    numbered,
    split_parts,
)
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.reading import UNKNOWN, Lost
from dragoman.sse import DONE, Frame

_NO_TEXT = Text(text="")
_ENDED = Ended()
_TEXT, _REFUSAL, _REASONING, _NONE = "text", "refusal", "reasoning", ""
_WHOLE = "text of a whole message"
_COMPLETION = "text in the place of deltas"
_WATCHED = "text whose pieces may belong elsewhere, or follow a finish reason"


class ChatReader:
    """The reader of one stream. `source` is the member of a choice with the message: `delta` in
    streams, `message` in whole answers, which are read as a stream of one chunk."""

    __slots__ = (
        "_add_text",
        "_allocate",
        "_calling",
        "_choices",
        "_details",
        "_id_repeats",
        "_inbound",
        "_index",
        "_kind",
        "_logprobs",
        "_mark",
        "_offset",
        "_origin",
        "_over",
        "_pending",
        "_received",
        "_source",
        "_started",
        "_text",
        "_tier",
        "_tools",
        "_twins",
        "_usage",
        "fault",
    )

    def __init__(self, inbound: Inbound, source: str = "delta") -> None:
        self._inbound = inbound
        self._source = source
        self._choices = Choices(source)
        self._received = Received()
        self._add_text = self._received.text.append
        """Records text."""
        self._started = False
        self._over = False
        self.fault: Fault | None = None
        """The first failure."""
        self._kind = _NONE
        """Kind of the open block that is not a tool call."""
        self._text = _TEXT
        """Kind of text blocks: another one after a whole message had new content, or if pieces are
        plain texts."""
        self._index = -1
        # Not a method, to avoid a reference cycle between the tools and the reader.
        self._allocate = count().__next__
        self._offset = 0
        """Characters of text before the open block; its pieces begin at `_mark` in all pieces."""
        self._mark = 0
        self._pending: list[JsonObject] = []
        """Annotations received before their text."""
        self._logprobs: list[Any] = []
        """Log probabilities received without text."""
        self._details = Details()
        self._calling = ""
        """The member with the first call."""
        self._twins: ToolFragments | None = None
        """Calls of the other member for calls, in which some servers repeat them."""
        self._tools: ToolFragments | None = None
        """None before the first call; missing call ids are derived from `_origin`, the answer's id
        and time."""
        self._origin: tuple[str, int] = "", 0
        self._usage: Metered | None = None
        self._tier: str | None = None
        """The service tier in the first chunk."""
        """Usage received before the first choice."""
        self._id_repeats: bool | None = None
        """Whether all chunks have the id of the first one, once known."""

    # --- the contract ---------------------------------------------------------------------------

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        data = frame.data
        try:
            chunk = self._inbound.decode(data)
        except JsonError:
            if data.strip() == DONE:
                return self._end(terminated=True)
            if not data.strip() and frame.event != b"error":
                return ()
            return self._fail(UpstreamError.unreadable("a frame of its stream is not JSON").fault)
        if type(chunk) is not dict:
            return self._fail(UpstreamError.unreadable("a frame is not a JSON object").fault)
        if self._kind == _TEXT:
            text = _more_text(chunk)
            if text:
                self._add_text(text)
                return (Delta(self._index, text),)
        return self.take(chunk, frame.event)

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes: `Ended` if the model finished, else `Failed`."""
        return () if self._over else self._end(terminated=False)

    def take(self, chunk: JsonObject, event: bytes = b"") -> list[Event]:
        """The events of a decoded chunk (`event`: the name of its frame, normally none)."""
        events: list[Event] = []
        begun = self._started
        try:
            self._take(chunk, event, events)
        except UpstreamError as error:
            if not begun:
                # Nothing was shown of it, so another account can still answer.
                events.clear()
            events += self._fail(error.fault)
        return events

    # --- chunks ---------------------------------------------------------------------------------

    def _take(self, chunk: JsonObject, event: bytes, events: list[Event]) -> None:
        error = chunk.get("error")
        if event == b"error" or (error and is_error(error)):
            raise UpstreamError(fault_of(stray_error(chunk)))
        if "choices" not in chunk and (error := stray_error(chunk, "choices", "usage")) is not None:
            raise UpstreamError(fault_of(error))
        if not wire.CHUNK_FIELDS.issuperset(chunk):
            self._report_unknown(chunk, wire.CHUNK_FIELDS, "")
        choices = chunk.get("choices")
        if choices:
            if type(choices) is not list or type(choices[0]) is not dict:
                raise UpstreamError.unreadable("its choices are not objects")
            if not self._started:
                self._start(chunk, events)
            elif chunk.get("id") == self._origin[0]:
                self._id_repeats = True
            elif self._id_repeats is not False:
                self._begin_again(choices[0])
            for choice in choices if len(choices) == 1 else indexed(choices):
                self._choice(choice, events)
        elif choices == [] and not self._choices.reasons and self._is_strict:
            # Only usage may come without a choice, and only at the end.
            raise UpstreamError.unreadable("a chunk without choices comes before its finish reason")
        usage = chunk.get("usage")
        if type(usage) is dict and usage:
            self._meter(usage, chunk, events)

    @property
    def _is_strict(self) -> bool:
        return self._inbound.options.policy is Policy.STRICT

    def _start(self, chunk: JsonObject, events: list[Event]) -> None:
        self._started = True
        answer_id, created = _str(chunk.get("id")), chunk.get("created")
        created = whole_number(created) or 0
        tier = _str(chunk.get("service_tier")) or None
        self._tier = tier
        events.append(Started(answer_id, _str(chunk.get("model")), created, tier))
        self._origin = answer_id, created
        if self._usage is not None:
            events.append(self._usage)

    def _meter(self, usage: JsonObject, chunk: JsonObject, events: list[Event]) -> None:
        tier = _str(chunk.get("service_tier")) or self._tier
        metered = Metered(read_usage(usage, self._inbound.ledger, tier), tier)
        if self._started:
            events.append(metered)
        else:
            self._usage = metered

    def _begin_again(self, choice: JsonObject) -> None:
        """Handle a chunk with another id than the first: some servers give every chunk its own.

        Raises:
            UpstreamError: it begins another answer.
        """
        delta = choice.get(self._source)
        if type(delta) is not dict or not delta.get("role"):
            return
        if self._id_repeats or len(self._received.text) > 1:
            raise UpstreamError.unreadable("a second answer begins in it")
        self._id_repeats = False

    def _choice(self, choice: JsonObject, events: list[Event]) -> None:
        choices, received = self._choices, self._received
        if not wire.CHOICE_FIELDS.issuperset(choice):
            choice = with_own_delta(choice, self._source)
        if choices.begin(choice):
            choices.share(
                text=bool(received.text or received.refusal), calls=self._tools is not None
            )
            self._watch()
        if not wire.CHOICE_FIELDS.issuperset(choice):
            self._report_unknown(choice, wire.CHOICE_FIELDS, "choices[0]")
        delta = choice.get(self._source)
        if self._text is _WHOLE and delta and (type(delta) is str or has_content(delta)):
            raise UpstreamError.unreadable("deltas go on after a whole message")
        if type(delta) is dict and delta:
            self._delta(delta, choice.get("logprobs"), events)
        elif type(delta) is str and delta:
            self._delta({"content": delta}, None, events)
        if self._source == "delta" and ("message" in choice or "text" in choice):
            self._whole(choice, delta if type(delta) is dict else _EMPTY, events)
        reason = choice.get("finish_reason")
        if not reason or reason == "null":
            return
        if not choices.end(reason, strict=self._is_strict):
            detail = f"{reason[:60]}, which nobody knows, is an ordinary end"
            self._lose("choices[0].finish_reason", LossKind.CONVERTED, detail)
        if self._source != "delta":
            return  # all of the answer is there
        if choices.last_has_content:
            self._watch()
        else:
            self._close_all(events, tools=not choices.calls_elsewhere)

    def _watch(self) -> None:
        """Disable the fast path from now on."""
        if self._text == _TEXT:
            self._text = _WATCHED
            if self._kind == _TEXT:
                self._kind = _WATCHED

    def _whole(self, choice: JsonObject, delta: JsonObject, events: list[Event]) -> None:
        """The content of a chunk in another member than `delta`: the whole answer so far, or a
        piece of text in the form of the older completions."""
        message, text = choice.get("message"), choice.get("text")
        if type(message) is str and message:
            message = {"content": message}
        if type(message) is not dict or not has_content(message):
            if type(text) is not str or not text or has_content(delta):
                return
            message = {"content": text}
            if self._text is _COMPLETION or not (self._received or self._tools):
                self._text = _COMPLETION
                self._delta(message, choice.get("logprobs"), events)
                return
        rest = numbered(message)
        if self._received or self._tools is not None:
            rest = self._received.rest(message, delta, self._tools)
            self._lose("choices[0].message", LossKind.KNOB, "it says again what was said")
        if rest:
            if self._kind == _TEXT:
                self._kind = _WHOLE
            self._text = _WHOLE
            self._delta(rest, choice.get("logprobs"), events)

    def _delta(self, delta: JsonObject, logprobs: Any, events: list[Event]) -> None:
        is_speech = wire.SPEECH_FIELDS.issuperset(delta)
        if not is_speech:
            if not FOREIGN_FIELDS.isdisjoint(delta):
                delta = as_known(delta)
            path = f"choices[0].{self._source}"
            self._report_unknown(delta, wire.DELTA_FIELDS, path, wire.BESIDES, wire.UNREAD)
        role = delta.get("role")
        if role and role != "assistant" and _is_anothers(role):
            raise UpstreamError.unreadable("it speaks in another role than assistant")
        if self._choices.reasons and has_content(delta):
            self._choices.go_on()
        content, refusal, thought, details = delta.get("content"), delta.get("refusal"), "", None
        if not is_speech:
            thought = text_of(delta)
            details = delta.get("reasoning_details")
            self._report_other_reasoning(delta, thought)
        if content is None or type(content) is str:
            pass
        elif type(content) is not list and type(content) is not dict:
            content = to_json_text(content) if content is not False else None
        else:
            content, inner, refused, unknown = split_parts(content)
            thought = thought if thought == inner else thought + inner
            refusal = refusal or refused
            for kind in unknown:
                detail = f"a part of type {kind}, which nobody reads"
                self._lose(f"choices[0].{self._source}.content", LossKind.CONTENT, detail)
        if thought or details:
            self._reason(thought, details, events)
        records = logprobs if type(logprobs) is dict else _EMPTY
        self._extend(self._text, content, records.get("content"), events)
        annotations = delta.get("annotations")
        if annotations:
            self._annotate(annotations, events)
        if refusal or records:
            self._extend(_REFUSAL, refusal, records.get("refusal"), events)
        if is_speech:
            return
        calls = delta.get("tool_calls")
        if calls:
            for fragment in calls if type(calls) is list else (calls,):
                self._call("tool_calls", fragment, events)
        legacy = delta.get("function_call")
        if legacy:
            self._call("function_call", {"function": legacy}, events)

    def _report_other_reasoning(self, delta: JsonObject, thought: str) -> None:
        """Report reasoning fields other than the one used, and those that are not text."""
        for name in TEXT_FIELDS:
            other = delta.get(name)
            if other and other != thought and text_in(other) != thought:
                detail = "other reasoning is used" if thought else "reasoning that is no text"
                loss = LossKind.KNOB if thought else LossKind.CONTENT
                self._lose(f"choices[0].{self._source}.{name}", loss, detail)

    # --- blocks ---------------------------------------------------------------------------------

    def _extend(self, kind: str, text: Any, logprobs: Any, events: list[Event]) -> None:
        if type(logprobs) is list and logprobs:
            self._logprobs += logprobs
        if type(text) is not str or not text:
            return
        if self._kind != kind:
            self._open(kind, Refusal(text="") if kind is _REFUSAL else _NO_TEXT, events)
        (self._received.refusal.append if kind is _REFUSAL else self._add_text)(text)
        if self._logprobs:
            events.append(Delta(self._index, text, tuple(self._logprobs)))
            self._logprobs.clear()
        else:
            events.append(Delta(self._index, text))
        if self._pending and kind is self._text:
            pending, self._pending = self._pending, []
            self._annotate(pending, events)

    def _reason(self, text: str, details: Any, events: list[Event]) -> None:
        detailed = self._details.add(details) if type(details) is list else ""
        # Details may come at the end and repeat all deltas.
        text = text or (
            "" if detailed and detailed == "".join(self._received.reasoning) else detailed
        )
        if not text and not self._details.has_state:
            return
        if self._kind != _REASONING:
            self._open(_REASONING, Reasoning(style="raw"), events)
        if text:
            self._received.reasoning.append(text)
            events.append(Delta(self._index, text))

    def _call(self, member: str, fragment: Any, events: list[Event]) -> None:
        """Read a piece of a call in one of the two members for calls. The other member, in which
        llama-cpp-python repeats all calls, is compared when it is complete."""
        if type(fragment) is not dict:
            if fragment:
                self._lose(f"choices[0].{self._source}.{member}", LossKind.CONTENT)
            return
        if self._tools is None:
            self._calling, self._tools = member, self._fragments(self._allocate)
        if member == self._calling:
            for name in unread_members(fragment):
                self._lose(f"choices[0].{self._source}.{member}.{name}", LossKind.KNOB)
            entry = call_entry(fragment)
            if entry is not None:
                self._reason("", [entry], events)
            self._close(events)
            self._tools.add(fragment, events)
            return
        if self._twins is None:
            self._twins = self._fragments(count().__next__)
        self._twins.add(fragment, [])

    def _fragments(self, allocate: Callable[[], int]) -> ToolFragments:
        strict = self._inbound.options.interleaved_tools == "error"
        answer_id, created = self._origin
        return ToolFragments(allocate, f"{answer_id}:{created}", self._inbound.names, strict=strict)

    def _open(self, kind: str, head: Block, events: list[Event]) -> None:
        self._close(events)
        if self._tools is not None:
            self._tools.close_complete(events)
        self._kind = kind
        self._index = self._allocate()
        texts = self._received.text
        self._offset += sum(map(len, texts[self._mark :]))
        self._mark = len(texts)
        events.append(Opened(self._index, head))

    def _close(self, events: list[Event]) -> None:
        """Close the open block, unless it is a tool call."""
        if self._kind == _NONE:
            return
        if self._kind == _REASONING:
            opaque = self._details.take(self._inbound.account)
            if opaque is not None:
                events.append(Sealed(self._index, opaque))
        events.append(Closed(self._index))
        self._kind = _NONE

    def _close_all(self, events: list[Event], *, tools: bool = True) -> None:
        self._close(events)
        if tools and self._tools is not None:
            if self._twins is not None:
                for fragment in self._twins.beyond(self._tools):
                    self._tools.add(fragment, events)
                self._twins = None
            self._tools.close_all(events)

    def _annotate(self, annotations: Any, events: list[Event]) -> None:
        for raw in annotations if type(annotations) is list else ():
            if type(raw) is not dict:
                continue
            if self._kind != self._text:
                self._pending.append(raw)
                continue
            self._received.cited += 1
            events.append(Annotated(self._index, read_annotation(raw, self._offset)))

    # --- the end --------------------------------------------------------------------------------

    def _end(self, *, terminated: bool) -> Sequence[Event]:
        """End the stream; `terminated`: by its own terminator."""
        choices = self._choices
        events: list[Event] = []
        try:
            if terminated and choices.ended_blank:
                choices.end("stop")
            if choices.reasons:
                self._close_all(events)
            # Only of an answer that ends for its calls an empty one counts.
            if self._tools is not None and choices.ended_with_calls and self._tools.lacks_names():
                raise UpstreamError.unreadable("a tool call has no name")
            finish = choices.finish(has_calls=bool(self._tools))
            if finish is None:
                raise UpstreamError.unreadable("it ends before the model finished")
        except UpstreamError as error:
            return [*events, *self._fail(error.fault)]
        if self._pending:
            self._lose(f"choices[0].{self._source}.annotations", LossKind.KNOB)
        if self._logprobs:
            self._lose("choices[0].logprobs", LossKind.KNOB)
        self._over = True
        return [*events, Finished(finish), _ENDED]

    def _fail(self, fault: Fault) -> Sequence[Event]:
        self._over = True
        self.fault = self.fault or fault
        self._kind = _NONE
        return (Failed(fault),)

    # --------------------------------------------------------------------------------------------

    def _report_unknown(
        self,
        value: JsonObject,
        known: frozenset[str],
        path: str,
        table: Mapping[str, Lost] = wire.ANSWER,
        other: Lost = UNKNOWN,
    ) -> None:
        """Report the fields of an answer that have no counterpart in the canonical model."""
        for name, content in value.items():
            if name not in known and content not in _EMPTY_VALUES:
                field = table.get(name, wire.UNREAD if name in SPEAKING else other)
                self._lose(f"{path}.{name}" if path else name, field.kind, field.detail)

    def _lose(
        self, path: str, kind: LossKind, detail: str = "has no counterpart downstream"
    ) -> None:
        self._inbound.ledger.add(path, kind, detail)


def _more_text(chunk: JsonObject) -> str:
    """The text of a chunk with no other content; empty if it may have more. The hot path."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1 or chunk.get("usage"):
        return ""
    choice = choices[0]
    if type(choice) is not dict or not wire.CHUNK_FIELDS.issuperset(chunk):
        return ""
    delta = choice.get("delta")
    if type(delta) is not dict or len(delta) != 1 or choice.get("index"):
        return ""
    if choice.get("finish_reason") is not None or choice.get("logprobs"):
        return ""
    text = delta.get("content")
    return text if type(text) is str and _PLAIN_FIELDS.issuperset(choice) else ""


_PLAIN_FIELDS = wire.CHOICE_FIELDS - {"message", "text"}
_SPEAKERS = frozenset({"user", "system", "developer", "tool", "function"})


def _is_anothers(role: Any) -> bool:
    """Whether a role is not the model's, under any of its names (`model`, `ai`)."""
    return str(role).lower() in _SPEAKERS


_EMPTY: JsonObject = {}
_EMPTY_VALUES: tuple[Any, ...] = (None, "", [], {}, False)


def _str(value: Any) -> str:
    return value if type(value) is str else ""

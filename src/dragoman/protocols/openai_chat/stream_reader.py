"""An upstream's Chat stream as events.

Tolerant on purpose: blocks open with the first piece of their kind, usage may come anywhere, and
the deviating forms of compatible servers are put right first (`loose`). Strict about one thing: an
answer without a finish reason is incomplete, whatever ends it. The reason counts that came last:
some servers have one in every chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from msgspec import Struct, field, json

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
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_chat.annotations import read_annotation
from dragoman.protocols.openai_chat.call_state import call_entry
from dragoman.protocols.openai_chat.choices import Choices
from dragoman.protocols.openai_chat.loose import Loose
from dragoman.protocols.openai_chat.reasoning import Details
from dragoman.protocols.openai_chat.shapes import Answer, CallPiece, Choice, Said, TextChunk
from dragoman.protocols.openai_chat.tool_fragments import ToolFragments
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_chat.whole_message import Received, numbered
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_NO_TEXT = Text(text="")
_ENDED = Ended()
_TEXT, _REFUSAL, _REASONING, _NONE = "text", "refusal", "reasoning", ""
_WHOLE = "text of a whole message"
_COMPLETION = "text in the place of deltas"
_WATCHED = "text whose pieces may belong elsewhere, or follow a finish reason"

_text_chunk = json.Decoder(TextChunk).decode
_answer = json.Decoder(Answer).decode


def exact_answer(data: bytes) -> Answer | None:
    """A chunk or answer in the protocol's form, with choices; None of any other."""
    try:
        answer = _answer(data)
    except REFUSED:
        return None
    choices = answer.choices
    if choices is None or answer.error is not None:
        return None
    is_split = len(choices) > 1 and len({choice.index for choice in choices}) < len(choices)
    return None if is_split else answer


class ChatReader(Struct, eq=False):
    """The reader of one stream. `_source` is the member of a choice that its content came in:
    `delta` in streams, `message` in whole answers, which are read as a stream of one chunk."""

    _inbound: Inbound
    _source: str = "delta"
    fault: Fault | None = None
    """The first failure."""
    _choices: Choices = field(default_factory=Choices)
    _received: Received = field(default_factory=Received)
    _started: bool = False
    _over: bool = False
    _kind: str = _NONE
    """Kind of the open block that is not a tool call."""
    _text: str = _TEXT
    """Kind of text blocks: another one after a whole message had new content, or if pieces are
    plain texts."""
    _index: int = -1
    # Not a method, to avoid a reference cycle between the tools and the reader.
    _allocate: Callable[[], int] = field(default_factory=lambda: count().__next__)
    _offset: int = 0
    """Characters of text before the open block; its pieces begin at `_mark` in all pieces."""
    _mark: int = 0
    _pending: list[JsonObject] = []
    """Annotations received before their text."""
    _logprobs: list[Any] = []
    """Log probabilities received without text."""
    _details: Details = field(default_factory=Details)
    _calling: str = ""
    """The member with the first call."""
    _twins: ToolFragments | None = None
    """Calls of the other member for calls, in which some servers repeat them."""
    _tools: ToolFragments | None = None
    """None before the first call; missing call ids are derived from `_origin`, the answer's id and
    time."""
    _origin: tuple[str, int] = "", 0
    _usage: Metered | None = None
    """Usage received before the first choice."""
    _tier: str | None = None
    """The service tier in the first chunk."""
    _id_repeats: bool | None = None
    """Whether all chunks have the id of the first one, once known."""

    # --- the contract ---------------------------------------------------------------------------

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        data = frame.data
        if self._kind == _TEXT:
            try:
                text = _text_chunk(data).choices[0].delta.content
            except REFUSED:
                pass
            else:
                self._received.text.append(text)
                return (Delta(self._index, text),)
        if self._over:
            return ()
        is_error_event = frame.event == b"error"
        if data.strip() == DONE:
            return self._end(terminated=True)
        chunk = None if is_error_event else exact_answer(data)
        if chunk is not None:
            return self.take(chunk)
        try:
            value = self._inbound.decode(data)
        except JsonError:
            if not data.strip() and not is_error_event:
                return ()
            return self._fail(UpstreamError.unreadable("a frame of its stream is not JSON").fault)
        if type(value) is not dict:
            return self._fail(UpstreamError.unreadable("a frame is not a JSON object").fault)
        if is_error_event:
            return self._fail(fault_of(stray_error(value)))
        try:
            return self.take(Loose("delta", self._inbound.ledger).answer(value))
        except UpstreamError as error:
            return self._fail(error.fault)

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes: `Ended` if the model finished, else `Failed`."""
        return () if self._over else self._end(terminated=False)

    def take(self, chunk: Answer) -> list[Event]:
        """The events of a decoded chunk."""
        events: list[Event] = []
        begun = self._started
        try:
            self._take(chunk, events)
        except UpstreamError as error:
            if not begun:
                # Nothing was shown of it, so another account can still answer.
                events.clear()
            events += self._fail(error.fault)
        return events

    # --- chunks ---------------------------------------------------------------------------------

    def _take(self, chunk: Answer, events: list[Event]) -> None:
        choices = chunk.choices
        if choices and (self._started or not all(choice.is_report for choice in choices)):
            if not self._started:
                self._start(chunk, events)
            elif chunk.id == self._origin[0]:
                self._id_repeats = True
            elif self._id_repeats is not False:
                self._begin_again(choices[0])
            for choice in choices:
                self._choice(choice, events)
        elif choices == [] and not self._choices.reasons and self._is_strict:
            # Only usage may come without a choice, and only at the end.
            raise UpstreamError.unreadable("a chunk without choices comes before its finish reason")
        if chunk.usage:
            self._meter(chunk.usage, chunk.service_tier, events)

    @property
    def _is_strict(self) -> bool:
        return self._inbound.options.policy is Policy.STRICT

    def _start(self, chunk: Answer, events: list[Event]) -> None:
        self._started = True
        answer_id, created = chunk.id or "", whole_number(chunk.created) or 0
        self._tier = chunk.service_tier or None
        events.append(Started(answer_id, chunk.model or "", created, self._tier))
        self._origin = answer_id, created
        if self._usage is not None:
            events.append(self._usage)

    def _meter(self, usage: JsonObject, tier: str | None, events: list[Event]) -> None:
        tier = tier or self._tier
        metered = Metered(read_usage(usage, self._inbound.ledger, tier), tier)
        if self._started:
            events.append(metered)
        else:
            self._usage = metered

    def _begin_again(self, choice: Choice) -> None:
        """Handle a chunk with another id than the first: some servers give every chunk its own.

        Raises:
            UpstreamError: it begins another answer.
        """
        if choice.delta is None or not choice.delta.role:
            return
        if self._id_repeats or len(self._received.text) > 1:
            raise UpstreamError.unreadable("a second answer begins in it")
        self._id_repeats = False

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        choices, received, delta = self._choices, self._received, choice.delta
        if choices.begin(choice):
            choices.share(
                text=bool(received.text or received.refusal), calls=self._tools is not None
            )
            self._watch()
        if delta is not None:
            if self._text is _WHOLE and delta.has_content:
                raise UpstreamError.unreadable("deltas go on after a whole message")
            self._delta(delta, choice.logprobs, events)
        if choice.message is not None or choice.text:
            self._whole(choice, events)
        reason = choice.finish_reason
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

    def _whole(self, choice: Choice, events: list[Event]) -> None:
        """The content of a chunk in another member than `delta`: the whole answer so far, or a
        piece of text in the form of the older completions."""
        message, delta = choice.message, choice.delta or _NOTHING
        if message is None or not message.has_content:
            if not choice.text or delta.has_content:
                return
            message = Said(content=choice.text)
            if self._text is _COMPLETION or not (self._received or self._tools):
                self._text = _COMPLETION
                self._delta(message, choice.logprobs, events)
                return
        if self._received or self._tools is not None:
            rest = self._received.rest(message, delta, self._tools)
            self._lose("choices[0].message", LossKind.KNOB, "it says again what was said")
        else:
            rest = numbered(message)
        if rest.has_content or rest.annotations:
            if self._kind == _TEXT:
                self._kind = _WHOLE
            self._text = _WHOLE
            self._delta(rest, choice.logprobs, events)

    def _delta(self, delta: Said, logprobs: Any, events: list[Event]) -> None:
        if self._choices.reasons and delta.has_content:
            self._choices.go_on()
        thought = delta.thought
        if delta.reasoning and delta.reasoning != thought:
            path = f"choices[0].{self._source}.reasoning"
            self._lose(path, LossKind.KNOB, "other reasoning is used")
        if delta.audio:
            path = f"choices[0].{self._source}.audio"
            self._lose(path, LossKind.CONTENT, "audio cannot be translated")
        if thought or delta.reasoning_details:
            self._reason(thought, delta.reasoning_details, events)
        records = logprobs if type(logprobs) is dict else _EMPTY
        if delta.content or records:
            self._extend(self._text, delta.content, records.get("content"), events)
        if delta.annotations:
            self._annotate(delta.annotations, events)
        if delta.refusal or records:
            self._extend(_REFUSAL, delta.refusal, records.get("refusal"), events)
        for piece in delta.tool_calls or ():
            self._call("tool_calls", piece, events)
        legacy = delta.function_call
        if legacy is not None and (legacy.name or legacy.arguments):
            self._call("function_call", CallPiece(function=legacy), events)

    # --- blocks ---------------------------------------------------------------------------------

    def _extend(self, kind: str, text: str | None, logprobs: Any, events: list[Event]) -> None:
        if type(logprobs) is list and logprobs:
            self._logprobs += logprobs
        if not text:
            return
        if self._kind != kind:
            self._open(kind, Refusal(text="") if kind is _REFUSAL else _NO_TEXT, events)
        (self._received.refusal if kind is _REFUSAL else self._received.text).append(text)
        if self._logprobs:
            events.append(Delta(self._index, text, tuple(self._logprobs)))
            self._logprobs.clear()
        else:
            events.append(Delta(self._index, text))
        if self._pending and kind is self._text:
            pending, self._pending = self._pending, []
            self._annotate(pending, events)

    def _reason(self, text: str, details: list[Any] | None, events: list[Event]) -> None:
        detailed = self._details.add(details) if details else ""
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

    def _call(self, member: str, piece: CallPiece, events: list[Event]) -> None:
        """Read a piece of a call in one of the two members for calls. The other member, in which
        llama-cpp-python repeats all calls, is compared when it is complete."""
        if self._tools is None:
            self._calling, self._tools = member, self._fragments(self._allocate)
        if member == self._calling:
            entry = call_entry(piece)
            if entry is not None:
                self._reason("", [entry], events)
            self._close(events)
            self._tools.add(piece, events)
            return
        if self._twins is None:
            self._twins = self._fragments(count().__next__)
        self._twins.add(piece, [])

    def _fragments(self, allocate: Callable[[], int]) -> ToolFragments:
        strict = self._inbound.options.interleaved_tools == "error"
        answer_id, created = self._origin
        return ToolFragments(allocate, f"{answer_id}:{created}", self._inbound.names, strict)

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
                for piece in self._twins.beyond(self._tools):
                    self._tools.add(piece, events)
                self._twins = None
            self._tools.close_all(events)

    def _annotate(self, annotations: list[Any], events: list[Event]) -> None:
        for raw in annotations:
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

    def _lose(
        self, path: str, kind: LossKind, detail: str = "has no counterpart downstream"
    ) -> None:
        self._inbound.ledger.add(path, kind, detail)


_EMPTY: JsonObject = {}
_NOTHING = Said()

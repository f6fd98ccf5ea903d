"""Matches the chunks of a stream that is passed through with what Chat allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.base import NOTHING, AnswerWriter, Passed, to_json
from dragoman.protocols.error_body import is_error, is_readable
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.matching import (
    Arguments,
    Read,
    Run,
    Watch,
    blank_after,
    has_lone_escape,
    is_object,
    renamed,
)
from dragoman.protocols.openai_chat.finish import is_foreign_reason
from dragoman.protocols.openai_chat.shapes import Answer, CallPiece, Choice, Said
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.reading import Reader
from dragoman.sse import DONE, Frame, encode

_exact = Reader(Answer).exact
_EMPTY = Said()

# --- whole answers ------------------------------------------------------------------------------


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1
) -> Passed | None:
    """The function behind `base.AnswerMatcher`. The end of the last choice counts."""
    answer = _exact(body)
    if answer is None or (answer.error is not None and is_error(answer.error)):
        return None
    given = answer.choices or ()
    if not 0 < len(given) <= choices or not all(map(_is_whole, given)):
        return None
    usage = read_usage(answer.usage, tier=answer.service_tier) if answer.usage else None
    text_bytes = 0
    if usage is None or not usage.output:
        text_bytes = sum(_text_bytes(choice.message or _EMPTY) for choice in given)
    if answer.model != model:
        body = renamed(body, model)
    return Passed(body, usage, given[-1].finish_reason or "", text_bytes)


def _is_whole(choice: Choice) -> bool:
    """Whether a choice of a whole answer is exactly what the protocol allows."""
    message, reason = choice.message, choice.finish_reason
    if message is None or choice.text is not None:
        return False
    if not reason or reason == "null" or is_foreign_reason(reason):
        return False
    calls = message.tool_calls
    if not calls:
        return True
    if len({one.id for one in calls}) < len(calls) or message.function_call:
        return False
    return all(
        one.id
        and one.called
        and (
            one.custom is not None
            or (not has_lone_escape(one.text) and (reason == "length" or is_object(one.text)))
        )
        for one in calls
    )


def _texts(said: Said) -> list[tuple[str, str]]:
    """The members that are non-empty texts, in the reader's order. Some servers repeat the same
    reasoning in two members."""
    found = []
    if said.reasoning_content:
        found.append(("reasoning_content", said.reasoning_content))
    elif said.reasoning:
        found.append(("reasoning", said.reasoning))
    if said.content:
        found.append(("content", said.content))
    if said.refusal:
        found.append(("refusal", said.refusal))
    return found


def _text_bytes(message: Said) -> int:
    """The bytes of text in a message."""
    texts = [text for _, text in _texts(message)]
    texts += [one.called + one.text for one in message.tool_calls or ()]
    return len("".join(texts).encode())


# --- the stream ---------------------------------------------------------------------------------


class Call(Struct, eq=False):
    """A tool call received so far."""

    index: int
    id: str
    name: str
    is_custom: bool
    text: Arguments

    def is_whole(self, more: str = "") -> bool:
        """Whether its arguments are whole, with `more` of them."""
        return self.is_custom or is_object(self.text.value() + more)

    def frames(self) -> Iterator[Frame]:
        """Its fragments."""
        kind = "custom" if self.is_custom else "function"
        head = {"index": self.index, "id": self.id, "type": kind, kind: {"name": self.name}}
        yield _frame(delta={"tool_calls": [head]})
        if self.text.text:
            yield self.text.frame()


def _frame(**members: Any) -> Frame:
    """A chunk whose one choice has these members."""
    return Frame(b"", to_json({"choices": [{"index": 0, **members}]}))


def _text_run(member: str) -> Run:
    return Run(b'{"choices":[{"index":0,"delta":{"%b":"' % member.encode(), b'"}}]}')


def _call_run(index: int, *, is_custom: bool) -> Arguments:
    names = (index, b"custom", b"input") if is_custom else (index, b"function", b"arguments")
    head = b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"%b":{"%b":"' % names
    return Arguments(head, b'"}}]}}]}')


class Progress(Struct, eq=False):
    """One choice received so far. `log` is its record for the reader, in order; `run` the text in
    progress in `member`, if the last piece was text."""

    is_alone: bool
    """Whether one choice was asked for: no reader takes over several."""
    is_blank: bool = False
    """Whether the last chunk had an empty finish reason, with which some servers end."""
    log: list[Frame | Run | Call] = []
    run: Run | None = None
    member: str = ""
    call: Call | None = None
    calls: int = 0
    ids: set[str] = set()
    finished: bool = False
    undo: Callable[[], None] | None = None
    """Undoes the last chunk, if its meaning depends on the next one."""

    def allows(self, choice: Choice, *, is_undoable: bool) -> bool:
        """Whether a choice is exactly what may come next; `is_undoable`: the last one can be
        undone."""
        delta = choice.delta or _EMPTY
        calls: Sequence[CallPiece] = ()
        if delta.has_content:
            calls = delta.tool_calls or ()
            if self.finished:
                return False
            if calls and (choice.logprobs or not self._allows_calls(calls, delta, is_undoable)):
                return False
            if not calls and not self._may_leave_call():
                return False
        return choice.finish_reason is None or self._allows_end(choice.finish_reason, calls)

    def _may_leave_call(self) -> bool:
        """Whether something other than arguments may follow. Arguments are checked only when
        they are the last content."""
        call = self.call
        return call is None or self.run is not call.text or call.is_whole()

    def _allows_calls(self, calls: Sequence[CallPiece], delta: Said, is_undoable: bool) -> bool:
        """Whether the fragments are one continuation of the last call, or complete starts of
        calls."""
        if delta.function_call or delta.reasoning_details or delta.annotations:
            return False
        first, last = calls[0], calls[-1]
        if (len(calls) > 1 or _texts(delta)) and last.text.strip() in ("", "{}"):
            return False  # more of it may follow: only a chunk of its own can wait
        if not first.id:
            return len(calls) == 1 and self._goes_on(first, is_undoable)
        ids = {one.id for one in calls}
        return (
            (self.call is None or self.call.is_whole())
            and len(ids) == len(calls)
            and self.ids.isdisjoint(ids)
            and all(_begins(one, self.calls + at) for at, one in enumerate(calls))
            and all(one.custom or is_object(one.text) for one in calls[:-1])
        )

    def _goes_on(self, one: CallPiece, is_undoable: bool) -> bool:
        call = self.call
        return (
            call is not None
            and one.index == call.index
            and (one.custom is not None) is call.is_custom
            and not one.called
            and bool(one.text or call.text.text)
            and (call.is_custom or call.text.allows(one.text, is_undoable=is_undoable))
        )

    def may_end(self, choices: Sequence[Choice]) -> bool:
        """Whether a chunk may follow an undoable one: only more of the call may, unless its
        arguments may be complete."""
        if self.call is None or (self.call.text.text and not self.call.text.open):
            return True
        return any(choice.delta and choice.delta.tool_calls for choice in choices)

    def _allows_end(self, reason: str, calls: Sequence[CallPiece]) -> bool:
        if reason == "" and not self.is_alone:
            return not calls
        if reason in ("", "null") or is_foreign_reason(reason):
            return False
        if reason == "length":
            return True
        last = calls[-1] if calls else None
        if last is None or not last.id:
            return self.call is None or self.call.is_whole("" if last is None else last.text)
        return last.custom is not None or is_object(last.text)

    def take(self, choice: Choice, texts: list[tuple[str, str]], data: bytes) -> tuple[str, str]:
        """Record an allowed choice of the chunk `data`, which has these texts. Returns its member
        and text if a single text is all of its content."""
        delta = choice.delta or _EMPTY
        reason, calls = choice.finish_reason, delta.tool_calls or ()
        self.undo = None
        self.is_blank = reason == "" and not delta.has_content
        if reason or delta.reasoning_details or delta.annotations or choice.logprobs:
            self.finished = self.finished or bool(reason)
            self.log.append(Frame(b"", data))
            self.run = None
            return "", ""
        for member, text in texts:
            if self.run is None or member != self.member:
                self.run, self.member = _text_run(member), member
                self.log.append(self.run)
            self.run.add(text)
        for one in calls:
            self._take_call(one)
        if len(texts) == 1 and not calls and not (delta.reasoning and delta.reasoning_content):
            return texts[0]
        if len(calls) == 1 and not texts and not calls[0].id and not calls[0].called:
            return self.member, calls[0].text
        return "", ""

    def _take_call(self, one: CallPiece) -> None:
        is_custom, before = one.custom is not None, (self.call, self.calls, self.run, self.member)
        if one.id:
            run = _call_run(self.calls, is_custom=is_custom)
            self.call = Call(self.calls, one.id, one.called, is_custom, run)
            self.calls += 1
            self.ids.add(one.id)
            self.log.append(self.call)
        assert self.call is not None
        self.run, self.member = self.call.text, "input" if is_custom else "arguments"
        shorten = self.call.text.grow(one.text)

        def undo() -> None:
            if one.id:
                self.log.pop()
                self.ids.discard(one.id)
                self.call, self.calls, self.run, self.member = before
            elif shorten is not None:
                shorten()

        waits = bool(one.id and not one.text) or (shorten is not None and not is_custom)
        self.undo = undo if waits else None

    def frames(self) -> Iterator[Frame]:
        """Chunks with the content received so far."""
        for one in self.log:
            if isinstance(one, Run):
                yield one.frame()
            elif isinstance(one, Call):
                yield from one.frames()
            else:
                yield one


def _begins(one: CallPiece, index: int) -> bool:
    """Whether a fragment starts the call of that index."""
    return (
        one.index == index
        and bool(one.id and one.called)
        and (one.custom is not None or _call_run(0, is_custom=False).allows(one.text))
    )


class ChatMatcher(Watch):
    """The Chat matcher; see `base.Matcher`. Two things change in exact chunks: the model name,
    if another is to be shown, and the usage chunk, which is dropped if the client did not ask
    for it."""

    __slots__ = (
        "_asked",
        "_choices",
        "_count",
        "_early",
        "_has_legacy_calls",
        "_head",
        "_id_repeats",
        "_model",
        "_spoken",
        "_usage",
        "_wants_usage",
    )

    def __init__(
        self,
        model: str | None,
        include_usage: bool,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
    ) -> None:
        super().__init__()
        self._model = model
        self._wants_usage = include_usage
        self._asked = choices
        self._choices = {0: Progress(is_alone=choices == 1)}
        self._head: Answer | None = None
        """The first chunk, for its members that describe the whole answer."""
        self._count = 0
        """Number of chunks with choices, except those matched by likeness."""
        self._id_repeats = False
        self._spoken = choices > 1
        """Whether there was content other than plain reasoning text."""
        self._has_legacy_calls = False
        self._early = b""
        """Chunks without a choice before the first one that has any."""
        self._usage: JsonObject | None = None

    @property
    def thinks(self) -> bool:
        """See `base.Matcher`."""
        return self.begun and not self._spoken

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on, None if the chunk is not exact."""
        data = frame.data
        if data[: len(DONE)] == DONE:
            return self._terminated()
        chunk = _exact(data)
        if chunk is None:
            return None if data.strip() or frame.event == b"error" else b""
        if frame.event == b"error" or (chunk.error is not None and is_error(chunk.error)):
            return self._error(chunk.error, frame)
        if chunk.choices is None or not self._allows(chunk.choices, chunk.id):
            return None
        return self._take(chunk, chunk.choices, frame)

    def _allows(self, choices: Sequence[Choice], name: str | None) -> bool:
        is_other = self.begun and bool(name) and name != self.answer_id
        if self.undo is not None and not self._choices[0].may_end(choices):
            return False
        for choice in choices:
            if not 0 <= choice.index < self._asked or choice.message or choice.text is not None:
                return False
            delta = choice.delta or _EMPTY
            progress = self._choices.get(choice.index) or Progress(is_alone=False)
            if not progress.allows(choice, is_undoable=self.undo is not None):
                return False
            if is_other and delta.role:
                return False  # a second answer, or an id for each chunk
            if self._has_legacy_calls and delta.tool_calls:
                return False
            if delta.function_call and any(one.calls for one in self._choices.values()):
                return False
        return len(choices) < 2 or self._asked > 1

    def _take(self, chunk: Answer, choices: Sequence[Choice], frame: Frame) -> bytes:
        data, says = frame.data, False
        self.forget()
        like: tuple[bytes, str, Run] | None = None
        for choice in choices:
            says = says or choice.delta is not None or bool(choice.finish_reason)
            progress = self._choices.get(choice.index)
            if progress is None:
                progress = self._choices[choice.index] = Progress(is_alone=False)
            delta = choice.delta or _EMPTY
            texts = _texts(delta)
            for _, text in texts:
                self.text_bytes += len(text.encode())
            self.blank = self._blank_after(delta.tool_calls) if delta.tool_calls else 0
            if delta.function_call is not None:
                self._has_legacy_calls = True
                self.text_bytes += len(delta.function_call.arguments or "")
            self._spoken = self._spoken or delta.speaks
            self.begun = self.begun or delta.has_content
            self.reason = choice.finish_reason or self.reason
            member, text = progress.take(choice, texts, data)
            if self._asked == 1 and delta.tool_calls:
                self.undo = progress.undo
            if text and progress.run and not chunk.usage and self._asked == 1 and not self.undo:
                like = member.encode(), text, progress.run
        self._count += says
        if says and self._head is None:
            self._head, self.answer_id = chunk, chunk.id or ""
        elif choices and chunk.id == self.answer_id:
            self._id_repeats = True
        if chunk.usage:
            self._usage = chunk.usage
            self.usage = read_usage(chunk.usage, tier=chunk.service_tier or self._tier)
            if not choices and not self._wants_usage:
                return b""
        model = self._model
        if model is not None and chunk.model not in (None, model):
            data = renamed(data, model)
        passed = encode(data)
        if like is not None:
            self.learn(frame, passed, *like)
        if self._head is None and not chunk.usage:
            # Azure's filter reports first, in a chunk without id and choice: clients take the first
            # one for the beginning of the answer.
            self._early += passed
            return b""
        if self._early:
            passed, self._early = passed + self._early, b""
        return passed

    @property
    def _tier(self) -> str | None:
        return None if self._head is None else self._head.service_tier

    def _blank_after(self, calls: Sequence[CallPiece]) -> int:
        """The run of white space in arguments after more of them."""
        arguments = "".join([one.text for one in calls])
        self.text_bytes += len(arguments)
        return blank_after(self.blank, arguments)

    def _error(self, error: Any, frame: Frame) -> bytes | None:
        """An error that clients can read ends the stream as it came."""
        if not is_readable(error):
            return None
        self.fault = fault_of(error)
        # The upstream's own terminator may never come.
        return encode(frame.data) + encode(DONE)

    def _terminated(self) -> bytes | None:
        """Handle the terminator: there are no more choices, since many servers ignore `n`."""
        if not all(choice.finished or choice.is_blank for choice in self._choices.values()):
            return None
        self.ended = True
        return encode(DONE)

    def finish(self) -> bytes | None:
        """The terminator, if the server left it out; None if the answer is incomplete."""
        finished = [choice for choice in self._choices.values() if choice.finished]
        return self._terminated() if len(finished) >= self._asked else None

    def hand_over(self, read: Read, writer: AnswerWriter) -> None:
        """Feed the passed events to the reader."""
        count = self._count
        if self.undo is not None:
            self.undo()
            count -= 1
        if self._asked > 1 or self._has_legacy_calls:
            raise UpstreamError.unreadable("a chunk is not what the protocol allows")
        if count:
            names = ("id", "model", "created", "service_tier")
            first = {name: getattr(self._head, name, None) for name in names}
            first["choices"] = [{"index": 0, "delta": {"role": "assistant"}}]
            read(Frame(b"", to_json(first)))
            if self._id_repeats:
                read(Frame(b"", to_json({**first, "choices": [{"index": 0, "delta": {}}]})))
        for frame in self._choices[0].frames():
            read(frame)
        if self._usage is not None:
            usage_chunk: JsonObject = {"choices": [], "usage": self._usage}
            usage_chunk["service_tier"] = self._tier
            read(Frame(b"", to_json(usage_chunk)))

"""Reads an upstream's answer, whole or streamed: chunks of one shape, whose parts are pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Foreign,
    Image,
    Media,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import InvalidRequest, UpstreamError
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
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.jsontext import JsonError, decode
from dragoman.protocols import google_wire
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import JsonObject, loss_of
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.answer_shapes import (
    ANSWER,
    FOREIGN,
    Answer,
    Blob,
    Call,
    Candidate,
    Part,
    is_empty,
)
from dragoman.protocols.google_generate_content.errors import fault_of
from dragoman.protocols.google_generate_content.finish import (
    CONTINUED,
    STOPPED,
    blocked,
    read_finish,
)
from dragoman.protocols.google_generate_content.grounding import (
    is_licensed,
    queries_of,
    read_citations,
    read_recited,
    sources_of,
    unread,
)
from dragoman.protocols.google_generate_content.usage import (
    COUNTS,
    merge_usage,
    read_usage,
    tier_of,
    uncounted,
)
from dragoman.protocols.reading import REFUSED
from dragoman.sse import DONE, Frame

_NO_COUNTERPART: Final = "has no counterpart downstream"
_PREFIX: Final = "call_"


class GoogleReader:
    """The reader of one stream; see `base.StreamReader`. Frames may follow the finish reason, and
    some servers repeat it on each: only the end of the bytes is the end."""

    __slots__ = (
        "_calls",
        "_citations",
        "_count",
        "_feedback",
        "_finish_message",
        "_grounding",
        "_has_calls",
        "_has_content",
        "_id",
        "_ids",
        "_inbound",
        "_open",
        "_over",
        "_reason",
        "_seal",
        "_started",
        "_text",
        "_uncited",
        "_usage",
    )

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._started = self._over = False
        self._id = ""
        self._count = 0
        """Number of the next block."""
        self._open: type[Block] | None = None
        self._text: list[str] = []
        """The pieces of the open text."""
        self._seal: Opaque | None = None
        """A signature after the open block, which waits for what is said of that block."""
        self._calls = 0
        self._ids = CallIds(_PREFIX)
        self._has_calls = self._has_content = False
        self._usage: JsonObject = {}
        self._reason = self._feedback = self._finish_message = ""
        self._grounding: JsonObject = {}
        self._uncited = False
        """Whether no text was given the sources yet."""
        self._citations: JsonObject = {}

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        if self._over:
            return ()
        try:
            try:
                return self.take(ANSWER.decode(frame.data))
            except REFUSED:
                return self._loose(frame)
        except InvalidRequest:
            failure = UpstreamError.unreadable("a chunk of its stream is malformed")
        except UpstreamError as error:
            failure = error
        self._over = True
        return (Failed(failure.fault),)

    def finish(self) -> Iterable[Event]:
        """Handle the end of the bytes: the end of the answer, if its reason was given."""
        if self._over:
            return ()
        self._over = True
        try:
            return self._end()
        except UpstreamError as error:
            return (*self._metered(), Failed(error.fault))

    def _loose(self, frame: Frame) -> list[Event]:
        """The events of a chunk that is not in the exact form."""
        if frame.data.strip() in (b"", DONE):
            return []
        try:
            value = self._inbound.decode(frame.data)
        except JsonError:
            raise UpstreamError.unreadable("a chunk of its stream is not JSON") from None
        return self.take_loose(value)

    def take_loose(self, value: Any) -> list[Event]:
        """The events of a decoded chunk, or of several in an array.

        Raises:
            InvalidRequest: it is malformed.
            UpstreamError: it is an error, or no chunk.
        """
        if type(value) is list:
            return [event for one in value for event in self.take_loose(one)]
        if type(value) is not dict:
            raise UpstreamError.unreadable("a chunk of its stream is not an object")
        if (error := stray_error(value, *_MEMBERS)) is not None:
            raise UpstreamError(fault_of(error))
        extras: list[Extra] = []
        answer = ANSWER.tolerate(value, extras)
        for extra in extras:
            self._inbound.ledger.add(extra.path[:120], loss_of(extra.path), _NO_COUNTERPART)
        return self.take(answer)

    def take(self, answer: Answer) -> list[Event]:
        """The events of a chunk.

        Raises:
            UpstreamError: it is unusable.
        """
        events: list[Event] = []
        counts = answer.usage_metadata
        if counts is not None:
            merge_usage(self._usage, counts)
        if not self._started:
            self._started = True
            self._id = answer.response_id or ""
            known = read_usage(self._usage) if "promptTokenCount" in self._usage else None
            tier = tier_of(self._usage)
            events.append(Started(self._id, answer.model_version or "", 0, tier, known))
        if answer.prompt_feedback is not None and answer.prompt_feedback.block_reason:
            self._feedback = answer.prompt_feedback.block_reason
        for candidate in answer.candidates or ():
            if candidate.index:
                detail = "only the first candidate can be shown"
                self._inbound.ledger.add("candidates", LossKind.CONTENT, detail)
            else:
                self._candidate(candidate, events)
        if counts is not None:
            events += self._metered()
        return events

    # --- the pieces -----------------------------------------------------------------------------

    def _candidate(self, candidate: Candidate, events: list[Event]) -> None:
        logprobs = _logprobs(candidate.logprobs_result)
        for part in (candidate.content and candidate.content.parts) or ():
            logprobs = self._part(part, logprobs, events)
        if candidate.grounding_metadata:
            self._grounding, self._uncited = candidate.grounding_metadata, True
        if candidate.url_context_metadata:
            self._inbound.ledger.add("urlContextMetadata", LossKind.KNOB, _NO_COUNTERPART)
        if candidate.citation_metadata:
            self._citations = candidate.citation_metadata
            if is_licensed(self._citations):
                self._inbound.ledger.add("citationMetadata", LossKind.KNOB, _NO_COUNTERPART)
        if candidate.finish_reason:
            self._reason = candidate.finish_reason
        if candidate.finish_message:
            self._finish_message = candidate.finish_message

    def _part(
        self, part: Part, logprobs: tuple[Any, ...] | None, events: list[Event]
    ) -> tuple[Any, ...] | None:
        """Add the events of one part. Returns the log probabilities that are left."""
        signature = part.thought_signature
        opaque = None
        if signature:
            opaque = Opaque(wire.NAME, signature, account=self._inbound.account)
        if part.function_call is not None:
            self._call(part.function_call, opaque, events)
        elif part.text is not None:
            return self._piece(part.text, bool(part.thought), opaque, logprobs, events)
        elif part.inline_data is not None:
            self._media(part.inline_data, events)
            self._signed(opaque, events)
        elif part.audio_transcription is not None:
            said = part.audio_transcription.get("text")
            return self._piece(str(said or ""), False, opaque, logprobs, events)
        else:
            self._foreign(part, events)
            self._signed(opaque, events)
        return logprobs

    def _piece(
        self,
        text: str,
        is_thought: bool,
        opaque: Opaque | None,
        logprobs: tuple[Any, ...] | None,
        events: list[Event],
    ) -> tuple[Any, ...] | None:
        """A piece of text or of a thought, with the signature of all of it."""
        if text:
            kind = Reasoning if is_thought else Text
            if self._open is not kind or self._seal is not None:
                head = Reasoning() if is_thought else Text(text="")
                self._begin(head, events)
            events.append(Delta(self._count, text, None if is_thought else logprobs))
            self._has_content = self._has_content or not is_thought
            if not is_thought:
                self._text.append(text)
                logprobs = None
        if opaque is None:
            return logprobs
        if is_thought and self._open is Reasoning and self._seal is None:
            events.append(Sealed(self._count, opaque))
            self._close(events)
        elif text:
            self._signed(opaque, events)
        else:
            # A part of its own: no other may be signed in its place.
            self._flush(events)
            self._seal = opaque
        return logprobs

    def _signed(self, opaque: Opaque | None, events: list[Event]) -> None:
        """The signature of the block before."""
        if opaque is not None:
            self._flush(events)
            self._seal = msgspec.structs.replace(opaque, anchor="previous")

    def _call(self, call: Call, opaque: Opaque | None, events: list[Event]) -> None:
        if call.partial_args or call.will_continue:
            raise UpstreamError.unreadable("it has arguments in pieces, which were not asked for")
        if is_empty(call):
            return
        if not call.name:
            raise UpstreamError.unreadable("a tool call has no name")
        self._has_calls = self._has_content = True
        self._close(events)
        if opaque is not None:
            self._seal = msgspec.structs.replace(opaque, anchor="next")
            self._flush(events)
        seed = f"{self._id}:{self._calls}"
        self._calls += 1
        self._count += 1
        head = ToolCall(id=self._ids.take(call.id or "", seed), name=call.name)
        events += (
            Opened(self._count, head),
            Delta(self._count, _arguments(call.args)),
            Closed(self._count),
        )

    def _media(self, blob: Blob, events: list[Event]) -> None:
        media_type, data = (blob.mime_type or "").lower(), blob.data or ""
        self._close(events)
        if not self._inbound.same_protocol:
            kind = media_type.partition("/")[0][:20] or "media"
            detail = f"{kind} that the model made cannot be shown"
            self._inbound.ledger.add("inlineData", LossKind.CONTENT, detail)
            return
        self._has_content = True
        block: Block
        if media_type.startswith("image/"):
            block = Image(source=Base64(media_type, data))
        elif media_type in google_wire.AUDIO_FORMATS:
            block = Audio(data=data, format=google_wire.AUDIO_FORMATS[media_type])
        else:
            block = Media(source=Base64(media_type, data), media_type=media_type)
        self._whole(block, events)

    def _foreign(self, part: Part, events: list[Event]) -> None:
        """A part that only this protocol has."""
        found = next((name for name in FOREIGN if getattr(part, name) is not None), None)
        if found is None:
            if part.file_data is not None:
                detail = "a file that the model made cannot be shown"
                self._inbound.ledger.add("fileData", LossKind.CONTENT, detail)
            return
        self._close(events)
        name = FOREIGN[found]
        if self._inbound.same_protocol:
            self._whole(
                Foreign(origin=wire.NAME, type=name, raw={name: getattr(part, found)}), events
            )
        else:
            # The model's text says what came of it.
            self._inbound.ledger.add(name, LossKind.KNOB, _NO_COUNTERPART)

    def _whole(self, block: Block, events: list[Event]) -> None:
        self._count += 1
        events += (Opened(self._count, block), Closed(self._count))

    # --- blocks ---------------------------------------------------------------------------------

    def _begin(self, head: Block, events: list[Event]) -> None:
        self._close(events)
        self._open = type(head)
        self._count += 1
        events.append(Opened(self._count, head))

    def _close(self, events: list[Event]) -> None:
        """Close the open block, with what was said of it; its signature follows."""
        if self._open is Text:
            self._annotate(events)
            self._text = []
        if self._open is not None:
            self._open = None
            events.append(Closed(self._count))
        self._flush(events)

    def _flush(self, events: list[Event]) -> None:
        """A signature that waits, as a block of its own."""
        opaque, self._seal = self._seal, None
        if opaque is None:
            return
        if self._open is not None:
            self._seal = opaque
            self._close(events)
            return
        self._count += 1
        events += (
            Opened(self._count, Reasoning()),
            Sealed(self._count, opaque),
            Closed(self._count),
        )

    def _annotate(self, events: list[Event]) -> None:
        """The citations of the open text."""
        text = "".join(self._text)
        found: list[UrlCitation] = []
        if self._uncited:
            found += read_citations(text, self._grounding)
        if self._citations:
            found += read_recited(text, self._citations)
        self._uncited, self._citations = False, {}
        events += [Annotated(self._count, citation) for citation in found]

    def _searches(self, events: list[Event]) -> None:
        """The vendor's web searches, where clients are shown them."""
        if not self._inbound.counts_searches:
            return
        sources = sources_of(self._grounding)
        for query in queries_of(self._grounding):
            self._count += 1
            events += (Opened(self._count, WebSearch()), Delta(self._count, query))
            events += [Annotated(self._count, source) for source in sources]
            events.append(Closed(self._count))
            sources = []

    # --- the end --------------------------------------------------------------------------------

    def _metered(self) -> list[Event]:
        if COUNTS.isdisjoint(self._usage):
            return []
        searches = None
        if self._grounding and self._inbound.counts_searches:
            searches = len(queries_of(self._grounding))
        usage = read_usage(self._usage, searches=searches)
        return [Metered(usage, usage.tier)]

    def _end(self) -> list[Event]:
        """The events of the end.

        Raises:
            UpstreamError: the answer is not whole, or failed.
        """
        if not self._started:
            raise UpstreamError.unreadable("it has nothing in it")
        events: list[Event] = []
        if not self._reason and not self._feedback:
            raise UpstreamError.unreadable("it ends without a finish reason")
        if self._reason:
            finish = read_finish(
                self._reason, has_calls=self._has_calls, has_content=self._has_content
            )
        else:
            finish = blocked(self._feedback)
        self._close(events)
        for name in unread(self._grounding):
            self._inbound.ledger.add(f"groundingMetadata.{name}", LossKind.KNOB, _NO_COUNTERPART)
        if self._uncited:
            detail = "the sources of a text came after its end"
            self._inbound.ledger.add("groundingMetadata", LossKind.KNOB, detail)
        self._searches(events)
        if self._reason == CONTINUED:
            detail = "the answer is not whole: its service was not asked for the rest"
            self._inbound.ledger.add("finishReason", LossKind.CONVERTED, detail)
        if self._finish_message and self._reason != STOPPED:
            self._inbound.ledger.add("finishMessage", LossKind.KNOB, _NO_COUNTERPART)
        for name in uncounted(self._usage):
            self._inbound.ledger.add(f"usageMetadata.{name}", LossKind.KNOB, "is not counted apart")
        return [*events, Finished(finish), *self._metered(), Ended()]


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """The events of a whole answer, or of the array that a stream without events is.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    reader = GoogleReader(inbound)
    try:
        try:
            events = reader.take(ANSWER.decode(body))
        except REFUSED:
            events = reader.take_loose(inbound.decode_body(body))
    except InvalidRequest:
        raise UpstreamError.unreadable("it is malformed") from None
    return [*events, *reader.finish()]


_MEMBERS = ("candidates", "promptFeedback", "usageMetadata", "responseId", "modelVersion")


def _arguments(args: Raw) -> str:
    """The arguments of a call as JSON text on one line."""
    text = bytes(args).strip()
    if text in (b"", b"null"):
        return "{}"
    if text.startswith(b'"') or any(odd in text for odd in _ODD):
        try:
            value = decode(text)
        except JsonError:
            return text.decode(errors="replace")
        return value if type(value) is str else to_json_text(value)
    return text.decode(errors="replace")


_ODD = (b"\n", b'": ', b", ", b"\\u")
"""What compact JSON has nowhere, or only in few texts."""


def _logprobs(result: JsonObject | None) -> tuple[Any, ...] | None:
    """Log probabilities of tokens in the shape of OpenAI's protocols."""
    chosen = (result or {}).get("chosenCandidates")
    if type(chosen) is not list or not chosen:
        return None
    others = (result or {}).get("topCandidates")
    others = others if type(others) is list else []
    records = []
    for place, token in enumerate(chosen):
        if type(token) is not dict:
            continue
        top = others[place] if place < len(others) else None
        among = top.get("candidates") if type(top) is dict else None
        among = among if type(among) is list else []
        top_logprobs = [_token(one) for one in among if type(one) is dict]
        records.append({**_token(token), "top_logprobs": top_logprobs})
    return tuple(records) or None


def _token(token: JsonObject) -> JsonObject:
    text = token.get("token")
    text = text if type(text) is str else ""
    probability = token.get("logProbability")
    is_number = type(probability) in (int, float)
    return {
        "token": text,
        "logprob": probability if is_number else 0.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }

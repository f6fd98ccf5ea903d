"""One request on its way to one upstream, and its answer on the way back."""

from __future__ import annotations

import random
import time
from binascii import hexlify
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.blocks import Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest, UpstreamError
from dragoman.canonical.events import Closed, Delta, Event, Failed, Metered, Opened
from dragoman.canonical.halves import MENDED, Halves
from dragoman.canonical.losses import Ledger, Loss, LossKind
from dragoman.canonical.masking import NO_MASK, Mask
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import CustomTool, Extra, FunctionTool, Request, Tool, ToolRef
from dragoman.canonical.sequencer import Sequencer
from dragoman.canonical.stops import cut_whole, emulated
from dragoman.canonical.tagged import TaggedReasoning, may_have_tags
from dragoman.canonical.tagged_calls import TaggedCalls
from dragoman.canonical.tools import ToolRestorer
from dragoman.protocols import CODECS
from dragoman.protocols.base import (
    NOTHING,
    PLAIN,
    AnswerWriter,
    Codec,
    Inbound,
    Operation,
    Outbound,
    Reply,
    StreamReader,
    to_json,
)
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import finish_of
from dragoman.protocols.long_texts import filled
from dragoman.protocols.request_settings import NO_COUNTERPART
from dragoman.protocols.tools import others_than_texts
from dragoman.sse import escape
from dragoman.translation.client_request import ClientRequest
from dragoman.translation.estimate import estimate_tokens
from dragoman.translation.foreign_reasoning import without_foreign_reasoning
from dragoman.translation.omitted import without_fields
from dragoman.translation.searching import (
    Found,
    SearchesPending,
    Searching,
    search_of,
    with_searches,
)
from dragoman.translation.stages import Stage, staged
from dragoman.translation.streams import (
    RECORDED,
    UNREAD,
    AnswerStream,
    CutStream,
    Outcome,
    PassedStream,
    TranslatedStream,
    has_content,
)

ALL_REASONING = 1 << 62
"""All pieces of reasoning, for `Call.drop_reasoning`."""

_UNCHANGED = ToolNames((), 1 << 62)
"""The names of tools in what is passed through."""

_NOT_PICKLED = frozenset({"_unreduced", "body", "endpoint"})


class CallSettings(Struct, frozen=True, kw_only=True):
    """The parameters of a translation besides the two protocols.

    `model` is the name sent upstream (None: the client's). `account` tags reasoning state with
    the account it will be bound to. `service` is the form in which the upstream offers its
    protocol; `headers` are those of a client of the same protocol that are forwarded. `response_id`
    is the id of the answer (None: a fresh one). `created`, in Unix seconds, is the time of an
    answer whose upstream does not report one (None: now).
    """

    model: str | None = None
    options: Options = Options()
    capabilities: Capabilities = Capabilities()
    sealer: Sealer = Sealer()
    account: str = ""
    service: str = PLAIN
    headers: Mapping[str, str] = {}
    response_id: str | None = None
    created: int | None = None


class Call:
    """A request on its way to one upstream, and the way back for its answer.

    `path` is the path below the version, with its query, at which the upstream is asked.
    `account` and `response_id` are initially those of the settings; a caller that tries several
    accounts sets them for each. `request_id` is part of an error that ends a stream, if the
    protocol has a member for it. `mask` has the secrets that the upstream was sent: streams hide
    them, and the caller does in whole answers and errors."""

    __slots__ = (
        "_earlier",
        "_names",
        "_others",
        "_source",
        "_stops",
        "_unreduced",
        "account",
        "body",
        "codec",
        "endpoint",
        "headers_passed",
        "ledger",
        "mask",
        "passes_through",
        "path",
        "request_id",
        "response_id",
        "search",
        "settings",
        "streams",
    )

    def __init__(self, source: ClientRequest, upstream: str, settings: CallSettings) -> None:
        """Write the request for an upstream of protocol `upstream`.

        Raises:
            InvalidRequest: the request is malformed.
            Refused: the policy does not allow what would be lost.
        """
        self._source = source
        self.codec = codec = CODECS[upstream]
        self.settings = settings
        self.endpoint = codec.endpoint.at(settings.service)
        self.account = settings.account
        self.mask = NO_MASK
        self.response_id = settings.response_id
        self.request_id = ""
        self.headers_passed: Mapping[str, str] = NOTHING
        """The client's headers that are sent."""
        self.search: Searching | None = None
        """The searches that are made here for the model; None if there are none."""
        self._earlier: Sequence[Event] = ()
        """The events of the answers before the last one, where that takes several."""
        self._names = _UNCHANGED
        self._others: Mapping[str, frozenset[str]] = NOTHING
        """The properties that are no texts of the tools of which calls may be in a text."""
        self._stops: tuple[str, ...] = ()
        """Stop sequences that are emulated here."""
        self._unreduced: tuple[bytes, Ledger] | None = None
        """The first body and ledger, once there are others."""
        capabilities = settings.capabilities
        self.passes_through = (
            source.codec is codec
            and bool(source.body)
            and codec.passthrough.suits(settings.options)
            and not (self._may_search() and codec.endpoint.searches(source.members))
        )
        """Whether both sides have the same protocol, so that nothing is translated."""
        self.streams = source.stream
        """Whether the upstream is asked to stream, if only for `stream_as_response`."""
        self.ledger = Ledger()
        if self.passes_through:
            self.body = self._forward(0)
            if capabilities.reasoning_in == "tags" or capabilities.tool_text == "parse":
                self._read_answer()
        else:
            request = self._request()
            if self._may_search() and search_of(request) is not None:
                self.search = Searching(request, self.ledger)
                request = self.search.request
            self.streams = request.stream or self._may_be_long(request)
            self._names = tool_names(request, codec)
            self._note_tools(request)
            if request.stop:
                taken = codec.translate.taken_stops(request.stop)
                self._stops = emulated(request.stop, taken, settings.options)
            self.body = self._write(request)
        self.path = self.endpoint.path_for(settings.model or source.model, self.streams)

    def _may_search(self) -> bool:
        """Whether web searches are made here, and not by the upstream."""
        settings = self.settings
        return settings.options.hosted_tools == "search" and (
            self._source.codec is not self.codec or not settings.capabilities.web_search
        )

    def _request(self) -> Request:
        """The client's request, as it was first written for the upstream."""
        if self.search is not None:
            return self.search.request
        request = self._source.read(self.settings.sealer)
        return with_searches(request) if self._may_search() else request

    def search_anew(self) -> None:
        """Begin with the first request of those that its searches take."""
        assert self.search is not None
        self.restore()
        self._earlier = ()
        self.search.start()

    @property
    def goes_on(self) -> bool:
        """Whether `body` is to be sent for the rest of the answer, once its searches are made."""
        return self.search is not None and not self.search.is_over

    def go_on(self, found: Sequence[Found | None], stream: AnswerStream | None = None) -> bytes:
        """Answer the searches of the model with what they found. `body` is then the next request,
        and the answer to it is the rest of the client's. Returns what of it the client's `stream`
        is sent at once."""
        assert self.search is not None
        events = self.search.answered(found)
        if not self.search.is_over:
            losses = self.ledger
            self.replace_body(self.body, Ledger())
            self.body = self._write(self.search.request)
            self.ledger = losses
        if stream is None:
            self._earlier = [*self._earlier, *events]
            return b""
        assert isinstance(stream, TranslatedStream)
        return stream.go_on(self._reader(stream.halves), self._stages(), events)

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state has what the translation of an answer needs: neither body, and of the
        request the result of `reduce`."""
        state = {name: getattr(self, name) for name in self.__slots__ if name not in _NOT_PICKLED}
        return state | {"codec": self.codec.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._unreduced = None
        self.codec = CODECS[state["codec"]]
        self.endpoint = self.codec.endpoint.at(self.settings.service)
        self.complete(self._source, b"")

    def reduce(self) -> None:
        """Extract the part of the request that the translation of its answer needs, before
        pickling.

        Raises:
            InvalidRequest: naming the field.
        """
        if self.passes_through:
            self._asked()
        else:
            self._source.reduce(self.settings.sealer)

    def complete(self, source: ClientRequest, body: bytes) -> None:
        """Set the bodies of a call that was made in another process."""
        source.take_reduced(self._source)
        self._source, self.body = source, body

    def drop_reasoning(self, *, bound: bool = False, moved: bool = False, least: int = 0) -> int:
        """Make `body` the one for `account`: without reasoning that the account cannot use. What is
        left out is in `ledger`.

        If reasoning is `bound` to the account that made it, that of other accounts is left out.
        Between different protocols a tag names its account; reasoning without a tag, and all of it
        within one protocol, is another account's if the conversation has `moved` to this one. The
        first `least` pieces are left out in any case, `ALL_REASONING` after the account refused
        them. Returns the number of pieces left out.

        Raises:
            Refused: the policy does not allow the loss.
        """
        self.restore()
        if not self.may_drop(bound=bound, moved=moved, least=least):
            return 0
        if self.passes_through:
            without = ALL_REASONING if bound and moved else least
            left_out = self._source.reasoning(without)
            if left_out:
                self.replace_body(self.body, Ledger())
                self.body = self._forward(left_out)
            return left_out
        request, left_out = without_foreign_reasoning(
            self._request(),
            self.codec.name,
            self.account,
            unknown=moved,
            own=least > 0,
        )
        if left_out:
            self.replace_body(self.body, Ledger())
            self.body = self._write(request)
        return left_out

    def replace_body(self, body: bytes, ledger: Ledger) -> None:
        """Have another body for an account, with its losses, until `restore`."""
        self._unreduced = self._unreduced or (self.body, self.ledger)
        self.body, self.ledger = body, ledger

    @property
    def names(self) -> ToolNames:
        """The map of tool names between client and upstream."""
        return self._names

    def _read_answer(self) -> None:
        """Have the answer read and written, though the request is passed through."""
        with suppress(InvalidRequest):
            request = self._source.read(self.settings.sealer)
            self._names = tool_names(request, self.codec)
            self._note_tools(request)
            self.passes_through = False

    def restore(self) -> None:
        """Leave nothing out of the body for an account."""
        if self._unreduced is not None:
            self.body, self.ledger = self._unreduced
        # Losses of another account's answer do not concern this one's.
        self.ledger.rewind()

    def may_drop(self, *, bound: bool, moved: bool, least: int) -> bool:
        """Whether `drop_reasoning` has to look for reasoning that it would leave out."""
        return (bound and (moved or not self.passes_through)) or least > 0

    def _report_mended(self) -> None:
        self.ledger.add("body", LossKind.REPAIRED, MENDED)

    def _forward(self, without: int) -> bytes:
        """The body for an upstream of the same protocol, values byte for byte. Only reasoning in
        the gateway's envelopes is left out, and reported, and so are the first `without` pieces of
        reasoning that only their maker can read; limits are lowered to those of the capabilities;
        and members that the upstream would refuse are written anew."""
        settings, source, passthrough = self.settings, self._source, self.codec.passthrough
        capabilities, ledger, checked = settings.capabilities, self.ledger, source.check()
        if source.mended:
            self._report_mended()
        members = passthrough.without_envelopes(source.members, checked, ledger)
        if without:
            members, _ = passthrough.without_reasoning(members, ledger, without)
        members = passthrough.fitted(members, checked, capabilities, ledger, source.is_lowered)
        body = passthrough.forward_request(members, settings.model or source.model, capabilities)
        unfit = passthrough.unfit(source.members, checked, capabilities)
        if unfit:
            body = self._adapted(body, frozenset(unfit))
        if capabilities.body or capabilities.omit_fields or self.endpoint.moved is not None:
            body = to_json(self._made(jsontext.members(body)))
        elif settings.headers:
            self._pass_headers()
        ledger.enforce(settings.options.policy)
        return body

    def _made(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """The members of a body as the upstream's service has them."""
        capabilities = self.settings.capabilities
        if capabilities.body:
            members = self._completed(members)
        if capabilities.omit_fields:
            members = without_fields(members, capabilities.omit_fields, self.ledger)
        headers = self._pass_headers()
        moved = self.endpoint.moved
        return members if moved is None else moved(members, headers, capabilities)

    def _pass_headers(self) -> Mapping[str, str]:
        """The client's headers that the upstream takes. Those that its service has in the body are
        among them, but are not sent."""
        settings, plain = self.settings, self.codec.endpoint
        if not settings.headers or not self.passes_through:
            return {}
        headers = plain.fitted_headers(settings.headers, settings.capabilities, self.ledger)
        if self.endpoint is not plain:
            sent = self.endpoint.forwarded
            self.headers_passed = {name: headers[name] for name in sent if name in headers}
        else:
            self.headers_passed = headers
        return headers

    def _completed(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """The members of a body, with those that are added to every one."""
        completed = dict(members)
        for name, value in self.settings.capabilities.body.items():
            given = completed.get(name, value)
            given = jsontext.decode(given) if isinstance(given, Raw) else given
            if type(given) is dict and type(value) is dict:
                completed[name] = {**given, **value}
                changed = [
                    f"{name}.{key}" for key in value if given.get(key, value[key]) != value[key]
                ]
            else:
                completed[name] = value
                changed = [name] if given != value else []
            for path in changed:
                self.ledger.add(path, LossKind.KNOB, "a value of the upstream's settings is sent")
        return completed

    def _adapted(self, body: bytes, unfit: frozenset[str]) -> bytes:
        """A body for an upstream of the client's protocol, its members `unfit` written anew. One
        that cannot be read is unchanged: the upstream reports its faults in the same protocol."""
        source = self._source.with_body(body)
        try:
            request = source.read(self.settings.sealer)
        except InvalidRequest:
            return body
        self._names = tool_names(request, self.codec)
        ledger = Ledger()
        outbound = replace(
            self._outbound(ledger), same_protocol=True, unknown=_by_object(request.extras, unfit)
        )
        written = self.codec.translate.write_request(replace(request, extras=()), outbound)
        for path, unknown in outbound.unknown.items():
            for name in unknown:
                ledger.add(f"{path}.{name}", LossKind.KNOB, NO_COUNTERPART)
        self.ledger.extend(loss for loss in ledger if _top_level(loss.path) in unfit)
        members: dict[str, Any] = {
            name: written.get(name) if name in unfit else raw
            for name, raw in source.members.items()
            if name not in unfit or name in written
        }
        members |= {name: written[name] for name in unfit if name in written}
        if request.compacts or ("tools" in unfit and any(map(self._differs, request.tools))):
            self.passes_through = False
        return to_json(members)

    def _differs(self, tool: Tool) -> bool:
        """Whether calls of the tool look different upstream than to the client."""
        if type(tool) is FunctionTool:
            known = self._names.inward(tool.name)
            return known is None or known.name != tool.name or bool(known.properties)
        return type(tool) is CustomTool

    def _may_be_long(self, request: Request) -> bool:
        """Whether an answer may have more tokens than a non-streamed one should."""
        capabilities = self.settings.capabilities
        above = capabilities.stream_above
        if above is None:
            return False
        limit = self.codec.translate.output_limit(request, self.settings.options)
        known = [most for most in (limit, capabilities.max_output_tokens) if most is not None]
        return min(known, default=above + 1) > above

    def _write(self, request: Request) -> bytes:
        settings = self.settings
        if self._source.mended:
            self._report_mended()
        if self.streams is not request.stream:
            request = replace(request, stream=self.streams)
        body = self.codec.translate.write_request(request, self._outbound(self.ledger))
        made = self._made(body)
        self.ledger.enforce(settings.options.policy)
        return to_json(made)

    def _outbound(self, ledger: Ledger) -> Outbound:
        settings = self.settings
        return Outbound(
            model=settings.model or self._source.model,
            names=self._names,
            ledger=ledger,
            sealer=settings.sealer,
            options=settings.options,
            capabilities=settings.capabilities,
            asked=self._source.model,
        )

    def headers(self, key: str | None = None) -> dict[str, str]:
        """The headers, by their names in lower case, of a request that carries `body`; `key` is the
        upstream's, None for a request without one."""
        endpoint = self.endpoint
        accept = "text/event-stream" if self.streams else "application/json"
        headers = {"content-type": "application/json", "accept": accept}
        headers |= endpoint.headers(self.settings.capabilities)
        if key is not None:
            name, value = endpoint.key_header(key)
            headers[name] = value
        return headers

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of the request and of the answer so far."""
        return tuple(self.ledger)

    def translate_response(self, body: bytes, outcome: Outcome | None = None) -> bytes:
        """Turn an upstream's whole answer into the client's.

        Raises:
            UpstreamError: the answer is an error, unreadable, or not of the upstream's protocol.
        """
        outcome = outcome or Outcome()
        if self.passes_through:
            source, passthrough = self._source, self.codec.passthrough
            choices = passthrough.choices(source.members)
            passed = passthrough.match_response(body, source.model, source.shown, choices)
            if passed is not None:
                outcome.usage, outcome.text_bytes = passed.usage, passed.text_bytes
                outcome.ended, outcome.finish = True, finish_of(passed.reason)
                return passed.body
        return self._whole(self._events(body), outcome)

    def translate_error(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Turn an upstream's error answer into the client's: its status and body. `headers` are
        the upstream's, by their names in lower case."""
        fault = self.codec.translate.read_error(status, headers or {}, body)
        client = self._source.codec
        rendered = client.translate.write_error(fault, mint_request_id(), self.settings.options)
        return rendered.status, escape(to_json(rendered.body))

    def __repr__(self) -> str:
        """The two protocols and the number of losses; no content."""
        lost = len(self.ledger)
        return (
            f"<Call {self._source.codec.name} -> {self.codec.name}: {len(self.body)} bytes, "
            f"{lost} {'loss' if lost == 1 else 'losses'}>"
        )

    def open_stream(self) -> AnswerStream:
        """A translator for the upstream's streamed answer. It has no reference to this call's
        bodies."""
        if not self.passes_through:
            return self._translated(self.response_id)
        source, passthrough = self._source, self.codec.passthrough
        matcher = passthrough.matcher(
            source.model,
            passthrough.asks_usage(source.members),
            source.shown,
            source.choices,
        )
        rest = _Rest(
            members={**_settings(source), **passthrough.least},
            shown=source.shown,
            operation=source.operation,
            protocol=self.codec.name,
            settings=self.settings,
            account=self.account,
            response_id=self.response_id,
            request_id=self.request_id,
            mask=self.mask,
            ledger=self.ledger,
        )
        keepalive = self.codec.translate.keepalive
        return PassedStream(self.endpoint.decoder(), matcher, keepalive, rest.stream, self.mask)

    def _translated(self, answer_id: str | None) -> TranslatedStream:
        """A stream that is translated, from its beginning. `answer_id` is the id of the answer."""
        halves, reply = Halves(self.ledger), self._reply(answer_id)
        writer = self._source.codec.translate.answer_writer(reply, True)
        decoder, reader, stages = self.endpoint.decoder(), self._reader(halves), self._stages()
        names, ledger, mask = self._names, self.ledger, self.mask
        if not self._stops:
            return TranslatedStream(decoder, reader, stages, names, writer, ledger, mask, halves)
        stops, prompt = self._stops, estimate_tokens(self._source.read(self.settings.sealer))
        return CutStream(
            decoder, reader, stages, names, writer, ledger, mask, halves, stops, prompt
        )

    def response_as_stream(self, body: bytes, outcome: Outcome | None = None) -> bytes:
        """The client's stream for an upstream that answered whole although asked to stream.

        Raises:
            UpstreamError: as for `translate_response`.
        """
        writer = self._source.codec.translate.answer_writer(self._reply(), True)
        written = b"".join(self._written(self._events(body), writer, outcome or Outcome()))
        return b"".join(filled(written, writer.long_texts))

    def stream_as_response(self, stream: bytes, outcome: Outcome | None = None) -> bytes:
        """The client's whole answer from an upstream's stream, given whole.

        Raises:
            UpstreamError: the stream failed or is not complete.
        """
        halves = Halves(self.ledger)
        reader = self._reader(halves)
        decoder = self.endpoint.decoder()
        frames = [*decoder.feed(stream), *decoder.finish()]
        read = [event for frame in frames for event in reader.read(frame)]
        events = self._staged([*read, *reader.finish()])
        if halves.seen:
            events = [mended for event in events for mended in halves.push(event)]
        return self._whole(self._complete(events), outcome or Outcome())

    def searched(self, outcome: Outcome) -> bytes:
        """The client's answer, whole or as a stream as it asked for, where its last part is known:
        the model called the client's tools beside its searches."""
        if not self._source.stream:
            return self._whole(self._earlier, outcome)
        writer = self._source.codec.translate.answer_writer(self._reply(), True)
        written = b"".join(self._written(self._earlier, writer, outcome))
        return b"".join(filled(written, writer.long_texts))

    def _events(self, body: bytes) -> Iterable[Event]:
        events = self.codec.translate.read_response(body, self._inbound())
        return self._complete(self._staged(events, tagged=may_have_tags(body)))

    def _staged(self, events: Iterable[Event], *, tagged: bool = True) -> Iterable[Event]:
        """What all events of an answer become behind the stages."""
        for stage in self._stages(tagged):
            events = staged(stage, events)
        return events

    def _complete(self, events: Iterable[Event]) -> Iterable[Event]:
        """The events of a whole answer, with those of the answers before it.

        Raises:
            SearchesPending: it goes on when these are made.
        """
        if self.search is None:
            return events
        self._earlier = [*self._earlier, *events]
        if self.search.pending:
            raise SearchesPending
        return self._earlier

    def _reader(self, halves: Halves) -> StreamReader:
        return self.codec.translate.stream_reader(self._inbound(halves))

    def _stages(self, tagged: bool = True) -> Iterator[Stage]:
        """The stages that find reasoning and calls in the text of the answer, which may be
        `tagged`."""
        capabilities = self.settings.capabilities
        where, parses = capabilities.reasoning_in, capabilities.tool_text == "parse"
        is_looked_for = tagged and where == "auto" and self._source.codec is not self.codec
        if where == "tags" or is_looked_for:
            yield TaggedReasoning(is_open=where == "tags")
        if self._others:
            yield TaggedCalls(self._others, self.ledger, mint if parses else None)
        if self.search is not None:
            yield self.search

    def _note_tools(self, request: Request) -> None:
        """Note the tools of which calls may be in the text of the answer."""
        capabilities = self.settings.capabilities
        if capabilities.tool_text == "parse":
            self._others = {
                self._names.outward(tool.name, tool.namespace): others_than_texts(tool)
                for tool in request.tools
                if isinstance(tool, FunctionTool | CustomTool)
            }
        elif capabilities.reasoning_in != "field":
            self._others = dict.fromkeys(self._names, frozenset())

    def _whole(self, events: Iterable[Event], outcome: Outcome) -> bytes:
        writer = self._source.codec.translate.answer_writer(self._reply(), False)
        self._written(events, writer, outcome)
        return escape(to_json(writer.answer()))

    def _written(
        self, events: Iterable[Event], writer: AnswerWriter, outcome: Outcome
    ) -> list[bytes]:
        """The output of `writer` for all events of an answer.

        Raises:
            UpstreamError: the answer failed, or is not complete.
        """
        ordered = list(events)
        if not _is_plain(ordered):
            restorer, sequencer = ToolRestorer(self._names, self.ledger), Sequencer()
            ordered = [
                event
                for read in ordered
                for restored in restorer.push(read)
                for event in sequencer.push(restored)
            ]
        if self._stops:
            ordered = cut_whole(ordered, self._stops)
        written: list[bytes] = []
        write = writer.write
        for event in ordered:
            if type(event) in RECORDED:
                outcome.record(event)
                if type(event) is Failed:
                    # It may have been paid for nevertheless.
                    for earlier in ordered:
                        if type(earlier) is Metered:
                            outcome.record(earlier)
                    raise UpstreamError(event.fault)
            written.append(write(event))
        if not outcome.ended:
            raise UpstreamError.unreadable("it ends before the model finished")
        if self.ledger.lacks_content and not any(map(has_content, ordered)):
            raise UpstreamError.unreadable(UNREAD)
        if outcome.usage is None or not outcome.usage.output:
            outcome.text_bytes = _text_bytes_in(ordered)
        return written

    def _asked(self) -> Request:
        """The part of the request that its answer depends on. A request that is passed through is
        read at the first answer that is not exact."""
        source, sealer = self._source, self.settings.sealer
        if self.passes_through and not source.is_reduced:
            with suppress(InvalidRequest):
                self._names = tool_names(source.read(sealer), self.codec)
            source.reduce(sealer, is_passed=True)
        return source.for_answer(sealer)

    def _inbound(self, halves: Halves | None = None) -> Inbound:
        settings = self.settings
        return Inbound(
            sealer=settings.sealer,
            ledger=self.ledger,
            options=settings.options,
            account=self.account,
            names=self._names,
            halves=halves,
            same_protocol=self._source.codec is self.codec,
        )

    def _reply(self, answer_id: str | None = None) -> Reply:
        """The context of a writer; `answer_id` is the id to show in place of `response_id`."""
        settings = self.settings
        name = self._source.shown.get("id") or answer_id or self.response_id
        return Reply(
            request=self._asked(),
            id=name or mint(self._source.codec.endpoint.id_prefix),
            created=settings.created if settings.created is not None else int(time.time()),
            model=self._source.model,
            ledger=self.ledger,
            sealer=settings.sealer,
            mint=mint,
            options=settings.options,
            request_id=self.request_id,
        )


class _Rest(Struct, frozen=True, kw_only=True):
    """The translation of the rest of a stream that was passed through. It stores only the settings
    of the request: streams are long, and conversations large."""

    members: Mapping[str, Any]
    shown: Mapping[str, Any]
    operation: Operation | None
    protocol: str
    settings: CallSettings
    account: str
    response_id: str | None
    request_id: str
    mask: Mask
    ledger: Ledger

    def stream(self, answer_id: str) -> TranslatedStream:
        """A translated stream, from the beginning of an answer of this id."""
        source = ClientRequest(self.protocol, to_json(self.members), self.shown, self.operation)
        call = Call(source, self.protocol, self.settings)
        call.account, call.response_id = self.account, self.response_id
        call.request_id, call.mask, call.ledger = self.request_id, self.mask, self.ledger
        return call._translated(answer_id)


_SETTING_BYTES = 2048
"""Size of the largest member of a request that counts as a setting, not as conversation; a request
of that size is not let go."""


def _settings(source: ClientRequest) -> Mapping[str, Any]:
    """The settings in a request, without what is large of it."""
    members = source.members
    if len(source.body) <= _SETTING_BYTES:
        return members
    return {
        name: raw.copy()
        for name, raw in members.items()
        if memoryview(raw).nbytes <= _SETTING_BYTES
    }


def _by_object(extras: Iterable[Extra], names: frozenset[str]) -> dict[str, JsonObject]:
    """The unknown members below the top-level members `names`, by the path of their object."""
    found: dict[str, JsonObject] = {}
    for extra in extras:
        path, _, name = extra.path.rpartition(".")
        if path and _top_level(path) in names:
            found.setdefault(path, {})[name] = extra.value
    return found


def _top_level(path: str) -> str:
    """The top-level member that a path is in."""
    return path.partition(".")[0].partition("[")[0]


def _text_bytes_in(events: Iterable[Event]) -> int:
    """The bytes of text in the events of an answer."""
    texts: list[str] = []
    for event in events:
        if type(event) is Delta:
            texts.append(event.text)
        elif type(event) is Opened and isinstance(event.block, Text | Refusal | Reasoning):
            texts.append(event.block.text)
        elif type(event) is Opened and type(event.block) is ToolCall:
            texts += (event.block.name, event.block.arguments)
    return len("".join(texts).encode(errors="replace"))


def _is_plain(events: Sequence[Event]) -> bool:
    """Whether the answer has no tool calls and no interleaved blocks: then the stages before the
    writer would change nothing."""
    kinds = list(map(type, events))
    if kinds.count(Opened) == 1:
        opened = events[kinds.index(Opened)]
        return type(opened) is not Opened or type(opened.block) is not ToolCall
    is_open = False
    for event in events:
        if type(event) is Opened:
            if is_open or type(event.block) is ToolCall:
                return False
            is_open = True
        elif type(event) is Closed:
            is_open = False
    return True


def mint(prefix: str) -> str:
    """A fresh id with `prefix`."""
    # Unique, not secret: without a system call for each. Forks have their own seeds.
    # Ids of one time have a common prefix, as the vendors' do, so that a store has them in order.
    number = int(time.time() * 1000) << 48 | random.getrandbits(48)
    return prefix + number.to_bytes(12, "big").hex()


_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")


def mint_request_id() -> str:
    """A fresh id for a request, in letters: Messages errors contain it, and agents that look for
    "502" anywhere in an error (opencode, pi) would retry a refused request."""
    number = int(time.time() * 1000) << 48 | random.getrandbits(48)
    return "req_" + hexlify(number.to_bytes(12)).translate(_LETTERS).decode()


def tool_names(request: Request, upstream: Codec) -> ToolNames:
    """The map of tool names between a client's request and an upstream's protocol."""
    refs: dict[tuple[str | None, str], ToolRef] = {}
    translate = upstream.translate
    namespaced = translate.namespaces
    for tool in request.tools:
        if type(tool) is FunctionTool:
            space = None if namespaced else tool.namespace
            renamed = translate.renamed_properties(tool)
            refs[space, tool.name] = ToolRef(tool.name, False, space, tool.form, renamed)
        elif type(tool) is CustomTool:
            space = None if namespaced else tool.namespace
            refs[space, tool.name] = ToolRef(tool.name, True, space)
    for turn in request.turns:
        if turn.role != "assistant":
            continue
        for block in turn.blocks:
            if type(block) is ToolCall:
                space = None if namespaced else block.namespace
                if (space, block.name) not in refs:
                    ref = ToolRef(block.name, block.custom, space, block.form)
                    refs[space, block.name] = ref
    return ToolNames(
        refs.values(), translate.tool_name_limit, lettered=translate.tool_names_lettered
    )

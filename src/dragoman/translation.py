"""Joins a reader and a writer: the public library call, usable without the server.

    call = translate_request("anthropic_messages", "openai_chat", body, model="gpt-5.5")
    call.body                      # bytes for the upstream
    call.losses                    # what could not be carried
    call.response(upstream_body)   # bytes for the client
    stream = call.stream()         # or, for a streamed answer:
    stream.feed(chunk)             # bytes for the client, as they come
    stream.finish()                # the upstream's bytes are over

Nothing here performs I/O. Between the same protocol nothing is translated: values pass byte for
byte, and only the model name and the request for usage change.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import (
    DragomanError,
    Fault,
    FaultKind,
    IllegalEvent,
    InvalidRequest,
    UpstreamError,
)
from dragoman.canonical.events import Ended, Event, Failed, Finished, Metered, Started
from dragoman.canonical.fold import fold
from dragoman.canonical.losses import Ledger, Loss
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import CustomTool, FunctionTool, Request, ToolRef
from dragoman.canonical.responses import Finish
from dragoman.canonical.sequencer import Sequencer
from dragoman.canonical.tools import ToolRestorer
from dragoman.canonical.usage import Usage
from dragoman.protocols import CODECS
from dragoman.protocols.base import (
    Codec,
    Inbound,
    Outbound,
    Relay,
    Reply,
    StreamReader,
    StreamWriter,
    to_json,
)
from dragoman.protocols.fields import JsonObject, decode_object
from dragoman.sse import Decoder, EventTooLarge, Frame, escape


class Settings(Struct, frozen=True, kw_only=True):
    """What a translation depends on besides the two protocols.

    `model` is the name sent upstream (None: the client's). `account` tags reasoning state with
    the account it will be bound to. `response_id` and `created` are minted when not given.
    """

    model: str | None = None
    options: Options = Options()
    capabilities: Capabilities = Capabilities()
    sealer: Sealer = Sealer()
    account: str = ""
    response_id: str | None = None
    created: int | None = None


class Outcome:
    """What became of an answer, filled in while it is read: usage, how it ended, what failed."""

    __slots__ = ("ended", "fault", "finish", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.fault: Fault | None = None
        self.ended = False


class ClientRequest:
    """A client's request, read once, to be written for one upstream after another.

    `model` and `stream` are known at once; the whole body is read only when an upstream of
    another protocol needs it.
    """

    __slots__ = ("_members", "_request", "body", "codec", "model", "stream")

    def __init__(self, protocol: str, body: bytes) -> None:
        """Read the head of `body`.

        Raises:
            InvalidRequest: not a JSON object, or model, stream or the list of messages are
                missing or of the wrong type.
        """
        self.codec: Codec = CODECS[protocol]
        self.body = body
        self._request: Request | None = None
        self._members = _decode_members(body)
        self.model, self.stream = _read_head(self._members)

    def read(self, sealer: Sealer) -> Request:
        """The whole request in canonical form.

        Raises:
            InvalidRequest: naming the field.
        """
        if self._request is None:
            self._request = self.codec.read_request(decode_object(self.body), sealer)
        return self._request

    def forward(self, settings: Settings) -> bytes:
        """The body for an upstream of the same protocol, values byte for byte."""
        model = settings.model or self.model
        return self.codec.forward_request(self._members, model, settings.capabilities)

    @property
    def include_usage(self) -> bool:
        """Whether a Chat client asked for a usage chunk in its stream."""
        options = self._members.get("stream_options")
        if options is None:
            return False
        try:
            return msgspec.json.decode(options, type=_StreamOptions).include_usage is True
        except msgspec.ValidationError:
            return False


class _StreamOptions(Struct):
    include_usage: bool | None = None


class _Head(Struct):
    model: Any = None
    stream: Any = None


_members_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _decode_members(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _members_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decode_object(body)
        raise InvalidRequest.at("", "The request body is not valid JSON.") from None


def _read_head(members: dict[str, msgspec.Raw]) -> tuple[str, bool]:
    model = _member(members, "model")
    if model is None or model == "":
        raise InvalidRequest.at("model", "is required", code="missing_required_parameter")
    if not isinstance(model, str):
        raise InvalidRequest.at("model", "must be a string")
    stream = _member(members, "stream")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidRequest.at("stream", "must be a boolean")
    return model, bool(stream)


def _member(members: dict[str, msgspec.Raw], name: str) -> Any:
    raw = members.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidRequest.at(name, "is not valid JSON text") from None


class Call:
    """A request on its way to one upstream, and the way back for its answer."""

    __slots__ = ("_names", "_source", "body", "codec", "ledger", "settings")

    def __init__(self, source: ClientRequest, upstream: str, settings: Settings) -> None:
        """Write the request for an upstream that speaks `upstream`.

        Raises:
            InvalidRequest: the request is malformed.
            Refused: the policy does not allow what would be lost.
        """
        self._source = source
        self.codec = CODECS[upstream]
        self.settings = settings
        self.ledger = Ledger()
        if self.passes_through:
            self._names = ToolNames((), self.codec.tool_name_limit)
            self.body = source.forward(settings)
            return
        request = source.read(settings.sealer)
        self._names = tool_names(request, self.codec)
        outbound = Outbound(
            model=settings.model or source.model,
            names=self._names,
            ledger=self.ledger,
            sealer=settings.sealer,
            options=settings.options,
            capabilities=settings.capabilities,
        )
        body = self.codec.write_request(request, outbound)
        self.ledger.enforce(settings.options.policy)
        self.body = to_json(body)

    @property
    def passes_through(self) -> bool:
        """Whether both sides speak the same protocol, so that nothing is translated."""
        return self._source.codec is self.codec

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was lost so far, of the request and of the answer."""
        return tuple(self.ledger)

    def response(self, body: bytes, outcome: Outcome | None = None) -> bytes:
        """Turn an upstream's whole answer into the client's.

        Raises:
            UpstreamError: the answer is an error, unreadable, or not of the upstream's protocol.
        """
        outcome = outcome or Outcome()
        if self.passes_through:
            answer, outcome.usage = self.codec.forward_response(body, self._source.model)
            outcome.ended = True
            return answer
        return self._whole(self._events(body), outcome)

    def stream(self) -> AnswerStream:
        """A translator for the upstream's streamed answer. It keeps nothing of this call's
        bodies alive."""
        if self.passes_through:
            renamed = self.settings.model not in (None, self._source.model)
            shown = self._source.model if renamed else None
            return RelayedStream(self.codec.relay(shown, self._source.include_usage))
        return TranslatedStream(
            self.codec.stream_reader(self._inbound()),
            self._names,
            self._source.codec.stream_writer(self._reply()),
        )

    def stream_of(self, body: bytes, outcome: Outcome | None = None) -> bytes:
        """The client's stream for an upstream that answered whole although asked to stream.

        Raises:
            UpstreamError: as for `response`.
        """
        outcome = outcome or Outcome()
        writer = self._source.codec.stream_writer(self._reply())
        sequencer = Sequencer()
        written: list[bytes] = []
        for event in _restored(self._events(body), self._names, outcome):
            written += [writer.write(ordered) for ordered in sequencer.push(event)]
        outcome.ended = outcome.fault is None
        return b"".join(written)

    def response_of(self, stream: bytes, outcome: Outcome | None = None) -> bytes:
        """The client's whole answer from an upstream's stream, given whole.

        Raises:
            UpstreamError: the stream failed or is not complete.
        """
        reader = self.codec.stream_reader(self._inbound())
        decoder = Decoder()
        frames = [*decoder.feed(stream), *decoder.finish()]
        events = [event for frame in frames for event in reader.read(frame)]
        return self._whole([*events, *reader.finish()], outcome or Outcome())

    def _events(self, body: bytes) -> Iterable[Event]:
        return self.codec.read_response(decode_answer(body), self._inbound())

    def _whole(self, events: Iterable[Event], outcome: Outcome) -> bytes:
        folded = fold(_restored(events, self._names, outcome))
        outcome.ended = True
        return escape(to_json(self._source.codec.write_response(folded, self._reply())))

    def _inbound(self) -> Inbound:
        settings = self.settings
        return Inbound(
            sealer=settings.sealer,
            ledger=self.ledger,
            options=settings.options,
            account=settings.account,
        )

    def _reply(self) -> Reply:
        settings = self.settings
        return Reply(
            request=self._source.read(settings.sealer),
            id=settings.response_id or mint(self._source.codec.id_prefix),
            created=settings.created if settings.created is not None else int(time.time()),
            model=self._source.model,
            ledger=self.ledger,
            sealer=settings.sealer,
            mint=mint,
            options=settings.options,
        )


def mint(prefix: str) -> str:
    """A fresh id with `prefix`."""
    return prefix + secrets.token_hex(12)


def translate_request(
    client: str, upstream: str, body: bytes, *, model: str | None = None, **settings: Any
) -> Call:
    """Translate a request body between two protocols.

    `client` and `upstream` are protocol names (openai_chat, anthropic_messages,
    openai_responses); `model` is the upstream's name of the model; further keywords are the
    fields of `Settings`.

    Raises:
        InvalidRequest: the request is malformed; the error names the field.
        Refused: the policy does not allow what would be lost.
    """
    return Call(ClientRequest(client, body), upstream, Settings(model=model, **settings))


def tool_names(request: Request, upstream: Codec) -> ToolNames:
    """The map of tool names between a client's request and an upstream's protocol."""
    refs = [
        ToolRef(tool.name, isinstance(tool, CustomTool), _space(tool.namespace, upstream))
        for tool in request.tools
        if isinstance(tool, FunctionTool | CustomTool)
    ]
    declared = {(ref.namespace, ref.name) for ref in refs}
    for turn in request.turns:
        for block in turn.blocks:
            if isinstance(block, ToolCall):
                key = (_space(block.namespace, upstream), block.name)
                if key not in declared:
                    declared.add(key)
                    refs.append(ToolRef(block.name, block.custom, key[0]))
    return ToolNames(refs, upstream.tool_name_limit)


def _space(namespace: str | None, upstream: Codec) -> str | None:
    return None if upstream.namespaces else namespace


def decode_answer(body: bytes) -> JsonObject:
    """The JSON object of an upstream's whole answer.

    Raises:
        UpstreamError: it is not one.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UpstreamError.unreadable("it is not JSON") from None
    if not isinstance(value, dict):
        raise UpstreamError.unreadable("it is not a JSON object")
    return value


def _restored(events: Iterable[Event], names: ToolNames, outcome: Outcome) -> Iterator[Event]:
    restorer = ToolRestorer(names)
    for event in events:
        for restored in restorer.push(event):
            _note(restored, outcome)
            yield restored


def _note(event: Event, outcome: Outcome) -> None:
    if isinstance(event, Metered):
        outcome.usage = event.usage
    elif isinstance(event, Finished):
        outcome.finish = event.finish
    elif isinstance(event, Failed):
        outcome.fault = event.fault


class AnswerStream:
    """An upstream's streamed answer on its way to the client.

    `outcome` tells, at any time, what is known of it. `begun` becomes true with the first
    frame that proves the upstream is answering; until then nothing need be shown.
    """

    __slots__ = ("_decoder", "begun", "outcome")

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.outcome = Outcome()
        self.begun = False

    @property
    def over(self) -> bool:
        """Whether nothing more will be written: the answer ended, or failed."""
        return self.outcome.ended or self.outcome.fault is not None

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the upstream; return the bytes for the client."""
        try:
            frames = self._decoder.feed(chunk)
        except EventTooLarge as error:
            return self.fail(Fault(FaultKind.UPSTREAM_FAILED, str(error), code="upstream_error"))
        if len(frames) == 1:
            return self._take(frames[0])
        return b"".join([self._take(frame) for frame in frames])

    def finish(self) -> bytes:
        """The upstream's bytes are over; return the rest for the client (an explicit error if
        the answer is not whole)."""
        rest = b"".join([self._take(frame) for frame in self._decoder.finish()])
        return rest + self._close()

    def fail(self, fault: Fault) -> bytes:
        """End the client's stream with an error in its own form; nothing if it is over."""
        raise NotImplementedError

    def _take(self, frame: Frame) -> bytes:
        raise NotImplementedError

    def _close(self) -> bytes:
        raise NotImplementedError


class TranslatedStream(AnswerStream):
    """A stream between two protocols: reader, tool restorer, sequencer, writer."""

    __slots__ = ("_reader", "_restorer", "_sequencer", "_writer")

    def __init__(self, reader: StreamReader, names: ToolNames, writer: StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._restorer = ToolRestorer(names)
        self._sequencer = Sequencer()
        self._writer = writer

    def _take(self, frame: Frame) -> bytes:
        if self.over:
            return b""
        return self._pass_on(self._reader.read(frame))

    def _close(self) -> bytes:
        return b"" if self.over else self._pass_on(self._reader.finish())

    def fail(self, fault: Fault) -> bytes:
        if self.over:
            return b""
        self.outcome.fault = fault
        return self._writer.write(Failed(fault))

    def _pass_on(self, events: Iterable[Event]) -> bytes:
        written: list[bytes] = []
        try:
            for event in events:
                for restored in self._restorer.push(event):
                    for ordered in self._sequencer.push(restored):
                        written.append(self._write(ordered))
        except (IllegalEvent, DragomanError) as error:
            fault = error.fault if isinstance(error, DragomanError) else _ILLEGAL
            written.append(self.fail(fault))
        return written[0] if len(written) == 1 else b"".join(written)

    def _write(self, event: Event) -> bytes:
        kind = type(event)
        if kind is Started:
            self.begun = True
        elif kind in _NOTED:
            _note(event, self.outcome)
        elif kind is Ended:
            self.outcome.ended = True
        return self._writer.write(event)


_NOTED = frozenset({Metered, Finished, Failed})
_ILLEGAL = Fault(FaultKind.UPSTREAM_FAILED, "The upstream's events came in an impossible order.")


class RelayedStream(AnswerStream):
    """A stream within one protocol: bytes pass, a relay watches."""

    __slots__ = ("_relay",)

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    def _take(self, frame: Frame) -> bytes:
        if self.over:
            return b""
        passed = self._relay.relay(frame)
        self._observe()
        self.begun = self.begun or self.outcome.fault is None
        return passed

    def _close(self) -> bytes:
        if self.over:
            return b""
        rest = self._relay.finish()
        self._observe()
        return rest

    def fail(self, fault: Fault) -> bytes:
        if self.over:
            return b""
        self.outcome.fault = fault
        return self._relay.fail(fault)

    def _observe(self) -> None:
        self.outcome.usage = self._relay.usage
        self.outcome.ended = self._relay.ended
        self.outcome.fault = self._relay.fault

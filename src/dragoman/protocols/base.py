"""The interface of every protocol package.

Twenty-five pairs come from five packages: a request is read by the client's package and written by
the upstream's, an answer is read by the upstream's and written by the client's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, InvalidRequest, UpstreamError
from dragoman.canonical.events import Event
from dragoman.canonical.halves import MENDED, Halves
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import FunctionTool, Request
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, JsonTooDeep, decode_mended, decoder, strict
from dragoman.protocols.budgets import BudgetNotices
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.purposes import Purpose
from dragoman.protocols.stored_answers import StoredAnswers
from dragoman.sse import Decoder, Frame


class Inbound(Struct, frozen=True):
    """The context of a reader.

    `account` tags opaque reasoning state with the account it is bound to. `ledger` takes the losses
    of an answer (a request's reader puts them into `Request.extras` instead). `names` are the tools
    that can be called, `halves` the stage that rejoins surrogate pairs split by a stream. With
    `same_protocol` the client uses the upstream's protocol and is shown content specific to it."""

    sealer: Sealer
    ledger: Ledger
    options: Options = Options()
    account: str = ""
    names: ToolNames = ToolNames((), 0)
    halves: Halves | None = None
    same_protocol: bool = False

    @property
    def counts_searches(self) -> bool:
        """Whether the vendor's web searches in an answer are counted."""
        return self.same_protocol or self.options.hosted_tools == "map"

    def decode(self, data: bytes) -> Any:
        """The decoded event of a stream; lone surrogates in its texts are left to the `halves`
        stage.

        Raises:
            JsonError: it is not JSON.
        """
        try:
            return strict(data)
        except JsonTooDeep:
            raise
        except JsonError:
            value, was_mended = decode_mended(data, NO_PIECES if self.halves is None else PIECES)
            if was_mended:
                self.ledger.add("text", LossKind.REPAIRED, MENDED)
            if self.halves is not None:
                self.halves.seen = True
            return value

    def decode_answer(self, body: bytes) -> JsonObject:
        """The JSON object of a whole answer, with lone surrogates in its texts repaired.

        Raises:
            UpstreamError: it is not a JSON object.
        """
        value = self.decode_body(body)
        if not isinstance(value, dict):
            raise UpstreamError.unreadable("it is not a JSON object")
        return value

    def decode_body(self, body: bytes) -> Any:
        """The JSON value of a whole answer, with lone surrogates in its texts repaired.

        Raises:
            UpstreamError: it is not JSON.
        """
        try:
            return strict(body)
        except JsonTooDeep:
            raise UpstreamError.unreadable("it is not JSON") from None
        except JsonError:
            return self._mended(body)

    def _mended(self, body: bytes) -> Any:
        try:
            value, was_mended = decode_mended(body)
        except JsonError:
            raise UpstreamError.unreadable("it is not JSON") from None
        if was_mended:
            self.ledger.add("text", LossKind.REPAIRED, MENDED)
        return value


NO_PIECES: frozenset[str] = frozenset()


PIECES = frozenset(
    {
        "arguments",
        "content",
        "delta",
        "input",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    }
)
"""Members of events with pieces of texts."""


class Outbound(Struct, frozen=True):
    """The context of a request's writer.

    `model` is the upstream's name of the model, `asked` the client's; `names` is the map of tool
    names. Losses go into `ledger`; the writer never refuses a request, the policy does. With
    `same_protocol` the client uses the upstream's protocol. Then `unknown` has the members of the
    client's objects that the canonical model has no field for, by the path of the object; a writer
    takes out those that it writes.
    """

    model: str
    names: ToolNames
    ledger: Ledger
    sealer: Sealer
    options: Options = Options()
    capabilities: Capabilities = Capabilities()
    same_protocol: bool = False
    unknown: dict[str, JsonObject] = {}
    asked: str = ""

    def with_unknown(self, written: JsonObject, path: str) -> JsonObject:
        """An object that stands for the client's at `path`, with the unknown members of that."""
        members = self.unknown.pop(path, None) if self.unknown else None
        return written if members is None else {**written, **members}

    def lose_phase(self, path: str) -> None:
        """Report the phase of the message with the text at `path`."""
        message = path.rpartition(".content")[0] or path
        detail = "the phase of a message has no counterpart upstream"
        self.ledger.add(f"{message}.phase", LossKind.KNOB, detail)

    def unseen(self, path: str) -> str:
        """Report the image at `path`, which the model does not take. Returns the text that is sent
        in its place where the policy allows that: without any, the model would ask for it again."""
        self.unknown.pop(path, None)
        self.ledger.add(path, LossKind.CONTENT, f"the model {self.asked} takes no images")
        return "[image left out: the model takes no images]"


class Reply(Struct, frozen=True):
    """The context of an answer's writer.

    `request` is the client's own request; `id` the response id to show, in the client's style
    (`chatcmpl-`, `msg_`, `resp_`); `created`, in Unix seconds, is shown if the upstream reports no
    time; `model` is the name the client asked for. `mint` returns a fresh item id with the given
    prefix (`fc_`, `rs_`). `request_id` is part of an error that ends a stream, if the protocol has
    a member for it."""

    request: Request
    id: str
    created: int
    model: str
    ledger: Ledger
    sealer: Sealer
    mint: Callable[[str], str]
    options: Options = Options()
    request_id: str = ""


class FrameDecoder(Protocol):
    """What turns the bytes of one stream into frames."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes; return the frames they complete."""
        ...

    def finish(self) -> list[Frame]:
        """The bytes are over: the frames that complete them."""
        ...


class StreamReader(Protocol):
    """The reader of one stream: an upstream's frames as events.

    Readers accept what real servers send; unreadable input becomes a `Failed` event, omitted input
    a loss in the ledger. Blocks may interleave."""

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        ...

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes: `Ended`, or `Failed` if the terminator is missing;
        none if the stream had already ended."""
        ...


class AnswerWriter(Protocol):
    """The writer of one answer: it builds the client's answer from events in grammatical order, and
    renders the frames of the client's stream from that state.

    Raises `IllegalEvent` for an event out of order.
    """

    @property
    def long_texts(self) -> Sequence[bytes]:
        """The encoded texts of the placeholders in the bytes written so far."""
        ...

    def write(self, event: Event) -> bytes:
        """Take one event. Returns its frames, possibly none (`b""`), ready to be sent in one
        piece; none if the answer is not streamed."""
        ...

    def answer(self) -> JsonObject:
        """The whole answer, once `Ended` was written."""
        ...

    def keepalive(self) -> bytes:
        """A sign of life between two events, which clients ignore."""
        ...


class Matcher(Protocol):
    """The check of a stream that is passed through, as long as it conforms exactly to the protocol.

    `begun` is whether an event with content was seen: events before it (a response object, a role,
    a ping, an empty text block or item) may be delayed. `blank` is the length of the current run of
    white space in a tool call's arguments. `usage` is the last usage, `ended` whether the
    upstream's own terminator was seen, `fault` an error the upstream put into its stream (it is
    passed on as well), `answer_id` the id by which later requests may name the answer, and `reason`
    the finish reason, empty until it is known. `text_bytes` counts the bytes of text so far.
    `thinks` is whether the content so far is only plain reasoning text, without signature or block
    of its own, so that another answer may continue it. `unreported` is the number of answers in the
    stream that ended without usage and were continued by another. `undo` reverts the last event if
    its meaning depends on the next one: a call without arguments, the name of which may continue;
    `{}` as the first arguments, a placeholder of some servers; part of an escape. Such an event is
    not passed on before the next exact one."""

    answer_id: str
    begun: bool
    blank: int
    ended: bool
    fault: Fault | None
    reason: str
    text_bytes: int
    undo: Callable[[], object] | None
    usage: Usage | None

    @property
    def thinks(self) -> bool: ...

    @property
    def unreported(self) -> int: ...

    def more(self, frame: Frame) -> bytes | None:
        """The bytes to pass on of an event that differs from the one before only in its text: the
        usual case, and quick. None for any other event, which changes no state."""
        ...

    def forget(self) -> None:
        """Leave all further events to `match`."""
        ...

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on of an exact event: `frame.raw`, or part of it, or with values
        replaced for the client. None for any other event, which changes no state."""
        ...

    def finish(self) -> bytes | None:
        """The bytes to append at the end of a complete answer; None if it is incomplete."""
        ...

    def hand_over(self, read: Callable[[Frame], object], writer: AnswerWriter) -> None:
        """Hand the stream over to the reader behind `read` and to `writer`: feed the passed events
        to the one, and the state shown to the client to the other.

        Raises:
            UpstreamError: they cannot continue it.
        """
        ...


class Rendered(Struct, frozen=True):
    """An error as a client is to see it."""

    status: int
    body: JsonObject


OFFICIAL = Options()
"""The options of the official services."""


class ErrorWriter(Protocol):
    """The rendering of a fault, with the request id, in the client's protocol."""

    def __call__(self, fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
        """The status and body; `options` are those of the route, once it is known."""
        ...


NOTHING: Mapping[str, Any] = {}


class Passed(Struct, frozen=True):
    """A whole answer that is passed through: its bytes for the client, its usage, its finish
    reason, and the bytes of text in it if it has no usage."""

    body: bytes
    usage: Usage | None
    reason: str
    text_bytes: int = 0


class AnswerMatcher(Protocol):
    """Pass-through of a whole answer."""

    def __call__(
        self, body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1, /
    ) -> Passed | None:
        """The answer with the model name that the client asked for, unchanged if it is the same;
        None if it does not conform exactly to the protocol. `shown` are members that replace the
        upstream's for Responses clients; `choices` is the number requested."""
        ...


class MatcherMaker(Protocol):
    """Pass-through of a stream."""

    def __call__(
        self,
        model: str | None,
        include_usage: bool,
        shown: Mapping[str, Any] = NOTHING,
        choices: int = 1,
        /,
    ) -> Matcher:
        """A matcher that shows `model` (None: the upstream's own name); to Chat clients the usage
        chunk if they asked for it; to Responses clients the members in `shown` instead of the
        upstream's. `choices` were asked for."""
        ...


class AnswerNames(NamedTuple):
    """What an answer is known by: its id, and the model that it names; each empty if it is
    missing."""

    id: str = ""
    model: str = ""


class Attribution(NamedTuple):
    """The end user and tags of a request; empty if it has none."""

    user: str = ""
    tags: tuple[str, ...] = ()


NOBODY = Attribution()


_text = decoder(str)


def service_tier(members: Mapping[str, msgspec.Raw]) -> str | None:
    """The member `service_tier`, if it is a text."""
    raw = members.get("service_tier")
    try:
        return None if raw is None else _text(raw)
    except JsonError:
        return None


class Beginning(Struct, frozen=True):
    """The beginning of a conversation: `text` stays the same in all its later requests; `is_all` is
    whether there is no message of the model yet."""

    text: bytes
    is_all: bool


def auth_header(style: str, key: str) -> tuple[str, str]:
    """The header, name and value, that carries a key to an upstream: `Authorization: Bearer` where
    `style` is `bearer`, else the header of that name."""
    if style == "bearer":
        return "authorization", f"Bearer {key}"
    return style, key


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")


def quoted(name: str) -> str:
    """A name as one path segment: reserved characters are percent-encoded (RFC 3986, 2.1), and so
    are the dots of `.` and `..`."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _encoded(name, _UNRESERVED)


def quoted_for(unchanged: str) -> Callable[[str], str]:
    """The function behind `Endpoint.quote` of a service that takes the characters `unchanged` of a
    name as they are."""
    kept = _UNRESERVED | frozenset(unchanged.encode())

    def quote(name: str) -> str:
        # Servers that cut off parameters see only what precedes the first semicolon.
        if name.partition(";")[0] in ("", ".", ".."):
            raise InvalidRequest.at("model", f"{name!r} cannot stand in the path of the upstream")
        return _encoded(name, kept)

    return quote


def _encoded(name: str, kept: frozenset[int]) -> str:
    if _PLAIN.fullmatch(name):
        return name
    encoded = name.encode("utf-8", "surrogatepass")
    return "".join([chr(byte) if byte in kept else f"%{byte:02X}" for byte in encoded])


class Framing(Protocol):
    """What turns the events of one streamed answer into another form."""

    def write(self, data: bytes) -> bytes:
        """Whole events, or a keepalive, in this form."""
        ...

    def end(self) -> bytes:
        """What follows the last event."""
        ...


class StreamForm(Struct, frozen=True):
    """A form of streamed answers other than events: its content type, and the framing of one
    answer."""

    media: bytes
    framing: Callable[[], Framing]


class Operation(Struct, frozen=True, kw_only=True):
    """The operation that a path with parameters names.

    `name` is the path without its parameters, for metrics; `model` and `stream` are None if the
    body has them. `answer` is the id of a stored answer, and `below` what of it is asked for.
    `form` is the form in which the client wants a stream, None for events."""

    name: str
    counts: bool = False
    answer: str = ""
    below: str = ""
    model: str | None = None
    stream: bool | None = None
    form: StreamForm | None = None


class Counting(Struct, frozen=True, kw_only=True):
    """The token counting of a protocol."""

    path: str
    """Path below the version; if it has parameters, the name of its operation."""
    locate: Callable[[str], str] | None = None
    """The path and query at which an upstream counts for a model, given percent-encoded; None:
    `path`."""
    write_request: Callable[[bytes, str], bytes]
    """The body of a request for a count, from that of a request for an answer of a model: all that
    is part of the prompt, and nothing that the endpoint does not take."""
    completed: Callable[[Mapping[str, msgspec.Raw]], Mapping[str, msgspec.Raw]] = lambda members: (
        members
    )
    """The members of a client's count request, completed to those of a request for an answer."""
    read: Callable[[bytes], int | None]
    """The number of tokens in an upstream's answer; None if it has none."""
    write: Callable[[int], JsonObject]
    """The answer to a client with a number of tokens."""

    def path_for(self, model: str, quote: Callable[[str], str] = quoted) -> str:
        """The path at which an upstream counts for `model`, which `quote` makes a path segment."""
        return self.path if self.locate is None else self.locate(quote(model))


class ModelList(Struct, frozen=True, kw_only=True):
    """The model list of a protocol. Several protocols may share one path and one form."""

    path: str
    """Path of the list below the version; single models are below it."""
    query: str = ""
    """Query with which an upstream is asked for all of its models."""
    base_url: Callable[[str], str] | None = None
    """The base URL of the service that lists them, of that of the upstream; None if it is the
    same."""
    read: Callable[[bytes], list[JsonObject]]
    """The models in an upstream's list, each with an `id` and its other members. Raises ValueError
    if it is not such a list."""
    write_model: Callable[[str, str, JsonObject], JsonObject]
    """One model for a client, from its name, its owner, and its upstream's entry."""
    write_list: Callable[[list[JsonObject], Mapping[str, str]], JsonObject]
    """The part of a list of such models that a client's query asks for. Raises InvalidRequest."""


class RateLimit(Struct, frozen=True, gc=False):
    """A rate limit of a client key, as reported to clients: its name in the protocol's headers, its
    amount, and when all of it is available again, in Unix seconds (`resets_at`) and in seconds from
    now (`reset_s`)."""

    name: str
    amount: int
    reset_s: float
    resets_at: float


PLAIN = "plain"
"""The service of upstreams that offer a protocol as it is."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """The endpoint of a protocol, for clients and at upstreams."""

    path: str
    """Path below the version, for example `/chat/completions`; for a path with parameters, the part
    that is the same for all requests."""
    version: str = "/v1"
    """The part between a base URL and the path."""
    versions: tuple[str, ...] = ()
    """Other versions, with which clients may call the same paths."""
    read_path: Callable[[str, str], Operation | None] | None = None
    """The operation that a path below the version, with its query, names; None, as attribute or
    result, if the path has no parameters."""
    locate: Callable[[str, bool], str] | None = None
    """The path and query at which an upstream is asked for an answer of a model, given
    percent-encoded, streamed or not; None: `path`."""
    quote: Callable[[str], str] = quoted
    """The name of a model as part of a path. Raises InvalidRequest for a name that cannot be."""
    unserved: str = ""
    """The error message for paths below `path` that are not served, and for a list of answers."""
    id_prefix: str
    """Prefix of response ids: `chatcmpl-`, `msg_`, `resp_`."""
    model_prefix: str = ""
    """What clients may write before the name of a model in a body."""
    check_client: Callable[[Mapping[bytes, bytes]], None] = lambda headers: None
    """The check of a client's headers (names in lower case). Raises InvalidRequest for clients of
    an edition that is not spoken."""
    auth: str = "bearer"
    """The form in which its services take a key: `bearer` (`Authorization: Bearer`), or a header
    name."""
    key_headers: tuple[bytes, ...] = ()
    """Names, in lower case, of the headers in which its clients send a key, besides
    `Authorization: Bearer`."""
    cloud_key_headers: tuple[bytes, ...] = ()
    """Names, in lower case, of the headers in which the SDKs of clouds that offer its models send a
    key; any other form of a key precedes them."""
    key_parameter: str = ""
    """Name of the query parameter in which its clients may send a key; it is taken out before
    anything else sees the query. Other forms of a key precede it."""
    sign: bytes = b""
    """Name, in lower case, of a header that only its clients send; it identifies the protocol on
    paths that several share."""
    headers: Callable[[Capabilities], Mapping[str, str]] = lambda capabilities: {}
    """Headers that every request to an upstream has, by their names in lower case."""
    forwarded: tuple[str, ...] = ()
    """Names, in lower case, of the client headers that are forwarded to an upstream of the same
    protocol."""
    fitted_headers: Callable[[Mapping[str, str], Capabilities, Ledger], Mapping[str, str]] = (
        lambda headers, capabilities, ledger: headers
    )
    """The forwarded headers of a client, without what the upstream does not take."""
    refits: Callable[[str, Capabilities], Mapping[str, Any]] = lambda message, capabilities: {}
    """The capabilities that the words of a refusal correct, by name, besides those of all
    protocols."""
    moved: (
        Callable[[Mapping[str, Any], Mapping[str, str], Capabilities], Mapping[str, Any]] | None
    ) = None
    """The members of a body with those that this service has elsewhere: out of them what stands in
    the path, into them what clients put into headers, of which those that the protocol forwards are
    given. None: as the protocol has them."""
    idempotency_key: str = ""
    """Name, in lower case, of its services' idempotency header; empty if they have none."""
    settings: Callable[[Mapping[str, msgspec.Raw]], Mapping[str, msgspec.Raw]] = lambda members: {}
    """The settings in a client's members, by their names in traces: those of OpenTelemetry's
    conventions below `gen_ai.request.`, but for `conversation.id`, `output.type` and
    `service_tier`, which are elsewhere."""
    binds_reasoning: bool = False
    """Whether, in general, only the account that made encrypted reasoning can use it."""
    stores_responses: bool = False
    """Whether its services store responses that later requests refer to."""
    stored: StoredAnswers | None = None
    """How the gateway stores answers for its clients; None if they cannot refer to any."""
    socket_turn: Callable[[bytes], Any] | None = None
    """The WebSocket form of a POST body to an upstream (`dragoman.upstream.SocketCall`; None if it
    can only be posted); None if services offer no WebSocket."""
    media: str = "text/event-stream"
    """The content type of streamed answers."""
    decoder: Callable[[], FrameDecoder] = Decoder
    """What decodes one streamed answer of an upstream."""
    counting: Counting | None = None
    """None if it cannot count."""
    lists_models: bool = True
    """Whether services list their models at the path of `models`."""
    services: Mapping[str, Endpoint] = MappingProxyType({})
    """The endpoints of services that offer the protocol in a form of their own, by their names in
    the configuration."""
    limits: Callable[[Mapping[str, msgspec.Raw]], int | None]
    """The output limit of a client's request in tokens, for each of its choices: the highest, where
    several members set one; None if none does."""
    limited: Callable[[Mapping[str, msgspec.Raw], int], Mapping[str, msgspec.Raw]]
    """A client's members with an output limit of at most so many tokens; the same object if that is
    so already."""
    tier: Callable[[Mapping[str, msgspec.Raw]], str | None] = service_tier
    """The service tier that a client asks for, by its name in prices; None for the usual one."""
    names_no_model: frozenset[str] = frozenset()
    """Top-level members in which no model is named by which an answer may have another price: those
    with content, schemas or metadata, and plain settings."""
    searches: Callable[[Mapping[str, msgspec.Raw]], bool] = lambda members: False
    """Whether a client's members allow web searches of the vendor, which have a price."""
    cache_writes: Callable[[bytes], tuple[bool, bool]] = lambda body: (False, False)
    """Whether a client's body asks to write its prompt to a cache, and may ask to store it for an
    hour: such writes have prices of their own."""
    caches_unasked: Callable[[Capabilities], tuple[bool, bool]] = lambda capabilities: (
        False,
        False,
    )
    """The same of what clients of other protocols send to an upstream with these capabilities."""
    limit_names: Mapping[str, str] = MappingProxyType({})
    """Names of rate limits in headers, by what they count: `requests`, `tokens`, `input_tokens`,
    `output_tokens`. Of several limits with one name, the tightest is reported."""
    limit_lines: Callable[[RateLimit], bytes] = lambda limit: b""
    """The header lines that report one of these, with `%d` for the remaining amount."""
    negotiated: frozenset[str] = frozenset()
    """Top-level members that clients leave out themselves once they were refused: toward a fallback
    they are left out without that."""
    purpose: Callable[[Mapping[bytes, bytes]], Purpose | None] | None = None
    """What a client's headers (names in lower case) say a request is for, None if they do not. None
    as attribute: none of its programs says it."""
    budgets: BudgetNotices = BudgetNotices()
    """How its programs show budgets."""
    models: ModelList
    capabilities: type[Struct] | None = None
    """The protocol's own capabilities of an upstream, see `Capabilities.of`; None if it has
    none."""
    attributed_by: frozenset[str] = frozenset()
    """Top-level members of a request that name the end user."""
    attribution: Callable[[Mapping[str, msgspec.Raw]], Attribution] = lambda members: NOBODY
    """The end user and tags in these members."""
    completed: Callable[[Capabilities, str, str], Capabilities] = (
        lambda capabilities, base_url, model: capabilities
    )
    """The capabilities, completed with defaults from the protocol, the upstream's base URL and its
    name of the model, empty for any."""

    def key_header(self, key: str) -> tuple[str, str]:
        """The header, name and value, that carries a key to its services."""
        return auth_header(self.auth, key)

    def path_for(self, model: str, stream: bool) -> str:
        """The path at which an upstream is asked for an answer."""
        return self.path if self.locate is None else self.locate(self.quote(model), stream)

    def at(self, service: str) -> Endpoint:
        """The endpoint of upstreams of a service, `plain` for the protocol's own.

        Raises:
            KeyError: no such service offers the protocol.
        """
        return self if service == PLAIN else self.services[service]

    def offers(self, service: str) -> bool:
        """Whether the service offers the protocol."""
        return service == PLAIN or service in self.services

    def passed_on(self, client: Mapping[bytes, bytes]) -> dict[str, str]:
        """The headers of a client of the protocol that are forwarded."""
        passed: dict[str, str] = {}
        for name in self.forwarded:
            value = client.get(name.encode())
            if value:
                passed[name] = value.decode("latin-1")
        return passed

    def operation_of(self, path: str, query: str = "") -> Operation | None:
        """The operation that a client's path names, its name with the version; None if the path has
        no parameters."""
        if self.read_path is None:
            return None
        for version in (self.version, *self.versions):
            if path.startswith(version + "/"):
                operation = self.read_path(path[len(version) :], query)
                if operation is not None:
                    return replace(operation, name=self.version + operation.name)
        return None

    def operation_for(self, model: str, stream: bool) -> Operation | None:
        """The operation of a request for an answer of a model; None if the body names it."""
        path, _, query = self.path_for("model", stream).partition("?")
        operation = self.operation_of(self.version + path, query)
        if operation is None or operation.model is None:
            return None
        return replace(operation, model=model)


class Translate(Struct, frozen=True, kw_only=True):
    """The readers and writers of a protocol's requests, answers and errors."""

    read_request: Callable[[bytes, Sealer], Request]
    """A body in canonical form. Raises InvalidRequest naming the field."""
    write_request: Callable[[Request, Outbound], JsonObject]
    """The upstream's body. Parts of the request that it does not carry are in the ledger."""
    read_response: Callable[[bytes, Inbound], Iterable[Event]]
    """A whole answer as the events of its stream. Raises UpstreamError if it is unusable."""
    stream_reader: Callable[[Inbound], StreamReader]
    answer_writer: Callable[[Reply, bool], AnswerWriter]
    """The writer of one answer; the flag is whether it is streamed."""
    read_error: Callable[[int, Mapping[str, str], bytes], Fault]
    """An upstream's error answer (status, lower-case headers, body) as a fault."""
    write_error: ErrorWriter
    is_own_error: Callable[[bytes], bool]
    """Whether a body is an error as its clients read it, so that it may be passed on as it is."""
    answer_names: Callable[[bytes], AnswerNames]
    """What an answer is known by, from all of it or the first event of its stream."""
    reasoning_refusals: tuple[str, ...] = ()
    """Error codes, and lower-case texts, of its services for reasoning that was sent back and that
    they cannot decrypt or did not sign."""
    keepalive: bytes
    """The bytes to write in a stream during silence."""
    tool_name_limit: int
    """Longest tool name the protocol allows."""
    tool_names_lettered: bool = False
    """Whether tool names must begin with a letter or an underscore."""
    renamed_properties: Callable[[FunctionTool], dict[str, str]] = lambda tool: {}
    """The properties of a tool's arguments whose names the services refuse, with legal ones."""
    namespaces: bool = False
    """Whether tools can be declared in namespaces."""
    taken_stops: Callable[[Sequence[str]], tuple[str, ...]]
    """The stop sequences of a request that the protocol supports."""
    output_limit: Callable[[Request, Options], int | None] = lambda request, options: (
        request.max_output_tokens
    )
    """The output limit, in tokens, that a request has when it is written; None for none."""
    options: type[Struct] | None = None
    """The protocol's own options of a translation, see `Options.of`; None if it has none."""
    repeated: Mapping[str, Callable[[Raw], Any]] = MappingProxyType({})
    """Members of a client's body (`Request.source`) that the writer of its answer uses, and how
    they are decoded."""


class Passthrough(Struct, frozen=True, kw_only=True):
    """The pass-through between a client and an upstream of the same protocol."""

    check: Callable[[bytes], Any]
    """The check of a body that goes upstream unchanged although it has unknown members. Returns its
    validated part, for the functions that take `checked`. Raises InvalidRequest if a well-known
    field is missing or of the wrong type: other mistakes are reported by the upstream, in the same
    protocol."""
    suits: Callable[[Options], bool] = lambda options: True
    """Whether answers may be passed through; False if options require answers in a form that no
    upstream writes."""
    without_envelopes: Callable[[Mapping[str, msgspec.Raw], Any, Ledger], Mapping[str, msgspec.Raw]]
    """The client's top-level members without reasoning state in the gateway's envelopes. Other
    values byte for byte."""
    without_reasoning: Callable[
        [Mapping[str, msgspec.Raw], Ledger, int], tuple[Mapping[str, msgspec.Raw], int]
    ]
    """The client's top-level members without the first pieces of reasoning, up to the given number,
    that only their maker can read, and the number removed."""
    fitted: Callable[
        [Mapping[str, msgspec.Raw], Any, Capabilities, Ledger, bool], Mapping[str, msgspec.Raw]
    ]
    """The client's top-level members without those that this upstream would refuse or must not see.
    Other values byte for byte. The flag: the output limit is lower than the client's."""
    has_media: Callable[[Mapping[str, msgspec.Raw]], bool] = lambda members: False
    """Whether there may be pictures, files or recordings in a client's conversation."""
    bound_ids: Callable[[Mapping[str, msgspec.Raw]], tuple[str, ...]] = lambda members: ()
    """The ids in a client's members of things that a service holds for one account, such as files.
    Raises InvalidRequest for a member that is not JSON text."""
    unfit: Callable[[Mapping[str, msgspec.Raw], Any, Capabilities], Collection[str]] = (
        lambda members, checked, capabilities: ()
    )
    """The names of the members that an upstream of these capabilities would refuse or misread as
    they are, and of those to be written instead: they are read, and written as for a client of
    another protocol."""
    check_names: Callable[[Mapping[str, msgspec.Raw]], None] = lambda members: None
    """The check of the names of a client's members. Raises InvalidRequest for one that is a known
    one but for its case."""
    check_conversation: Callable[[Mapping[str, msgspec.Raw]], None] = lambda members: None
    """The check of a conversation. Raises InvalidRequest for a request that continues a
    conversation stored at one account of several, to which nothing would route it."""
    continues: str = ""
    """Member with the id of the answer that a request continues, if services store answers."""
    conversation: str = ""
    """Member in which clients name their conversation."""
    beginning: Callable[[Mapping[str, msgspec.Raw]], Beginning]
    """The part of the client's top-level members that is the same in all requests of a
    conversation."""
    forward_request: Callable[[Mapping[str, msgspec.Raw], str, Capabilities], bytes]
    """The client's top-level members with the model replaced and, if the protocol requires a flag
    for it, usage in streams requested; all other values byte for byte."""
    match_response: AnswerMatcher
    least: Mapping[str, Any]
    """The members of the shortest conversation."""
    asks_usage: Callable[[Mapping[str, msgspec.Raw]], bool] = lambda members: False
    """Whether a client asked for usage in its stream, if the protocol has a flag for it."""
    choices: Callable[[Mapping[str, msgspec.Raw]], int] = lambda members: 1
    """The number of choices that a client asked for, if the protocol has them."""
    matcher: MatcherMaker
    continuation: Callable[[bytes], Callable[[bytes], bytes]] | None = None
    """A function of an answer's first events: it returns one that rewrites the events of a second
    answer as the rest of the first, which broke off while it `thinks`. None: it cannot be
    continued."""


class Codec(Struct, frozen=True):
    """One protocol, described by three parts.

    The functions are pure; readers, writers and matchers have the state of one answer.
    """

    name: str
    """The protocol's name in the configuration: openai_chat, anthropic_messages, ..."""
    endpoint: Endpoint
    translate: Translate
    passthrough: Passthrough


_encoder = msgspec.json.Encoder()


to_json: Callable[[Any], bytes] = _encoder.encode
"""Compact JSON, UTF-8."""


def to_json_text(value: Any) -> str:
    """Compact JSON as text."""
    return _encoder.encode(value).decode()

"""What every protocol package offers, under the same names.

Nine pairs come from three packages: a request is read by the client's package and written by
the upstream's, an answer is read by the upstream's and written by the client's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault
from dragoman.canonical.events import Event
from dragoman.canonical.halves import MENDED, Halves
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import Request
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, JsonTooDeep, decode_mended, strict
from dragoman.protocols.fields import JsonObject
from dragoman.sse import Frame


class Inbound(Struct, frozen=True):
    """What a reader needs besides the bytes.

    `account` tags opaque reasoning state with the account it is bound to. `ledger` takes the
    losses of an answer (a request's reader keeps them in `Request.extras` instead). `names` are
    the tools that can be called, `halves` the stage that mends what streams cut. With
    `same_protocol` the client speaks the upstream's protocol, so that it is shown what only that
    has.
    """

    sealer: Sealer
    ledger: Ledger
    options: Options = Options()
    account: str = ""
    names: ToolNames = ToolNames((), 0)
    halves: Halves | None = None
    same_protocol: bool = False

    def decode(self, data: bytes) -> Any:
        """An event of a stream, in whose texts halves of characters are left to the stage.

        Raises:
            JsonError: it is no JSON.
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
"""Members of events that hold pieces of texts."""


class Outbound(Struct, frozen=True):
    """What the writer of a request needs besides the request.

    `model` is the upstream's name of the model, `names` the map of tool names. Losses go into
    `ledger`; the writer never refuses by itself, the policy does.
    """

    model: str
    names: ToolNames
    ledger: Ledger
    sealer: Sealer
    options: Options = Options()
    capabilities: Capabilities = Capabilities()


class Reply(Struct, frozen=True):
    """What the writer of an answer needs besides the answer.

    `request` is the client's own request; `id` the response id to show, in the client's style
    (`chatcmpl-`, `msg_`, `resp_`); `created`, in Unix seconds, is shown when the upstream does
    not tell when it answered; `model` is the name the client asked for. `mint` gives a fresh item
    id with the prefix it is given (`fc_`, `rs_`). `request_id` is told in an error that ends a
    stream, where the protocol has a place for it.
    """

    request: Request
    id: str
    created: int
    model: str
    ledger: Ledger
    sealer: Sealer
    mint: Callable[[str], str]
    options: Options = Options()
    request_id: str = ""


class StreamReader(Protocol):
    """Turns an upstream's frames into events. One instance reads one stream.

    Readers accept what real servers send; what cannot be understood becomes a `Failed` event,
    what is left out becomes a loss in the ledger. Blocks may interleave.
    """

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        ...

    def finish(self) -> Iterable[Event]:
        """The bytes are over: `Ended`, or `Failed` if the terminator is missing; nothing if
        the stream had already ended."""
        ...


class AnswerWriter(Protocol):
    """Builds the client's answer from events in grammatical order, as its state, and renders the
    frames of the client's stream from it. One instance writes one answer.

    Raises `IllegalEvent` for an event out of order.
    """

    @property
    def long_texts(self) -> Sequence[bytes]:
        """The texts, encoded, for which placeholders stand in what was written so far."""
        ...

    def write(self, event: Event) -> bytes:
        """Take one event. Returns its frames, possibly none (`b""`), ready to be sent in one
        piece; none where the answer is not streamed."""
        ...

    def answer(self) -> JsonObject:
        """The whole answer, once `Ended` was written."""
        ...

    def keepalive(self) -> bytes:
        """A sign of life between two events, which clients ignore."""
        ...


class Matcher(Protocol):
    """Follows a stream that is passed through, as long as it is exactly what the protocol allows.

    `begun` is whether an event was seen that has something of an answer: what precedes it (a
    response object, a role, a ping, a text block or item that is still empty) may be held back.
    `blank` counts the characters of white space that the arguments of a tool call have just gone on
    with. `usage` is the last usage, `ended` whether the upstream's own terminator was seen, `fault`
    an error the upstream put into its stream (it is passed on as well), `answer_id` the id by which
    later requests may name the answer, and `reason` the word for why the model stopped, empty until
    it is known. `text_bytes` counts the bytes of text so far. `thinks` is whether nothing came so
    far but thoughts after which another answer may go on: in plain text, with no signature and no
    place of their own. `unreported` is how many answers ended in the stream without their usage,
    each followed by one that goes on from it. `undo` takes the last event back, if it depends on
    the next one what it means: a call without arguments, whose name may go on; `{}` as the first
    arguments, which some servers send in the place of those to come; part of an escape. It is not
    passed on before another event is exact."""

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

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on of an exact event: `frame.raw`, or less, or with what is shown to
        the client in place of the upstream's. None of any other event, which changes nothing."""
        ...

    def finish(self) -> bytes | None:
        """The bytes are over: what is to be added to a whole answer; None if it is not whole."""
        ...

    def hand_over(self, read: Callable[[Frame], object], writer: AnswerWriter) -> None:
        """Have the reader behind `read` and `writer` go on with the stream: let the one know what
        came, and the other what the client was shown.

        Raises:
            UpstreamError: they cannot.
        """
        ...


class Rendered(Struct, frozen=True):
    """An error as a client is to see it."""

    status: int
    body: JsonObject


OFFICIAL = Options()
"""How the official services behave."""


class ErrorWriter(Protocol):
    """Writes a fault, with the request id, as the client's protocol shows it."""

    def __call__(self, fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
        """The status and body; `options` are those of the route, once it is known."""
        ...


NOTHING: Mapping[str, Any] = {}


class Passed(Struct, frozen=True):
    """A whole answer that is passed through: its bytes for the client, its usage, the word for why
    the model stopped, and the bytes of text in it if its usage is not known."""

    body: bytes
    usage: Usage | None
    reason: str
    text_bytes: int = 0


class AnswerMatcher(Protocol):
    """Pass-through of a whole answer."""

    def __call__(
        self, body: bytes, model: str, shown: Mapping[str, Any] = NOTHING, choices: int = 1, /
    ) -> Passed | None:
        """The answer under the model name the client asked for, byte for byte when the name is the
        same; None if it is not exactly what the protocol allows. `shown` are members that
        Responses clients see instead of the upstream's; `choices` were asked for."""
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


def _as_given(capabilities: Capabilities, base_url: str) -> Capabilities:
    return capabilities


def _unchanged(members: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    return members


def _no_headers(capabilities: Capabilities) -> Mapping[str, str]:
    return {}


def _own_limit(request: Request, options: Options) -> int | None:
    return request.max_output_tokens


def _no_usage(members: Mapping[str, msgspec.Raw]) -> bool:
    return False


def _one(members: Mapping[str, msgspec.Raw]) -> int:
    return 1


def _no_check(members: Mapping[str, msgspec.Raw]) -> None:
    pass


class Attribution(NamedTuple):
    """The end user that a request names, and what it is marked with; empty where it tells none."""

    user: str = ""
    tags: tuple[str, ...] = ()


NOBODY = Attribution()


def _nobody(members: Mapping[str, msgspec.Raw]) -> Attribution:
    return NOBODY


def _always(options: Options) -> bool:
    return True


class Beginning(Struct, frozen=True):
    """What a conversation begins with: `text` stays the same in all its later requests, `is_all`
    tells that the model has said nothing yet."""

    text: bytes
    is_all: bool


def auth_header(style: str, key: str) -> tuple[str, str]:
    """The header, name and value, that carries a key to an upstream: `Authorization: Bearer` where
    `style` is `bearer`, else the header of that name."""
    if style == "bearer":
        return "authorization", f"Bearer {key}"
    return style, key


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quoted(name: str) -> str:
    """A name as one segment of a path: whatever else it holds is percent-encoded (RFC 3986, 2.1),
    and so are the dots of `.` and `..`, which mean something else there."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    encoded = name.encode("utf-8", "surrogatepass")
    return "".join([chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in encoded])


class Operation(Struct, frozen=True, kw_only=True):
    """What a client asks for by a path that holds more than a fixed path does.

    `name` is the path without what it holds, for metrics; `model` and `stream` are None where the
    body tells them.
    """

    name: str
    counts: bool = False
    model: str | None = None
    stream: bool | None = None


class Counting(Struct, frozen=True, kw_only=True):
    """How a protocol counts the tokens of a prompt."""

    path: str = ""
    """Path below the version, where the path holds nothing else."""
    locate: Callable[[str], str] | None = None
    """The path, with its query, at which an upstream counts for a model, whose name is given
    percent-encoded; None: `path`."""
    uncounted: tuple[str, ...] = ()
    """Members of a whole request that the endpoint does not take."""
    completed: Callable[[Mapping[str, msgspec.Raw]], Mapping[str, msgspec.Raw]] = _unchanged
    """The members of a client's request for a count as those of one for an answer."""
    read: Callable[[bytes], int | None]
    """The number of tokens in an upstream's answer, None if it holds none."""
    write: Callable[[int], JsonObject]
    """The answer that tells a client so many tokens."""

    def path_for(self, model: str) -> str:
        """The path at which an upstream counts for `model`."""
        return self.path if self.locate is None else self.locate(quoted(model))


class ModelList(Struct, frozen=True, kw_only=True):
    """How a protocol lists models. Several protocols may share one path and one form."""

    path: str
    """Path of the list below the version; one model stands below it."""
    query: str = ""
    """Query with which an upstream is asked for all of its models."""
    read: Callable[[bytes], list[JsonObject]]
    """The models in an upstream's list, each with an `id` and what else it tells. Raises
    ValueError when it is no such list."""
    write_model: Callable[[str, str, JsonObject], JsonObject]
    """One model for a client: its name, its owner, and what its upstream tells of it."""
    write_list: Callable[[list[JsonObject], Mapping[str, str]], JsonObject]
    """The part of a list of such models that a client's query asks for. Raises InvalidRequest."""


class RateLimit(Struct, frozen=True, gc=False):
    """A rate limit of a client key as clients are told of it: its name among the headers of the
    protocol, how much it is, and when all of it is left again: in Unix seconds, which is `reset_s`
    seconds from now."""

    name: str
    amount: int
    reset_s: float
    resets_at: float


def _no_limit_lines(limit: RateLimit) -> bytes:
    return b""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where and how a protocol is called, by clients and at upstreams."""

    path: str
    """Path below the version, for example `/chat/completions`; where the path holds more, the part
    that is the same for all requests."""
    version: str = "/v1"
    """What stands between a base URL and the path."""
    read_path: Callable[[str], Operation | None] | None = None
    """What a client asks for by a path below the version; None, of the path or of the protocol:
    it is not one that holds more than a fixed path does."""
    locate: Callable[[str, bool], str] | None = None
    """The path, with its query, at which an upstream is asked for an answer of a model, whose name
    is given percent-encoded, streamed or not; None: `path`."""
    unserved: str = ""
    """What clients are told of paths below `path` that are not served."""
    id_prefix: str
    """Prefix of response ids: `chatcmpl-`, `msg_`, `resp_`."""
    auth: str = "bearer"
    """How its services take a key: `bearer` (`Authorization: Bearer`), or the header's name."""
    key_headers: tuple[bytes, ...] = ()
    """Names, in lower case, of the headers in which its clients send a key, besides
    `Authorization: Bearer`."""
    sign: bytes = b""
    """Name, in lower case, of a header that only its clients send; it tells their protocol on
    paths that tell none."""
    headers: Callable[[Capabilities], Mapping[str, str]] = _no_headers
    """Headers that every request to an upstream has, by their names in lower case."""
    forwarded: tuple[str, ...] = ()
    """Names, in lower case, of the headers that a client of the protocol may say to an upstream
    of it beside the body."""
    idempotency_key: str = ""
    """Name, in lower case, of the header in which its services take a key that tells a repeated
    request from a new one; empty if they take none."""
    settings: Mapping[str, str] = {}
    """Members of a client's body that are settings, each with what traces call it: the names of
    OpenTelemetry's conventions below `gen_ai.request.`, but for `conversation.id`, `output.type`
    and `service_tier`, which stand elsewhere."""
    binds_reasoning: bool = False
    """Whether commonly only the account that made encrypted reasoning can use it."""
    stores_responses: bool = False
    """Whether its services keep responses that later requests name."""
    socket_turn: Callable[[bytes], Any] | None = None
    """What a body for POST is over a WebSocket to an upstream (`dragoman.upstream.SocketCall`; None
    if it can only be posted); None where services offer no WebSocket."""
    counting: Counting | None = None
    """None where it cannot count."""
    output_limits: tuple[str, ...] = ()
    """Members of a request that limit the tokens of the answer; the first is set where none is."""
    choices: str = ""
    """Member of a request that asks for several answers at once, each of which may be as long;
    empty where there is none."""
    limit_names: Mapping[str, str] = MappingProxyType({})
    """The names under which clients are told of their rate limits, by what these count: `requests`,
    `tokens`, `input_tokens`, `output_tokens`. Of those of one name, the tightest is told."""
    limit_lines: Callable[[RateLimit], bytes] = _no_limit_lines
    """The header lines that tell clients of one of these, with `%d` for what is left of it."""
    models: ModelList
    capabilities: type[Struct] | None = None
    """The protocol's own capabilities of an upstream, see `Capabilities.of`; None if it has
    none."""
    attributed_by: frozenset[str] = frozenset()
    """Top-level members of a request that tell for whom a client asks."""
    attribution: Callable[[Mapping[str, msgspec.Raw]], Attribution] = _nobody
    """For whom a client asks, by these."""
    completed: Callable[[Capabilities, str], Capabilities] = _as_given
    """The capabilities with what the protocol and the upstream's base URL tell filled in."""

    def key_header(self, key: str) -> tuple[str, str]:
        """The header, name and value, that carries a key to its services."""
        return auth_header(self.auth, key)

    def path_for(self, model: str, stream: bool) -> str:
        """The path at which an upstream is asked for an answer."""
        return self.path if self.locate is None else self.locate(quoted(model), stream)


class Translate(Struct, frozen=True, kw_only=True):
    """How requests, answers and errors of a protocol are read and written."""

    read_request: Callable[[JsonObject, Sealer], Request]
    """Raises InvalidRequest naming the field."""
    write_request: Callable[[Request, Outbound], JsonObject]
    """The upstream's body. Everything of the request that it does not carry is in the ledger."""
    read_response: Callable[[JsonObject, Inbound], Iterable[Event]]
    """A whole answer as the events of its stream. Raises UpstreamError when it is unusable."""
    stream_reader: Callable[[Inbound], StreamReader]
    answer_writer: Callable[[Reply, bool], AnswerWriter]
    """Writes one answer; the flag tells whether it is streamed."""
    read_error: Callable[[int, Mapping[str, str], bytes], Fault]
    """An upstream's error answer (status, lower-case headers, body) as a fault."""
    write_error: ErrorWriter
    reasoning_refusals: tuple[str, ...] = ()
    """Codes, and texts in lower case, with which its services refuse reasoning that is sent back to
    them: they cannot decrypt it, or did not sign it."""
    keepalive: bytes
    """What to write in a stream during silence."""
    tool_name_limit: int
    """Longest tool name the protocol allows."""
    namespaces: bool = False
    """Whether tools can be declared in namespaces."""
    taken_stops: Callable[[Sequence[str]], tuple[str, ...]]
    """Those of a request's stop sequences that the protocol takes."""
    output_limit: Callable[[Request, Options], int | None] = _own_limit
    """The output limit, in tokens, that a request has when it is written; None for none."""
    options: type[Struct] | None = None
    """The protocol's own options of a translation, see `Options.of`; None if it has none."""
    repeated: Collection[str] = ()
    """Members of a client's body (`Request.source`) that the writer of its answer looks at."""


class Passthrough(Struct, frozen=True, kw_only=True):
    """What is done when client and upstream speak the same protocol."""

    shape: Callable[[bytes], Any]
    """Decodes what must be right of a body before it goes upstream as it is. Raises JsonError."""
    suits: Callable[[Options], bool] = _always
    """Whether answers may be passed through; False where options have clients shown what no
    upstream writes."""
    without_envelopes: Callable[[Mapping[str, msgspec.Raw], Ledger], Mapping[str, msgspec.Raw]]
    """The client's top-level members without the reasoning state that a client was given in
    place of another upstream. Other values byte for byte."""
    without_reasoning: Callable[
        [Mapping[str, msgspec.Raw], Ledger, int], tuple[Mapping[str, msgspec.Raw], int]
    ]
    """The client's top-level members without the first so many pieces of reasoning that only
    their maker can read, and how many were left out."""
    fitted: Callable[
        [Mapping[str, msgspec.Raw], Capabilities, Ledger, bool], Mapping[str, msgspec.Raw]
    ]
    """The client's top-level members without what this upstream would refuse or is not to see.
    Other values byte for byte. The flag tells that the output limit is lower than the client's."""
    check_conversation: Callable[[Mapping[str, msgspec.Raw]], None] = _no_check
    """Raises InvalidRequest for a request that goes on with a conversation which only one account
    of several would hold, and that nothing would lead there."""
    continues: str = ""
    """Member that names the answer which a request goes on from, where services keep answers."""
    conversation: str = ""
    """Member in which clients name their conversation."""
    beginning: Callable[[Mapping[str, msgspec.Raw]], Beginning]
    """What of the client's top-level members is the same in all requests of a conversation."""
    forward_request: Callable[[Mapping[str, msgspec.Raw], str, Capabilities], bytes]
    """The client's top-level members with the model replaced and, where the protocol has to be
    asked for it, usage asked for in streams; all other values byte for byte."""
    match_response: AnswerMatcher
    least: Mapping[str, Any]
    """The members of the shortest conversation."""
    asks_usage: Callable[[Mapping[str, msgspec.Raw]], bool] = _no_usage
    """Whether a client asked for usage in its stream, where the protocol has it be asked for."""
    choices: Callable[[Mapping[str, msgspec.Raw]], int] = _one
    """How many answers in one a client asked for, where the protocol has that."""
    matcher: MatcherMaker
    continuation: Callable[[bytes], Callable[[bytes], bytes]] | None = None
    """Of the first events of an answer: what makes the events of another those of the rest of it,
    where one that broke off while it `thinks` can be gone on with. None: it cannot."""


class Codec(Struct, frozen=True):
    """One protocol: every fact of it stands behind one of three parts.

    The functions are pure; readers, writers and matchers hold the state of one answer.
    """

    name: str
    """The protocol's name in the configuration: openai_chat, anthropic_messages, ..."""
    endpoint: Endpoint
    translate: Translate
    passthrough: Passthrough


_encoder = msgspec.json.Encoder()


def to_json(value: Any) -> bytes:
    """Compact JSON, UTF-8."""
    return _encoder.encode(value)


def to_json_text(value: Any) -> str:
    """Compact JSON as text."""
    return _encoder.encode(value).decode()

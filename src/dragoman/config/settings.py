"""The settings of a gateway. `docs/configuration.md` is generated from the docstrings."""

from __future__ import annotations

from datetime import date
from math import inf
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.config.access_rules import AccessRules, HeaderName, KeyRules, Name, NonEmpty
from dragoman.config.credentials import Credentials, print_of
from dragoman.config.files import FileText
from dragoman.config.limits import Limit
from dragoman.config.mcp import McpServer
from dragoman.config.names import ALIASES, LEGACY, PREFIXES
from dragoman.config.secret import Secret, fingerprint
from dragoman.config.sign_in import JwtIssuer, SignIn
from dragoman.failing import Rule
from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec, Endpoint
from dragoman.protocols.dialects import Dialect
from dragoman.protocols.purposes import RequestClass

Placed = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z",
        description="a name of at most 100 letters, digits, _ . : and -",
    ),
]
"""A name that is put into a URL."""

PLACES = ("region", "project", "location", "resource")
"""Settings of accounts that replace placeholders in a base URL."""

Seconds = Annotated[float, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]

RESTART = Meta(extra={"restart": True})
"""Marks a setting, or a table of settings, that cannot change while the gateway runs: a reload
names it and leaves it unchanged."""

ProtocolName = Annotated[str, Meta(extra={"choices": CODECS})]
"""The name of a registered protocol."""
ServiceName = Literal["plain", "bedrock_invoke", "vertex", "azure_deployments"]
AuthStyle = Literal["bearer", "x-api-key", "api-key"]
EndpointName = Literal[
    "embeddings",
    "rerank",
    "moderations",
    "completions",
    "fim",
    "infill",
    "images",
    "speech",
    "transcriptions",
    "files",
    "uploads",
    "batches",
    "conversations",
    "vector_stores",
    "containers",
    "caches",
    "realtime",
]
"""Endpoints beside those for answers of models."""
AccountRules = Literal["default", "sop", "none"]
Selection = Literal[
    "least_recently_used",
    "highest_balance",
    "round_robin",
    "weighted",
    "least_in_flight",
    "most_quota_left",
]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "text"]
Conventions = Literal["main", "v1_41", "both"]


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address on which the gateway listens, and its limits."""

    host: Annotated[NonEmpty, RESTART] = "127.0.0.1"
    """Address to listen on. An address that other machines can reach requires at least one
    `[[clients]]` entry, or `require_key`."""
    port: Annotated[int, Meta(ge=0, le=65535), RESTART] = 8080
    """TCP port to listen on; 0 for any free port."""
    unix_socket: Annotated[NonEmpty | None, RESTART] = None
    """Path of a Unix socket to listen on instead of `host` and `port`, relative to the directory of
    the configuration file. Anyone who can open the file can send requests."""
    tls_certificate: NonEmpty | None = None
    """File with the TLS certificate and its chain, relative to the directory of the configuration
    file. Absent: plain HTTP."""
    tls_key: NonEmpty | None = None
    """File with the private key of the certificate; absent: the key is in the certificate's
    file."""
    workers: Annotated[AtLeastOne, RESTART] = 1
    """Number of worker processes. They share the states of accounts through `[storage]`."""
    head_timeout_s: Seconds = 30.0
    """Seconds within which a connection must send the whole head of a request, from the opening of
    the connection or the first byte of the head. 0, here and in the other time limits of this
    table: no limit."""
    body_limit_bytes: AtLeastOne = 32 * 1024 * 1024
    """Largest request body, in bytes; a larger one is answered 413."""
    body_timeout_s: Seconds = 120.0
    """Seconds within which the whole body of a request must arrive; otherwise it is answered 408.
    Of one that is passed on while it comes, within which some more of it must arrive."""
    upload_limit_bytes: AtLeastOne = 1024 * 1024 * 1024
    """Largest body of a request that is passed on while it comes, such as a file or audio; a larger
    one is answered 413."""
    spool_dir: NonEmpty | None = None
    """Directory for such bodies whose model stands behind their file, as `curl` may send them,
    until it has come; relative to the directory of the configuration file. The files have no name
    there, and end with the request. Absent: the system's directory for temporary files."""
    idle_timeout_s: Seconds = 150.0
    """Seconds after which an idle client connection is closed. Longer than the limits of SDKs and
    proxies (Traefik 90 s, Caddy 120 s), so that they close first."""
    send_timeout_s: Seconds = 60.0
    """Seconds over which the reading speed of a client is measured. A client that does not read its
    answer is disconnected, and its upstream call is cancelled."""
    max_connections: AtLeastOne = 10_000
    """Client connections open at once in one worker. At this number, those that have been idle
    longest are closed, and new ones wait."""
    max_connections_per_address: Annotated[int, Meta(ge=0)] = 1024
    """Connections of these from one address (IPv6: one /64 network); 0 for any number. This machine
    and `trusted_proxies` are exempt."""
    memory_limit_bytes: AtLeastOne = 512 * 1024 * 1024
    """Bytes of request bodies and answers in the memory of one worker. A request that would
    exceed this is answered 503. Bodies and answers under 64 KB are not counted; their number is
    bounded."""
    failed_logins: Annotated[int, Meta(ge=0), RESTART] = 30
    """Requests with a missing or unknown key of one address in a minute that are answered 401;
    further ones are answered 429. A request with a valid key is never refused for those of others.
    0 for any number. This machine is exempt."""
    trusted_proxies: tuple[NonEmpty, ...] = ()
    """Addresses or networks of proxies in front of the gateway, `unix` for a proxy on a Unix
    socket. Only their `X-Forwarded-For` is used, for the limits by address and for the log."""
    max_concurrent: AtLeastOne = 1000
    """Requests that one worker serves at once; further requests are answered 503."""
    keepalive_s: Seconds = 10.0
    """Seconds of silence after which a stream sends a keepalive that clients ignore; 0 for none."""
    commit_after_s: Seconds = 30.0
    """Seconds to wait with the head of a streamed answer while the upstream has not started. Until
    then another account can be tried, and a failure has its own status; afterwards the client gets
    keepalives, and a failure becomes an error in the stream. 0: wait until the upstream starts."""
    shutdown_grace_s: Annotated[Seconds, RESTART] = 30.0
    """Seconds in which requests in flight may finish when the gateway stops."""
    retry_headers: bool = False
    """Send `x-should-retry: false` with a request that failed on several accounts, so that SDKs do
    not multiply the attempts."""
    require_key: bool = False
    """Reject every request without a key, even while no key exists: for gateways whose keys are all
    in the store. True allows a `host` that other machines can reach without `[[clients]]`."""
    cors: bool = True
    """Answer preflight requests and allow any origin, so that web pages can send requests. Without
    `[[clients]]` no origin is allowed: only programs on this machine are served."""
    envelope_key: Secret | None = None
    """Key that authenticates the envelopes in which clients carry the reasoning of another vendor,
    so that they cannot forge it. Workers and restarts must use the same key; absent: envelopes are
    not authenticated."""
    log_level: Annotated[LogLevel, RESTART] = "info"
    """Lowest severity that is logged. Keys and prompts are never logged."""
    log_format: Annotated[LogFormat, RESTART] = "auto"
    """Format of the log: `json` (one object per line), `text` (for people), or `auto`: `text` if
    standard error is a terminal, otherwise `json`."""
    watch_config: bool = False
    """Reload when the configuration file, or a file it names for a secret, the certificate or
    prices, changes; also when it is a symbolic link with a new target, as in Kubernetes."""


class WebSocket(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Responses over WebSocket, at `/v1/responses`: see [WebSocket](websocket.md); and sessions of
    [realtime](realtime.md). A message may be as large as a request body."""

    enabled: bool = True
    """Serve WebSocket. False: clients get 426 and use POST; there are no sessions of realtime."""
    max_connections: AtLeastOne = 2000
    """WebSocket connections open at once in one worker; they count as connections of `[server]` as
    well. Further ones are answered 503."""
    idle_timeout_s: Seconds = 1800.0
    """Seconds without a request, or a message of a session of realtime, after which a connection is
    closed; 0 for no limit. Clients keep a connection open while their tools run."""


class Team(AccessRules, frozen=True, kw_only=True):
    """Rules for all keys of a team. Teams can be in the store as well: `dragoman team`."""

    name: Name
    """Name that keys refer to."""


class Client(KeyRules, frozen=True, kw_only=True):
    """A client that may send requests. None is needed on a loopback address. Keys can be in the
    store as well: `dragoman key`."""

    name: Name
    """Name for logs and metrics."""
    key: Secret | None = None
    """Key that the client sends as `Authorization: Bearer` or `x-api-key`, at least 8
    characters."""
    keys: tuple[Secret, ...] = ()
    """Several such keys, for the rotation of a key."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All keys of the client."""
        return self.keys if self.key is None else (self.key, *self.keys)

    @property
    def rules(self) -> KeyRules:
        """The rules of the client without its name and keys."""
        return KeyRules(**{name: getattr(self, name) for name in KeyRules.__struct_fields__})


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits of one upstream call, in seconds; 0 for no limit."""

    connect_s: Seconds = 10.0
    """Until the connection is established, including TLS."""
    first_byte_s: Seconds = 600.0
    """From the end of the request to the head of the answer; for a stream, to the first event with
    content. Bytes without content, such as pings, do not extend this."""
    idle_s: Seconds = 600.0
    """Between two reads of an answer; a ping of the upstream counts as a read. A stream that sends
    only pings is limited by `first_byte_s` and `total_s`. Over WebSocket, the next message of an
    answer may take three times as long while pings are answered."""
    total_s: Seconds = 3600.0
    """From the start to the end of the call."""

    @property
    def longest_silence_s(self) -> float:
        """Seconds after which a call that receives nothing has timed out, infinity if it never
        does."""
        phases = (self.connect_s, self.first_byte_s, self.idle_s)
        return min(self.total_s or inf, sum(phases) if all(phases) else inf)


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Probes of accounts that are out, so that no client request has to try them."""

    model: NonEmpty
    """Upstream model that is asked for a short answer."""
    every_s: Annotated[float, Meta(ge=1)] = 300.0
    """Average seconds between two probes of an account; they are spread."""


class Pricing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price table, and whether clients learn the cost."""

    table: FileText | None = None
    """File of a price table made by `dragoman prices update`, relative to the directory of the
    configuration file. Absent: the shipped table."""
    header: bool = False
    """Send the cost of a whole answer in `x-dragoman-cost-usd`, and what is left of the tightest
    budget in `x-dragoman-budget-remaining-usd`. The head of a stream is sent before these are
    known."""


class Traces(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces of requests, exported to an OpenTelemetry collector. They require the extra `otel`
    (`pip install '.[otel]'`). The destination and the service name are set by the variables
    of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_SERVICE_NAME`. Traces contain
    no key and no text of a request or an answer. Answers name their trace in `x-trace-id`."""

    enabled: bool = False
    """Whether requests are traced."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """Share of requests that are always traced; `OTEL_TRACES_SAMPLER` and its `_ARG` take
    precedence. Requests that failed, were rejected, took a minute, or were answered by a later
    attempt or a fallback are always traced, up to 100 a second in each worker."""
    conventions: Conventions = "both"
    """Attribute names: `main` for the conventions in development, `v1_41` for the last release,
    which most services read, `both`. Set one of them if the collector's service bills by the
    attribute."""
    trusted_clients: tuple[Name, ...] = ()
    """Names of clients whose `traceparent` also decides whether a request is traced: your own
    applications that trace themselves. The `traceparent` of other clients only names the trace."""


Dollars = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?\Z",
        description="US dollars such as 0.20, with at most six decimals",
        extra={"number": True},
    ),
]


DayHours = Annotated[
    str,
    Meta(
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]\Z",
        description='hours of the day such as "16:30-00:30"',
    ),
]


class OwnPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A price of your own, which takes precedence over the table. Of several with a matching
    `model`, the first counts, together with the others of the same `model` and `upstream`."""

    model: NonEmpty
    """Model name sent to the upstream, `*` allowed. `*` alone is the price of every model without
    another price."""
    upstream: Name | None = None
    """Name of the upstream with this price; absent: all."""
    input: Dollars
    """US dollars for a million input tokens, `0.2` or `"0.20"`; 0 for free."""
    output: Dollars
    """The same for output tokens."""
    cached: Dollars | None = None
    """The same for input read from a prompt cache; absent: as `input`."""
    cache_write: Dollars | None = None
    """The same for input written to a prompt cache; absent: as `input`."""
    cache_write_1h: Dollars | None = None
    """The same for input written to a cache for an hour; absent: as `cache_write`."""
    reasoning: Dollars | None = None
    """The same for reasoning; absent: as `output`."""
    search: Dollars = "0"
    """US dollars for a thousand searches: of the web by the vendor, and of rerank."""
    image: Dollars | None = None
    """US dollars for an image that is made. It takes the place of prices of tokens there, as do the
    next two; absent: no price by the image."""
    character: Dollars | None = None
    """US dollars for a million characters that are spoken."""
    second: Dollars | None = None
    """US dollars for a second of sound that is transcribed."""
    request: Dollars | None = None
    """US dollars for a thousand requests to [other endpoints](endpoints.md), besides all else."""
    image_input: Dollars | None = None
    """US dollars for a million input tokens of images; absent: as `input`."""
    image_output: Dollars | None = None
    """The same for output tokens of images; absent: as `output`."""
    audio_input: Dollars | None = None
    """The same for input tokens of sound; absent: as `input`."""
    audio_output: Dollars | None = None
    """The same for output tokens of sound; absent: as `output`."""
    tier: Literal["batch", "flex", "priority", "fast", "ultrafast"] | None = None
    """Service tier of this price; absent: the default tier, and every tier without a price of its
    own."""
    above: Annotated[int, Meta(ge=0)] = 0
    """Prompt tokens above which this price applies, to all tokens of the request."""
    since: date | None = None
    """Day (UTC) from which this price applies, `2027-01-01`; absent: always. The latest of several
    counts."""
    hours: DayHours | None = None
    """Hours of the day (UTC) in which this price applies, past midnight if they end before they
    begin; absent: all day. Of several since the same day, the one with hours counts."""


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that requests are sent to."""

    name: Name
    """Name that accounts and routes refer to, and the prefix of `name/model`."""
    protocol: ProtocolName
    """Protocol of the service."""
    base_url: NonEmpty
    """Address of the service, with or without its `/v1`. A query (`?api-version=...`) is sent with
    every request. `{region}`, `{project}`, `{location}` and `{resource}` are replaced by those of
    the account."""
    service: ServiceName = "plain"
    """The form in which a cloud offers the protocol; see [clouds](clouds.md). `plain`: at the
    protocol's own paths below `base_url`, as most services of clouds do, too. `bedrock_invoke`:
    Messages by InvokeModel of Amazon Bedrock. `vertex`: Messages, generateContent or Chat of Vertex
    AI, below the `/projects/.../locations/...` of `base_url`. `azure_deployments`: Chat or
    Responses of Azure OpenAI below `/openai`, with an `api-version` in the query of `base_url`."""
    inference_profiles: bool = False
    """List the inference profiles of Amazon Bedrock with models of Anthropic as the models of this
    upstream, with `service = "bedrock_invoke"`. Its accounts need the permission
    `bedrock:ListInferenceProfiles`."""
    auth: AuthStyle | None = None
    """Header with the account's key: `Authorization: Bearer`, `x-api-key`, or `api-key` (Azure).
    Absent: that of the service: `x-api-key` for `anthropic_messages`, otherwise `bearer`; with
    `service`, `bearer` for both clouds of `anthropic_messages`, and `api-key` for Azure."""
    propagate_trace: bool = False
    """Send `traceparent` to the upstream if requests are traced: for servers of your own, such as
    vLLM."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers added to every request. Values may be references, as keys may."""
    proxy: Secret | None = None
    """URL of an HTTP or SOCKS proxy for every call (`http://`, `https://`, `socks5://`,
    `socks5h://`). A reference is resolved, since the URL may contain a password."""
    proxies: tuple[Secret, ...] = ()
    """URLs of proxies that are used in turn, instead of `proxy`. A proxy that fails is paused; the
    account is not blamed."""
    ca_file: FileText | None = None
    """PEM file of the authorities, or the self-signed certificate, that are trusted for `https` to
    this upstream, instead of the system's (or those that the environment's `SSL_CERT_FILE` names,
    for all upstreams and proxies)."""
    client_certificate: FileText | None = None
    """PEM file with a certificate and its key, which the gateway shows where an `https` upstream
    asks who it is (mutual TLS)."""
    account_rules: AccountRules = "default"
    """What an error of the upstream means for the account. `default`: a 429 pauses the account, a
    quota error takes it out for a time, a rejected key disables it, and other errors are retried on
    another account if that may help. `sop`: 429, 402 and 401 disable the account, a 403 is judged
    by its text, other errors are returned to the client, and 503 means that no account is left.
    `none`: only `rules` apply."""
    rules: tuple[Rule, ...] = ()
    """Rules of your own, tried in order before those of `account_rules`; the first that matches
    decides. `dragoman classify` shows which does; see [accounts](accounts.md)."""
    selection: Selection = "least_recently_used"
    """How an account is selected among those that can serve a request. Accounts of a lower
    `priority` always come first."""
    attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    """Most accounts tried for one request; none is tried twice."""
    attempts_within_s: Seconds = 1260.0
    """Seconds after which no further account is tried for a request; 0 for no limit. A call that
    could use up this time while other accounts are left is ended after half of the remaining time,
    unless its answer has started. So this should be twice `timeouts.first_byte_s`."""
    silent_calls: Literal["wait", "move"] = "wait"
    """What to do with a call that has been silent for much longer than usual here, which is
    measured. Its account is avoided until it answers again. `wait`: the call goes on until
    `timeouts.first_byte_s`, since the service may be working. `move`: the call is cancelled and the
    next account is tried; the service may bill both."""
    queue_size: Annotated[int, Meta(ge=0)] = 100
    """Requests that may wait in each worker while every account that could serve them is at its
    `max_concurrent`."""
    queue_s: Seconds = 10.0
    """Most seconds that such a request waits."""
    affinity: Literal["conversation", "off"] = "conversation"
    """Send the requests of a conversation to the account that has its prompt cache and its
    reasoning, while that account can serve it."""
    affinity_s: Seconds = 3600.0
    """Seconds after its last request for which a conversation's account is remembered."""
    cached_s: Seconds = 300.0
    """Seconds for which the service caches prompts. A conversation that was silent for longer
    returns to an account of a lower `priority` number, if one can serve it."""
    reasoning_bound_to: Literal["account", "upstream"] | None = None
    """Whether encrypted reasoning is valid only for the account that made it (accounts of different
    organisations). It is then left out, and reported as a loss, when another account takes over.
    Absent: `account` for `openai_responses`, otherwise `upstream`."""
    endpoints: tuple[EndpointName, ...] | None = None
    """Endpoints that the service has beside that of its protocol; see [other
    endpoints](endpoints.md). Absent: those of the vendor whose address `base_url` is, and of other
    services of OpenAI's protocols `embeddings`, `completions` and `rerank`."""
    embeddings: Literal["openai", "cohere"] | None = None
    """Form in which a service of OpenAI's protocols takes embeddings; absent: that of the vendor
    whose address `base_url` is, otherwise `openai`."""
    embeddings_base64: bool = True
    """Whether the service takes `encoding_format = "base64"`. False: it is asked for numbers, which
    clients that want base64 are sent as such."""
    rerank: Literal["cohere", "jina", "tei"] | None = None
    """Form in which the service takes rerank: that of Cohere's version 2, that of Jina, vLLM and
    llama.cpp, or that of text-embeddings-inference. Absent: that of the vendor whose address
    `base_url` is, otherwise `jina`."""
    stored_responses: Literal["rebuild", "pass"] = "rebuild"
    """Where responses are stored: `rebuild`, in the gateway, which rebuilds conversations for any
    account, or `pass`, at the service itself, whose conversations then stay with their first
    account. Only `openai_responses` supports `pass`."""
    websocket: Literal["off", "auto", "on"] = "off"
    """Call the service over WebSocket connections, one for each account and conversation, and send
    only the input that the connection does not have yet. Used for streamed requests below 15 MiB to
    `openai_responses`; other requests, and those whose handshake is refused, use POST. `auto`
    remembers a host that refused for five minutes, or for an hour if it does not support WebSocket;
    `on` tries it each time. Not through a proxy that forwards plain `http://`."""
    probe: Probe | None = None
    """Probes of accounts that are out; absent: such an account is tried with a client's request
    when its time has come."""
    models: tuple[NonEmpty, ...] | None = None
    """Models of this upstream in `/v1/models`; absent: those that it lists itself."""
    prices: NonEmpty | None = None
    """Name of the price list in the price table, such as `openai`; `none` for no list. Absent: the
    list of the vendor whose address `base_url` is, if it is known. `dragoman prices show` lists
    them."""
    billing: Literal["tokens", "subscription"] = "tokens"
    """How its accounts are paid. With `subscription`, costs are marked as what the answers would
    have cost, and are not counted by limits with `subscriptions = "ignore"`."""
    timeouts: Timeouts = Timeouts()
    """Time limits of one call."""
    capabilities: Capabilities = Capabilities()
    """What the service accepts and needs."""
    reasoning_with_tools_via: Name | None = None
    """Name of the upstream for requests that have tools and ask the model to reason: the Responses
    upstream of the same vendor, if its Chat upstream refuses both together."""

    @property
    def codec(self) -> Codec:
        """The codec of its protocol."""
        return CODECS[self.protocol]

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of its protocol, as its service has it."""
        return self.codec.endpoint.at(self.service)

    @property
    def binds_reasoning(self) -> bool:
        """Whether only the account that made encrypted reasoning can use it."""
        if self.reasoning_bound_to is not None:
            return self.reasoning_bound_to == "account"
        return self.codec.endpoint.binds_reasoning

    @property
    def auth_style(self) -> str:
        """The header with the account's key; the default of the protocol unless `auth` is set."""
        if self.auth is not None:
            return self.auth
        return self.endpoint.auth


class Account(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key for an upstream. Requests are spread over the accounts of an upstream."""

    name: Name
    """Name for logs, metrics and errors."""
    upstream: Name
    """Name of the upstream."""
    key: Secret | None = None
    """Key of the upstream; absent: requests are sent without a key, for servers of your own."""
    credentials: Credentials | None = None
    """What authorises requests in place of a `key`: signatures, or tokens that expire. See
    [clouds](clouds.md)."""
    region: Placed | None = None
    """Region of AWS. It replaces `{region}` in the `base_url` of the upstream, and is the one that
    requests are signed for; absent: that of the host."""
    project: Placed | None = None
    """Project of Google Cloud; it replaces `{project}` in the `base_url`."""
    location: Placed | None = None
    """Location of Google Cloud; it replaces `{location}` in the `base_url`."""
    resource: Placed | None = None
    """Resource of Azure; it replaces `{resource}` in the `base_url`."""
    models: tuple[NonEmpty, ...] | None = None
    """Upstream models that this account serves, `*` allowed in each; absent: all."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers added to requests of this account; they take precedence over those of the
    upstream."""
    proxy: Secret | None = None
    """URL of the proxy for calls of this account; it takes precedence over those of the
    upstream."""
    priority: int = 0
    """Accounts of a lower number are used while one of them is available."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """Share of the requests for this account with `selection = "weighted"`."""
    max_concurrent: AtLeastOne | None = None
    """Requests that this account serves at once, over all workers; absent: any number."""
    limits: tuple[Limit, ...] = ()
    """Limits that the upstream sets for this account, such as `kind = "requests"` and
    `window = "1m"`, over all workers. A request that would exceed one is sent with another account
    meanwhile. Until its answer is there, a request counts with its whole output limit."""
    balance: float | None = None
    """Tokens left for this account, for `selection = "highest_balance"`; the usage of its answers
    is subtracted."""

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that distinguish its key or credentials from others without showing
        them; empty for none."""
        return fingerprint(self.key) if self.credentials is None else print_of(self.credentials)

    def base_url(self, upstream: Upstream) -> str:
        """The base URL of its upstream, with its placeholders replaced where the account has a
        value for them."""
        url = upstream.base_url
        if "{" in url:
            for name in PLACES:
                url = url.replace(f"{{{name}}}", getattr(self, name) or f"{{{name}}}")
        return url


class Fallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a request goes if no account of the route's upstream can answer it."""

    upstream: Name
    """Name of the upstream."""
    model: NonEmpty | None = None
    """Model name for that upstream; absent: that of the route."""
    when_too_long: bool = False
    """Also ask it if the conversation is too long for the model of the route."""


class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent makes a request for, as its program says: Claude Code, if its variable
    `CLAUDE_CODE_GATEWAY_HINT_HEADERS` is 1. A program can say what it likes: a route with a
    condition is passed over for a key that may not use its model."""

    request_class: RequestClass | None = field(default=None, name="class")
    """`main` are requests of the conversation itself, and those of programs that say nothing;
    `other` those of classes that are not known. Absent: any."""
    agent_type: NonEmpty | None = None
    """Type of the agent, such as `general-purpose`; `*` matches any text, also none. Absent: any
    agent, or none."""


class Route(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a model name leads. The first route that matches is used."""

    match: NonEmpty
    """Model name sent by the client; `*` matches any text, also none."""
    when: Condition | None = None
    """Which requests for these models the route is for; absent: all."""
    upstream: Name
    """Name of the upstream."""
    model: NonEmpty | None = None
    """Model name for the upstream; absent: the name sent by the client. Answers always contain the
    name sent by the client."""
    fallbacks: tuple[Fallback, ...] = ()
    """Tried in order if no account of the upstream could answer and the client has received nothing
    of an answer."""
    policy: Policy | None = None
    """Which losses reject a request; short for `options.policy`."""
    dialect: Dialect = "official"
    """Contract that the route's clients were written against: a named set of options; those under
    `options` take precedence. `official` is what the vendors' services do."""
    options: Options = Options()
    """How requests and answers are translated. Absent keys are taken from the top-level
    `[options]`."""
    endpoints: tuple[EndpointName, ...] | None = None
    """Endpoints beside that of a protocol that may be called with this route's models; absent: all
    that the upstream has."""
    capabilities: Capabilities | None = None
    """Capabilities of this route's models, if they differ from those of the upstream. Absent keys
    are taken from the upstream's `capabilities`."""
    label: NonEmpty | None = None
    """What agents call the model in their pickers, if `match` is its name; absent: that name."""
    description: Annotated[str, Meta(max_length=100)] = ""
    """What they say of it, in at most 100 characters."""
    behaves_as: NonEmpty | None = None
    """The model of Anthropic that Claude Code takes it for, which decides what is sent: effort,
    thinking, system messages in the middle. Absent: the model itself where it is one of
    Anthropic's, else `claude-sonnet-4-5`, whose requests are the plainest."""


class Models(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Aliases and other names of models, and the model list.

    A name that no route matches is looked up in `aliases`, `legacy` and `prefixes`, in this order,
    and the routes are tried again with the result. A name `upstream/model` that no route matches
    leads to that upstream. A provider prefix that leads nowhere is removed, and the routes are
    tried without it. A name that then leads nowhere is looked up among the aliases with a pattern.
    """

    builtin: bool = True
    """Use the shipped names below; your own take precedence. False: only names of your own are
    known and listed."""
    aliases: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(ALIASES))
    """Short names and the models they stand for. They are listed in `/v1/models` too. In a name,
    `*` matches any text: with `"claude-*" = "house"`, the models that Claude Code asks for by
    itself are `house`; with `"claude-*haiku*" = "small"` before it, the one for titles and
    summaries is `small`. Of such names the first that matches is used, none is listed, and who may
    use the model may use it by all of them."""
    legacy: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(LEGACY))
    """Names of retired models and their replacements."""
    prefixes: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(PREFIXES))
    """Patterns of names and the provider prefix that such names lack."""


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where accounts, their states and history, usage and stored responses are stored."""

    path: str | None = None
    """SQLite file, relative to the directory of the configuration file; it is the store even if
    `url` is set. `""`: no file; without `url` nothing is stored, and workers do not share their
    states. Absent: `dragoman.db`, or no file if `url` is set."""
    url: Secret | None = None
    """PostgreSQL database, usually `env:DATABASE_URL`: the store of instances on several machines,
    unless `path` names a file ([running it](operations.md#several-machines)). In either case they
    share limits through it ([limits](limits.md#several-machines)). Absent: each machine counts for
    itself."""
    key: Secret | None = None
    """Key that encrypts the secrets of accounts in the store, at least 16 characters, usually
    `env:DRAGOMAN_STORE_KEY`. Required for accounts in the store."""
    previous_key: Secret | None = None
    """Former `key`. What it encrypted is encrypted with `key` when the gateway starts; then remove
    it."""
    sync_s: Annotated[float, Meta(ge=0.02, le=0.5)] = 0.2
    """Seconds between two exchanges with the store: how late a worker learns what another decided,
    and how much usage is lost if it is killed."""
    keep_days: Annotated[float, Meta(ge=32)] = 400.0
    """Days for which usage and the audit are stored: usage by the hour for 60 days, then by the day
    (UTC); older usage is added up for each key, team, upstream and model. At least 32, since limits
    of a month are counted by it."""
    responses: bool = True
    """Store responses that Responses clients want stored, so that they can continue from them.
    False: no response is stored, and answers say so."""
    responses_days: Annotated[float, Meta(gt=0)] = 30.0
    """Days for which a response is stored."""
    background_again: bool = True
    """Restart a background response once, on another worker, if its worker was killed or stopped.
    The upstream may bill both. False: it fails."""
    responses_bytes: AtLeastOne = 1024 * 1024 * 1024
    """Bytes of all stored responses; the oldest of whoever stores most are dropped for new ones. A
    response larger than 64 MiB is not stored."""

    @property
    def place(self) -> str | None:
        """The name of the store for operators; None if nothing is stored."""
        return self.path or (None if self.url is None else "PostgreSQL")


class UsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What usage is counted by besides the key: see [administration](administration.md#usage)."""

    user_headers: tuple[HeaderName, ...] = ()
    """Headers in which clients name their end user; the first that is present counts. They take
    precedence over `safety_identifier`, `user` and `metadata.user_id` in the body."""
    tag_headers: tuple[HeaderName, ...] = ("x-dragoman-tags",)
    """Headers with tags of a request, separated by commas, in addition to `metadata.tags` in the
    body: for clients that already send tags in a header of their own. At most 8 tags of 64
    characters are counted."""


class Admin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Administration of a running gateway over HTTP, below `/admin`."""

    key: Secret | None = None
    """Key for `/admin` and `/metrics`, at least 16 characters and no client's key. It has every
    permission, under the name `admin`. Absent: `/admin` is served only if it is `enabled`, and
    `/metrics` only to this machine."""
    enabled: bool = False
    """Serve `/admin` without a `key` in this table, for the named keys in the store: `dragoman
    admin`."""

    @property
    def is_served(self) -> bool:
        """Whether `/admin` is served."""
        return self.key is not None or self.enabled


class RequestLogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request log behind `/admin/requests`: who requested what, and the result; no text of
    prompts or answers. It is written if there is an `[admin]` when the gateway starts, to files on
    this machine beside `storage.path`; without a store, only until the gateway stops."""

    enabled: bool = True
    """Write the request log."""
    keep_days: Annotated[float, Meta(gt=0)] = 7.0
    """Days for which requests are stored; an eighth of that time is dropped at once."""
    keep_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 256 * 1024 * 1024
    """Bytes of all stored requests, and as many again for stored bodies; beyond them the oldest
    eighth is dropped. A request takes one to three kilobytes."""
    body_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 64 * 1024
    """Bytes stored of each of the four bodies of a request, for keys with `keep_bodies`."""
    body_days: Annotated[float, Meta(gt=0)] = 1.0
    """Days for which bodies are stored: what you promise your users about their texts."""


class Webhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts when quotas run low and accounts drop out: see [operations](operations.md)."""

    url: Secret | None = None
    """Where alerts are sent, each as a POST with a JSON object. Absent: no alerts. A reference is
    resolved, since the URL may contain a token."""
    secret: Secret | None = None
    """Key that signs alerts: `x-dragoman-signature: t=TIME,v1=HEX`, the HMAC-SHA256 of
    `TIME.BODY`."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers of each alert, such as `authorization`. Values may be references."""
    thresholds: tuple[Annotated[float, Meta(gt=0, le=1)], ...] = (0.8, 0.95, 1.0)
    """Shares of a quota window at which an alert is sent, once for each window. Windows shorter
    than an hour have none."""


class Search(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The search engine that makes web searches for models whose upstream makes none. With one, the
    option `hosted_tools` is `search` unless it is set."""

    engine: Literal["", "searxng", "brave", "tavily"] = ""
    """Whose interface it has; absent: there is none. SearXNG must allow its JSON format."""
    url: NonEmpty | None = None
    """Its address, such as `http://127.0.0.1:8888/search`; absent: that of Brave's or Tavily's
    service."""
    key: Secret | None = None
    """Its key, if it needs one."""
    results: Annotated[int, Meta(ge=1, le=20)] = 5
    """Pages that the model is given of each search, with their excerpts."""


class RequestCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of your own that each request passes before it is sent to an upstream: see
    [request checks](request-checks.md). Absent: there is none."""

    url: Secret
    """Where a request is sent as JSON, `{path, query, headers, body}`, without its credentials. The
    answer is JSON, `{block, reason, rule_id, body}`. A reference is resolved, since the URL may
    contain a token."""
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """Seconds within which it has to answer."""
    fail: Literal["closed", "open"] = "closed"
    """What becomes of a request that could not be checked: `closed` blocks it, `open` lets it
    pass."""


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Telemetry of agents (OpenTelemetry over HTTP), which every client may send to `/v1/metrics`,
    `/v1/logs` and `/v1/traces`: see [people](people.md#telemetry). The gateway's own traces are in
    `[traces]`."""

    forward_to: Secret | None = None
    """Address of a collector, such as `http://127.0.0.1:4318`, which is sent what comes, as it is
    but for the client's key. A reference is resolved, since it may contain a token. Absent: what
    comes is discarded."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole configuration."""

    server: Server = Server()
    websocket: Annotated[WebSocket, RESTART] = WebSocket()
    clients: tuple[Client, ...] = ()
    teams: tuple[Team, ...] = ()
    upstreams: tuple[Upstream, ...] = ()
    accounts: tuple[Account, ...] = ()
    routes: tuple[Route, ...] = ()
    options: Options = Options()
    models: Models = Models()
    storage: Annotated[Storage, RESTART] = Storage()
    sign_in: SignIn | None = None
    jwt_issuers: tuple[JwtIssuer, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    usage: UsageSettings = UsageSettings()
    admin: Admin = Admin()
    request_log: Annotated[RequestLogSettings, RESTART] = RequestLogSettings()
    webhook: Annotated[Webhook, RESTART] = Webhook()
    pricing: Pricing = Pricing()
    traces: Annotated[Traces, RESTART] = Traces()
    search: Search = Search()
    request_check: RequestCheck | None = None
    telemetry: Telemetry = Telemetry()
    prices: tuple[OwnPrice, ...] = ()
    managed_settings: dict[str, Any] | None = None
    """Settings that Claude Code takes over from here, whoever signs in, at each start and every
    hour (see [people](people.md#managed-settings)), written as its `settings.json` has them:
    `permissions`, `env`, `companyAnnouncements` and so on. What is not set of `modelPicker`,
    `modelPricing`, `model` and `availableModels` is made of the models that a person may use.
    Absent: there are none, unless a rule has some."""

    def upstream(self, name: str) -> Upstream:
        """The upstream of that name.

        Raises:
            KeyError: there is none.
        """
        for upstream in self.upstreams:
            if upstream.name == name:
                return upstream
        raise KeyError(name)

"""The settings of a gateway, typed. `docs/configuration.md` is generated from the docstrings."""

from __future__ import annotations

from datetime import date
from math import inf
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.config.access_rules import AccessRules, KeyRules, Name, NonEmpty
from dragoman.config.files import FileText
from dragoman.config.names import ALIASES, LEGACY, PREFIXES
from dragoman.config.secret import Secret
from dragoman.failing import Rule
from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec
from dragoman.protocols.dialects import Dialect

HeaderName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", description="the name of an HTTP header")
]
"""A token of RFC 9110, section 5.6.2."""

Seconds = Annotated[float, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]

RESTART = Meta(extra={"restart": True})
"""Marks a setting, or a table of them, that cannot change while the gateway runs: a reload names it
and leaves it as it is."""

ProtocolName = Annotated[str, Meta(extra={"choices": CODECS})]
"""The name of a protocol that is registered."""
AuthStyle = Literal["bearer", "x-api-key", "api-key"]
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
    """Where the gateway listens, and its limits."""

    host: Annotated[NonEmpty, RESTART] = "127.0.0.1"
    """Address to listen on. Any other than a loopback address requires at least one
    `[[clients]]` entry."""
    port: Annotated[int, Meta(ge=0, le=65535), RESTART] = 8080
    """TCP port to listen on; 0 takes any free one."""
    unix_socket: Annotated[NonEmpty | None, RESTART] = None
    """Path of a Unix socket to listen on, from the directory of the configuration file, instead of
    `host` and `port`. Who may open the file may call."""
    tls_certificate: NonEmpty | None = None
    """File of the certificate, with those it depends on, to speak TLS; from the directory of the
    configuration file. Absent: HTTP without TLS."""
    tls_key: NonEmpty | None = None
    """File of the certificate's key; absent: it is in the file of the certificate."""
    workers: Annotated[AtLeastOne, RESTART] = 1
    """Processes that serve. They share the states of accounts through `[storage]`."""
    head_limit_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024
    """Largest head of a request, in bytes; a larger one is answered 431. Also the most that
    trailers may take."""
    head_timeout_s: Seconds = 30.0
    """Seconds within which a connection must bring the whole head of a request, from its opening
    or from the head's first byte; 0 for no limit, as in the other time limits here."""
    body_limit_bytes: AtLeastOne = 32 * 1024 * 1024
    """Largest request body, in bytes; a larger one is answered 413."""
    body_limit_values: Annotated[int, Meta(ge=300_000)] = 1_000_000
    """Most values that a request body may hold, told by its commas and the beginnings of its
    objects and lists; one that holds more is answered 413. Each takes some 300 bytes of memory
    while the body is translated."""
    body_timeout_s: Seconds = 120.0
    """Seconds within which the whole body of a request must arrive; else it is answered 408."""
    least_rate_bytes: Annotated[int, Meta(ge=0)] = 1000
    """Bytes per second that a body must bring, over each 10 seconds, and that a client must take
    of an answer that waits for it."""
    idle_timeout_s: Seconds = 75.0
    """Seconds for which an idle connection of a client is kept; longer than SDKs keep theirs, so
    that it is they who close."""
    send_timeout_s: Seconds = 60.0
    """Seconds over which it is watched that a client takes its answer. One that does not is cut
    off, and its call of the upstream is ended."""
    send_buffer_bytes: AtLeastOne = 64 * 1024
    """Bytes of a stream that wait for a slow client; then the upstream is made to wait."""
    linger_s: Seconds = 5.0
    """Seconds for which the rest of a body is awaited that nobody reads, because the request was
    refused before it was there. The connection then ends. 0: it is not awaited."""
    linger_bytes: Annotated[int, Meta(ge=0)] = 1024 * 1024
    """Most bytes of such a rest that are read."""
    max_connections: AtLeastOne = 10_000
    """Connections of clients that one worker has at once. When there are as many, those that wait
    longest without a request are closed, and further ones wait."""
    max_connections_per_address: Annotated[int, Meta(ge=0)] = 1024
    """Of these, connections from one address (IPv6: from one /64 network); 0 for any number. This
    machine and `trusted_proxies` may have any number."""
    files_kept_back: Annotated[float, Meta(gt=0, lt=1), RESTART] = 0.5
    """Share of the files that the process may open which clients' connections never take: calls
    of upstreams and the store need them."""
    memory_limit_bytes: AtLeastOne = 512 * 1024 * 1024
    """Bytes of request bodies and answers that one worker holds at once. A request beyond them is
    answered 503. Bodies and answers of less than 64 KB, which are bounded by their number, are not
    counted."""
    failed_logins: Annotated[int, Meta(ge=0), RESTART] = 30
    """Requests with no key, or one that nobody has, that one address may send to one worker in a
    minute; further ones are answered 429, but for those whose key was valid meanwhile. 0 for any
    number. This machine may send any number."""
    trusted_proxies: tuple[NonEmpty, ...] = ()
    """Addresses or networks of proxies in front of this gateway, `unix` for one on a Unix socket.
    Only what they say in `X-Forwarded-For` counts: it tells whose the limits for an address and
    the address in the log are."""
    max_concurrent: AtLeastOne = 1000
    """Requests that one worker serves at once; further ones are answered 503."""
    keepalive_s: Seconds = 10.0
    """Seconds of silence after which a stream is given a sign of life that clients ignore; 0
    for none."""
    commit_after_s: Seconds = 30.0
    """Seconds to hold back the head of a streamed answer while the upstream has not begun.
    Until then another account can be tried and a failure has its true status; afterwards the
    client is sent signs of life, and a failure becomes an error inside the stream. 0 holds it
    back until the upstream begins, however long that takes."""
    shutdown_grace_s: Annotated[Seconds, RESTART] = 30.0
    """Seconds that requests in flight are given to finish when the gateway is told to stop."""
    stuck_after_s: Annotated[Seconds, RESTART] = 30.0
    """Seconds after which a worker that does nothing at all, not even give a sign of life, is
    replaced by another, if there are several; its stack is logged after half of them. 0 for
    never."""
    retry_headers: bool = False
    """Tell SDKs by `x-should-retry: false` not to repeat a request that failed on several
    accounts, so that attempts do not multiply."""
    require_key: bool = False
    """Serve nobody without a key, also while there is none: for gateways whose keys are all in the
    store. True allows a `host` that other machines reach without `[[clients]]`."""
    cors: bool = True
    """Answer preflight requests and allow any origin, so that pages in a browser can call. Without
    `[[clients]]` none is allowed: nobody but programs on this machine is served then."""
    envelope_key: Secret | None = None
    """Key that authenticates the envelopes in which clients carry another vendor's reasoning, so
    that nobody can write reasoning of their own into one. Workers and restarts must share it;
    absent: envelopes are not authenticated."""
    log_level: Annotated[LogLevel, RESTART] = "info"
    """Least severe messages that are logged. Keys and prompts are logged at no level."""
    log_format: Annotated[LogFormat, RESTART] = "auto"
    """Form of the log: `json`, a JSON object a line; `text`, for people; `auto`: `text` where
    standard error is a terminal, else `json`."""
    watch_config: bool = False
    """Reload when the configuration file changes, or a file that it names for a secret, the
    certificate or prices: also where it is a link that is led elsewhere, as Kubernetes does."""


class WebSocket(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Responses over WebSocket, at `/v1/responses`: see [WebSocket](websocket.md). A message may be
    as large as the body of a request."""

    enabled: bool = True
    """Serve it. False: clients are told to use POST (426)."""
    max_connections: AtLeastOne = 2000
    """Connections that one worker has at once, which count among those of `[server]`; further ones
    are answered 503."""
    max_connections_per_client: AtLeastOne = 500
    """Of these, connections with one key; further ones are answered 429."""
    max_age_s: Seconds = 3600.0
    """Seconds after which a connection ends, once its requests are answered; up to a tenth less, so
    that not all do at once. 0 for no limit."""
    idle_timeout_s: Seconds = 1800.0
    """Seconds without a request after which it ends; 0 for no limit. Clients keep theirs while
    their tools run."""
    ping_s: Annotated[float, Meta(gt=0)] = 25.0
    """Seconds between two pings. A client from which nothing came after three of them is cut off;
    proxies in front of the gateway end what is silent for longer."""
    memory_bytes: Annotated[int, Meta(ge=0)] = 32 * 1024 * 1024
    """Bytes of conversations that one connection remembers, so that clients send only what is new
    where nothing is stored. They count towards `server.memory_limit_bytes`."""


class Team(AccessRules, frozen=True, kw_only=True):
    """Rules that hold for all keys of a team. Teams can be kept in the store as well:
    `dragoman team`."""

    name: Name
    """Name that keys refer to."""


class Client(KeyRules, frozen=True, kw_only=True):
    """Someone who may call. None at all is allowed on a loopback address only. Keys can be kept in
    the store as well: `dragoman key`."""

    name: Name
    """Name for logs and metrics."""
    key: Secret | None = None
    """What the client sends as `Authorization: Bearer` or `x-api-key`, at least 8 characters."""
    keys: tuple[Secret, ...] = ()
    """Several such keys, for the time in which one takes the place of another."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All keys of the client."""
        return self.keys if self.key is None else (self.key, *self.keys)

    @property
    def rules(self) -> KeyRules:
        """What holds for the client, apart from its name and keys."""
        return KeyRules(**{name: getattr(self, name) for name in KeyRules.__struct_fields__})


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for one call of an upstream, in seconds; 0 for none."""

    connect_s: Seconds = 10.0
    """Until the connection stands, TLS included."""
    first_byte_s: Seconds = 600.0
    """From the request sent to the head of the answer; of a stream, to the first event that holds
    something of the answer. Bytes that hold nothing of it, such as pings, do not extend this."""
    idle_s: Seconds = 600.0
    """Between two reads of an answer. A ping of the upstream is a sign of life here; one that
    sends nothing else is bounded by `first_byte_s` and `total_s`."""
    websocket_idle_s: Seconds = 1800.0
    """Between two messages of an answer over WebSocket, as long as the upstream answers pings; one
    of which nothing is heard is bounded by `idle_s`."""
    total_s: Seconds = 3600.0
    """From start to end of the call."""
    blank_arguments_s: Seconds = 30.0
    """For which a tool's arguments may run on as nothing but white space, as those of some models
    do until their output limit."""

    @property
    def longest_silence_s(self) -> float:
        """Seconds within which a call of which nothing comes is over, infinity if it never is."""
        phases = (self.connect_s, self.first_byte_s, self.idle_s)
        return min(self.total_s or inf, sum(phases) if all(phases) else inf)


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How accounts that are out are tried again without waiting for a client's request."""

    model: NonEmpty
    """Upstream model that is asked for one short answer."""
    every_s: Annotated[float, Meta(ge=1)] = 300.0
    """Seconds between two probes of one account, on average: they are spread."""


class Pricing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What answers cost: the table of vendors' prices, and where a cost is told."""

    table: FileText | None = None
    """File of a table made by `dragoman prices update`, from the directory of the configuration
    file. Absent: the one that is shipped."""
    header: bool = False
    """Tell clients what a whole answer cost, by `x-dragoman-cost-usd`, and what is left of their
    tightest budget, by `x-dragoman-budget-remaining-usd`. A stream's head is sent before that is
    known."""


class Traces(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces of requests, sent to an OpenTelemetry collector. They need the extra `otel`
    (`pip install 'dragoman[otel]'`); where they are sent, and under which name, is told by
    OpenTelemetry's own variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_SERVICE_NAME`.
    Keys and texts of requests and answers are never in them."""

    enabled: bool = False
    """Whether requests are traced."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """Share of the requests that are traced in any case; `OTEL_TRACES_SAMPLER` and its `_ARG` win
    over it. Requests that failed, were refused, or were answered by a later attempt or a fallback
    are always traced, up to 100 a second in each worker."""
    slow_s: Seconds = 60.0
    """Seconds from which on a request is always traced because it took so long; 0 for never."""
    conventions: Conventions = "both"
    """Names of attributes: `main`, those of the conventions in development; `v1_41`, those of the
    last release, which most services read; `both`."""
    trusted_clients: tuple[Name, ...] = ()
    """Names of clients whose `traceparent` also decides whether a request is traced. That of
    others only tells which trace it belongs to."""
    tell_clients: bool = False
    """Answers to requests for generation name their trace in `x-trace-id`, whether it is sampled or
    not."""


Dollars = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?\Z",
        description='US dollars as a text such as "0.20", with at most six decimals',
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
    """A price of your own, which wins over the table. Of several whose `model` fits, the first
    counts, with the others of the same `model` and `upstream`."""

    model: NonEmpty
    """Model name as the upstream is asked for it, `*` allowed. `*` alone is the price of all that
    has no other, neither before it nor in the table."""
    upstream: Name | None = None
    """Name of the upstream that has this price; absent: all."""
    input: Dollars
    """US dollars for a million tokens of input, `"0.20"`. `"0"` says that it is free."""
    output: Dollars
    """The same for output."""
    cached: Dollars | None = None
    """The same for input read from a prompt cache; absent: as `input`."""
    cache_write: Dollars | None = None
    """The same for input written to one; absent: as `input`."""
    cache_write_1h: Dollars | None = None
    """The same for input written to one for an hour; absent: as `cache_write`."""
    reasoning: Dollars | None = None
    """The same for reasoning; absent: as `output`."""
    search: Dollars = "0"
    """US dollars for a thousand of the vendor's web searches."""
    tier: Literal["batch", "flex", "priority", "fast", "ultrafast"] | None = None
    """Service tier that has this price; absent: the usual one, and all without a price of their
    own."""
    above: Annotated[int, Meta(ge=0)] = 0
    """Tokens of a prompt above which this price holds, for all of its tokens."""
    since: date | None = None
    """Day (UTC) from whose beginning on this price holds, `2027-01-01`; absent: always. Of several
    that hold, that which began last counts."""
    hours: DayHours | None = None
    """Hours of the day (UTC) in which this price holds, over midnight where they end before they
    begin; absent: all day. Of several that began alike, that of hours counts."""


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that requests are sent to."""

    name: Name
    """Name that accounts and routes refer to, and the prefix of `name/model`."""
    protocol: ProtocolName
    """What the service speaks."""
    base_url: NonEmpty
    """Address of the service, with or without its `/v1`. A query (`?api-version=...`) is sent
    with every request."""
    auth: AuthStyle | None = None
    """Header that carries the account's key: `Authorization: Bearer`, `x-api-key`, or Azure's
    `api-key`. Absent: `x-api-key` for `anthropic_messages`, else `bearer`."""
    propagate_trace: bool = False
    """Tell the upstream of the trace that a request belongs to (`traceparent`), where requests are
    traced: for servers of your own, such as vLLM."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers added to every request. Values may be references, as keys may."""
    proxy: Secret | None = None
    """URL of an HTTP or SOCKS proxy for every call (`http://`, `https://`, `socks5://`,
    `socks5h://`). A reference is resolved, since such a URL may hold a password."""
    proxies: tuple[Secret, ...] = ()
    """URLs of proxies that calls take in turn, instead of `proxy`. One that fails rests for a
    while; the account it was used for is not blamed."""
    account_rules: AccountRules = "default"
    """What its errors mean for the account. `default`: a 429 is a passing limit and rests the
    account, quota errors take it out for a time, a refused key for good, and whatever another
    account may do better is tried there. `sop`: 429, 402 and 401 disable the account, 403 is told
    apart by its text, everything else goes back to the client, and a 503 tells that no account is
    left. `none`: only `rules` apply."""
    rules: tuple[Rule, ...] = ()
    """Rows of your own, tried in order before those of `account_rules`; the first that fits
    decides. `dragoman classify` tells which does; [accounts](accounts.md) tells more."""
    selection: Selection = "least_recently_used"
    """Which of the accounts that could serve a request does. Accounts of a lower `priority` come
    first whatever is chosen here."""
    attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    """Accounts tried for one request at most; none is tried twice."""
    attempts_within_s: Seconds = 1260.0
    """Seconds after which no further account is tried for a request; 0 for no limit. Where others
    are left, and there would be no time for them if a call took as long as `timeouts` allow, it is
    ended after half of the time that is left, unless an answer has begun. So this should be twice
    `timeouts.first_byte_s`."""
    silent_calls: Literal["wait", "move"] = "wait"
    """What is done about a call that was sent whole and says nothing for far longer than is usual
    here, which is learned. In either case its account is avoided until it answers as usual again.
    `wait`: the call goes on until `timeouts.first_byte_s`, since the service may be at work.
    `move`: it ends, and the next account is asked; the service may bill both."""
    queue_size: Annotated[int, Meta(ge=0)] = 100
    """Requests that may wait in each worker while every account that could serve them has as many
    in flight as it may."""
    queue_s: Seconds = 10.0
    """Seconds that such a request waits at most."""
    affinity: Literal["conversation", "off"] = "conversation"
    """Keep a conversation with the account that holds its prompt cache and its reasoning, while
    that account can serve it."""
    affinity_s: Seconds = 3600.0
    """Seconds after its last request for which a conversation's account is remembered."""
    reasoning_bound_to: Literal["account", "upstream"] | None = None
    """Whether encrypted reasoning is of use to the account only that made it (other accounts are
    other organisations); it is then left out, and reported, when another account takes over.
    Absent: `account` for `openai_responses`, else `upstream`."""
    stored_responses: Literal["rebuild", "pass"] = "rebuild"
    """Who keeps the responses that clients want stored: this gateway, which puts conversations
    together again for any account, or (`pass`) the service itself, whose conversations then stay
    with the account that began them. Only `openai_responses` can be left to it."""
    websocket: Literal["off", "auto", "on"] = "off"
    """Call the service over WebSocket connections that are kept for each account and conversation,
    and send only what is new where a connection holds the rest. For streamed requests below 15 MiB
    to `openai_responses`; others are posted, as is one whose handshake is refused. `auto` remembers
    such a host for five minutes, or an hour if it does not know WebSocket; `on` asks it each time.
    Not through a proxy that forwards plain `http://`."""
    probe: Probe | None = None
    """Probes of accounts that are out; absent: they are tried with a client's request once their
    time has come."""
    models: tuple[NonEmpty, ...] | None = None
    """Models listed for this upstream by `/v1/models`; absent: those it lists itself."""
    prices: NonEmpty | None = None
    """Whose price list applies, by its name in the table of prices, such as `openai`; `none`: no
    list. Absent: that of the vendor whose address `base_url` is; a service that nobody knows has
    none. `dragoman prices show` lists them."""
    billing: Literal["tokens", "subscription"] = "tokens"
    """How its accounts are paid. By `subscription`, what answers would have cost is marked as such,
    and counts nothing at limits with `subscriptions = "ignore"`."""
    timeouts: Timeouts = Timeouts()
    """Limits for one call."""
    capabilities: Capabilities = Capabilities()
    """What the service accepts and needs."""
    reasoning_with_tools_via: Name | None = None
    """Name of the upstream that is used instead for requests that have tools and ask the model to
    think: the same vendor's Responses upstream, where its Chat one refuses both together."""

    @property
    def codec(self) -> Codec:
        """What the service speaks."""
        return CODECS[self.protocol]

    @property
    def binds_reasoning(self) -> bool:
        """Whether only the account that made encrypted reasoning can use it."""
        if self.reasoning_bound_to is not None:
            return self.reasoning_bound_to == "account"
        return self.codec.endpoint.binds_reasoning

    @property
    def auth_style(self) -> str:
        """The header that carries the account's key, the protocol's own where none is set."""
        if self.auth is not None:
            return self.auth
        return self.codec.endpoint.auth


class Account(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to an upstream. An upstream may have many, and requests are spread over them."""

    name: Name
    """Name for logs, metrics and errors."""
    upstream: Name
    """Name of the upstream."""
    key: Secret | None = None
    """The upstream's key; absent: requests carry none, as a server of your own may want it."""
    models: tuple[NonEmpty, ...] | None = None
    """Upstream models that this account is used for, `*` allowed in each; absent: all."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers added to requests of this account, over those of the upstream."""
    proxy: Secret | None = None
    """URL of the proxy for this account's calls, over those of the upstream."""
    priority: int = 0
    """Accounts of a lower number are used as long as one of them can be."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """Share of the requests that this account gets with `selection = "weighted"`."""
    max_concurrent: AtLeastOne | None = None
    """Requests that this account serves at once, over all workers; absent: any number."""
    balance: float | None = None
    """Tokens that are left to this account, for `selection = "highest_balance"`: what its answers
    used is subtracted."""


class Fallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a request goes when the accounts of its route's upstream cannot answer it."""

    upstream: Name
    """Name of the upstream."""
    model: NonEmpty | None = None
    """Model name for that upstream; absent: the one of the route."""


class Route(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a model name leads. The first route that matches wins."""

    match: NonEmpty
    """Model name that the client sends; `*` stands for any text, also none."""
    upstream: Name
    """Name of the upstream."""
    model: NonEmpty | None = None
    """Model name for the upstream; absent: the one the client sent. Answers always name the
    one the client sent."""
    fallbacks: tuple[Fallback, ...] = ()
    """Tried in order when no account of the upstream could answer, and the client was shown
    nothing of an answer."""
    policy: Policy | None = None
    """Which losses refuse a request; short for `options.policy`."""
    dialect: Dialect = "official"
    """Contract that the route's clients were written against: a named set of options, over which
    those set under `options` win. `official` is what the vendors' services do."""
    options: Options = Options()
    """How requests and answers are translated. Keys that are absent are taken from the
    top-level `[options]`."""
    capabilities: Capabilities | None = None
    """What the models of this route accept and need, where they differ from their upstream's
    others. Keys that are absent are taken from the upstream's `capabilities`."""


class Models(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names that clients use out of habit, and the list of models.

    A name that no route matches as it was sent is looked up in `aliases`, `legacy` and
    `prefixes`, in this order, and the routes are tried again with what was found. A name
    `upstream/model` that no route matches leads to that upstream. A provider prefix that leads
    nowhere is taken off, and the routes are tried without it.
    """

    builtin: bool = True
    """Know the names below that this gateway ships; yours win over them."""
    aliases: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(ALIASES))
    """Short names and what each stands for. These, too, are listed by `/v1/models`."""
    legacy: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(LEGACY))
    """Names of retired models and what took their place."""
    prefixes: dict[NonEmpty, NonEmpty] = field(default_factory=lambda: dict(PREFIXES))
    """Patterns of names and the provider prefix that such names lack."""
    list_cache_s: Seconds = 300.0
    """Seconds for which an upstream's list of models is kept."""


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where accounts, their states and history, usage and stored responses are kept."""

    path: str | None = None
    """SQLite file, from the directory of the configuration file. It is the store also where there
    is a `url`. `""`: there is no file; without `url` nothing is kept, and workers do not share what
    they know. Absent: `dragoman.db`, or no file where there is a `url`."""
    url: Secret | None = None
    """PostgreSQL database, commonly `env:DATABASE_URL`: the store of instances on any number of
    machines, unless `path` names a file ([running it](operations.md#several-machines)). Either way
    they hold limits together in it ([limits](limits.md#several-machines)). Absent: each counts for
    itself."""
    key: Secret | None = None
    """Key that encrypts the secrets of accounts in the store, at least 16 characters, commonly
    `env:DRAGOMAN_STORE_KEY`. Needed for accounts that are kept there."""
    previous_key: Secret | None = None
    """Key that was used before `key`. What it encrypted is encrypted with `key` when the gateway
    starts, after which this one can go."""
    sync_s: Annotated[float, Meta(ge=0.02, le=0.5)] = 0.2
    """Seconds between two exchanges with the store: how late a worker learns what another
    decided, and how much usage is lost if it is killed."""
    history_days: Annotated[float, Meta(gt=0)] = 30.0
    """Days for which the history of accounts is kept."""
    usage_days: Annotated[float, Meta(ge=32)] = 400.0
    """Days for which usage is kept, at least 32, since limits of a month are held by it. What is
    older is added up for each key, team, upstream and model."""
    usage_hours_days: Annotated[float, Meta(ge=32)] = 60.0
    """Days for which usage is kept by the hour, at least 32, so that it is told exactly for any
    month; what is older is added up by the day (UTC)."""
    audit_days: Annotated[float, Meta(gt=0)] = 400.0
    """Days for which it is kept who changed what, at most the last 100,000 changes."""
    responses: bool = True
    """Keep responses that Responses clients want stored, so that they can be gone on from. False:
    none is, and clients are told so."""
    responses_days: Annotated[float, Meta(gt=0)] = 30.0
    """Days for which a response is kept."""
    background_again: bool = True
    """Responses in the background whose worker was killed, or stopped before they were done, are
    made again from the beginning by another, once. What an upstream made of them until then may be
    charged twice. False: they fail."""
    responses_bytes: AtLeastOne = 1024 * 1024 * 1024
    """Room for all responses, in bytes; the oldest make room for new ones."""
    response_bytes: AtLeastOne = 64 * 1024 * 1024
    """Largest response that is kept, in bytes, with the input of its turn."""

    @property
    def place(self) -> str | None:
        """What the store is called where an operator reads of it; None if nothing is kept."""
        return self.path or (None if self.url is None else "PostgreSQL")


class UsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom usage is counted for, besides the key: see [administration](administration.md#usage)."""

    user_headers: tuple[HeaderName, ...] = ()
    """Headers in which clients name their end user; the first that is there counts. They win over
    `safety_identifier`, `user` and `metadata.user_id` of the body."""
    tag_headers: tuple[HeaderName, ...] = ("x-dragoman-tags",)
    """Headers with tags of a request, with commas between them, beside `metadata.tags` of the
    body. At most 8 tags of 64 characters count."""


class Admin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The administration of a running gateway over HTTP, below `/admin`."""

    key: Secret | None = None
    """Key for `/admin` and `/metrics`, at least 16 characters and no client's key. It may do
    everything, under the name `admin`. Absent: there is no `/admin` unless it is `enabled`, and
    `/metrics` answers only who asks from the machine itself."""
    enabled: bool = False
    """Serve `/admin` without a `key` here too, for the named keys of the store: `dragoman
    admin`."""

    @property
    def is_served(self) -> bool:
        """Whether there is an `/admin`."""
        return self.key is not None or self.enabled


class RequestLogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log of requests behind `/admin/requests`: who asked for what, what became of it, and
    nothing of what was said. It is kept where there is an `[admin]` from the start, in files of its
    own on this machine, beside `storage.path`; without a store, until the gateway ends."""

    enabled: bool = True
    """Keep it."""
    days: Annotated[float, Meta(gt=0)] = 7.0
    """Days for which requests are kept; they go an eighth of that time at once."""
    most_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 256 * 1024 * 1024
    """Bytes that all of it may take; beyond them the oldest eighth goes. A request takes one
    to three kilobytes."""
    body_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 64 * 1024
    """Bytes that are kept of each of the four bodies of a request, for keys with `keep_bodies`."""
    body_days: Annotated[float, Meta(gt=0)] = 1.0
    """Days for which they are kept."""
    most_body_bytes: Annotated[int, Meta(ge=1024 * 1024)] = 256 * 1024 * 1024
    """Bytes that all kept bodies may take; beyond them the oldest eighth goes."""


class Webhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told when quotas run low and accounts fall out: see [operations](operations.md)."""

    url: Secret | None = None
    """Where each alert is sent, as a POST with a JSON object. Absent: nobody is told. A reference
    is resolved, since such a URL may hold a token."""
    secret: Secret | None = None
    """Key with which alerts are signed: `x-dragoman-signature: t=TIME,v1=HEX`, the HMAC-SHA256 of
    `TIME.BODY`."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Headers of each alert, such as `authorization`. Values may be references."""
    thresholds: tuple[Annotated[float, Meta(gt=0, le=1)], ...] = (0.8, 0.95, 1.0)
    """Shares of a quota window at which there is an alert, once for each window. Windows shorter
    than an hour have none."""
    pool_left: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    """Share of an upstream's accounts that can still be used, at or below which there is an alert;
    the last usable account of several has one too, and so has the loss of all."""
    keep_s: Seconds = 86_400.0
    """Seconds for which an alert is sent again until it is accepted with a 2xx, at intervals that
    grow to a minute."""
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    """Seconds that each of them may take."""
    queue_size: AtLeastOne = 1000
    """Alerts that wait in each worker; further ones are dropped, and counted."""


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
    usage: UsageSettings = UsageSettings()
    admin: Admin = Admin()
    request_log: Annotated[RequestLogSettings, RESTART] = RequestLogSettings()
    webhook: Annotated[Webhook, RESTART] = Webhook()
    pricing: Pricing = Pricing()
    traces: Annotated[Traces, RESTART] = Traces()
    prices: tuple[OwnPrice, ...] = ()

    def upstream(self, name: str) -> Upstream:
        """The upstream of that name.

        Raises:
            KeyError: there is none.
        """
        for upstream in self.upstreams:
            if upstream.name == name:
                return upstream
        raise KeyError(name)

"""What a worker counts, and how the counts of several become one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from msgspec import Struct, field

LATENCIES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of whole requests, in seconds."""

FIRST_BYTES = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of the time to the head of the answer, in seconds."""

FIRST_TOKENS = (*FIRST_BYTES, 120.0, 300.0)
"""Upper bounds of the buckets of the time to the head of a stream, in seconds."""

PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
"""Upper bounds of the buckets of the time for each token of a stream, in seconds: as the
conventions of OpenTelemetry for `gen_ai.server.time_per_output_token`, and shorter ones."""

STORE_WRITES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the buckets of the time that a store takes to write, in seconds."""

OVERHEADS = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25)
"""Upper bounds of the buckets of the time until a request is sent on, in seconds."""

TOKENS = ("input", "cached", "cache_write", "output", "reasoning")
"""Kinds of tokens, as in `dragoman.canonical.usage`: `input` includes `cached` and `cache_write`,
`output` includes `reasoning`."""

OTHER = "(other)"


class Exemplar(Struct, array_like=True, frozen=True):
    """One value of a bucket, the id of the trace of its request, and when it was (Unix seconds)."""

    value: float
    trace_id: int
    at: float


class Histogram(Struct, array_like=True):
    """How many values fell into each bucket, those beyond the last included, their sum, and the
    latest value of each bucket whose request is traced."""

    buckets: list[int]
    total: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)

    def observe(
        self, bounds: tuple[float, ...], values: list[float], trace_id: int = 0, at: float = 0.0
    ) -> None:
        """Count values, which are sorted for that. `trace_id` is that of their request, which ended
        `at` (Unix seconds), 0 if it is not traced."""
        count_in(self.buckets, bounds, values)
        self.total += sum(values)
        if trace_id:
            for value in values:
                self.exemplars[bisect_left(bounds, value)] = Exemplar(value, trace_id, at)

    def add(self, other: Histogram) -> None:
        """Add the counts of `other`."""
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total
        for bucket, exemplar in other.exemplars.items():
            mine = self.exemplars.get(bucket)
            if mine is None or mine.at < exemplar.at:
                self.exemplars[bucket] = exemplar


class Series(Struct, array_like=True):
    """Counts of the requests on one route, answered with one class of status, for one upstream."""

    requests: int = 0
    latency: Histogram = field(default_factory=lambda: Histogram([0] * (len(LATENCIES) + 1)))
    first_byte: Histogram = field(default_factory=lambda: Histogram([0] * (len(FIRST_BYTES) + 1)))

    def add(self, other: Series) -> None:
        """Add the counts of `other`."""
        self.requests += other.requests
        self.latency.add(other.latency)
        self.first_byte.add(other.first_byte)


class Outcomes(Struct, array_like=True):
    """What the time series of one upstream are made of: requests by their outcome, the buckets of
    how long they took and of when answers began to say something (both as `LATENCIES`), tokens as
    `TOKENS`, pico-dollars, and requests without a price."""

    requests: list[int] = field(default_factory=lambda: [0] * 5)
    duration: list[int] = field(default_factory=lambda: [0] * (len(LATENCIES) + 1))
    first: list[int] = field(default_factory=lambda: [0] * (len(LATENCIES) + 1))
    tokens: list[int] = field(default_factory=lambda: [0] * len(TOKENS))
    cost: int = 0
    unpriced: int = 0

    def add(self, other: Outcomes) -> None:
        """Add the counts of `other`."""
        for mine, its in (
            (self.requests, other.requests),
            (self.duration, other.duration),
            (self.first, other.first),
            (self.tokens, other.tokens),
        ):
            mine[:] = [one + another for one, another in zip(mine, its, strict=True)]
        self.cost += other.cost
        self.unpriced += other.unpriced


class ModelCounts(Struct, array_like=True):
    """Counts of the requests for one model of an upstream. `cost` is in pico-dollars; `unpriced`
    are answers whose price is not known, `tokens` by kind as in `TOKENS`."""

    requests: int = 0
    errors: int = 0
    unpriced: int = 0
    cost: int = 0
    tokens: list[int] = field(default_factory=lambda: [0] * len(TOKENS))
    first_token: Histogram = field(default_factory=lambda: Histogram([0] * (len(FIRST_TOKENS) + 1)))
    per_token: Histogram = field(default_factory=lambda: Histogram([0] * (len(PER_TOKEN) + 1)))
    upstream: Histogram = field(default_factory=lambda: Histogram([0] * (len(LATENCIES) + 1)))

    def add(self, other: ModelCounts) -> None:
        """Add the counts of `other`."""
        self.requests += other.requests
        self.errors += other.errors
        self.unpriced += other.unpriced
        self.cost += other.cost
        self.tokens = _sums(self.tokens, other.tokens)
        self.first_token.add(other.first_token)
        self.per_token.add(other.per_token)
        self.upstream.add(other.upstream)


class KeyCounts(Struct, array_like=True):
    """Counts of the requests of one client key. `cost` is in pico-dollars."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: int = 0

    def add(self, other: KeyCounts) -> None:
        """Add the counts of `other`."""
        self.requests += other.requests
        self.input += other.input
        self.output += other.output
        self.cost += other.cost


class Tally(Struct):
    """Requests that have ended alike, and are not yet in the counts: their seconds, which go into
    histograms, and what they used together. `at` is when the first of them ended."""

    at: float
    latency: list[float] = []
    first_byte: list[float] = []
    overhead: list[float] = []
    upstream: list[float] = []
    first_token: list[float] = []
    per_token: list[float] = []
    first_content: list[float] = []
    unpriced: int = 0
    cost: int = 0
    tokens: list[int] = field(default_factory=lambda: [0] * len(TOKENS))


class Counts(Struct):
    """All that one worker, or several together, counted.

    `series` is by route, class of status and upstream, `errors` by upstream, fault and kind, joined
    by a blank, which none of them holds. `accounts` are attempts and retries caused by upstream and
    account, `failures` the attempts that failed by upstream, account and kind. `models` is by
    upstream and model, `keys` by the name of the key. `fallbacks` are by the upstream that was left
    and the kind of its failure, `credentials` are refreshes by upstream, account and outcome,
    `aborts` streams that broke off by upstream and side, `classes` requests by what agents made
    them for. `limits` are the requests that limits of clients refused, by limit and mode: those
    that were not enforced would have. `store_writes` are by what is written. `cpu` is in seconds.
    `gauges` are what holds now rather than since the start, `started` when the oldest process
    began, in Unix seconds, 0 if that is not known.
    """

    series: dict[str, Series] = field(default_factory=dict)
    outcomes: dict[str, Outcomes] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    accounts: dict[str, list[int]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    models: dict[str, ModelCounts] = field(default_factory=dict)
    keys: dict[str, KeyCounts] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)
    aborts: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    overhead: Histogram = field(default_factory=lambda: Histogram([0] * (len(OVERHEADS) + 1)))
    losses: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    credentials: dict[str, int] = field(default_factory=dict)
    alerts: dict[str, int] = field(default_factory=dict)
    refused_tokens: dict[str, int] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    agent_telemetry: dict[str, int] = field(default_factory=dict)
    traces: dict[str, int] = field(default_factory=dict)
    logged: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    store_writes: dict[str, Histogram] = field(default_factory=dict)
    store_failures: int = 0
    worker_restarts: int = 0
    cpu: float = 0.0
    started: float = 0.0
    gauges: dict[str, float] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Add the counts of `other`."""
        for key, series in other.series.items():
            self.series.setdefault(key, Series()).add(series)
        for upstream, outcomes in other.outcomes.items():
            self.outcomes.setdefault(upstream, Outcomes()).add(outcomes)
        for key, model in other.models.items():
            self.models.setdefault(key, ModelCounts()).add(model)
        for key, sums in other.keys.items():
            self.keys.setdefault(key, KeyCounts()).add(sums)
        for signal, took in other.store_writes.items():
            self.store_writes.setdefault(signal, store_writes()).add(took)
        self.overhead.add(other.overhead)
        for mine, its in (
            (self.errors, other.errors),
            (self.failures, other.failures),
            (self.fallbacks, other.fallbacks),
            (self.aborts, other.aborts),
            (self.classes, other.classes),
            (self.losses, other.losses),
            (self.probes, other.probes),
            (self.credentials, other.credentials),
            (self.alerts, other.alerts),
            (self.refused_tokens, other.refused_tokens),
            (self.checked, other.checked),
            (self.agent_telemetry, other.agent_telemetry),
            (self.traces, other.traces),
            (self.logged, other.logged),
            (self.limits, other.limits),
        ):
            for name, count in its.items():
                one_more(mine, name, count)
        for name, attempts in other.accounts.items():
            self.accounts[name] = _sums(self.accounts.get(name, [0, 0]), attempts)
        self.store_failures += other.store_failures
        self.cpu += other.cpu
        self.started = min(self.started or other.started, other.started or self.started)
        for name, value in other.gauges.items():
            self.gauges[name] = self.gauges.get(name, 0) + value


def count_in(buckets: list[int], bounds: tuple[float, ...], values: list[float]) -> None:
    """Count values in the buckets with these upper bounds, and sort them."""
    values.sort()
    first = 0
    while first < len(values):
        bucket = bisect_left(bounds, values[first])
        end = bisect_right(values, bounds[bucket]) if bucket < len(bounds) else len(values)
        buckets[bucket] += end - first
        first = end


def store_writes() -> Histogram:
    """How long a store took, before it was asked for anything."""
    return Histogram([0] * (len(STORE_WRITES) + 1))


def one_more(counts: dict[str, int], name: str, more: int = 1) -> None:
    """Count one, or several, more of `name`."""
    counts[name] = counts.get(name, 0) + more


def _sums(mine: list[int], its: list[int]) -> list[int]:
    return [one + other for one, other in zip(mine, its, strict=True)]

"""The table of metrics: what each is called, what it means, and where its samples come from.

Documentation, dashboards and alert rules are made of this table and checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from dragoman.observability.metrics.counts import (
    FIRST_BYTES,
    FIRST_TOKENS,
    LATENCIES,
    OVERHEADS,
    PER_TOKEN,
    STORE_WRITES,
    TOKENS,
    Counts,
    Histogram,
    KeyCounts,
    ModelCounts,
    Series,
)
from dragoman.prices.rates import PICO


class QuotaSample(Struct, frozen=True):
    """One window of an account's quota, as in `dragoman.accounts.decide.quota.QuotaWindow`."""

    upstream: str
    account: str
    window: str
    model: str
    used: float
    resets_at: float | None


class BudgetSample(Struct, frozen=True):
    """What is left of a budget, as a share of it. `scope` is `key` or `team`, `id` whose it is,
    `window` its length; it begins anew at `resets_at`, Unix seconds, None for never."""

    scope: str
    id: str
    window: str
    remaining: float
    resets_at: float | None


class Snapshot(Struct, frozen=True):
    """The content of a scrape. `accounts` counts accounts by upstream and state, `quotas` has the
    windows of accounts' quotas whose use is known, `budgets` the limits of cost, `credentials` when
    those of accounts end, by upstream and account."""

    counts: Counts
    accounts: Mapping[tuple[str, str], int]
    version: str
    quotas: Sequence[QuotaSample] = ()
    budgets: Sequence[BudgetSample] = ()
    credentials: Mapping[tuple[str, str], float] = {}


Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]
Histograms = Iterable[tuple[Labels, Histogram]]


class Family(Struct, frozen=True):
    """Samples of one name: a number for each combination of labels."""

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    labels: Labels
    samples: Callable[[Snapshot], Samples]


class HistogramFamily(Struct, frozen=True):
    """Histograms of one name. `bounds` are the upper bounds of the buckets."""

    name: str
    text: str
    labels: Labels
    bounds: tuple[float, ...]
    samples: Callable[[Snapshot], Histograms]

    @property
    def kind(self) -> Literal["histogram"]:
        """What Prometheus calls it."""
        return "histogram"


def _split(counts: Mapping[str, int], labels: int = 2) -> Samples:
    """Counts by names that blanks join, of which the last may hold blanks itself."""
    return ((tuple(key.split(" ", labels - 1)), number) for key, number in sorted(counts.items()))


def _series(now: Snapshot) -> Iterator[tuple[Labels, Series]]:
    return ((tuple(key.split(" ")), found) for key, found in sorted(now.counts.series.items()))


def _by_route(part: Callable[[Series], Histogram]) -> Callable[[Snapshot], Histograms]:
    def samples(now: Snapshot) -> Histograms:
        sums: dict[Labels, Series] = {}
        for (route, _, upstream), found in _series(now):
            sums.setdefault((route, upstream), Series()).add(found)
        return ((labels, part(found)) for labels, found in sums.items())

    return samples


def _tokens(now: Snapshot) -> Samples:
    sums: dict[str, ModelCounts] = {}
    for (upstream, _), found in _models(now):
        sums.setdefault(upstream, ModelCounts()).add(found)
    for name, found in sums.items():
        for kind, number in zip(TOKENS, found.tokens, strict=True):
            yield (name, kind), number


def _tried(part: int) -> Callable[[Snapshot], Samples]:
    def samples(now: Snapshot) -> Samples:
        sums: dict[Labels, int] = {}
        for key, counts in now.counts.accounts.items():
            name = (key.split(" ")[0],)
            sums[name] = sums.get(name, 0) + counts[part]
        return sums.items()

    return samples


def _by_account(part: int) -> Callable[[Snapshot], Samples]:
    return lambda now: (
        (tuple(key.split(" ")), counts[part]) for key, counts in sorted(now.counts.accounts.items())
    )


def _account_errors(now: Snapshot) -> Samples:
    return ((tuple(key.split(" ")), number) for key, number in sorted(now.counts.failures.items()))


def _models(now: Snapshot) -> Iterator[tuple[Labels, ModelCounts]]:
    return ((tuple(key.split(" ")), found) for key, found in sorted(now.counts.models.items()))


def _by_model(part: Callable[[ModelCounts], float]) -> Callable[[Snapshot], Samples]:
    return lambda now: ((labels, part(found)) for labels, found in _models(now))


def _of_models(part: Callable[[ModelCounts], Histogram]) -> Callable[[Snapshot], Histograms]:
    return lambda now: (
        (labels, part(found)) for labels, found in _models(now) if any(part(found).buckets)
    )


def _model_tokens(now: Snapshot) -> Samples:
    for labels, found in _models(now):
        for kind, number in zip(TOKENS, found.tokens, strict=True):
            yield (*labels, kind), number


def _by_key(part: Callable[[KeyCounts], float]) -> Callable[[Snapshot], Samples]:
    return lambda now: (((name,), part(found)) for name, found in sorted(now.counts.keys.items()))


def _key_tokens(now: Snapshot) -> Samples:
    for name, found in sorted(now.counts.keys.items()):
        yield (name, "input"), found.input
        yield (name, "output"), found.output


def _one(part: Callable[[Snapshot], float]) -> Callable[[Snapshot], Samples]:
    return lambda now: (((), part(now)),)


def _gauge(name: str) -> Callable[[Snapshot], Samples]:
    return _one(lambda now: now.counts.gauges.get(name, 0))


def _known_gauge(name: str) -> Callable[[Snapshot], Samples]:
    """A gauge that is left out where it is not known."""
    return lambda now: (((), value) for key, value in now.counts.gauges.items() if key == name)


def _quotas(part: Callable[[QuotaSample], float | None]) -> Callable[[Snapshot], Samples]:
    def samples(now: Snapshot) -> Samples:
        for one in now.quotas:
            value = part(one)
            if value is not None:
                yield (one.upstream, one.account, one.window, one.model), value

    return samples


def _budgets(part: Callable[[BudgetSample], float | None]) -> Callable[[Snapshot], Samples]:
    def samples(now: Snapshot) -> Samples:
        for one in now.budgets:
            value = part(one)
            if value is not None:
                yield (one.scope, one.id, one.window), value

    return samples


def _queues(now: Snapshot) -> Samples:
    return (
        ((name.removeprefix(QUEUE),), value)
        for name, value in sorted(now.counts.gauges.items())
        if name.startswith(QUEUE)
    )


QUEUE = "store_queue "
"""Prefix of the names of gauges of queues to be written, before the name of the queue."""

_ACCOUNT = ("upstream", "account")
_MODEL = ("upstream", "model")
_WINDOW = (*_ACCOUNT, "window", "model")
_BUDGET = ("scope", "id", "window")
_LOGGED = ("dropped", "failed", "repeated", "written")
"""The outcomes of rows for the request log."""

FAMILIES: tuple[Family | HistogramFamily, ...] = (
    Family(
        "dragoman_build_info",
        "gauge",
        "Version of the running gateway.",
        ("version",),
        lambda now: (((now.version,), 1),),
    ),
    Family(
        "dragoman_requests_total",
        "counter",
        "Requests answered, by route, class of status and upstream (empty: none was reached).",
        ("route", "status", "upstream"),
        lambda now: ((labels, found.requests) for labels, found in _series(now)),
    ),
    Family(
        "dragoman_errors_total",
        "counter",
        "Failed requests, by upstream, whose fault it was (caller; gateway, or its accounts;"
        " upstream) and kind of error.",
        ("upstream", "fault", "kind"),
        lambda now: _split(now.counts.errors, 3),
    ),
    Family(
        "dragoman_stream_aborts_total",
        "counter",
        "Aborted streams, by upstream and side that ended them: client or upstream.",
        ("upstream", "side"),
        lambda now: _split(now.counts.aborts),
    ),
    HistogramFamily(
        "dragoman_request_duration_seconds",
        "Time from the head of a request to the end of its answer.",
        ("route", "upstream"),
        LATENCIES,
        _by_route(lambda found: found.latency),
    ),
    HistogramFamily(
        "dragoman_first_byte_seconds",
        "Time from the head of a request to the head of its answer.",
        ("route", "upstream"),
        FIRST_BYTES,
        _by_route(lambda found: found.first_byte),
    ),
    HistogramFamily(
        "dragoman_overhead_seconds",
        "Time from the head of a request until it was forwarded, if it was forwarded once.",
        (),
        OVERHEADS,
        lambda now: (((), now.counts.overhead),),
    ),
    Family(
        "dragoman_model_requests_total",
        "counter",
        "Requests forwarded to an upstream, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.requests),
    ),
    Family(
        "dragoman_model_errors_total",
        "counter",
        "Forwarded requests that failed, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.errors),
    ),
    HistogramFamily(
        "dragoman_time_to_first_token_seconds",
        "Time from the head of a request to the first event of its stream.",
        _MODEL,
        FIRST_TOKENS,
        _of_models(lambda found: found.first_token),
    ),
    HistogramFamily(
        "dragoman_time_per_output_token_seconds",
        "Time of a stream after its first event, divided by its further output tokens.",
        _MODEL,
        PER_TOKEN,
        _of_models(lambda found: found.per_token),
    ),
    HistogramFamily(
        "dragoman_upstream_duration_seconds",
        "Time from the successful attempt's call to the end of its answer.",
        _MODEL,
        LATENCIES,
        _of_models(lambda found: found.upstream),
    ),
    Family(
        "dragoman_tokens_total",
        "counter",
        "Tokens by kind and upstream; input includes cached and cache_write, output reasoning.",
        ("upstream", "kind"),
        _tokens,
    ),
    Family(
        "dragoman_model_tokens_total",
        "counter",
        "Tokens by kind, upstream and model, as dragoman_tokens_total.",
        (*_MODEL, "kind"),
        _model_tokens,
    ),
    Family(
        "dragoman_cost_usd_total",
        "counter",
        "Cost of answers in US dollars, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.cost / PICO),
    ),
    Family(
        "dragoman_unpriced_requests_total",
        "counter",
        "Answers without a known price, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.unpriced),
    ),
    Family(
        "dragoman_key_requests_total",
        "counter",
        "Requests forwarded to an upstream, by the name of the client key.",
        ("key",),
        _by_key(lambda found: found.requests),
    ),
    Family(
        "dragoman_key_tokens_total",
        "counter",
        "Tokens by the name of the client key, and kind: input and output.",
        ("key", "kind"),
        _key_tokens,
    ),
    Family(
        "dragoman_key_cost_usd_total",
        "counter",
        "Cost of answers in US dollars, by the name of the client key.",
        ("key",),
        _by_key(lambda found: found.cost / PICO),
    ),
    Family(
        "dragoman_agent_requests_total",
        "counter",
        "Requests by what an agent makes them for, of agents that say so.",
        ("class",),
        lambda now: _split(now.counts.classes),
    ),
    Family(
        "dragoman_limit_refusals_total",
        "counter",
        "Requests that a client's limit rejected, or would have, by limit and mode.",
        ("limit", "mode"),
        lambda now: _split(now.counts.limits),
    ),
    Family(
        "dragoman_budget_remaining_ratio",
        "gauge",
        "Remaining share of a cost limit; the smallest for each window.",
        _BUDGET,
        _budgets(lambda sample: sample.remaining),
    ),
    Family(
        "dragoman_budget_reset_timestamp_seconds",
        "gauge",
        "Time at which no present usage of a cost limit counts any more, in Unix seconds.",
        _BUDGET,
        _budgets(lambda sample: sample.resets_at),
    ),
    Family(
        "dragoman_limit_reserved_usd",
        "gauge",
        "US dollars reserved by requests under way, summed over their limits.",
        (),
        _gauge("limit_reserved_usd"),
    ),
    Family(
        "dragoman_attempts_total",
        "counter",
        "Attempts, by upstream.",
        ("upstream",),
        _tried(0),
    ),
    Family(
        "dragoman_retries_total",
        "counter",
        "Attempts anywhere caused by a failure of an upstream's account.",
        ("upstream",),
        _tried(1),
    ),
    Family(
        "dragoman_fallbacks_total",
        "counter",
        "Attempts with another upstream, by the upstream that failed and kind or cause.",
        ("upstream", "kind"),
        lambda now: _split(now.counts.fallbacks),
    ),
    Family(
        "dragoman_account_attempts_total",
        "counter",
        "Attempts with an account, by upstream and account.",
        _ACCOUNT,
        _by_account(0),
    ),
    Family(
        "dragoman_account_retries_total",
        "counter",
        "Attempts with another account caused by a failure of this one.",
        _ACCOUNT,
        _by_account(1),
    ),
    Family(
        "dragoman_account_errors_total",
        "counter",
        "Failed attempts, by upstream, account and kind or cause.",
        (*_ACCOUNT, "kind"),
        _account_errors,
    ),
    Family(
        "dragoman_accounts",
        "gauge",
        "Accounts by upstream and state.",
        ("upstream", "state"),
        lambda now: sorted(now.accounts.items()),
    ),
    Family(
        "dragoman_account_quota_used_ratio",
        "gauge",
        "Used share of an account's quota window, as reported by its upstream.",
        _WINDOW,
        _quotas(lambda sample: sample.used),
    ),
    Family(
        "dragoman_account_quota_reset_timestamp_seconds",
        "gauge",
        "Time at which an account's quota window resets, in Unix seconds.",
        _WINDOW,
        _quotas(lambda sample: sample.resets_at),
    ),
    Family(
        "dragoman_credential_expires_timestamp_seconds",
        "gauge",
        "Time at which the credential of an account expires, in Unix seconds.",
        _ACCOUNT,
        lambda now: sorted(now.credentials.items()),
    ),
    Family(
        "dragoman_credential_refreshes_total",
        "counter",
        "Refreshes of credentials by account and outcome: ok, or why there was none.",
        (*_ACCOUNT, "outcome"),
        lambda now: (
            (tuple(key.split(" ")), number)
            for key, number in sorted(now.counts.credentials.items())
        ),
    ),
    Family(
        "dragoman_losses_total",
        "counter",
        "Losses of translations, by kind.",
        ("kind",),
        lambda now: (((kind,), number) for kind, number in sorted(now.counts.losses.items())),
    ),
    Family(
        "dragoman_probes_total",
        "counter",
        "Probes of unavailable accounts, by upstream and result.",
        ("upstream", "result"),
        lambda now: _split(now.counts.probes),
    ),
    Family(
        "dragoman_webhook_alerts_total",
        "counter",
        "Webhook alerts: sent, failed after all retries, or dropped (queue full, or stopping).",
        ("result",),
        lambda now: (((result,), number) for result, number in sorted(now.counts.alerts.items())),
    ),
    Family(
        "dragoman_refused_tokens_total",
        "counter",
        "Tokens of the issuers of `[[jwt_issuers]]` that were refused, by the reason.",
        ("reason",),
        lambda now: (
            ((reason,), number) for reason, number in sorted(now.counts.refused_tokens.items())
        ),
    ),
    Family(
        "dragoman_request_checks_total",
        "counter",
        "Requests that `[request_check]` was asked about: passed, changed, blocked, or failed.",
        ("result",),
        lambda now: (((result,), number) for result, number in sorted(now.counts.checked.items())),
    ),
    Family(
        "dragoman_agent_telemetry_total",
        "counter",
        "Exports of agents for the collector of `[telemetry]`: sent, failed, or dropped because "
        "too much waited.",
        ("result",),
        lambda now: (
            ((result,), number) for result, number in sorted(now.counts.agent_telemetry.items())
        ),
    ),
    Family(
        "dragoman_traces_total",
        "counter",
        "Traced requests: sent, failed, or dropped because the queue was full.",
        ("result",),
        lambda now: (((result,), number) for result, number in sorted(now.counts.traces.items())),
    ),
    Family(
        "dragoman_request_log_total",
        "counter",
        "Requests in the log of requests: written, failed to be, dropped for want of time, or"
        " repeated: further ones of many that are refused alike.",
        ("result",),
        lambda now: (((result,), now.counts.logged.get(result, 0)) for result in _LOGGED),
    ),
    HistogramFamily(
        "dragoman_store_write_seconds",
        "Duration of writes: usage and accounts, responses, or the request log.",
        ("signal",),
        STORE_WRITES,
        lambda now: (((name,), took) for name, took in sorted(now.counts.store_writes.items())),
    ),
    Family(
        "dragoman_store_queue_depth",
        "gauge",
        "Queue lengths: responses and request log entries to write, traces to send.",
        ("signal",),
        _queues,
    ),
    Family(
        "dragoman_store_failures_total",
        "counter",
        "Failed exchanges with the store; their content is sent again.",
        (),
        _one(lambda now: now.counts.store_failures),
    ),
    Family(
        "dragoman_store_working",
        "gauge",
        "Workers whose last exchange with the store succeeded.",
        (),
        _gauge("store_working"),
    ),
    Family(
        "dragoman_worker_restarts_total",
        "counter",
        "Workers replaced after they ended or hung.",
        (),
        _one(lambda now: now.counts.worker_restarts),
    ),
    Family("dragoman_workers", "gauge", "Workers that serve.", (), _gauge("workers")),
    Family("dragoman_in_flight", "gauge", "Requests being served.", (), _gauge("in_flight")),
    Family(
        "dragoman_limits_away",
        "gauge",
        "Workers of a machine that cannot reach the database of shared limits.",
        (),
        _gauge("limits_away"),
    ),
    Family(
        "dragoman_queue_length",
        "gauge",
        "Requests waiting for a free account.",
        (),
        _gauge("queue_length"),
    ),
    Family(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of all workers, user and system.",
        (),
        _one(lambda now: now.counts.cpu),
    ),
    Family(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of all workers; shared pages count for each.",
        (),
        _known_gauge("resident_bytes"),
    ),
    Family(
        "process_open_fds",
        "gauge",
        "Open file descriptors of all workers, counted every ten seconds.",
        (),
        _known_gauge("open_files"),
    ),
    Family(
        "process_max_fds",
        "gauge",
        "Limit of open file descriptors of all workers together.",
        (),
        _known_gauge("most_files"),
    ),
    Family(
        "process_start_time_seconds",
        "gauge",
        "Start time of the oldest worker, in Unix seconds.",
        (),
        _one(lambda now: now.counts.started),
    ),
)

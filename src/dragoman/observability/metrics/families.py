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
    """What a scrape tells. `accounts` is how many there are by upstream and state, `quotas` the
    windows of accounts' quotas whose use is known, `budgets` the limits of cost."""

    counts: Counts
    accounts: Mapping[tuple[str, str], int]
    version: str
    quotas: Sequence[QuotaSample] = ()
    budgets: Sequence[BudgetSample] = ()


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


def _split(counts: Mapping[str, int]) -> Samples:
    """Counts by names that blanks join, of which the last may hold blanks itself."""
    return ((tuple(key.split(" ", 1)), number) for key, number in sorted(counts.items()))


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
"""How the names of gauges begin that tell how much waits to be written, before what it is."""

_ACCOUNT = ("upstream", "account")
_MODEL = ("upstream", "model")
_WINDOW = (*_ACCOUNT, "window", "model")
_BUDGET = ("scope", "id", "window")
_LOGGED = ("dropped", "failed", "repeated", "written")
"""What becomes of requests in their log."""

FAMILIES: tuple[Family | HistogramFamily, ...] = (
    Family(
        "dragoman_build_info",
        "gauge",
        "The version that runs.",
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
        "Requests that ended in an error, by upstream and kind.",
        ("upstream", "kind"),
        lambda now: _split(now.counts.errors),
    ),
    Family(
        "dragoman_stream_aborts_total",
        "counter",
        "Streams that broke off, by upstream and side: the client left, or the upstream failed.",
        ("upstream", "side"),
        lambda now: _split(now.counts.aborts),
    ),
    HistogramFamily(
        "dragoman_request_duration_seconds",
        "From the head of a request to the end of its answer.",
        ("route", "upstream"),
        LATENCIES,
        _by_route(lambda found: found.latency),
    ),
    HistogramFamily(
        "dragoman_first_byte_seconds",
        "From the head of a request to the head of its answer.",
        ("route", "upstream"),
        FIRST_BYTES,
        _by_route(lambda found: found.first_byte),
    ),
    HistogramFamily(
        "dragoman_overhead_seconds",
        "From the head of a request until it was sent on, if it was sent once.",
        (),
        OVERHEADS,
        lambda now: (((), now.counts.overhead),),
    ),
    Family(
        "dragoman_model_requests_total",
        "counter",
        "Requests that an upstream was asked to answer, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.requests),
    ),
    Family(
        "dragoman_model_errors_total",
        "counter",
        "Of these, those that ended in an error.",
        _MODEL,
        _by_model(lambda found: found.errors),
    ),
    HistogramFamily(
        "dragoman_time_to_first_token_seconds",
        "From the head of a request to the head of a stream, which is sent with its first event.",
        _MODEL,
        FIRST_TOKENS,
        _of_models(lambda found: found.first_token),
    ),
    HistogramFamily(
        "dragoman_time_per_output_token_seconds",
        "Time of a stream after its head for each further token.",
        _MODEL,
        PER_TOKEN,
        _of_models(lambda found: found.per_token),
    ),
    HistogramFamily(
        "dragoman_upstream_duration_seconds",
        "From when the account that answered was asked to the end of its answer.",
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
        "What answers cost in US dollars, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.cost / PICO),
    ),
    Family(
        "dragoman_unpriced_requests_total",
        "counter",
        "Answers whose price is not known, by upstream and model.",
        _MODEL,
        _by_model(lambda found: found.unpriced),
    ),
    Family(
        "dragoman_key_requests_total",
        "counter",
        "Requests that an upstream was asked to answer, by the name of the client's key.",
        ("key",),
        _by_key(lambda found: found.requests),
    ),
    Family(
        "dragoman_key_tokens_total",
        "counter",
        "Tokens by the name of the client's key, and kind: input and output.",
        ("key", "kind"),
        _key_tokens,
    ),
    Family(
        "dragoman_key_cost_usd_total",
        "counter",
        "What answers cost in US dollars, by the name of the client's key.",
        ("key",),
        _by_key(lambda found: found.cost / PICO),
    ),
    Family(
        "dragoman_limit_refusals_total",
        "counter",
        "Requests that a limit of a client refused, or would have, by limit and mode.",
        ("limit", "mode"),
        lambda now: _split(now.counts.limits),
    ),
    Family(
        "dragoman_budget_remaining_ratio",
        "gauge",
        "What is left of a limit of cost, as a share of it: the least of those of a window.",
        _BUDGET,
        _budgets(lambda sample: sample.remaining),
    ),
    Family(
        "dragoman_budget_reset_timestamp_seconds",
        "gauge",
        "When nothing counts any more of what is used of a limit of cost, in Unix seconds.",
        _BUDGET,
        _budgets(lambda sample: sample.resets_at),
    ),
    Family(
        "dragoman_limit_reserved_usd",
        "gauge",
        "US dollars that requests under way have reserved, at each of the limits they are held to.",
        (),
        _gauge("limit_reserved_usd"),
    ),
    Family(
        "dragoman_attempts_total",
        "counter",
        "Accounts tried for requests, by upstream.",
        ("upstream",),
        _tried(0),
    ),
    Family(
        "dragoman_retries_total",
        "counter",
        "Attempts, wherever they were made, that the failures of an upstream's accounts caused.",
        ("upstream",),
        _tried(1),
    ),
    Family(
        "dragoman_fallbacks_total",
        "counter",
        "Attempts at another upstream, by the upstream that failed before and kind or cause.",
        ("upstream", "kind"),
        lambda now: _split(now.counts.fallbacks),
    ),
    Family(
        "dragoman_account_attempts_total",
        "counter",
        "Requests that an account was asked to answer, by upstream and account.",
        _ACCOUNT,
        _by_account(0),
    ),
    Family(
        "dragoman_account_retries_total",
        "counter",
        "Attempts with another account that one account's failures caused.",
        _ACCOUNT,
        _by_account(1),
    ),
    Family(
        "dragoman_account_errors_total",
        "counter",
        "Attempts that failed, by upstream, account and kind or cause.",
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
        "Share of an account's quota window that is used, as its upstream told it.",
        _WINDOW,
        _quotas(lambda sample: sample.used),
    ),
    Family(
        "dragoman_account_quota_reset_timestamp_seconds",
        "gauge",
        "When an account's quota window is whole again, in Unix seconds.",
        _WINDOW,
        _quotas(lambda sample: sample.resets_at),
    ),
    Family(
        "dragoman_losses_total",
        "counter",
        "What translations could not carry, by kind.",
        ("kind",),
        lambda now: (((kind,), number) for kind, number in sorted(now.counts.losses.items())),
    ),
    Family(
        "dragoman_probes_total",
        "counter",
        "Probes of accounts that are out, by upstream and result.",
        ("upstream", "result"),
        lambda now: _split(now.counts.probes),
    ),
    Family(
        "dragoman_webhook_alerts_total",
        "counter",
        "Alerts for the webhook: sent, failed in all their time, or dropped: no room, or the end.",
        ("result",),
        lambda now: (((result,), number) for result, number in sorted(now.counts.alerts.items())),
    ),
    Family(
        "dragoman_traces_total",
        "counter",
        "Requests that are traced: sent, failed to be sent, or dropped for want of room.",
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
        "How long a store took to write: usage and accounts, responses, or the log of requests.",
        ("signal",),
        STORE_WRITES,
        lambda now: (((name,), took) for name, took in sorted(now.counts.store_writes.items())),
    ),
    Family(
        "dragoman_store_queue_depth",
        "gauge",
        "What waits to be written or sent: responses, requests for their log, and traces.",
        ("signal",),
        _queues,
    ),
    Family(
        "dragoman_store_failures_total",
        "counter",
        "Exchanges with the store that failed; what they held is told again.",
        (),
        _one(lambda now: now.counts.store_failures),
    ),
    Family(
        "dragoman_store_working",
        "gauge",
        "Workers whose last exchange with the store went well.",
        (),
        _gauge("store_working"),
    ),
    Family(
        "dragoman_worker_restarts_total",
        "counter",
        "Workers that ended or were stuck, and were replaced.",
        (),
        _one(lambda now: now.counts.worker_restarts),
    ),
    Family("dragoman_workers", "gauge", "Processes that serve.", (), _gauge("workers")),
    Family(
        "dragoman_in_flight", "gauge", "Requests that are being served.", (), _gauge("in_flight")
    ),
    Family(
        "dragoman_limits_away",
        "gauge",
        "Workers whose machine cannot reach the database in which machines share limits.",
        (),
        _gauge("limits_away"),
    ),
    Family(
        "dragoman_queue_length",
        "gauge",
        "Requests that wait for an account to be free.",
        (),
        _gauge("queue_length"),
    ),
    Family(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of all workers, in user and system mode.",
        (),
        _one(lambda now: now.counts.cpu),
    ),
    Family(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of all workers; what they share is counted for each.",
        (),
        _known_gauge("resident_bytes"),
    ),
    Family(
        "process_open_fds",
        "gauge",
        "Files that all workers have open, looked at every ten seconds.",
        (),
        _known_gauge("open_files"),
    ),
    Family(
        "process_max_fds",
        "gauge",
        "Files that all workers together may have open.",
        (),
        _known_gauge("most_files"),
    ),
    Family(
        "process_start_time_seconds",
        "gauge",
        "When the oldest worker began, in Unix seconds.",
        (),
        _one(lambda now: now.counts.started),
    ),
)

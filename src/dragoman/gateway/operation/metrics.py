"""Metrics: counts of this worker, those of all workers, and their text form.

Each worker counts for itself and publishes its counts for the others (`Board`), so that a scrape,
which reaches any one of them, is answered with the sums of all.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import mmap

import msgspec
from msgspec import Struct, field

from dragoman.canonical.usage import Usage
from dragoman.gateway.edge.record import Record

LATENCIES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of whole requests, in seconds."""

FIRST_BYTES = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of the time to the head of the answer, in seconds."""

TOKENS = ("input", "cached", "cache_write", "output", "reasoning")
"""Kinds of tokens, as in `dragoman.canonical.usage`: `input` includes `cached` and `cache_write`,
`output` includes `reasoning`."""

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_MOST_ACCOUNTS = 1000
"""Accounts that one worker counts separately; further ones are counted together for each upstream,
under `OTHER`. So are errors beyond three times as many kinds of error of accounts."""

OTHER = "(other)"

_SLOT_BYTES = 1024 * 1024
_HEAD_BYTES = 8
_READS = 3
_MOST = 2**60
"""Where a count of tokens stays: the published form has 64 bits, for the sum of all workers."""


class Histogram(Struct, array_like=True):
    """How many values fell into each bucket, those beyond the last included, and their sum."""

    buckets: list[int]
    total: float = 0.0

    def add(self, other: Histogram) -> None:
        """Add the counts of `other`."""
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total


class Series(Struct, array_like=True):
    """Counts of the requests on one route, answered with one class of status, for one upstream."""

    requests: int = 0
    latency: Histogram = field(default_factory=lambda: Histogram([0] * (len(LATENCIES) + 1)))
    first_byte: Histogram = field(default_factory=lambda: Histogram([0] * (len(FIRST_BYTES) + 1)))
    tokens: list[int] = field(default_factory=lambda: [0] * len(TOKENS))

    def add(self, other: Series) -> None:
        """Add the counts of `other`."""
        self.requests += other.requests
        self.latency.add(other.latency)
        self.first_byte.add(other.first_byte)
        self.tokens = [mine + its for mine, its in zip(self.tokens, other.tokens, strict=True)]


class Counts(Struct):
    """All that one worker, or several together, counted.

    `series` is by route, class of status and upstream, `errors` by upstream and kind, both joined
    by a blank, which none of them holds. `accounts` are attempts and retries caused by upstream and
    account, `failures` the attempts that failed by upstream, account and kind. `limits` are the
    requests that limits of clients refused, by limit and mode: those that were not enforced would
    have. `gauges` are what holds now rather than since the start.
    """

    series: dict[str, Series] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    accounts: dict[str, list[int]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    alerts: dict[str, int] = field(default_factory=dict)
    traces: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    store_failures: int = 0
    worker_restarts: int = 0
    gauges: dict[str, float] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Add the counts of `other`."""
        for key, series in other.series.items():
            self.series.setdefault(key, Series()).add(series)
        for mine, its in (
            (self.errors, other.errors),
            (self.failures, other.failures),
            (self.losses, other.losses),
            (self.probes, other.probes),
            (self.alerts, other.alerts),
            (self.traces, other.traces),
            (self.limits, other.limits),
        ):
            for name, count in its.items():
                mine[name] = mine.get(name, 0) + count
        for name, sums in other.accounts.items():
            own = self.accounts.get(name, (0, 0))
            self.accounts[name] = [own[0] + sums[0], own[1] + sums[1]]
        self.store_failures += other.store_failures
        for name, value in other.gauges.items():
            self.gauges[name] = self.gauges.get(name, 0) + value


class QuotaSample(Struct, frozen=True):
    """One window of an account's quota, as in `dragoman.accounts.quota.QuotaWindow`."""

    upstream: str
    account: str
    window: str
    model: str
    used: float
    resets_at: float | None


class Metrics:
    """Counts of one worker. `before` are those of a worker that died and that this one
    replaces: they go on, since a count that falls is taken for a restart of everything."""

    def __init__(self, before: Counts | None = None) -> None:
        self.counts = before or Counts()
        self._accounts = {key.split(" ")[1]: sums for key, sums in self.counts.accounts.items()}
        self.counts.gauges = {}

    def finished(
        self,
        route: str,
        status: int,
        record: Record,
        usage: Usage | None,
        seconds: float,
        first_byte: float | None,
    ) -> None:
        """Count one request. `route` is of a bounded set of names without blanks, `usage` what is
        to be paid for it; `first_byte` is in seconds, None if the answer has no head."""
        counts = self.counts
        key = f"{route} {status // 100}xx {record.upstream}"
        series = counts.series.get(key)
        if series is None:
            series = counts.series[key] = Series()
        series.requests += 1
        attempts = record.attempts
        if attempts:
            if record.failed:
                self._count_failed(record)
            if attempts > len(record.failed):
                sums = self._accounts.get(record.account)
                if sums is None:
                    sums = self._count_account(record.upstream, record.account)
                sums[0] += 1
        latency = series.latency
        latency.buckets[bisect_left(LATENCIES, seconds)] += 1
        latency.total += seconds
        if first_byte is not None:
            latency = series.first_byte
            latency.buckets[bisect_left(FIRST_BYTES, first_byte)] += 1
            latency.total += first_byte
        if usage is not None:
            _add_tokens(series, usage)
        for one in record.in_vain:
            if one.usage is not None:
                key = f"{route} {status // 100}xx {one.upstream}"
                _add_tokens(counts.series.setdefault(key, Series()), one.usage)
        if record.error:
            _one_more(counts.errors, f"{record.upstream} {record.error}")
        for loss in record.losses:
            _one_more(counts.losses, loss.kind)
        if record.limit:
            _one_more(counts.limits, f"{record.limit} enforce")
        for exceeded in record.exceeded:
            _one_more(counts.limits, exceeded)

    def _count_failed(self, record: Record) -> None:
        failures = self.counts.failures
        for number, one in enumerate(record.failed, 1):
            sums = self._count_account(one.upstream, one.account)
            sums[0] += 1
            sums[1] += number < record.attempts
            key = f"{one.upstream} {one.account} {one.kind}"
            if key not in failures and len(failures) >= 3 * _MOST_ACCOUNTS:
                key = f"{one.upstream} {OTHER} {one.kind}"
            _one_more(failures, key)

    def _count_account(self, upstream: str, account: str) -> list[int]:
        """The counts of an account: its own as long as there is room for them."""
        sums = self._accounts.get(account)
        if sums is None:
            if len(self._accounts) >= _MOST_ACCOUNTS:
                return self.counts.accounts.setdefault(f"{upstream} {OTHER}", [0, 0])
            sums = self.counts.accounts.setdefault(f"{upstream} {account}", [0, 0])
            self._accounts[account] = sums
        return sums

    def probed(self, upstream: str, came_back: bool) -> None:
        """Count one probe of an account."""
        _one_more(self.counts.probes, f"{upstream} {'passed' if came_back else 'failed'}")

    def alerted(self, result: str) -> None:
        """Count what became of one alert: `sent`, `failed` or `dropped`."""
        _one_more(self.counts.alerts, result)

    def traced(self, result: str, requests: int) -> None:
        """Count what became of the traces of so many requests: `sent`, `failed` or `dropped`. Each
        result is counted by one thread only."""
        self.counts.traces[result] = self.counts.traces.get(result, 0) + requests


def _add_tokens(series: Series, usage: Usage) -> None:
    tokens = series.tokens
    tokens[0] = min(tokens[0] + usage.input, _MOST)
    tokens[1] = min(tokens[1] + (usage.cached or 0), _MOST)
    tokens[2] = min(tokens[2] + (usage.cache_write or 0), _MOST)
    tokens[3] = min(tokens[3] + usage.output, _MOST)
    tokens[4] = min(tokens[4] + (usage.reasoning or 0), _MOST)


class Board:
    """The published counts of all workers: shared memory with a slot for each. The processes that
    share it are forked after it was made."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._memory = mmap(-1, slots * _SLOT_BYTES)

    def publish(self, slot: int, counts: Counts) -> None:
        """Write the counts of a worker. Only one process may use a slot."""
        data = msgspec.msgpack.encode(counts)
        if len(data) > _SLOT_BYTES - _HEAD_BYTES:
            return
        start = slot * _SLOT_BYTES
        # By the checksum a reader sees that a slot is half-written.
        head = len(data).to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big")
        self._memory[start : start + _HEAD_BYTES + len(data)] = head + data

    def read(self, slot: int) -> Counts | None:
        """The counts in a slot. None if it is empty, or was being written at each of several
        reads."""
        start = slot * _SLOT_BYTES
        for _ in range(_READS):
            head = self._memory[start : start + _HEAD_BYTES]
            size = int.from_bytes(head[:4], "big")
            if not 0 < size <= _SLOT_BYTES - _HEAD_BYTES:
                return None
            data = self._memory[start + _HEAD_BYTES : start + _HEAD_BYTES + size]
            if zlib.crc32(data).to_bytes(4, "big") == head[4:]:
                return msgspec.msgpack.decode(data, type=Counts)
        return None

    def others(self, slot: int) -> Iterator[Counts]:
        """The counts in all other slots."""
        for number in range(self._slots):
            if number != slot and (found := self.read(number)) is not None:
                yield found


def render(
    counts: Counts,
    accounts: Mapping[tuple[str, str], int],
    version: str,
    quotas: Sequence[QuotaSample] = (),
) -> bytes:
    """The counts in Prometheus's text format 0.0.4. `accounts` is how many there are by upstream
    and state, `quotas` the windows of accounts' quotas whose use is known."""
    lines = list(_build_info(version))
    series = [(tuple(key.split(" ")), found) for key, found in sorted(counts.series.items())]
    lines += _family(
        "requests_total",
        "counter",
        "Requests answered, by route, class of status and upstream.",
        (
            (_labels(route=route, status=status, upstream=upstream), found.requests)
            for (route, status, upstream), found in series
        ),
    )
    lines += _family(
        "errors_total",
        "counter",
        "Requests that ended in an error, by upstream and kind.",
        _by_two(counts.errors, "upstream", "kind"),
    )
    lines += _family(
        "limit_refusals_total",
        "counter",
        "Requests that a limit of a client refused, or would have, by limit and mode.",
        _by_two(counts.limits, "limit", "mode"),
    )
    by_upstream: dict[str, Series] = {}
    by_route: dict[tuple[str, str], Series] = {}
    for (route, _, upstream), found in series:
        by_route.setdefault((route, upstream), Series()).add(found)
        if upstream:
            by_upstream.setdefault(upstream, Series()).add(found)
    tried: dict[str, list[int]] = {}
    for key, sums in counts.accounts.items():
        own = tried.setdefault(key.split(" ")[0], [0, 0])
        own[0] += sums[0]
        own[1] += sums[1]
    lines += _family(
        "attempts_total",
        "counter",
        "Accounts tried for requests, by upstream.",
        ((_labels(upstream=name), sums[0]) for name, sums in tried.items()),
    )
    lines += _family(
        "retries_total",
        "counter",
        "Attempts, wherever they were made, that the failures of an upstream's accounts caused.",
        ((_labels(upstream=name), sums[1]) for name, sums in tried.items()),
    )
    lines += _family(
        "account_attempts_total",
        "counter",
        "Requests that an account was asked to answer, by upstream and account.",
        (
            (_labels(**dict(zip(_ACCOUNT, key.split(" "), strict=True))), sums[0])
            for key, sums in sorted(counts.accounts.items())
        ),
    )
    lines += _family(
        "account_retries_total",
        "counter",
        "Attempts with another account that one account's failures caused.",
        (
            (_labels(**dict(zip(_ACCOUNT, key.split(" "), strict=True))), sums[1])
            for key, sums in sorted(counts.accounts.items())
        ),
    )
    lines += _family(
        "account_errors_total",
        "counter",
        "Attempts that failed, by upstream, account and kind or cause.",
        (
            (_labels(**dict(zip((*_ACCOUNT, "kind"), key.split(" "), strict=True))), number)
            for key, number in sorted(counts.failures.items())
        ),
    )
    lines += _family(
        "tokens_total",
        "counter",
        "Tokens by kind and upstream; input includes cached and cache_write, output reasoning.",
        (
            (_labels(upstream=name, kind=kind), number)
            for name, found in by_upstream.items()
            for kind, number in zip(TOKENS, found.tokens, strict=True)
        ),
    )
    lines += _histograms(
        "request_duration_seconds",
        "From the head of a request to the end of its answer.",
        LATENCIES,
        ((labels, found.latency) for labels, found in by_route.items()),
    )
    lines += _histograms(
        "first_byte_seconds",
        "From the head of a request to the head of its answer.",
        FIRST_BYTES,
        ((labels, found.first_byte) for labels, found in by_route.items()),
    )
    lines += _family(
        "losses_total",
        "counter",
        "What translations could not carry, by kind.",
        ((_labels(kind=kind), number) for kind, number in sorted(counts.losses.items())),
    )
    lines += _family(
        "probes_total",
        "counter",
        "Probes of accounts that are out, by upstream and result.",
        _by_two(counts.probes, "upstream", "result"),
    )
    lines += _family(
        "webhook_alerts_total",
        "counter",
        "Alerts for the webhook: sent, failed in all their time, or dropped: no room, or the end.",
        ((_labels(result=result), number) for result, number in sorted(counts.alerts.items())),
    )
    lines += _family(
        "traces_total",
        "counter",
        "Requests that are traced: sent, failed to be sent, or dropped for want of room.",
        ((_labels(result=result), number) for result, number in sorted(counts.traces.items())),
    )
    lines += _family(
        "store_failures_total",
        "counter",
        "Exchanges with the store that failed; what they held is told again.",
        [("", counts.store_failures)],
    )
    lines += _family(
        "worker_restarts_total",
        "counter",
        "Workers that ended or were stuck, and were replaced.",
        [("", counts.worker_restarts)],
    )
    for name, told in _GAUGES.items():
        lines += _family(name, "gauge", told, [("", counts.gauges.get(name, 0))])
    lines += _family(
        "accounts",
        "gauge",
        "Accounts by upstream and state.",
        (
            (_labels(upstream=upstream, state=state), number)
            for (upstream, state), number in sorted(accounts.items())
        ),
    )
    lines += _family(
        "account_quota_used_ratio",
        "gauge",
        "Share of an account's quota window that is used, as its upstream told it.",
        ((_quota_labels(sample), sample.used) for sample in quotas),
    )
    lines += _family(
        "account_quota_reset_timestamp_seconds",
        "gauge",
        "When an account's quota window is whole again, in Unix seconds.",
        (
            (_quota_labels(sample), sample.resets_at)
            for sample in quotas
            if sample.resets_at is not None
        ),
    )
    return "\n".join(lines).encode() + b"\n"


def _quota_labels(sample: QuotaSample) -> str:
    return _labels(
        upstream=sample.upstream, account=sample.account, window=sample.window, model=sample.model
    )


_ACCOUNT = ("upstream", "account")

_GAUGES = {
    "workers": "Processes that serve.",
    "in_flight": "Requests that are being served.",
    "queue_length": "Requests that wait for an account to be free.",
    "limit_drift_ratio": "What the last comparison with usage found limits wrong by, at most.",
    "store_working": "Workers whose last exchange with the store went well.",
}


def _build_info(version: str) -> Iterable[str]:
    return _family("build_info", "gauge", "The version that runs.", [(_labels(version=version), 1)])


def _one_more(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _by_two(counts: Mapping[str, int], first: str, second: str) -> Iterator[tuple[str, int]]:
    for key, number in sorted(counts.items()):
        one, _, other = key.partition(" ")
        yield _labels(**{first: one, second: other}), number


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP dragoman_{name} {text}"
    yield f"# TYPE dragoman_{name} {kind}"
    for labels, value in samples:
        yield f"dragoman_{name}{labels} {value:.15g}"


def _histograms(
    name: str,
    text: str,
    bounds: tuple[float, ...],
    found: Iterable[tuple[tuple[str, str], Histogram]],
) -> Iterator[str]:
    yield from _family(name, "histogram", text, ())
    for (route, upstream), histogram in found:
        below = 0
        for bound, number in zip((*bounds, "+Inf"), histogram.buckets, strict=True):
            below += number
            le = bound if isinstance(bound, str) else f"{bound:g}"
            labels = _labels(route=route, upstream=upstream, le=le)
            yield f"dragoman_{name}_bucket{labels} {below}"
        labels = _labels(route=route, upstream=upstream)
        yield f"dragoman_{name}_sum{labels} {histogram.total:.15g}"
        yield f"dragoman_{name}_count{labels} {below}"


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""The metrics of this worker.

Each worker counts for itself and publishes its counts for the others
(`dragoman.observability.metrics.board`), so that a scrape, which reaches any one of them, is
answered with the sums of all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Literal, TypeAlias

from dragoman.canonical.usage import Usage
from dragoman.config import Account
from dragoman.edge.record import CLIENT_GONE, Record
from dragoman.observability.metrics.counts import (
    FIRST_BYTES,
    FIRST_TOKENS,
    LATENCIES,
    OTHER,
    OVERHEADS,
    PER_TOKEN,
    STORE_WRITES,
    Counts,
    KeyCounts,
    ModelCounts,
    Outcomes,
    Series,
    one_more,
    store_writes,
)
from dragoman.observability.metrics.outcomes import UNRECORDED, outcome_of
from dragoman.prices.lookup import Charge

Signal: TypeAlias = Literal["usage", "responses", "requests", "traces"]
"""What is written to a store, or sent away."""

MOST_ACCOUNTS = 1000
"""Accounts that one worker counts separately; further ones are counted together for each upstream,
under `OTHER`. So are errors beyond three times as many kinds of error of accounts."""

MOST_MODELS = 100
"""Models of upstreams that one worker counts separately, as `MOST_ACCOUNTS`."""

MOST_KEYS = 200
"""Client keys that one worker counts separately; further ones are counted together."""

_MOST_NAMES = 1000
"""Models and clients whose counts are remembered together."""

_MOST_COST = 2**63 - 1
"""Pico-dollars at which a sum stops, nine million dollars: the published form of a sum has 64
bits."""


class Metrics:
    """Counts of one worker. `before` are those of a worker that died and that this one
    replaces: they go on, since a count that falls is taken for a restart of everything.
    `records_series`: outcomes are counted for the time series of the dashboard, too.
    """

    def __init__(self, before: Counts | None = None, *, records_series: bool = False) -> None:
        self.counts = before or Counts()
        self._accounts = {key.split(" ")[1]: sums for key, sums in self.counts.accounts.items()}
        self._series: dict[tuple[str, int, str], Series] = {}
        self._asked: dict[tuple[str, str, str], tuple[ModelCounts, KeyCounts]] = {}
        self._listed: Callable[[str, str], str] = _other
        self.counts.gauges = {}
        self._records_series = records_series

    def set_listed(self, listed: Callable[[str, str], str]) -> None:
        """Count each model under the name that `listed` returns for its upstream and itself. Its
        names are few: clients choose the names of models."""
        self._listed = listed
        self._asked.clear()

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
        name = route, status // 100, record.upstream
        series = self._series.get(name)
        if series is None:
            key = f"{route} {status // 100}xx {record.upstream}"
            series = self._series[name] = self.counts.series.setdefault(key, Series())
        series.requests += 1
        series.latency.observe(LATENCIES, seconds, record.trace_id)
        if first_byte is not None:
            series.first_byte.observe(FIRST_BYTES, first_byte, record.trace_id)
        if self._records_series and route not in UNRECORDED:
            self._count_outcome(status, record, usage, seconds)
        if record.error or record.losses or record.limit or record.exceeded:
            self._count_findings(record)
        if record.purpose is not None:
            one_more(self.counts.classes, record.purpose.request_class)
        if record.attempts:
            self._count_asked(record, usage, seconds, first_byte)

    def _count_findings(self, record: Record) -> None:
        """Count the error of a request, its losses, and what limits said of it."""
        counts = self.counts
        if record.error:
            one_more(counts.errors, f"{record.upstream} {record.at_fault} {record.error}")
        for loss in record.losses:
            one_more(counts.losses, loss.kind)
        if record.limit:
            one_more(counts.limits, f"{record.limit} enforce")
        for exceeded in record.exceeded:
            one_more(counts.limits, exceeded)

    def _count_asked(
        self, record: Record, usage: Usage | None, seconds: float, first_byte: float | None
    ) -> None:
        """Count a request that an upstream was asked to answer: its attempts for their accounts,
        the rest for its model and its key."""
        upstream, error, attempts = record.upstream, record.error, record.attempts
        if record.failed:
            self._count_failed(record)
        if attempts > len(record.failed):
            account = self._accounts.get(record.account) or self._account(upstream, record.account)
            account[0] += 1
        if record.deferred:
            return
        name = upstream, record.upstream_model, record.caller
        sums, key = self._asked.get(name) or self._model_and_key(*name)
        sums.requests += 1
        key.requests += 1
        sent = record.sent_at - record.started if record.sent_at else None
        if attempts == 1 and sent is not None:
            self.counts.overhead.observe(OVERHEADS, sent)
        if error:
            sums.errors += error != CLIENT_GONE
            if record.stream and first_byte is not None:
                side = "client" if error == CLIENT_GONE else "upstream"
                one_more(self.counts.aborts, f"{upstream} {side}")
        else:
            if sent is not None:
                sums.upstream.observe(LATENCIES, seconds - sent)
            if record.stream and first_byte is not None:
                sums.first_token.observe(FIRST_TOKENS, first_byte, record.trace_id)
                if usage is not None and usage.output > 1:
                    sums.per_token.observe(PER_TOKEN, (seconds - first_byte) / (usage.output - 1))
        if usage is not None:
            _spend(sums, usage, record.charge, key)
        for one in record.in_vain:
            if one.usage is not None:
                _spend(self._model(one.upstream, one.model), one.usage, one.charge, key)

    def _model_and_key(
        self, upstream: str, model: str, caller: str
    ) -> tuple[ModelCounts, KeyCounts]:
        """The counts of the model of an upstream, and of a client key."""
        if len(self._asked) >= _MOST_NAMES:
            self._asked.clear()
        found = self._asked[upstream, model, caller] = (
            self._model(upstream, model),
            self._key(caller),
        )
        return found

    def _model(self, upstream: str, model: str) -> ModelCounts:
        """The counts of a model: its own if it is listed and there is room for them."""
        models = self.counts.models
        key = f"{upstream} {self._listed(upstream, model)}"
        if key not in models and len(models) >= MOST_MODELS:
            key = f"{upstream} {OTHER}"
        return models.setdefault(key, ModelCounts())

    def _key(self, name: str) -> KeyCounts:
        """The counts of a client key: its own as long as there is room for them."""
        keys = self.counts.keys
        sums = keys.get(name)
        if sums is None:
            sums = keys.setdefault(name if len(keys) < MOST_KEYS else OTHER, KeyCounts())
        return sums

    def _count_outcome(
        self, status: int, record: Record, usage: Usage | None, seconds: float
    ) -> None:
        found = self._outcomes(record.upstream)
        found.requests[outcome_of(status, record.error, record.at_fault)] += 1
        found.duration[bisect_left(LATENCIES, seconds)] += 1
        if record.first_at:
            found.first[bisect_left(LATENCIES, record.first_at - record.started)] += 1
        if usage is not None:
            _spend(found, usage, record.charge)
        for one in record.in_vain:
            if one.usage is not None:
                _spend(self._outcomes(one.upstream), one.usage, one.charge)

    def _outcomes(self, upstream: str) -> Outcomes:
        found = self.counts.outcomes.get(upstream)
        if found is None:
            found = self.counts.outcomes[upstream] = Outcomes()
        return found

    def _count_failed(self, record: Record) -> None:
        failures = self.counts.failures
        for number, one in enumerate(record.failed, 1):
            sums = self._account(one.upstream, one.account)
            sums[0] += 1
            sums[1] += number < record.attempts
            key = f"{one.upstream} {one.account} {one.kind}"
            if key not in failures and len(failures) >= 3 * MOST_ACCOUNTS:
                key = f"{one.upstream} {OTHER} {one.kind}"
            one_more(failures, key)
            after = (
                record.failed[number].upstream if number < len(record.failed) else record.upstream
            )
            if number < record.attempts and after != one.upstream:
                one_more(self.counts.fallbacks, f"{one.upstream} {one.kind}")

    def _account(self, upstream: str, account: str) -> list[int]:
        """The counts of an account: its own as long as there is room for them."""
        sums = self._accounts.get(account)
        if sums is None:
            if len(self._accounts) >= MOST_ACCOUNTS:
                return self.counts.accounts.setdefault(f"{upstream} {OTHER}", [0, 0])
            sums = self.counts.accounts.setdefault(f"{upstream} {account}", [0, 0])
            self._accounts[account] = sums
        return sums

    def probed(self, upstream: str, came_back: bool) -> None:
        """Count one probe of an account."""
        one_more(self.counts.probes, f"{upstream} {'passed' if came_back else 'failed'}")

    def credential_refreshed(self, account: Account, outcome: str) -> None:
        """Count the outcome of one refresh of a credential: `ok`, or why there was none."""
        one_more(self.counts.credentials, f"{account.upstream} {account.name} {outcome}")

    def alerted(self, result: str) -> None:
        """Count the result of one alert: `sent`, `failed` or `dropped`."""
        one_more(self.counts.alerts, result)

    def refused_token(self, reason: str) -> None:
        """Count one token of a JWT issuer that is refused."""
        one_more(self.counts.refused_tokens, reason)

    def checked(self, result: str) -> None:
        """Count one request that the operator's check was asked about: `passed`, `changed`,
        `blocked` or `failed`."""
        one_more(self.counts.checked, result)

    def telemetry_forwarded(self, result: str) -> None:
        """Count one export of an agent: `sent`, `failed` or `dropped`."""
        one_more(self.counts.agent_telemetry, result)

    def traced(self, result: str, requests: int) -> None:
        """Count the result of the traces of `requests`: `sent`, `failed` or `dropped`. Each
        result is counted by one thread only."""
        self.counts.traces[result] = self.counts.traces.get(result, 0) + requests

    def logged(self, result: str, requests: int) -> None:
        """Count the result of `requests` in the request log: `written`, `failed`,
        `dropped` or `repeated`. Each result is counted by one thread only."""
        self.counts.logged[result] = self.counts.logged.get(result, 0) + requests

    def stored(self, signal: Signal, seconds: float) -> None:
        """Count one write to a store. Each signal is counted by one thread only."""
        took = self.counts.store_writes.get(signal)
        if took is None:
            took = self.counts.store_writes[signal] = store_writes()
        took.observe(STORE_WRITES, seconds)


def _other(upstream: str, model: str) -> str:
    return OTHER


def _spend(
    sums: ModelCounts | Outcomes,
    usage: Usage,
    charge: Charge | None,
    key: KeyCounts | None = None,
) -> None:
    """Add what one answer used, and what that cost, to sums and to those of a client key."""
    prompt, output, tokens = usage.input, usage.output, sums.tokens
    tokens[0] += prompt
    tokens[3] += output
    if usage.cached:
        tokens[1] += usage.cached
    if usage.cache_write:
        tokens[2] += usage.cache_write
    if usage.reasoning:
        tokens[4] += usage.reasoning
    if key is not None:
        key.input += prompt
        key.output += output
    if charge is None or charge.cost is None:
        sums.unpriced += 1
        return
    sums.cost = min(sums.cost + charge.cost, _MOST_COST)
    if key is not None:
        key.cost = min(key.cost + charge.cost, _MOST_COST)

"""The metrics of this worker.

Each worker counts for itself and publishes its counts for the others
(`dragoman.observability.metrics.board`), so that a scrape, which reaches any one of them, is
answered with the sums of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from dragoman.canonical.usage import Usage
from dragoman.config import Account
from dragoman.edge.record import CLIENT_GONE, AtFault, Record
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
    Tally,
    count_in,
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

_MOST_TALLIES = 100
_MOST_ALIKE = 256
"""Tallies, and requests in one of them, that are held before they are counted."""

_MOST_COST = 2**63 - 1
"""Pico-dollars at which a sum stops, nine million dollars: the published form of a sum has 64
bits."""


_Alike = tuple[str, int, str, str, str, bool, str, AtFault, int]
"""The route, class of status, upstream, its model, client key, whether the upstream was asked, the
error, who caused it, and the trace, of requests that are counted together."""


class Metrics:
    """Counts of one worker. `before` are those of a worker that died and that this one
    replaces: they go on, since a count that falls is taken for a restart of everything.
    `records_series`: outcomes are counted for the time series of the dashboard, too.

    A request is added to the tally of those like it by one look-up, and tallies to the counts when
    somebody asks for these, or one is full.
    """

    def __init__(self, before: Counts | None = None, *, records_series: bool = False) -> None:
        self._counts = before or Counts()
        self._counts.gauges = {}
        self._tallies: dict[_Alike, Tally] = {}
        self._accounts = {key.split(" ")[1]: sums for key, sums in self._counts.accounts.items()}
        self._listed: Callable[[str, str], str] = _other
        self._records_series = records_series

    @property
    def counts(self) -> Counts:
        """All that was counted."""
        self._add_tallies()
        return self._counts

    def set_listed(self, listed: Callable[[str, str], str]) -> None:
        """Count each model under the name that `listed` returns for its upstream and itself. Its
        names are few: clients choose the names of models."""
        self._add_tallies()
        self._listed = listed

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
        upstream, error, attempts = record.upstream, record.error, record.attempts
        asked = attempts > 0 and not record.deferred
        at_fault = record.at_fault if error else ""
        model, caller, trace_id = record.upstream_model, record.caller, record.trace_id
        alike = (route, status // 100, upstream, model, caller, asked, error, at_fault, trace_id)
        tally = self._tallies.get(alike) or self._tally(alike)
        tally.latency.append(seconds)
        if first_byte is not None:
            tally.first_byte.append(first_byte)
        if usage is not None:
            _spend(tally, usage, record.charge)
        if record.losses or record.limit or record.exceeded:
            self._count_findings(record)
        if record.purpose is not None:
            one_more(self._counts.classes, record.purpose.request_class)
        if self._records_series and record.first_at:
            tally.first_content.append(record.first_at - record.started)
        if record.failed:
            self._count_failed(record)
        if attempts > len(record.failed):
            account = self._accounts.get(record.account) or self._account(upstream, record.account)
            account[0] += 1
        if asked:
            if record.sent_at:
                sent = record.sent_at - record.started
                tally.upstream.append(seconds - sent)
                if attempts == 1:
                    tally.overhead.append(sent)
            if record.stream and first_byte is not None:
                if error:
                    side = "client" if error == CLIENT_GONE else "upstream"
                    one_more(self._counts.aborts, f"{upstream} {side}")
                else:
                    tally.first_token.append(first_byte)
                    if usage is not None and usage.output > 1:
                        tally.per_token.append((seconds - first_byte) / (usage.output - 1))
        for one in record.in_vain:
            if one.usage is not None:
                alike = (route, status // 100, one.upstream, one.model, caller, True, "", "", 0)
                _spend(self._tally(alike), one.usage, one.charge)
        if len(tally.latency) >= _MOST_ALIKE:
            self._add_tallies()

    def _tally(self, alike: _Alike) -> Tally:
        if len(self._tallies) >= _MOST_TALLIES:
            self._add_tallies()
        return self._tallies.setdefault(alike, Tally(time.time()))

    def _add_tallies(self) -> None:
        """Add all tallies to the counts."""
        tallies, self._tallies = self._tallies, {}
        for alike, tally in tallies.items():
            self._add(alike, tally)

    def _add(self, alike: _Alike, tally: Tally) -> None:
        route, status, upstream, model, caller, asked, error, at_fault, trace_id = alike
        number, counts = len(tally.latency), self._counts
        if number:
            series = counts.series.setdefault(f"{route} {status}xx {upstream}", Series())
            series.requests += number
            series.latency.observe(LATENCIES, tally.latency, trace_id, tally.at)
            series.first_byte.observe(FIRST_BYTES, tally.first_byte, trace_id, tally.at)
            counts.overhead.observe(OVERHEADS, tally.overhead)
        if error:
            one_more(counts.errors, f"{upstream} {at_fault} {error}", number)
        if asked:
            sums, key = self._model(upstream, model), self._key(caller)
            sums.requests += number
            key.requests += number
            key.input += tally.tokens[0]
            key.output += tally.tokens[3]
            key.cost = min(key.cost + tally.cost, _MOST_COST)
            _add_use(sums, tally)
            if not error:
                sums.upstream.observe(LATENCIES, tally.upstream)
                sums.first_token.observe(FIRST_TOKENS, tally.first_token, trace_id, tally.at)
                sums.per_token.observe(PER_TOKEN, tally.per_token)
            elif error != CLIENT_GONE:
                sums.errors += number
        if self._records_series and route not in UNRECORDED:
            found = counts.outcomes.setdefault(upstream, Outcomes())
            found.requests[outcome_of(100 * status, error, at_fault)] += number
            count_in(found.duration, LATENCIES, tally.latency)
            count_in(found.first, LATENCIES, tally.first_content)
            _add_use(found, tally)

    def _count_findings(self, record: Record) -> None:
        """Count the losses of a request, and what limits said of it."""
        counts = self._counts
        for loss in record.losses:
            one_more(counts.losses, loss.kind)
        if record.limit:
            one_more(counts.limits, f"{record.limit} enforce")
        for exceeded in record.exceeded:
            one_more(counts.limits, exceeded)

    def _model(self, upstream: str, model: str) -> ModelCounts:
        """The counts of a model: its own if it is listed and there is room for them."""
        models = self._counts.models
        key = f"{upstream} {self._listed(upstream, model)}"
        if key not in models and len(models) >= MOST_MODELS:
            key = f"{upstream} {OTHER}"
        return models.setdefault(key, ModelCounts())

    def _key(self, name: str) -> KeyCounts:
        """The counts of a client key: its own as long as there is room for them."""
        keys = self._counts.keys
        sums = keys.get(name)
        if sums is None:
            sums = keys.setdefault(name if len(keys) < MOST_KEYS else OTHER, KeyCounts())
        return sums

    def _count_failed(self, record: Record) -> None:
        failures = self._counts.failures
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
                one_more(self._counts.fallbacks, f"{one.upstream} {one.kind}")

    def _account(self, upstream: str, account: str) -> list[int]:
        """The counts of an account: its own as long as there is room for them."""
        sums = self._accounts.get(account)
        if sums is None:
            if len(self._accounts) >= MOST_ACCOUNTS:
                return self._counts.accounts.setdefault(f"{upstream} {OTHER}", [0, 0])
            sums = self._counts.accounts.setdefault(f"{upstream} {account}", [0, 0])
            self._accounts[account] = sums
        return sums

    def probed(self, upstream: str, came_back: bool) -> None:
        """Count one probe of an account."""
        one_more(self._counts.probes, f"{upstream} {'passed' if came_back else 'failed'}")

    def credential_refreshed(self, account: Account, outcome: str) -> None:
        """Count the outcome of one refresh of a credential: `ok`, or why there was none."""
        one_more(self._counts.credentials, f"{account.upstream} {account.name} {outcome}")

    def alerted(self, result: str) -> None:
        """Count the result of one alert: `sent`, `failed` or `dropped`."""
        one_more(self._counts.alerts, result)

    def refused_token(self, reason: str) -> None:
        """Count one token of a JWT issuer that is refused."""
        one_more(self._counts.refused_tokens, reason)

    def checked(self, result: str) -> None:
        """Count one request that the operator's check was asked about: `passed`, `changed`,
        `blocked` or `failed`."""
        one_more(self._counts.checked, result)

    def telemetry_forwarded(self, result: str) -> None:
        """Count one export of an agent: `sent`, `failed` or `dropped`."""
        one_more(self._counts.agent_telemetry, result)

    def traced(self, result: str, requests: int) -> None:
        """Count the result of the traces of `requests`: `sent`, `failed` or `dropped`. Each
        result is counted by one thread only."""
        self._counts.traces[result] = self._counts.traces.get(result, 0) + requests

    def logged(self, result: str, requests: int) -> None:
        """Count the result of `requests` in the request log: `written`, `failed`,
        `dropped` or `repeated`. Each result is counted by one thread only."""
        self._counts.logged[result] = self._counts.logged.get(result, 0) + requests

    def stored(self, signal: Signal, seconds: float) -> None:
        """Count one write to a store. Each signal is counted by one thread only."""
        took = self._counts.store_writes.get(signal)
        if took is None:
            took = self._counts.store_writes[signal] = store_writes()
        took.observe(STORE_WRITES, [seconds])


def _other(upstream: str, model: str) -> str:
    return OTHER


def _add_use(sums: ModelCounts | Outcomes, tally: Tally) -> None:
    for kind, count in enumerate(tally.tokens):
        sums.tokens[kind] += count
    sums.cost = min(sums.cost + tally.cost, _MOST_COST)
    sums.unpriced += tally.unpriced


def _spend(tally: Tally, usage: Usage, charge: Charge | None) -> None:
    """Add what one answer used, and what that cost."""
    tokens = tally.tokens
    tokens[0] += usage.input
    tokens[3] += usage.output
    if usage.cached:
        tokens[1] += usage.cached
    if usage.cache_write:
        tokens[2] += usage.cache_write
    if usage.reasoning:
        tokens[4] += usage.reasoning
    if charge is None or charge.cost is None:
        tally.unpriced += 1
    else:
        tally.cost += charge.cost

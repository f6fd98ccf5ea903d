"""The recorder of finished requests: metrics, usage of clients, request log and traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dragoman.accounts.store import LastError
from dragoman.accounts.usage import Attribution, Meter
from dragoman.config.mcp import PATH as MCP_PATH
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import CLIENT_GONE, Record
from dragoman.observability.finished import FinishedRequest, finished_request
from dragoman.observability.metrics.metrics import Metrics
from dragoman.observability.metrics.outcomes import UNRECORDED
from dragoman.observability.traces.traces import Traces
from dragoman.protocols import CODECS

_BACKGROUND = "(background)"
_OTHER = "(other)"
_LONGEST_PATH = 200


def _uncharged() -> frozenset[str]:
    """Routes whose answers contain token counts that are not charged."""
    return frozenset(
        codec.endpoint.version + codec.endpoint.counting.path
        for codec in CODECS.values()
        if codec.endpoint.counting is not None
    )


def is_charged(route: str) -> bool:
    """Whether limits count the requests of a route. Counting the tokens of a prompt is free."""
    return route not in _uncharged()


class RequestRecorder:
    """Records each request once it has ended.

    `meter` counts usage and is None where nothing is stored; `settle` is called for each request
    that reserved something of its caller's limits, at the same moment, so that limits and usage
    agree. `line` takes the line of each request, `log` is the request log; they and `traces` are
    None where they are off. Paths that `know_paths` was told of are counted by their own name,
    others by their prefix.
    """

    __slots__ = (
        "_families",
        "_line",
        "_log",
        "_meter",
        "_metered",
        "_metrics",
        "_settle",
        "_traces",
    )

    def __init__(
        self,
        metrics: Metrics,
        meter: Meter | None,
        settle: Callable[[Record, float], None],
        line: Callable[[bytes], None] | None = None,
        traces: Traces | None = None,
        log: Callable[[FinishedRequest], None] | None = None,
    ) -> None:
        self._line = line
        self._log = log
        self._traces = traces
        self._metrics = metrics
        self._meter = meter
        self._settle = settle
        self.know_paths(())
        endpoints = [codec.endpoint for codec in CODECS.values()]
        self._families = tuple(
            {
                f"{endpoint.version}{path}/"
                for endpoint in endpoints
                for path in (endpoint.models.path, endpoint.path)
                if path == endpoint.models.path or endpoint.unserved or endpoint.stores_responses
            }
            | {"/admin/", "/ui/"}
        )

    def know_paths(self, paths: Iterable[str]) -> None:
        """Count the requests of these paths by their own names from now on."""
        uncharged = _uncharged()
        self._metered = {
            path: path not in uncharged and not path.startswith(MCP_PATH) for path in paths
        }

    def record(self, incoming: IncomingRequest, record: Record) -> None:
        """Record a request that was answered, or will not be."""
        now, seconds = time.time(), time.perf_counter() - record.started
        if record.admitted is not None:
            self._settle(record, now)
        first_byte = incoming.answered - record.started if incoming.answered else None
        path, status, operation = incoming.path, incoming.status, incoming.operation
        metered: bool | None
        if operation is not None:
            name, metered = operation.name, not operation.counts
        else:
            name, metered = path, self._metered.get(path)
            if metered is None:
                name, metered = self._family(path), True
        finished = None
        if (self._log is not None or self._traces is not None) and not record.deferred:
            finished = finished_request(incoming, record, now, seconds, first_byte, name)
            if self._traces is not None:
                # First: a histogram names the trace.
                self._traces.end(incoming, finished)
        usage = record.usage if metered else None
        self._metrics.finished(name, status, record, usage, seconds, first_byte)
        if finished is not None and self._log is not None and name not in UNRECORDED:
            self._log(finished)
        # Below a response: a request that names no model generates nothing.
        if (
            self._meter is not None
            and incoming.method == "POST"
            and not record.deferred
            and record.caller
            and (name is path or record.model)
            and name not in UNRECORDED
        ):
            self._charge(now, name, record, seconds, metered=metered)
        if self._line is not None:
            route = f"{incoming.method} {path[:_LONGEST_PATH]}"
            self._line(record.line(incoming.request_id, route, status, now, seconds))

    def record_background(self, incoming: IncomingRequest, record: Record) -> None:
        """Record what was made in the background, or failed to be: a response, or a batch."""
        now, seconds = time.time(), time.perf_counter() - record.started
        if record.admitted is not None:
            self._settle(record, now)
        path, status = incoming.path, incoming.status or 500
        finished = finished_request(incoming, record, now, seconds, None, path)
        if self._traces is not None:
            self._traces.end(incoming, finished)
        self._metrics.finished(_BACKGROUND, status, record, record.usage, seconds, None)
        if self._log is not None:
            self._log(finished)
        self._charge(now, path, record, seconds, metered=True)
        if self._line is not None:
            self._line(record.line(incoming.request_id, f"POST {path}", status, now, seconds))

    def _charge(
        self, now: float, route: str, record: Record, seconds: float, *, metered: bool
    ) -> None:
        meter = self._meter
        if meter is None:
            return
        for number, failed in enumerate(record.failed, 1):
            meter.count_failed(
                now,
                _attribution(route, record, failed.account, failed.upstream),
                LastError(failed.at, failed.kind, failed.status, failed.model),
                retried=number < record.attempts,
            )
        for one in record.in_vain:
            if one.usage is None:
                continue
            whose = _attribution(route, record, one.account, one.upstream)
            meter.count_in_vain(now, whose, one.usage, one.charge)
        # Limits do not count what reached no upstream: such rows have no account.
        account = record.account if record.is_reached else ""
        meter.count(
            now,
            _attribution(route, record, account, record.upstream),
            record.usage,
            seconds * 1000,
            charge=record.charge,
            failed=bool(record.error) and record.error != CLIENT_GONE,
            metered=metered,
            estimated=record.estimated,
            attempts=record.attempts - len(record.failed),
        )

    def _family(self, path: str) -> str:
        """The name under which requests for a path of no fixed route are counted."""
        for beginning in self._families:
            if path.startswith(beginning):
                return beginning[:-1]
        return _OTHER


def _with(purpose: Iterable[str], tags: str) -> str:
    """Tags with those of a purpose."""
    return ",".join(sorted([*purpose, *tags.split(",")] if tags else purpose))


def _attribution(route: str, record: Record, account: str, upstream: str) -> Attribution:
    return Attribution(
        account,
        record.caller,
        record.model,
        route,
        upstream,
        record.team,
        record.user,
        record.tags if record.purpose is None else _with(record.purpose.tags, record.tags),
    )

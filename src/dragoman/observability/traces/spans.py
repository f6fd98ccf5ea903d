"""The spans of a finished request. Pure.

One SERVER span for the request as HTTP has it; below it one CLIENT span for the call of the model,
with all its attempts; below that one CLIENT span for each attempt, where there were several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from dragoman.canonical.usage import Usage
from dragoman.config.settings import Conventions
from dragoman.edge.record import CLIENT_GONE, FailedAttempt, Record
from dragoman.edge.trace_context import new_span_id
from dragoman.observability.finished import FinishedRequest
from dragoman.observability.traces import conventions as names
from dragoman.observability.traces.conventions import named
from dragoman.prices.rates import PICO

_NS = 1_000_000_000
_SERVER_ERROR = 500
_LONGEST = 200

OUTPUT_TYPE = "output.type"
SERVICE_TIER = "service_tier"

Kind = Literal["server", "client"]
Value = str | bool | int | float | tuple[str, ...]


class Peer(Struct, frozen=True):
    """An upstream in spans: its protocol, its provider, host and port."""

    protocol: str
    provider: str
    address: str
    port: int


class TracedRequest(Struct, frozen=True, gc=False):
    """A traced request that is traced. `parent_id` is the client's span, 0 for none, and
    `call_id` the span of the call, which upstreams may have been sent."""

    request: FinishedRequest
    scheme: str
    trace_id: int
    span_id: int
    parent_id: int
    call_id: int

    @property
    def ended_ns(self) -> int:
        """When it ended, in nanoseconds of the Unix epoch."""
        return int(self.request.at * _NS)


class Span(Struct, frozen=True, kw_only=True):
    """A span. `error` is the kind of failure, empty if there was none; times are in nanoseconds
    of the Unix epoch."""

    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    error: str


def spans_of(
    traced: TracedRequest, peers: Mapping[str, Peer], conventions: Conventions
) -> Iterator[Span]:
    """The spans of a request, the outermost first. `peers` are those of the upstreams."""
    record = traced.request.record
    start_ns = traced.ended_ns - int(traced.request.seconds * _NS)
    failed_here = traced.request.status >= _SERVER_ERROR
    error = (record.error or str(traced.request.status)) if failed_here else ""
    yield Span(
        name=f"{traced.request.method} {traced.request.route}",
        kind="server",
        trace_id=traced.trace_id,
        span_id=traced.span_id,
        parent_id=traced.parent_id,
        start_ns=start_ns,
        end_ns=traced.ended_ns,
        attributes=_server_attributes(traced, error),
        error=error,
    )
    if not record.attempts or record.upstream not in peers:
        return  # An MCP server is no model.
    attempts = list(_attempts(traced, start_ns))
    error = "" if record.error == CLIENT_GONE else record.error
    peer = peers[record.upstream]
    yield Span(
        name=f"{_operation(traced)} {record.upstream_model[:_LONGEST]}",
        kind="client",
        trace_id=traced.trace_id,
        span_id=traced.call_id,
        parent_id=traced.span_id,
        start_ns=attempts[0].start_ns,
        end_ns=traced.ended_ns,
        attributes=_call_attributes(traced, peer, start_ns, attempts[0].start_ns, conventions),
        error=error,
    )
    if len(attempts) > 1:
        for number, attempt in enumerate(attempts):
            yield _attempt_span(traced, attempt, number, peers)


def _server_attributes(traced: TracedRequest, error: str) -> dict[str, Value]:
    record = traced.request.record
    found: dict[str, Value] = {
        "http.request.method": traced.request.method,
        "http.route": traced.request.route,
        "url.path": traced.request.path,
        "url.scheme": traced.scheme,
        "http.response.status_code": traced.request.status,
        "dragoman.request.id": traced.request.request_id,
        "dragoman.client.protocol": traced.request.protocol,
    }
    address, port = _address(traced.request.host.decode("latin-1"))
    if address:
        found["server.address"] = address
        if port:
            found["server.port"] = port
    if record.limit:
        found["dragoman.limit.hit"] = record.limit
    if record.attempts == 1 and record.sent_at:
        found["dragoman.overhead.ms"] = round((record.sent_at - record.started) * 1000, 3)
    if traced.request.user_agent:
        found["user_agent.original"] = traced.request.user_agent.decode("latin-1")
    if record.caller:
        found["dragoman.key.id"] = record.caller
    if record.model:
        found["dragoman.model.alias"] = record.model[:_LONGEST]
    if (purpose := record.purpose) is not None:
        said = {
            "dragoman.request.class": purpose.request_class,
            "gen_ai.agent.id": purpose.agent,
            "gen_ai.agent.name": purpose.agent_type,
            "dragoman.prompt.id": purpose.prompt,
        }
        found |= {name: value for name, value in said.items() if value}
    if record.losses:
        found["dragoman.losses"] = len(record.losses)
    if record.error and not error:
        found["dragoman.error"] = record.error
    if error:
        found["error.type"] = error
    return found


def _address(host: str) -> tuple[str, int]:
    """Name and port of a `Host`; empty and 0 where it has none."""
    try:
        url = urlsplit(f"//{host}")
        return (url.hostname or "")[:_LONGEST], url.port or 0
    except ValueError:
        return "", 0


def _operation(traced: TracedRequest) -> str:
    """What was asked of the model."""
    *_, parent, word = f"/{traced.request.route}".replace(":", "/").split("/")
    return names.CHAT if parent == names.CHAT else names.OPERATIONS.get(word, names.CHAT)


def _call_attributes(
    traced: TracedRequest, peer: Peer, began_ns: int, sent_ns: int, conventions: Conventions
) -> dict[str, Value]:
    record = traced.request.record
    found: dict[str, Value] = {
        names.OPERATION: _operation(traced),
        names.PROVIDER: peer.provider,
        names.REQUEST_MODEL: record.upstream_model[:_LONGEST],
        "server.address": peer.address,
        "server.port": peer.port,
        "dragoman.upstream.protocol": peer.protocol,
        "dragoman.upstream": record.upstream,
        "dragoman.account.id": record.account,
        "dragoman.attempts": record.attempts,
    }
    if record.stream:
        found[names.REQUEST_STREAM] = True
        if traced.request.first_byte_s is not None:
            found[names.FIRST_CHUNK] = max(
                0.0, traced.request.first_byte_s - (sent_ns - began_ns) / _NS
            )
    found.update(_settings(record.settings or {}))
    api_type = names.API_TYPES.get((peer.provider, peer.protocol))
    if api_type is not None and found[names.OPERATION] == names.CHAT:
        found[names.API_TYPE] = api_type
        found.update(_tiers(record))
    for name, value in zip((names.RESPONSE_ID, names.RESPONSE_MODEL), record.answered, strict=True):
        if value:
            found[name] = value[:_LONGEST]
    if record.failed and record.failed[0].upstream != record.upstream:
        found["dragoman.fallback.from"] = record.failed[0].upstream
    if record.finish:
        found[names.FINISH_REASONS] = (record.finish,)
    elif record.error:
        found[names.FINISH_REASONS] = ("error",)
    if record.usage is not None:
        for name, tokens in _tokens(record.usage):
            for alias in named(name, conventions):
                found[alias] = tokens
    if (cost := record.cost) is not None:
        for alias in named(names.COST, conventions):
            found[alias] = cost / PICO
    if record.error and record.error != CLIENT_GONE:
        found["error.type"] = record.error
    return found


def _tokens(usage: Usage) -> Iterator[tuple[str, int]]:
    """Token counts by attribute. Totals include cached and reasoning tokens, as the conventions
    do."""
    yield names.INPUT_TOKENS, usage.input
    yield names.OUTPUT_TOKENS, usage.output
    parts = (
        (names.CACHE_READ, usage.cached),
        (names.CACHE_WRITE, usage.cache_write),
        (names.REASONING, usage.reasoning),
    )
    for name, tokens in parts:
        if tokens is not None:
            yield name, tokens


def _settings(members: Mapping[str, Raw]) -> Iterator[tuple[str, Value]]:
    """The settings of the request that have the type that the conventions require."""
    for name, raw in members.items():
        wanted = _TYPES.get(name)
        if wanted is None:
            continue
        value: Any = msgspec.json.decode(raw)
        if name == OUTPUT_TYPE and isinstance(value, str):
            # The conventions know no schemas.
            value = "json" if value.startswith("json") else value if value == "text" else None
        if type(value) is int and wanted is float:
            value = float(value)
        if type(value) is not wanted or (name == "choice.count" and value == 1):
            continue
        if isinstance(value, str):
            value = value[:_LONGEST]
        prefix = "gen_ai" if name in _ELSEWHERE else "gen_ai.request"
        yield f"{prefix}.{name}", value


def _tiers(record: Record) -> Iterator[tuple[str, Value]]:
    """The service tiers that were requested and reported."""
    asked = (record.settings or {}).get(SERVICE_TIER)
    tier = None if asked is None else msgspec.json.decode(asked)
    if isinstance(tier, str) and tier != "auto":
        yield names.REQUEST_TIER, tier
    if record.usage is not None and record.usage.tier:
        yield names.RESPONSE_TIER, record.usage.tier


_ELSEWHERE = frozenset({"conversation.id", OUTPUT_TYPE})
"""Settings whose attributes are not below `gen_ai.request`."""

_TYPES: Mapping[str, type] = {
    "max_tokens": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "frequency_penalty": float,
    "presence_penalty": float,
    "seed": int,
    "choice.count": int,
    "reasoning.level": str,
    "previous_response.id": str,
    "conversation.id": str,
    OUTPUT_TYPE: str,
}
"""Settings of a request by their attribute, with their types. Stop sequences are left out, since
they are content."""


class _Attempt(Struct, frozen=True):
    start_ns: int
    end_ns: int
    failed: FailedAttempt | None
    """None: it answered, or was in flight at the end."""


def _attempts(traced: TracedRequest, start_ns: int) -> Iterator[_Attempt]:
    record = traced.request.record
    for one in record.failed:
        end = int(one.at * _NS)
        yield _Attempt(end - int(one.ms * 1_000_000), end, one)
    if record.attempts > len(record.failed):
        waited = max(0.0, record.sent_at - record.started) if record.sent_at else 0.0
        yield _Attempt(start_ns + int(waited * _NS), traced.ended_ns, None)


def _attempt_span(
    traced: TracedRequest, attempt: _Attempt, number: int, peers: Mapping[str, Peer]
) -> Span:
    record, failed = traced.request.record, attempt.failed
    upstream = record.upstream if failed is None else failed.upstream
    peer = peers[upstream]
    found: dict[str, Value] = {
        "http.request.method": "POST",
        "server.address": peer.address,
        "server.port": peer.port,
        "dragoman.upstream": upstream,
        "dragoman.account.id": record.account if failed is None else failed.account,
    }
    if number:
        found["http.request.resend_count"] = number
    error = ""
    if failed is not None:
        error = failed.kind
        found["error.type"] = error
        if failed.status:
            found["http.response.status_code"] = failed.status
    elif record.error and record.error != CLIENT_GONE:
        error = found["error.type"] = record.error
    else:
        found["http.response.status_code"] = 200
    return Span(
        name="POST",
        kind="client",
        trace_id=traced.trace_id,
        span_id=new_span_id(),
        parent_id=traced.call_id,
        start_ns=attempt.start_ns,
        end_ns=attempt.end_ns,
        attributes=found,
        error=error,
    )

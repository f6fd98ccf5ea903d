"""Spans sent by OpenTelemetry's SDK. Imported only where traces are switched on: the SDK is
an extra, and takes 12 MB."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

import dragoman
from dragoman.observability.traces.spans import Kind, Span

_SCOPE = InstrumentationScope("dragoman", dragoman.__version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Mapping[Kind, SpanKind] = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_UNSET = Status()
_IN_A_ROW = 32
"""Spans encoded in a row before the GIL is released, which takes about a millisecond."""


class _Readable(Sequence[ReadableSpan]):
    """Spans as the SDK reads them, converted on access."""

    def __init__(self, spans: Sequence[Span], resource: Resource) -> None:
        self._spans = spans
        self._resource = resource

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, place: Any) -> Any:
        return _readable(self._spans[place], self._resource)

    def __iter__(self) -> Iterator[ReadableSpan]:
        for number, span in enumerate(self._spans, 1):
            yield _readable(span, self._resource)
            if not number % _IN_A_ROW:
                time.sleep(0)


class _Resource(Resource):
    """A resource that is hashed once: the SDK does that for each span, by writing it as JSON."""

    def __init__(self, attributes: Mapping[str, Any], schema_url: str) -> None:
        super().__init__(attributes, schema_url)
        self._hash = super().__hash__()

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash


class Sender:
    """Sends spans to the endpoint that the SDK's variables name."""

    def __init__(self) -> None:
        self._exporter = OTLPSpanExporter()
        self._resource = _resource()

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans; returns whether they were accepted. The SDK retries for as long as its
        variables allow."""
        readable = _Readable(spans, self._resource)
        return self._exporter.export(readable) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _resource() -> Resource:
    found = Resource.create()
    # The SDK names every service that has no name.
    named = {
        name: value
        for name, value in found.attributes.items()
        if name != "service.name" or not str(value).startswith("unknown_service")
    }
    own = {"service.name": "dragoman", "service.version": dragoman.__version__}
    return _Resource({**own, **named}, found.schema_url)


def _readable(span: Span, resource: Resource) -> ReadableSpan:
    context = SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=_SAMPLED)
    parent = None
    if span.parent_id:
        is_remote = span.kind == "server"
        parent = SpanContext(
            span.trace_id, span.parent_id, is_remote=is_remote, trace_flags=_SAMPLED
        )
    return ReadableSpan(
        name=span.name,
        context=context,
        parent=parent,
        resource=resource,
        attributes=span.attributes,
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else _UNSET,
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=_SCOPE,
    )

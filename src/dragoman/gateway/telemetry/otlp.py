"""Spans as OpenTelemetry's SDK sends them. Imported only where traces are switched on: the SDK is
an extra, and takes 12 MB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

import dragoman
from dragoman.gateway.telemetry.spans import Kind, Span

_SCOPE = InstrumentationScope("dragoman", dragoman.__version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Mapping[Kind, SpanKind] = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_UNSET = Status()


class Sender:
    """Sends spans to where the SDK's variables say."""

    def __init__(self) -> None:
        self._exporter = OTLPSpanExporter()
        self._resource = _resource()

    def send(self, spans: Iterable[Span]) -> bool:
        """Whether the spans were taken. It waits, and tries again, for as long as the SDK's
        variables say."""
        readable = [_readable(span, self._resource) for span in spans]
        return self._exporter.export(readable) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Send no more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _resource() -> Resource:
    told = Resource.create()
    # The SDK names every service that has no name.
    named = {
        name: value
        for name, value in told.attributes.items()
        if name != "service.name" or not str(value).startswith("unknown_service")
    }
    own = {"service.name": "dragoman", "service.version": dragoman.__version__}
    return Resource({**own, **named}, told.schema_url)


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

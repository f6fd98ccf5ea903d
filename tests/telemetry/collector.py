"""An OpenTelemetry collector that keeps what it is sent."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from tests.gateway.posts import Post, posts

KINDS = {ProtoSpan.SPAN_KIND_SERVER: "server", ProtoSpan.SPAN_KIND_CLIENT: "client"}


@dataclass(frozen=True)
class Received:
    """A span as it was received. Ids are in hexadecimal, empty for none."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Collector:
    """What was received. While `status` is not 200, requests are refused with it."""

    url: str = ""
    status: int = 200
    spans: list[Received] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    refused: int = 0

    def wait_for(self, count: int, seconds: float = 15.0) -> list[Received]:
        """The spans, once there are so many."""
        until = time.monotonic() + seconds
        while len(self.spans) < count:
            assert time.monotonic() < until, f"{len(self.spans)} spans of {count}"
            time.sleep(0.01)
        return self.spans

    def take(self, data: bytes) -> None:
        """Keep what a request holds."""
        self.raw.append(data)
        for group in ExportTraceServiceRequest.FromString(data).resource_spans:
            resource = _values(group.resource.attributes)
            for scope in group.scope_spans:
                assert scope.scope.name == "dragoman"
                self.spans += [_received(span, resource) for span in scope.spans]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


def _received(span: ProtoSpan, resource: dict[str, Any]) -> Received:
    return Received(
        name=span.name,
        kind=KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        failed=span.status.code == 2,
        attributes=_values(span.attributes),
        resource=resource,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve on loopback."""
    collector = Collector()

    def answer(post: Post) -> tuple[int, bytes]:
        if collector.status == 200:
            assert post.path == "/v1/traces"
            is_packed = post.headers.get("content-encoding") == "gzip"
            collector.take(gzip.decompress(post.body) if is_packed else post.body)
        else:
            collector.refused += 1
        return collector.status, ExportTraceServiceResponse().SerializeToString()

    with posts(answer) as found:
        collector.url = found.url
        yield collector

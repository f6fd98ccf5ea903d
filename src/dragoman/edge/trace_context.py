"""The trace that a request belongs to, from the headers (W3C Trace Context, level 1)."""

from __future__ import annotations

import random
import re

from msgspec import Struct

HEADER = b"traceparent"

_HEADER = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class TraceContext(Struct, frozen=True):
    """A span of some trace. `sampled` is what its maker says of the whole trace."""

    trace_id: int
    span_id: int
    sampled: bool = False

    def header(self) -> str:
        """The value of `traceparent` that makes this span the parent of what is called."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def parse(value: bytes) -> TraceContext | None:
    """The span that a `traceparent` names; None for one that is invalid, which is to be ignored
    (section 3.2)."""
    found = _HEADER.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    context = TraceContext(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))
    return context if context.trace_id and context.span_id else None


def new_trace_id() -> int:
    """A random id of a trace, never 0."""
    return random.getrandbits(128) or 1


def new_span_id() -> int:
    """A random id of a span, never 0."""
    return random.getrandbits(64) or 1


class RequestTrace(Struct, gc=False):
    """The trace of one request while it is served. `parent_id` is the span of the client, 0 for
    none; `sampled` is whether it is traced whatever becomes of it. `call_id` is the span of the
    call of the model, 0 until it is asked for."""

    trace_id: int
    parent_id: int
    sampled: bool
    call_id: int = 0

    def call(self) -> TraceContext:
        """The span of the call of the model, which upstreams may be sent."""
        if not self.call_id:
            self.call_id = new_span_id()
        return TraceContext(self.trace_id, self.call_id, self.sampled)

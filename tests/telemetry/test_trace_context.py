"""What `traceparent` says, as the recommendation has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.edge.trace_context import TraceContext, parse

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_good_one() -> None:
    found = parse(GOOD)
    assert found == TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True)
    assert parse(b" " + GOOD + b"\t") == found


def test_a_later_version_may_say_more() -> None:
    assert parse(b"01" + GOOD[2:] + b"-what-comes-then") == parse(GOOD)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"garbage",
        GOOD[:-1],
        GOOD + b"-more",
        GOOD.upper(),
        b"ff" + GOOD[2:],
        GOOD.replace(b"4bf92f3577b34da6a3ce929d0e0e4736", b"0" * 32),
        GOOD.replace(b"00f067aa0ba902b7", b"0" * 16),
        GOOD.replace(b"4", b"g", 1),
        GOOD + b", " + GOOD,
    ],
)
def test_what_is_invalid_is_ignored(value: bytes) -> None:
    assert parse(value) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read(trace_id: int, span_id: int, sampled: bool) -> None:
    context = TraceContext(trace_id, span_id, sampled)
    assert parse(context.header().encode()) == context


@given(st.binary(max_size=80))
def test_anything_is_read(value: bytes) -> None:
    parse(value)

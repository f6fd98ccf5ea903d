"""Tool calls of a Chat stream, put together from fragments of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import Text, ToolCall
from dragoman.canonical.events import Closed, Delta, Opened
from dragoman.canonical.sequencer import Sequencer
from dragoman.protocols.settings import make_options
from tests.folded import fold
from tests.protocols.openai_chat.helpers import (
    CALLS,
    chunk,
    failure,
    first_fragment,
    fold_chunks,
    fragment,
    inbound,
    read_chunks,
    read_stream,
    sse,
)


def calls_of(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls in chunks."""
    blocks = fold_chunks(*chunks, CALLS).blocks
    return [(b.id, b.name, b.arguments) for b in blocks if isinstance(b, ToolCall)]


def test_official_fragments() -> None:
    assert calls_of(
        first_fragment(0, "c1", "f"),
        fragment(0, '{"a"'),
        fragment(0, ":1}"),
        first_fragment(1, "c2", "g"),
        fragment(1, "{}"),
    ) == [("c1", "f", '{"a":1}'), ("c2", "g", "{}")]


def test_a_call_closes_as_soon_as_the_next_begins_if_it_is_whole() -> None:
    events = read_chunks(first_fragment(0, "c1", "f", "{}"), first_fragment(1, "c2", "g", "{"))
    opened = events.index(Opened(1, ToolCall(id="c2", name="g")))
    assert events.index(Closed(0)) < opened


def test_interleaved_calls_both_stay_open() -> None:
    """Alternating fragments; the sequencer puts one call after the other."""
    events = read_chunks(
        first_fragment(0, "c1", "f"),
        first_fragment(1, "c2", "g"),
        fragment(0, '{"a"'),
        fragment(1, '{"b"'),
        fragment(0, ":1}"),
        fragment(1, ":2}"),
        CALLS,
    )
    assert [(b.id, b.arguments) for b in fold(events).blocks if isinstance(b, ToolCall)] == [
        ("c1", '{"a":1}'),
        ("c2", '{"b":2}'),
    ]
    sequencer = Sequencer()
    ordered = [done for event in events for done in sequencer.push(event)]
    assert fold(ordered) == fold(events)
    indexes = [e.index for e in ordered if isinstance(e, Opened | Delta | Closed)]
    assert indexes == sorted(indexes)


def test_interleaved_calls_can_be_an_error() -> None:
    given = inbound(options=make_options(interleaved_tools="error"))
    events = read_chunks(
        first_fragment(0, "c1", "f"), first_fragment(1, "c2", "g"), fragment(0, '{"a"'), given=given
    )
    assert "goes on" in failure(events)


def test_more_of_a_closed_call_is_an_error_unless_blank() -> None:
    whole = (first_fragment(0, "c1", "f", "{}"), first_fragment(1, "c2", "g", "{}"))
    assert "goes on" in failure(read_chunks(*whole, fragment(0, "x")))
    assert calls_of(*whole, fragment(0, " "), fragment(0, "")) == [
        ("c1", "f", "{}"),
        ("c2", "g", "{}"),
    ]


@pytest.mark.parametrize(
    ("name", "chunks"),
    [
        (
            "every index 0",
            (first_fragment(0, "c1", "f", '{"a":1}'), first_fragment(0, "c2", "g", '{"b":2}')),
        ),
        (
            "no index",
            (
                first_fragment(None, "c1", "f"),
                fragment(None, '{"a":1}'),
                first_fragment(None, "c2", "g", '{"b":2}'),
            ),
        ),
        (
            "id and name repeated",
            (
                first_fragment(0, "c1", "f", '{"a"'),
                first_fragment(0, "c1", "f", ":1}"),
                first_fragment(1, "c2", "g", '{"b":2}'),
                first_fragment(1, "c2", "g", ""),
            ),
        ),
        (
            "a new id with every fragment",
            (
                first_fragment(0, "c1", "f"),
                fragment(0, '{"a":1}', id="zz1"),
                first_fragment(1, "c2", "g"),
                fragment(1, '{"b":2}', id="zz2"),
            ),
        ),
        (
            "id after the name",
            (
                fragment(0, "", name="f"),
                fragment(0, '{"a"', id="c1"),
                fragment(0, ":1}"),
                first_fragment(1, "c2", "g", '{"b":2}'),
            ),
        ),
        (
            "name after the arguments began",
            (
                fragment(0, '{"a"', id="c1"),
                fragment(0, ":1}", name="f"),
                first_fragment(1, "c2", "g", '{"b":2}'),
            ),
        ),
        (
            "arguments as an object",
            (
                chunk(
                    {
                        "tool_calls": [
                            {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}},
                            {"id": "c2", "function": {"name": "g", "arguments": {"b": 2}}},
                        ]
                    }
                ),
            ),
        ),
        (
            "a first fragment without arguments",
            (
                fragment(0, None, id="c1", name="f"),
                fragment(0, '{"a":1}'),
                first_fragment(1, "c2", "g", '{"b":2}'),
            ),
        ),
    ],
)
def test_what_compatible_servers_do(name: str, chunks: Any) -> None:
    assert calls_of(*chunks) == [("c1", "f", '{"a":1}'), ("c2", "g", '{"b":2}')]


def test_missing_ids_are_minted() -> None:
    """The same answer gives the same ids, another answer other ones."""
    chunks = (fragment(0, "{}", name="f"), fragment(0, "{}", name="f", id=""))
    (one, two) = calls_of(*chunks)
    assert one[0] != two[0]
    assert (one, two) == tuple(calls_of(*chunks))
    assert all(call[0].startswith("call_") for call in (one, two))
    other = {**chunk({"role": "assistant"}), "id": "up_2"}
    answer = fold(read_stream(sse(other, *chunks, CALLS)))
    assert [b.id for b in answer.blocks if isinstance(b, ToolCall)] != [one[0], two[0]]


def test_legacy_function_calls() -> None:
    (call,) = calls_of(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
    )
    assert call[1:] == ("f", "{}")


def test_custom_tools() -> None:
    head = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "f", "input": ""}}
    answer = fold_chunks(
        chunk({"tool_calls": [head]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "free"}}]}),
        CALLS,
    )
    assert answer.blocks == (ToolCall(id="c1", name="f", arguments="free", custom=True),)


def test_a_call_without_a_name_is_an_error() -> None:
    assert "no name" in failure(read_chunks(fragment(0, "{}", id="c1"), CALLS))


def test_text_after_a_call() -> None:
    answer = fold_chunks(first_fragment(0, "c1", "f", "{}"), chunk({"content": "a"}), CALLS)
    assert [type(block) for block in answer.blocks] == [ToolCall, Text]

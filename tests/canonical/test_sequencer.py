"""The sequencer: one open block at a time, nothing lost, order of opening kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Text
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.events import Closed, Delta, Ended, Event, Failed, Finished, Opened, Started
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.grammar import State, step
from dragoman.canonical.sequencer import Sequencer
from tests.folded import fold

STOP = Finished(Finish(FinishReason.STOP))


def run(events: list[Event]) -> list[Event]:
    sequencer = Sequencer()
    return [ordered for event in events for ordered in sequencer.push(event)]


def test_events_in_order_pass_at_once() -> None:
    sequencer = Sequencer()
    for event in (Opened(0, Text(text="")), Delta(0, "a"), Closed(0), STOP, Ended()):
        assert sequencer.push(event) == [event]


def test_a_second_block_waits_for_the_first() -> None:
    events: list[Event] = [
        Opened(0, Text(text="")),
        Opened(1, Text(text="")),
        Delta(1, "b"),
        Delta(0, "a"),
        Closed(1),
        Closed(0),
        STOP,
    ]
    assert run(events) == [
        Opened(0, Text(text="")),
        Delta(0, "a"),
        Closed(0),
        Opened(1, Text(text="")),
        Delta(1, "b"),
        Closed(1),
        STOP,
    ]


def test_an_unfinished_waiting_block_streams_on_once_it_is_its_turn() -> None:
    sequencer = Sequencer()
    for event in (Opened(0, Text(text="")), Opened(1, Text(text="")), Delta(1, "b")):
        sequencer.push(event)
    assert sequencer.push(Closed(0)) == [Closed(0), Opened(1, Text(text="")), Delta(1, "b")]
    assert sequencer.push(Delta(1, "c")) == [Delta(1, "c")]


def test_a_failure_discards_what_waits() -> None:
    failed = Failed(Fault(FaultKind.UPSTREAM_FAILED, "gone"))
    assert run([Opened(0, Text(text="")), Opened(1, Text(text="")), failed])[-1] == failed


@given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]))
def test_any_interleaving_becomes_legal_and_keeps_every_text(order: list[int]) -> None:
    """However an upstream interleaves, the writer sees the grammar and the fold is the same."""
    last = {index: len(order) - 1 - order[::-1].index(index) for index in set(order)}
    events: list[Event] = [Started("id", "m")]
    opened: set[int] = set()
    for position, index in enumerate(order):
        if index not in opened:
            opened.add(index)
            events.append(Opened(index, Text(text="")))
        events.append(Delta(index, f"{index}.{position} "))
        if position == last[index]:
            events.append(Closed(index))
    events += [STOP, Ended()]
    ordered = run(events)
    state = State.NEW
    for event in ordered:
        state = step(state, event)
    assert state is State.OVER
    assert sorted(map(repr, ordered)) == sorted(map(repr, events))
    assert fold(ordered).blocks == fold(events).blocks

"""The legal order of stream events, as a table.

Every stream writer steps through it, so a stage that breaks the order is found at the event
that broke it and not in a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from dragoman.canonical import events as ev
from dragoman.canonical.errors import IllegalEvent


class State(StrEnum):
    """The state of a stream; text, because the hash of other members is computed in Python."""

    NEW = "new"
    IDLE = "idle"
    OPEN = "open"
    FINISHED = "finished"
    OVER = "over"


_BLOCK_EVENTS = (ev.Delta, ev.PartBreak, ev.Annotated, ev.Sealed)

TRANSITIONS: dict[tuple[State, type], State] = {
    (State.NEW, ev.Started): State.IDLE,
    (State.IDLE, ev.Opened): State.OPEN,
    (State.OPEN, ev.Closed): State.IDLE,
    (State.IDLE, ev.Finished): State.FINISHED,
    (State.FINISHED, ev.Ended): State.OVER,
    **{(State.OPEN, event): State.OPEN for event in _BLOCK_EVENTS},
    **{(state, ev.Metered): state for state in (State.IDLE, State.OPEN, State.FINISHED)},
    **{
        (state, ev.Failed): State.OVER
        for state in (State.NEW, State.IDLE, State.OPEN, State.FINISHED)
    },
}
"""(state, event type) to the next state; what is not here is illegal."""

NEXT: dict[State, dict[type, State]] = {state: {} for state in State}
"""The same by state: event type to the next state."""
for (_state, _event), _after in TRANSITIONS.items():
    NEXT[_state][_event] = _after


def illegal(state: State, event: ev.Event) -> IllegalEvent:
    """The error of an event that the grammar does not allow in `state`."""
    return IllegalEvent(f"{type(event).__name__} is illegal in state {state.name}")


def step(state: State, event: ev.Event) -> State:
    """The state after `event`.

    Raises:
        IllegalEvent: the grammar does not allow `event` in `state`.
    """
    try:
        return NEXT[state][type(event)]
    except KeyError:
        raise illegal(state, event) from None


Handler = TypeVar("Handler")


def steps(handlers: Mapping[type, Handler]) -> dict[State, dict[type, tuple[State, Handler]]]:
    """The transitions of the events that have a handler, as in `NEXT`, each with its handler."""
    return {
        state: {kind: (after, handlers[kind]) for kind, after in legal.items() if kind in handlers}
        for state, legal in NEXT.items()
    }

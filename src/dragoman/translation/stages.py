"""The stages behind a reader: what it finds in tags, and the searches of the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dragoman.canonical.events import Event
from dragoman.canonical.tagged import TaggedReasoning
from dragoman.canonical.tagged_calls import TaggedCalls
from dragoman.translation.searching import Searching

Stage: TypeAlias = TaggedReasoning | TaggedCalls | Searching


def staged(stage: Stage, events: Iterable[Event]) -> list[Event]:
    """What events become behind a stage: the rest of them, once it is over, stays as it is."""
    passed: list[Event] = []
    left = iter(events)
    for event in left:
        passed += stage.push(event)
        if stage.over:
            passed += left
    return passed

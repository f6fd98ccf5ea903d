"""A stream of the client's own protocol shows what it would show if it were translated.

What is exact passes byte for byte; from the first event on that is not, the same reader and writer
go on as between two protocols. So a damaged stream succeeds or fails as it does there, with the
same texts, reasoning and calls. DRAGOMAN_FUZZ_STREAMS sets how many are tried.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.fuzz.counts import STREAMS
from tests.fuzz.passing import passing, reading, shown, translating
from tests.fuzz.streams import (
    BATCHES,
    STEPS,
    Damaged,
    damage,
    encoded,
    is_told,
)
from tests.losses.requests import CHAT

PROTOCOLS = tuple(STEPS)


def check(protocol: str, made: Damaged) -> bool:
    """Whether a damaged stream succeeded; if it did, it says what the upstream's says."""
    stream = encoded([step.event for step in made.steps], named=made.named)
    found = reading(protocol, *shown(passing(protocol), stream))
    told = reading(protocol, *shown(translating(protocol), stream))
    if found is not None and told is not None and None in found.ids:
        found.ids = told.ids  # which are made up
    assert found == told, stream.decode()
    if found is None:
        return False
    assert len(set(found.ids)) == len(found.calls), stream.decode()
    assert is_told(found, made), f"{found} of {stream.decode()}"
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_stream_is_shown_as_a_translated_one_is(batch: int) -> None:
    rng = random.Random(100 + batch)
    outcomes = {True: 0, False: 0}
    for number in range(STREAMS // BATCHES):
        protocol = PROTOCOLS[number % len(PROTOCOLS)]
        made = damage(rng, protocol, rng.choice(STEPS[protocol]))
        try:
            outcomes[check(protocol, made)] += 1
        except AssertionError as error:
            pytest.fail(f"{protocol}: {error}")

    assert min(outcomes.values()) > STREAMS // BATCHES // 10, "the damage is too small or too great"


def test_a_finish_reason_after_each_piece_is_not_the_end() -> None:
    pieces = [({"role": "assistant", "content": "Hel"}, None), ({}, "stop")]
    pieces += [({"content": "lo"}, None), ({}, "stop")]
    chunks = [
        {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in pieces
    ]
    stream = encoded([*chunks, "[DONE]"], named=False)
    found = reading(CHAT, *shown(passing(CHAT), stream))
    assert found is not None
    assert found.text == "Hello"


def model_in(events: list[Any]) -> str:
    """The model that a stream names."""
    first = events[0]
    holder = first.get("message") or first.get("response") or first
    return str(holder.get("model") or holder["modelVersion"])


def is_own(protocol: str, event: Any) -> bool:
    """Whether an event is one of the protocol: only Chat has a terminator of its own."""
    return protocol == CHAT or isinstance(event, dict)


def is_listed(events: list[Any]) -> bool:
    """Whether the last event has all of the output, where it is to have it."""
    last = events[-1]
    return not isinstance(last, dict) or bool(last.get("response", {"output": 1})["output"])


EXACT = [
    pytest.param(protocol, events, id=f"{protocol}-{number}")
    for protocol in PROTOCOLS
    for number, steps in enumerate(STEPS[protocol])
    if is_listed(events := [step.event for step in steps if is_own(protocol, step.event)])
]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(("protocol", "events"), EXACT)
def test_an_exact_stream_passes_byte_for_byte(protocol: str, events: list[Any], size: int) -> None:
    """Wherever it is cut."""
    stream = encoded(events, named=True)
    answer = passing(protocol, model_in(events)).open_stream()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert b"".join(map(answer.feed, pieces)) + answer.finish() == stream
    assert answer.outcome.ended


def oddly(event: Any) -> Any:
    """An event that says the same as one of the protocol, and is not exact."""
    if event.get("choices"):
        return {**event, "choices": [{**event["choices"][0], "index": "0"}]}
    if event.get("candidates"):
        return {**event, "candidates": [{**event["candidates"][0], "index": "0"}]}
    if "index" in event:
        return {**event, "index": str(event["index"])}
    if "output_index" in event:
        return {**event, "output_index": event["output_index"] + 0.5}
    return event


@pytest.mark.parametrize(("protocol", "events"), EXACT)
def test_an_odd_event_anywhere_leaves_one_answer(protocol: str, events: list[Any]) -> None:
    """What came before it is neither shown again nor lost."""
    whole = reading(protocol, *shown(passing(protocol), encoded(events, named=True)))
    assert whole is not None
    for at, event in enumerate(events[:-1]):
        made = encoded([*events[:at], oddly(event), *events[at + 1 :]], named=True)
        assert reading(protocol, *shown(passing(protocol), made)) == whole, made.decode()

"""Whatever an upstream's stream holds, its text, calls and reasoning arrive, or it fails openly.

The property: if a client is told that an answer succeeded, then it was shown every text and all
reasoning of the upstream's stream, once, and its calls, as many as there were, each with its name
and arguments, in their order, and under ids that differ. Real streams have their indexes, ids,
names, terminators and order damaged, events left out and sent twice, and are written in the shapes
of other servers (`spellings`); what they say is read before that (`readings`).
DRAGOMAN_FUZZ_STREAMS sets how many are tried.
"""

from __future__ import annotations

import copy
import random

import msgspec
import pytest

from tests.checkers import CHECKERS
from tests.fuzz.counts import STREAMS
from tests.fuzz.readings import reading_of
from tests.fuzz.spellings import SPELLINGS, Spelling
from tests.fuzz.streams import (
    BATCHES,
    LENIENT,
    STEPS,
    Damaged,
    damage,
    decoded,
    encoded,
    is_told,
)
from tests.library import translate_request
from tests.losses.clients import asking

PROTOCOLS = tuple(STEPS)


def check(client: str, upstream: str, made: Damaged) -> bool:
    """Whether the stream succeeded; if it did, it says what the upstream's says."""
    body = asking(client, stream=True)
    call = translate_request(client, upstream, msgspec.json.encode(body), options=LENIENT)
    translator = call.open_stream()
    stream = encoded([step.event for step in made.steps], named=made.named)
    shown = translator.feed(stream) + translator.finish()
    assert translator.over
    if not CHECKERS[client](shown).succeeded:
        return False
    found = reading_of(client, decoded(shown))
    assert len(set(found.ids)) == len(found.calls)
    assert is_told(found, made), f"{found} of {stream.decode()}"
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_that_is_said_arrives_or_the_answer_fails(batch: int) -> None:
    rng = random.Random(batch)
    outcomes = {True: 0, False: 0}
    for number in range(STREAMS // BATCHES):
        upstream = PROTOCOLS[number % len(PROTOCOLS)]
        made = damage(rng, upstream, rng.choice(STEPS[upstream]))
        for client in rng.sample([one for one in PROTOCOLS if one != upstream], 2):
            try:
                outcomes[check(client, upstream, made)] += 1
            except AssertionError as error:
                pytest.fail(f"{upstream} to {client}: {error}")

    assert min(outcomes.values()) > STREAMS // BATCHES // 10, "the damage is too small or too great"


@pytest.mark.parametrize(
    ("upstream", "spelling"),
    [
        pytest.param(upstream, spelling, id=f"{upstream}{spelling.__name__}")
        for upstream in PROTOCOLS
        for spelling in SPELLINGS[upstream]
    ],
)
def test_other_shapes_say_the_same_or_fail(upstream: str, spelling: Spelling) -> None:
    rng = random.Random(spelling.__name__)
    outcomes = {True: 0, False: 0}
    for steps in STEPS[upstream] * 8:
        made = Damaged(spelling(rng, copy.deepcopy(steps)))
        for client in PROTOCOLS:
            if client != upstream:
                outcomes[check(client, upstream, made)] += 1
    assert outcomes[True] > outcomes[False], f"{spelling.__name__} is read by nobody: {outcomes}"


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_the_streams_themselves_arrive(upstream: str) -> None:
    for steps in STEPS[upstream]:
        for client in PROTOCOLS:
            if client != upstream:
                assert check(client, upstream, Damaged(steps))

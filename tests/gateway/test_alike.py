"""Conversations that begin alike, of clients that do not name them, such as parallel samples."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import text_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.conversations import KEYS, Conversation, keys_of, rest

TRANSLATED = [
    pair for pair in itertools.product(["messages", "responses"], repeat=2) if pair[0] != pair[1]
]


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
def test_each_goes_back_to_the_account_that_holds_its_reasoning(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    config = config_for(simulator.base_url, keys=KEYS)
    upstreams = [replace(entry, reasoning_bound_to="account") for entry in config.upstreams]
    gateway = start(replace(config, upstreams=tuple(upstreams)))
    talks = [Conversation(gateway, client, f"{upstream}/sim-reasoning_roundtrip") for _ in KEYS]
    for talk in talks:
        talk.say("Hello")
    assert keys_of(simulator) == list(KEYS)
    for _ in range(2):
        simulator.app.requests.clear()
        for talk in talks:
            answer = talk.say("Go on.")
            assert "reasoning verified" in text_of(client, answer), answer.body
            assert ":knob" not in answer.headers.get("x-dragoman-losses", "")
        assert keys_of(simulator) == list(KEYS)


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
def test_one_whose_account_is_out_moves_and_stays_where_it_moved(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    config = config_for(simulator.base_url, keys=KEYS[:2])
    upstreams = [replace(entry, reasoning_bound_to="account") for entry in config.upstreams]
    gateway = start(replace(config, upstreams=tuple(upstreams)))
    talk = Conversation(gateway, client, f"{upstream}/sim-reasoning")
    talk.say()
    rest(gateway, simulator, KEYS[0])
    for _ in range(2):
        talk.say("Go on.")
    assert keys_of(simulator) == [KEYS[0], KEYS[0], KEYS[1], KEYS[1]]

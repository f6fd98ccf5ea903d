"""A conversation stays with the account that holds its prompt cache and can read its reasoning;
where it cannot stay, reasoning goes missing openly instead of failing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Secret
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.serving.affinity import (
    NO_KEYS,
    ConversationKeys,
    ForeignReasoning,
    conversation_keys,
)
from dragoman.translation import ClientRequest
from tests.gateway.clients import APIS, body, completed, text_of
from tests.gateway.conftest import PROTOCOLS, Start, config_for
from tests.gateway.conversations import KEYS, Conversation, keys_of, rest
from tests.gateway.http import Answer, call

CELLS = list(itertools.product(APIS, APIS))


@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_a_conversation_stays(
    start: Start, simulator: RunningSimulator, client: str, upstream: str
) -> None:
    """And what its account signed arrives there again."""
    gateway = start(keys=KEYS)
    held_state = client != "chat" and upstream != "chat"
    model = f"{upstream}/sim-reasoning" + ("_roundtrip" if held_state else "")
    talks = [Conversation(gateway, client, model) for _ in KEYS]
    for number, talk in enumerate(talks):
        talk.say(f"Hello {number}")
    assert keys_of(simulator) == list(KEYS)
    for _ in range(2):
        for talk in reversed(talks):
            answer = talk.say("Go on.")
            if held_state:
                assert "reasoning verified" in text_of(client, answer), answer.body
    assert keys_of(simulator)[3:] == [*reversed(KEYS), *reversed(KEYS)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_it_moves_when_its_account_rests(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, stream: bool
) -> None:
    """Without the reasoning that its new account could not read, which is reported."""
    config = config_for(simulator.base_url, keys=KEYS[:2])
    upstreams = [replace(entry, reasoning_bound_to="account") for entry in config.upstreams]
    gateway = start(replace(config, upstreams=tuple(upstreams)))
    talk = Conversation(gateway, client, f"{upstream}/sim-reasoning")
    talk.say()
    rest(gateway, simulator, KEYS[0])
    answer = talk.say("Go on.", stream=stream)
    if stream:
        assert completed(client, answer.body)
    assert keys_of(simulator) == [KEYS[0], KEYS[0], KEYS[1]]
    held_state = client != "chat" and upstream != "chat"
    assert ("x-dragoman-losses" in answer.headers) is (
        held_state or bool(answer.headers.get("x-dragoman-losses"))
    )
    if held_state:
        assert ":knob" in answer.headers["x-dragoman-losses"]
        sent = json.dumps(simulator.last.json)
        assert "gAAAA" not in sent
        assert "signature" not in sent
    simulator.app.requests.clear()
    if not stream:
        talk.say("And on.")
        assert keys_of(simulator) == [KEYS[1]]
        assert simulator.last.status == 200


@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_refused_after_all_is_sent_without(
    start: Start, simulator: RunningSimulator, client: str, stream: bool
) -> None:
    """A worker that knows nothing of the conversation learns it from the upstream's refusal."""
    for upstream in ("messages", "responses"):
        first = start(keys=KEYS[:1])
        talk = Conversation(first, client, f"{upstream}/sim-reasoning")
        talk.say()
        config = config_for(simulator.base_url, keys=KEYS[1:2])
        upstreams = [replace(entry, reasoning_bound_to="upstream") for entry in config.upstreams]
        talk.gateway = start(replace(config, upstreams=tuple(upstreams)))
        simulator.app.requests.clear()
        answer = talk.say("Go on.", stream=stream)
        assert [request.status for request in simulator.requests] == [400, 200]
        assert ":knob" in answer.headers["x-dragoman-losses"]


def test_a_400_of_another_kind_is_not_repeated(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(keys=KEYS)
    talk = Conversation(gateway, "responses", "responses/sim-reasoning")
    talk.say()
    talk.made["temperature"] = 100
    simulator.app.requests.clear()
    talk.made["input"].append({"role": "user", "content": "Go on."})
    answer = call(gateway.base_url, "POST", "/v1/responses", talk.made)
    assert answer.status == 400
    assert len(simulator.requests) == 1


def test_two_clients_with_equal_conversations_are_apart(
    start: Start, simulator: RunningSimulator
) -> None:
    clients = tuple(Client(name=name, key=Secret(f"sk-test-{name}")) for name in ("ann", "bob"))
    gateway = start(keys=KEYS[:2], clients=clients)
    talks = [
        Conversation(gateway, "messages", "responses/sim-reasoning_roundtrip", f"sk-test-{name}")
        for name in ("ann", "bob")
    ]
    for _ in range(3):
        for talk in talks:
            talk.say()
    assert keys_of(simulator) == list(KEYS[:2]) * 3


@pytest.mark.parametrize(
    "name", ["x-claude-code-session-id", "session-id", "x-session-affinity", "x-session-id"]
)
def test_a_session_names_itself(start: Start, simulator: RunningSimulator, name: str) -> None:
    """Also where its requests have nothing else in common."""
    gateway = start(keys=KEYS)
    for text in ("One", "Two", "Three"):
        Conversation(gateway, "chat", "chat/sim-text").say(text, headers={name: "s-1"})
    assert len(set(keys_of(simulator))) == 1
    Conversation(gateway, "chat", "chat/sim-text").say("One", headers={name: "s-2"})
    assert len(set(keys_of(simulator))) == 2


def test_first_requests_take_turns(start: Start, simulator: RunningSimulator) -> None:
    """However equal they are: nothing of theirs is anywhere yet. req: 140"""
    gateway = start(keys=KEYS)
    for _ in range(2):
        for _ in KEYS:
            Conversation(gateway, "messages", "chat/sim-text").say()
    assert keys_of(simulator) == [*KEYS, *KEYS]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stored_response_is_asked_for_where_it_is(
    start: Start, simulator: RunningSimulator, stream: bool
) -> None:
    """Only the account that made a response knows it."""
    config = config_for(simulator.base_url, keys=KEYS)
    upstreams = [
        replace(entry, stored_responses="pass") if entry.name == "responses" else entry
        for entry in config.upstreams
    ]
    gateway = start(replace(config, upstreams=tuple(upstreams)))
    made = body("responses", "responses/sim-text", store=True, stream=stream)
    names = []
    for _ in KEYS:
        answer = call(gateway.base_url, "POST", "/v1/responses", made)
        assert answer.status == 200
        names.append(_id_of(answer, stream))
    for name in (names[2], names[0], names[1]):
        call(gateway.base_url, "POST", "/v1/responses", {**made, "previous_response_id": name})
    assert keys_of(simulator)[3:] == [KEYS[2], KEYS[0], KEYS[1]]


def _id_of(answer: Answer, stream: bool) -> str:
    if not stream:
        return str(answer.json["id"])
    first = answer.body.split(b"data: ")[1].split(b"\n")[0]
    return str(json.loads(first)["response"]["id"])


def test_it_can_be_off(start: Start, simulator: RunningSimulator) -> None:
    config = config_for(simulator.base_url, keys=KEYS)
    upstreams = [replace(entry, affinity="off") for entry in config.upstreams]
    gateway = start(replace(config, upstreams=tuple(upstreams)))
    talk = Conversation(gateway, "messages", "chat/sim-text")
    for _ in KEYS:
        talk.say()
    assert keys_of(simulator) == list(KEYS)


def keys_for(
    made: dict[str, Any], headers: dict[bytes, bytes] | None = None, **how: Any
) -> ConversationKeys:
    client, upstream = how.get("client", "ann"), how.get("upstream", "openai")
    request = ClientRequest(PROTOCOLS["responses"], json.dumps({"model": "m", **made}).encode())
    return conversation_keys(headers or {}, request, client, upstream, how.get("native", True))


class TestTheKey:
    """What names a conversation, in order."""

    SESSION = {b"session-id": b"s"}  # noqa: RUF012 - never changed
    MORE = {"input": [{"role": "user", "content": "Hi"}, {"type": "reasoning", "summary": []}]}  # noqa: RUF012

    def test_the_order(self) -> None:
        everything = {**self.MORE, "previous_response_id": "resp_1", "prompt_cache_key": "k"}
        by_response = keys_for(everything, self.SESSION)
        by_session = keys_for({**self.MORE, "prompt_cache_key": "k"}, self.SESSION)
        by_cache = keys_for({**self.MORE, "prompt_cache_key": "k"})
        by_beginning = keys_for(self.MORE)
        found = [made.lookup for made in (by_response, by_session, by_cache, by_beginning)]
        assert len(set(found)) == 4
        assert all(len(key) == 16 for key in found)
        assert by_response.aliases == (by_session.lookup,)
        assert keys_for(everything, self.SESSION, native=False) == by_session

    def test_a_first_request_is_only_remembered(self) -> None:
        assert keys_for({"input": "Hi"}) == ConversationKeys(b"", (keys_for(self.MORE).lookup,))

    def test_clients_and_upstreams_are_apart(self) -> None:
        made = {"prompt_cache_key": "k"}
        found = {keys_for(made), keys_for(made, client="bob"), keys_for(made, upstream="other")}
        assert len(found) == 3

    @pytest.mark.parametrize("odd", [1, None, [], ""])
    def test_odd_values(self, odd: Any) -> None:
        made = {"prompt_cache_key": odd, "previous_response_id": odd, "input": odd}
        assert keys_for(made) != NO_KEYS


def test_counts_of_foreign_reasoning_are_bounded() -> None:
    foreign = ForeignReasoning()
    for number in range(10_050):
        foreign.record(b"%d" % number, number)
    foreign.record(b"", 3)
    assert foreign.count(b"") == 0
    assert foreign.count(b"49") == 0
    assert foreign.count(b"50") == 50

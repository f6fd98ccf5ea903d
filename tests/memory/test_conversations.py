"""Conversations that go on from stored responses, as the vendor's own SDKs hold them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.memory.conftest import CLIENTS, OTHER_KEY, Start, Talk

TOOLS = [
    {
        "type": "function",
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
]
SETTINGS: dict[str, Any] = {
    "tools": TOOLS,
    "reasoning": {"effort": "low", "summary": "auto"},
    "max_output_tokens": 4000,
}
LATER = 'reasoning_tool?args={"city":"Bern"}'
Make = Callable[..., Talk]


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def result_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The output for every call in a response."""
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "sunny"}
        for item in response["output"]
        if item["type"] == "function_call"
    ]


def replayed(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in item.items() if not name.startswith("parsed")}
        for item in response["output"]
    ]


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize("judge", ["python", "node"])
@pytest.mark.parametrize("mode", ["full", "helper"])
def test_an_upstream_is_told_what_it_would_be_told_of_the_whole(
    start: Start, talk: Make, upstream: str, judge: str, mode: str
) -> None:
    """Five turns with tools and reasoning: by id, and each time sent whole."""
    gateway = start()
    by_id = talk(gateway, judge, mode=mode)
    model = f"{upstream}/sim-{LATER}"
    previous: dict[str, Any] | None = None
    history: list[dict[str, Any]] = []
    asked: list[list[dict[str, Any]]] = [[said("How is Bern?")], [], [said("And now?")], [], []]
    for turn, own in enumerate(asked):
        if previous is not None:
            own = result_of(previous) or own or [said(f"Go on, {turn}.")]
        named = {} if previous is None else {"previous_response_id": previous["id"]}
        answer = by_id.answered(model, input=own, **named, **SETTINGS)
        told = by_id.sent()
        history += own
        whole = by_id.answered(model, input=history, store=False, **SETTINGS)
        assert by_id.sent() == told
        assert answer["previous_response_id"] == (previous["id"] if previous else None)
        assert answer["store"] is True
        assert whole["store"] is False
        history += replayed(answer)
        previous = answer
    assert len(history) > 8
    assert {item["type"] for item in history} >= {"reasoning", "function_call", "message"}


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_reasoning_comes_back_unaltered(start: Start, talk: Make, upstream: str) -> None:
    gateway = start()
    by_id = talk(gateway)
    model = f"{upstream}/sim-reasoning_roundtrip"
    first = by_id.answered(model, input="Think.", **SETTINGS)
    own = [*result_of(first), said("Did you?")]
    second = by_id.ask(model, input=own, previous_response_id=first["id"], **SETTINGS)
    assert second.error is None
    if upstream != "chat":
        # Chat has no place for it, which is reported.
        assert "reasoning verified" in second.text


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_instructions_are_not_inherited(start: Start, talk: Make, upstream: str) -> None:
    gateway = start()
    by_id = talk(gateway)
    model = f"{upstream}/sim-text"
    first = by_id.answered(model, input="Hi", instructions="Speak Latin.")
    assert "Speak Latin." in str(by_id.sent())
    second = by_id.answered(model, input="Hi", previous_response_id=first["id"])
    assert "Speak Latin." not in str(by_id.sent())
    assert second["instructions"] is None


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_conversation_goes_on_after_a_restart(start: Start, talk: Make, upstream: str) -> None:
    model = f"{upstream}/sim-text"
    before = start()
    first = talk(before).answered(model, input="I am Ada.")
    before.stop()
    after = talk(start())
    after.answered(model, input="Who am I?", previous_response_id=first["id"])
    assert "I am Ada." in str(after.sent())


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_conversation_goes_on_at_another_worker(start: Start, talk: Make, upstream: str) -> None:
    """At once: what a client was shown is there wherever it goes next."""
    model = f"{upstream}/sim-text"
    workers = [talk(start(), mode="helper"), talk(start(), mode="helper")]
    previous: dict[str, Any] = {}
    for turn in range(10):
        named = {"previous_response_id": previous["id"]} if previous else {}
        previous = workers[turn % 2].answered(model, input=f"turn {turn}", **named)
    told = str(workers[0].sent())
    assert all(f"turn {turn}" in told for turn in range(10))


def test_an_earlier_response_that_is_not_there(start: Start, talk: Make) -> None:
    """Unknown, deleted, another key's, or absurd: the official error, and nothing is sent."""
    gateway = start()
    by_id = talk(gateway)
    mine = by_id.answered("chat/sim-text", input="Hi")
    other = talk(gateway, key=OTHER_KEY)
    sent = len(by_id.simulator.requests)
    for client, name in (
        (by_id, "resp_unknown"),
        (other, mine["id"]),
        (by_id, "x" * 10_000),
        (by_id, "resp_' OR 1=1 --"),
    ):
        error = client.ask("chat/sim-text", input="Hi", previous_response_id=name).error
        assert error is not None
        assert error.status == 400
        assert error.code == "previous_response_not_found"
        assert len(error.message) < 1000
    assert len(by_id.simulator.requests) == sent


@pytest.mark.parametrize("limit", ["", "max_output_tokens = 50\n"])
def test_an_error_names_the_place_in_what_was_sent(start: Start, talk: Make, limit: str) -> None:
    name = 'name = "me"\n'
    by_id = talk(start(clients=CLIENTS.replace(name, name + limit)))
    first = by_id.answered("responses/sim-text", input="Hi", store=True)
    previous = first["id"]
    error = by_id.ask(
        "responses/sim-text", input=[{"role": 5}], previous_response_id=previous
    ).error
    assert error is not None
    assert (error.status, "input[0].role" in error.message) == (400, True), error.message


def test_what_expired_is_not_there(start: Start, talk: Make) -> None:
    gateway = start(storage="responses_days = 0.00001")
    by_id = talk(gateway)
    first = by_id.answered("chat/sim-text", input="Hi")
    time.sleep(1)
    error = by_id.ask("chat/sim-text", input="Hi", previous_response_id=first["id"]).error
    assert error is not None
    assert error.code == "previous_response_not_found"


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_client_that_wants_nothing_stored_leaves_nothing(
    start: Start, talk: Make, upstream: str, tmp_path: Path
) -> None:
    gateway = start()
    by_id = talk(gateway)
    secret = "the cat is called Schnurrli"
    answer = by_id.answered(f"{upstream}/sim-echo", input=secret, store=False)
    error = by_id.ask(f"{upstream}/sim-text", input="Hi", previous_response_id=answer["id"]).error
    assert error is not None
    assert error.code == "previous_response_not_found"
    gateway.stop()
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes()


def test_items_are_referred_to(start: Start, talk: Make) -> None:
    """An AI SDK client names items that were stored instead of sending them."""
    gateway = start()
    by_id = talk(gateway)
    first = by_id.answered("messages/sim-reasoning", input="Think of Bern.", **SETTINGS)
    names = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    by_id.answered(
        "messages/sim-text", input=[said("Think of Bern."), *names, said("Well?")], **SETTINGS
    )
    referred = by_id.sent()
    unkept = [said("Think of Bern."), *names, said("Well?")]
    by_id.answered("messages/sim-text", input=unkept, store=False, **SETTINGS)
    assert by_id.sent() == referred
    by_id.answered(
        "messages/sim-text",
        input=[said("Think of Bern."), *replayed(first), said("Well?")],
        **SETTINGS,
    )
    assert by_id.sent() == referred
    for client, name in ((by_id, "rs_unknown"), (talk(gateway, key=OTHER_KEY), names[0]["id"])):
        missing = [said("Hi"), {"type": "item_reference", "id": name}]
        error = client.ask("messages/sim-text", input=missing).error
        assert error is not None
        assert error.status == 404
        assert f"Item with id '{name}' not found" in error.message


def test_without_a_store_nothing_is_promised(start: Start, talk: Make) -> None:
    gateway = start(storage="responses = false")
    by_id = talk(gateway)
    answer = by_id.answered("chat/sim-text", input="Hi")
    assert answer["store"] is False
    error = by_id.ask("chat/sim-text", input="Hi", previous_response_id=answer["id"]).error
    assert error is not None
    assert error.code == "previous_response_not_found"


def test_a_client_without_a_name_has_responses_too(start: Start, talk: Make) -> None:
    """With no client keys at all everyone is the same."""
    gateway = start(clients="")
    by_id = talk(gateway)
    first = by_id.answered("chat/sim-text", input="Hi")
    by_id.answered("chat/sim-text", input="Again", previous_response_id=first["id"])
    assert CLIENTS not in str(by_id.sent())

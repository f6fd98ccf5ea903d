"""Telling the simulator what to do: by model name, by directive, in code and by key."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import anthropic
import openai
import pytest

from dragoman.accounts.decide.quota import windows_of
from dragoman.lab.simulator import (
    Failure,
    Fault,
    Pace,
    Reasoning,
    Scenario,
    Text,
)
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.server import create_app
from dragoman.lab.simulator.steering import OPTIONS, Options, steer
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.lab.simulator.view import View
from tests.simulator.requests import (
    PROTOCOLS,
    JsonObject,
    call,
    chat,
    headers_of,
    messages,
    plain,
    post,
    rich,
)


def test_the_model_name_and_the_directive_are_read() -> None:
    steering = steer("any/sim-parallel-tools?delay_ms=5&text=a+b", "Say it.")
    assert steering.scenario == "parallel_tools"
    assert steering.options.integer("delay_ms") == 5
    assert steering.options.text("text") == "a b"
    steering = steer("sim-text?words=3", 'So [[sim: scenario=length words=4 text="two words"]] ok')
    assert steering.scenario == "length"
    assert steering.options.integer("words") == 4
    assert steering.options.text("text") == "two words"
    assert steer("gpt-5.5", "hi").scenario == "demo"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_directive_in_the_last_user_text_steers_any_model(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    body = plain(protocol, "some-model", "Do it [[sim: scenario=error status=503 code=busy]]")
    answer = post(simulator, protocol, body)
    assert answer.status == 503
    simulator.wait_for(lambda: simulator.last.scenario == "error")


def test_only_the_last_user_text_steers(simulator: RunningSimulator) -> None:
    turns = [
        {"role": "user", "content": "[[sim: scenario=error]]"},
        {"role": "assistant", "content": "oh"},
        {"role": "user", "content": "and now?"},
    ]
    assert post(simulator, "chat", {"model": "sim-chat", "messages": turns}).status == 200


def test_a_directive_steers_the_whole_tool_loop(simulator: RunningSimulator) -> None:
    request = rich("messages", "claude")
    request["messages"] = [{"role": "user", "content": "[[sim: scenario=tool text=x]] go"}]
    first = post(simulator, "messages", request).json
    use = first["content"][-1]
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "done"}
    request["messages"] += [
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    second = post(simulator, "messages", request)
    simulator.wait_for(lambda: simulator.last.scenario == "tool")
    assert second.json["content"][-1]["text"] == "The tool answered: done"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_test_brings_its_own_scenario(simulator: RunningSimulator, protocol: Protocol) -> None:
    fixed = Scenario((Reasoning(("hm",)), Text("mine")), pace=Pace(chunks=2))
    simulator.app.scenarios["mine"] = fixed
    simulator.app.scenarios["made"] = lambda view, options: Scenario(
        (Text(f"{view.protocol} {options.text('text')}"),)
    )
    assert b'"mine"' in post(simulator, protocol, plain(protocol, "sim-mine")).body
    streamed = post(simulator, protocol, plain(protocol, "sim-mine", stream=True)).body
    assert b'"mi"' in streamed
    made = post(simulator, protocol, plain(protocol, "sim-made?text=x")).body
    assert f'"{protocol} x"'.encode() in made


def test_keys_behave_as_their_names_say(simulator: RunningSimulator) -> None:
    def status(key: str) -> int:
        return post(simulator, "chat", chat("sim-text"), key=key).status

    assert [status(key) for key in ("sk-sim-1a", "sk-sim-429", "sk-sim-401-b", "other")] == [
        200,
        429,
        401,
        200,
    ]
    assert simulator.app.keys.requests == {
        "sk-sim-1a": 1,
        "sk-sim-429": 1,
        "sk-sim-401-b": 1,
        "other": 1,
    }
    broken = post(simulator, "chat", chat("sim-text", stream=True), key="sk-sim-truncate")
    assert b"[DONE]" not in broken.body


def test_a_key_can_run_dry_and_recover(simulator: RunningSimulator) -> None:
    spent = Fault("error", failure=Failure(402, code="credit_balance_exhausted"), times=2)
    simulator.app.keys.behaviours["sk-sim-a"] = KeyBehaviour(spent, healthy=1)
    answers = [post(simulator, "chat", chat("sim-text"), key="sk-sim-a") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 402, 402, 200]
    assert answers[1].json["error"]["code"] == "credit_balance_exhausted"


def test_a_key_may_be_bound_to_models(simulator: RunningSimulator) -> None:
    simulator.app.keys.behaviours["sk-sim-a"] = KeyBehaviour(models=frozenset({"sim-text"}))
    assert post(simulator, "chat", chat("sim-text"), key="sk-sim-a").status == 200
    assert post(simulator, "chat", chat("sim-chat"), key="sk-sim-a").status == 403


def test_another_process_sees_and_steers(simulator: RunningSimulator) -> None:
    def ask(method: str, path: str, body: Any = None) -> Any:
        answer = call(simulator, method, f"/_sim/{path}", body)
        assert answer.status == 200, answer.body
        return answer.json

    behaviour = {"fault": {"kind": "error", "failure": {"status": 503}}, "healthy": 1}
    ask("PUT", "keys/sk-sim-far", behaviour)
    statuses = [
        post(simulator, "messages", messages("sim-text"), key="sk-sim-far").status for _ in range(2)
    ]
    assert statuses == [200, 503]
    assert ask("GET", "keys") == {"sk-sim-far": 2}
    post(simulator, "chat", chat("sim-text"), key="secret-of-a-user")
    shown = ask("GET", "requests")
    assert [entry["status"] for entry in shown] == [200, 503, 200]
    assert shown[0]["body"] == messages("sim-text")
    assert ["authorization", "Bearer sk-sim-far"] in shown[0]["headers"]
    assert "secret-of-a-user" not in json.dumps(shown)
    assert "parallel_tools" in ask("GET", "scenarios")
    assert set(ask("GET", "options")) == set(OPTIONS)
    ask("DELETE", "requests")
    assert ask("GET", "requests") == []
    assert ask("GET", "keys") == {}
    assert call(simulator, "GET", "/_sim/nothing").status == 404
    assert call(simulator, "PUT", "/_sim/keys/x", {"healthy": "no"}).status == 400


def test_what_is_remembered_is_bounded() -> None:
    with running_simulator(create_app(record=3, record_bytes=10_000)) as simulator:
        for _ in range(5):
            post(simulator, "chat", chat("sim-text"))
        assert len(simulator.requests) == 3
        post(simulator, "chat", chat("sim-text", "x" * 9_900))
        assert len(simulator.requests) == 1


def test_the_model_lists_are_the_vendors_own(
    simulator: RunningSimulator,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
) -> None:
    names = simulator.app.model_names()
    assert [model.id for model in openai_client.models.list()] == names
    assert [model.id for model in anthropic_client.models.list(limit=7)] == names
    assert openai_client.models.retrieve("sim-chat").owned_by
    assert anthropic_client.models.retrieve("sim-messages").lifecycle == "active"
    with pytest.raises(openai.NotFoundError):
        openai_client.models.retrieve("nobody")
    with pytest.raises(anthropic.NotFoundError):
        anthropic_client.models.retrieve("nobody")
    page = call(
        simulator, "GET", "/v1/models?before_id=sim-tool&limit=1", None, headers_of("messages")
    )
    assert page.json["data"][0]["id"] == names[names.index("sim-tool") - 1]
    refused = call(simulator, "GET", "/v1/models?limit=0", None, headers_of("messages"))
    assert refused.status == 400


def test_tokens_are_counted_alike_before_and_in_the_answer(
    simulator: RunningSimulator,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
) -> None:
    question = "How many tokens are there in this text of some words? " * 9
    turns: Any = [{"role": "user", "content": question}]
    counted = anthropic_client.messages.count_tokens(model="sim-text", messages=turns)
    message = anthropic_client.messages.create(model="sim-text", max_tokens=99, messages=turns)
    assert counted.input_tokens == message.usage.input_tokens > 100
    size = openai_client.responses.input_tokens.count(model="sim-text", input=question)
    response = openai_client.responses.create(model="sim-text", input=question)
    assert response.usage is not None
    assert size.input_tokens == response.usage.input_tokens > 100


def test_counting_takes_no_token_limit_but_meets_errors(simulator: RunningSimulator) -> None:
    def count(body: JsonObject) -> int:
        headers = headers_of("messages")
        return call(simulator, "POST", "/v1/messages/count_tokens?beta=true", body, headers).status

    body = messages("sim-text")
    assert count(body) == 400
    del body["max_tokens"]
    assert count(body) == 200
    assert count({**body, "model": "sim-529"}) == 529
    assert count({**body, "model": "sim-tool"}) == 200


def test_a_websocket_is_sent_back_to_http(
    simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator.app, "websockets", False)
    headers = {**headers_of("responses"), "connection": "Upgrade", "upgrade": "websocket"}
    assert call(simulator, "GET", "/v1/responses", None, headers).status == 426


def test_a_model_name_with_options_can_be_looked_up(simulator: RunningSimulator) -> None:
    def path(name: str) -> str:
        return f"/v1/models/{quote(name, safe='')}"

    found = call(simulator, "GET", path("sim-text?chunks=3"), None, headers_of("chat"))
    assert found.json["id"] == "sim-text?chunks=3"
    assert call(simulator, "GET", path("a/b"), None, headers_of("chat")).status == 404


def test_two_simulators_share_nothing() -> None:
    with running_simulator() as one, running_simulator() as other:
        one.app.scenarios["only"] = Scenario((Text("here"),))
        assert post(one, "chat", chat("sim-only")).status == 200
        assert post(other, "chat", chat("sim-only")).status == 404
        assert len(one.requests) == len(other.requests) == 1


def test_a_scenario_sees_the_request() -> None:
    seen: list[View] = []

    def spy(view: View, options: Options) -> Scenario:
        seen.append(view)
        return Scenario((Text("ok"),))

    with running_simulator() as simulator:
        simulator.app.scenarios["spy"] = spy
        for protocol in PROTOCOLS:
            post(simulator, protocol, rich(protocol, "sim-spy"))
    assert [view.user_text for view in seen] == ["Say it."] * 3
    assert [[tool.name for tool in view.tools][:3] for view in seen] == [
        ["get_weather", "get_time", "apply_patch"]
    ] * 3
    assert [view.reasoning_asked for view in seen] == [True] * 3


@pytest.mark.parametrize("protocol", ["messages", "responses"])
def test_answers_to_a_subscription_tell_of_its_windows(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    def told(key: str) -> dict[str, tuple[float, float]]:
        answer = post(simulator, protocol, plain(protocol, "sim-text"), key=key)
        found = windows_of(answer.headers, "sim-text", time.time())
        return {one.name: (one.used, one.resets_at or 0.0) for one in found}

    first, second, other = told("sk-sim-max-a"), told("sk-sim-max-a"), told("sk-sim-max-b")
    assert list(first) == list(other) == ["5h", "7d"]
    assert all(second[name][0] > first[name][0] for name in first)
    assert first != other
    ends = [second[name][1] - time.time() for name in ("5h", "7d")]
    assert 0 < ends[0] <= 5 * 3600
    assert 0 < ends[1] <= 7 * 86400
    assert told("sk-sim-a") == {}

"""Whatever a client does, no limit is passed: what it may cost is reserved, and what it cost is
counted, also where nobody reports it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import OwnPrice
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.serving import exchange
from tests.gateway.clients import APIS, PATHS, body, streamed_text
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.limited import ask, config, limit, serving, told
from tests.gateway.odd_upstream import answering
from tests.websocket.client import Socket

PAIRS = list(itertools.product(APIS, APIS))
BUDGET = limit("cost", "1000", "day", clamp=False)
TOKENS = limit("tokens", 10**9, "day")
LIMIT = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}
PRICES = (
    OwnPrice(model="cheap", input="1", output="1"),
    OwnPrice(model="dear", input="1000", output="1000"),
    OwnPrice(model="sim-*", input="1000", output="1000"),
)


def leave_after_words(
    simulator: RunningSimulator, base_url: str, api: str, model: str, **more: Any
) -> None:
    """Ask for a stream, and leave once something of it came."""
    with Connection(base_url) as client:
        if api == "responses":
            more["store"] = False
        client.send("POST", PATHS[api], body(api, model, stream=True, **more), AUTH)
        assert client.head().status == 200
        seen = b""
        while not streamed_text(api, seen[: seen.rfind(b"\n\n") + 2]):
            seen += client.chunk()


@pytest.mark.parametrize(("api", "upstream"), PAIRS)
def test_who_leaves_before_the_usage_pays_what_is_used(
    simulator: RunningSimulator, api: str, upstream: str
) -> None:
    """The answer is read on: what it costs is not seen in its text."""
    model = f"{upstream}/sim-text?words=60&delay_ms=3&input=3000&output=5000"
    with serving(config(simulator.base_url, BUDGET, TOKENS)) as (gateway, lines):
        leave_after_words(simulator, gateway.base_url, api, model)
        simulator.wait_for(lambda: bool(lines))
        used = [one["used"] for one in told(gateway)["limits"]]
    line = lines[0]
    assert line["error"] == "client_gone"
    assert (line["usage"]["input"], line["usage"]["output"]) == (3000, 5000)
    assert used == ["8", 8000]


@pytest.mark.parametrize(("api", "upstream"), [("chat", "chat"), ("messages", "responses")])
def test_what_is_not_read_in_time_counts_as_it_was_reserved(
    simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch, api: str, upstream: str
) -> None:
    monkeypatch.setattr(exchange, "READ_ON_S", 0.05)
    model = f"{upstream}/sim-text?words=3000&delay_ms=20"
    with serving(config(simulator.base_url, BUDGET, TOKENS)) as (gateway, lines):
        leave_after_words(simulator, gateway.base_url, api, model, **{LIMIT[api]: 7000})
        simulator.wait_for(lambda: bool(lines))
        used = [one["used"] for one in told(gateway)["limits"]]
    line = lines[0]
    assert line["estimated"]
    assert line["usage"]["output"] == 7000
    tokens = line["usage"]["input"] + 7000
    assert used == [f"{tokens / 1000:g}", tokens]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("api", "upstream"), [("chat", "chat"), ("messages", "responses")])
def test_who_leaves_before_the_answer_begins_pays_what_is_used(
    simulator: RunningSimulator, api: str, upstream: str, stream: bool
) -> None:
    """Or what was reserved, if that is not known in time."""
    for head_ms, reserved in ((300, False), (30_000, True)):
        model = f"{upstream}/sim-text?input=3000&output=5000&head_ms={head_ms}"
        with (
            pytest.MonkeyPatch.context() as patch,
            serving(config(simulator.base_url, BUDGET, TOKENS)) as (gateway, lines),
        ):
            patch.setattr(exchange, "READ_ON_S", 0.05 if reserved else 20.0)
            before = len(simulator.requests)
            most: dict[str, Any] = {LIMIT[api]: 7000}
            asked = body(api, model, stream=stream, **most)
            with Connection(gateway.base_url) as client:
                client.send("POST", PATHS[api], asked, AUTH)
                simulator.wait_for(lambda: len(simulator.requests) > before)  # noqa: B023
            simulator.wait_for(lambda: bool(lines))
            [_, used] = [one["used"] for one in told(gateway)["limits"]]
        output = lines[0]["usage"]["output"]
        assert (output, "estimated" in lines[0]) == ((7000, True) if reserved else (5000, False))
        assert used == lines[0]["usage"]["input"] + output


UNBELIEVABLE = [{}, "many", {"prompt_tokens": "12", "completion_tokens": 10**12}, None]


@pytest.mark.parametrize("usage", UNBELIEVABLE)
@pytest.mark.parametrize("api", APIS)
def test_usage_that_cannot_be_is_estimated(api: str, usage: Any) -> None:
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "sim-text",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "word " * 100},
                "finish_reason": "stop",
            }
        ],
        "usage": usage,
    }
    encoded = json.dumps(answer).encode()
    with (
        answering(200, "application/json", encoded) as base_url,
        serving(config(base_url, BUDGET)) as (gateway, lines),
    ):
        assert ask(gateway, api, "chat/sim-text", "word " * 400).status == 200
        [shown] = told(gateway)["limits"]
    line = lines[0]
    assert line["estimated"]
    assert line["usage"]["input"] > 400
    assert line["usage"]["output"] > 100
    assert shown["used"] == line["cost_usd"]


@pytest.mark.parametrize("usage", [{"input_tokens": 0, "output_tokens": 0}, {}])
def test_usage_of_nothing_in_a_message_is_estimated(usage: Any) -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "sim-text",
        "content": [{"type": "text", "text": "word " * 100}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    with (
        answering(200, "application/json", json.dumps(answer).encode()) as base_url,
        serving(config(base_url, TOKENS)) as (gateway, _),
    ):
        assert ask(gateway, "messages", "messages/sim-text").status == 200
        [shown] = told(gateway)["limits"]
    assert shown["used"] > 100


@pytest.mark.parametrize("usage", [{"input_tokens": 0, "output_tokens": 0}, {}, "many"])
def test_usage_of_nothing_in_a_response_is_estimated(usage: Any) -> None:
    part = {"type": "output_text", "text": "word " * 100, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    answer = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "sim-text",
        "status": "completed",
        "output": [{**item, "content": [part]}],
        "usage": usage,
    }
    with (
        answering(200, "application/json", json.dumps(answer).encode()) as base_url,
        serving(config(base_url, TOKENS)) as (gateway, _),
    ):
        assert ask(gateway, "chat", "responses/sim-text").status == 200
        [shown] = told(gateway)["limits"]
        assert shown["used"] > 100


@pytest.mark.parametrize("usage", UNBELIEVABLE)
def test_usage_that_cannot_be_in_a_stream_is_estimated(usage: Any) -> None:
    def chunk(**more: Any) -> bytes:
        made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **more}
        return b"data: " + json.dumps(made).encode() + b"\n\n"

    def choice(delta: dict[str, Any], finish: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    stream = chunk(choices=choice({"role": "assistant", "content": "word " * 100}))
    stream += chunk(choices=choice({}, "stop")) + chunk(choices=[], usage=usage)
    with (
        answering(200, "text/event-stream", stream + b"data: [DONE]\n\n") as base_url,
        serving(config(base_url, TOKENS)) as (gateway, _),
        Socket(gateway.base_url) as sock,
    ):
        for number, api in enumerate(("chat", "messages", "websocket"), 1):
            if api == "websocket":
                assert sock.turn("chat/sim-text")[-1]["type"] == "response.completed"
            else:
                assert ask(gateway, api, stream=True).status == 200
            [shown] = told(gateway)["limits"]
            assert shown["used"] > 100 * number


def test_the_highest_of_several_output_limits_is_reserved(simulator: RunningSimulator) -> None:
    tight = limit("output_tokens", 1000, "day", clamp=False)
    with serving(config(simulator.base_url, tight)) as (gateway, _):
        assert ask(gateway, max_tokens=1, max_completion_tokens=60_000).status == 429
        assert ask(gateway, max_completion_tokens=1, max_tokens=60_000).status == 429
        assert ask(gateway, max_tokens=1, n_predict=60_000).status == 429


def test_every_output_limit_is_lowered(simulator: RunningSimulator) -> None:
    """Also one that only some servers know, and one that is none to some."""
    clamping = limit("output_tokens", 900, "day", clamp=True)
    with serving(config(simulator.base_url, clamping)) as (gateway, _):
        each: list[dict[str, Any]] = [{"n_predict": 60_000}, {"max_tokens": 10, "n_predict": -1}]
        for asked in each:
            ask(gateway, **asked)
            sent = simulator.last.json
            assert 0 < sent["n_predict"] <= 900
            assert 0 < sent.get("max_completion_tokens", sent.get("max_tokens")) <= 900


@pytest.mark.parametrize("word", ["web_search", "web_sear\\u0063h"])
def test_searches_are_reserved_however_their_tool_is_spelled(
    simulator: RunningSimulator, word: str
) -> None:
    price = OwnPrice(model="*", input="1", output="1", search="200")
    with serving(config(simulator.base_url, limit("cost", "1", "day"), prices=(price,))) as (
        gateway,
        _,
    ):
        asked = json.dumps(body("responses", "responses/sim-text", tools=[{"type": "WORD"}]))
        spelled = asked.replace("WORD", word).encode()
        answer = call(gateway.base_url, "POST", PATHS["responses"], spelled, AUTH)
        assert answer.status == 429, answer.body


def test_text_that_looks_like_a_file_is_reserved_as_text(simulator: RunningSimulator) -> None:
    text = "base64 " + "a" * 40_000 + " word" * 50_000
    tight = limit("input_tokens", 60_000, "day")
    with serving(config(simulator.base_url, tight)) as (gateway, _):
        assert ask(gateway, text=text).status == 429


def test_estimates_of_one_key_are_not_those_of_another(simulator: RunningSimulator) -> None:
    """One whose prompts are dense does not make those of others be refused."""
    made = config(simulator.base_url, TOKENS)
    tester, other = made.clients
    tight = replace(other, limits=(limit("input_tokens", 2000, "day"),))
    with serving(replace(made, clients=(tester, tight))) as (gateway, _):
        for _ in range(60):
            asked = ask(gateway, model="chat/sim-text?input=9000", text="word " * 1200)
            assert asked.status == 200
        assert ask(gateway, text="word " * 900, key="sk-other-client").status == 200


def named(model: str, **more: Any) -> bytes:
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "."}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000},
    }
    return json.dumps({**answer, **more}).encode()


@pytest.mark.parametrize(("answered", "cost"), [("cheap", "0.002"), ("dear", "2"), ("x", "2")])
def test_the_model_that_answered_is_charged(answered: str, cost: str) -> None:
    """Where a request names several; the dearest where it is not known which one it was."""
    with (
        answering(200, "application/json", named(answered)) as base_url,
        serving(config(base_url, BUDGET, prices=PRICES)) as (gateway, _),
    ):
        assert ask(gateway, model="chat/cheap", models=["cheap", "dear"]).status == 200
        assert told(gateway)["limits"][0]["used"] == cost


def test_what_the_dearest_model_costs_that_is_named_is_reserved(
    simulator: RunningSimulator,
) -> None:
    tight = limit("cost", "1", "day", clamp=False)
    with serving(config(simulator.base_url, tight, prices=PRICES)) as (gateway, _):
        answer = ask(gateway, model="chat/cheap", max_tokens=1000, models=["dear"])
        assert answer.status == 429


def test_each_model_that_is_named_needs_a_price(simulator: RunningSimulator) -> None:
    with serving(config(simulator.base_url, BUDGET, prices=PRICES)) as (gateway, _):
        answer = ask(gateway, model="chat/sim-text", models=["sim-text", "nobody-knows"])
        assert (answer.status, answer.json["error"]["code"]) == (403, "model_unpriced")


def test_more_models_than_are_looked_at_are_refused(simulator: RunningSimulator) -> None:
    """The dear one may be the last of them."""
    with serving(config(simulator.base_url, BUDGET, prices=PRICES)) as (gateway, _):
        answer = ask(gateway, models=[*(f"sim-{number}" for number in range(70)), "dear"])
        assert answer.status == 400
        assert "more than 64 models" in answer.json["error"]["message"]
    assert not simulator.requests


@pytest.mark.parametrize("name", ["DEAR", " dear ", "dear:latest", "De ar", "chat/DEAR"])
def test_lists_of_models_do_not_know_case(simulator: RunningSimulator, name: str) -> None:
    with serving(config(simulator.base_url, models_denied=("dear",))) as (gateway, _):
        asked = name if "/" in name else f"chat/{name}"
        answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", asked), AUTH)
        assert answer.status == 404


SPELLINGS: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"MODEL": "dear"},
        {"Max_Tokens": 10**6},
        {"N": 100},
        {"Stream_Options": {"include_usage": False}},
        {"stream_options": {"INCLUDE_USAGE": False}},
        {"max_to\N{KELVIN SIGN}ens": 10**6},
        {"Service_Tier": "priority"},
        {"N_Predict": 10**6},
    ],
    "messages": [
        {"Model": "dear"},
        {"MAX_TOKENS": 10**6},
        {"thinking": {"type": "enabled", "budget_tokens": 1024, "Budget_Tokens": 10**6}},
        {"SPEED": "fast"},
    ],
    "responses": [
        {"Model": "dear"},
        {"max_output_token\N{LATIN SMALL LETTER LONG S}": 10**6},
        {"reasoning": {"Effort": "high"}},
        {"PREVIOUS_RESPONSE_ID": "resp_x"},
    ],
}


@pytest.mark.parametrize("upstream", APIS)
@pytest.mark.parametrize(
    ("api", "more"), [(api, more) for api, each in SPELLINGS.items() for more in each]
)
def test_members_in_other_letters_are_refused(
    simulator: RunningSimulator, api: str, more: dict[str, Any], upstream: str
) -> None:
    """Servers in Go read them as the same: the last one counts. The letters may be ones that only
    look alike."""
    with serving(config(simulator.base_url)) as (gateway, _):
        answer = ask(gateway, api, f"{upstream}/sim-text", **more)
        assert answer.status == 400, answer.body
        assert not simulator.requests
        [name] = more
        assert name in answer.json["error"]["message"]


COUNTS = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
COMPACT = f"{PATHS['responses']}/compact"


def test_on_every_face_they_are_refused(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Counts, compactions, responses made in the background, and WebSockets."""
    made = config(simulator.base_url, store=str(tmp_path / "store.db"))
    with serving(made) as (gateway, _), Socket(gateway.base_url) as sock:
        for upstream in APIS:
            model = f"{upstream}/sim-text"
            asked = body("responses", model, Model="dear")
            posted = [(path, body(api, model, Model="dear")) for api, path in COUNTS.items()]
            posted.append((COMPACT, asked))
            posted.append((PATHS["responses"], {**asked, "background": True}))
            for path, sent in posted:
                answer = call(gateway.base_url, "POST", path, sent, AUTH)
                assert answer.status == 400, (path, answer.body)
                assert "Model" in answer.json["error"]["message"]
            [event] = sock.turn(model, Model="dear")
            assert (event["type"], event["status"]) == ("error", 400)
            assert "Model" in event["error"]["message"]
    assert not simulator.requests


def test_on_every_face_a_limit_admits_and_counts(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    limits = limit("requests", 2, "day"), TOKENS
    made = config(simulator.base_url, *limits, store=str(tmp_path / "store.db"))
    asked = body("responses", "chat/sim-text?input=70&output=5")
    with serving(made) as (gateway, _):
        for more in ({}, {"background": True}):
            path = PATHS["responses"] if more else COMPACT
            assert call(gateway.base_url, "POST", path, {**asked, **more}, AUTH).status == 200
        simulator.wait_for(lambda: [one["used"] for one in told(gateway)["limits"]] == [2, 150])
        with Socket(gateway.base_url) as sock:
            [event] = sock.turn(asked["model"])
            assert event["status"] == 429
        for path, more in ((COMPACT, {}), (PATHS["responses"], {"background": True})):
            answer = call(gateway.base_url, "POST", path, {**asked, **more}, AUTH)
            assert answer.status == 429, answer.body
    assert len(simulator.requests) == 2


NESTED: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"messages": [{"role": "user", "content": "a", "CONTENT": "b"}]}),
    (
        "chat",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "https://a.example/b.png", "URL": "https://c"},
                        }
                    ],
                }
            ]
        },
    ),
    ("chat", {"tools": [{"type": "function", "function": {"name": "f", "Parameters": {}}}]}),
    (
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "Text": "b"}]}]},
    ),
    ("messages", {"tools": [{"name": "f", "input_schema": {"type": "object"}, "Name": "g"}]}),
    (
        "responses",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a", "TEXT": "b"}]}
            ]
        },
    ),
    ("responses", {"input": [{"role": "user", "Content": "b", "content": "a"}]}),
]


@pytest.mark.parametrize(
    ("api", "more", "upstream"),
    [(api, more, upstream) for api, more in NESTED for upstream in APIS if upstream != api],
)
def test_nested_members_in_other_letters_are_refused(
    simulator: RunningSimulator, api: str, more: dict[str, Any], upstream: str
) -> None:
    """Also beside members that nobody knows. Within one protocol only those are looked at by which
    the model, the price and the use are determined; the conversation passes."""
    with serving(config(simulator.base_url)) as (gateway, _):
        answer = ask(gateway, api, f"{upstream}/sim-text", **more)
        assert answer.status == 400, answer.body
        assert "write" in answer.json["error"]["message"]
        again = ask(gateway, api, f"{upstream}/sim-text", **more, new_one={"Any": 1})
        assert again.status == 400, again.body
        assert not simulator.requests


CARRIED: list[tuple[str, dict[str, Any]]] = [
    (
        "chat",
        {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "parameters": {"type": "object", "properties": {"Content": {"Type": "x"}}},
                    },
                }
            ],
            "metadata": {"Role": "a"},
        },
    ),
    (
        "messages",
        {
            "messages": [
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"Text": 1}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
            ],
            "tools": [{"name": "f", "input_schema": {"type": "object", "Type": "x"}}],
        },
    ),
    (
        "responses",
        {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "Name": 1}}]},
    ),
]


@pytest.mark.parametrize(("api", "more"), CARRIED)
def test_names_that_are_the_clients_own_are_in_any_letters(
    simulator: RunningSimulator, api: str, more: dict[str, Any]
) -> None:
    """Also beside a member that nobody knows, which the upstream here refuses."""
    with serving(config(simulator.base_url)) as (gateway, _):
        odd: dict[str, Any] = {"new_one": {"Model": 1}}
        for extra in ({}, odd):
            answer = ask(gateway, api, f"{api}/sim-text", **more, **extra)
            assert len(simulator.requests) == 1, answer.body
            simulator.app.requests.clear()

"""Bad input: the right 4xx in the client's own shape, naming the field, and no upstream call."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.usage import Attribution, Meter
from dragoman.config import Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from dragoman.serving.resolver import LONGEST_MODEL
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import AUTH, JSON, Answer, call

CELLS = list(itertools.product(APIS, APIS))
TRANSLATED = [(client, upstream) for client, upstream in CELLS if client != upstream]


@pytest.fixture(autouse=True)
def no_upstream_call(simulator: RunningSimulator) -> Any:
    """Every test here checks it."""
    yield
    assert simulator.requests == []


def post(gateway: RunningGateway, api: str, made: bytes | dict[str, Any]) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], made, JSON)


@pytest.mark.parametrize(("client", "upstream"), CELLS)
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}}",
        b"\xff\xfe{}",
        b'{"model": "\xff"}',
        b'{"a": NaN}',
    ],
)
def test_not_a_json_object(
    gateway: RunningGateway, client: str, upstream: str, text: bytes
) -> None:
    """req: 152, 153"""
    answer = post(gateway, client, text)
    assert answer.status == 400
    assert error_of(client, answer)["type"] == "invalid_request_error"


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("model", [None, "", 5, ["x"], {}])
def test_the_model(gateway: RunningGateway, client: str, model: Any) -> None:
    """req: 152, 153, 154"""
    made = body(client, "x")
    made.pop("model")
    for wrong in ([{**made}] if model is None else []) + [{**made, "model": model}]:
        answer = post(gateway, client, wrong)
        assert answer.status == 400
        error = error_of(client, answer)
        assert "model" in error["message"]
        if client != "messages":
            assert error["param"] == "model"


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize(
    "model", ["nothing", "a/b", "chat", "x" * 5000, "chat/" + "x" * 1020, "ünï/çødé", "\u2028"]
)
def test_an_unknown_model(gateway: RunningGateway, client: str, model: str) -> None:
    answer = post(gateway, client, body(client, model))
    assert answer.status == 404
    error = error_of(client, answer)
    if client == "messages":
        assert error["type"] == "not_found_error"
    else:
        assert (error["code"], error["param"]) == ("model_not_found", "model")


def test_a_long_name_of_a_model_is_not_held(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Requests that are alike are counted together: each name would be held until then."""
    counted: list[Attribution] = []

    def count(meter: Meter, now: float, whose: Attribution, *_: Any, **__: Any) -> None:
        counted.append(whose)

    monkeypatch.setattr(Meter, "count", count)
    config = replace(config_for("http://127.0.0.1:1"), storage=Storage(path=str(tmp_path / "s")))
    url = start(config).base_url
    for path in (*PATHS.values(), "/v1/embeddings"):
        assert call(url, "POST", path, {"model": "m" * 300_000, "input": "x"}, AUTH).status == 404
    assert len(counted) == len(PATHS) + 1
    assert max(len(whose.model) for whose in counted) == LONGEST_MODEL


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("stream", ["yes", 1, [], "[undefined]"])
def test_stream_is_a_boolean(gateway: RunningGateway, client: str, stream: Any) -> None:
    answer = post(gateway, client, body(client, f"{client}/sim-text", stream=stream))
    assert answer.status == 400
    assert "stream" in error_of(client, answer)["message"]


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": None}, "messages"),
    "messages of a wrong type": ({"messages": "hello"}, "messages"),
    "a message that is none": ({"messages": ["hello"]}, "messages[0]"),
    "unknown role": ({"messages": [{"role": "alien", "content": "x"}]}, "messages[0].role"),
    "unknown block": (
        {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "messages[0].content[0]",
    ),
    "a number that is none": ({"temperature": "[undefined]"}, "temperature"),
    "unknown tool choice": ({"tool_choice": "perhaps"}, "tool_choice"),
}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("client", "upstream"), [cell for cell in TRANSLATED if cell[0] != "responses"]
)
@pytest.mark.parametrize(("change", "path"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("stream", [False, True])
def test_fields(
    gateway: RunningGateway,
    client: str,
    upstream: str,
    change: dict[str, Any],
    path: str,
    stream: bool,
) -> None:
    """JSON, also when a stream was asked for. req: 152, 153"""
    answer = post(
        gateway, client, {**body(client, f"{upstream}/sim-text", stream=stream), **change}
    )
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    error = error_of(client, answer)
    assert path in error["message"]
    if client == "chat":
        assert str(error["param"]).startswith(path)


ITEMS: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"input": 5}, "input"),
    "unknown role": ({"input": [{"role": "alien", "content": "x"}]}, "input[0].role"),
    "an item without type and role": ({"input": [{"text": "x"}]}, "input[0]"),
    "unknown part": (
        {"input": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "input[0].content[0]",
    ),
    "a number that is none": ({"temperature": "[undefined]"}, "temperature"),
    "unknown tool choice": ({"tool_choice": "perhaps"}, "tool_choice"),
}


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize(("change", "path"), ITEMS.values(), ids=ITEMS)
def test_fields_of_responses(
    gateway: RunningGateway, upstream: str, change: dict[str, Any], path: str
) -> None:
    """req: 152"""
    answer = post(gateway, "responses", {**body("responses", f"{upstream}/sim-text"), **change})
    assert answer.status == 400
    assert str(error_of("responses", answer)["param"]).startswith(path)


@pytest.mark.parametrize("upstream", ["messages", "responses"])
def test_a_tool_result_without_its_call(gateway: RunningGateway, upstream: str) -> None:
    made = body("chat", f"{upstream}/sim-text")
    made["messages"].append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
    answer = post(gateway, "chat", made)
    assert answer.status == 400
    assert "messages[1]" in error_of("chat", answer)["message"]


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
def test_base64_that_is_none(gateway: RunningGateway, client: str, upstream: str) -> None:
    parts = {
        "chat": {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}},
        "messages": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "%%%"},
        },
        "responses": {"type": "input_image", "image_url": "data:image/png;base64,%%%"},
    }
    made = body(client, f"{upstream}/sim-text")
    turn = {"role": "user", "content": [parts[client]]}
    made["input" if client == "responses" else "messages"] = [turn]
    answer = post(gateway, client, made)
    assert answer.status == 400
    assert "content[0]" in error_of(client, answer)["message"]


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
@pytest.mark.parametrize("levels", [100, 100_000])
def test_nesting_without_end(
    gateway: RunningGateway, client: str, upstream: str, levels: int
) -> None:
    made = json.dumps(body(client, f"{upstream}/sim-text", tools=["HERE"]))
    schema = nested(levels)
    tool = {
        "chat": f'{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}',
        "messages": f'{{"name":"f","input_schema":{schema}}}',
        "responses": f'{{"type":"function","name":"f","parameters":{schema}}}',
    }[client]
    answer = post(gateway, client, made.replace('"HERE"', tool).encode())
    assert answer.status == 400
    assert "nested" in error_of(client, answer)["message"]


@pytest.mark.parametrize("wrong", ["loose", ""])
def test_an_unknown_policy(gateway: RunningGateway, wrong: str) -> None:
    made = body("chat", "messages/sim-text")
    answer = call(gateway.base_url, "POST", PATHS["chat"], made, {"x-dragoman-policy": wrong})
    assert answer.status == 400
    assert "strict" in error_of("chat", answer)["message"]


def test_a_strict_request_refuses_any_loss(gateway: RunningGateway) -> None:
    made = body("chat", "messages/sim-text", seed=5)
    headers = {"x-dragoman-policy": "strict"}
    answer = call(gateway.base_url, "POST", PATHS["chat"], made, headers)
    assert answer.status == 400
    assert error_of("chat", answer)["param"] == "seed"

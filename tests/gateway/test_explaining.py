"""What the administration tells of routes, and of where a model's name leads."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from dragoman.canonical.options import Options
from dragoman.config import Admin, Client, Fallback, Models, OwnPrice, Route, Secret, Storage
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.administration import TOKEN
from tests.gateway.conftest import config_for
from tests.gateway.sessions import ask


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    config = config_for("http://127.0.0.1:9")
    config = replace(
        config,
        storage=Storage(path=str(tmp_path_factory.mktemp("explained") / "store.db")),
        admin=Admin(key=Secret(TOKEN)),
        clients=(
            Client(name="ci", key=Secret("k" * 30), models=("claude-*",)),
            Client(name="web", key=Secret("w" * 30), upstreams=("chat",)),
        ),
        prices=(OwnPrice(model="claude-*", input="5", output="25"),),
        models=Models(aliases={"opus": "claude-opus-5"}),
        options=Options(tool_error_prefix="failed: "),
        routes=(
            Route(match="gpt-*", upstream="responses"),
            Route(
                match="claude-*",
                upstream="messages",
                fallbacks=(Fallback(upstream="chat", model="qwen"),),
                options=make_options(tool_error_prefix="failed: ", policy="strict"),
                capabilities=make_capabilities(max_output_tokens=64_000),
            ),
            Route(match="claude-opus-5", upstream="chat"),
        ),
    )
    with running_gateway(config) as running:
        yield running


def test_a_name_is_explained(gateway: RunningGateway) -> None:
    found = ask(gateway, "GET", "/explain?model=opus&key=ci", key=TOKEN).json
    assert (found["name"], found["route"]) == ("claude-opus-5", {"match": "claude-*", "number": 2})
    told = [(one["upstream"], one["model"]) for one in found["destinations"]]
    assert told == [("messages", "claude-opus-5"), ("chat", "qwen")]
    first = found["destinations"][0]
    assert first["usable"] == first["accounts"] > 0
    assert [(one["input"], one["output"]) for one in first["prices"]] == [("5", "25")]
    assert found["policy"] == "strict"
    assert {"name": "tool_error_prefix", "value": "failed: ", "origin": "options"} in found[
        "options"
    ]
    assert {"name": "policy", "value": "strict", "origin": "route"} in found["options"]
    limit = {"name": "max_output_tokens", "value": 64_000, "origin": "route"}
    assert limit in found["capabilities"]
    assert found["permission"] == {
        "key": "ci",
        "allowed": False,
        "reason": "Its models, or its team's, do not have opus.",
    }


@pytest.mark.parametrize(
    ("model", "key", "reason"),
    [
        ("claude-opus-5", "ci", None),
        ("gpt-5", "ci", "Its models, or its team's, do not have gpt-5."),
        ("claude-opus-5", "web", "It may not reach the upstream messages."),
        ("claude-opus-5", "nobody", "There is no such key, or it cannot be used."),
    ],
)
def test_whether_a_key_may(
    gateway: RunningGateway, model: str, key: str, reason: str | None
) -> None:
    found = ask(gateway, "GET", f"/explain?model={model}&key={key}", key=TOKEN).json
    assert found["permission"] == {"key": key, "allowed": reason is None, "reason": reason}


def test_a_name_with_its_upstream_and_one_of_nobody(gateway: RunningGateway) -> None:
    found = ask(gateway, "GET", f"/explain?model={quote('chat/m/1')}", key=TOKEN).json
    assert (found["route"], found["destinations"][0]["model"]) == (None, "m/1")
    assert found["destinations"][0]["prices"] == []
    assert found["permission"] is None
    assert not ask(gateway, "GET", "/explain?model=llama", key=TOKEN).json["found"]
    assert ask(gateway, "GET", "/explain", key=TOKEN).json["error"]["param"] == "model"


def test_all_routes(gateway: RunningGateway) -> None:
    found = ask(gateway, "GET", "/routes", key=TOKEN).json
    assert [one["match"] for one in found["routes"]] == ["gpt-*", "claude-*", "claude-opus-5"]
    assert found["routes"][1]["fallbacks"] == ["chat/qwen"]
    assert found["aliases"] == {"opus": "claude-opus-5"}

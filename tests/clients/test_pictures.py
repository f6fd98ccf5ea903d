"""Claude Code reads a screenshot before a model that takes no images. It has the picture in every
later request: where the route is lenient its session goes on, else the refusal says what would do.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.reading import READERS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.clients.asking import CONTENT, SAID, ask
from tests.clients.programs import KEY
from tests.clients.reading import called
from tests.clients.stage import Exchange, Stage
from tests.clients.tap import tapped

CONFIG = """
[[clients]]
name = "tester"
key = "{key}"

[[upstreams]]
name = "local"
protocol = "openai_chat"
base_url = "{url}"

[[accounts]]
name = "local"
upstream = "local"
key = "sk-sim-account"

[[routes]]
match = "lenient-coder"
upstream = "local"
policy = "lenient"
capabilities = {{ images = false }}

[[routes]]
match = "coder"
upstream = "local"
capabilities = {{ images = false }}
"""
LEFT_OUT = "[image left out: the model takes no images]"
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEX"
    "HbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)
"""A red square of 8 by 8, as PNG."""


@pytest.fixture(scope="module")
def blind(simulator: RunningSimulator) -> Iterator[Stage]:
    """A gateway with two routes to a model that takes no images."""
    config = parse_config(CONFIG.format(key=KEY, url=simulator.base_url))
    lines: list[dict[str, Any]] = []
    with (
        running_gateway(config, lambda line: lines.append(msgspec.json.decode(line))) as gateway,
        tapped(gateway.port) as tap,
    ):
        yield Stage("chat", simulator, tap, lines)


def look(workdir: Path) -> str:
    """A prompt that has the simulated model read a screenshot."""
    path = workdir / "work" / "screenshot.png"
    path.parent.mkdir()
    path.write_bytes(base64.b64decode(PICTURE))
    arguments = json.dumps({"file_path": str(path)}).replace('"', '\\"')
    return f'What does it show? [[sim: scenario=tool tool=Read args="{arguments}"]]'


def is_left_out(exchange: Exchange) -> bool:
    """Whether a text took the place of the picture that the agent sent."""
    assert [one.kind for one in READERS["messages"](exchange.sent, "").media] == ["image"]
    sent = exchange.recorded.body
    has_picture = READERS["chat"](exchange.received, "").media or any(
        word in sent for word in (b"image_url", b"data:image", PICTURE[:40].encode())
    )
    return not has_picture and called(exchange.received)[0].result == LEFT_OUT


def test_a_session_goes_on(blind: Stage, tmp_path: Path) -> None:
    target = tmp_path / "work" / "notes.txt"

    first = blind.run("claude-code", "lenient-coder", look(tmp_path), tmp_path)

    assert first.status == 0, first
    assert LEFT_OUT in first.output, "the model was told"
    before, *after = blind.exchanges()
    assert called(before.received) == []
    assert [is_left_out(exchange) for exchange in after] == [True]

    for prompt, answer, requests in ((ask(target), SAID, 2), ("Thank you.", "Thank you.", 1)):
        finished = blind.run("claude-code", "lenient-coder", prompt, tmp_path, resume=True)

        assert finished.status == 0, finished
        assert answer in finished.output, finished
        assert [is_left_out(exchange) for exchange in blind.exchanges()] == [True] * requests
    assert target.read_text() == CONTENT


def test_a_refusal_names_the_model_and_the_way_out(blind: Stage, tmp_path: Path) -> None:
    """The agent asks again with less of what is new to gateways, and shows the last refusal."""
    refused = blind.run("claude-code", "coder", look(tmp_path), tmp_path)

    assert refused.status not in (0, None), refused
    assert refused.output.count("the model coder takes no images") == 1, refused
    assert "API Error: 400" in refused.output
    assert "lenient goes on (x-dragoman-policy, or that of the route)" in refused.output
    assert len(blind.simulator.requests) == 1, "the model is not asked with a picture"

    way_out = {"ANTHROPIC_CUSTOM_HEADERS": "x-dragoman-policy: lenient"}
    finished = blind.run(
        "claude-code", "coder", "Go on.", tmp_path, resume=True, environment=way_out
    )

    assert finished.status == 0, finished
    assert [is_left_out(exchange) for exchange in blind.exchanges()] == [True]

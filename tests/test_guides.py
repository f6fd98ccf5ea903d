"""The lines that clients are configured with are right, and the page tells them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.demo import KEY, demo_config, examples
from dragoman.gateway.testing import running_gateway
from dragoman.guides import GUIDES, Guide, filled, page
from dragoman.simulator.testing import RunningSimulator, running_simulator

PAGE = Path(__file__).parents[1] / "docs/clients.md"
URL = "http://127.0.0.1:8123"
WANTED = {
    *("AI SDK", "Anthropic SDKs", "Cherry Studio", "Claude Code", "Codex", "LangChain"),
    *("LlamaIndex", "OpenAI SDKs", "cline", "crush", "openai-agents", "opencode", "pi"),
    *("pydantic-ai", "qwen-code"),
}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: make docs"


def test_every_client_has_its_lines() -> None:
    assert {guide.name for guide in GUIDES} == WANTED
    for guide in GUIDES:
        assert guide.speaks
        assert guide.works
        assert guide.lost


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_the_demo_prints_the_lines_for_itself(guide: Guide) -> None:
    """With the running instance's URL and key, one of its models, and nothing left to fill in."""
    printed = examples(URL)

    models = ("sim-chat", "sim-messages", "sim-responses")
    for _, text in guide.setup:
        assert any(filled(text, URL, KEY, model) in printed for model in models)
    assert not re.search(r"\{(url|key|model)\}", printed)


FILES = [(guide.name, place, text) for guide in GUIDES for place, text in guide.setup]


@pytest.mark.parametrize(("name", "place", "text"), FILES, ids=[one[0] for one in FILES])
def test_every_setting_is_well_formed(name: str, place: str, text: str) -> None:
    """Files are JSON or TOML, scripts are Python or shell, and each names what it must."""
    made = filled(text, URL, KEY, "sim-chat")
    if place.endswith(".json"):
        assert json.loads(made)
    elif place.endswith(".toml"):
        assert tomllib.loads(made)["model_providers"]["dragoman"]["base_url"] == f"{URL}/v1"
    elif place == "python":
        compile(made, name, "exec")
    elif place == "shell":
        subprocess.run(["sh", "-n", "-c", made], check=True)
    told = "\n".join(given for _, given in next(g for g in GUIDES if g.name == name).setup)
    assert "{url}" in told
    assert "{key}" in told
    assert "{model}" in told


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.mark.parametrize("name", ["OpenAI SDKs", "Anthropic SDKs"])
@pytest.mark.parametrize("model", ["sim-chat", "sim-messages", "sim-responses"])
def test_the_python_lines_work(simulator: RunningSimulator, name: str, model: str) -> None:
    guide = next(guide for guide in GUIDES if guide.name == name)
    script = next(text for place, text in guide.setup if place == "python")

    with running_gateway(demo_config(simulator.base_url), None) as gateway:
        made = filled(script, gateway.base_url, KEY, model)
        done = subprocess.run(
            [sys.executable, "-c", made], capture_output=True, text=True, timeout=30
        )

    assert done.returncode == 0, done.stderr
    assert "Hello!" in done.stdout

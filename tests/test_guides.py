"""The lines that clients are configured with are right, and the page tells them."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.cli import main
from dragoman.demo import KEY, examples
from dragoman.lab.guides import GUIDES, Guide, filled, page
from tests.clients.installed import node
from tests.install.tools import yaml_of

PAGE = Path(__file__).parents[1] / "docs/clients.md"
URL = "http://127.0.0.1:8123"
WANTED = {
    *("AI SDK", "Anthropic SDKs", "Cherry Studio", "Claude Code", "Codex", "LangChain"),
    *("LlamaIndex", "OpenAI SDKs", "cline", "crush", "openai-agents", "opencode", "pi"),
    *("pydantic-ai", "qwen-code", "Copilot CLI", "Aider", "Goose", "OpenHands", "Cursor", "Zed"),
    *("Continue", "Kilo Code", "Open WebUI", "Gemini CLI", "Google Gen AI SDKs"),
    "Google Interactions",
}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: make docs"


def test_every_client_has_its_lines() -> None:
    assert {guide.name for guide in GUIDES} == WANTED
    for guide in GUIDES:
        assert guide.speaks
        assert guide.works
        assert guide.lost


def test_the_demo_says_how_to_get_the_lines() -> None:
    printed = examples(URL)
    assert f"dragoman guide claude-code --url {URL} --model sim-chat" in printed
    told = printed.replace("\n", " ")
    for guide in GUIDES:
        assert guide.name in told
    assert not re.search(r"\{(url|key|model|clients)\}", printed)
    assert len(printed.splitlines()) < 60


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
    elif place == "javascript":
        check = [node(), "--input-type=module", "--check", "-"]
        subprocess.run(check, input=made, text=True, check=True)
    elif place.endswith(".yaml"):
        assert yaml_of(made)["models"][0]["apiBase"] == f"{URL}/v1"
    elif place == "shell":
        subprocess.run(["sh", "-n", "-c", made], check=True)
    else:
        assert place == "settings"
    told = "\n".join(given for _, given in next(g for g in GUIDES if g.name == name).setup)
    assert "{url}" in told
    assert ("{key}" if place == "settings" else "DRAGOMAN_KEY") in told
    assert "{model}" in told or name == "Open WebUI"  # it asks for the list


@pytest.mark.parametrize(("name", "place", "text"), FILES, ids=[one[0] for one in FILES])
def test_no_variable_stands_where_nobody_expands_it(name: str, place: str, text: str) -> None:
    """Only a shell does, and crush, whose own documentation says so."""
    if place != "shell" and name != "crush":
        assert "$DRAGOMAN_KEY" not in text
    assert KEY not in text


def guide_command(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["guide", *arguments])


def test_the_command_lists_all_clients() -> None:
    shown = guide_command()
    assert shown.exit_code == 0
    assert {line.split("  ")[0] for line in shown.output.splitlines()[1:]} == WANTED


def test_a_model_of_the_demo_is_told_where_it_stands_for_another() -> None:
    assert "name one of yours with --model" in guide_command("codex", "--url", URL).stderr
    assert not guide_command("codex", "--url", URL, "--model", "m").stderr
    assert not guide_command("codex").stderr


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
@pytest.mark.parametrize("url", [URL, f"{URL}/v1", f"{URL}/"])
def test_the_command_prints_the_lines_filled_in(guide: Guide, url: str) -> None:
    name = guide.name.lower().replace(" ", "-")
    shown = guide_command(name, "--url", url, "--model", "vendor/qwen3-32b:free")
    assert shown.exit_code == 0, shown.output
    for _, text in guide.setup:
        key = "the value of DRAGOMAN_KEY"
        assert filled(text, URL, key, "vendor/qwen3-32b:free") in shown.output
    assert not re.search(r"\{(url|key|model)\}", shown.output)
    assert "/v1/v1" not in shown.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("nobody",),
        ("codex", "--url", "llm.example.com"),
        ("codex", "--url", "ftp://llm.example.com"),
        ("codex", "--url", "http://x/$(id)"),
        ("codex", "--url", "http://x/;id"),
        ("codex", "--url", "http://user:password@x"),
        ("codex", "--url", "http://x/?a=b"),
        ("codex", "--model", ""),
        ("codex", "--model", 'a"b'),
        ("codex", "--model", "a b"),
        ("codex", "--model", "-rf"),
        ("codex", "--model", "`id`"),
        ("codex", "--model", "a\nb"),
    ],
)
def test_what_would_mean_something_in_a_file_is_refused(arguments: tuple[str, ...]) -> None:
    shown = guide_command(*arguments)
    assert shown.exit_code == 2
    assert "Traceback" not in shown.output

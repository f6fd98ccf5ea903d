"""The lines that clients are configured with are right, and the page tells them."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman.cli import main
from dragoman.demo import KEY, examples
from dragoman.lab.guides import GUIDES, Guide, filled, page
from tests.clients.installed import node
from tests.guided_config import ROUTED, json_in
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
    assert "{model}" in told or "{name}" in told or name == "Open WebUI"  # it asks for the list


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


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "dragoman.toml"
    file.write_text(ROUTED.format(port=8123, key=KEY, upstream="http://127.0.0.1:1/v1"))
    return file


def test_the_lines_are_those_of_the_configuration(config: Path) -> None:
    """Its address, the models that its routes name, and what is known of them."""

    def lines(client: str, *more: str) -> str:
        shown = guide_command(client, "--config", str(config), *more)
        assert (shown.exit_code, shown.stderr) == (0, "")
        return shown.stdout

    def listed(client: str, *more: str) -> Any:
        return json.loads(json_in(lines(client, *more)))

    opencode = listed("opencode")
    assert opencode["model"] == "dragoman/large"
    own = opencode["provider"]["dragoman"]
    assert own["options"]["baseURL"] == f"{URL}/v1"
    assert {name: one["limit"] for name, one in own["models"].items()} == {
        "large": {"context": 64_000, "output": 4_000},
        "small": {"context": 128_000, "output": 8_000},
    }
    crush = listed("crush")["providers"]["dragoman"]
    assert [(one["id"], one["context_window"]) for one in crush["models"]] == [
        ("large", 64_000),
        ("small", 128_000),
    ]
    zed = listed("zed")["language_models"]["openai_compatible"]["dragoman"]
    assert zed["api_url"] == f"{URL}/v1"
    assert [(one["name"], one["max_output_tokens"]) for one in zed["available_models"]] == [
        ("large", 4_000),
        ("small", 8_000),
    ]
    claude = listed("claude-code")["env"]
    assert (claude["ANTHROPIC_BASE_URL"], claude["ANTHROPIC_MODEL"]) == (URL, "large")
    assert claude["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "64000"
    assert "export COPILOT_MODEL=large\n" in lines("copilot")
    codex = lines("codex")
    assert 'model = "large"\nmodel_provider' in codex
    assert f'model_catalog_url = "{URL}/v1/models"' in codex
    chosen = ("--model", "any-1", "--url", "https://gw.example.com/v1")
    other = listed("opencode", *chosen)
    assert other["model"] == "dragoman/any-1"
    assert list(other["provider"]["dragoman"]["models"]) == ["any-1", "large", "small"]
    assert other["provider"]["dragoman"]["options"]["baseURL"] == "https://gw.example.com/v1"


def test_people_sign_in_at_the_public_address(config: Path) -> None:
    text = config.read_text()
    config.write_text(
        text + '[sign_in]\npublic_url = "https://gw.example.com"\nissuer = "https://id.example.com"'
        '\nclient_id = "gateway"\nclient_secret = "env:SECRET"\n[[sign_in.rules]]\n'
        'domains = ["example.com"]\n[storage]\nkey = "env:STORE_KEY"\n'
    )
    shown = guide_command("codex", "--config", str(config))
    assert 'base_url = "https://gw.example.com/v1"' in shown.output, shown.output


def test_a_configuration_that_is_not_there_is_a_fault_where_it_is_named() -> None:
    assert guide_command("codex", "--config", "none.toml").exit_code == 1
    assert guide_command("codex").exit_code == 0


def test_the_first_word_of_a_client_is_enough() -> None:
    assert guide_command("copilot").output == guide_command("copilot-cli").output
    assert "COPILOT_MODEL=" in guide_command("copilot").output


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

"""The page for teams, as it is pasted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.config import read_config
from dragoman.lab.provider import serving
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import running_gateway
from tests.gateway.certificates import self_signed
from tests.gateway.http import call
from tests.people.signing_in import House, ask
from tests.upstream.servers import free_port

PAGE = Path(__file__).parents[2] / "docs/team.md"
ENVIRON = {
    "DRAGOMAN_STORE_KEY": "a key of thirty-two characters..",
    "DRAGOMAN_ADMIN_KEY": "the key of the one who operates it",
    "ANTHROPIC_API_KEY": "sk-ant-x",
}


def block(language: str, number: int = 0) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return found[number]


def commands(text: str, name: str = "dragoman") -> list[list[str]]:
    """The words of the lines that begin with a program's name, without it."""
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [words[1:] for words in lines if words[0] == name]


def test_two_people_have_different_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    text = block("sh")
    people = {
        email: groups.split(",")
        for email, groups in (one.split(":") for one in commands(text, "python")[0][2:])
    }
    (tmp_path / "house.key").write_text(commands(text, "echo")[0][0])
    port = free_port()
    with running_simulator() as simulator, serving(people) as provider:
        text = text.replace("http://127.0.0.1:9100", simulator.base_url)
        init, check, *explained = commands(text)
        init += ["--port", str(port), "--issuer", provider.url]
        runner = CliRunner()
        done = runner.invoke(main, init)
        assert done.exit_code == 0, done.output
        shown = [runner.invoke(main, words) for words in (check, *explained[:2])]
        assert [one.exit_code for one in shown] == [0, 0, 0], [one.output for one in shown]
        assert "sim-reasoning" in shown[1].output
        assert "sim-reasoning" not in shown[2].output
        assert [words[0] for words in explained[2:]] == ["simulate", "serve"]
        loaded = read_config(tmp_path / "dragoman.toml")
        with running_gateway(loaded.config, port=port) as running:
            home = House(provider, running.base_url, f"http://127.0.0.1:{port}", gateway=running)
            ada, bob = (home.session(email)["access_token"] for email in people)
            for token, model, status in (
                (ada, "sim-reasoning", 200),
                (ada, "sim-text", 200),
                (bob, "sim-text", 200),
                (bob, "sim-reasoning", 404),
            ):
                assert ask(home.url, token, model).status == status
            told = [call(home.url, "GET", "/managed/settings", key=one).json for one in (ada, bob)]
            offered = [one["settings"]["availableModels"] for one in told]
            assert offered == [["sim-text", "sim-reasoning"], ["sim-text"]]
    assert json.loads(block("json"))["forceLoginMethod"] == "gateway"


def test_it_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dragoman.toml").write_text(block("toml"))
    both = self_signed(tmp_path, "gw.example.com").read_bytes()
    for name in ("gateway.pem", "gateway.key"):
        (tmp_path / name).write_bytes(both)
    runner = CliRunner(env=ENVIRON)
    outputs: dict[str, str] = {}
    for words in commands(block("sh", 1)):
        done = runner.invoke(main, words)
        assert done.exit_code == 0, (words, done.output)
        outputs[" ".join(words[:2])] = done.output
    assert outputs["key add"].startswith("sk-drg-")
    assert "https://gw.example.com" in outputs["guide Codex"]

"""The page for teams, as it is pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from tests.gateway.certificates import self_signed

PAGE = Path(__file__).parents[2] / "docs/team.md"
ENVIRON = {
    "DRAGOMAN_STORE_KEY": "a key of thirty-two characters..",
    "DRAGOMAN_ADMIN_KEY": "the key of the one who operates it",
    "ANTHROPIC_API_KEY": "sk-ant-x",
}


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_it_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dragoman.toml").write_text(block("toml"))
    both = self_signed(tmp_path, "gw.example.com").read_bytes()
    for name in ("gateway.pem", "gateway.key"):
        (tmp_path / name).write_bytes(both)
    runner = CliRunner(env=ENVIRON)
    outputs: dict[str, str] = {}
    for line in block("sh").splitlines():
        words = shlex.split(line, comments=True)[1:]
        done = runner.invoke(main, words)
        assert done.exit_code == 0, (line, done.output)
        outputs[" ".join(words[:2])] = done.output
    assert outputs["key add"].startswith("sk-drg-")
    assert "https://gw.example.com" in outputs["guide Codex"]

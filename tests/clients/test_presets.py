"""Unmodified agents finish their loops before each server and vendor that `dragoman init` knows,
with what is known of it: the simulator refuses and answers as it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.canonical.options import Capabilities
from dragoman.config.starting import VENDORS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.presets import completed
from tests.clients.asking import ARGUMENTS, CONTENT, ENVIRONMENT, SAID, TITLED, ask
from tests.clients.stage import playing


class Case(NamedTuple):
    """A vendor of `dragoman init`, a model there, and the simulator's server that behaves so."""

    vendor: str
    model: str
    server: str


CASES = (
    Case("vllm", "Qwen/Qwen3.8-27B", "qwen"),
    Case("vllm", "openai/gpt-oss-120b", "gptoss"),
    Case("vllm", "mistralai/Ministral-3-14B-Instruct", "mistral"),
    Case("sglang", "zai-org/GLM-5", "sglang"),
    Case("llamacpp", "qwen3.5-9b", "tags"),
    Case("lmstudio", "tencent/Hy3", "hunyuan"),
    Case("ollama", "deepseek-r1", "tags"),
    Case("deepseek", "deepseek-v4-pro", "deepseek"),
    Case("moonshot", "kimi-k3", "kimi"),
    Case("zai", "glm-5", "glm"),
    Case("qwen", "qwen3.8-max", "qwen"),
    Case("minimax", "MiniMax-M3", "minimax"),
    Case("mistral", "mistral-large-3", "mistral"),
    Case("gemini", "gemini-3.5-pro", "open"),
    Case("openrouter", "qwen/qwen3.8-max", "open"),
    Case("xai", "grok-4", "xai"),
    Case("groq", "qwen/qwen3-32b", "groq"),
    Case("azure", "gpt-5.5", "azure"),
)
AGENTS = ("claude-code", "codex")
MORE = tuple(
    ("ai-sdk-compatible", case) for case in CASES if case.vendor in ("qwen", "mistral", "deepseek")
)
"""A client of Chat before what refuses most: the SDK that opencode is made with, which starts in a
tenth of the time."""
ROUNDS = 3


def taking_turns() -> Iterator[tuple[str, Case]]:
    """Each case with one agent; both come before a server that several cases have."""
    servers = [case.server for case in CASES]
    for number, case in enumerate(CASES):
        first, before = servers.index(case.server), servers[:number].count(case.server)
        yield AGENTS[(first + before) % 2], case


def test_every_chat_preset_has_a_case() -> None:
    chat = {name for name, vendor in VENDORS.items() if vendor.protocol == "openai_chat"}
    assert chat == {case.vendor for case in CASES}


@pytest.mark.parametrize(
    ("program", "case"),
    [*taking_turns(), *MORE],
    ids=lambda value: value if isinstance(value, str) else f"{value.vendor}-{value.server}",
)
def test_an_agent_finishes_its_loop(
    program: str, case: Case, simulator: RunningSimulator, tmp_path: Path
) -> None:
    known = completed(Capabilities(), "openai_chat", VENDORS[case.vendor].base_url, case.model)
    target = tmp_path / "work" / "notes.txt"
    key = f"sk-sim-like-{case.server}"
    with playing("chat", simulator, capabilities=known, key=key) as stage:
        prompt = ask(target, f"rounds={ROUNDS}", "chunks=40")
        finished = stage.run(
            program,
            case.model,
            prompt,
            tmp_path,
            arguments=(*ARGUMENTS.get(program, ()), *TITLED.get(program, ())),
            environment=ENVIRONMENT.get(program),
        )
        assert finished.status == 0, finished
        assert target.read_text().rstrip("\n") == CONTENT
        assert SAID in finished.output, finished
        assert (target.parent / f"notes-{ROUNDS}.txt").exists()
        asked = [one for one in simulator.requests if one.method == "POST"]
        # What is not known beforehand is learnt from the first refusal.
        assert all(one.status == 200 for one in asked[1:]), [one.status for one in asked]
        assert len(asked) > ROUNDS

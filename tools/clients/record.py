"""Records what the real programs send: `python -m tools.clients.record` (`make record-clients`).

Each works on two prompts (one, where it cannot go on with a conversation) against the simulator.
Its requests are written to `recorded/` with all texts filled. The names of programs or recordings
as arguments limit it to those. A program that is not installed is left out, and said to be.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.testing import running_simulator
from tests.clients.filler import Filler
from tests.clients.programs import PROGRAMS, run
from tests.clients.recordings import Recording, Turn, write
from tools.clients.versions import versions

SHOWN = (
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
    "originator",
    "x-app",
    "x-codex-beta-features",
    "x-openai-internal-codex-responses-lite",
)
"""Headers whose values tell of the protocol and of nobody's machine."""

_PROMPTS = (
    "Please write the file. [[sim: scenario=agent path={folder}notes.txt content=Something]]",
    "And another. [[sim: scenario=agent path={folder}more.txt content=Another]]",
)


@dataclass(frozen=True)
class Wanted:
    """A recording to make: programs send other things for models they know."""

    name: str
    program: str
    model: str


WANTED = (
    Wanted("claude-code", "claude-code", "claude-sonnet-5"),
    Wanted("claude-code-other-model", "claude-code", "qwen3-coder"),
    Wanted("codex", "codex", "gpt-5.5"),
    Wanted("codex-lite", "codex", "gpt-6-sol"),
    Wanted("codex-other-model", "codex", "qwen3-coder"),
    Wanted("ai-sdk-chat", "ai-sdk-chat", "gpt-5.5"),
    Wanted("ai-sdk-compatible", "ai-sdk-compatible", "qwen3-coder"),
    Wanted("ai-sdk-responses", "ai-sdk-responses", "gpt-5.5"),
    Wanted("ai-sdk-anthropic", "ai-sdk-anthropic", "claude-sonnet-5"),
    Wanted("opencode-chat", "opencode-chat", "qwen3-coder"),
    Wanted("opencode-messages", "opencode-messages", "claude-sonnet-5"),
    Wanted("opencode-responses", "opencode-responses", "gpt-5.5"),
    Wanted("pi-chat", "pi-chat", "qwen3-coder"),
    Wanted("pi-messages", "pi-messages", "claude-sonnet-5"),
    Wanted("pi-responses", "pi-responses", "gpt-5.5"),
    Wanted("qwen-code-chat", "qwen-code-chat", "qwen3-coder"),
    Wanted("qwen-code-messages", "qwen-code-messages", "claude-sonnet-5"),
    Wanted("qwen-code-responses", "qwen-code-responses", "gpt-5.5"),
    Wanted("cline-chat", "cline-chat", "qwen3-coder"),
    Wanted("cline-responses", "cline-responses", "gpt-5.5"),
    Wanted("openai-runner", "openai-runner", "gpt-5.5"),
    Wanted("anthropic-runner", "anthropic-runner", "claude-sonnet-5"),
    Wanted("pydantic-ai-chat", "pydantic-ai-chat", "gpt-5.5"),
    Wanted("pydantic-ai-messages", "pydantic-ai-messages", "claude-sonnet-5"),
    Wanted("pydantic-ai-responses", "pydantic-ai-responses", "gpt-5.5"),
    Wanted("langchain-chat", "langchain-chat", "gpt-5.5"),
    Wanted("langchain-messages", "langchain-messages", "claude-sonnet-5"),
    Wanted("langchain-responses", "langchain-responses", "gpt-5.5"),
    Wanted("llama-index-chat", "llama-index-chat", "gpt-5.5"),
    Wanted("llama-index-responses", "llama-index-responses", "gpt-5.5"),
    Wanted("openai-agents-chat", "openai-agents-chat", "gpt-5.5"),
    Wanted("openai-agents-responses", "openai-agents-responses", "gpt-5.5"),
)


def main(names: list[str]) -> int:
    for wanted in WANTED:
        if names and not {wanted.name, wanted.program} & set(names):
            continue
        try:
            recording = record(wanted)
        except pytest.skip.Exception as absent:
            sys.stdout.write(f"{wanted.name}: left out, {absent}\n")
            continue
        write(recording)
        sys.stdout.write(f"{wanted.name}: {len(recording.turns)} turns\n")
    return 0


def record(wanted: Wanted) -> Recording:
    """Run the program and take what it sent.

    Raises:
        RuntimeError: it failed, or the simulator refused a request.
    """
    program = PROGRAMS[wanted.program]
    with running_simulator() as simulator, tempfile.TemporaryDirectory() as folder:
        prompts = _PROMPTS if program.resumable else _PROMPTS[:1]
        for number, prompt in enumerate(prompts):
            resume = number > 0
            workdir = Path(folder)
            asked = prompt.format(folder=f"{workdir / 'work'}/" if program.absolute else "")
            done = run(
                program.name, simulator.base_url, wanted.model, asked, workdir, resume=resume
            )
            if done.status != 0:
                raise RuntimeError(f"{wanted.name} failed: {done}")
        if not (Path(folder) / "work/notes.txt").exists():
            raise RuntimeError(f"{wanted.name} wrote no file: {done}")
        requests = [
            request
            for request in simulator.requests
            # What asks for a conversation that the server keeps is refused, and asked anew.
            if request.body and "thread" not in request.json
        ]
    refused = [request.status for request in requests if request.status != 200]
    if refused:
        raise RuntimeError(f"{wanted.name}: requests were refused with {refused}")
    filler = Filler(secrets.token_bytes(32))
    turns = tuple(_turn(request, filler) for request in requests)
    return Recording(wanted.name, versions(wanted.program), program.protocol, turns)


def _turn(request: RecordedRequest, filler: Filler) -> Turn:
    body: dict[str, Any] = filler.body(request.json)
    query = f"?{request.query}" if request.query else ""
    headers = {name: value if name in SHOWN else None for name, value in request.headers}
    return Turn(request.path + query, headers, body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

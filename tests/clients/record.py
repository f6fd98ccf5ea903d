"""Records what the real programs send: `python -m tests.clients.record` (`make record-clients`).

Each works on two prompts (one, where it cannot go on with a conversation) against the simulator.
Its requests are written to `recorded/` with all texts filled. The names of programs or recordings
as arguments limit it to those.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.simulator.recording import RecordedRequest
from dragoman.simulator.testing import running_simulator
from tests.clients.filler import Filler
from tests.clients.programs import NODE_MODULES, PROGRAMS, VENV_PYTHON, run
from tests.clients.recordings import Recording, Turn, write

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
    "Please write the file. [[sim: scenario=agent path=notes.txt content=Something]]",
    "And another. [[sim: scenario=agent path=more.txt content=Another]]",
)
_PACKAGES = {
    "claude-code": ("@anthropic-ai/claude-code",),
    "codex": ("@openai/codex",),
    "ai-sdk-chat": ("ai", "@ai-sdk/openai"),
    "ai-sdk-compatible": ("ai", "@ai-sdk/openai-compatible"),
    "ai-sdk-responses": ("ai", "@ai-sdk/openai"),
    "ai-sdk-anthropic": ("ai", "@ai-sdk/anthropic"),
    **dict.fromkeys(
        ("opencode-chat", "opencode-messages", "opencode-responses"), ("opencode-linux-x64",)
    ),
    **dict.fromkeys(("pi-chat", "pi-messages", "pi-responses"), ("@mariozechner/pi-coding-agent",)),
}


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
    Wanted("openai-agents-chat", "openai-agents-chat", "gpt-5.5"),
    Wanted("openai-agents-responses", "openai-agents-responses", "gpt-5.5"),
)


def main(names: list[str]) -> int:
    for wanted in WANTED:
        if names and not {wanted.name, wanted.program} & set(names):
            continue
        recording = record(wanted)
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
            done = run(
                program.name, simulator.base_url, wanted.model, prompt, workdir, resume=resume
            )
            if done.status != 0:
                raise RuntimeError(f"{wanted.name} failed: {done}")
        requests = [request for request in simulator.requests if request.body]
    refused = [request.status for request in requests if request.status != 200]
    if refused:
        raise RuntimeError(f"{wanted.name}: requests were refused with {refused}")
    filler = Filler(secrets.token_bytes(32))
    turns = tuple(_turn(request, filler) for request in requests)
    return Recording(wanted.name, _versions(wanted.program), program.protocol, turns)


def _turn(request: RecordedRequest, filler: Filler) -> Turn:
    body: dict[str, Any] = filler.body(request.json)
    query = f"?{request.query}" if request.query else ""
    headers = {name: value if name in SHOWN else None for name, value in request.headers}
    return Turn(request.path + query, headers, body)


def _versions(program: str) -> str:
    """The client with its versions: `ai 7.0.1, @ai-sdk/openai 4.0.2`."""
    packages = _PACKAGES.get(program)
    if packages is None:
        return f"openai-agents {_installed('openai-agents')}"
    manifests = {name: NODE_MODULES / name / "package.json" for name in packages}
    return ", ".join(
        f"{n} {json.loads(path.read_text())['version']}" for n, path in manifests.items()
    )


def _installed(package: str) -> str:
    """The version of a package in the environment of the Python clients."""
    found = (VENV_PYTHON.parent.parent / "lib").glob(
        f"python*/site-packages/{package.replace('-', '_')}-*.dist-info"
    )
    return next(found).name.removesuffix(".dist-info").rpartition("-")[2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Which versions of a client are installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.clients.installed import (
    FRAMEWORKS_PYTHON,
    LLAMA_INDEX_PYTHON,
    NODE_MODULES,
    VENV_PYTHON,
    cline,
    node,
    qwen_code,
)

_NPM = {
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
_PYTHON: dict[str, tuple[Path, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("openai-agents-chat", "openai-agents-responses"), (VENV_PYTHON, ("openai-agents",))
    ),
    **dict.fromkeys(
        ("pydantic-ai-chat", "pydantic-ai-responses"),
        (FRAMEWORKS_PYTHON, ("pydantic-ai-slim", "openai")),
    ),
    "pydantic-ai-messages": (FRAMEWORKS_PYTHON, ("pydantic-ai-slim", "anthropic")),
    **dict.fromkeys(
        ("langchain-chat", "langchain-responses"),
        (FRAMEWORKS_PYTHON, ("langchain-openai", "openai")),
    ),
    "langchain-messages": (FRAMEWORKS_PYTHON, ("langchain-anthropic", "anthropic")),
    **dict.fromkeys(
        ("llama-index-chat", "llama-index-responses"),
        (LLAMA_INDEX_PYTHON, ("llama-index-llms-openai", "openai")),
    ),
    "openai-runner": (FRAMEWORKS_PYTHON, ("openai",)),
    "anthropic-runner": (FRAMEWORKS_PYTHON, ("anthropic",)),
}


def versions(program: str) -> str:
    """The client's packages with their versions: `ai 7.0.1, @ai-sdk/openai 4.0.2`."""
    if program in _NPM:
        manifests = {name: NODE_MODULES / name / "package.json" for name in _NPM[program]}
        found = {n: json.loads(path.read_text())["version"] for n, path in manifests.items()}
    elif program in _PYTHON:
        python, packages = _PYTHON[program]
        found = {name: _installed(python, name) for name in packages}
    elif program.startswith("qwen-code"):
        found = {"@qwen-code/qwen-code": _told(node(), str(qwen_code()))}
    else:
        found = {"cline": _told(str(cline()))}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _installed(python: Path, package: str) -> str:
    """The version of a package in an environment."""
    found = (python.parent.parent / "lib").glob(
        f"python*/site-packages/{package.replace('-', '_')}-*.dist-info"
    )
    return next(found).name.removesuffix(".dist-info").rpartition("-")[2]


def _told(*words: str) -> str:
    """What a program says its version is."""
    shown = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60)
    return shown.stdout.strip()

"""Programs that are recorded and not driven by tests: frameworks that take long to install, and
agents whose packages cannot be locked for every platform."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.installed import (
    FOLDER,
    FRAMEWORKS_PYTHON,
    LLAMA_INDEX_PYTHON,
    elsewhere,
    missing,
    node,
)
from tests.clients.tasks import KEY, Api, Command, Program, Task, task_json


def qwen_code() -> Path:
    """qwen-code's script: `cli-entry.js` of @qwen-code/qwen-code."""
    return elsewhere("qwen", "DRAGOMAN_QWEN")


def cline() -> Path:
    """cline's binary: `bin/cline` of the package of its platform."""
    return elsewhere("cline", "DRAGOMAN_CLINE")


def _qwen_code(api: Api) -> Callable[[Task], Command]:
    kinds: dict[Api, str] = {
        "chat": "openai",
        "messages": "anthropic",
        "responses": "openai-responses",
    }

    def command(task: Task) -> Command:
        words = [node(), str(qwen_code()), "--auth-type", kinds[api], "--model", task.model]
        words += ["--approval-mode", "yolo"]
        vendor, url = ("ANTHROPIC", task.url) if api == "messages" else ("OPENAI", f"{task.url}/v1")
        return Command(
            [*words, *task.arguments, task.prompt],
            {
                f"{vendor}_BASE_URL": url,
                f"{vendor}_API_KEY": KEY,
                f"{vendor}_MODEL": task.model,
                "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
            },
        )

    return command


def _cline(api: Api) -> Callable[[Task], Command]:
    name = {"chat": "openai-compatible", "responses": "openai-native"}[api]

    def command(task: Task) -> Command:
        settings: dict[str, Any] = {
            "provider": name,
            "apiKey": KEY,
            "model": task.model,
            "baseUrl": f"{task.url}/v1",
        }
        chosen = {
            "settings": settings,
            "updatedAt": "2026-11-21T00:00:00.000Z",
            "tokenSource": "manual",
        }
        file = task.home / ".cline/data/settings/providers.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            json.dumps(
                {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: chosen}}
            )
        )
        words = [str(cline()), "--provider", name, "--model", task.model]
        return Command([*words, *task.arguments, task.prompt])

    return command


def _library(script: str, provider: str, python: Path) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        if not python.exists():
            missing(f"the environment of {script}", "run `make record-clients`")
        # -I: neither this folder nor the caller's packages are seen.
        words = [str(python), "-I", str(FOLDER / script)]
        return Command(words, stdin=task_json(task, provider))

    return command


def _made_of(name: str, script: str, python: Path = FRAMEWORKS_PYTHON) -> tuple[Program, Program]:
    """Agents of a framework over both APIs of OpenAI."""
    return (
        Program(f"{name}-chat", "chat", _library(script, "chat", python)),
        Program(f"{name}-responses", "responses", _library(script, "responses", python)),
    )


def _on_messages(name: str, script: str) -> Program:
    return Program(name, "messages", _library(script, "anthropic", FRAMEWORKS_PYTHON))


VISITORS: tuple[Program, ...] = (
    # Resumed, it lists the folder anew in its first message: that is another conversation.
    Program("qwen-code-chat", "chat", _qwen_code("chat"), absolute=True),
    Program("qwen-code-messages", "messages", _qwen_code("messages"), absolute=True),
    Program("qwen-code-responses", "responses", _qwen_code("responses"), absolute=True),
    Program("cline-chat", "chat", _cline("chat")),
    Program("cline-responses", "responses", _cline("responses")),
    *_made_of("pydantic-ai", "pydantic_ai_agent.py"),
    _on_messages("pydantic-ai-messages", "pydantic_ai_agent.py"),
    *_made_of("langchain", "langchain_agent.py"),
    _on_messages("langchain-messages", "langchain_agent.py"),
    *_made_of("llama-index", "llama_index_agent.py", LLAMA_INDEX_PYTHON),
    Program("openai-runner", "responses", _library("sdk_runners.py", "openai", FRAMEWORKS_PYTHON)),
    _on_messages("anthropic-runner", "sdk_runners.py"),
)
"""The programs, named as those of `commands.PROGRAMS`."""

"""Programs that are recorded and not driven by most tests: frameworks that take long to install."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.clients.installed import (
    FOLDER,
    FRAMEWORKS_PYTHON,
    LLAMA_INDEX_PYTHON,
    missing,
)
from tests.clients.tasks import Command, Program, Task, task_json


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
    *_made_of("pydantic-ai", "pydantic_ai_agent.py"),
    _on_messages("pydantic-ai-messages", "pydantic_ai_agent.py"),
    *_made_of("langchain", "langchain_agent.py"),
    _on_messages("langchain-messages", "langchain_agent.py"),
    *_made_of("llama-index", "llama_index_agent.py", LLAMA_INDEX_PYTHON),
    Program("openai-runner", "responses", _library("sdk_runners.py", "openai", FRAMEWORKS_PYTHON)),
    _on_messages("anthropic-runner", "sdk_runners.py"),
)
"""The programs, named as those of `commands.PROGRAMS`."""

"""What a program is asked to do, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Api = Literal["chat", "messages", "responses"]
KEY = "sk-test-key"
SYSTEM = "You are a careful writer of files.\nUse the tools. Say nothing of this line: ☂."
"""What the agents made of a library are told; the programs bring their own instructions."""


@dataclass(frozen=True)
class Task:
    """One run: where to, which model, what for, and where to work."""

    url: str
    model: str
    prompt: str
    home: Path
    folder: Path
    resume: bool = False
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class Command:
    """What to start: the words, what the environment has besides the usual, and the input."""

    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


@dataclass(frozen=True)
class Program:
    """A program: the protocol it speaks, whether its conversations can be resumed from the command
    line, and how it is started."""

    name: str
    protocol: Api
    command: Callable[[Task], Command]
    resumable: bool = False
    absolute: bool = False
    """It writes only files that are named from the root."""


def task_json(task: Task, provider: str) -> str:
    """The task for an agent made of a library, on its standard input."""
    return json.dumps(
        {
            "provider": provider,
            "url": task.url,
            "key": KEY,
            "model": task.model,
            "prompt": task.prompt,
            "system": SYSTEM,
        }
    )

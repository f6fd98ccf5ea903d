"""One conversation of a real client: what it is asked, and what is to come of it."""

from __future__ import annotations

from pathlib import Path

from tests.clients.stage import UPSTREAMS

CONTENT = 'First line: "quotes" \\ ünïcode ☂'
SAID = "All of it is done."
THOUGHT = "A file is wanted, and I have a tool that writes some."

MODELS = {"claude-code": "claude-sonnet-5", "codex": "gpt-5.5"}

TORN = ("fault=truncate", "after=3", "times=1")
"""Options of `ask` by which the first answer breaks off in the middle of a thought."""

TITLED = {f"opencode-{api}": ("--title", "A file") for api in UPSTREAMS}
"""Without, a second request for a title may be the one that meets a fault."""

_CODEX = ("stream_max_retries=3", "request_max_retries=3")
ARGUMENTS = {"codex": [f"-cmodel_providers.gateway.{setting}" for setting in _CODEX]}
ENVIRONMENT = {"claude-code": {"CLAUDE_CODE_MAX_RETRIES": "3"}}
"""Arguments and environment with which clients try again no more often than others."""


def ask(path: Path, *options: str) -> str:
    """A prompt that has the simulated model write a file of that path."""
    quoted = CONTENT.replace("\\", "\\\\").replace('"', '\\"')
    steering = f'scenario=agent path={path} content="{quoted}" text="{SAID}" thought="{THOUGHT}"'
    return f"Please write it down. [[sim: {' '.join((steering, *options))}]]"

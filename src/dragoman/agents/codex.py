"""The catalogue of models that Codex reads in a list of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dragoman.agents.models import UNKNOWN_WINDOW, ShownModel
from dragoman.protocols.fields import JsonObject

_AGENTS: Final = (b"codex_", b"codex-", b"codex/")
"""How the `User-Agent` of its programs begins."""
_VERSION: Final = "client_version"
"""The parameter in which it names its version."""

_MOST_TOOL_TOKENS: Final = 10_000
"""Tokens of the output of a tool that a model is shown."""

INSTRUCTIONS: Final = """\
You are a coding agent that works in a person's terminal, on the files of the current folder. The
person gives you tasks; you carry them out with your tools until they are done.

- Read before you change: look at the files that matter, and follow the conventions, the names and
  the style that you find. Files named AGENTS.md hold instructions for the folders that they are in.
- Find text and files with `rg` and `rg --files` where they are installed.
- Change files with the tool `apply_patch` if you have it: one patch for what belongs together, with
  enough context to be unique. Do not rewrite a file whole to change a part of it.
- Change what the task needs and nothing else. Leave changes alone that you did not make. Commit,
  push, delete or reset only when asked to.
- Verify what you have done: run the tests, the build or the program, as far as you can. If one
  fails, find the cause rather than hide it.
- Do not ask for what you can find out. If a decision is the person's, or a step could do harm, ask.
- For work of several steps keep a short plan, with the tool `update_plan` if you have it.

When you are done, say briefly what you changed, where, how it was verified, and what is left. Name
files by their paths. Do not repeat what the person can read in the files.
"""
"""What a model is told before a conversation. Without it, it would be told nothing."""


def is_asking(query: Mapping[str, str], agent: bytes) -> bool:
    """Whether a list of models is asked for by Codex, by the query and the `User-Agent`."""
    return _VERSION in query or agent.startswith(_AGENTS)


def catalogue(models: Iterable[ShownModel]) -> list[JsonObject]:
    """The entries of models, in their order."""
    return [_entry(one, place) for place, one in enumerate(models)]


def _entry(model: ShownModel, place: int) -> JsonObject:
    modalities = ["text", "image"] if model.images else ["text"]
    return {
        "slug": model.name,
        "display_name": model.label,
        "description": model.description or None,
        # Without a default, nothing is sent unless a person has chosen.
        "supported_reasoning_levels": [
            {"effort": effort, "description": _EFFORTS[effort]}
            for effort in model.efforts
            if effort in _EFFORTS
        ],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": place,
        "support_verbosity": False,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": _MOST_TOOL_TOKENS},
        "supports_parallel_tool_calls": True,
        "supports_reasoning_summaries": model.summarises,
        "experimental_supported_tools": [],
        "input_modalities": modalities,
        "context_window": model.context_window or UNKNOWN_WINDOW,
        "base_instructions": INSTRUCTIONS,
    }


_EFFORTS: Final[Mapping[str, str]] = {
    "none": "No reasoning",
    "minimal": "Hardly any reasoning",
    "low": "Little reasoning, for quick answers",
    "medium": "A balance of speed and depth",
    "high": "Much reasoning, for hard problems",
    "xhigh": "Most reasoning, for the hardest problems",
}

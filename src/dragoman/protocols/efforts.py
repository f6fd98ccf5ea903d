"""Reasoning efforts: their words, their token budgets, and the nearest effort of an upstream with
other words (protocols.md 3.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias, get_args

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Thinking

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final[tuple[str, ...]] = get_args(Effort)
"""The efforts from least to most (shared/reasoning_effort.py of openai). `none`: no reasoning."""

_OF_BUDGET = ((2048, "low"), (12288, "medium"), (32768, "high"))
"""Largest thinking budget, in tokens, that an effort stands for; above all: xhigh."""

Lose: TypeAlias = Callable[[LossKind, str], None]
"""A report of how the requested effort was converted."""


def effort_of(thinking: Thinking) -> tuple[str | None, str | None]:
    """The effort for a client's request, None if the upstream decides; and the detail to report if
    the client asked for something else."""
    if thinking.effort is not None:
        return thinking.effort, None
    match thinking.mode:
        case "disabled":
            return "none", None
        case "between_tools":
            return "none", "there is no thinking between tool calls upstream"
        case "enabled" if thinking.budget is not None:
            effort = next((word for top, word in _OF_BUDGET if thinking.budget <= top), "xhigh")
            return effort, f"a thinking budget becomes the effort {effort}"
    return None, None


def known_effort(effort: str, known: Collection[str], lose: Lose) -> str | None:
    """The effort to ask an upstream for that supports the words `known`.

    An unsupported one becomes the nearest lower one, else the lowest. None if it supports none.
    """
    if effort in known:
        return effort
    nearest = _nearest(effort, known)
    if nearest is None:
        lose(LossKind.KNOB, "the upstream knows no such effort")
    else:
        lose(LossKind.CONVERTED, f"the nearest effort the upstream knows is {nearest}")
    return nearest


def _nearest(effort: str, known: Collection[str]) -> str | None:
    # No reasoning is not a lower effort: it is used only if requested.
    ordered = [word for word in EFFORTS[1:] if word in known]
    if effort not in EFFORTS or not ordered:
        return None
    rank = EFFORTS.index(effort)
    lower = [word for word in ordered if EFFORTS.index(word) < rank]
    return lower[-1] if lower else ordered[0]

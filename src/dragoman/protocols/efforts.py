"""How much a model is to think: the words for it, the budgets they stand for, and what an upstream
that knows other words is asked for (protocols.md 3.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Thinking

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From least to most (shared/reasoning_effort.py of openai). `none` is not to think at all."""

_OF_BUDGET = ((2048, "low"), (12288, "medium"), (32768, "high"))
"""Largest thinking budget, in tokens, that an effort stands for; above all: xhigh."""

Lose: TypeAlias = Callable[[LossKind, str], None]
"""Reports what becomes of the client's wish."""


def effort_of(thinking: Thinking) -> tuple[str | None, str | None]:
    """The effort that stands for a client's wish, None where that is the upstream's to decide; and
    what is to be told of it if the client wished something else."""
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
    """The effort to ask an upstream for that knows the words `known`.

    The nearest lower one stands for one it does not know, else the lowest. None if it knows none
    at all.
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
    # Not to think at all is no lower effort: it is used only when asked for.
    ordered = [word for word in EFFORTS[1:] if word in known]
    if effort not in EFFORTS or not ordered:
        return None
    rank = EFFORTS.index(effort)
    lower = [word for word in ordered if EFFORTS.index(word) < rank]
    return lower[-1] if lower else ordered[0]

"""How much a model thinks by levels, and whether its thoughts are shown (guide "Thinking")."""

from __future__ import annotations

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Thinking
from dragoman.protocols.base import Reply
from dragoman.protocols.efforts import EFFORTS, effort_of
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.request_settings import RequestSettings

LEVELS = ("minimal", "low", "medium", "high", "xhigh")
"""The efforts that have a level of their own, from least to most."""


def level_for(wish: Thinking, settings: RequestSettings) -> str | None:
    """The level for a client's request; None if the model decides."""
    effort, converted = effort_of(wish)
    if converted is not None:
        settings.lose_thinking(LossKind.CONVERTED, converted)
    if effort is None:
        return None
    known = [word for word in LEVELS if word in settings.capabilities.efforts]
    if not known:
        settings.lose_thinking(LossKind.KNOB, "the upstream knows no such effort")
        return None
    if effort == "none":
        detail = f"the model always thinks: the least is {known[0]}"
        settings.lose_thinking(LossKind.CONVERTED, detail)
        return known[0]
    if effort in known:
        return effort
    nearest = _nearest(effort, known)
    detail = f"the nearest effort the upstream knows is {nearest}"
    settings.lose_thinking(LossKind.CONVERTED, detail)
    return nearest


def _nearest(effort: str, known: list[str]) -> str:
    """The next higher level, since a model with few of them has none between low and high; the
    highest where there is none above."""
    if effort not in EFFORTS:
        return known[-1]
    rank = EFFORTS.index(effort)
    return next((word for word in known if EFFORTS.index(word) > rank), known[-1])


def is_shown(wish: Thinking, settings: RequestSettings) -> bool:
    """Whether thoughts are to be shown to a client that asked for thinking."""
    if settings.options.show_reasoning == "never" or wish.display == "omitted":
        return False
    if settings.same_protocol and wish.display is None and wish.summary is None:
        return False
    return wish.effort != "none" and wish.mode != "disabled"


def shows_thoughts(reply: Reply) -> bool:
    """Whether a client of Google's is shown thoughts: where it asked for summaries of them."""
    thinking, show = reply.request.thinking, reply.options.show_reasoning
    asked = thinking is not None and thinking.display == "summarized"
    return show == "always" or (asked and show == "auto")


def shows_unasked(settings: RequestSettings, own: GoogleCapabilities) -> bool:
    """Whether a client that asked for nothing is shown the thoughts of a model that thinks by
    itself: so its answer streams from the first thought on."""
    if settings.same_protocol or own.google_generation is None:
        return False
    return own.thinks and settings.options.show_reasoning != "never"

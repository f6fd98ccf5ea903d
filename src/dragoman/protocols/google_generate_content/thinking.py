"""How much the model thinks: `thinkingConfig`, by the model's generation (guide "Thinking")."""

from __future__ import annotations

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Thinking
from dragoman.protocols.base import Outbound
from dragoman.protocols.efforts import EFFORTS, effort_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content.capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content.generations import budgets_of
from dragoman.protocols.request_settings import RequestSettings

LEVELS = ("minimal", "low", "medium", "high", "xhigh")
"""The efforts that have a level of their own, from least to most."""

BUDGETS = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking budgets, in tokens, for efforts."""


def write_thinking(
    settings: RequestSettings, outbound: Outbound, limit: int | None
) -> JsonObject | None:
    """`thinkingConfig`; None if the model decides. `limit` is the output limit in tokens, which
    includes the thinking."""
    own = outbound.capabilities.of(GoogleCapabilities)
    wish = settings.request.thinking
    if wish is None:
        return {"includeThoughts": True} if _shows_unasked(settings, own) else None
    settings.check_display(wish)
    if not own.thinks:
        if wish.effort not in (None, "none") or wish.mode in ("adaptive", "enabled"):
            settings.lose_thinking(LossKind.KNOB, "the model cannot be asked to think")
        return None
    config: JsonObject = {}
    if own.is_signed:
        level = _level(wish, settings)
        if level is not None:
            config["thinkingLevel"] = level.upper()
    else:
        budget = _budget(wish, settings, outbound.model, limit)
        if budget is not None:
            config["thinkingBudget"] = budget
    if _is_shown(wish, settings) and config.get("thinkingBudget") != 0:
        config["includeThoughts"] = True
    return config or None


def _shows_unasked(settings: RequestSettings, own: GoogleCapabilities) -> bool:
    """Whether a client that asked for nothing is shown the thoughts of a model that thinks by
    itself: so its answer streams from the first thought on."""
    if settings.same_protocol or own.google_generation is None:
        return False
    return own.thinks and settings.options.show_reasoning != "never"


def _is_shown(wish: Thinking, settings: RequestSettings) -> bool:
    if settings.options.show_reasoning == "never" or wish.display == "omitted":
        return False
    if settings.same_protocol and wish.display is None and wish.summary is None:
        return False
    return wish.effort != "none" and wish.mode != "disabled"


# --- levels -------------------------------------------------------------------------------------


def _level(wish: Thinking, settings: RequestSettings) -> str | None:
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


# --- budgets ------------------------------------------------------------------------------------


def _budget(wish: Thinking, settings: RequestSettings, model: str, limit: int | None) -> int | None:
    allowed = budgets_of(model)
    asked = _asked(wish, settings, allowed.most)
    if asked is None or asked < 0:
        return asked
    fitted = asked
    if asked == 0:
        if allowed.off:
            return 0
        fitted = allowed.least
        detail = f"the model always thinks: the least budget is {fitted} tokens"
        settings.lose_thinking(LossKind.CONVERTED, detail)
        return fitted
    fitted = min(max(asked, allowed.least), allowed.most)
    if limit is not None and fitted + limit // 4 > limit:
        # The answer needs room as well.
        fitted = max(min(fitted, limit - limit // 4), allowed.least)
    if fitted != asked:
        kind = LossKind.REPAIRED if wish.mode == "enabled" else LossKind.KNOB
        detail = f"a thinking budget of {asked} tokens became {fitted}"
        settings.lose_thinking(kind, detail)
    return fitted


def _asked(wish: Thinking, settings: RequestSettings, most: int) -> int | None:
    """The budget that the client asks for; -1 leaves it to the model, None says nothing."""
    match wish.mode:
        case "disabled":
            return 0
        case "between_tools":
            detail = "there is no thinking between tool calls upstream"
            settings.lose_thinking(LossKind.CONVERTED, detail)
            return 0
        case "enabled" if wish.budget is not None:
            return wish.budget
    if wish.effort is None:
        return -1 if wish.mode == "adaptive" else None
    if wish.effort == "none":
        return 0
    return BUDGETS.get(wish.effort, most)

"""How much the model thinks: `thinkingConfig`, by the model's generation (guide "Thinking")."""

from __future__ import annotations

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Thinking
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities, budgets_of
from dragoman.protocols.google_thinking import is_shown, level_for, shows_unasked
from dragoman.protocols.request_settings import RequestSettings

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
        return {"includeThoughts": True} if shows_unasked(settings, own) else None
    settings.check_display(wish)
    if not own.thinks:
        if wish.effort not in (None, "none") or wish.mode in ("adaptive", "enabled"):
            settings.lose_thinking(LossKind.KNOB, "the model cannot be asked to think")
        return None
    config: JsonObject = {}
    if own.is_signed:
        level = level_for(wish, settings)
        if level is not None:
            config["thinkingLevel"] = level.upper()
    else:
        budget = _budget(wish, settings, outbound.model, limit)
        if budget is not None:
            config["thinkingBudget"] = budget
    if is_shown(wish, settings) and config.get("thinkingBudget") != 0:
        config["includeThoughts"] = True
    return config or None


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

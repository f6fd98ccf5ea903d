"""Reasoning effort, both ways: `thinking` and `output_config.effort`."""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Thinking
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.efforts import known_effort
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.reading import report_lost
from dragoman.protocols.request_settings import RequestSettings

MIN_BUDGET = 1024
"""Smallest thinking budget the service takes, in tokens."""

NO_ROOM_DETAIL = "no thinking, for the output limit leaves no room for it"
FORCED = ("any", "tool")


def read_thinking(
    config: shapes.ThinkingConfig | None, effort: str | None, extras: list[Extra]
) -> Thinking | None:
    """The members `thinking` and `output_config.effort`.

    Raises:
        InvalidRequest: naming the field.
    """
    if config is None:
        return None if effort is None else Thinking(effort=effort)
    budget = config.budget_tokens
    if config.type == "enabled" and budget is None:
        raise InvalidRequest.at("thinking.budget_tokens", "is required")
    report_lost(config, "thinking", extras)
    return Thinking(effort=effort, mode=config.type, budget=budget, display=config.display)


def room_for_thinking(limit: int) -> int:
    """The largest budget, in tokens, with which an output limit leaves room for an answer: a
    quarter of the limit, and at least the smallest budget."""
    return max(MIN_BUDGET, limit - max(MIN_BUDGET, limit // 4))


class Written(Struct):
    """`thinking`, the effort and `tool_choice` as they go upstream."""

    config: JsonObject | None = None
    effort: str | None = None
    choice: JsonObject | None = None


def write_thinking(
    settings: RequestSettings, limit: int, choice: JsonObject | None, in_loop: bool
) -> Written:
    """Express the requested thinking in the members that the model supports. `limit` is the output
    limit in tokens. `in_loop`: the last assistant turn made tool calls and does not begin with its
    thinking; token budgets are refused then. A forced `choice` of tools is refused together with
    thinking; where the client asked for thinking only by an effort, the thinking gives way."""
    wish = settings.request.thinking
    if wish is None:
        own = settings.capabilities.of(MessagesCapabilities)
        is_forced = choice is not None and choice["type"] in FORCED
        silenced = own.thinks_unasked and is_forced and own.disable_thinking
        return Written({"type": "disabled"} if silenced else None, choice=choice)
    writer = _Writer(wish, settings, limit)
    written = Written(*writer.by_mode() if wish.mode is not None else writer.by_effort(), choice)
    config = written.config
    if config is None or config["type"] not in ("adaptive", "enabled") or wish.mode is not None:
        return written
    if config["type"] == "enabled" and in_loop:
        writer.lose("no thinking, for the tool loop began without it")
        written.config, written.effort = writer.off()
    elif choice is not None and choice["type"] in FORCED:
        if writer.own.disable_thinking:
            writer.lose("no thinking, for a tool is to be called in any case")
            written.config = {"type": "disabled"}
        else:
            writer.lose("the choice of tools is left to the model, for it thinks")
            rest = {name: value for name, value in choice.items() if name not in ("type", "name")}
            written.choice = {"type": "auto", **rest}
    return written


class _Writer:
    __slots__ = ("_limit", "_settings", "_wish", "own")

    def __init__(self, wish: Thinking, settings: RequestSettings, limit: int) -> None:
        self.own = settings.capabilities.of(MessagesCapabilities)
        self._wish = wish
        self._settings = settings
        self._limit = limit

    def lose(self, detail: str, kind: LossKind = LossKind.KNOB) -> None:
        self._settings.lose_thinking(kind, detail)

    def by_mode(self) -> tuple[JsonObject | None, str | None]:
        """The members for a client of this protocol that configured thinking."""
        wish = self._wish
        effort = self._effort(wish.effort)
        match wish.mode:
            case "disabled":
                config, fallback = self.off()
                return config, effort or fallback
            case "enabled":
                return self._with_display(self._enabled(wish.budget or 0)), effort
            case "adaptive" if not self.own.adaptive_thinking:
                self.lose("adaptive thinking became a budget", LossKind.CONVERTED)
                budget = self._budget(wish.effort or "high")
                return self._with_display(self._enabled(budget)), None
            case "adaptive":
                return self._with_display({"type": "adaptive"}), effort
        return {"type": "between_tools"}, effort

    def by_effort(self) -> tuple[JsonObject | None, str | None]:
        """The members for a client that gave only an effort, or asked for a summary."""
        effort = self._wish.effort
        if effort == "none":
            return self.off()
        if self.own.adaptive_thinking:
            if effort is None and self._wish.summary is None and self._wish.display is None:
                return None, None
            return self._with_display({"type": "adaptive"}), self._effort(effort)
        if effort is None:
            return None, None
        return self._with_display(self._enabled(self._budget(effort))), None

    def off(self) -> tuple[JsonObject | None, str | None]:
        """No thinking, or as little as the model allows."""
        if self.own.disable_thinking:
            return {"type": "disabled"}, None
        return None, self._known_effort("none")

    def _effort(self, effort: str | None) -> str | None:
        return None if effort in (None, "none") else self._known_effort(effort)

    def _known_effort(self, effort: str) -> str | None:
        """The effort itself, or the nearest that the model knows."""
        known = [word for word in wire.EFFORTS if word in self._settings.capabilities.efforts]
        return known_effort(effort, known, self._settings.lose_thinking)

    def _budget(self, effort: str) -> int:
        """The budget that stands for an effort, in tokens."""
        budgets = self.own.thinking_budgets
        known = known_effort(effort, budgets, self._settings.lose_thinking)
        return MIN_BUDGET if known is None else budgets[known]

    def _enabled(self, budget: int) -> JsonObject:
        """A budget the service takes: at least 1024, and below the output limit by what the
        answer needs (a quarter of it, at least 1024)."""
        if self._limit <= MIN_BUDGET:
            self.lose(NO_ROOM_DETAIL)
            return {"type": "disabled"}
        room = room_for_thinking(self._limit)
        explicit = self._wish.mode == "enabled"
        fitted = budget
        if budget >= self._limit or (not explicit and budget > room):
            fitted = room
        fitted = max(MIN_BUDGET, fitted)
        if fitted != budget:
            kind = LossKind.REPAIRED if explicit else LossKind.KNOB
            self.lose(f"a thinking budget of {budget} tokens became {fitted}", kind)
        return {"type": "enabled", "budget_tokens": fitted}

    def _with_display(self, config: JsonObject) -> JsonObject:
        """How the thinking is to be shown; a client that asked for summaries wants them."""
        display = self._wish.display or ("summarized" if self._wish.summary else None)
        if display is not None and config["type"] != "disabled":
            config["display"] = display
        return config

"""How much the model thinks, both ways: `thinking` and `output_config.effort`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities
from dragoman.canonical.requests import Extra, Request, Thinking
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import Fields, JsonObject

_MODES = ("adaptive", "enabled", "disabled", "between_tools")
_MIN_BUDGET = 1024
_ORDER = ("minimal", *wire.EFFORTS)
_FORCED = ("any", "tool")


def read_thinking(
    config: Fields | None, effort: str | None, extras: list[Extra]
) -> Thinking | None:
    """The fields `thinking` and `output_config.effort`.

    Raises:
        InvalidRequest: naming the field.
    """
    if config is None:
        return None if effort is None else Thinking(effort=effort)
    kind: Any = config.need_str("type")
    if kind not in _MODES:
        config.fail("type", f"must be one of {', '.join(_MODES)}")
    budget = config.take_int("budget_tokens", 0)
    if kind == "enabled" and budget is None:
        config.fail("budget_tokens", "is required")
    thinking = Thinking(effort=effort, mode=kind, budget=budget, display=config.take_str("display"))
    config.rest(extras, wire.THINKING)
    return thinking


class Written(Struct):
    """`thinking`, the effort and `tool_choice` as they go upstream."""

    config: JsonObject | None = None
    effort: str | None = None
    choice: JsonObject | None = None


def write_thinking(
    request: Request, outbound: Outbound, limit: int, choice: JsonObject | None, in_loop: bool
) -> Written:
    """Express the client's wish for thinking in what the model understands.

    `limit` is the output limit in tokens. `in_loop` tells that the last assistant turn made
    tool calls and does not begin with its thinking: token budgets are refused then. A forced
    `choice` of tools is refused together with thinking; where the client asked for thinking
    only by an effort, the thinking gives way.
    """
    wish = request.thinking
    if wish is None:
        return Written(choice=choice)
    writer = _Writer(wish, request.path_of("thinking"), outbound, limit)
    written = Written(*writer.by_mode() if wish.mode is not None else writer.by_effort(), choice)
    config = written.config
    if config is None or config["type"] not in ("adaptive", "enabled") or wish.mode is not None:
        return written
    if config["type"] == "enabled" and in_loop:
        writer.lose("no thinking, for the tool loop began without it")
        written.config, written.effort = writer.off()
    elif choice is not None and choice["type"] in _FORCED:
        if outbound.capabilities.of(MessagesCapabilities).disable_thinking:
            writer.lose("no thinking, for a tool is to be called in any case")
            written.config = {"type": "disabled"}
        else:
            writer.lose("the choice of tools is left to the model, for it thinks")
            rest = {name: value for name, value in choice.items() if name not in ("type", "name")}
            written.choice = {"type": "auto", **rest}
    return written


class _Writer:
    __slots__ = ("_limit", "_outbound", "_path", "_wish")

    def __init__(self, wish: Thinking, path: str, outbound: Outbound, limit: int) -> None:
        self._wish = wish
        self._path = path
        self._outbound = outbound
        self._limit = limit

    @property
    def _capabilities(self) -> Capabilities:
        return self._outbound.capabilities

    @property
    def _own(self) -> MessagesCapabilities:
        return self._capabilities.of(MessagesCapabilities)

    def lose(self, detail: str, kind: LossKind = LossKind.KNOB) -> None:
        self._outbound.ledger.add(self._path, kind, detail)

    def by_mode(self) -> tuple[JsonObject | None, str | None]:
        """For a client that said how to think, in the words of this protocol."""
        wish = self._wish
        effort = self._effort(wish.effort)
        match wish.mode:
            case "disabled":
                config, fallback = self.off()
                return config, effort or fallback
            case "enabled":
                return self._with_display(self._enabled(wish.budget or 0)), effort
            case "adaptive" if not self._own.adaptive_thinking:
                self.lose("adaptive thinking became a budget", LossKind.CONVERTED)
                budget = self._own.thinking_budgets.get(wish.effort or "high", _MIN_BUDGET)
                return self._with_display(self._enabled(budget)), None
            case "adaptive":
                return self._with_display({"type": "adaptive"}), effort
        return {"type": "between_tools"}, effort

    def by_effort(self) -> tuple[JsonObject | None, str | None]:
        """For a client that gave only an effort, or asked for a summary."""
        effort = self._wish.effort
        if effort == "none":
            return self.off()
        if self._own.adaptive_thinking:
            if effort is None and self._wish.summary is None and self._wish.display is None:
                return None, None
            return self._with_display({"type": "adaptive"}), self._effort(effort)
        if effort is None:
            return None, None
        budget = self._own.thinking_budgets.get(effort, _MIN_BUDGET)
        return self._with_display(self._enabled(budget)), None

    def off(self) -> tuple[JsonObject | None, str | None]:
        """No thinking, or as little as the model allows."""
        if self._own.disable_thinking:
            return {"type": "disabled"}, None
        self.lose("thinking cannot be turned off upstream")
        return None, "low"

    def _effort(self, effort: str | None) -> str | None:
        """The word itself, else the nearest lower one the model knows, else the lowest."""
        if effort is None or effort == "none":
            return None
        known = [word for word in wire.EFFORTS if word in self._capabilities.efforts]
        if effort in known:
            return effort
        if effort not in _ORDER or not known:
            self.lose("the effort is unknown upstream")
            return None
        rank = _ORDER.index(effort)
        lower = [word for word in known if _ORDER.index(word) < rank]
        nearest = lower[-1] if lower else known[0]
        self.lose(f"effort {effort} became {nearest}")
        return nearest

    def _enabled(self, budget: int) -> JsonObject:
        """A budget the service takes: at least 1024, and below the output limit by what the
        answer needs (a quarter of it, at least 1024)."""
        if self._limit <= _MIN_BUDGET:
            self.lose("no thinking, for the output limit leaves no room for it")
            return {"type": "disabled"}
        room = max(_MIN_BUDGET, self._limit - max(_MIN_BUDGET, self._limit // 4))
        explicit = self._wish.mode == "enabled"
        fitted = budget
        if budget >= self._limit or (not explicit and budget > room):
            fitted = room
        fitted = max(_MIN_BUDGET, fitted)
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

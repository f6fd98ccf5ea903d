"""What the holder of a key may see of it."""

from __future__ import annotations

import time
from typing import Any

from dragoman.admin.own_usage import OwnUsage
from dragoman.config.windows import Calendar, Fixed, span_of
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.limits.rules import Kind
from dragoman.prices.rates import PICO
from dragoman.protocols.base import to_json
from dragoman.protocols.budgets import BudgetNotices, Spending
from dragoman.serving.limits.budget_use import cents, spending
from dragoman.serving.limits.client import Limits, LimitView
from dragoman.serving.limits.responses import amount_text, moment_text


class SelfService:
    """Handlers of `/v1/key`, and of the paths at which programs ask what they may spend."""

    def __init__(self, limits: Limits, usage: OwnUsage) -> None:
        self._limits = limits
        self._usage = usage

    async def key(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`GET /v1/key`: the key's name, when it expires, its limits, and what is left of them."""
        views = await self._limits.views(caller) if caller.is_limited else ()
        shown: dict[str, Any] = {"name": caller.name, "expires_at": moment_text(caller.ends)}
        shown["limits"] = [_limit(view, shows_amounts=caller.shows_amounts) for view in views]
        if caller.shows_amounts:
            shown["data"] = _tightest_budget(views)
        incoming.reply(200, to_json(shown))

    async def spending(
        self, notices: BudgetNotices, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """What the caller may spend and has spent, as a program of its protocol shows it.

        Raises:
            DragomanError: OVERLOADED where the store cannot be used.
        """
        views = await self._limits.views(caller) if caller.is_limited else ()
        now = time.time()
        found = spending(views, now, shows_amounts=caller.shows_amounts)
        if found is None:
            month, day, week = [await self._spent(caller, one, now) for one in _PERIODS]
            found = Spending(None, None, month, day, week)
        incoming.reply(200, to_json(notices.write(found)), [(b"cache-control", b"no-store")])

    async def _spent(self, caller: Caller, period: Calendar, now: float) -> int | None:
        """The cents that the caller has spent in the present month, week or day (UTC)."""
        if not caller.shows_amounts:
            return None
        cost = await self._usage.cost(caller, span_of(Fixed(period), now)[0], now)
        return None if cost is None else cents(cost)


_PERIODS: tuple[Calendar, ...] = ("month", "day", "week")


def _limit(view: LimitView, *, shows_amounts: bool) -> dict[str, Any]:
    rule, limit, state = view.rule, view.rule.limit, view.state
    shown: dict[str, Any] = {"scope": "team" if rule.is_team else "key", "kind": limit.kind}
    if shows_amounts:
        shown["amount"] = amount_text(rule.kind, view.amount)
        if view.granted:
            shown["granted"] = amount_text(rule.kind, view.granted)
            shown["granted_until"] = moment_text(limit.granted_ends)
    shown["window"] = limit.window
    if limit.window is not None:
        shown["zone"] = limit.zone
        if limit.anchor is not None:
            shown["anchor"] = limit.anchor
    shown["mode"] = limit.mode
    if limit.models is not None:
        shown["models"] = limit.models
    if shows_amounts:
        for name, amount in (
            ("used", state.used),
            ("reserved", state.reserved),
            ("remaining", view.remaining),
        ):
            shown[name] = amount_text(rule.kind, amount)
        shown["exhausted_at"] = moment_text(state.exhausted_at)
    shown["resets_at"] = None if limit.window is None else moment_text(state.resets_at)
    return shown


def _tightest_budget(views: tuple[LimitView, ...]) -> dict[str, float | None]:
    """The budget of which the least is left, in the members read by tools for
    OpenRouter (`GET /api/v1/key`): US dollars as numbers."""
    budgets = [
        (view.amount - view.state.used - view.state.reserved, view.amount, view.state.used)
        for view in views
        if view.rule.kind is Kind.COST and view.rule.enforced
    ]
    if not budgets:
        return {"limit": None, "usage": None, "limit_remaining": None}
    left, most, used = min(budgets)
    return {"limit": most / PICO, "usage": used / PICO, "limit_remaining": max(0, left) / PICO}

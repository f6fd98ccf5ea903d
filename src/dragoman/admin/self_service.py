"""What the holder of a key may see of it."""

from __future__ import annotations

from typing import Any

from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.limits.bound_limits import Kind
from dragoman.prices.rates import PICO
from dragoman.protocols.base import to_json
from dragoman.serving.limit_counters import LimitCounters, LimitView
from dragoman.serving.limits_told import amount_text, known_text, moment_text


class SelfService:
    """Handlers of `/v1/key`."""

    def __init__(self, limits: LimitCounters) -> None:
        self._limits = limits

    async def key(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`GET /v1/key`: the key's name, when it expires, its limits, and what is left of them."""
        views = await self._limits.views(caller) if caller.is_limited else ()
        told: dict[str, Any] = {"name": caller.name, "expires_at": moment_text(caller.ends)}
        told["limits"] = [_told(view, shows_amounts=caller.shows_amounts) for view in views]
        if caller.shows_amounts:
            told["data"] = _tightest_budget(views)
        await incoming.reply(200, to_json(told))


def _told(view: LimitView, *, shows_amounts: bool) -> dict[str, Any]:
    bound, limit = view.bound, view.bound.limit
    told: dict[str, Any] = {"scope": "team" if bound.is_team else "key", "kind": limit.kind}
    if shows_amounts:
        told["amount"] = known_text(bound.kind, view.amount)
        if view.granted:
            told["granted"] = amount_text(bound.kind, view.granted)
            told["granted_until"] = moment_text(limit.granted_ends)
    told["window"] = limit.window
    if limit.window is not None:
        told["zone"] = limit.zone
        if limit.anchor is not None:
            told["anchor"] = limit.anchor
    told["mode"] = limit.mode
    if limit.share is not None and shows_amounts:
        told["share"], told["upstream"] = limit.share, limit.upstream
    if limit.models is not None:
        told["models"] = limit.models
    if shows_amounts:
        for name, amount in (
            ("used", view.used),
            ("reserved", view.reserved),
            ("remaining", view.remaining),
        ):
            told[name] = known_text(bound.kind, amount)
        told["exhausted_at"] = moment_text(view.exhausted_at)
    told["resets_at"] = None if limit.window is None else moment_text(view.resets_at)
    return told


def _tightest_budget(views: tuple[LimitView, ...]) -> dict[str, float | None]:
    """The budget of which the least is left, in the members that tools read which were made for
    OpenRouter (`GET /api/v1/key`): US dollars as numbers."""
    budgets = [
        (most - view.used - view.reserved, most, view.used)
        for view in views
        if view.bound.kind is Kind.COST
        and view.bound.enforced
        and (most := view.amount) is not None
    ]
    if not budgets:
        return {"limit": None, "usage": None, "limit_remaining": None}
    left, most, used = min(budgets)
    return {"limit": most / PICO, "usage": used / PICO, "limit_remaining": max(0, left) / PICO}

"""What is left of limits of cost, as a scrape tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import chain, islice
from math import isinf

from dragoman.keys.ring import Caller
from dragoman.limits.rules import Kind
from dragoman.observability.metrics.families import BudgetSample
from dragoman.observability.metrics.metrics import MOST_KEYS
from dragoman.serving.limits.client import Limits, LimitView

_AT_ONCE = 50

_TOTAL = "total"
"""The window of what never begins anew."""


async def budgets(callers: Collection[Caller], limits: Limits) -> Sequence[BudgetSample]:
    """What is left of the budgets of keys and their teams: of as many keys as are counted by
    themselves, the first by their names. Nothing is asked for each of very many."""
    limited = sorted(filter(_has_budget, callers), key=lambda caller: caller.name)
    found: dict[tuple[str, str, str], BudgetSample] = {}
    for number, caller in enumerate(islice(limited, MOST_KEYS), 1):
        for view in await limits.views(caller):
            sample = _sample(view)
            if sample is None:
                continue
            known = found.get(place := (sample.scope, sample.id, sample.window))
            if known is None or sample.remaining < known.remaining:
                found[place] = sample
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return [found[place] for place in sorted(found)]


def _has_budget(caller: Caller) -> bool:
    return any(limit.kind == "cost" for limit in chain(caller.limits, caller.team_limits))


def _sample(view: LimitView) -> BudgetSample | None:
    """None of what is no budget."""
    rule = view.rule
    if rule.kind is not Kind.COST:
        return None
    resets_at = view.state.resets_at
    return BudgetSample(
        scope="team" if rule.is_team else "key",
        id=rule.owner,
        window=_TOTAL if rule.window is None else str(rule.limit.window),
        remaining=view.remaining / view.amount if view.amount else 0.0,
        resets_at=None if isinf(resets_at) else resets_at,
    )

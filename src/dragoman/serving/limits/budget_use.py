"""What clients have used of their budgets, as their programs show it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from dragoman.canonical.errors import DragomanError, Fault
from dragoman.config.windows import Rolling
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.limits.messages import Refused
from dragoman.limits.rules import Admitted, Kind, Rule
from dragoman.protocols.budgets import BudgetUse, Spending
from dragoman.serving.limits.client import LimitView
from dragoman.serving.limits.responses import window_words
from dragoman.serving.limits.use import amounts_spent

_CENT = 10**10
"""Pico-dollars."""


def notice_headers(incoming: IncomingRequest, admitted: Admitted, record: Record) -> Headers:
    """The headers of a good answer that report the fullest of a client's budgets, as of its
    admission, with what the answer came to once that is known."""

    def use() -> BudgetUse:
        granted, rules = admitted.reservation.granted, admitted.rules
        is_priced = record.charge is not None and record.charge.cost is not None
        spent = amounts_spent(admitted, record) if is_priced else (0,) * len(rules.all)
        fullest, most = rules.all[rules.budgets[0]], -1.0
        for place in rules.budgets:
            rule = rules.all[place]
            share = _share(granted.used[place] + spent[place], rule.amount(granted.at))
            if share > most:
                fullest, most = rule, share
        return _use_of(fullest, most, granted.at)

    return incoming.codec.endpoint.budgets.notice(incoming.headers, use)


def refusal_for(
    incoming: IncomingRequest, fault: Fault, use: BudgetUse | None
) -> tuple[DragomanError, Headers] | None:
    """The error for a program that shows budgets, of which one is used up, or cannot be counted
    (None). None if it gets the error that any other does."""
    written = incoming.codec.endpoint.budgets.refusal(incoming.headers, fault, use)
    return None if written is None else (DragomanError(written[0]), written[1])


def used_up(rule: Rule, refusal: Refused, now: float) -> BudgetUse:
    """The use of a limit that refuses a request since it is used up."""
    until = refusal.free_at if isinstance(rule.window, Rolling) else None
    return _use_of(rule, 1.0, now, until)


def spending(views: Sequence[LimitView], now: float, *, shows_amounts: bool) -> Spending | None:
    """What a client with these limits may spend and has spent; None if it has no budget."""
    budgets = [view for view in views if view.rule.kind is Kind.COST and view.rule.enforced]
    if not budgets:
        return None
    view = max(budgets, key=lambda one: _share(one.state.used, one.amount))
    until = view.state.resets_at if isinstance(view.rule.window, Rolling) else None
    use = _use_of(view.rule, _share(view.state.used, view.amount), now, until)
    if not shows_amounts:
        return Spending(use, None, None)
    return Spending(use, cents(view.amount), cents(view.state.used))


def cents(pico: int) -> int:
    """An amount in US cents."""
    return (pico + _CENT // 2) // _CENT


def _share(used: int, amount: int) -> float:
    return used / amount if amount else 1.0


def _use_of(rule: Rule, share: float, now: float, until: float | None = None) -> BudgetUse:
    """The use of a limit of which a share is used. It begins anew at `until`, which is the
    end of its window if it is not given."""
    window, end, seconds = rule.window, inf, inf
    if isinstance(window, Rolling):
        end, seconds = now + window.seconds, window.seconds
    elif window is not None:
        begin, end = rule.span(window, now)
        seconds = end - begin
    until = end if until is None else until
    return BudgetUse(
        now,
        share,
        until,
        seconds,
        window_words(rule),
        is_team=rule.is_team,
    )

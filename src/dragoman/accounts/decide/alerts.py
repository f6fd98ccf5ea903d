"""Alerts for the operator: quotas that run low, accounts that fall out, pools that are nearly
empty, and limits of clients that are used up. Pure.

An alert has a `key` and `until`: until then no worker sends another of the same key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from dragoman.accounts.decide.quota import QuotaWindow, Windows
from dragoman.accounts.decide.states import AccountState

AlertType = Literal[
    "account.quota", "account.out", "pool.low", "pool.empty", "limit.used", "limit.refused"
]

_LEAST_WINDOW_S = 3600.0
"""Length of the shortest window that has alerts, in seconds."""

_UNKNOWN_RESET_S = 6 * 3600.0
"""Seconds without a second alert for a window whose end is not known."""

_FOR_EVER_S = 1e9
"""Seconds without a second alert for a limit that never resets."""

_OUT_S = 60.0
"""Seconds within which several workers notice that the same account fell out."""

_POOL_S = 900.0
"""Seconds without a second alert for a pool that is nearly empty."""


class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert. It contains no secret and no text of a client.

    `text` is its sentence. `window`, `model`, `used`, `threshold` and `resets_at` are of a
    quota; `state`, `why`, `status` and `back_at` of an account that fell out; `usable` and
    `accounts` of a pool: how many of its accounts can be used; `client` or `team`, `limit`, and
    `models` if it is of some, of a limit, of which `used` is the share that was just reached, or is
    used while it refuses. Times are Unix seconds, shares are of 1.
    """

    type: AlertType
    at: float
    upstream: str = ""
    text: str
    key: str
    until: float
    also: tuple[str, ...] = ()
    account: str = ""
    window: str = ""
    model: str = ""
    used: float | None = None
    threshold: float | None = None
    resets_at: float | None = None
    state: str = ""
    why: str = ""
    back_at: float | None = None
    usable: int | None = None
    accounts: int | None = None
    client: str = ""
    team: str = ""
    limit: str = ""
    models: tuple[str, ...] = ()


class LimitOf(Struct, frozen=True):
    """A limit of the key `owner`, or of the team. Others may have its `name` (`key:cost:month`) and
    count other `models`; `settings` distinguish it from them, and from its earlier settings."""

    owner: str
    name: str
    is_team: bool = False
    models: tuple[str, ...] = ()
    settings: str = ""


def of_limit(
    limit: LimitOf, percent: int, resets_at: float | None, now: float, *, refuses: bool = False
) -> Alert:
    """The alert of a share of a limit that was reached, in percent; or that it `refuses` requests
    while so much is used, which it does before all is. It is sent once until `resets_at`, once for
    ever if that is None."""
    owner, is_team = limit.owner, limit.is_team
    whose = "team" if is_team else "key"
    used = f"{percent} % of the limit {limit.name} of the {whose} {owner} are used"
    which = blake2b(limit.settings.encode(), digest_size=12).hexdigest()
    return Alert(
        type="limit.refused" if refuses else "limit.used",
        at=now,
        text=f"{used}, and it refuses requests." if refuses else f"{used}.",
        key=f"limit {whose} {owner} {limit.name} {which} {'refused' if refuses else percent}",
        until=now + _FOR_EVER_S if resets_at is None else resets_at,
        client="" if is_team else owner,
        team=owner if is_team else "",
        limit=limit.name,
        models=limit.models,
        used=percent / 100,
        resets_at=resets_at,
    )


def of_quota(
    account: str, upstream: str, windows: Windows, thresholds: Sequence[float], now: float
) -> Iterator[Alert]:
    """The alerts of an account's quota windows: of each the highest of the thresholds that it has
    reached. It stands for the lower ones too (`also` are their keys), until the window ends."""
    for window in windows:
        used = window.known(now)
        reached = sorted(at for at in thresholds if used is not None and used >= at)
        if used is None or not reached or not _is_long(window):
            continue
        model = f" of {window.model}" if window.model else ""
        start = f"quota {account} {window.name} {window.model}"
        yield Alert(
            type="account.quota",
            at=now,
            upstream=upstream,
            account=account,
            text=f"Account {account} has used {used:.0%} of its quota {window.name}{model}.",
            key=f"{start} {reached[-1]:g}",
            also=tuple(f"{start} {at:g}" for at in reached[:-1]),
            until=window.resets_at or now + _UNKNOWN_RESET_S,
            window=window.name,
            model=window.model,
            used=used,
            threshold=reached[-1],
            resets_at=window.resets_at,
        )


def _is_long(window: QuotaWindow) -> bool:
    if window.seconds is not None:
        return window.seconds >= _LEAST_WINDOW_S
    return window.resets_at is not None and window.resets_at - window.told_at >= _LEAST_WINDOW_S


def of_change(before: AccountState, after: AccountState, upstream: str, now: float) -> Alert | None:
    """The alert of an account that fell out for every model; None if it did not, if it was out
    before, or if a person took it out."""
    if after.by_hand or before.disabled:
        return None
    was_out = before.exhausted is not None and before.exhausted.until > now
    out = after.exhausted is not None and after.exhausted.until > now
    if after.disabled:
        state, why, back_at = "disabled", after.disabled, None
    elif after.exhausted is not None and out and not was_out:
        state, why, back_at = "exhausted", after.exhausted.why, after.exhausted.until
    else:
        return None
    return Alert(
        type="account.out",
        at=now,
        upstream=upstream,
        account=after.name,
        text=f"Account {after.name} is {state}: {why}.",
        key=f"out {after.name} {state}",
        until=now + _OUT_S,
        state=state,
        why=why,
        back_at=back_at,
    )


def of_pool(upstream: str, usable: int, accounts: int, share: float, now: float) -> Alert | None:
    """The alert of a pool of which so many accounts can be used; None if there are enough."""
    if not accounts or usable > (max(1.0, accounts * share) if accounts > 1 else 0):
        return None
    left = f"{usable} of {accounts} accounts of {upstream} can be used."
    return Alert(
        type="pool.low" if usable else "pool.empty",
        at=now,
        upstream=upstream,
        text=left if usable else f"None of the {accounts} accounts of {upstream} can be used.",
        key=f"pool {upstream} {'low' if usable else 'empty'}",
        until=now + _POOL_S,
        usable=usable,
        accounts=accounts,
    )

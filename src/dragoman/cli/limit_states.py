"""How limits stand, and whether a request would be admitted, told from the files of a gateway
whether it runs or not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.accounts.store import Store
from dragoman.config import Config
from dragoman.keys.records import UsedInHour
from dragoman.keys.ring import FixedKey, KeyRing
from dragoman.limits.estimates import FIRST_OUTPUT
from dragoman.limits.rows import Counters
from dragoman.operations.limit_service import NumberedLimit
from dragoman.prices.loading import load_prices
from dragoman.serving.limit_counters import LimitCounters
from dragoman.serving.routing import Router
from dragoman.serving.simulated_admission import (
    Answer,
    LimitState,
    SimulatedAdmission,
    state_of,
)
from dragoman.storage.opening import limits_for
from dragoman.storage.shared_limits import PrivateLimits


def states(
    config: Config, store: Store, name: str, limits: Sequence[NumberedLimit], *, is_team: bool
) -> list[LimitState]:
    """How the limits of a key or a team stand.

    Raises:
        StoreError: the store cannot be used.
    """

    async def run() -> list[LimitState]:
        counters = _counters(config, store)
        try:
            given = [one.limit for one in limits]
            views = await counters.views_of(name, given, is_team=is_team)
            return [state_of(view) for view in views]
        finally:
            await counters.close()

    return asyncio.run(run())


def simulated(config: Config, store: Store, name: str, fields: Mapping[str, Any]) -> Answer:
    """Whether a request with the key of this name would be admitted.

    Raises:
        InvalidInput: a field is wrong.
        PriceError: the table of prices cannot be used.
        StoreError: the store cannot be used.
    """
    keys = KeyRing(
        [FixedKey(client.name, client.rules, ()) for client in config.clients],
        {team.name: team for team in config.teams},
    )
    keys.update(store.client_keys.all_keys(), store.client_keys.all_teams())

    async def run() -> Answer:
        counters = _counters(config, store)
        try:
            asked = SimulatedAdmission(
                keys, Router(config), load_prices(config), counters, lambda *_: FIRST_OUTPUT
            )
            return await asked.ask(name, fields)
        finally:
            await counters.close()

    return asyncio.run(run())


def _counters(config: Config, store: Store) -> LimitCounters:
    async def used_since(name: str, since: float, *, is_team: bool) -> Sequence[UsedInHour]:
        return store.client_keys.used(name, since, is_team=is_team)

    def opened() -> Counters:
        # Whoever looks makes no file: it would be this user's, and not the gateway's.
        if Path(f"{config.storage.path}-limits").exists():
            return limits_for(config, None)
        return PrivateLimits()

    counters = LimitCounters(opened, used_since)
    counters.history.subscriptions = [
        one.name for one in config.upstreams if one.billing == "subscription"
    ]
    return counters

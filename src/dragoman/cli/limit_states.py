"""The states of limits, and whether a request would be admitted: from the gateway that runs on
this machine, else from rows of usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.accounts.store import Store
from dragoman.config import Config
from dragoman.keys.records import UsedInHour
from dragoman.keys.ring import FixedKey, KeyRing
from dragoman.limits.estimates import FIRST_OUTPUT
from dragoman.operations.limit_service import NumberedLimit
from dragoman.prices.loading import load_prices
from dragoman.processes.asking import RunningOwner
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.exchange import LedgerExchange
from dragoman.serving.limits.history import UsageHistory
from dragoman.serving.limits.simulation import Answer, LimitState, SimulatedAdmission, state_of
from dragoman.serving.routing import Router
from dragoman.storage.opening import ledgers_for


def states(
    config: Config, store: Store, name: str, limits: Sequence[NumberedLimit], *, is_team: bool
) -> list[LimitState]:
    """The states of the limits of a key or a team.

    Raises:
        StoreError: the store cannot be used.
    """
    given = [one.limit for one in limits]
    views = asyncio.run(_limits(config, store).views_of(name, given, is_team=is_team))
    return [state_of(view) for view in views]


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
    stored = store.client_keys
    keys.update(stored.all_keys(), stored.all_teams(), stored.limit_resets())
    admission = SimulatedAdmission(
        keys,
        Router(config),
        load_prices(config),
        _limits(config, store),
        lambda *_: FIRST_OUTPUT,
    )
    return asyncio.run(admission.ask(name, fields))


def _limits(config: Config, store: Store) -> Limits:
    async def used_since(name: str, since: float, *, is_team: bool) -> Sequence[UsedInHour]:
        return store.client_keys.used(name, since, is_team=is_team)

    history = UsageHistory(used_since)
    history.subscriptions = [one.name for one in config.upstreams if one.billing == "subscription"]
    ledgers = ledgers_for(config)
    exchange = None if ledgers is None else LedgerExchange(ledgers)
    return Limits(RunningOwner(config.server), history, LimitAlerts(), exchange=exchange)

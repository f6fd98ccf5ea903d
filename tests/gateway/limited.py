"""Gateways whose keys have limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from dragoman.config import Client, Config, OwnPrice, Secret, Storage, Team
from dragoman.config.limits import Limit
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, call

PRICE = OwnPrice(model="sim-*", input="1000", output="1000")

OTHER_KEY = "sk-other-client"


def limit(kind: str, amount: int | str, window: str | None = "1m", **fields: Any) -> Limit:
    window = None if kind == "concurrent" else window
    return Limit(kind=kind, amount=amount, window=window, **fields)  # type: ignore[arg-type]


def config(
    base_url: str,
    *limits: Limit,
    team: tuple[Limit, ...] = (),
    store: str = "",
    prices: tuple[OwnPrice, ...] = (PRICE,),
    **rules: Any,
) -> Config:
    """Two clients, `tester` with these limits, and `other` with none of its own, in one team."""
    fields: dict[str, Any] = {"team": "t"} if team else {}
    clients = (
        Client(name="tester", key=Secret(KEY), limits=limits, **fields, **rules),
        Client(name="other", key=Secret(OTHER_KEY), **fields),
    )
    made = config_for(base_url, clients=clients)
    teams = (Team(name="t", limits=team),) if team else ()
    return replace(made, teams=teams, storage=Storage(path=store), prices=prices)


@contextmanager
def serving(config: Config) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway and the lines of its log."""
    lines: list[Any] = []
    with running_gateway(config, lambda line: lines.append(json.loads(line))) as gateway:
        yield gateway, lines


def ask(
    gateway: RunningGateway,
    api: str = "chat",
    model: str = "chat/sim-text",
    text: str = "Hello",
    *,
    key: str = KEY,
    **more: Any,
) -> Answer:
    if api == "responses":
        more["store"] = False
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, text, **more), key=key)


def told(gateway: RunningGateway, key: str = KEY) -> Any:
    return call(gateway.base_url, "GET", "/v1/key", key=key).json

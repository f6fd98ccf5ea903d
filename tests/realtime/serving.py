"""Gateways over the simulated vendor of realtime, and sessions with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dragoman.config import OwnPrice, Route, Secret, Server, Storage
from dragoman.config.limits import Limit
from dragoman.lab.simulator.realtime import Realtime
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.endpoints.serving import config, serving, upstream
from tests.websocket.client import Socket, handshake

PRICE = OwnPrice(model="*", input="4", output="16", cached="0.4")
CREATE = {"type": "response.create"}


@contextmanager
def gateway_over(
    simulator: RunningSimulator,
    *,
    keys: tuple[str, ...] = ("sk-sim-account",),
    limits: tuple[Limit, ...] = (),
    folder: Path | None = None,
    suffix: str = "",
    expires: datetime | None = None,
    **upstreams: Any,
) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway, and the lines of its log. Its model `voice` is called `sim-voice` upstream. With a
    `folder` it has a store. The upstream's URL ends with `suffix`. The client's key `expires`."""
    made = config(
        upstream("vendor", simulator.base_url + suffix, **upstreams),
        keys=keys,
        routes=(Route(match="voice", upstream="vendor", model="sim-voice"),),
        prices=(PRICE,),
        limits=limits,
        expires=expires,
    )
    made = replace(made, server=Server(shutdown_grace_s=5.0))
    if folder is not None:
        storage = Storage(path=str(folder / "store.db"), key=Secret("key-of-the-store-16"))
        made = replace(made, storage=storage)
    with serving(made) as running:
        yield running


def fresh(simulator: RunningSimulator) -> Realtime:
    """The vendor, with nothing remembered of other tests."""
    simulator.app.realtime = Realtime()
    return simulator.app.realtime


def session(gateway: RunningGateway, query: str = "model=voice", **headers: str) -> Socket:
    """A session, whose first event was read."""
    path = f"/v1/realtime?{query}"
    sock = Socket(gateway.base_url, handshake(**headers), path=path)
    assert sock.event()["type"] == "session.created"
    return sock


def turn(sock: Socket, event: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Have an answer given. Returns its events."""
    sock.send(event or CREATE)
    found = [sock.event()]
    while found[-1]["type"] != "response.done":
        found.append(sock.event())
    return found


def until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


def answers(lines: list[Any]) -> list[Any]:
    """The lines of the log that are of answers within sessions."""
    return [line for line in lines if line["route"] == "POST /v1/realtime"]

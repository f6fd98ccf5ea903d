"""`python -m tests.gateway.limit_costs`: what limits add to a request, alone and over a socket.

In one process: microseconds of CPU from admission to settlement of a request with four limits, the
least of many rounds. With several workers: how long a request takes with and without limits,
where each asks the supervisor.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.canonical.errors import DragomanError
from dragoman.canonical.usage import Usage
from dragoman.config import Config, OwnPrice, Upstream
from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.edge.record import Record
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.prices.loading import load_prices
from dragoman.protocols import CODECS
from dragoman.serving.limits.admission import Admission
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.history import UsageHistory
from dragoman.serving.limits.service import LimitService
from dragoman.serving.routing import Router
from dragoman.translation import ClientRequest
from tests.gateway.http import Connection
from tests.gateway.processes import ASKED, gateway_process
from tests.gateway.slow_upstream import slow_upstream

FOUR = (
    Limit(kind="requests", amount=10**9, window="1m"),
    Limit(kind="tokens", amount=10**12, window="1m"),
    Limit(kind="cost", amount="100000", window="month"),
    Limit(kind="concurrent", amount=1000),
)
BODY = (
    b'{"model":"chat/m","max_tokens":100,'
    b'"messages":[{"role":"user","content":"hello there how are you"}]}'
)
ROUNDS, EACH = 40, 500

TABLES = """
[[prices]]
model = "*"
input = "1"
output = "2"
[[clients]]
name = "plain"
key = "sk-of-the-plain"
[[clients]]
name = "limited"
key = "sk-of-the-limited"
[[clients.limits]]
kind = "requests"
amount = 1_000_000_000
window = "1m"
[[clients.limits]]
kind = "tokens"
amount = 1_000_000_000_000
window = "1m"
[[clients.limits]]
kind = "cost"
amount = "100000"
window = "month"
[[clients.limits]]
kind = "concurrent"
amount = 1000
"""


class _Incoming:
    """What admission uses of a request that came in."""

    def __init__(self) -> None:
        self.codec = CODECS["openai_chat"]
        self.lines = b""
        self.shared: list[Any] = []


def least(work: Callable[[], object]) -> float:
    """Microseconds of CPU that one call takes, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(EACH):
            work()
        best = min(best, time.process_time() - begun)
    return best / EACH * 1e6


async def alone() -> dict[str, float]:
    """What limits cost where the owner is in the same process."""
    config = Config(
        upstreams=(Upstream(name="chat", protocol="openai_chat", base_url="http://127.0.0.1:1"),),
        prices=(OwnPrice(model="*", input="1", output="2"),),
    )
    prices, target = load_prices(config), Router(config).resolve("chat/m")
    owner = Owner()
    LimitService().register(owner.handlers)
    limits = Limits(owner.join(Handlers()), UsageHistory())
    admission = Admission(limits)
    caller, usage = Caller("k", limits=FOUR), Usage(input=20, output=30)
    await limits.bind(caller)
    incoming: Any = _Incoming()
    request, now = ClientRequest("openai_chat", BODY), time.time()

    def whole() -> None:
        record = Record(model="chat/m")
        incoming.lines, incoming.shared = b"", []
        with suppress(StopIteration):
            admission.admit(incoming, caller, record, request, target, prices).send(None)
        record.usage, record.charge = usage, prices.charge("chat", "m", usage, now)
        admission.settle(record, time.time())

    refused = Caller("r", limits=(Limit(kind="requests", amount=0, window="1m"),))
    await limits.bind(refused)

    def refusing() -> None:
        incoming.lines, incoming.shared = b"", []
        work = admission.admit(incoming, refused, Record(), request, target, prices)
        with suppress(DragomanError):
            work.send(None)

    return {"four limits, alone": least(whole), "a refusal, alone": least(refusing)}


def over_sockets(folder: Path, workers: int) -> dict[str, float]:
    """How long requests take with and without limits, one after the other, in turn."""
    taken: dict[str, list[float]] = {"plain": [], "limited": []}
    with (
        slow_upstream() as upstream,
        gateway_process(folder, upstream.url, {"a": "sk-a"}, workers=workers, tables=TABLES) as one,
    ):
        upstream.takes_s = 0.0
        connection = Connection(one.url)
        for number in range(2000):
            for name, times in taken.items():
                headers = {"authorization": f"Bearer sk-of-the-{name}"}
                begun = time.perf_counter()
                connection.send("POST", "/v1/chat/completions", ASKED, headers)
                answer = connection.answer()
                if number > 100:
                    times.append(time.perf_counter() - begun)
                assert answer.status == 200, answer.body
    found = {name: statistics.quantiles(times, n=100) for name, times in taken.items()}
    return {
        f"added with {workers} workers, {percent} %": 1e6
        * (found["limited"][percent - 1] - found["plain"][percent - 1])
        for percent in (50, 90, 99)
    }


def main() -> int:
    """Print what was found."""
    costs = asyncio.run(alone())
    for workers in (1, 2):
        with tempfile.TemporaryDirectory(prefix="limit-costs-") as folder:
            costs |= over_sockets(Path(folder), workers)
    for name, cost in costs.items():
        sys.stdout.write(f"{name:32} {cost:8.2f} us\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

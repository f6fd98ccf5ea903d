"""``python -m bench.limits``: what limits cost a request, and what a refusal costs.

First in this process: microseconds of CPU from admission to settlement, the least of many rounds.
Then over sockets:

One worker with a store, whose counters are in the file that workers share. A key without limits and
one with four (requests, tokens, a cost, requests at one time) ask in turn, for small answers and
with an agent's 120 KB. Then a key that is over its limit is refused, beside ``/healthz``: what any
answer costs. CPU time is of all threads. ``--against`` measures another checkout in the same
rounds.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.measure import Cell, request_cost
from bench.stored import checkouts, show
from bench.targets import Access, Target
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
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.history import UsageHistory
from dragoman.serving.limits.service import LimitService
from dragoman.serving.routing import Router
from dragoman.translation import ClientRequest

CELL = Cell("openai_chat", "openai_chat")
LIMITED, REFUSED = "sk-bench-limited", "sk-bench-refused"
TABLES = f"""
[admin]
key = "sk-bench-administrator"
[[prices]]
model = "*"
input = "1"
output = "2"
[[clients]]
name = "limited"
key = "{LIMITED}"
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
[[clients]]
name = "refused"
key = "{REFUSED}"
[[clients.limits]]
kind = "requests"
amount = 0
window = "1m"
"""


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
_ROUNDS, _EACH = 40, 500


class _Incoming:
    """What admission uses of a request that came in."""

    def __init__(self) -> None:
        self.codec = CODECS["openai_chat"]
        self.lines = b""
        self.shared: list[Any] = []


def _least(work: Callable[[], object]) -> float:
    """Microseconds of CPU that one call takes, in the best round."""
    best = float("inf")
    for _ in range(_ROUNDS):
        begun = time.process_time()
        for _ in range(_EACH):
            work()
        best = min(best, time.process_time() - begun)
    return best / _EACH * 1e6


async def alone() -> dict[str, float]:
    """What limits cost where the owner is in the same process."""
    config = Config(
        upstreams=(Upstream(name="chat", protocol="openai_chat", base_url="http://127.0.0.1:1"),),
        prices=(OwnPrice(model="*", input="1", output="2"),),
    )
    prices, target = load_prices(config), Router(config).resolve("chat/m")
    owner = Owner()
    LimitService().register(owner.handlers)
    limits = Limits(owner.join(Handlers()), UsageHistory(), LimitAlerts())
    admission = Admission(limits, LimitAlerts())
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

    return {"four limits, alone": _least(whole), "a refusal, alone": _least(refusing)}


@dataclass(frozen=True, slots=True)
class Kind:
    """Two requests that are compared, ``count`` of each in a round, 16 at a time; the second is
    answered with ``status``."""

    name: str
    plain: bytes
    other: bytes
    count: int
    status: int = 200


def kinds() -> list[Kind]:
    """What is compared."""
    limited, refused = Access(key=LIMITED), Access(key=REFUSED)
    health = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    small = CELL.request(stream=False), CELL.request(limited, stream=False)
    return [
        Kind("four limits, small", *small, 200),
        Kind("four limits, agent", CELL.agent(), CELL.agent(limited), 50),
        Kind("a refusal, /healthz", health, CELL.request(refused, stream=False), 200, 429),
    ]


async def measure(running: dict[str, Target], rounds: int) -> None:
    """Print the medians of all rounds, which are short: what else a machine does comes and goes."""
    for kind in kinds():
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for number in range(rounds):
            for name, target in running.items():
                found = {}
                for is_plain in (True, False) if number % 2 else (False, True):
                    request = kind.plain if is_plain else kind.other
                    status = 200 if is_plain else kind.status
                    found[is_plain] = await request_cost(target, request, kind.count, status=status)
                costs[name].append((found[True], found[False]))
        for name, pairs in costs.items():
            show(kind.name, name, ("without", "with"), pairs)


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="bench.limits", description=__doc__)
    parser.add_argument("--against", type=Path, help="root of another checkout")
    parser.add_argument("--rounds", type=int, default=60)
    chosen = parser.parse_args()
    for name, cost in asyncio.run(alone()).items():
        print(f"{name:20} {cost:6.1f} us", flush=True)  # noqa: T201
    with checkouts(chosen.against, TABLES) as running:
        uvloop.run(measure(running, chosen.rounds))


if __name__ == "__main__":
    main()

"""``python -m bench.limits``: what limits cost a request, and what a refusal costs.

One worker with a store, whose counters are in the file that workers share. A key without limits and
one with four (requests, tokens, a cost, requests at one time) ask in turn, for small answers and
with an agent's 120 KB. Then a key that is over its limit is refused, beside ``/healthz``: what any
answer costs. CPU time is of all threads. ``--against`` measures another checkout in the same
rounds.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.measure import Cell, request_cost
from bench.stored import checkouts, show
from bench.targets import Access, Target

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
    with checkouts(chosen.against, TABLES) as running:
        uvloop.run(measure(running, chosen.rounds))


if __name__ == "__main__":
    main()

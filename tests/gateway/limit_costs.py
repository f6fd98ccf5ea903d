"""`python -m tests.gateway.limit_costs`: what one request's limits cost, from admission to
settlement, with the counters in the file that workers share: microseconds of CPU, the least of many
rounds."""

from __future__ import annotations

import asyncio
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
from dragoman.keys.records import UsedInHour
from dragoman.limits.admission import Reservation, admit, settle
from dragoman.prices.loading import load_prices
from dragoman.protocols import CODECS
from dragoman.serving.admission import Admission
from dragoman.serving.limit_counters import LimitCounters
from dragoman.serving.limits_told import rate_lines
from dragoman.serving.request_use import spent_by
from dragoman.serving.routing import Router
from dragoman.storage.shared_limits import SharedLimits
from dragoman.translation import ClientRequest

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


class _Incoming:
    """What admission uses of a request that came in."""

    def __init__(self) -> None:
        self.codec = CODECS["openai_chat"]
        self.lines = b""
        self.shared: list[Any] = []


async def _unused(name: str, since: float, /, *, is_team: bool) -> list[UsedInHour]:
    return []


def least(work: Callable[[], object]) -> float:
    """Microseconds of CPU that one call takes, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(EACH):
            work()
        best = min(best, time.process_time() - begun)
    return best / EACH * 1e6


async def measure(folder: Path) -> dict[str, float]:
    """What the whole costs, and its parts."""
    config = Config(
        upstreams=(Upstream(name="chat", protocol="openai_chat", base_url="http://127.0.0.1:1"),),
        prices=(OwnPrice(model="*", input="1", output="2"),),
    )
    prices, target = load_prices(config), Router(config).resolve("chat/m")
    counters = LimitCounters(lambda: SharedLimits(folder / "limits"), _unused)
    admission = Admission(counters)
    caller, usage = Caller("k", limits=FOUR), Usage(input=20, output=30)
    bound = await counters.bind(caller)
    incoming: Any = _Incoming()

    # What a request without limits does, too: it is read, its log begun, its answer priced.
    request = ClientRequest("openai_chat", BODY)

    def whole() -> None:
        record = Record(model="chat/m")
        incoming.lines, incoming.shared = b"", []
        work = admission.admit(incoming, caller, record, request, target, prices)
        with suppress(StopIteration):
            work.send(None)
        record.usage = usage
        record.charge = prices.charge("chat", "m", usage, now)
        admission.settle(record, time.time())

    async def nothing() -> ClientRequest:
        return request

    def without() -> None:
        record = Record(model="chat/m")
        incoming.lines, incoming.shared = b"", []
        with suppress(StopIteration):
            nothing().send(None)
        record.usage = usage
        record.charge = prices.charge("chat", "m", usage, now)

    now = time.time()
    record = Record(model="chat/m")
    record.usage, record.charge = usage, prices.charge("chat", "m", usage, now)
    spent = bound.amounts(spent_by(record))
    wanted, _ = admission.expected.of(bound, "k", request, target, prices, now)
    amounts = bound.most(wanted.counts())

    def both() -> None:
        found = admit(bound.all, amounts, now)
        assert isinstance(found, Reservation)
        settle(found, spent, now)

    def locks() -> None:
        for _ in range(2):
            counters.shared.lock()
            counters.shared.unlock()

    def estimate() -> None:
        admission.expected.of(bound, "k", request, target, prices, now)

    refused = Caller("r", limits=(Limit(kind="requests", amount=1, window="1m"),))
    await counters.bind(refused)
    first = admission.admit(incoming, refused, Record(model="chat/m"), request, target, prices)
    with suppress(StopIteration):
        first.send(None)

    def refusing() -> None:
        incoming.lines, incoming.shared = b"", []
        work = admission.admit(incoming, refused, record, request, target, prices)
        with suppress(DragomanError):
            work.send(None)

    told = rate_lines(incoming.codec, bound)
    plain = least(without)
    found = {
        "four limits in all": least(whole) - plain,
        "estimate and price": least(estimate),
        "amounts": least(lambda: bound.most(wanted.counts())),
        "reserving and settling": least(both),
        "two locks": least(locks),
        "headers": least(lambda: told(now)),
        "a refusal, with its error": least(refusing),
        "spent": least(lambda: bound.amounts(spent_by(record))),
    }
    counters.reservations.take_unwritten()
    await counters.close()
    return found


def main() -> int:
    """Print what was found."""
    with tempfile.TemporaryDirectory(prefix="limit-costs-") as folder:
        for name, cost in asyncio.run(measure(Path(folder))).items():
            sys.stdout.write(f"{name:24} {cost:6.2f} us\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

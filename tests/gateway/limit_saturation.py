"""`python -m tests.gateway.limit_saturation`: 200 clients ask for far more than a rate allows, of
1, 2, 4 and 8 workers; how many are admitted in any window, and how much of the limit is used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.processes import ASKED, gateway_process
from tests.gateway.slow_upstream import slow_upstream

KEY = "sk-of-the-limited"
LIMITED = """
[[clients]]
name = "limited"
key = "{key}"
[[clients.limits]]
kind = "requests"
amount = {amount}
window = "{window}"
"""
CLIENTS = 200


@dataclass
class Hammered:
    """What became of the requests. `admitted` are the times, in order, before which each that was
    admitted was, and `sent` those after which it was."""

    sent: list[float] = field(default_factory=list)
    admitted: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def most_in(self, window_s: float, amount: int) -> int:
        """How many were surely admitted within some window: sent after it began, and answered
        before it ended. `amount` is where to begin to count."""
        pairs = sorted(zip(self.sent, self.admitted, strict=True))
        most = 0
        for place, (begin, _) in enumerate(pairs):
            end = begin + window_s
            within = sum(answered <= end for _, answered in pairs[place : place + 2 * amount])
            most = max(most, within)
        return most


async def hammer(port: int, seconds: float, pause_s: float) -> Hammered:
    """Let 200 clients ask; who is refused asks again after `pause_s`."""
    found = Hammered()
    data = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    ).encode()
    end = time.monotonic() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (sent := time.monotonic()) < end:
            writer.write(head + data)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            status = int(answer[9:12])
            found.statuses[status] += 1
            if status == 200:
                found.sent.append(sent)
                found.admitted.append(time.monotonic())
            else:
                await asyncio.sleep(pause_s)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return found


def saturate(
    folder: Path, workers: int, amount: int, window: str, seconds: float, pause_s: float = 0.1
) -> Hammered:
    """Hammer a gateway with so many workers."""
    table = LIMITED.format(key=KEY, amount=amount, window=window)
    with slow_upstream() as upstream:
        upstream.takes_s = 0.001
        with gateway_process(
            folder, upstream.url, {"a": "sk-a"}, workers=workers, tables=table
        ) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            return asyncio.run(hammer(port, seconds, pause_s))


def main() -> int:
    """Print what was found; the status is 1 if a window had more than the limit, or less than 99 %
    of it was used."""
    parser = argparse.ArgumentParser(prog="tests.gateway.limit_saturation", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--amount", type=int, default=1000)
    parser.add_argument("--window", type=int, default=10, help="seconds")
    chosen = parser.parse_args()
    amount, window_s = chosen.amount, chosen.window
    failed = False
    for workers in chosen.workers:
        with tempfile.TemporaryDirectory(prefix="saturation-") as folder:
            found = saturate(
                Path(folder), workers, amount, f"{window_s}s", 2.9 * window_s, pause_s=0.05
            )
        most = found.most_in(window_s, amount)
        # In this time three windows have begun, and each may be used up.
        share = len(found.admitted) / (3 * amount)
        failed = failed or most > amount or share < 0.99
        told = f"{workers} workers: {dict(found.statuses)}, most in a window {most} of {amount}"
        sys.stdout.write(f"{told}, used {share:.2%}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

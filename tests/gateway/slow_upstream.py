"""An upstream that takes its time, and counts the requests it has at one time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.small_servers import Handler, handling

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    ],
}


class Upstream:
    """Takes its time, and knows how many requests each account had at once at most."""

    def __init__(self) -> None:
        self.takes_s = 0.03
        self.held: threading.Event | None = None
        """What requests wait for that come from now on."""
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.lock = threading.Lock()
        self.url = ""

    def count(self, key: str, change: int) -> None:
        with self.lock:
            now = self.now[key] = self.now.get(key, 0) + change
            self.most[key] = max(self.most.get(key, 0), now)


@contextmanager
def slow_upstream() -> Iterator[Upstream]:
    upstream = Upstream()

    class Own(Handler):
        def post(self) -> None:
            self.taken()
            key = self.headers["authorization"]
            upstream.count(key, 1)
            held = upstream.held
            time.sleep(upstream.takes_s)
            if held is not None:
                held.wait(60)
            upstream.count(key, -1)
            self.reply(json.dumps(ANSWER).encode())

    with handling(Own) as upstream.url:
        yield upstream

"""Clients of instances behind one address, and what became of each of their requests."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field, replace
from typing import Any

from tests.gateway.clients import APIS, PATHS, body, completed
from tests.gateway.http import events

OPEN, TIGHT, BUDGET = "sk-of-the-open", "sk-of-the-tight", "sk-of-the-budget"
"""Keys of clients: of limits that are never reached, of a rate, of a sum."""

_TURNS = 4
"""Of a conversation, at least: it goes on until the database answers what was said."""
_LONGEST_S = 40.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. Times are monotonic; `instance` is the port of whoever answered last, 0 if it is
    not known. `outcome` is "ok", "unkept" if all of it came but was not stored, the status of an
    error, or how the connection ended."""

    key: str
    kind: str
    sent: float
    ended: float
    outcome: str
    instance: int

    @property
    def is_completed_conversation(self) -> bool:
        """Whether all that was said before came back with a conversation's last answer."""
        return self.kind == "items" and self.outcome == "ok"


@dataclass
class Clients:
    """Clients that ask one thing after the other at `port` until told to stop, so long after an
    answer as `pause_s` says."""

    port: int
    pause_s: float
    asked: list[Asked] = field(default_factory=list)
    _stopping: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, count: int) -> None:
        """Begin with so many, in the running loop."""
        limited, talking = max(count // 10, 1), count // 5
        cells = [self._ask_all_cells(seed) for seed in range(count - talking - 2 * limited)]
        talks = [self._talk(seed) for seed in range(talking)]
        kept = [self._keep_asking(key) for key in (TIGHT, BUDGET) for _ in range(limited)]
        self._tasks = [asyncio.create_task(one) for one in (*cells, *talks, *kept)]

    async def stop(self) -> None:
        """Let all finish what they ask."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _ask_all_cells(self, seed: int) -> None:
        """Each protocol of clients and of upstreams, whole and streamed, in an order of its own."""
        cells = [(api, up, stream) for api in APIS for up in APIS for stream in (False, True)]
        random.Random(seed).shuffle(cells)
        while not self._stopping:
            for api, up, stream in cells:
                words = "sim-text?words=15&delay_ms=20" if stream else "sim-text"
                more: dict[str, Any] = {"store": False} if api == "responses" else {}
                made = body(api, f"{up}/{words}", stream=stream, **more)
                await self._ask(OPEN, f"{api} over {up}", api, made)
                if self._stopping:
                    return

    async def _keep_asking(self, key: str) -> None:
        while not self._stopping:
            await self._ask(key, "limited", "chat", body("chat", "chat/sim-text"))

    async def _talk(self, seed: int) -> None:
        """Conversations of some turns, each of which goes on from the one before; what was not
        answered, or not kept, is asked again."""
        chance = random.Random(seed)
        previous, turns = None, 0
        while not self._stopping:
            up = chance.choice(APIS)
            made = body("responses", f"{up}/sim-text", f"turn {turns}", stream=turns % 2 == 1)
            response = await self._ask(
                OPEN, "conversation", "responses", {**made, "previous_response_id": previous}
            )
            if response is not None and response["store"]:
                previous, turns = str(response["id"]), turns + 1
            enough = turns >= _TURNS and previous is not None
            if enough and await self._is_whole(str(previous), turns):
                previous, turns = None, 0

    async def _is_whole(self, name: str, turns: int) -> bool:
        """Ask what a model was given for the last of so many turns: what was said in all. Returns
        whether that was answered."""
        sent = time.monotonic()
        path = f"GET /v1/responses/{name}/input_items?limit=100"
        status, instance, data = await self._exchange(path, OPEN, b"")
        outcome = status
        if status == "200":
            whole = len(json.loads(data)["data"]) == 2 * turns - 1
            outcome = "ok" if whole else "a part of the conversation"
        ended = time.monotonic()
        self.asked.append(Asked(OPEN, "items", sent, ended, outcome, instance))
        return status == "200"

    async def _ask(self, key: str, kind: str, api: str, made: dict[str, Any]) -> Any:
        """One request. Returns the response of a Responses client, None if there is none."""
        sent = time.monotonic()
        data = json.dumps(made).encode()
        status, instance, answer = await self._exchange(f"POST {PATHS[api]}", key, data)
        asked = Asked(key, kind, sent, time.monotonic(), status, instance)
        response = None
        if status == "200":
            asked, response = _read(asked, api, bool(made.get("stream")), answer)
        self.asked.append(asked)
        await asyncio.sleep(self.pause_s)
        return response

    async def _exchange(self, what: str, key: str, data: bytes) -> tuple[str, int, bytes]:
        """One exchange on a connection of its own: the status, or how it broke off; who answered;
        the body."""
        head = (
            f"{what} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        answer = b""
        try:
            async with asyncio.timeout(_LONGEST_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(head.encode() + data)
                    while more := await reader.read(1 << 16):
                        answer += more
                finally:
                    writer.close()
            broke = ""
        except (OSError, TimeoutError) as error:
            broke = type(error).__name__
        top, _, rest = answer.partition(b"\r\n\r\n")
        served = top.lower().partition(b"x-served-by: ")[2].partition(b"\r\n")[0]
        told = served.rpartition(b":")[2]
        status = top[9:12].decode() or "nothing"
        if b"transfer-encoding: chunked" in top.lower():
            rest, whole = _unchunked(rest)
            broke = broke or ("" if whole else "cut")
        return broke or status, int(told) if told.isdigit() else 0, rest


def _read(asked: Asked, api: str, stream: bool, answer: bytes) -> tuple[Asked, Any]:
    """What became of a request that was answered by 200, and the response of a Responses client."""
    response: Any = None
    if stream:
        if not completed(api, answer):
            return replace(asked, outcome="stream without an end"), None
        if api == "responses":
            response = events(answer)[-1][1]["response"]
    elif api == "responses":
        response = json.loads(answer)
    elif not json.loads(answer)["choices" if api == "chat" else "content"]:
        return replace(asked, outcome="empty"), None
    unkept = asked.kind == "conversation" and not response["store"]
    return replace(asked, outcome="unkept" if unkept else "ok"), response


def _unchunked(data: bytes) -> tuple[bytes, bool]:
    """The body of a chunked answer, and whether all of it is there."""
    told = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size or b"0", 16)
        if not length:
            return told, True
        told += data[:length]
        data = data[length + 2 :]
    return told, False

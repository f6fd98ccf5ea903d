"""Many clients at once on bare sockets, and a judge of what each of them got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.http import Answer

Verdict = Literal["good", "failed after content", "refused", "broken"]

PATIENCE_S = 60.0
"""Seconds after which a request counts as one that hangs."""

Made = tuple[str, bool, str, dict[str, Any], dict[str, str]]


@dataclass
class Outcome:
    """One request: what was asked, and what came back.

    `expected` is the text of the whole answer; `whole` is whether the answer came to its end as
    HTTP frames it; `port` is the client's end of the connection.
    """

    number: int
    api: str
    stream: bool
    expected: str
    port: int = 0
    answer: Answer = field(default_factory=lambda: Answer(0, {}))
    whole: bool = False

    def verdict(self) -> Verdict:
        """What it is to the client. Fails if it is neither whole nor an explicit error."""
        if not self.whole:
            self._check_rest()
            return "broken"
        if self.answer.status != 200:
            error_of(self.api, self.answer)
            return "refused"
        if not self.stream:
            assert text_of(self.api, self.answer) == self.expected, self
            return "good"
        data = self.answer.body
        shown = streamed_text(self.api, data)
        if stream_error(self.api, data) is None:
            assert completed(self.api, data), self
            assert shown == self.expected, self
            return "good"
        assert self.expected.startswith(shown), self
        if completed(self.api, data):
            # Cut between the finish reason and [DONE]: clients of Chat see both, and the error.
            assert (self.api, shown) == ("chat", self.expected), self
        return "failed after content" if shown else "refused"

    def _check_rest(self) -> None:
        """What came of an answer that was cut does not look like a whole one."""
        if self.answer.status != 200 or not self.stream:
            return
        data = self.answer.body.rpartition(b"\n\n")[0] + b"\n\n"
        shown = streamed_text(self.api, data)
        assert self.expected.startswith(shown), self
        if completed(self.api, data):
            assert shown == self.expected, self


class Load:
    """`count` clients, each with a connection that it keeps; `made` makes the request of a number,
    and `host` is where it goes. Outcomes are kept in the order in which they end.
    """

    def __init__(self, port: int, key: str, made: Callable[[int], Made], count: int) -> None:
        self.outcomes: list[Outcome] = []
        self.under_way: dict[int, Outcome] = {}
        self._port = port
        self._key = key
        self._made = made
        self._next = 0
        self._stopping = False
        self._ended = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._client()) for _ in range(count)]

    async def so_far(self, count: int) -> None:
        """Wait until so many requests have ended, all in all."""
        async with self._ended:
            while len(self.outcomes) < count:
                for task in self._tasks:
                    if task.done():
                        task.result()
                waiting = asyncio.ensure_future(self._ended.wait())
                await waiting

    async def stop(self) -> list[Outcome]:
        """Let all requests end; gives all outcomes."""
        self._stopping = True
        await asyncio.gather(*self._tasks)
        return self.outcomes

    async def _client(self) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while not self._stopping:
            number, self._next = self._next, self._next + 1
            api, stream, expected, asked, headers = self._made(number)
            outcome = Outcome(number, api, stream, expected)
            if connection is None or connection[1].is_closing() or connection[0].at_eof():
                connection = await asyncio.open_connection("127.0.0.1", self._port)
            outcome.port = connection[1].get_extra_info("sockname")[1]
            self.under_way[number] = outcome
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._ask(*connection, outcome, asked, headers)
            except (ConnectionError, asyncio.IncompleteReadError):
                connection[1].transport.abort()
                connection = None
            del self.under_way[number]
            self.outcomes.append(outcome)
            async with self._ended:
                self._ended.notify_all()
        if connection is not None:
            connection[1].transport.abort()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        outcome: Outcome,
        asked: dict[str, Any],
        headers: dict[str, str],
    ) -> None:
        data = json.dumps(asked).encode()
        own = {
            "host": "test",
            "content-type": "application/json",
            "authorization": f"Bearer {self._key}",
            "content-length": str(len(data)),
            **headers,
        }
        lines = [f"POST {PATHS[outcome.api]} HTTP/1.1", *(f"{k}: {v}" for k, v in own.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *rest = head.strip().split("\r\n")
        answer = outcome.answer
        answer.status = int(status.split(" ")[1])
        for line in rest:
            name, _, value = line.partition(":")
            answer.headers[name.lower()] = value.strip()
        if answer.headers.get("transfer-encoding") != "chunked":
            answer.body = await reader.readexactly(int(answer.headers["content-length"]))
        else:
            while size := int(await reader.readuntil(b"\r\n"), 16):
                answer.body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        outcome.whole = True


def cell(number: int) -> tuple[str, str]:
    """The client's and the upstream's protocol of the request of that number: all nine in turn."""
    return APIS[number % 3], APIS[number // 3 % 3]


def made(number: int, prompt: str) -> Made:
    """The request of that number: in turn all nine cells, every fifth of each full, a few in
    conversations that are known by their session."""
    api, target = cell(number)
    stream = number // 9 % 5 != 0
    expected = f"answer {number}: " + " ".join(f"{number}-{part}" for part in range(24))
    steering = f'[[sim: scenario=text text="{expected}" chunks=12 delay_ms=80]]'
    asked = body(api, f"{target}/sim-text", f"{prompt} {number} {steering}", stream=stream)
    if api == "responses":
        asked["store"] = False
    headers = {"x-session-id": f"session-{number % 40}"} if number % 4 == 0 else {}
    return api, stream, expected, asked, headers

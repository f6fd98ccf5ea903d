"""`python -m tools.load.races --interleavings 10000`: people and traffic at four workers of one
store at once, and whether some order of what they did explains how each account ended.

An account is one interleaving: it alone serves a model of its name. What was done to it is known
from the answers (of the administration, and of the upstream to the account's key) and is ordered in
time where one ended before another began.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dragoman.accounts.decide.decisions import active_rest
from dragoman.accounts.decide.states import AccountState
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.http import KEY
from tests.gateway.processes import GatewayProcess, connection_of_each, gateway_process

TOKEN = "admin-token-of-the-races"
WORKERS = 4
LINES = 8
"""Connections to each worker."""
AT_ONCE = 100
"""Interleavings that go on at the same time."""
OF_A_STORE = 500
"""Interleavings with one store: what was removed is kept for a week, and looked at."""
SETTLES_S = 30.0
"""Far longer than workers take to tell each other what they know."""
SLOWEST_S = 0.03
"""Of an answer of the upstream."""
SINGLE_ACCOUNTS = """
account_rules = "sop"
rules = [{ verdict = "exhaust", why = "out of quota", statuses = [429] }]
"""
"""Rules by which each account that is refused is at fault itself, however many are."""
SETTINGS = f'[admin]\nkey = "{TOKEN}"\n'

Kind = Literal["add", "remove", "enable", "disable", "rotate", "refused", "spent"]
Standing = Literal["gone", "active", "refused", "spent", "by hand"]
PEOPLE: tuple[Kind, ...] = ("add", "remove", "enable", "enable", "disable", "rotate", "rotate")
OUTCOMES = ("served", "refused", "spent", "spent")


class Act(NamedTuple):
    """Something that was done to the account, and the times between which it was. `done` is whether
    the administration did it, or said that there is no such account (or one already)."""

    kind: Kind
    began: float
    ended: float
    key: int = 0
    done: bool = True


class Truth(NamedTuple):
    """An account: how it stands, and the number of its key."""

    standing: Standing
    key: int


GONE = Truth("gone", -1)


def after(now: Truth, act: Act) -> Truth | None:
    """What the account is after the act; None if the act cannot have been answered so."""
    exists = now.standing != "gone"
    match act.kind:
        case "add":
            if act.done == exists:
                return None
            return Truth("active", act.key) if act.done else now
        case "refused" | "spent":
            if act.key != now.key or now.standing not in ("active", "spent"):
                return now
            if now.standing == "spent" and act.kind == "spent":
                return now
            return Truth(act.kind, now.key)
    if act.done != exists:
        return None
    if not exists:
        return now
    match act.kind:
        case "remove":
            return GONE
        case "enable":
            return Truth("active", now.key)
        case "disable":
            return Truth("by hand", now.key)
    return Truth("by hand" if now.standing == "by hand" else "active", act.key)


def explained(acts: Sequence[Act]) -> set[Truth]:
    """All that an account may be after these acts, one at a time, in any order in which none comes
    after one that began when it had ended."""
    ends: set[Truth] = set()
    seen: set[tuple[int, Truth]] = set()
    everything = (1 << len(acts)) - 1
    before = [
        sum(1 << number for number, other in enumerate(acts) if other.ended < act.began)
        for act in acts
    ]
    open_: list[tuple[int, Truth]] = [(0, GONE)]
    while open_:
        done, now = open_.pop()
        if done == everything:
            ends.add(now)
            continue
        for number, act in enumerate(acts):
            if done >> number & 1 or before[number] & ~done:
                continue
            then = after(now, act)
            place = (done | 1 << number, then or GONE)
            if then is not None and place not in seen:
                seen.add(place)
                open_.append(place)
    return ends


@dataclass
class Upstream:
    """Answers as each request says, and knows which key asked."""

    chance: random.Random
    keys: dict[str, str] = field(default_factory=dict)
    """Which account's key each request was made with."""
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                request, outcome = body["messages"][-1]["content"].split()
                self.keys[request] = fields["authorization"].removeprefix("bearer ")
                if self.chance.random() < 0.5:
                    await asyncio.sleep(self.chance.random() * SLOWEST_S)
                writer.write(_ANSWERS[outcome])
        except (OSError, EOFError):
            return

    async def close(self) -> None:
        """End all connections."""
        await _close(self.connections)


async def _close(connections: Sequence[asyncio.StreamWriter]) -> None:
    for one in connections:
        one.close()
    await asyncio.gather(*(one.wait_closed() for one in connections), return_exceptions=True)


def _answer(status: str, body: Any, headers: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def _error(code: str) -> Any:
    return {"error": {"message": "No.", "type": "error", "code": code, "param": None}}


_ANSWERS = {
    "served": _answer(
        "200 OK",
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "ok"},
                    "finish_reason": "stop",
                }
            ],
        },
    ),
    "refused": _answer("401 Unauthorized", _error("invalid_api_key")),
    "spent": _answer(
        "429 Too Many Requests", _error("insufficient_quota"), "retry-after: 7200\r\n"
    ),
}


class Lines:
    """Connections to one worker, each for one request at a time."""

    def __init__(self) -> None:
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._free = asyncio.Queue()

    async def open(self, sockets: Sequence[Any]) -> None:
        for sock in sockets:
            sock.setblocking(False)
            self._free.put_nowait(await asyncio.open_connection(sock=sock))

    async def close(self) -> None:
        """End all connections, none of which is in use."""
        free = [self._free.get_nowait() for _ in range(self._free.qsize())]
        await _close([writer for _, writer in free])

    async def call(
        self, method: str, path: str, body: Any = None, key: str = TOKEN
    ) -> tuple[int, bytes]:
        """The status of the answer, and its body."""
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        reader, writer = line = await self._free.get()
        writer.write(head.encode() + data)
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = told.partition("content-length:")[2].partition("\r\n")[0]
        answer = await reader.readexactly(int(length))
        self._free.put_nowait(line)
        return int(told[9:12]), answer


@dataclass
class Stage:
    """The gateway, the upstream behind it, and what has happened so far."""

    workers: Sequence[Lines]
    upstream: Upstream
    chance: random.Random
    ends: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    locked: int = 0
    """How often the store was too busy for a decision, which was then made again."""

    async def ask(self, account: str, outcome: str, worker: Lines) -> tuple[int, int]:
        """The status of a request for the account's model, and the number of the key that the
        upstream saw; -1 if it was not asked."""
        self.asked += 1
        request = f"r{self.asked}"
        body = {
            "model": f"chat/{account}",
            "messages": [{"role": "user", "content": f"{request} {outcome}"}],
        }
        status, _ = await worker.call("POST", "/v1/chat/completions", body, KEY)
        key = self.upstream.keys.pop(request, "")
        return status, int(key.rpartition("-")[2] or -1)


class Story:
    """One account: what is done to it, by whom, at which worker."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.path = f"/admin/accounts/{name}"
        self.key = -1
        self.acts: list[Act] = []

    async def run(self) -> None:
        """Everything that happens to the account, much of it at the same time."""
        await self.person("add")
        chance, going = self.stage.chance, list[asyncio.Task[None]]()
        for _ in range(chance.randrange(4, 9)):
            if chance.random() < 0.55:
                going.append(asyncio.create_task(self.request(chance.choice(OUTCOMES))))
            else:
                going.append(asyncio.create_task(self.person(chance.choice(PEOPLE))))
            if chance.random() < 0.7:
                await asyncio.sleep(chance.random() * 2 * SLOWEST_S)
        await asyncio.gather(*going)

    async def person(self, kind: Kind) -> None:
        """Somebody's decision."""
        worker, key = self.stage.chance.choice(self.stage.workers), 0
        if kind in ("add", "rotate"):
            self.key += 1
            key = self.key
        secret, began = f"sk-{self.name}-{key}", time.monotonic()
        path = f"{self.path}/{kind}"
        asked: dict[str, Any] | None = None
        match kind:
            case "add":
                path = "/admin/accounts"
                asked = {
                    "name": self.name,
                    "upstream": "chat",
                    "models": [self.name],
                    "key": secret,
                }
            case "remove":
                path = self.path
            case "rotate":
                asked = {"key": secret, "test": False}
        method = "DELETE" if kind == "remove" else "POST"
        while True:
            status, answer = await worker.call(method, path, asked)
            if status != 503 or b"store_unavailable" not in answer:
                break
            # The store was busy for too long, and nothing was done.
            self.stage.locked += 1
        assert status in (200, 201, 404, 409), (kind, status, answer)
        done = status < 300
        assert done or status == (409 if kind == "add" else 404), (kind, status)
        self._did(Act(kind, began, time.monotonic(), key, done))

    async def request(self, outcome: str) -> None:
        """A client's request, to which the upstream says `outcome` if it is asked."""
        worker, began = self.stage.chance.choice(self.stage.workers), time.monotonic()
        status, key = await self.stage.ask(self.name, outcome, worker)
        assert (status == 200) == (key >= 0 and outcome == "served"), (outcome, status, key)
        if key >= 0 and outcome in ("refused", "spent"):
            kind: Kind = "refused" if outcome == "refused" else "spent"
            self._did(Act(kind, began, time.monotonic(), key))

    def _did(self, act: Act) -> None:
        self.acts.append(act)
        self.stage.acts[act.kind if act.done else f"{act.kind}: no"] += 1


def standing(state: AccountState) -> Standing:
    """How an account that there is stands, by what the store holds of it."""
    if state.disabled:
        return "by hand" if state.by_hand else "refused"
    return "active" if active_rest(state, "m", time.time()) is None else "spent"


async def judge(stage: Stage, stories: Sequence[Story], store: Path) -> None:
    """Wait until all workers serve what the store says, and hold that some order explains it."""
    end = time.monotonic() + SETTLES_S
    while wrong := await disagreeing(stage, stories, truths(stories, store)):
        assert time.monotonic() < end, f"a worker knows otherwise: {wrong}"
        await asyncio.sleep(0.05)
    # What was agreed upon is what stays.
    found = truths(stories, store)
    assert not await disagreeing(stage, stories, found)
    for story in stories:
        truth = found[story.name]
        possible = explained(story.acts)
        ends = {(one.standing, one.key if one.standing == "active" else 0) for one in possible}
        assert (truth.standing, max(truth.key, 0)) in ends, (story.name, truth, story.acts)
        stage.ends[truth.standing] += 1


def truths(stories: Sequence[Story], path: Path) -> dict[str, Truth]:
    """What the store says of each account. Keys are the upstream's to see: none here."""
    with closing(SqliteStore(path)) as store:
        states, there = store.states(), {one.name for one in store.definitions()}
    return {
        story.name: Truth(standing(states.get(story.name, AccountState(story.name))), -1)
        if story.name in there
        else GONE
        for story in stories
    }


async def disagreeing(stage: Stage, stories: Sequence[Story], found: dict[str, Truth]) -> list[Any]:
    """The accounts of which a worker thinks otherwise: what the store says, what each worker
    answers (with the number of the key that it used), and what was done. Those that are active get
    the key's number that all workers use."""

    async def asked(story: Story) -> Any:
        answers = [await stage.ask(story.name, "served", worker) for worker in stage.workers]
        truth = found[story.name]
        used = {key for status, key in answers if status == 200}
        if truth.standing == "active":
            found[story.name] = Truth("active", max(used, default=-1))
            agree = len(used) == 1 and all(status == 200 for status, _ in answers)
        else:
            agree = not used
        return None if agree else (truth, answers, sorted(story.acts, key=lambda act: act.ended))

    return [one for one in await asyncio.gather(*map(asked, stories)) if one is not None]


@asynccontextmanager
async def staged(
    gateway: GatewayProcess, upstream: Upstream, chance: random.Random
) -> AsyncIterator[Stage]:
    """Connections to each of the gateway's workers."""
    with ExitStack() as stack:
        ways = [stack.enter_context(connection_of_each(gateway)) for _ in range(LINES)]
        workers = [Lines() for _ in ways[0]]
        for number, worker in enumerate(workers):
            await worker.open([way[number].sock for way in ways])
        try:
            yield Stage(workers, upstream, chance)
        finally:
            for worker in workers:
                await worker.close()


async def play(folder: Path, interleavings: int, seed: int) -> Stage:
    """So many interleavings, each of which must be explained. Returns what was counted."""
    chance = random.Random(seed)
    upstream = Upstream(chance)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with gateway_process(
            folder,
            f"http://127.0.0.1:{port}",
            {},
            workers=WORKERS,
            server=SETTINGS,
            upstream=SINGLE_ACCOUNTS,
        ) as gateway:
            async with staged(gateway, upstream, chance) as stage:
                for first in range(0, interleavings, AT_ONCE):
                    last = min(first + AT_ONCE, interleavings)
                    stories = [Story(stage, f"a{number}") for number in range(first, last)]
                    await asyncio.gather(*(story.run() for story in stories))
                    await judge(stage, stories, gateway.store)
                    for story in stories:
                        await stage.workers[0].call("DELETE", story.path)
    finally:
        server.close()
        await upstream.close()
    return stage


def main() -> None:
    """Play, and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interleavings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for first in range(0, arguments.interleavings, OF_A_STORE):
        began, many = time.monotonic(), min(OF_A_STORE, arguments.interleavings - first)
        with tempfile.TemporaryDirectory() as folder:
            stage = asyncio.run(play(Path(folder), many, arguments.seed + first))
        took = time.monotonic() - began
        sys.stdout.write(
            f"{first + many} interleavings, the last {many} in {took:.0f} s, all explained\n"
            f"ends: {dict(stage.ends)}\nacts: {dict(stage.acts)}\n"
            f"too busy for a decision: {stage.locked}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""``python -m tools.load.people [storm] [cost]``: people who sign in to several gateways at once.

``storm``  All sign in at the same time over three gateways with one store; each token is then used
           at another gateway, and renewed at the third, twenty times at once by processes of their
           own for one of them. Then some sessions are revoked at one gateway each: told is how long
           the others let them in.
``cost``   Instructions of a gateway for a request by a key of its store, and for one by a person,
           each counted by callgrind (valgrind) after the first requests, in turns.

The store is a file, or with ``--database`` a PostgreSQL, such as one of the tests:
``python -m tests.storage.cluster python -m tools.load.people storm --database URL``.

A test runs a small storm. With other work on the machine, times say little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from bench import instructions, targets
from bench.load_client import close, connect, repeat
from bench.measure import MARK, cell_of
from bench.targets import Access, Cores
from dragoman.lab.provider import serving
from tests.gateway.http import call
from tests.gateway.processes import STORE, gateway_process, simulator_process, until
from tests.people.signing_in import Served, post, sign_in_table

T = TypeVar("T")

INSTANCES = ("one", "two", "three")
AT_ONCE = 24
REVOKED = 30
RACING = 20
REQUESTS = 400
TURNS = 2
BOUND_S = 5.0
"""Seconds in which a revocation has to be obeyed everywhere."""


@dataclass(frozen=True)
class Storm:
    """What a storm came to. Lists are of seconds."""

    people: int
    took_s: float
    signed_in: Sequence[float]
    refreshed: Sequence[float]
    obeyed: Sequence[float]
    failures: Sequence[str]


@contextmanager
def several(folder: Path, people: Sequence[str], database: str = "") -> Iterator[list[Served]]:
    """Three gateways with one store: a file, or this PostgreSQL."""
    with ExitStack() as stack:
        provider = stack.enter_context(serving({name: [] for name in people}))
        upstream, _ = stack.enter_context(simulator_process())
        yield [
            Served(
                provider,
                stack.enter_context(
                    gateway_process(
                        folder,
                        f"{upstream}/v1",
                        {"one": "sk-sim-one"},
                        name=name,
                        tables=sign_in_table(provider),
                        sync_s=0.5,
                        store="" if database else STORE,
                        storage=f"url = {json.dumps(database)}" if database else "",
                    )
                ).url,
            )
            for name in INSTANCES
        ]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """How long some work takes, and what comes of it."""
    began = time.monotonic()
    found = work()
    return time.monotonic() - began, found


def use(url: str, token: str) -> int:
    """The status that a gateway answers a token with."""
    return call(url, "GET", "/v1/key", key=token).status


def renew(given: tuple[str, str]) -> tuple[int, str]:
    """Renew a token, in a process of its own: the status, and the token that follows."""
    url, token = given
    form = {"grant_type": "refresh_token", "refresh_token": token}
    answer = post(url, "/oauth/token", form)
    return answer.status, answer.json.get("refresh_token", "")


def raced(gateways: Sequence[Served], token: str, racing: int) -> list[str]:
    """What is wrong after one refresh token was presented by many processes at once."""
    with ProcessPoolExecutor(racing, get_context("spawn")) as pool:
        urls = [gateways[number % len(gateways)].url for number in range(racing)]
        found = list(pool.map(renew, [(url, token) for url in urls]))
    statuses = {status for status, _ in found}
    following = {after for _, after in found}
    return [] if statuses == {200} and len(following) == 1 else [f"raced: {statuses}"]


def storm(folder: Path, count: int, racing: int = RACING, database: str = "") -> Storm:
    """Sign so many people in, use and renew their tokens, and revoke some. `database` is the
    PostgreSQL that the gateways share, empty for a file."""
    people = [f"person-{number}@example.com" for number in range(count)]
    failures: list[str] = []
    with several(folder, people, database) as gateways, ThreadPoolExecutor(AT_ONCE) as pool:

        def at(number: int, shift: int = 0) -> Served:
            return gateways[(number + shift) % len(gateways)]

        def each(work: Callable[[int], T]) -> tuple[list[float], list[T]]:
            found = list(pool.map(lambda number: timed(lambda: work(number)), range(count)))
            return [seconds for seconds, _ in found], [value for _, value in found]

        took_s, (signed_in, sessions) = timed(
            lambda: each(lambda number: at(number).session(people[number]))
        )
        _, statuses = each(lambda n: use(at(n, 1).url, sessions[n]["access_token"]))
        failures += [f"used elsewhere: {status}" for status in statuses if status != 200]
        refreshed, answers = each(lambda n: at(n, 2).refresh(sessions[n]["refresh_token"]))
        failures += [f"renewed: {one.status}" for one in answers if one.status != 200]
        failures += raced(gateways, answers[0].json["refresh_token"], racing)
        obeyed = [
            revoked(gateways, number, sessions[number]["access_token"])
            for number in range(min(count, REVOKED))
        ]
    failures += [f"obeyed after {seconds:.1f} s" for seconds in obeyed if seconds > BOUND_S]
    return Storm(count, took_s, signed_in, refreshed, obeyed, failures)


def revoked(gateways: Sequence[Served], number: int, token: str) -> float:
    """Revoke a session at one gateway, and wait until all refuse it: how long that took."""
    post(gateways[number % len(gateways)].url, "/oauth/revoke", {"token": token})
    began = time.monotonic()
    while {use(one.url, token) for one in gateways} != {401}:
        if time.monotonic() - began > 10 * BOUND_S:
            break
        time.sleep(0.02)
    return time.monotonic() - began


def told(found: Storm) -> str:
    """A storm for a terminal."""

    def line(what: str, values: Sequence[float]) -> str:
        ordered = sorted(values)
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"{what:24}p50 {statistics.median(values):6.2f} s   p99 {p99:6.2f} s\n"

    return (
        f"{found.people} people signed in over {len(INSTANCES)} gateways in {found.took_s:.1f} s\n"
        + line("sign-in, seven requests", found.signed_in)
        + line("refresh", found.refreshed)
        + line("revocation everywhere", found.obeyed)
        + "".join(f"FAILED: {one}\n" for one in found.failures)
    )


def cost(*, of_person: bool) -> float:
    """Instructions for a request by a key, or by a person."""
    cell = cell_of("chat:chat")
    with tempfile.TemporaryDirectory(prefix="people-") as name, ExitStack() as stack:
        folder = Path(name)
        provider = stack.enter_context(serving({"ada@example.com": []}))
        up = stack.enter_context(targets.upstreams(folder, Cores(None, None)))
        store = f'path = "{folder}/store.db"\nkey = "a key of the store"\n'
        child, port = stack.enter_context(
            instructions.gateway(
                instructions.ROOT, folder, up, cell.upstream, sign_in_table(provider), store
            )
        )
        url = f"http://127.0.0.1:{port}"
        session = Served(provider, url).session("ada@example.com")
        key: str = session["access_token"] if of_person else added_key(folder)
        until(lambda: use(url, key) == 200)
        request = cell.request(Access(key=key), stream=False)
        uvloop.run(_send(port, request, REQUESTS // 2))
        instructions.switch(child.pid, "on")
        uvloop.run(_send(port, request, REQUESTS))
        instructions.switch(child.pid, "off")
        stack.close()
        return instructions.total(folder) / REQUESTS


def added_key(folder: Path) -> str:
    """A key that is added to the store, as people are."""
    command = [sys.executable, "-m", "dragoman", "key", "add", "measured"]
    command += ["--config", str(folder / "dragoman.toml")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def _send(port: int, request: bytes, count: int) -> None:
    links = await connect(port, 4, MARK)
    try:
        await repeat(links, request, count)
    finally:
        close(links)


def costs() -> str:
    """What a request by a person costs, beside one by a key."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for of_person, values in found.items():
            values.append(cost(of_person=of_person))
    by_key, by_person = (statistics.median(values) for values in found.values())
    return (
        f"instructions for a request by a key {by_key:,.0f}, by a person {by_person:,.0f}: "
        f"{by_person / by_key:.3f}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is named, else both. Returns 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.load.people", description=__doc__)
    parser.add_argument("names", nargs="*", choices=["storm", "cost", []])
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--database", default="", help="URL of the store, for the storm")
    given: Any = parser.parse_args(arguments)
    failed = False
    if not given.names or "storm" in given.names:
        with tempfile.TemporaryDirectory(prefix="people-") as name:
            found = storm(Path(name), given.people, database=given.database)
        sys.stdout.write(told(found))
        failed = bool(found.failures)
    if not given.names or "cost" in given.names:
        sys.stdout.write(costs())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

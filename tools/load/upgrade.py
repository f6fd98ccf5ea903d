"""`python -m tools.load.upgrade --old DIR`: from another version to this one, back, and here again,
under clients of all protocols. On one machine, over SQLite and over PostgreSQL, each version takes
over from the other; of three instances on one PostgreSQL behind nginx one after another is stopped
and started.

Without `--old` this version is the old one, and the new one a copy of it whose tables are `--ahead`
versions newer. No request may fail, each is counted once, limits hold, and conversations go on.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.gateway.processes import (
    START_S,
    STORE,
    GatewayProcess,
    gateway_process,
    simulator_process,
)
from tests.install.front import nginx
from tests.storage.chaos_clients import BUDGET, Clients
from tests.storage.cluster import running_cluster
from tools.differential.versions import Version
from tools.load.chaos import Plan, Run, go_on, lasting_port, report, tables_of

KINDS = {"sqlite": 1, "postgres": 1, "instances": 3}
"""How many instances there are; those of `sqlite` have a store in a file."""

_ROOT = Path(__file__).parents[2]
_USUAL = ('"level":"info"', "no price is known")
_COUNTED = "SELECT client, sum(requests) FROM usage WHERE account <> '' GROUP BY client"


def next_version(folder: Path, ahead: int) -> Version:
    """A copy of this version whose tables are so many versions newer: a further table, and a
    further column of those of keys and teams."""
    root = folder / f"ahead-{ahead}"
    shutil.copytree(_ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    storage = root / "src/dragoman/storage"
    for name, old, new in (
        ("sqlite_schema.py", r"version=(\d+),", rf"version=\1 + {ahead},"),
        ("postgres/schema.py", r"version=(\d+),", rf"version=\1 + {ahead},"),
        ("schema.py", r'rules TEXT NOT NULL"', 'rules TEXT NOT NULL, more REAL DEFAULT 0.0"'),
        ("schema.py", r"TABLES: Final = \(", r'\g<0>make_table("further", "name TEXT", "name"),'),
    ):
        text, count = re.subn(old, new, (storage / name).read_text())
        if not count:
            raise ValueError(f"{name} has no {old}")
        (storage / name).write_text(text)
    return Version(f"{ahead} ahead", root)


class OnOneMachine(Run):
    """Where one gateway takes over from another, and each counts limits by itself."""

    def most_spent(self) -> int:
        """Beside the sum, what was under way while another took over (docs/limits.md)."""
        times = zip(self.events[::2], self.events[1::2], strict=True)
        spans = [(begun, until) for (begun, _), (until, _) in times]
        mine = [one for one in self.asked if one.key == BUDGET and one.outcome == "ok"]
        return super().most_spent() + sum(
            any(one.sent < until and one.ended > begun for begun, until in spans) for one in mine
        )


class Instances:
    """Instances of one store, each of which is replaced by one of another version."""

    def __init__(self, folder: Path, plan: Plan, upstream: str, url: str | None) -> None:
        self._folder = folder
        self._plan = plan
        self._upstream = upstream
        self._url = url
        self._stack = ExitStack()
        self.ports: list[int] = []
        self.running: list[GatewayProcess] = []
        self.former: list[GatewayProcess] = []

    def add(self, version: Version) -> None:
        """Start a further instance."""
        self.ports.append(lasting_port())
        self.running.append(self._started(len(self.running), version))

    def take_over(self, number: int, version: Version) -> None:
        """Let a version take over from the one that serves, and wait until that has ended."""
        former = self.running[number]
        self.running[number] = self._started(number, version)
        try:
            _, former.log = former.process.communicate(timeout=2 * START_S)
        except subprocess.TimeoutExpired:
            self.running[number].process.kill()
            raise AssertionError(self.running[number].process.communicate()[1]) from None
        self.former.append(former)

    def restart(self, number: int, version: Version) -> None:
        """Stop the version that serves, and start another one."""
        self.running[number].stop()
        self.former.append(self.running[number])
        self.running[number] = self._started(number, version)

    def close(self) -> None:
        """Stop all."""
        self._stack.close()

    def _started(self, number: int, version: Version) -> GatewayProcess:
        return self._stack.enter_context(
            gateway_process(
                self._folder,
                f"{self._upstream}/v1",
                {"c": "sk-sim-c"},
                workers=2,
                name=f"instance{number}",
                store="" if self._url else STORE,
                storage=f'url = "{self._url}"' if self._url else "",
                tables=tables_of(self._upstream, self._plan),
                sync_s=self._plan.sync_s,
                port=self.ports[number],
                grace_s=10,
                source=version.source,
            )
        )


def upgraded(folder: Path, plan: Plan, versions: Sequence[Version], kind: str) -> Run:
    """Let clients ask while the instances become those of one version after the other."""
    run = OnOneMachine(plan) if kind == "sqlite" else Run(plan)
    with ExitStack() as stack:
        cluster = None if kind == "sqlite" else stack.enter_context(running_cluster())
        upstream, _ = stack.enter_context(simulator_process())
        made = Instances(folder, plan, upstream, cluster.url if cluster else None)
        stack.callback(made.close)
        for _ in range(KINDS[kind]):
            made.add(versions[0])
        url, replace = made.running[0].url, made.take_over
        if kind == "instances":
            header = "add_header x-served-by $upstream_addr always;"
            url = stack.enter_context(nginx(made.ports, folder, headers=header))
            replace = made.restart

        async def all_of_it() -> None:
            clients = Clients(urlsplit(url).port or 0, plan.pause_s)
            clients.start(plan.clients)
            await go_on(clients.asked, plan.between_s)
            for version in versions[1:]:
                for number in range(KINDS[kind]):
                    name = f"{version.name} in place of {number}"
                    await run.do(name, partial(replace, number, version))
                    await go_on(clients.asked, plan.between_s)
            await clients.stop()
            run.asked = clients.asked

        asyncio.run(all_of_it())
        made.close()
        lines = "".join(one.log for one in (*made.former, *made.running)).splitlines()
        run.log = [line for line in lines if not any(usual in line for usual in _USUAL)]
        if cluster:
            with psycopg.connect(cluster.url) as connection:
                rows = connection.execute(_COUNTED).fetchall()
        else:
            with closing(sqlite3.connect(folder / STORE)) as file:
                rows = file.execute(_COUNTED).fetchall()
        run.rows = {client: int(count) for client, count in rows}
    return run


def main() -> int:
    """Do it, and print what was found; the status is 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(prog="tools.load.upgrade", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--old", type=Path, help="a checkout or wheel of the old version")
    parser.add_argument("--one-way", action="store_true", help="not back: it is too old for that")
    parser.add_argument("--ahead", type=int, default=1, help="without --old")
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--between", type=float, default=5.0, help="seconds between two steps")
    chosen = parser.parse_args()
    plan = Plan(chosen.clients, 0.4, 400, chosen.between, 0.0, 0.0, 0.2)
    status = 0
    with tempfile.TemporaryDirectory(prefix="upgrade-") as folder:
        here = Version.at("this version", _ROOT, Path(folder))
        versions: tuple[Version, ...]
        if chosen.old:
            versions = Version.at("the old version", chosen.old, Path(folder)), here
        else:
            versions = here, next_version(Path(folder), chosen.ahead)
        if not chosen.one_way:
            versions *= 2
        for kind in chosen.kinds or KINDS:
            place = Path(folder) / kind
            place.mkdir()
            run = upgraded(place, plan, versions, kind)
            sys.stdout.write(f"{kind}: {', '.join(version.name for version in versions)}\n")
            status |= report(run)
            sys.stdout.write("".join(f"  {line[:300]}\n" for line in sorted(set(run.log))[:20]))
            sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())

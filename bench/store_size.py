"""``python -m bench.store_size --url URL``: a file of 10,000 accounts and 1,000,000 pins, moved to
an empty PostgreSQL, and back.

Printed are how long a move takes, whether all tables are equal after it, what a move that was
killed leaves, and how soon a gateway listens that starts on either.
``python -m tests.storage.cluster python -m bench.store_size --url URL`` starts a PostgreSQL.
"""

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from bench.processes import Child, cpu_seconds, free_port, resident_bytes
from bench.store import MANY, STORE_KEY, fill
from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.config.checks import POSTGRESQL
from dragoman.storage.migration import moved_tables
from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.responses import Items, StoredResponse
from dragoman.storage.sqlite import SqliteResponses, SqliteStore
from dragoman.storage.sqlite_file import SqliteFile
from dragoman.storage.tables.database import Database

PINS = 1_000_000
RESPONSES = 2_000
STARTS = 5
_AT_ONCE = 50_000
_KILLED_AFTER_S = 3.0


def fill_all(path: Path) -> None:
    """Make a store of everything that there is much of."""
    fill(path, MANY)
    now = time.time()
    names = [f"kept-{number:05}" for number in range(MANY)]
    with closing(SqliteStore(path)) as store:
        store.exchange(
            "w",
            Batch(
                used=dict.fromkeys(names, now),
                usage={
                    UsageKey(3600 * hour, name, "me", "m", "/v1/messages"): UsageCount(7, 1, 2, 3)
                    for name in names
                    for hour in range(10)
                },
            ),
            0,
        )
        for first in range(0, PINS, _AT_ONCE):
            pins = {
                hashlib.blake2b(b"%d" % number, digest_size=16).digest(): (
                    names[number % MANY],
                    now - 600 * (PINS - number) / PINS,
                )
                for number in range(first, first + _AT_ONCE)
            }
            store.exchange("w", Batch(pins=pins), 0)
    with closing(SqliteResponses(path)) as responses:
        for number in range(RESPONSES):
            responses.put(
                StoredResponse(
                    id=f"resp_{number:08}",
                    owner="me",
                    created=now,
                    expires=now + 86400,
                    status="completed",
                    response=os.urandom(2000),
                    input=Items(os.urandom(2000), (f"item_{number:08}",)),
                )
            )


def digests(database: Database) -> Mapping[str, tuple[int, str]]:
    """The number of rows of each table that is moved, and a digest of all of them in order."""
    found = {}
    with database.reading() as connection:
        for table in moved_tables():
            rows = connection.execute(
                f"SELECT {', '.join(table.names)} FROM {table.name} ORDER BY {', '.join(table.key)}"
            ).fetchall()
            text = hashlib.sha256()
            for row in rows:
                # A truth value is a number in a file.
                text.update(
                    repr([int(one) if isinstance(one, bool) else one for one in row]).encode()
                )
            found[table.name] = (len(rows), text.hexdigest())
    return found


def opened(place: str) -> Database:
    """The database at a URL or in a file."""
    if place.startswith(POSTGRESQL):
        return PostgresDatabase(place, longest_s=3600.0)
    return SqliteFile(place, 10.0)


def migrate(source: str, target: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Begin to move a store by command."""
    config = folder / "move.toml"
    config.write_text(_config(source, 8080))
    command = [sys.executable, "-m", "dragoman", "store", "migrate", "--config", str(config)]
    return subprocess.Popen([*command, "--to", target], stdout=subprocess.DEVNULL)


def move(source: str, target: str, folder: Path) -> float:
    """Move a store by command; the seconds it took."""
    begun = time.perf_counter()
    if migrate(source, target, folder).wait():
        raise RuntimeError(f"{source} could not be moved")
    return time.perf_counter() - begun


def compare(before: Mapping[str, tuple[int, str]], place: str) -> str:
    """Whether a store has what another had."""
    with closing(opened(place)) as database:
        found = digests(database)
    other = [name for name in before if found[name] != before[name]]
    return f"NOT EQUAL: {', '.join(other)}" if other else "equal"


def started(place: str, folder: Path) -> tuple[float, float, int]:
    """Start a gateway on a store: seconds until it listens, of the wall's clock and of a processor,
    and its bytes."""
    port, config = free_port(), folder / "serve.toml"
    config.write_text(_config(place, port))
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    with Child(command, core=None, log=folder / "log") as child:
        seconds = child.listening(port)
        return seconds, cpu_seconds(child.pid), resident_bytes(child.pid)


def _config(place: str, port: int) -> str:
    kind = "url" if place.startswith(POSTGRESQL) else "path"
    return f"""
[server]
port = {port}
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "http://127.0.0.1:9"
[[routes]]
match = "*"
upstream = "chat"
[storage]
{kind} = "{place}"
key = "{STORE_KEY}"
"""


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="bench.store_size", description=__doc__)
    parser.add_argument("--url", required=True, help="of an empty PostgreSQL")
    url: str = parser.parse_args().url
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        old, back = str(folder / "old.db"), str(folder / "back.db")
        fill_all(folder / "old.db")
        with closing(SqliteFile(old, 10.0)) as database:
            before = digests(database)
        rows = sum(number for number, _ in before.values())
        say(f"a file of {rows:,} rows, {os.path.getsize(old) / 1e6:.0f} MB")
        process = migrate(old, url, folder)
        time.sleep(_KILLED_AFTER_S)
        process.kill()
        process.wait()
        with closing(opened(url)) as database:
            database.open()
            left = sum(number for number, _ in digests(database).values())
        say(f"a move was killed: {left} rows at the target; the old file: {compare(before, old)}")
        there = move(old, url, folder)
        say(f"moved to PostgreSQL in {there:.1f} s: {compare(before, url)}")
        say(f"moved back in {move(url, back, folder):.1f} s: {compare(before, back)}")
        say(f"the old file: {compare(before, old)}")
        for name, place in (("the file", old), ("PostgreSQL", url)):
            times = [started(place, folder) for _ in range(STARTS)]
            wall, cpu, size = (statistics.median(one) for one in zip(*times, strict=True))
            say(
                f"a gateway on {name} listens after {wall:.2f} s, {cpu:.2f} s of them of a "
                f"processor, and takes {size / 1e6:.0f} MB"
            )


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

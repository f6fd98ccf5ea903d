"""A PostgreSQL of the tests' own, where it is installed.

`python -m tests.storage.cluster COMMAND` runs a command with `URL` in its words replaced by that of
one that counts statements.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_BIN = Path("/usr/lib/postgresql")


def _programs() -> Path | None:
    """Where the programs of the newest PostgreSQL are."""
    found = sorted(_BIN.glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Cluster:
    """A server on the Unix socket `socket` below `folder`, which can be stopped and started."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder = folder
        self._programs = programs
        self.url = f"postgresql://dragoman@/postgres?host={folder}"
        self.socket = f"{folder}/.s.PGSQL.5432"
        # It refuses to be run by root.
        self._as = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        if os.geteuid():
            self._as = []

    def make(self) -> None:
        """Make its files."""
        if self._as:
            shutil.chown(self._folder, "nobody", "nogroup")
        command = ["-A", "trust", "-U", "dragoman", "-D", str(self._folder / "data")]
        self._run("initdb", *command, "--no-sync", "--locale=C", "--encoding=UTF8")

    def start(self, more: str = "") -> None:
        """Start it, with `more` options, and wait until it is ready."""
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off -c max_connections=50{more}"
        log = str(self._folder / "log")
        self._run(
            "pg_ctl", "-D", str(self._folder / "data"), "-w", "-l", log, "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; as if it were killed, unless `mode` says otherwise."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-m", mode, "stop")

    def freeze(self, *, thaw: bool = False) -> None:
        """Stop all of its processes where they are, or let them go on."""
        first = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        sent = signal.SIGCONT if thaw else signal.SIGSTOP
        # The first one makes no others while it is stopped, and its workers end by themselves.
        os.kill(first, sent)
        for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), sent)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [*self._as, str(self._programs / program), *words],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            timeout=60,
        )


@contextmanager
def running_cluster(more: str = "") -> Iterator[Cluster]:
    """A cluster, with `more` options, as long as the context lasts. Skips where PostgreSQL is not
    installed."""
    programs = _programs()
    if programs is None:
        if os.environ.get("DRAGOMAN_REQUIRE_SERVICES"):
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="dragoman-pg-") as name:
        cluster = Cluster(Path(name), programs)
        cluster.make()
        try:
            cluster.start(more)
            yield cluster
        finally:
            cluster.stop()


def main() -> int:
    """Run a command while there is a cluster; the status is the command's."""
    with running_cluster(" -c shared_preload_libraries=pg_stat_statements") as cluster:
        words = [cluster.url if word == "URL" else word for word in sys.argv[1:]]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

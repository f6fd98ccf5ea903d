"""``python -m bench.instructions``: instructions of the gateway for a request.

CPU time differs by a tenth from run to run on a machine with anything else to do; instructions,
which callgrind counts, do not differ by a hundredth. They leave out the kernel and what waiting for
memory costs, so they tell whether a change made the gateway's own work less, not what a request
costs. ``--against`` counts those of another checkout in the same run and shows the ratios; the
harness, its requests and the upstream are this checkout's for both; a checkout that has a
``.venv`` runs with what is installed there. Needs valgrind; a figure takes ten seconds.

- ``request``: a small one, translated or passed through.
- ``stream``: the same with ten events.
- ``agent``: 100 KB.
- ``embeddings``: a small request for embeddings, passed through; beside ``chat:chat`` alone, and
  only where it is asked for: older checkouts have none.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import bodies, targets
from bench.answers import EMBEDDINGS_PATH
from bench.load_client import close, connect, render, repeat
from bench.measure import MARK, Cell, cell_of
from bench.processes import Child, free_port
from bench.targets import Cores, Upstreams

ROOT = Path(__file__).parent.parent
CELLS = ("messages:chat", "chat:messages", "responses:chat", "messages:responses", "chat:chat")
KINDS = {"request": 400, "stream": 100, "agent": 60, "embeddings": 400}
"""Requests that are counted of each kind; half as many go before them."""
USUAL = ("request", "stream", "agent")
"""Kinds that are counted unless others are asked for."""

LIMIT = 1.02
"""How much dearer than in the other checkout a cell may be."""

_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


def python_of(root: Path) -> str:
    """The interpreter of a checkout: other versions may need other packages."""
    own = root / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


@contextmanager
def gateway(
    root: Path,
    folder: Path,
    up: Upstreams,
    protocol: str,
    more: str = "",
    storage: str = 'path = ""\n',
) -> Iterator[tuple[Child, int]]:
    """The gateway of a checkout below callgrind, which does not count yet, and its port; with an
    upstream of one protocol, since an older checkout may not know all, with these settings of the
    storage, and with ``more`` in its configuration."""
    port, config = free_port(), folder / "dragoman.toml"
    made = targets.configuration(port, up, (protocol,))
    config.write_text(f"{made}[storage]\n{storage}{more}")
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={folder}/counts.%p", python_of(root), "-m", "dragoman"]
    command += ["serve", "--config", str(config)]
    # The order of sets and dictionaries is the same in all runs.
    env = {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]), "PYTHONHASHSEED": "0"}
    with Child(command, core=None, log=folder / "log", env=env) as child:
        child.listening(port, 600.0)
        yield child, port


async def _send(port: int, request: bytes, count: int) -> None:
    links = await connect(port, 4, MARK)
    try:
        await repeat(links, request, count)
    finally:
        close(links)


def switch(pid: int, to: str) -> None:
    """Begin to count, or end."""
    command = ["callgrind_control", "-i", to, str(pid)]
    subprocess.run(command, check=True, capture_output=True)


def count(root: Path, cell: Cell, kind: str) -> float:
    """Instructions per request.

    :raises OSError: there is no valgrind.
    """
    request = _request(cell, kind)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with targets.upstreams(folder, Cores(None, None)) as up:
            with gateway(root, folder, up, cell.upstream) as (child, port):
                uvloop.run(_send(port, request, KINDS[kind] // 2))
                switch(child.pid, "on")
                uvloop.run(_send(port, request, KINDS[kind]))
                switch(child.pid, "off")
            return total(folder) / KINDS[kind]


def _request(cell: Cell, kind: str) -> bytes:
    if kind == "embeddings":
        body = bodies.embeddings(cell.model())
        return render("127.0.0.1", EMBEDDINGS_PATH, body, targets.CLIENT_KEY)
    return cell.agent() if kind == "agent" else cell.request(deltas=10, stream=kind == "stream")


def total(folder: Path) -> int:
    """The instructions that callgrind has counted in this folder."""
    counts = [path.read_text() for path in folder.glob("counts.*")]
    return sum(int(found) for text in counts for found in _TOTAL.findall(text))


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions for a request of one cell and kind, and those of the other checkout, if any."""

    name: str
    kind: str
    ours: float
    before: float | None = None

    @property
    def ratio(self) -> float:
        """Ours to the other checkout's; 1 if there is none."""
        return self.ours / self.before if self.before else 1.0

    @property
    def dearer(self) -> bool:
        """Whether it is beyond the limit."""
        return self.ratio > LIMIT


def counted(cells: Sequence[str], kinds: Sequence[str], against: Path | None) -> Iterator[Counted]:
    """Count all, a row at a time, both checkouts one after the other."""
    for text in cells:
        for kind in kinds:
            if kind == "embeddings" and text != "chat:chat":
                continue
            cell, name = cell_of(text), text.replace(":", " -> ")
            before = count(against, cell, kind) if against else None
            yield Counted(name, kind, count(ROOT, cell, kind), before)


def sums(found: Sequence[Counted]) -> Iterator[Counted]:
    """The sum of each kind over all cells, and of all."""
    kinds = [*dict.fromkeys(row.kind for row in found), "all"]
    for kind in kinds:
        rows = [row for row in found if kind in (row.kind, "all")]
        before = [row.before for row in rows if row.before is not None]
        yield Counted("sum", kind, sum(row.ours for row in rows), sum(before) if before else None)


def line(row: Counted) -> str:
    """A row for a terminal."""
    cells = [f"{row.ours:,.0f}"]
    if row.before is not None:
        cells += [f"{row.before:,.0f}", f"{row.ratio:.3f}"]
    mark = "  DEARER" if row.dearer and row.name != "sum" else ""
    return f"{row.name:24}{row.kind:10}{''.join(f'{cell:>16}' for cell in cells)}{mark}\n"


def verdict(found: Sequence[Counted]) -> str:
    """Whether the limit is kept."""
    limit = f"limit: no cell more than {(LIMIT - 1) * 100:.0f} % dearer"
    worst = max(found, key=lambda row: row.ratio)
    where = f"{worst.name}, {worst.kind}: {worst.ratio:.3f}"
    kept = "MISSED" if worst.dearer else "kept"
    return f"{limit}: {kept} (worst: {where})\n"


def main() -> int:
    """Count and print; the status is 1 if a cell is dearer than the limit allows."""
    parser = argparse.ArgumentParser(prog="bench.instructions", description=__doc__)
    parser.add_argument(
        "--against",
        type=Path,
        metavar="DIR",
        help="root of another checkout, to count in the same run and compare with; the status is "
        f"1 if a cell takes more than {LIMIT:g} times its instructions",
    )
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="CLIENT:UPSTREAM")
    parser.add_argument("--kinds", nargs="+", default=USUAL, choices=KINDS)
    chosen = parser.parse_args()
    against = chosen.against.resolve() if chosen.against else None
    if against and not (against / "src" / "dragoman").is_dir():
        parser.error(f"{against} is no checkout: it has no src/dragoman")
    columns = ["instructions", *(["before", "ratio"] if against else [])]
    sys.stdout.write(f"{'':24}{'kind':10}{''.join(f'{name:>16}' for name in columns)}\n")
    found = []
    for row in counted(chosen.cells, chosen.kinds, against):
        found.append(row)
        sys.stdout.write(line(row))
        sys.stdout.flush()
    sys.stdout.writelines(line(row) for row in sums(found))
    if against:
        sys.stdout.write(verdict(found))
    return int(any(row.dearer for row in found))


if __name__ == "__main__":
    sys.exit(main())

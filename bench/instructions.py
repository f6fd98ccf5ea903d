"""``python -m bench.instructions``: instructions of the gateway for a request.

CPU time differs by a tenth from run to run on a machine with anything else to do; instructions,
which callgrind counts, do not differ by a hundredth. They leave out the kernel and what waiting for
memory costs, so they tell whether a change made the gateway's own work less, not what a request
costs. ``--against`` adds those of another checkout. Needs valgrind; a figure takes ten seconds.

- ``request``: a small one, translated or passed through.
- ``stream``: the same with ten events.
- ``agent``: 100 KB.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvloop

from bench import targets
from bench.load_client import close, connect, repeat
from bench.measure import MARK, Cell
from bench.processes import Child, free_port
from bench.targets import SHORT_NAMES, Cores, Upstreams

ROOT = Path(__file__).parent.parent
LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}
CELLS = ("messages:chat", "chat:messages", "responses:chat", "messages:responses", "chat:chat")
KINDS = {"request": 400, "stream": 100, "agent": 60}
"""Requests that are counted of each kind; half as many go before them."""

_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


@contextmanager
def gateway(root: Path, folder: Path, up: Upstreams) -> Iterator[tuple[Child, int]]:
    """The gateway of a checkout below callgrind, which does not count yet, and its port."""
    port, config = free_port(), folder / "dragoman.toml"
    config.write_text(targets.configuration(port, up) + '[storage]\npath = ""\n')
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={folder}/counts.%p", sys.executable, "-m", "dragoman"]
    command += ["serve", "--config", str(config)]
    # The order of sets and dictionaries is the same in all runs.
    env = {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]), "PYTHONHASHSEED": "0"}
    with Child(command, core=None, log=folder / "log", env=env) as child:
        child.listening(port, 120.0)
        yield child, port


async def _send(port: int, request: bytes, count: int) -> None:
    links = await connect(port, 4, MARK)
    try:
        await repeat(links, request, count)
    finally:
        close(links)


def _switch(pid: int, to: str) -> None:
    """Begin to count, or end."""
    command = ["callgrind_control", "-i", to, str(pid)]
    subprocess.run(command, check=True, capture_output=True)


def count(root: Path, cell: Cell, kind: str) -> float:
    """Instructions per request.

    :raises OSError: there is no valgrind.
    """
    request = cell.agent() if kind == "agent" else cell.request(deltas=10, stream=kind == "stream")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with targets.upstreams(folder, Cores(None, None)) as up:
            with gateway(root, folder, up) as (child, port):
                uvloop.run(_send(port, request, KINDS[kind] // 2))
                _switch(child.pid, "on")
                uvloop.run(_send(port, request, KINDS[kind]))
                _switch(child.pid, "off")
            counts = [path.read_text() for path in folder.glob("counts.*")]
    return sum(int(total) for text in counts for total in _TOTAL.findall(text)) / KINDS[kind]


def cell_of(text: str) -> Cell:
    """``client:upstream``, by their short names.

    :raises ValueError: it is not.
    """
    client, _, upstream = text.partition(":")
    if client not in LONG_NAMES or upstream not in LONG_NAMES:
        raise ValueError(f"{text!r} is not CLIENT:UPSTREAM of {', '.join(LONG_NAMES)}")
    return Cell(LONG_NAMES[client], LONG_NAMES[upstream])


def rows(
    cells: Sequence[str], kinds: Sequence[str], against: Path | None
) -> Iterator[Sequence[str]]:
    """The table, a row at a time."""
    yield ("", "kind", "instructions", *(("before", "ratio") if against else ()))
    for text in cells:
        for kind in kinds:
            ours = count(ROOT, cell_of(text), kind)
            before = () if against is None else (count(against, cell_of(text), kind),)
            compared = [f"{its:,.0f}" for its in before] + [f"{ours / its:.2f}" for its in before]
            yield (text.replace(":", " -> "), kind, f"{ours:,.0f}", *compared)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="bench.instructions", description=__doc__)
    parser.add_argument("--against", type=Path, help="root of another checkout")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="CLIENT:UPSTREAM")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    chosen = parser.parse_args()
    for name, kind, *figures in rows(chosen.cells, chosen.kinds, chosen.against):
        sys.stdout.write(f"{name:24}{kind:10}{''.join(f'{cell:>16}' for cell in figures)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

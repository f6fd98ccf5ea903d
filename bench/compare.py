"""``python -m bench.compare``: this gateway and others in the terms in which they are compared.

Agents' requests of 120 KB and 1 MB come first, since that is what they send. Targets are nginx, the
gateway, peers with a recipe that are installed (``python -m bench.peers``), and any other by
``--gateway``; without its pid only what clients see is measured of it. ``--against`` adds the
gateway of another checkout. All run in turn within a round, so ratios hold where figures do not.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from math import isnan, nan
from pathlib import Path

import uvloop

from bench import targets
from bench.figures import quantile
from bench.gateways import GATEWAY_HELP, parsed
from bench.measure import Cell, cell_of
from bench.page import write_terms
from bench.peers import RECIPES
from bench.peers.recipe import running
from bench.report import Table, as_text, machine, markdown_of, number
from bench.targets import SHORT_NAMES, Cores, Target
from bench.terms import TURNS, Effort, Terms, fill, soak

FULL = Effort(requests=400, seconds=2.0, soak_s=300.0)
QUICK = Effort(requests=60, seconds=0.5, soak_s=5.0)
UPSTREAM_PORT = 4010
CELLS = ("chat:chat", "messages:chat")


def measured(found: Sequence[Terms], direct: Target, effort: Effort, rounds: int) -> list[Terms]:
    """Measure everything; the first of the result is the load upstream itself."""
    first = Terms(direct, Cell("openai_chat", "openai_chat"))
    every = [first, *found]

    async def all_of_it() -> None:
        for number_of_round in range(rounds):
            for one in every[:: -1 if number_of_round % 2 else 1]:
                say(f"round {number_of_round + 1} of {rounds}: {name_of(one)}")
                await fill(one, effort)
        say(f"memory after {effort.soak_s:.0f} s")
        await soak(found, effort.soak_s)

    uvloop.run(all_of_it())
    return every


def say(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def name_of(found: Terms) -> str:
    """What tables call it."""
    if not found.target.pid and found.target.name == "direct":
        return "direct"
    client, upstream = SHORT_NAMES[found.cell.client], SHORT_NAMES[found.cell.upstream]
    return f"{found.target.name}: {client} → {upstream}"


def added(found: Terms, direct: Terms, share: float) -> float:
    """What a lone request takes longer than the direct call: the median of the rounds."""
    pairs = zip(found.alone, direct.alone, strict=False)
    all_added = [quantile(ours, share) - quantile(theirs, share) for ours, theirs in pairs]
    return statistics.median(all_added) if all_added else nan


def compared(found: Terms, every: Sequence[Terms], size: str) -> str:
    """CPU milliseconds of a request, and how many times ours of the same cell."""
    mine = found.cpu.get(size, [])
    if not mine:
        return "-"
    text = number(statistics.median(mine) * 1e3)
    for ours in every:
        if ours.target.name == "dragoman" and ours.cell == found.cell and ours is not found:
            ratios = [a / b for a, b in zip(mine, ours.cpu.get(size, []), strict=False)]
            return f"{text} ({number(statistics.median(ratios))} x)" if ratios else text
    return text


def tables(every: Sequence[Terms]) -> list[Table]:
    """CPU by the size of a request, then what clients see."""
    direct, others = every[0], every[1:]
    sizes = [*TURNS, "small"]
    cpu = [["CPU ms per request", *sizes]]
    seen = [
        [
            "",
            "added p50 ms",
            "added p99 ms",
            "requests/s, p99 ≤ 5 ms",
            "streams of 64 deltas",
            "MB after load",
        ]
    ]
    cpu += [[name_of(one), *(compared(one, every, size) for size in sizes)] for one in others]
    seen += [
        [
            name_of(one),
            *(number(added(one, direct, share) * 1e3) for share in (0.5, 0.99)),
            number(statistics.median(one.rate)) if one.rate else "-",
            number(statistics.median(one.streams)) if one.streams else "-",
            number(one.memory / 1e6),
        ]
        for one in every
    ]
    notes = [f"{name_of(one)} failed: {one.failure}" for one in every if one.failure]
    caveats = {one.target.name: " ".join(one.target.caveats) for one in others}
    notes += [f"**{name}**: {text}" for name, text in caveats.items() if text]
    return [
        Table("CPU of all processes, 8 at once (times ours)", cpu),
        Table("What clients see", seen, notes),
    ]


def mood() -> str:
    """How busy the machine is: its load, and how unequally long a fixed loop takes."""
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(400_000):
            pass
        took.append(time.perf_counter() - begun)
    load, quickest, slowest = os.getloadavg()[0], min(took) * 1e3, max(took) * 1e3
    busy = "" if load < 0.5 else "**On a busy machine: only the ratios of one run count.** "
    return (
        f"{busy}Load average {load:.1f} before the run; a fixed loop took {quickest:.0f} to "
        f"{slowest:.0f} ms."
    )


def options() -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(
        prog="bench.compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one small round")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--soak", type=float, metavar="S", help="seconds of load before memory")
    parser.add_argument("--only", metavar="NAME,NAME", help="nginx, dragoman, and peers")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--gateway", action="append", default=[], metavar="SPEC", help=GATEWAY_HELP)
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="CLIENT:UPSTREAM")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, too")
    return parser.parse_args()


def main() -> int:
    """Measure and print."""
    chosen = options()
    effort = QUICK if chosen.quick else FULL
    soak_s = effort.soak_s if chosen.soak is None else chosen.soak
    effort = Effort(effort.requests, effort.seconds, soak_s)
    rounds = 1 if chosen.quick else chosen.rounds
    cells = [cell_of(text) for text in chosen.cells]
    gateways = [parsed(spec) for spec in chosen.gateway]
    installed = [name for name, recipe in RECIPES.items() if recipe.is_installed()]
    names = chosen.only.split(",") if chosen.only else ["nginx", "dragoman", *installed]
    begun, before, cores = time.monotonic(), mood(), Cores.of_this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        port = UPSTREAM_PORT if gateways else 0
        up = stack.enter_context(targets.upstreams(folder, cores, port))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        found: list[Terms] = []
        if "nginx" in names:
            nginx = stack.enter_context(targets.nginx(folder, cores, up)).get("nginx")
            if nginx is not None:
                found.append(Terms(nginx, cell_of("chat:chat")))
        if "dragoman" in names:
            ours = stack.enter_context(targets.dragoman(folder, cores, up))
            found += [Terms(ours, cell) for cell in cells]
        if chosen.against is not None:
            place = folder / "before"
            place.mkdir()
            before_us = targets.dragoman(place, cores, up, chosen.against.resolve())
            old = stack.enter_context(before_us)
            found += [Terms(old, cell) for cell in cells]
        for name in names:
            if name in RECIPES:
                peer = stack.enter_context(running(RECIPES[name], folder, cores, up.plain))
                able = RECIPES[name].all_cells()
                found += [Terms(peer, cell) for cell in cells if cell in able]
        for gateway in gateways:
            found += [Terms(gateway.target, cell) for cell in cells if cell in gateway.cells]
        direct = Target("direct", up.plain, 0, 0.0)
        every = measured(found, direct, effort, rounds)
    made = tables(every)
    how = (
        f"{rounds} round{'s' if rounds > 1 else ''}, {soak_s:.0f} s of load before memory, "
        f"{time.monotonic() - begun:.0f} s in all. {machine()} {before}"
    )
    sys.stdout.write(f"{as_text(made)}\n{how}\n")
    if chosen.write:
        write_terms(markdown_of(made, f"`python -m bench.compare`: {how}"))
    failed = any(one.failure and not isnan(one.target.started) for one in every)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

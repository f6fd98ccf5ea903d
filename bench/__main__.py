"""``python -m bench``: start everything, measure, print the tables.

Targets are nginx (where it is installed), the bare relay, the gateway, and peers: gateways of
others, installed by ``python -m bench.peers install NAME`` or running already and named by
``--gateway``. All have the same upstream, which answers from memory, and the same load.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import nan
from pathlib import Path

import uvloop

from bench import targets
from bench.gateways import GATEWAY_HELP, Gateway, parsed, placement
from bench.measure import Cell, Load, cell_of
from bench.page import write_main
from bench.peers import RECIPES
from bench.peers.recipe import running as running_peer
from bench.plan import ALONE, OWN, Results, alone, measure, rows_of
from bench.report import as_markdown, as_text, tables

FULL = Load(requests=1500, streams=200, rate=50, seconds=2.0, lone_requests=200)
QUICK = Load(requests=500, streams=100, rate=50, seconds=1.0, lone_requests=50)
UPSTREAM_PORT = 4010
"""Where the load upstream listens for gateways that were set to it before."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and how much."""

    own: frozenset[str]
    recipes: tuple[str, ...]
    gateways: tuple[Gateway, ...]
    cells: tuple[Cell, ...]
    upstream_port: int
    load: Load
    rounds: int
    write: bool


def options(arguments: Sequence[str] | None = None) -> Options:
    """The command line's."""
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one small round")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of a full run (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        metavar="NAME,NAME",
        help=f"targets to start: {', '.join((*OWN, *RECIPES))}\n"
        "(default: all that are installed; those of --gateway are added)",
    )
    parser.add_argument("--gateway", action="append", default=[], metavar="SPEC", help=GATEWAY_HELP)
    parser.add_argument(
        "--upstream-port",
        type=int,
        metavar="PORT",
        help="where the load upstream listens on 127.0.0.1, for all three protocols at their usual"
        f"\npaths (default: {UPSTREAM_PORT} with --gateway, otherwise any)",
    )
    parser.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="CLIENT:UPSTREAM",
        help=f"cells to measure, of {', '.join(targets.LONG_NAMES)} (default: all)",
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, too")
    chosen = parser.parse_args(arguments)
    try:
        gateways = tuple(parsed(spec) for spec in chosen.gateway)
        cells = tuple(cell_of(text) for text in chosen.cells)
        if not all(gateway.target.pid for gateway in gateways):
            raise ValueError("--gateway: pid missing")
    except ValueError as error:
        parser.error(str(error))
    installed = [name for name, recipe in RECIPES.items() if recipe.is_installed()]
    names = chosen.only.split(",") if chosen.only else [*OWN, *installed]
    for name in names:
        if name not in OWN and name not in RECIPES:
            parser.error(f"--only {name}: there is no such target")
        if name in RECIPES and name not in installed:
            parser.error(f"{name} is not installed: python -m bench.peers install {name}")
    every = [*names, *(gateway.target.name for gateway in gateways)]
    if len(set(every)) < len(every):
        parser.error(f"a name is there twice: {', '.join(every)}")
    return Options(
        own=frozenset(names) & frozenset(OWN),
        recipes=tuple(name for name in names if name in RECIPES),
        gateways=gateways,
        cells=cells,
        upstream_port=chosen.upstream_port or (UPSTREAM_PORT if gateways else 0),
        load=QUICK if chosen.quick else FULL,
        rounds=1 if chosen.quick else chosen.rounds,
        write=chosen.write,
    )


def run(chosen: Options) -> Results:
    """Start the targets, measure, and stop them."""
    cores = targets.Cores.of_this_machine()
    placements = {
        gateway.target.name: placement(gateway.target.pid, cores.gateway)
        for gateway in chosen.gateways
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        up = stack.enter_context(targets.upstreams(folder, cores, chosen.upstream_port))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        extremes = {
            (name, figure): _alone(name, figure, folder, cores, up)
            for name in sorted(chosen.own)
            for figure in ALONE
        }
        running = start(chosen.own, stack, folder, cores, up)
        nginx_tls = running.pop("nginx, TLS", None)
        peers: dict[str, Sequence[Cell]] = {}
        for name in chosen.recipes:
            recipe = RECIPES[name]
            running[name] = stack.enter_context(running_peer(recipe, folder, cores, up.plain))
            peers[name] = recipe.all_cells()
        for gateway in chosen.gateways:
            name = gateway.target.name
            running[name], peers[name] = gateway.target, gateway.cells
        rows = rows_of(running, nginx_tls, peers, chosen.cells)
        direct = targets.Target("direct", up.plain, os.getpid(), 0.0)
        results = uvloop.run(measure(rows, running, direct, up.plain, chosen.load, chosen.rounds))
        for (name, figure), (value, failure) in extremes.items():
            if name in results.extremes:
                setattr(results.extremes[name], figure, value)
                results.extremes[name].failures.append(failure)
        for name, caveats in placements.items():
            results.caveats.setdefault(name, []).extend(caveats)
        return results


def _alone(
    name: str, figure: str, folder: Path, cores: targets.Cores, up: targets.Upstreams
) -> tuple[float, str]:
    """A figure of a target that is started for it alone."""
    place = folder / f"{name}-{figure}"
    place.mkdir()
    with ExitStack() as stack:
        target = start({name}, stack, place, cores, up).get(name)
        if target is None:
            return nan, ""
        return uvloop.run(alone(figure, target))


def start(
    names: frozenset[str] | set[str],
    stack: ExitStack,
    folder: Path,
    cores: targets.Cores,
    up: targets.Upstreams,
) -> dict[str, targets.Target]:
    """Start those of our targets that are asked for and can be had; the stack ends them."""
    running: dict[str, targets.Target] = {}
    if "nginx" in names:
        running |= stack.enter_context(targets.nginx(folder, cores, up))
    if "relay" in names:
        running["relay"] = stack.enter_context(targets.relay(folder, cores, up))
    if "dragoman" in names:
        running["dragoman"] = stack.enter_context(targets.dragoman(folder, cores, up))
    return running


def main() -> int:
    """Measure and print."""
    chosen = options()
    begun = time.monotonic()
    try:
        results = run(chosen)
    except (OSError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if "nginx" in chosen.own and "nginx" not in results.extremes:
        sys.stderr.write("nginx is not installed: no ratios\n")
    found = tables(results)
    sys.stdout.write(as_text(found))
    rounds = f"{chosen.rounds} round{'s' if chosen.rounds > 1 else ''}"
    how = f"{rounds}, {time.monotonic() - begun:.0f} s"
    sys.stdout.write(f"\n{how}\n")
    if chosen.write:
        write_main(as_markdown(found, how))
    return 0


if __name__ == "__main__":
    sys.exit(main())

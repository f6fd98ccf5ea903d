"""``python -m bench``: start everything, measure, print the tables."""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench import targets
from bench.measure import Load
from bench.page import write_main
from bench.plan import Results, measure, stopped_readers
from bench.report import as_markdown, as_text, tables

FULL = Load(requests=1500, streams=200, rate=50, seconds=2.0, lone_requests=200)
QUICK = Load(requests=500, streams=100, rate=50, seconds=1.0, lone_requests=50)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small round, under 90 s")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a full run")
    parser.add_argument(
        "--only",
        default="nginx,relay,dragoman,litellm",
        help="targets, separated by commas (default: %(default)s)",
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, too")
    return parser.parse_args()


def run(only: set[str], load: Load, rounds: int) -> Results:
    """Start the targets, measure, and stop them."""
    cores = targets.Cores.of_this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        up = stack.enter_context(targets.upstreams(folder, cores))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        stopped = {}
        for name in only & {"nginx", "relay", "dragoman"}:
            with ExitStack() as alone:
                place = folder / f"{name}-alone"
                place.mkdir()
                target = start({name}, alone, place, cores, up).get(name)
                if target is not None:
                    stopped[name] = uvloop.run(stopped_readers(target))
        running = start(only, stack, folder, cores, up)
        nginx_tls = running.pop("nginx, TLS", None)
        direct = targets.Target("direct", up.plain, os.getpid(), 0.0)
        results = uvloop.run(measure(running, nginx_tls, direct, load, rounds))
        for name, (grown, failure) in stopped.items():
            results.extremes[name].slow_reader = grown
            results.extremes[name].failures.append(failure)
        return results


def start(
    only: set[str],
    stack: ExitStack,
    folder: Path,
    cores: targets.Cores,
    up: targets.Upstreams,
) -> dict[str, targets.Target]:
    """Start those of the targets that are asked for and can be had; the stack ends them."""
    running: dict[str, targets.Target] = {}
    if "nginx" in only:
        running |= stack.enter_context(targets.nginx(folder, cores, up))
        if not running:
            sys.stderr.write("nginx is not installed: no ratios\n")
    if "relay" in only:
        running["relay"] = stack.enter_context(targets.relay(folder, cores, up))
    if "dragoman" in only:
        running["dragoman"] = stack.enter_context(targets.dragoman(folder, cores, up))
    python = os.environ.get("LITELLM_PYTHON")
    if "litellm" in only and python:
        running["litellm"] = stack.enter_context(targets.litellm(folder, cores, up, Path(python)))
    return running


def main() -> int:
    chosen = options()
    load, rounds = (QUICK, 1) if chosen.quick else (FULL, chosen.rounds)
    start = time.monotonic()
    results = run(set(chosen.only.split(",")), load, rounds)
    found = tables(results)
    sys.stdout.write(as_text(found))
    how = f"{rounds} round{'s' if rounds > 1 else ''}, {time.monotonic() - start:.0f} s"
    sys.stdout.write(f"\n{how}\n")
    if chosen.write:
        write_main(as_markdown(found, how))
    return 0


if __name__ == "__main__":
    sys.exit(main())

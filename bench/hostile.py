"""``python -m bench.hostile [KIND ...]``: how long good requests take beside clients that do harm.

The clients are those of ``tools.load.hostile``, which tells what each kind does. The gateway has
a core of its own and is a new one for each kind. In each round good requests are sent alone, then
among clients of the kind; told is the 99th percentile of both, in milliseconds, and the ratio of
the two in the same round, so that what else the machine does is in both. ``all`` is every kind at
once.
"""

import argparse
import statistics
import sys

from tools.load.hostile import HARM, attack, percentile, victim_apart

NAMES = [kind.__name__ for kind in HARM]


def row(kind: str, rounds: int, seconds: float) -> str:
    """Measure a kind, in a line of the table."""
    alone, among, ratios = [], [], []
    failed, memory, files = 0, 0, 0
    with victim_apart() as process:
        for _ in range(rounds):
            found = attack(process, seconds, NAMES if kind == "all" else [kind])
            failed += len(found.failures)
            memory, files = max(memory, found.memory), max(files, found.files)
            if not found.alone or not found.among:
                continue  # Nothing to compare; that requests failed is told.
            alone.append(percentile(found.alone, 0.99))
            among.append(percentile(found.among, 0.99))
            ratios.append(among[-1] / alone[-1])
    if not ratios:
        return f"{kind:17} no round had good requests in both parts; {failed} failed\n"
    return (
        f"{kind:17} {statistics.median(alone):6.1f} {statistics.median(among):6.1f}"
        f" {statistics.median(ratios):6.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        f" {failed:7} {memory / 1e6:5.0f} {files:6}\n"
    )


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        prog="bench.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = [*NAMES, "all"]
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="of harm in a round (default: %(default)s)"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.kinds) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    titles = f"{'kind':17} {'alone':>6} {'among':>6} {'ratio':>6} {'(rounds)':14}"
    sys.stdout.write(f"{titles} {'failed':>7} {'MB':>5} {'files':>6}\n")
    for kind in chosen.kinds or known:
        sys.stdout.write(row(kind, chosen.rounds, chosen.seconds))
        sys.stdout.flush()


if __name__ == "__main__":
    main()

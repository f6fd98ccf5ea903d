"""Draws mutants, runs the tests against them, and prints those that survive.

python -m tools.mutation                       200 mutants of seed 1, all suites
python -m tools.mutation --suite tests/tables  ask these tests alone
python -m tools.mutation MUTANT ...            these mutants, by name
"""

from __future__ import annotations

import argparse
import sys

from tools.mutation.mutants import Mutant, mutants_of, names_given, sample
from tools.mutation.record import SUITES, record
from tools.mutation.run import Outcome, Runner, warm


def named(name: str) -> Mutant:
    """The mutant of a name that was printed before."""
    module = name.partition(":")[0]
    return next(mutant for mutant in mutants_of(module) if str(mutant) == name)


def line_of(outcome: Outcome) -> str:
    """One line per mutant: its name, what killed it, what it took."""
    fate = outcome.killer or "SURVIVED"
    return f"{outcome.mutant}\t{fate}\t{outcome.tests} tests\t{outcome.seconds:.1f} s\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("mutants", nargs="*", help="names of mutants, or @FILE with one per line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--suite", action="append", help="only tests below this path")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    arguments = parser.parse_args()
    names = names_given(arguments.mutants)
    chosen = [named(name) for name in names] or sample(arguments.seed, arguments.count)
    if arguments.list:
        sys.stdout.writelines(f"{mutant}\n" for mutant in chosen)
        return 0
    runner = Runner(record(SUITES))
    warm()
    survivors = 0
    for mutant in chosen:
        outcome = runner.run(mutant, tuple(arguments.suite or ("tests",)))
        survivors += not outcome.killer
        sys.stdout.write(line_of(outcome))
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {len(chosen) - survivors} caught\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

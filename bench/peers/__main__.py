"""``python -m bench.peers``: list the gateways of others, or install some from their registries.

``python -m bench`` measures those that are installed. Nothing else installs them.
"""

import argparse
import subprocess
import sys

from bench.peers import RECIPES
from bench.peers.recipe import PLACE, Recipe, install


def described(recipe: Recipe) -> str:
    """A recipe for a terminal."""
    lines = [f"{recipe.name} ({'installed' if recipe.is_installed() else 'not installed'})"]
    lines += [f"  {recipe.source}", f"  cells: {' '.join(recipe.cells)}"]
    lines += [f"  $ {command}" for command in recipe.commands().splitlines()]
    lines += [f"  - {caveat}" for caveat in recipe.caveats]
    return "\n".join(lines) + "\n"


def main() -> int:
    """List, or install."""
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="what there is (the default)")
    wanted = commands.add_parser("install", help=f"install into {PLACE.name}/")
    wanted.add_argument("names", nargs="+", choices=sorted(RECIPES), metavar="NAME")
    chosen = parser.parse_args()
    if chosen.command != "install":
        sys.stdout.write("\n".join(described(recipe) for recipe in RECIPES.values()))
        return 0
    for name in chosen.names:
        try:
            install(RECIPES[name])
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{name} was not installed: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The same bugs in another tree, by which its tests can be compared with ours.

python -m tools.mutation.counterparts TREE MUTANT ...   (or @FILE, with one per line)

prints each mutant and the one of the other tree that changes the same text in the same way, with
how alike their surroundings are from 0 to 1; a mutant without a counterpart stands alone. The
other tree's own `python -m tools.mutation` then takes the names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from tools.mutation.mutants import Sites, enum_members, names_given
from tools.mutation.sources import ROOT, core_modules, parse

LEAST = 0.6
"""How alike the surroundings of two changes are at least."""
_PRIVATE = re.compile(r"\b_+(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Place:
    """What a mutant changes, and where it stands."""

    name: str
    operator: str
    text: str
    """What is changed, as source text without its formatting and without the underscores that
    make names private."""
    which: int
    """Which of the changes by the operator to this text in the statement."""
    statement: str
    function: str
    """The module and function, with the lines of the function."""


def places(root: Path) -> Iterator[Place]:
    """Every place of a tree that can be changed."""
    enums = enum_members(root)
    for module, path in core_modules(root).items():
        tree = parse(path)
        around = dict(_around(tree, module))
        on_line: Counter[tuple[int, str]] = Counter()
        alike: Counter[tuple[ast.stmt, str, str]] = Counter()
        for site in Sites(tree, enums):
            number = on_line[site.line, site.operator]
            on_line[site.line, site.operator] += 1
            text = _PRIVATE.sub("", ast.unparse(site.node))
            which = alike[site.statement, site.operator, text]
            alike[site.statement, site.operator, text] += 1
            name = f"{module}:{site.line}:{site.operator}:{number}"
            head = _head(site.statement)
            yield Place(name, site.operator, text, which, head, around[site.statement])


def counterpart(place: Place, others: list[Place]) -> tuple[Place, float] | None:
    """The most alike of the places with the same text and operator, if any is alike enough."""
    found = [
        (_likeness(place, other), other)
        for other in others
        if other.which == place.which and _package(other) == _package(place)
    ]
    likeness, best = max(found, key=lambda pair: pair[0], default=(0.0, place))
    return (best, likeness) if likeness >= LEAST else None


def _likeness(one: Place, other: Place) -> float:
    statements = SequenceMatcher(None, one.statement, other.statement, autojunk=False).ratio()
    functions = SequenceMatcher(
        None, one.function.splitlines(), other.function.splitlines(), autojunk=False
    ).ratio()
    names = SequenceMatcher(None, one.function[:60], other.function[:60], autojunk=False).ratio()
    return 0.5 * statements + 0.25 * functions + 0.25 * names


def _package(place: Place) -> str:
    """The protocol's package that a place stands in, if it stands in one."""
    parts = place.name.partition(":")[0].split(".")
    return parts[1] if parts[0] == "protocols" and len(parts) > 2 else ""


def _around(tree: ast.Module, module: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with the function it stands in."""
    waiting: list[tuple[ast.AST, str]] = [(tree, module)]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = f"{module}.{node.name}\n{ast.unparse(node)}"
        if isinstance(node, ast.stmt):
            yield node, function
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]


def _head(statement: ast.stmt) -> str:
    """A statement's text without the statements in it."""
    text = ast.unparse(statement)
    compound = any(hasattr(statement, name) for name in ("body", "cases"))
    return text.partition("\n")[0] if compound else text


def main() -> int:
    tree, names = Path(sys.argv[1]), names_given(sys.argv[2:])
    ours = {place.name: place for place in places(ROOT)}
    theirs: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place in places(tree):
        theirs[place.operator, place.text].append(place)
    for name in names:
        place = ours[name]
        found = counterpart(place, theirs[place.operator, place.text])
        if found:
            sys.stdout.write(f"{name}\t{found[0].name}\t{found[1]:.2f}\n")
        else:
            sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

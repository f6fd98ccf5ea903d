"""Which stretch of code a statement belongs to, and probes that tell which stretches ran.

A stretch is a run of statements of one block, up to and with the next compound statement: what
begins it runs all of it, unless it raises. What stands at the top of a module or class belongs to
no stretch: it runs on import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

ON_IMPORT = -1
PROBE = "__stretches__"
"""The name under which the array of probes stands in an instrumented module."""

_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.AsyncFor, ast.AsyncWith)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements right below a node."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


class Stretches:
    """Numbers the stretches of one module's tree."""

    def __init__(self, tree: ast.Module) -> None:
        self.of: dict[ast.stmt, int] = {}
        self.leaders: dict[ast.stmt, int] = {}
        self.untaken: dict[ast.If, int] = {}
        """An `if` without `else` has a stretch for the way past it."""
        self.count = 0
        self._number(tree.body, inside=False)

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _number(self, block: list[ast.stmt], inside: bool) -> None:
        fresh = True
        stretch = ON_IMPORT
        for statement in block:
            if inside and fresh:
                stretch = self.leaders[statement] = self._next()
            fresh = isinstance(statement, _COMPOUND)
            self.of[statement] = stretch
            if isinstance(statement, ast.If) and inside and not statement.orelse:
                self.untaken[statement] = self._next()
            for nested in blocks_of(statement):
                self._number(nested, inside or isinstance(statement, _FUNCTIONS))


def instrument(tree: ast.Module, offset: int) -> None:
    """Have every stretch set its place in the array, the module's first one at `offset`."""
    stretches = Stretches(tree)

    def probe(number: int) -> ast.stmt:
        return ast.parse(f"{PROBE}[{offset + number}] = 1").body[0]

    def insert(block: list[ast.stmt]) -> None:
        made: list[ast.stmt] = []
        for statement in block:
            for nested in blocks_of(statement):
                insert(nested)
            if statement in stretches.leaders:
                made.append(probe(stretches.leaders[statement]))
            if isinstance(statement, ast.If) and statement in stretches.untaken:
                statement.orelse = [probe(stretches.untaken[statement])]
            made.append(statement)
        block[:] = made

    insert(tree.body)
    start = next(
        (
            index + 1
            for index, node in enumerate(tree.body)
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ),
        1,
    )
    tree.body[start:start] = ast.parse(f"from tools.mutation.record import {PROBE}").body

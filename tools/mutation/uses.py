"""Which stretches read what a module defines on import."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tools.mutation.probes import ON_IMPORT, Stretches
from tools.mutation.sources import core_modules, parse


class Uses:
    """Follows names through the core, by spelling alone: a name used for two things counts as
    used for both."""

    def __init__(self, offsets: dict[str, int]) -> None:
        self._defined: dict[str, list[tuple[int, int, frozenset[str]]]] = defaultdict(list)
        """Per module the lines and names of its statements that run on import."""
        self._masks: dict[str, int] = defaultdict(int)
        """Per name the stretches that read it."""
        self._readers: dict[str, set[str]] = defaultdict(set)
        """Per name those defined on import from it."""
        for module, path in core_modules().items():
            tree = parse(path)
            stretches = Stretches(tree).of
            for statement in tree.body:
                names = frozenset(_defines(statement))
                span = statement.lineno, statement.end_lineno or statement.lineno
                self._defined[module].append((*span, names))
            for inner, stretch in stretches.items():
                outer = next(
                    names
                    for start, end, names in self._defined[module]
                    if start <= inner.lineno <= end
                )
                for name in _reads(inner):
                    if stretch == ON_IMPORT:
                        self._readers[name] |= outer - {name}
                    else:
                        self._masks[name] |= 1 << (offsets[module] + stretch)

    def of(self, module: str, line: int) -> int:
        """The stretches that may notice a change of the statement at a line."""
        waiting = [
            name
            for start, end, names in self._defined[module]
            for name in names
            if start <= line <= end
        ]
        seen: set[str] = set()
        mask = 0
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                mask |= self._masks[name]
                waiting += self._readers[name]
        return mask


def _defines(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _reads(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement reads itself, without the statements in it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        children = ast.iter_child_nodes(node)
        waiting += [child for child in children if not isinstance(child, ast.stmt)]

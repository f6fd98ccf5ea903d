"""Small bugs: which ones a module can be given, and a sample of them."""

from __future__ import annotations

import ast
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.mutation.probes import Stretches, blocks_of
from tools.mutation.sources import ROOT, core_modules, parse

Put = Callable[[ast.expr], None]


@dataclass(frozen=True)
class Site:
    """One bug that a tree can be given."""

    line: int
    operator: str
    stretch: int
    node: ast.AST
    statement: ast.stmt
    apply: Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """A bug by its name: the module, the line, the operator, and which of those on the line."""

    module: str
    line: int
    operator: str
    number: int
    stretch: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}:{self.operator}:{self.number}"

    def change(self, tree: ast.Module) -> None:
        """Give the bug to the module's tree."""
        alike = [
            site
            for site in Sites(tree, enum_members())
            if (site.line, site.operator) == (self.line, self.operator)
        ]
        alike[self.number].apply()


_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_TYPES_ONLY = ("annotation", "returns", "decorator_list", "type_params")
"""Fields that say nothing about what is computed."""
_NAMES_ONLY = ("__all__", "__slots__")


class Sites:
    """Every bug that a module's tree can be given, in the order of the text."""

    def __init__(self, tree: ast.Module, enums: dict[str, list[str]]) -> None:
        self._tree = tree
        self._enums = enums
        self._of = Stretches(tree).of
        self._statement: ast.stmt = tree.body[0]

    def __iter__(self) -> Iterator[Site]:
        yield from self._block(self._tree.body, early=False)

    def _site(self, node: ast.AST, operator: str, apply: Callable[[], None]) -> Site:
        line = getattr(node, "lineno", self._statement.lineno)
        return Site(line, operator, self._of[self._statement], node, self._statement, apply)

    def _block(self, block: list[ast.stmt], early: bool) -> Iterator[Site]:
        for index, statement in enumerate(block):
            if index == 0 and _is_text(statement):
                continue
            if isinstance(statement, ast.Import | ast.ImportFrom) or _names_only(statement):
                continue
            self._statement = statement
            if _droppable(statement, early):
                yield self._site(statement, "drop-statement", _blank(block, index))
            yield from self._expressions(statement)
            if isinstance(statement, ast.Match) and len(statement.cases) > 1:
                yield from self._dropped(statement.cases, "drop-case")
            inner = not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for nested in blocks_of(statement):
                yield from self._block(nested, early=inner)

    def _dropped(
        self, items: list[ast.expr] | list[ast.match_case], operator: str
    ) -> Iterator[Site]:
        for index, item in enumerate(items):

            def drop(index: int = index) -> None:
                del items[index]

            yield self._site(item, operator, drop)

    def _expressions(self, node: ast.AST) -> Iterator[Site]:
        """What stands below a node, without the statements below it."""
        for name, value in ast.iter_fields(node):
            if name in _TYPES_ONLY or isinstance(node, ast.ClassDef):
                continue
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from self._child(item, _setter(value, index), name)
            else:
                yield from self._child(value, _putter(node, name), name)

    def _child(self, node: object, put: Callable[[ast.expr], None], name: str) -> Iterator[Site]:
        match node:
            case ast.stmt():
                return
            case ast.match_case(pattern=pattern, guard=guard):
                statement = self._statement
                yield from self._expressions(pattern)
                if guard:
                    yield from self._child(guard, _putter(node, "guard"), "test")
                self._statement = statement
            case ast.expr():
                yield from self._expression(node, put, condition=name in ("test", "ifs"))
            case ast.AST():
                yield from self._expressions(node)

    def _expression(self, node: ast.expr, put: Put, condition: bool) -> Iterator[Site]:
        def changed(operator: str, new: ast.expr) -> Site:
            return self._site(node, operator, lambda: put(ast.copy_location(new, node)))

        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
                new = ast.Compare(node.left, [_SWAPPED[type(operator)]()], node.comparators)
                yield changed("swap-comparison", new)
                condition = condition and isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield changed("swap-and-or", ast.BoolOp(other, node.values))
                for index in range(len(node.values)):
                    rest = [value for at, value in enumerate(node.values) if at != index]
                    yield changed(
                        "drop-operand", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                    )
            case ast.UnaryOp(op=ast.Not()):
                yield changed("drop-not", node.operand)
                condition = False
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                other_op = _ARITHMETIC[type(node.op)]()
                yield changed("swap-arithmetic", ast.BinOp(node.left, other_op, node.right))
            case ast.Constant(value=value):
                new_value = _other_constant(value)
                if new_value is not None:
                    yield changed("change-constant", ast.Constant(new_value))
            case ast.Attribute(value=ast.Name(id=owner), attr=member) if member in self._enums.get(
                owner, ()
            ):
                members = self._enums[owner]
                follower = members[(members.index(member) + 1) % len(members)]
                yield changed("change-member", ast.Attribute(node.value, follower, ctx=ast.Load()))
            case ast.JoinedStr(values=parts):
                yield from self._joined(node, parts)
                return
            case ast.Subscript(value=ast.Name(id="Literal")):
                return
            case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
                return
            case ast.Dict():
                yield from self._dropped_entries(node)
            case ast.Call(keywords=keywords):
                named = [word for word in keywords if word.arg]
                for word in named:
                    yield self._site(
                        word,
                        "drop-keyword",
                        lambda word=word: keywords.remove(word),  # type: ignore[misc]
                    )
            case ast.List(elts=items) | ast.Set(elts=items) if items:
                yield from self._dropped(items, "drop-element")
            case ast.Tuple(elts=items, ctx=ast.Load()) if len(items) > 1 and condition is False:
                if all(isinstance(item, ast.Constant | ast.Attribute) for item in items):
                    yield from self._dropped(items, "drop-element")
        if condition:
            yield changed("negate", ast.UnaryOp(ast.Not(), node))
        yield from self._expressions(node)

    def _dropped_entries(self, node: ast.Dict) -> Iterator[Site]:
        for index, key in enumerate(node.keys):

            def drop(index: int = index) -> None:
                del node.keys[index]
                del node.values[index]

            yield self._site(key or node.values[index], "drop-entry", drop)

    def _joined(self, node: ast.JoinedStr, parts: list[ast.expr]) -> Iterator[Site]:
        """A formatted text that is a path or an id, and what is computed in any."""
        texts = [part for part in parts if isinstance(part, ast.Constant)]
        if not any(" " in str(part.value) for part in texts):
            for part in texts:
                yield self._site(
                    node,
                    "change-text",
                    lambda part=part: setattr(part, "value", str(part.value) + "_"),  # type: ignore[misc]
                )
        for value in parts:
            if isinstance(value, ast.FormattedValue):
                yield from self._child(value.value, _putter(value, "value"), "value")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _names_only(statement: ast.stmt) -> bool:
    if _is_text(statement):
        return True
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    if not isinstance(statement, ast.Assign):
        return False
    return any(isinstance(to, ast.Name) and to.id in _NAMES_ONLY for to in statement.targets)


def _droppable(statement: ast.stmt, early: bool) -> bool:
    match statement:
        case ast.Expr() | ast.AugAssign() | ast.Delete():
            return True
        case ast.Raise() | ast.Return() | ast.Continue() | ast.Break():
            return early
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _other_constant(value: object) -> bool | float | str | bytes | None:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if " " not in value:
            return value + "_"
        case bytes() if b" " not in value:
            return value + b"_"
    return None


def _blank(block: list[ast.stmt], index: int) -> Callable[[], None]:
    def put() -> None:
        block[index] = ast.copy_location(ast.Pass(), block[index])

    return put


def _setter(items: list[ast.expr], index: int) -> Put:
    def put(new: ast.expr) -> None:
        items[index] = new

    return put


def _putter(owner: ast.AST, name: str) -> Put:
    return lambda new: setattr(owner, name, new)


@cache
def enum_members(root: Path = ROOT) -> dict[str, list[str]]:
    """The members of the core's enums, by class, in the tree that lies in `root`."""
    members = {}
    for path in core_modules(root).values():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases
            ):
                members[node.name] = [
                    target.id
                    for statement in node.body
                    if isinstance(statement, ast.Assign)
                    for target in statement.targets
                    if isinstance(target, ast.Name)
                ]
    return members


@cache
def mutants_of(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    seen: Counter[tuple[int, str]] = Counter()
    found = []
    for site in Sites(parse(core_modules()[module]), enum_members()):
        number = seen[site.line, site.operator]
        seen[site.line, site.operator] += 1
        found.append(Mutant(module, site.line, site.operator, number, site.stretch))
    return found


def sample(seed: int, count: int) -> list[Mutant]:
    """A sample, as many of each module as its size demands.

    Within a module the operator is drawn first: otherwise constants would be most of it.
    """
    rng = random.Random(seed)
    candidates = {module: mutants_of(module) for module in core_modules()}
    sizes = {module: len(found) for module, found in candidates.items() if found}
    drawn: dict[Mutant, None] = {}
    while len(drawn) < min(count, sum(sizes.values())):
        (module,) = rng.choices(list(sizes), list(sizes.values()))
        by_operator: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in candidates[module]:
            by_operator[mutant.operator].append(mutant)
        drawn[rng.choice(by_operator[rng.choice(sorted(by_operator))])] = None
    return list(drawn)


def names_given(arguments: list[str]) -> list[str]:
    """Names of mutants as a command takes them: each, or a file of them behind an `@`."""
    return [
        name
        for given in arguments
        for name in (Path(given[1:]).read_text().split() if given.startswith("@") else [given])
    ]

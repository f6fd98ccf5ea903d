"""``python -m tools.size``: the size of the source by package, and of what a reader has to hold.

``--against DIR`` shows another checkout's figures beside this one's; ``--functions N`` lists the
most complex functions, by the number of decisions in each.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANY = 6
"""Parameters above which a function has many."""

_DECISIONS = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case),
    *(ast.comprehension, ast.Assert),
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Size:
    """Lines and definitions of a package, or of several. A line is one of code, of a docstring or a
    comment, or blank; imports are lines of code, too.
    """

    files: int = 0
    lines: int = 0
    code: int = 0
    prose: int = 0
    blank: int = 0
    imports: int = 0
    classes: int = 0
    functions: int = 0
    many: int = 0

    def add(self, other: Size) -> None:
        """Add the figures of another."""
        for name in COLUMNS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COLUMNS = tuple(Size.__dataclass_fields__)


@dataclass(slots=True)
class Source:
    """The source of a checkout: its size by package, and the decisions of each function."""

    packages: dict[str, Size] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Size:
        """The size of all packages."""
        total = Size()
        for size in self.packages.values():
            total.add(size)
        return total


def read(folder: Path, base: Path) -> Source:
    """The source in a folder; packages are the folders right below `base`."""
    source = Source()
    for path in sorted(folder.rglob("*.py")):
        if any(part.startswith(".") or part == "node_modules" for part in path.parts):
            continue
        parts = path.relative_to(base).parts
        name = parts[0] if len(parts) > 1 else "(root)"
        tree = ast.parse(path.read_bytes())
        source.packages.setdefault(name, Size()).add(size_of(path.read_text(), tree))
        where = ".".join(path.relative_to(base).with_suffix("").parts)
        source.decisions |= {f"{where}:{name}": count for name, count in decisions(tree)}
    return source


def size_of(text: str, tree: ast.Module) -> Size:
    """The size of one module."""
    lines = text.splitlines()
    blank = {number for number, line in enumerate(lines, 1) if not line.strip()}
    prose = set(_comment_lines(text)) | set(_docstring_lines(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return Size(
        files=1,
        lines=len(lines),
        code=len(lines) - len(blank | prose),
        prose=len(prose - blank),
        blank=len(blank),
        imports=sum((node.end_lineno or 0) - node.lineno + 1 for node in imports),
        classes=sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree)),
        functions=len(functions),
        many=sum(len(parameters(node)) > MANY for node in functions),
    )


def parameters(node: Function) -> list[str]:
    """The names of a function's parameters, but for `self` and `cls`."""
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [arg.arg for arg in taken if arg.arg not in ("self", "cls")]


def decisions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function with one more than the number of its decisions (cyclomatic complexity)."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            inner = list(ast.walk(node))
            branches = sum(isinstance(one, _DECISIONS) for one in inner)
            words = sum(len(one.values) - 1 for one in inner if isinstance(one, ast.BoolOp))
            yield node.name, 1 + branches + words


def _comment_lines(text: str) -> Iterator[int]:
    """Numbers of the lines that hold nothing but a comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            yield token.start[0]


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Numbers of the lines of docstrings, those below attributes included."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def settings(root: Path) -> int:
    """The number of settings: entries of the reference of the configuration."""
    page = root / "docs" / "configuration.md"
    return sum(line.startswith("- **`") for line in page.read_text().splitlines())


def table(source: Source, before: Source | None) -> Iterator[str]:
    """The rows of the table for a terminal, with the lines before if there is another source."""
    names = sorted(source.packages.keys() | (before.packages.keys() if before else set()))
    last = f"{'lines before':>14}" if before else ""
    yield f"{'':16}{''.join(f'{name:>11}' for name in COLUMNS)}{last}"
    for name in [*names, "sum"]:
        size = source.total if name == "sum" else source.packages.get(name, Size())
        row = f"{name:16}{''.join(f'{getattr(size, column):>11,}' for column in COLUMNS)}"
        if before is not None:
            former = before.total if name == "sum" else before.packages.get(name, Size())
            row += f"{former.lines:>14,}"
        yield row


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="tools.size", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the checkout")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    chosen = parser.parse_args()
    roots = [root for root in (chosen.root, chosen.against) if root is not None]
    for folder in ("src/dragoman", "tests", "tools", "bench"):
        found = [read(root / folder, root / folder) for root in roots]
        write(folder, table(found[0], found[1] if len(found) > 1 else None))
        if chosen.functions and folder == "src/dragoman":
            for root, source in zip(roots, found, strict=True):
                ranked = sorted(source.decisions.items(), key=lambda item: -item[1])
                rows = (f"{count:>5}  {name}" for name, count in ranked[: chosen.functions])
                write(f"most decisions in {root}", rows)
    write("settings", (f"{settings(root):>5}  {root}" for root in roots))
    return 0


def write(title: str, lines: Iterator[str]) -> None:
    """Print a titled block."""
    sys.stdout.write("\n".join([title, *lines, "", ""]))


if __name__ == "__main__":
    sys.exit(main())

"""The core's modules, and an import hook that compiles them from a changed tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parent.parent.parent
CORE = ("canonical", "protocols", "translation", "jsontext.py", "sse.py")


def core_modules(root: Path = ROOT) -> dict[str, Path]:
    """The core's modules by name (`protocols.fields`, without the package's own), of the tree
    that lies in `root`."""
    source = root / "src" / "dragoman"
    found: dict[str, Path] = {}
    for part in CORE:
        place = source / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place][: place.exists()]:
            dotted = ".".join(path.relative_to(source).with_suffix("").parts)
            found[dotted.removesuffix(".__init__")] = path
    return found


def parse(path: Path) -> ast.Module:
    """The tree of a module."""
    return ast.parse(path.read_text(), str(path))


class TreeLoader(SourceFileLoader):
    """Compiles a module's tree as `change` leaves it; nothing is cached on disk."""

    def __init__(self, name: str, path: str, change: Callable[[ast.Module], None]) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        tree = parse(Path(self.path))
        self._change(tree)
        ast.fix_missing_locations(tree)
        return compile(tree, self.path, "exec", dont_inherit=True)


class TreeFinder(MetaPathFinder):
    """Loads the named modules of the core through `change`, and leaves all others alone."""

    def __init__(self, changes: dict[str, Callable[[ast.Module], None]]) -> None:
        self._changes = {f"dragoman.{name}": change for name, change in changes.items()}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The spec that every import finds, with another loader."""
        change = self._changes.get(fullname)
        spec = PathFinder.find_spec(fullname, path) if change else None
        if change is None or spec is None or spec.origin is None:
            return None
        spec.loader = TreeLoader(fullname, spec.origin, change)
        return spec


def install(changes: dict[str, Callable[[ast.Module], None]]) -> None:
    """Have the modules compiled through these changes; none of them may be imported yet."""
    loaded = [name for name in changes if f"dragoman.{name}" in sys.modules]
    assert not loaded, f"imported already: {loaded}"
    sys.meta_path.insert(0, TreeFinder(changes))

"""What a recipe is, how a gateway is installed by one, and how it is started."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import Cell, cell_of
from bench.processes import Child, free_port
from bench.targets import OURS, Access, Cores, Target

PLACE = Path(__file__).parent.parent.parent / ".peers"
"""Where gateways are installed, each in a folder of its own."""

INSTALL_S = 900
"""Seconds after which an installation is given up."""

_STAMP = "installed"


@dataclass(frozen=True, slots=True)
class Site:
    """Where one run of a gateway takes place."""

    installed: Path
    folder: Path
    port: int
    upstream: int
    """The port of the load upstream, on loopback."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a gateway is started: files by name in the run's folder, command and environment."""

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    access: Access = OURS


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a gateway is had and run.

    ``install`` are commands, run in the folder where it is installed; ``cells`` are those it can
    do, as ``client:upstream``; ``caveats`` are what a reader of its figures has to know;
    ``patience`` is how many seconds it may take to listen.
    """

    name: str
    source: str
    install: tuple[tuple[str, ...], ...]
    start: Callable[[Site], Start]
    cells: tuple[str, ...]
    caveats: tuple[str, ...]
    patience: float = 30.0

    def is_installed(self, place: Path = PLACE) -> bool:
        """Whether it was installed by these very commands."""
        stamp = place / self.name / _STAMP
        return stamp.exists() and stamp.read_text() == self.commands()

    def commands(self) -> str:
        """The commands that install it, one a line."""
        return "".join(f"{' '.join(command)}\n" for command in self.install)

    def all_cells(self) -> tuple[Cell, ...]:
        """The cells that it can do."""
        return tuple(cell_of(text) for text in self.cells)


def install(recipe: Recipe, place: Path = PLACE) -> None:
    """Install a gateway from its registry, at the lowest priority, in place of what was there.

    :raises subprocess.CalledProcessError: a command failed.
    :raises subprocess.TimeoutExpired: it took more than `INSTALL_S` seconds.
    """
    folder = place / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in recipe.install:
        subprocess.run(
            command, cwd=folder, check=True, timeout=INSTALL_S, preexec_fn=lambda: os.nice(19)
        )
    (folder / _STAMP).write_text(recipe.commands())


@contextmanager
def running(
    recipe: Recipe, folder: Path, cores: Cores, upstream: int, place: Path = PLACE
) -> Iterator[Target]:
    """Run an installed gateway, held to the core that is measured, over the load upstream."""
    own = folder / f"peer-{recipe.name}"
    own.mkdir()
    site = Site(place / recipe.name, own, free_port(), upstream)
    start = recipe.start(site)
    for name, text in start.files.items():
        (own / name).write_text(text)
    # Nothing of the user's reaches it: no keys, no settings, no home.
    env = {"PATH": os.environ["PATH"], "HOME": str(own), "LANG": "C.UTF-8", **start.env}
    child = Child(start.command, core=cores.gateway, log=own / "log", env=env, inherit=False)
    with child:
        started = child.listening(site.port, recipe.patience)
        caveats = (recipe.source, *recipe.caveats)
        yield Target(
            recipe.name, site.port, child.pid, started, access=start.access, caveats=caveats
        )

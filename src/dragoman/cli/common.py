"""What several commands share: options, messages, tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from dragoman.printable import printable

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

    from dragoman.config import Config, ConfigError, Loaded
    from dragoman.operations.admin_service import MadeAdmin
    from dragoman.operations.context import StoreContext
    from dragoman.operations.errors import BadRow
    from dragoman.operations.key_service import MadeKey


class ProtocolName(click.ParamType[str]):
    """The name of a protocol. Protocols are only imported when a command is run."""

    name = "protocol"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is such a protocol."""
        from dragoman.protocols import CODECS

        if value not in CODECS:
            self.fail(f"{value!r} is not one of {', '.join(CODECS)}.", param, ctx)
        return value


PROTOCOL = ProtocolName()

FILE = click.Path(path_type=Path)

CONFIG_VARIABLE = "DRAGOMAN_CONFIG"
"""The environment variable that names the configuration where no option does."""

CONFIG = click.option(
    "--config",
    "-c",
    type=FILE,
    default="dragoman.toml",
    show_default=True,
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    help="The configuration.",
)

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


ALWAYS_JSON = click.option(
    "--json", is_flag=True, expose_value=False, help="As without it: the output is always JSON."
)
"""For commands that print nothing but JSON."""


def reached_by(host: str) -> str:
    """The host of a URL for clients on this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def read_config(path: Path) -> Config:
    """The configuration at `path`, for a command that needs neither its secrets nor its files; all
    faults are printed and end the command."""
    with config_faults_reported():
        return load_config(path, serving=False).config


def load_config(
    path: Path, *, serving: bool = True, server: Mapping[str, object] | None = None
) -> Loaded:
    """The configuration at `path`, for `serving` with its secrets and files. `server` are settings
    that override those of its `[server]`.

    Raises:
        ConfigError: it cannot be used.
    """
    from dragoman.config import ConfigError
    from dragoman.config import read_config as read

    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise click.ClickException(
            f"there is no configuration at {path}: name it with --config or {CONFIG_VARIABLE}, or "
            "let `dragoman init` write one"
        ) from None
    except OSError:
        pass  # The error of reading it says why.
    loaded = read(path, server=server or {}, secrets_needed=serving)
    if serving:
        from dragoman.server.server import file_faults

        if problems := loaded.problems(file_faults(loaded.config)):
            raise ConfigError(str(path), problems)
    return loaded


@contextmanager
def config_faults_reported(
    in_json: Callable[[ConfigError], object] | None = None,
) -> Iterator[None]:
    """End the command with all faults of a configuration, and print the JSON that `in_json` makes
    of them."""
    from dragoman.config import ConfigError

    try:
        yield
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"error: {problem.located(error.file)}", err=True)
        if in_json is not None:
            print_json(in_json(error))
        raise click.exceptions.Exit(1) from None


@contextmanager
def failures_reported(file: str = "", as_json: bool = False) -> Iterator[None]:
    """End the command with a message for whatever an operator can get wrong; `file` is the name of
    the list that is read."""
    from dragoman.accounts.store import StoreError
    from dragoman.config import SecretError
    from dragoman.operations.errors import BadFile, Conflict, ImportRejected, Unknown
    from dragoman.operations.inputs import InvalidInput
    from dragoman.prices.table import PriceError

    try:
        yield
    except InvalidInput as error:
        for fault in error.faults:
            click.echo(f"error: {fault.field}: {fault.message}", err=True)
        raise click.exceptions.Exit(1) from None
    except BadFile as error:
        raise click.ClickException(f"{file}: {error}") from None
    except ImportRejected as error:
        if as_json:
            print_json({"bad": error.bad})
        else:
            print_bad_rows(error.bad, file)
        raise click.ClickException(str(error)) from None
    except (Conflict, PriceError, SecretError, StoreError, Unknown) as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def opened(path: Path) -> Iterator[StoreContext]:
    """The store of the configuration at `path`; failures end the command."""
    config = read_config(path)
    from dragoman.operations.context import open_store

    with failures_reported(), open_store(config) as context:
        yield context


def progress(label: str, length: int, *, shown: bool = True) -> ProgressBar[int]:
    """A progress bar for a person at a terminal; `update` moves it."""
    hidden = not (shown and sys.stderr.isatty())
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=hidden)


def print_secret(made: MadeKey | MadeAdmin) -> None:
    """Print a new secret, alone on standard output."""
    click.echo(made.secret)
    click.echo(f"{made.name}: it is shown this once", err=True)


def print_json(value: object) -> None:
    """Print a value as one JSON document."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def report(value: object, as_json: bool, text: str = "") -> None:
    """Print the outcome of a command: as JSON, or as a text, if there is one."""
    if as_json:
        print_json(value)
    elif text:
        click.echo(text)


def file_name(file: BinaryIO) -> str:
    """The name of a command's file in messages."""
    return "standard input" if file is sys.stdin.buffer else file.name


def print_bad_rows(bad: Iterable[BadRow], name: str) -> None:
    """Print every fault of the bad rows of a file."""
    for row in bad:
        for fault in row.faults:
            field = ": ".join(part for part in (row.name, fault.field) if part)
            click.echo(f"error: {name}:{row.at}: {field}: {fault.message}", err=True)


_COLOURS = {"active": "green", "cooling": "yellow", "exhausted": "red", "disabled": "red"}
"""Colours of the states of accounts."""


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text, each column as wide as it needs to be. Columns without any content are left
    out, but for the first. Colours are for terminals: `click.echo` removes them elsewhere."""
    lines = [tuple(heading), *(tuple(printable(cell) for cell in row) for row in rows)]
    columns = list(zip(*lines, strict=True))
    shown = [column for at, column in enumerate(columns) if at == 0 or any(column[1:])]
    widths = [max(len(cell) for cell in column) for column in shown]
    laid_out = [
        "  ".join(_coloured(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*shown, strict=True)
    ]
    return "\n".join([click.style(laid_out[0], bold=True), *laid_out[1:]])


def _coloured(cell: str, width: int) -> str:
    padding = " " * (width - len(cell))
    return (click.style(cell, _COLOURS[cell]) if cell in _COLOURS else cell) + padding


def until(moment: float | None, now: float) -> str:
    """How long it is until a moment, both in Unix seconds; empty if there is none."""
    from dragoman.accounts.decide.explain import span

    return "" if moment is None or moment <= now else f"in {span(moment - now)}"


def ago(moment: float | None, now: float) -> str:
    """How long ago a moment is, both in Unix seconds."""
    from dragoman.accounts.decide.explain import span

    return "never" if moment is None else f"{span(max(0.0, now - moment))} ago"

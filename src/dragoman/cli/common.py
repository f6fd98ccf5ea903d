"""What several commands have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from dragoman.printable import printable

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

    from dragoman.accounts.store import Store
    from dragoman.config import Config, ConfigError, Loaded
    from dragoman.operations.rows import BadRow


class ProtocolName(click.ParamType[str]):
    """The name of a protocol; which there are is asked only when a command is run."""

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
    "--json", is_flag=True, expose_value=False, help="As without: it is JSON anyway."
)
"""For commands that print nothing but JSON."""


def read_config(
    path: Path, *, serving: bool = True, server: Mapping[str, object] | None = None
) -> Config:
    """The configuration at `path`; faults are all printed and end the command. `server` has
    settings that win over those of its `[server]`.

    Commands that are about `serving` with it need its secrets and its files, and print its
    warnings; others get by without what they do not use.
    """
    with faults_of_config_told():
        loaded = load_config(path, serving=serving, server=server)
    for warning in loaded.warnings if serving else ():
        click.echo(f"warning: {warning.located(str(path))}", err=True)
    return loaded.config


def load_config(
    path: Path, *, serving: bool = True, server: Mapping[str, object] | None = None
) -> Loaded:
    """As `read_config`, which also prints.

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
        pass  # Reading it tells why it cannot be read.
    loaded = read(path, server=server or {}, secrets_needed=serving)
    if serving:
        from dragoman.server.server import file_faults

        if problems := loaded.problems(file_faults(loaded.config)):
            raise ConfigError(str(path), problems)
    return loaded


@contextmanager
def faults_of_config_told(in_json: Callable[[ConfigError], object] | None = None) -> Iterator[None]:
    """End the command with all that is wrong with a configuration; on standard output with the
    JSON, too, that `in_json` makes of it."""
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
def key_store(config: Config) -> Iterator[Store]:
    """The store of the keys of a configuration; what is wrong is told as commands do."""
    from dragoman.operations.errors import Conflict
    from dragoman.operations.keys import Unknown
    from dragoman.storage.opening import store_for

    store = store_for(config)
    with failures_told():
        if store is None:
            raise Conflict('[storage] path is "", so no key can be kept')
        try:
            yield store
        except Unknown as error:
            raise click.ClickException(str(error)) from None
        finally:
            store.close()


@contextmanager
def failures_told() -> Iterator[None]:
    """End the command with a message for whatever an operator can get wrong."""
    from dragoman.accounts.store import StoreError
    from dragoman.config import SecretError
    from dragoman.operations.drafts import InvalidDraft
    from dragoman.operations.errors import Conflict, UnknownAccount

    try:
        yield
    except InvalidDraft as error:
        for fault in error.faults:
            click.echo(f"error: {fault.field}: {fault.message}", err=True)
        raise click.exceptions.Exit(1) from None
    except (Conflict, SecretError, StoreError, UnknownAccount) as error:
        raise click.ClickException(str(error)) from None


def progress(label: str, length: int, *, shown: bool = True) -> ProgressBar[int]:
    """How far something has come that takes long, for a person at a terminal: `update` moves it."""
    hidden = not (shown and sys.stderr.isatty())
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=hidden)


def print_json(value: object) -> None:
    """Print a value as one JSON document."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def time_span(since: str, until: str) -> tuple[float, float]:
    """The time that a command is asked for, in Unix seconds; what it cannot be ends the command."""
    from dragoman.operations.times import InvalidTime, parse_time

    now = time.time()
    try:
        begin, end = parse_time(since, now), now if until == "now" else parse_time(until, now)
    except InvalidTime as error:
        raise click.ClickException(str(error)) from None
    if begin > end:
        raise click.ClickException(f"{since} is after {until}")
    return begin, end


def tell(value: object, as_json: bool, text: str = "") -> None:
    """Tell what a command has done: as JSON, or in words, if there are any."""
    if as_json:
        print_json(value)
    elif text:
        click.echo(text)


@contextmanager
def faults_of_file_told(name: str, as_json: bool) -> Iterator[None]:
    """Tells what is wrong with a list of rows that was read from a file, as commands do."""
    from dragoman.operations.errors import ImportRejected
    from dragoman.operations.rows import BadFile

    try:
        yield
    except BadFile as error:
        raise click.ClickException(f"{name}: {error}") from None
    except ImportRejected as error:
        tell_bad(error.bad, name, as_json)
        raise click.ClickException(str(error)) from None


def file_name(file: BinaryIO) -> str:
    """What the file of a command is called where it is told of."""
    return "standard input" if file is sys.stdin.buffer else file.name


def tell_bad(bad: Iterable[BadRow], name: str, as_json: bool) -> None:
    """Tell of every fault of the bad rows of a file."""
    if as_json:
        print_json({"bad": list(bad)})
        return
    for row in bad:
        for fault in row.faults:
            field = ": ".join(part for part in (row.name, fault.field) if part)
            click.echo(f"error: {name}:{row.at}: {field}: {fault.message}", err=True)


_COLOURS = {"active": "green", "cooling": "yellow", "exhausted": "red", "disabled": "red"}
"""Colours of the words that say how an account is."""


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text, each as wide as it needs to be. Columns without any content are left out,
    but for the first. Colours are for terminals: `click.echo` takes them out elsewhere."""
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

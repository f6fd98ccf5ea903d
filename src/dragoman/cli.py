"""The `dragoman` command. Each subcommand imports what it runs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import dragoman

if TYPE_CHECKING:
    from dragoman.config import Loaded

_FILE = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dragoman.__version__, prog_name="dragoman")
def main() -> None:
    """Any LLM client, any LLM backend: Chat Completions, Messages and Responses on both sides."""


@main.command()
@click.argument("config", type=_FILE)
def check(config: Path) -> None:
    """Read CONFIG as `serve` would, and name the line and key of each fault.

    The exit status is 1 when the configuration cannot be used. Warnings do not change it.
    """
    loaded = _read_config(config)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning.located(str(config))}", err=True)
    counts = (
        _count(len(loaded.config.clients), "client"),
        _count(len(loaded.config.upstreams), "upstream"),
        _count(len(loaded.config.accounts), "account"),
        _count(len(loaded.config.routes), "route"),
    )
    click.echo(f"{config}: usable ({', '.join(counts)})")


def _read_config(path: Path) -> Loaded:
    """The configuration at `path`; a fault ends the command with every fault on stderr."""
    from dragoman.config import ConfigError, read_config

    try:
        return read_config(path)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"error: {problem.located(error.file)}", err=True)
        raise click.exceptions.Exit(1) from None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

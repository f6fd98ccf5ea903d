"""What several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dragoman.config import Config

FILE = click.Path(path_type=Path)


def read_config(path: Path) -> Config:
    """The configuration at `path`, its warnings told; a fault ends the command, all told."""
    from dragoman.config import ConfigError
    from dragoman.config import read_config as read

    try:
        loaded = read(path)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"error: {problem.located(error.file)}", err=True)
        raise click.exceptions.Exit(1) from None
    for warning in loaded.warnings:
        click.echo(f"warning: {warning.located(str(path))}", err=True)
    return loaded.config


def count(number: int, noun: str) -> str:
    """A number of things, in words that fit it."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

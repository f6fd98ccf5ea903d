"""`dragoman store`: care of the store's file."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.common import CONFIG, FILE, JSON, failures_told, print_json, read_config, tell


@click.group()
def store() -> None:
    """Check, copy and shrink the store, also while gateways use it."""


@store.command()
@CONFIG
@JSON
def check(config: Path, as_json: bool) -> None:
    """Read all of the store, and say whether it is whole.

    Nothing is changed. The status is 1 if something is wrong.
    """
    from dragoman.storage import sqlite_care

    path = _path(config)
    with failures_told():
        health = sqlite_care.check(path)
    if as_json:
        print_json(health)
    else:
        click.echo(
            f"{path}: {health.bytes} bytes, {health.unused} of them unused; "
            f"tables of version {health.tables} of {health.newest}"
        )
        for fault in health.faults:
            click.echo(f"error: {fault}", err=True)
    if health.faults:
        raise click.exceptions.Exit(1)


@store.command()
@click.argument("to", type=FILE)
@CONFIG
@JSON
def backup(to: Path, config: Path, as_json: bool) -> None:
    """Copy the store, as it is at one moment, to a new file.

    Secrets in it stay encrypted: keep the key of the store apart from it.
    """
    from dragoman.storage import sqlite_care

    with failures_told():
        size = sqlite_care.backup(_path(config), to)
    tell({"path": str(to), "bytes": size}, as_json, f"{to}: {size} bytes")


@store.command()
@CONFIG
@JSON
def vacuum(config: Path, as_json: bool) -> None:
    """Give what the store does not use back to the disk.

    Gateways cannot write to it meanwhile, and go on from memory.
    """
    from dragoman.storage import sqlite_care

    path = _path(config)
    with failures_told():
        before, after = sqlite_care.vacuum(path)
    told = {"path": path, "before": before, "after": after}
    tell(told, as_json, f"{path}: {before} bytes before, {after} after")


def _path(config: Path) -> str:
    path = read_config(config, serving=False).storage.path
    if not path:
        raise click.ClickException("storage.path is empty: nothing is kept")
    return path

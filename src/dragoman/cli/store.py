"""`dragoman store`: care of the store's file."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.common import (
    CONFIG,
    FILE,
    JSON,
    failures_reported,
    print_json,
    read_config,
    report,
)

if TYPE_CHECKING:
    from dragoman.storage.tables.database import Database

_LOCK_S = 10.0
_LONGEST_MOVE_S = 24 * 3600.0


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

    settings = read_config(config).storage
    path = settings.place
    with failures_reported():
        if settings.path or settings.url is None:
            health = sqlite_care.check(_path(config))
        else:
            from dragoman.storage.postgres import care

            health = care.check(settings.url.reveal())
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
@click.option(
    "--url",
    metavar="URL",
    help="A URL of PostgreSQL, or env:NAME of one. By default the store of the configuration.",
)
@CONFIG
@JSON
def prepare(url: str | None, config: Path, as_json: bool) -> None:
    """Make the tables of the store, or bring them up to date.

    A gateway does so when it starts; no other command does. A file is copied before. Gateways of an
    older version go on from memory afterwards.
    """
    if url is None:
        settings = read_config(config).storage
        found = None if settings.url is None else settings.url.reveal()
        place = settings.path or found or _path(config)
    else:
        place = _revealed(url)
    with failures_reported(), closing(_database(place)) as database:
        upgraded = database.upgrade()
        with database.reading() as connection:
            tables = connection.execute("SELECT max(number) FROM migrations").fetchone()[0]
    report({"tables": tables}, as_json, upgraded or f"tables of version {tables}")


@store.command()
@click.argument("to", type=FILE)
@CONFIG
@JSON
def backup(to: Path, config: Path, as_json: bool) -> None:
    """Copy the store, as it is at one moment, to a new file.

    Secrets in it stay encrypted: keep the key of the store apart from it.
    """
    from dragoman.storage import sqlite_care

    with failures_reported():
        size = sqlite_care.backup(_path(config), to)
    report({"path": str(to), "bytes": size}, as_json, f"{to}: {size} bytes")


@store.command()
@CONFIG
@JSON
def vacuum(config: Path, as_json: bool) -> None:
    """Give what the store does not use back to the disk.

    Gateways cannot write to it meanwhile, and go on from memory.
    """
    from dragoman.storage import sqlite_care

    path = _path(config)
    with failures_reported():
        before, after = sqlite_care.vacuum(path)
    shown = {"path": path, "before": before, "after": after}
    report(shown, as_json, f"{path}: {before} bytes before, {after} after")


@store.command()
@click.option(
    "--to",
    metavar="URL|FILE",
    help="Where to: a URL of PostgreSQL, env:NAME of one, or a SQLite file. "
    "By default storage.url, where there is a storage.path too.",
)
@CONFIG
@JSON
def migrate(to: str | None, config: Path, as_json: bool) -> None:
    """Copy all of the store into another database, which is to be empty.

    The store is not changed, and goes on being used until the configuration names the other. Stop
    the gateways first: what they write meanwhile is not copied.
    """
    from dragoman.storage.migration import move

    settings = read_config(config).storage
    url = None if settings.url is None else settings.url.reveal()
    if to is None and not settings.path:
        raise click.ClickException("storage.path is empty: say where to with --to")
    target = to or url
    if target is None:
        raise click.ClickException("there is no storage.url: say where to with --to")
    target = _revealed(target)
    so_far = 0

    def print_rows(rows: int) -> None:
        nonlocal so_far
        so_far += rows
        if sys.stderr.isatty():
            click.echo(f"\r{so_far} rows copied", nl=False, err=True)

    with (
        failures_reported(),
        closing(_database(settings.path or url or _path(config))) as source,
        closing(_database(target)) as other,
    ):
        copied = move(source, other, print_rows)
    if so_far and sys.stderr.isatty():
        click.echo(err=True)
    rows = [f"  {table}: {number}" for table, number in copied.items() if number]
    report({"copied": copied}, as_json, "\n".join([f"{sum(copied.values())} rows copied", *rows]))


def _revealed(place: str) -> str:
    """A place, or what is in the variable of the environment that it names."""
    if not place.startswith("env:"):
        return place
    name = place.removeprefix("env:")
    if name not in os.environ:
        raise click.ClickException(f"{name} is not set")
    return os.environ[name]


def _database(place: str) -> Database:
    from dragoman.config.checks import POSTGRESQL

    if place.startswith(POSTGRESQL):
        from dragoman.storage.postgres.database import PostgresDatabase

        return PostgresDatabase(place, longest_s=_LONGEST_MOVE_S)
    from dragoman.storage.sqlite_file import SqliteFile

    return SqliteFile(place, _LOCK_S)


def _path(config: Path) -> str:
    settings = read_config(config).storage
    path = settings.path
    if not path and settings.url is not None:
        raise click.ClickException(
            "the store is in PostgreSQL: pg_dump copies it, and it gives room back by itself"
        )
    if not path:
        raise click.ClickException("storage.path is empty: nothing is stored")
    return path

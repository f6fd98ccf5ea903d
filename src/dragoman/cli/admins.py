"""`dragoman admin`: who may administer a running gateway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.common import CONFIG, JSON, ago, key_store, print_json, read_config, table, tell

if TYPE_CHECKING:
    from dragoman.operations.admins import AdminAdministration, MadeAdmin

_ROLE = click.Choice(["viewer", "admin"])


@click.group()
def admin() -> None:
    """Make, list, rotate and remove keys of the administration.

    A viewer reads what /admin and the dashboard show, and changes nothing; an admin does
    everything. The key of [admin] in the configuration is an admin of the name admin.
    """


@contextmanager
def opened(path: Path) -> Iterator[AdminAdministration]:
    """The administration's own keys; what is wrong is told as commands do."""
    from dragoman.operations.admins import AdminAdministration

    with key_store(read_config(path, serving=False)) as store:
        yield AdminAdministration(store.admins)


@admin.command()
@CONFIG
@click.option("--role", type=_ROLE, default="viewer", show_default=True, help="What it may do.")
@click.option("--note", default="", help="Whose it is, or what for.")
@JSON
@click.argument("name")
def add(config: Path, role: str, note: str, as_json: bool, name: str) -> None:
    """Make a key and print it. It is shown this once, and can be replaced by `rotate`."""
    with opened(config) as administration:
        made = administration.add(name, {"role": role, "note": note})
    _print_made(made, as_json)


@admin.command()
@CONFIG
@JSON
@click.argument("name")
def rotate(config: Path, as_json: bool, name: str) -> None:
    """Give a key another secret, and print it. The old one ends at once."""
    with opened(config) as administration:
        made = administration.rotate(name)
    _print_made(made, as_json)


def _print_made(made: MadeAdmin, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    click.echo(made.secret)
    click.echo(f"{made.name}: it is shown this once", err=True)


@admin.command("list")
@CONFIG
@JSON
def list_admins(config: Path, as_json: bool) -> None:
    """List the keys, without that of the configuration file."""
    with opened(config) as administration:
        views = administration.admins()
    if as_json:
        print_json(views)
        return
    now = time.time()
    heading = ("NAME", "ROLE", "STATE", "KEY", "LAST USED", "NOTE")
    rows = [
        (
            view.name,
            view.role,
            "active" if view.enabled else "disabled",
            f"...{view.ending}",
            "" if view.used is None else ago(view.used.timestamp(), now),
            view.note,
        )
        for view in views
    ]
    click.echo(table(heading, rows))


@admin.command("set")
@CONFIG
@click.option("--role", type=_ROLE, help="What it may do.")
@click.option("--note", help="Whose it is, or what for.")
@JSON
@click.argument("name")
def set_admin(config: Path, role: str | None, note: str | None, as_json: bool, name: str) -> None:
    """Change the role or the note of the key NAME."""
    given = {"role": role, "note": note}
    with opened(config) as administration:
        fields = {field: value for field, value in given.items() if value}
        tell(administration.change(name, fields), as_json)


@admin.command()
@CONFIG
@JSON
@click.argument("name")
def disable(config: Path, as_json: bool, name: str) -> None:
    """Refuse a key until it is enabled. Its sessions end."""
    with opened(config) as administration:
        tell(administration.change(name, {"enabled": False}), as_json)


@admin.command()
@CONFIG
@JSON
@click.argument("name")
def enable(config: Path, as_json: bool, name: str) -> None:
    """Accept a key again."""
    with opened(config) as administration:
        tell(administration.change(name, {"enabled": True}), as_json)


@admin.command()
@CONFIG
@JSON
@click.argument("name")
def remove(config: Path, as_json: bool, name: str) -> None:
    """Remove a key for good. Its sessions end."""
    with opened(config) as administration:
        tell({"removed": administration.remove(name)}, as_json)

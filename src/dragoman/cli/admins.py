"""`dragoman admin`: who may administer a running gateway."""

from __future__ import annotations

import time
from operator import attrgetter

import click

from dragoman.cli.commands import Form, add_commands
from dragoman.cli.common import ago, print_secret, table
from dragoman.operations.admins import OPERATIONS, AdminList


@click.group()
def admin() -> None:
    """Make, list, rotate and remove keys of the administration.

    A viewer reads what /admin and the dashboard show, and changes nothing; an admin does
    everything. The key of [admin] in the configuration is an admin of the name admin.
    """


def _print_list(found: AdminList, _: object) -> None:
    now = time.time()
    rows = [
        (
            view.name,
            view.role,
            "active" if view.enabled else "disabled",
            f"...{view.ending}",
            "" if view.used is None else ago(view.used.timestamp(), now),
            view.note,
        )
        for view in found.admins
    ]
    click.echo(table(("NAME", "ROLE", "STATE", "KEY", "LAST USED", "NOTE"), rows))


_MADE = Form(lambda made, _: print_secret(made))

add_commands(
    admin,
    OPERATIONS,
    {
        "admins.list": Form(_print_list, attrgetter("admins")),
        "admins.add": _MADE,
        "admins.rotate": _MADE,
    },
)

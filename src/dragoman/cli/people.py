"""`dragoman people`: who has signed in with the company's account."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from dragoman.cli.commands import Form, add_commands
from dragoman.cli.common import ago, print_json, table
from dragoman.operations.people import OPERATIONS, PeopleList, SessionList
from dragoman.operations.rights import Rights

if TYPE_CHECKING:
    from dragoman.config.limits import Limit


@click.group()
def people() -> None:
    """List who has signed in, end sessions, and refuse people.

    People sign in with the company's account. Who may is decided by [[sign_in.rules]] of the
    configuration.
    """


def _print_people(found: PeopleList, _: object) -> None:
    rows = [
        (
            view.name,
            view.state,
            view.team or "",
            str(view.sessions),
            _ago(view.used),
            ", ".join(view.groups),
        )
        for view in found.people
    ]
    click.echo(table(("NAME", "STATE", "TEAM", "SESSIONS", "LAST USED", "GROUPS"), rows))


def _print_sessions(found: SessionList, _: object) -> None:
    rows = [
        (view.person, view.client, _ago(view.began), _ago(view.renewed), _ago(view.used), view.id)
        for view in found.sessions
    ]
    click.echo(table(("PERSON", "PROGRAM", "BEGAN", "RENEWED", "LAST USED", "ID"), rows))


def _print_rights(found: Rights, _: object) -> None:
    click.echo(f"{found.email}: {found.state}. {found.reason}".rstrip(". ") + ".")
    if found.rule is None:
        return
    lines = {
        "rule": str(found.rule),
        "team": found.team,
        "dashboard": found.role,
        "models": ", ".join(found.models) or "none by name",
        "limits": _limits(found.limits),
        "limits of the team": _limits(found.team_limits),
    }
    for name, text in lines.items():
        if text:
            click.echo(f"{name}: {text}")
    if found.managed_settings is not None:
        click.echo("managed settings:")
        print_json(found.managed_settings)


def _limits(limits: Iterable[Limit]) -> str:
    return "; ".join(f"{one.kind} {one.amount} {one.window or ''}".rstrip() for one in limits)


def _ago(at: datetime | None) -> str:
    return "" if at is None else ago(at.timestamp(), time.time())


add_commands(
    people,
    OPERATIONS,
    {
        "people.list": Form(_print_people, attrgetter("people")),
        "people.explain": Form(_print_rights),
        "people.sessions": Form(_print_sessions, attrgetter("sessions")),
    },
)

"""`dragoman audit`: who changed what."""

from __future__ import annotations

import time
from typing import Any

import click

from dragoman.audit import Line
from dragoman.cli.commands import Form, command_of
from dragoman.cli.common import table
from dragoman.operations.account_views import AuditPage
from dragoman.operations.usage import list_changes

_LONGEST = 100


def _print(page: AuditPage, _: object) -> None:
    heading = ("NUMBER", "TIME", "WHO", "FROM", "ACTION", "KIND", "NAME", "BEFORE", "AFTER")
    click.echo(table(heading, [_cells(line) for line in page.changes]))


def _cells(line: Line) -> tuple[str, ...]:
    return (
        str(line.id),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.at)),
        line.who,
        line.address or line.origin,
        line.action,
        line.kind,
        line.name,
        _fields(line.before),
        _fields(line.after),
    )


def _fields(fields: Any) -> str:
    text = ", ".join(f"{name}={value}" for name, value in (fields or {}).items())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


audit = command_of(list_changes, Form(_print))

"""`dragoman mcp`: the MCP servers that agents reach through the gateway."""

from __future__ import annotations

import time
from operator import attrgetter

import click

from dragoman.cli.commands import Form, add_commands
from dragoman.cli.common import ago, table
from dragoman.operations.mcp import OPERATIONS, McpServerList, McpServerView


@click.group()
def mcp() -> None:
    """List the MCP servers that agents reach through the gateway."""


def _print_servers(found: McpServerList, _: object) -> None:
    headings = ("NAME", "HOST", "AUTHORISED BY", "TOOLS", "CALLS", "ERRORS", "LAST ERROR")
    rows = [
        (
            view.name,
            view.host,
            view.authorised_by,
            _tools(view),
            str(view.calls),
            str(view.errors),
            _last_error(view),
        )
        for view in found.servers
    ]
    click.echo(table(headings, rows))


def _tools(view: McpServerView) -> str:
    every = "all" if view.tools is None else ", ".join(view.tools) or "none"
    teams = [f"{team}: {', '.join(tools) or 'none'}" for team, tools in view.teams.items()]
    return "; ".join([every, *teams])


def _last_error(view: McpServerView) -> str:
    if view.failed_at is None:
        return ""
    return f"{view.last_failed}: {view.last_error}, {ago(view.failed_at.timestamp(), time.time())}"


add_commands(mcp, OPERATIONS, {"mcp.list": Form(_print_servers, attrgetter("servers"))})

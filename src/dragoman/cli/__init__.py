"""The `dragoman` command. Each subcommand is imported when it is used."""

from __future__ import annotations

import atexit
import gc
import os
from importlib import import_module

import click

import dragoman

_COMMANDS = {
    "accounts": "accounts",
    "admin": "admins",
    "audit": "audit",
    "check": "check",
    "classify": "classify",
    "demo": "serve",
    "doctor": "doctor",
    "guide": "guide",
    "init": "init",
    "key": "keys",
    "limit": "limits",
    "mcp": "mcp",
    "openapi": "openapi",
    "people": "people",
    "prices": "prices",
    "reload": "reload",
    "requests": "requests",
    "serve": "serve",
    "simulate": "serve",
    "store": "store",
    "team": "keys",
    "translate": "translate",
    "usage": "usage",
}
"""The modules of the commands, by the names of these."""


class _Commands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"dragoman.cli.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dragoman.__version__, prog_name="dragoman")
@click.pass_context
def main(context: click.Context) -> None:
    """Any LLM client, any LLM backend: Chat Completions, Messages, Responses, generateContent."""
    # The end of the process frees all: without this all of it is searched for cycles first.
    atexit.register(gc.freeze)
    if os.environ.get("NO_COLOR"):
        context.color = False

"""The `dragoman` command. Each subcommand imports what it runs when it runs."""

from __future__ import annotations

import os

import click

import dragoman
from dragoman.cli.accounts import accounts
from dragoman.cli.admins import admin
from dragoman.cli.audit import audit
from dragoman.cli.check import check
from dragoman.cli.classify import classify
from dragoman.cli.doctor import doctor
from dragoman.cli.guide import guide
from dragoman.cli.init import init
from dragoman.cli.keys import key, team
from dragoman.cli.limits import limit
from dragoman.cli.prices import prices
from dragoman.cli.reload import reload
from dragoman.cli.serve import demo, serve, simulate
from dragoman.cli.store import store
from dragoman.cli.translate import translate
from dragoman.cli.usage import usage


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dragoman.__version__, prog_name="dragoman")
@click.pass_context
def main(context: click.Context) -> None:
    """Any LLM client, any LLM backend: Chat Completions, Messages and Responses on both sides."""
    if os.environ.get("NO_COLOR"):
        context.color = False


for command in (
    accounts,
    admin,
    audit,
    check,
    classify,
    demo,
    doctor,
    guide,
    init,
    key,
    limit,
    prices,
    reload,
    serve,
    simulate,
    store,
    team,
    translate,
    usage,
):
    main.add_command(command)

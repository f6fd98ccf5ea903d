"""`dragoman check`: whether a configuration can be used, and whether its keys are good."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.common import (
    CONFIG,
    FILE,
    JSON,
    config_faults_reported,
    failures_reported,
    load_config,
    print_json,
    progress,
    table,
)

if TYPE_CHECKING:
    from dragoman.config import Account, Config, ConfigError
    from dragoman.serving.limits.unpriced import UnpricedBudget
    from dragoman.serving.listing import Listing


@click.command()
@CONFIG
@click.option("--online", is_flag=True, help="Ask each upstream for its models with each key.")
@JSON
@click.argument("file", type=FILE, required=False)
def check(config: Path, online: bool, as_json: bool, file: Path | None) -> None:
    """Read a configuration, and name the line of each fault.

    It is read as `serve` would read it. FILE is the configuration, as is --config. The exit status
    is 1 when it cannot be used, or with --online when an account was refused or not answered.
    Warnings do not change it.
    """
    path = file or config

    def unusable(error: ConfigError) -> object:
        return {"file": str(path), "usable": False, "problems": error.problems}

    with config_faults_reported(unusable if as_json else None):
        loaded = load_config(path)
    from dragoman.config.summary import summary

    found = loaded.config
    for warning in loaded.warnings:
        click.echo(f"warning: {warning.located(str(path))}", err=True)
    unpriced = _unpriced(found)
    listed = _ask(found, as_json) if online else []
    missing = _unlisted(found, listed)
    if as_json:
        report = {"file": str(path), "usable": True, "summary": summary(found)}
        report |= {"warnings": loaded.warnings, "unpriced_budgets": unpriced}
        asked = {"accounts": listed, "unlisted": missing} if online else {}
        print_json(report | asked)
    else:
        for one in unpriced:
            click.echo(f"warning: {path}: {one}", err=True)
        for upstream, model in missing:
            click.echo(f"warning: {path}: {upstream} does not list the model {model}", err=True)
        click.echo(f"{path}: usable ({summary(found)})")
    if not all(one.passed for one in listed):
        raise click.exceptions.Exit(1)


def _unpriced(config: Config) -> list[UnpricedBudget]:
    """The budgets that refuse all requests for a model that a route names."""
    import time

    from dragoman.prices.loading import load_prices
    from dragoman.serving.limits.unpriced import owners_in, unpriced_budgets, unpriced_models

    if not any(one.kind == "cost" for owner in owners_in(config) for one in owner.limits):
        return []
    prices = load_prices(config)
    models = unpriced_models(config, prices, time.time())
    return list(unpriced_budgets(models, owners_in(config), prices))


def _ask(config: Config, as_json: bool) -> list[Listing]:
    """What each upstream lists for each account; a table is printed of it."""
    import asyncio

    from dragoman.serving.listing import listings

    accounts = _accounts(config)

    async def gather() -> list[Listing]:
        found: list[Listing] = []
        with progress("asking", len(accounts)) as bar:
            async for one in listings(config, accounts):
                found.append(one)
                bar.update(1)
        return found

    listed = {one.account: one for one in asyncio.run(gather())}
    found = [listed[account.name] for account in accounts]
    if not as_json:
        heading = ("ACCOUNT", "UPSTREAM", "STATUS", "MODELS", "MS", "PROBLEM")
        click.echo(table(heading, (_row(one) for one in found)))
    return found


def _row(one: Listing) -> Sequence[str]:
    status = str(one.status) if one.status else "-"
    return (
        one.account,
        one.upstream,
        status,
        str(len(one.models)) if not one.message else "",
        f"{one.milliseconds:.0f}",
        one.message,
    )


def _accounts(config: Config) -> list[Account]:
    """The accounts of the configuration, and those of the store if there is one already."""
    path = config.storage.path
    if not config.storage.place or (path and not os.path.exists(path)):
        return list(config.accounts)
    from dragoman.operations.context import open_store

    with failures_reported(), open_store(config) as context:
        queries = context.queries
        return [queries.account(view.name) for view in queries.page(with_usage=False).accounts]


def _unlisted(config: Config, listed: list[Listing]) -> list[tuple[str, str]]:
    if not listed:
        return []
    from dragoman.serving.listing import unlisted

    return unlisted(config, listed)

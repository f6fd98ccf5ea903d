"""`dragoman check`: whether a configuration can be used, and whether its keys are good."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    until,
)

if TYPE_CHECKING:
    from dragoman.config import Account, Config, ConfigError
    from dragoman.config.summary import StoredEntries
    from dragoman.operations.context import StoreContext
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
    Warnings do not change it. A Chat server without TLS, which is one of your own, is also sent two
    small requests for each model that a route names, else for the first that it lists: what its
    context window, late system text and effort words make worth setting is said.
    """
    path = file or config

    def unusable(error: ConfigError) -> object:
        return {"file": str(path), "usable": False, "problems": error.problems}

    with config_faults_reported(unusable if as_json else None):
        loaded = load_config(path)
    from dragoman.agents.models import UNKNOWN_WINDOW
    from dragoman.config.checks import NO_ACCOUNT
    from dragoman.config.credentials import source_of
    from dragoman.config.summary import summary

    found = loaded.config
    stored, without = _stored(found)
    # What the store has is known better here than to whoever reads the text alone.
    warnings = [one for one in loaded.warnings if stored is None or one.message != NO_ACCOUNT]
    for warning in warnings:
        click.echo(f"warning: {warning.located(str(path))}", err=True)
    for name in without:
        click.echo(
            f"warning: {path}: upstream {name} has no account, here or in the store", err=True
        )
    unpriced = _unpriced(found)
    listed = _ask(found, as_json) if online else []
    missing, windowless = _unlisted(found, listed)
    sources = {
        account.name: source_of(account.credentials)
        for account in found.accounts
        if account.credentials is not None
    }
    if as_json:
        report = {"file": str(path), "usable": True, "summary": summary(found, stored)}
        report |= {"warnings": warnings, "unpriced_budgets": unpriced, "no_account": without}
        report |= {"credentials": sources} if sources else {}
        asked = {"accounts": listed, "unlisted": missing, "unknown_windows": windowless}
        print_json(report | (asked if online else {}))
    else:
        for one in unpriced:
            click.echo(f"warning: {path}: {one}", err=True)
        for advice in dict.fromkeys((one.upstream, text) for one in listed for text in one.advice):
            click.echo(f"{path}: {advice[0]}: {advice[1]}", err=True)
        for upstream, model in missing:
            click.echo(f"warning: {path}: {upstream} does not list the model {model}", err=True)
        for upstream, model in windowless:
            text = f"{upstream} does not tell the context window of {model}: agents are told"
            text += f" {UNKNOWN_WINDOW} unless context_window in its capabilities says more or less"
            click.echo(f"warning: {path}: {text}", err=True)
        ends = {one.account: until(one.expires_at, time.time()) for one in listed}
        for name, source in sources.items():
            text = f"; ends {ends[name]}" if ends.get(name) else ""
            click.echo(f"{path}: account {name}: {source}{text}")
        click.echo(f"{path}: usable ({summary(found, stored)})")
    if not all(one.passed for one in listed):
        raise click.exceptions.Exit(1)


def _unpriced(config: Config) -> list[UnpricedBudget]:
    """The budgets that refuse all requests for a model that a route names."""
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

    async def gather(accounts: list[Account], context: StoreContext | None) -> list[Listing]:
        found: list[Listing] = []
        with progress("asking", len(accounts)) as bar:
            async for one in listings(config, accounts, context):
                found.append(one)
                bar.update(1)
        return found

    with _accounts(config) as (accounts, context):
        listed = {one.account: one for one in asyncio.run(gather(accounts, context))}
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


def _has_store(config: Config) -> bool:
    """Whether there is a store already."""
    path = config.storage.path
    return bool(config.storage.place) and (not path or os.path.exists(path))


def _stored(config: Config) -> tuple[StoredEntries | None, list[str]]:
    """How much the store has, None if it cannot be read, and the upstreams without any account."""
    from dragoman.accounts.store import StoreError
    from dragoman.config.summary import StoredEntries
    from dragoman.operations.context import open_store

    entries, served = StoredEntries(), {one.upstream for one in config.accounts}
    if _has_store(config):
        try:
            with open_store(config) as context:
                accounts = context.store.definitions()
                keys = context.store.client_keys.key_teams()
        except StoreError as error:
            click.echo(f"warning: the store cannot be read: {error}", err=True)
            return None, []
        entries = StoredEntries(len(accounts), len(keys))
        served |= {one.upstream for one in accounts}
    return entries, [one.name for one in config.upstreams if one.name not in served]


@contextmanager
def _accounts(config: Config) -> Iterator[tuple[list[Account], StoreContext | None]]:
    """The accounts of the configuration, and with the store those of it if there is one already."""
    if not _has_store(config):
        yield list(config.accounts), None
        return
    from dragoman.operations.context import open_store

    with failures_reported(), open_store(config) as context:
        queries = context.queries
        views = queries.page(with_usage=False).accounts
        yield [queries.account(view.name) for view in views], context


def _unlisted(
    config: Config, listed: list[Listing]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The models of routes that upstreams do not list, and those without a known window."""
    if not listed:
        return [], []
    from dragoman.serving.listing import unknown_windows, unlisted

    return unlisted(config, listed), unknown_windows(config, listed)

"""`dragoman accounts`: accounts from a terminal or a script.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second. Keys are never arguments: other processes can read those.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.commands import Form, Values, add_commands
from dragoman.cli.common import (
    CONFIG,
    JSON,
    ago,
    opened,
    print_bad_rows,
    print_json,
    progress,
    table,
    until,
)
from dragoman.operations.account_views import STATES
from dragoman.operations.accounts import OPERATIONS, ImportAccounts
from dragoman.printable import count

if TYPE_CHECKING:
    from dragoman.config import Secret
    from dragoman.operations.account_service import ImportResult
    from dragoman.operations.account_views import AccountDetails, AccountView, Page
    from dragoman.operations.context import StoreContext
    from dragoman.serving.probe import Finding

_FORMATS = ("csv", "json", "jsonl")
_MOST_QUOTAS = 4
"""Windows of a quota that a line of the list has room for."""

_UPSTREAM = click.option("--upstream", help="Only accounts of this upstream.")
_RESET = click.option(
    "--reset",
    multiple=True,
    type=click.Choice(("models", "max_concurrent", "balance", "proxy", "headers", "key")),
    help="Field to return to its default; repeatable.",
)
_WHERE = click.option(
    "--where",
    multiple=True,
    metavar="FIELD=VALUE",
    help="All accounts with this upstream or state, or this text in their why; repeatable.",
)
_NO_KEY = click.option("--no-key", is_flag=True, help="The upstream wants no key.")


@click.group()
def accounts() -> None:
    """List, add, change, import, test and remove accounts.

    Accounts of the configuration file are listed, tested, disabled and enabled here, and changed
    there.
    """


@accounts.command()
@CONFIG
@_UPSTREAM
@click.option("--format", "kind", type=click.Choice(_FORMATS), default="csv", show_default=True)
def export(config: Path, upstream: str | None, kind: str) -> None:
    """Print the accounts of the store as a list.

    `import --replace` reads it. Keys, headers and proxies are not in it.
    """
    from dragoman.operations.account_lists import written

    with opened(config) as context:
        page = context.queries.page(upstream=upstream, with_usage=False)
    for piece in written((view for view in page.accounts if view.origin == "store"), kind):
        click.echo(piece, nl=False)


@accounts.command()
@CONFIG
@click.option("--all", "every", is_flag=True, help="Test every account that the filters leave.")
@_UPSTREAM
@click.option("--state", type=click.Choice(STATES), help="Only accounts in this state.")
@click.option("--model", help="Model to ask for, by the upstream's name of it.")
@JSON
@click.argument("names", nargs=-1, metavar="NAME...")
def test(
    config: Path,
    every: bool,
    upstream: str | None,
    state: str | None,
    model: str | None,
    as_json: bool,
    names: tuple[str, ...],
) -> None:
    """Ask accounts for a short answer.

    The outcome counts as that of any other request: an account that answers is used again. The exit
    status is 1 if one does not. Without --model it is one that the configuration names for the
    account, else one that its upstream lists.
    """
    if bool(names) == every:
        raise click.UsageError("name accounts, or give --all")
    from dragoman.serving.probe import probe_all

    with opened(config) as context:
        page = context.queries.page(upstream=upstream, state=state, with_usage=False)
        chosen = names or tuple(view.name for view in page.accounts)
        findings: list[Finding] = []
        # Where the lines themselves are not seen as they come.
        with progress("testing", len(chosen), shown=as_json or not sys.stdout.isatty()) as bar:
            for finding in probe_all(context, chosen, model):
                findings.append(finding)
                bar.update(1)
                if not as_json:
                    click.echo(_result(finding))
    passed = sum(finding.passed for finding in findings)
    if len(findings) > 1:
        counts = f"{passed} answered, {len(findings) - passed} did not"
        click.echo(f"{count(len(findings), 'account')}: {counts}", err=True)
    if as_json:
        print_json({"accounts": findings})
    if passed < len(findings):
        raise click.exceptions.Exit(1)


def _result(finding: Finding) -> str:
    name = f"{finding.account}: {finding.model}: "
    if finding.passed:
        return f"{name}answered in {finding.milliseconds:.0f} ms; {finding.account_is}"
    status = f"status {finding.status}" if finding.status else "no answer"
    why = f"; {finding.why}" if finding.why else ""
    return f"{name}{status}: {finding.message}{why}; {finding.account_is}"


# What the other commands print


_COLUMNS: tuple[tuple[str, Callable[[AccountView, float], str]], ...] = (
    ("NAME", lambda view, now: view.name),
    ("UPSTREAM", lambda view, now: view.upstream),
    ("STATE", lambda view, now: view.state + (" (trial)" if view.trial else "")),
    ("BACK", lambda view, now: until(view.back_at, now)),
    ("IN FLIGHT", lambda view, now: str(view.in_flight)),
    ("LAST USED", lambda view, now: ago(view.last_used, now)),
    ("PRIO", lambda view, now: str(view.priority)),
    ("WEIGHT", lambda view, now: f"{view.weight:g}"),
    ("BALANCE", lambda view, now: "" if view.balance is None else f"{view.balance:.0f}"),
    ("REQ 24H", lambda view, now: str(view.requests)),
    ("ERR 24H", lambda view, now: str(view.errors)),
    ("LAST ERROR", lambda view, now: _last_error(view, now)),
    ("QUOTA USED", lambda view, now: ", ".join(_quota_shares(view, now)[:_MOST_QUOTAS])),
    ("WHY", lambda view, now: "; ".join(_why(view, now))),
)
"""The columns of the list."""


def _print_list(page: Page, _: object) -> None:
    now = time.time()
    rows = [[cell(view, now) for _, cell in _COLUMNS] for view in page.accounts]
    click.echo(table([heading for heading, _ in _COLUMNS], rows))
    states = [view.state for view in page.accounts]
    counts = ", ".join(f"{states.count(name)} {name}" for name in STATES if name in states)
    click.echo(f"{count(page.total, 'account')}{': ' if counts else ''}{counts}", err=True)


def _quota_shares(view: AccountView, now: float) -> list[str]:
    return [share for share, _ in _quotas(view, now)]


def _print_details(found: AccountDetails, _: object) -> None:
    now, view = time.time(), found.account
    facts = [
        ("name", view.name),
        ("upstream", view.upstream),
        ("kept in", view.origin),
        ("has", ", ".join(filter(None, (*view.secrets, view.credentials))) or "no key"),
        ("models", "all" if view.models is None else ", ".join(view.models)),
        ("priority", str(view.priority)),
        ("weight", f"{view.weight:g}"),
        ("at once", "any number" if view.max_concurrent is None else str(view.max_concurrent)),
        ("balance", "not kept" if view.balance is None else f"{view.balance:.0f}"),
        ("state", view.state + (" (on trial)" if view.trial else "")),
        ("why", "; ".join(_why(view, now))),
        ("back", until(view.back_at, now)),
        ("in flight", str(view.in_flight)),
        ("last used", ago(view.last_used, now)),
        ("last 24 hours", _last_day(view)),
        ("last error", _last_error(view, now)),
        ("quota used", "; ".join(quota + back for quota, back in _quotas(view, now)) or "unknown"),
    ]
    width = max(len(label) for label, _ in facts)
    for label, value in facts:
        if value:
            click.echo(f"{label:<{width}}  {value}")
    if found.history:
        heading = ("WHEN", "CHANGE", "BY", "STATUS", "MODEL", "UNTIL", "WHY")
        rows = (
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at)),
                entry.change,
                entry.source,
                str(entry.status or ""),
                entry.model,
                until(entry.until, entry.at),
                entry.why,
            )
            for entry in found.history
        )
        click.echo(f"\n{table(heading, rows)}")


def _last_day(view: AccountView) -> str:
    asked = f"asked {count(view.requests, 'time')}, {count(view.errors, 'error')}"
    kinds = ", ".join(f"{kind}: {number}" for kind, number in view.errors_by_kind.items())
    again = f", {count(view.retries, 'further attempt')} caused" if view.retries else ""
    return asked + (f" ({kinds})" if kinds else "") + again


def _quotas(view: AccountView, now: float) -> list[tuple[str, str]]:
    """Each window of the quota with the share that is used, and when it is whole again."""
    windows = []
    for quota in view.quotas:
        model = f" of {quota.model}" if quota.model else ""
        used = "unknown" if quota.used is None else f"{quota.used:.0%}"
        known = quota.used is not None and quota.resets_at is not None
        back = f" (resets {until(quota.resets_at, now)})" if known else ""
        windows.append((f"{quota.name}{model} {used}", back))
    return windows


def _last_error(view: AccountView, now: float) -> str:
    error = view.last_error
    if error is None:
        return ""
    status = f" ({error.status})" if error.status else ""
    return f"{error.kind}{status}, {ago(error.at, now)}"


def _why(view: AccountView, now: float) -> Iterator[str]:
    if view.problem:
        yield view.problem
    for reason in view.reasons:
        model = f" for {reason.model}" if reason.model else ""
        soft = ", used last" if reason.soft else ""
        back = until(reason.until, now)
        yield f"{reason.why}{model}{soft}" + (f" ({back})" if model and back else "")


def _print_import(done: ImportResult, asked: ImportAccounts) -> None:
    print_bad_rows(done.bad, asked.file.name)
    for one, other in done.same_keys:
        click.echo(f"warning: {other} has the same key as {one}", err=True)
    parts = [f"{done.added} added", f"{done.replaced} changed"]
    if done.bad:
        parts.append(f"{count(len(done.bad), 'bad row')} left out")
    click.echo(f"{count(done.rows, 'row')}: {', '.join(parts)}")


# What their options mean


def _new(values: Values, config: Path, _: StoreContext) -> Values:
    if not values.pop("no_key", False):
        values["key"] = _read_key(values.get("key", "?"), config.parent)
    return _fields(values)


def _changed(values: Values, config: Path, _: StoreContext) -> Values:
    reset: Sequence[str] = values.pop("reset", ())
    if "key" in values:
        values["key"] = _read_key(values["key"], config.parent)
    return _fields(values) | dict.fromkeys(reset)


def _fields(values: Values) -> Values:
    if "headers" in values:
        pairs = [text.partition("=") for text in values["headers"]]
        values["headers"] = {name: value for name, _, value in pairs}
    proxy = values.get("proxy", "")
    if "@" in proxy and not proxy.startswith(("env:", "file:")):
        raise click.UsageError("--proxy: a URL with a password must be given as env: or file:")
    return values


def _read_key(source: str, directory: Path) -> Secret:
    """The key that `source` leads to: a reference, `-` for standard input, `?` to ask."""
    from dragoman.config.secret import SecretError, resolve_secret

    if source == "?" and sys.stdin.isatty():
        value = click.prompt("Key", hide_input=True)
    elif source in ("-", "?"):
        value = sys.stdin.readline().strip()
    elif source.startswith(("env:", "file:")):
        value = source
    else:
        raise click.UsageError(
            "--key: a key in the arguments can be read by other processes: give env:NAME, "
            "file:PATH, or - for standard input"
        )
    try:
        return resolve_secret(value, environ=os.environ, directory=directory)
    except SecretError as error:
        raise click.ClickException(f"key: {error}") from None


def _found(values: Values, _: Path, context: StoreContext) -> Values:
    """The accounts that were named, or else those that all conditions of `--where` fit."""
    given = values.pop("where", ())
    if bool(given) == bool(values.get("names")):
        raise click.UsageError("name accounts, or give --where")
    if not given:
        return values
    wanted = {field: text for field, _, text in (one.partition("=") for one in given)}
    if not wanted.keys() <= {"upstream", "state", "why"}:
        raise click.UsageError("--where: expected upstream=NAME, state=STATE or why=TEXT")
    if wanted.get("state", STATES[0]) not in STATES:
        raise click.UsageError(f"--where: a state is one of {', '.join(STATES)}")
    page = context.queries.page(
        upstream=wanted.get("upstream"), state=wanted.get("state"), with_usage=False
    )
    why = wanted.get("why", "").lower()
    names = [
        view.name
        for view in page.accounts
        if not why or any(why in one.why.lower() for one in view.reasons)
    ]
    if not names:
        raise click.ClickException("no account fits --where")
    return values | {"names": names}


def _number(verb: str) -> Form:
    """The form of a command that reports how many accounts it changed."""

    def text(views: Iterable[AccountView], _: object) -> None:
        click.echo(f"{verb} {count(len(tuple(views)), 'account')}")

    return Form(text, lambda views: {verb: len(views)}, options=(_WHERE,), read=_found, finds=True)


add_commands(
    accounts,
    OPERATIONS,
    {
        "accounts.list": Form(_print_list),
        "accounts.show": Form(_print_details),
        "accounts.add": Form(
            lambda view, _: click.echo(f"added {view.name}"), options=(_NO_KEY,), read=_new
        ),
        "accounts.change": Form(
            lambda view, _: click.echo(f"changed {view.name}"), options=(_RESET,), read=_changed
        ),
        "accounts.import": Form(_print_import, failed=lambda done: bool(done.bad)),
        "accounts.enable": _number("enabled"),
        "accounts.disable": _number("disabled"),
        "accounts.remove": Form(
            lambda done, _: click.echo(f"removed {count(done.removed, 'account')}")
        ),
    },
)

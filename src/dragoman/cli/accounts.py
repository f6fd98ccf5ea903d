"""`dragoman accounts`: what an operator does with accounts from a terminal or a script.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second. Keys are never arguments: other processes can read those.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from dragoman.cli.common import (
    CONFIG,
    JSON,
    ago,
    failures_told,
    faults_of_file_told,
    file_name,
    print_json,
    progress,
    read_config,
    table,
    tell,
    tell_bad,
    until,
)
from dragoman.printable import count

if TYPE_CHECKING:
    from dragoman.config import Secret
    from dragoman.operations.drafts import Draft
    from dragoman.operations.rows import BadRow, Row
    from dragoman.operations.service import Administration, ImportResult, Progress
    from dragoman.operations.views import AccountView
    from dragoman.serving.probe import Finding

STATES = ("active", "cooling", "exhausted", "disabled")
FORMATS = ("csv", "json", "jsonl")

_UPSTREAM = click.option("--upstream", help="Only accounts of this upstream.")
_STATE = click.option("--state", type=click.Choice(STATES), help="Only accounts in this state.")
_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group()
def accounts() -> None:
    """List, add, change, import, test and remove accounts.

    Accounts of the configuration file are listed, tested, disabled and enabled here, and changed
    there.
    """


@contextmanager
def opened(path: Path) -> Iterator[Administration]:
    """The administration of the configuration at `path`; what cannot be done ends the command."""
    config = read_config(path, serving=False)
    from dragoman.operations.opening import open_administration

    with failures_told(), open_administration(config) as found:
        yield found


@accounts.command("list")
@CONFIG
@_UPSTREAM
@_STATE
@JSON
def list_(config: Path, upstream: str | None, state: str | None, as_json: bool) -> None:
    """List accounts with their states.

    It is said when those that are out come back, why they are out, and what they did.
    """
    with opened(config) as administration:
        page = administration.page(upstream=upstream, state=state)
    if as_json:
        print_json(page)
        return
    now = time.time()
    click.echo(table(_HEADING, (_line(view, now) for view in page.accounts)))
    states = [view.state for view in page.accounts]
    counts = ", ".join(f"{states.count(name)} {name}" for name in STATES if name in states)
    click.echo(f"{count(page.total, 'account')}{': ' if counts else ''}{counts}", err=True)


_HEADING = (
    "NAME",
    "UPSTREAM",
    "STATE",
    "BACK",
    "IN FLIGHT",
    "LAST USED",
    "PRIO",
    "WEIGHT",
    "BALANCE",
    "REQ 24H",
    "ERR 24H",
    "LAST ERROR",
    "QUOTA USED",
    "WHY",
)


def _line(view: AccountView, now: float) -> tuple[str, ...]:
    return (
        view.name,
        view.upstream,
        view.state + (" (trial)" if view.trial else ""),
        until(view.back_at, now),
        str(view.in_flight),
        ago(view.last_used, now),
        str(view.priority),
        f"{view.weight:g}",
        "" if view.balance is None else f"{view.balance:.0f}",
        str(view.requests),
        str(view.errors),
        _last_error(view, now),
        ", ".join(quota for quota, _ in _quotas(view, now)[:_MOST_QUOTAS]),
        "; ".join(_why(view, now)),
    )


def _last_day(view: AccountView) -> str:
    told = f"asked {count(view.requests, 'time')}, {count(view.errors, 'error')}"
    kinds = ", ".join(f"{kind}: {number}" for kind, number in view.errors_by_kind.items())
    again = f", {count(view.retries, 'further attempt')} caused" if view.retries else ""
    return told + (f" ({kinds})" if kinds else "") + again


_MOST_QUOTAS = 4
"""Windows of a quota that a line of the list has room for."""


def _quotas(view: AccountView, now: float) -> list[tuple[str, str]]:
    """Each window of the quota with the share that is used, and when it is whole again."""
    told = []
    for quota in view.quotas:
        model = f" of {quota.model}" if quota.model else ""
        used = "unknown" if quota.used is None else f"{quota.used:.0%}"
        known = quota.used is not None and quota.resets_at is not None
        back = f" (resets {until(quota.resets_at, now)})" if known else ""
        told.append((f"{quota.name}{model} {used}", back))
    return told


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


@accounts.command()
@CONFIG
@click.option("--history", default=20, show_default=True, help="Changes of state to show.")
@JSON
@click.argument("name")
def show(config: Path, history: int, as_json: bool, name: str) -> None:
    """Show one account and what led to its state."""
    with opened(config) as administration:
        found = administration.show(name, history)
    if as_json:
        print_json(found)
        return
    now = time.time()
    view = found.account
    facts = [
        ("name", view.name),
        ("upstream", view.upstream),
        ("kept in", view.origin),
        ("has", ", ".join(view.secrets) or "no key"),
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
        click.echo()
        click.echo(
            table(
                ("WHEN", "CHANGE", "BY", "STATUS", "MODEL", "UNTIL", "WHY"),
                (
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
                ),
            )
        )


_SETTINGS = (
    click.option("--upstream", help="Name of its upstream."),
    click.option("--model", "models", multiple=True, help="Model it serves; repeatable."),
    click.option("--priority", type=int, help="Lower ones are used first."),
    click.option("--weight", type=float, help='Share, with selection = "weighted".'),
    click.option("--max-concurrent", type=int, help="Requests at once, over all workers."),
    click.option("--balance", type=float, help="Tokens left."),
    click.option("--proxy", metavar="URL", help="Proxy; with a password only as env: or file:."),
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="NAME=VALUE",
        help="Header to send; secrets only as env: or file:; repeatable.",
    ),
    click.option(
        "--key",
        metavar="env:NAME|file:PATH|-",
        help="Where to read the key; - is standard input. It is stored, not the reference.",
    ),
)


def _settings(command: Any) -> Any:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@accounts.command()
@CONFIG
@_settings
@click.option("--no-key", is_flag=True, help="The upstream wants no key.")
@JSON
@click.argument("name")
def add(config: Path, no_key: bool, as_json: bool, **given: Any) -> None:
    """Add an account. Without --key its key is asked for, or read from standard input."""
    key = given.pop("key")
    if not no_key:
        given["key"] = _read_key(key or "?", Path(config).parent)
    with opened(config) as administration:
        view = administration.add(_draft(given, config))
    _told(view, f"added {view.name}", as_json)


@accounts.command("set")
@CONFIG
@_settings
@click.option(
    "--reset",
    multiple=True,
    type=click.Choice(("models", "max_concurrent", "balance", "proxy", "headers", "key")),
    help="Field to return to its default; repeatable.",
)
@JSON
@click.argument("name")
def set_(config: Path, reset: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Change an account. What is not given stays. A new key brings back an account whose old one
    was refused."""
    key = given.pop("key")
    if key is not None:
        given["key"] = _read_key(key, Path(config).parent)
    with opened(config) as administration:
        view = administration.change(_draft(given, config, reset))
    _told(view, f"changed {view.name}", as_json)


@accounts.command("import")
@CONFIG
@click.option("--format", "kind", type=click.Choice(FORMATS), help="By default told from FILE.")
@click.option("--replace", is_flag=True, help="Change accounts that are there already.")
@click.option("--skip-bad", is_flag=True, help="Import the good rows of a list with bad ones.")
@JSON
@click.argument("file", type=click.File("rb"))
def import_(
    config: Path, kind: str | None, replace: bool, skip_bad: bool, as_json: bool, file: BinaryIO
) -> None:
    """Add the accounts of a file.

    FILE is - for standard input. All of them are added, or none if a row is bad.

    CSV whose first line names the columns, a JSON list of objects, or JSON lines; columns and
    members are the fields of [[accounts]]. Keys are given in full or as env:NAME or file:PATH.
    Each bad row is named with its line and field, and then the exit status is 1.
    """
    from dragoman.operations.rows import rows_of

    name = file_name(file)
    with opened(config) as administration, faults_of_file_told(name, as_json):
        rows = rows_of(file, _resolver(config), kind=kind, name=name)
        done = administration.import_rows(
            _ending_line(rows), replace=replace, skip_bad=skip_bad, progress=_progress
        )
    if as_json:
        print_json(done)
    else:
        tell_bad(done.bad, name, as_json)
        for one, other in done.same_keys:
            click.echo(f"warning: {other} has the same key as {one}", err=True)
        click.echo(_summary(done))
    if done.bad:
        raise click.exceptions.Exit(1)


def _summary(done: ImportResult) -> str:
    parts = [f"{done.added} added", f"{done.replaced} changed"]
    if done.bad:
        parts.append(f"{count(len(done.bad), 'bad row')} left out")
    return f"{count(done.rows, 'row')}: {', '.join(parts)}"


def _progress(progress: Progress) -> None:
    if sys.stderr.isatty():
        bad = f", {progress.bad} bad" if progress.bad else ""
        click.echo(f"\r{progress.rows} rows read{bad} ", nl=False, err=True)


def _ending_line(rows: Iterable[Row | BadRow]) -> Iterator[Row | BadRow]:
    try:
        yield from rows
    finally:
        if sys.stderr.isatty():
            click.echo(err=True)


@accounts.command()
@CONFIG
@_UPSTREAM
@click.option("--format", "kind", type=click.Choice(FORMATS), default="csv", show_default=True)
def export(config: Path, upstream: str | None, kind: str) -> None:
    """Print the accounts of the store as a list.

    `import --replace` reads it. Keys, headers and proxies are not in it.
    """
    from dragoman.operations.rows import written

    with opened(config) as administration:
        page = administration.page(upstream=upstream, with_usage=False)
    for piece in written((view for view in page.accounts if view.origin == "store"), kind):
        click.echo(piece, nl=False)


@accounts.command()
@CONFIG
@click.option("--reason", default="", help="Why; it is shown wherever the account is.")
@JSON
@_NAMES
def disable(config: Path, reason: str, as_json: bool, names: tuple[str, ...]) -> None:
    """Take accounts out until somebody enables them. Requests in flight end as usual."""
    with opened(config) as administration:
        administration.disable(names, reason)
    tell({"disabled": len(names)}, as_json, f"disabled {count(len(names), 'account')}")


@accounts.command()
@CONFIG
@JSON
@_NAMES
def enable(config: Path, as_json: bool, names: tuple[str, ...]) -> None:
    """Forget what is held against accounts.

    They are used again at once.
    """
    with opened(config) as administration:
        administration.enable(names)
    tell({"enabled": len(names)}, as_json, f"enabled {count(len(names), 'account')}")


@accounts.command()
@CONFIG
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
@_NAMES
def remove(config: Path, yes: bool, as_json: bool, names: tuple[str, ...]) -> None:
    """Remove accounts from the store, with their history. Their usage stays."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"Remove {count(len(names), 'account')}?", abort=True)
    with opened(config) as administration:
        removed = administration.remove(names)
    tell({"removed": removed}, as_json, f"removed {count(removed, 'account')}")


@accounts.command()
@CONFIG
@click.option("--all", "every", is_flag=True, help="Test every account that the filters leave.")
@_UPSTREAM
@_STATE
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

    What comes back counts as that of any other request: an account that answers is used again. The
    exit status is 1 if one does not.
    """
    if bool(names) == every:
        raise click.UsageError("name accounts, or give --all")
    settings = read_config(config, serving=False)
    from dragoman.operations.opening import open_administration
    from dragoman.serving.probe import probe_all

    with failures_told(), open_administration(settings) as found:
        chosen = names or tuple(
            view.name
            for view in found.page(upstream=upstream, state=state, with_usage=False).accounts
        )
        findings: list[Finding] = []
        # Where the lines themselves are not seen as they come.
        with progress("testing", len(chosen), shown=as_json or not sys.stdout.isatty()) as bar:
            for finding in probe_all(settings, found, chosen, model):
                findings.append(finding)
                bar.update(1)
                if not as_json:
                    click.echo(_result(finding))
    if len(findings) > 1:
        passed = sum(finding.passed for finding in findings)
        told = f"{count(len(findings), 'account')}: {passed} answered"
        click.echo(f"{told}, {len(findings) - passed} did not", err=True)
    if as_json:
        print_json({"accounts": findings})
    if not all(finding.passed for finding in findings):
        raise click.exceptions.Exit(1)


def _result(finding: Finding) -> str:
    told = f"{finding.account}: {finding.model}: "
    if finding.passed:
        return f"{told}answered in {finding.milliseconds:.0f} ms; {finding.account_is}"
    status = f"status {finding.status}" if finding.status else "no answer"
    why = f"; {finding.why}" if finding.why else ""
    return f"{told}{status}: {finding.told}{why}; {finding.account_is}"


def _told(view: AccountView, done: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        click.echo(done)


def _draft(given: dict[str, Any], config: Path, reset: Iterable[str] = ()) -> Draft:
    from dragoman.config import Secret
    from dragoman.operations.drafts import FIELDS, read_draft

    values = {name: value for name, value in given.items() if value not in (None, ())}
    if "models" in values:
        values["models"] = list(values["models"])
    if "headers" in values:
        pairs = [text.partition("=") for text in values["headers"]]
        values["headers"] = {name: value for name, _, value in pairs}
    proxy = values.get("proxy", "")
    if "@" in proxy and not proxy.startswith(("env:", "file:")):
        raise click.UsageError("--proxy: a URL with a password must be given as env: or file:")
    key = values.pop("key", None)
    values |= dict.fromkeys(reset)
    made = read_draft({name: values[name] for name in FIELDS if name in values}, _resolver(config))
    if isinstance(key, Secret):
        from msgspec.structs import replace

        made = replace(made, fields={**made.fields, "key": key})
    return made


def _resolver(config: Path) -> Any:
    import os

    from dragoman.config.secret import resolve_secret

    def resolve(reference: str) -> Secret:
        return resolve_secret(reference, environ=os.environ, directory=config.parent)

    return resolve


def _read_key(source: str, directory: Path) -> Secret:
    """The key that `source` leads to: a reference, `-` for standard input, `?` to ask."""
    import os

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

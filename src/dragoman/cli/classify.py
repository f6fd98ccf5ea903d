"""`dragoman classify`: the effect of an upstream's error on a request and an account."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from dragoman.cli.common import CONFIG, JSON, print_json, read_config

ACCOUNT_RULES = ("default", "sop", "none")


@click.command()
@click.option(
    "--status",
    type=click.IntRange(0, 999),
    required=True,
    help="HTTP status of the answer; 0 for no answer at all.",
)
@click.option("--body", default="", help="Body of the answer.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header of the answer; may be given again.",
)
@click.option(
    "--rules", "name", type=click.Choice(ACCOUNT_RULES), help="Table of rules.  [default: default]"
)
@CONFIG
@click.option(
    "--upstream",
    help="Upstream of the configuration, whose rules of its own come before the table.",
)
@JSON
def classify(
    status: int,
    body: str,
    headers: tuple[str, ...],
    name: str | None,
    config: Path,
    upstream: str | None,
    as_json: bool,
) -> None:
    """Show which rule matches an upstream's error, and its effect.

    The account is one of which nothing is known yet; how long it rests varies by a quarter where
    the upstream does not say.
    """
    import time

    from dragoman.accounts.decide.explain import explain, span
    from dragoman.accounts.decide.rules import RULE_SETS
    from dragoman.accounts.decide.symptoms import UNREACHABLE, symptom_of_answer
    from dragoman.failing import Rule
    from dragoman.protocols.error_body import read_error_body

    own: tuple[Rule, ...] = ()
    table = name or "default"
    if upstream is not None:
        try:
            chosen = read_config(config).upstream(upstream)
        except KeyError:
            raise click.UsageError(f"{config} has no upstream {upstream}.") from None
        own, table = chosen.rules, name or chosen.account_rules
    symptom = UNREACHABLE
    if status:
        report = read_error_body(body.encode()).report
        symptom = symptom_of_answer(status, _read(headers), report, time.time())
    found = explain(symptom, own + RULE_SETS[table].rules, model="any")
    is_own = found.row <= len(own)
    place = f"the rules of {upstream}" if is_own else table
    row = found.row if is_own else found.row - len(own)
    if as_json:
        rule = found.rule
        fitted = None
        if rule is not None:
            fitted = {"table": place, "row": row, "verdict": rule.verdict, "why": rule.why}
        shown = {
            "rule": fitted,
            "words": sorted(symptom.words),
            "retry_after_s": symptom.retry_after,
            "request": found.request,
            "account": found.account,
        }
        print_json(shown)
        return
    if found.rule is None:
        click.echo(f"no row of {table} fits")
    else:
        click.echo(f'row {row} of {place}: {found.rule.verdict}, "{found.rule.why}"')
    if symptom.words:
        click.echo(f"words: {', '.join(sorted(symptom.words))}")
    if symptom.retry_after is not None:
        click.echo(f"the upstream asks for: {span(symptom.retry_after)}")
    click.echo(f"request: {found.request}")
    click.echo(f"account: {found.account}")


def _read(headers: Iterable[str]) -> dict[str, str]:
    read = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{header!r} is not 'NAME: VALUE'.", param_hint="--header")
        read[name.strip().lower()] = value.strip()
    return read

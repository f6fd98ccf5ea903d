"""`dragoman prices`: what models cost, a newer table of it, and pricing again what was counted."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.commands import Form, add_commands
from dragoman.cli.common import (
    CONFIG,
    FILE,
    JSON,
    failures_reported,
    print_json,
    read_config,
    report,
    table,
)
from dragoman.operations.usage import OPERATIONS
from dragoman.printable import count

if TYPE_CHECKING:
    from dragoman.lab.prices.making import Made, Text
    from dragoman.operations.pricing import Repriced
    from dragoman.operations.usage import Reprice

GENAI = (
    "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main"
    "/prices/new_data/v2/data.json"
)
LITELLM = (
    "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
)

_MOST_BYTES = 64 * 1024 * 1024
_TIMEOUT_S = 30.0
_SHOWN = 40


@click.group()
def prices() -> None:
    """Show what models cost, and price again what was counted."""


@prices.command()
@CONFIG
@click.option("--provider", help="Show this provider's list rather than those of the upstreams.")
@JSON
@click.argument("model", required=False)
def show(config: Path, provider: str | None, as_json: bool, model: str | None) -> None:
    """Show what a model costs at each upstream.

    Prices are in US dollars for a million tokens. Without MODEL: where the prices come from, and
    whose list applies to each upstream. With --provider no configuration is needed: the table is
    then the one that is shipped.
    """
    import msgspec

    from dragoman.operations.pricing import price_views
    from dragoman.prices.loading import load_prices, load_table, provider_of
    from dragoman.prices.lookup import PriceList

    with failures_reported():
        if provider is not None:
            own = read_config(config).pricing.table if config.exists() else None
            used, found = load_table(own), None
            names = used.lists_for(provider)
            lists = [[one for one in used.models if one.provider == name] for name in names]
            places = {provider: PriceList((), lists)}
        else:
            settings = read_config(config)
            used, found = load_table(settings.pricing.table), settings
            places = dict(load_prices(settings).lists)
    if model is None:
        whose = {
            upstream.name: provider_of(upstream, used)
            for upstream in (found.upstreams if found else ())
        }
        if as_json:
            print_json(
                {
                    "version": used.version,
                    "sources": used.sources,
                    "upstreams": whose,
                    "providers": [one.name for one in used.providers],
                }
            )
            return
        click.echo(f"version {used.version}: {count(len(used.models), 'model')}")
        for source in used.sources:
            click.echo(f"from {source.name}: {source.address} (SHA-256 {source.sha256[:16]})")
        for upstream, name in whose.items():
            click.echo(f"{upstream}: {name or 'no list applies; its answers are unpriced'}")
        click.echo(f"providers: {', '.join(one.name for one in used.providers)}")
        return
    rows = {place: list(price_views(one.prices(model))) for place, one in places.items()}
    if as_json:
        print_json(rows)
    elif not any(rows.values()):
        raise click.ClickException(f"no price is known for {model}")
    else:
        fields = next(views[0] for views in rows.values() if views).__struct_fields__
        lines = [
            (place, *(str(value or "") for value in msgspec.structs.astuple(view)))
            for place, views in rows.items()
            for view in views
        ]
        heading = ("upstream", *fields)
        click.echo(table([name.upper() for name in heading], lines))


@prices.command()
@click.option("--from", "first", default=GENAI, help="URL or file of genai-prices' data.json.")
@click.option("--check", "second", default=LITELLM, help="URL or file of LiteLLM's prices.")
@click.option("--no-check", is_flag=True, help="Do without a second source.")
@click.option("--against", type=FILE, help="Table to compare with.  [default: the shipped]")
@click.option(
    "--force",
    is_flag=True,
    help="Take rates above 1000 dollars for a million tokens, and a table without most models.",
)
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
@JSON
@click.argument("out", type=FILE, default="prices.json")
def update(
    first: str,
    second: str,
    no_check: bool,
    against: Path | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
    out: Path,
) -> None:
    """Make a table of the prices of today.

    It is made from what genai-prices publishes, and written to OUT. Another source is compared with
    it, and fills in models that it lacks. This is the only command that downloads anything.
    `[pricing] table` has the gateway use the file.
    """
    from dragoman.config.files import read_file
    from dragoman.lab.prices.making import changes, gone, make_from
    from dragoman.prices.loading import load_table
    from dragoman.prices.table import write_table

    with failures_reported():
        made = make_from(_read(first), None if no_check else _read(second), time.time())
        old = load_table(None if against is None else read_file(str(against)))
    lacking, known = gone(old, made.table)
    if as_json:
        print_json(
            {
                "version": made.table.version,
                "models": len(made.table.models),
                "changed": list(changes(old, made.table)),
                "check": made.check,
                "left_out": made.left_out,
                "high": made.high,
                "read_by_hand": made.known,
            }
        )
    else:
        _print_some("changed", list(changes(old, made.table)))
        _print_check(made)
        _print_some("cannot be in a table", list(made.left_out))
        _print_some("read off a page, and known to a source by now", list(made.known))
        if made.high and not force:
            _print_some("above 1000 dollars for a million tokens", list(made.high))
    if made.high and not force:
        raise click.ClickException("nothing was written: --force takes these rates as they are")
    if lacking > known / 2 and not force:
        message = f"{lacking} of {count(known, 'model')} are gone, which --force takes"
        raise click.ClickException(f"nothing was written: {message}")
    if dry_run:
        return
    try:
        _replace(out, write_table(made.table))
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror}") from None
    if not as_json:
        click.echo(f"{out}: {made.table.version}, {count(len(made.table.models), 'model')}")


@prices.command()
@CONFIG
@JSON
@click.argument("old", type=FILE)
@click.argument("new", type=FILE, required=False)
def diff(config: Path, as_json: bool, old: Path, new: Path | None) -> None:
    """Show what differs between two tables of prices.

    OLD is compared with NEW, or with the table that the configuration uses. Prices are
    those of input, of cached input and of output, in US dollars for a million tokens.
    """
    from dragoman.config.files import read_file
    from dragoman.lab.prices.making import changes
    from dragoman.prices.loading import load_table

    with failures_reported():
        before = load_table(read_file(str(old)))
        if new is not None:
            after = load_table(read_file(str(new)))
        else:
            after = load_table(read_config(config).pricing.table)
    found = list(changes(before, after))
    if as_json:
        print_json({"old": before.version, "new": after.version, "changed": found})
        return
    click.echo(f"{before.version} -> {after.version}: {count(len(found), 'change')}")
    for line in found:
        click.echo(line)


@prices.command("set")
@CONFIG
@click.option("--upstream", help="Upstream that has this price; all without it.")
@click.option("--input", "input_", required=True, help="For a million tokens of input.")
@click.option("--output", required=True, help="For a million tokens of output.")
@click.option("--cached", help="For input read from a prompt cache; as --input without it.")
@click.option("--cache-write", help="For input written to one; as --input without it.")
@click.option("--cache-write-1h", help="For input written to one for an hour.")
@click.option("--reasoning", help="For reasoning; as --output without it.")
@click.option("--search", help="For a thousand of the vendor's web searches.")
@click.option("--tier", help="Service tier that has it: batch, flex, priority, fast or ultrafast.")
@click.option("--above", type=int, help="Tokens of a prompt above which it applies.")
@click.option("--since", help="First day (UTC) of it, 2027-01-01.")
@click.option("--hours", help="Hours of the day (UTC) of it, 16:30-00:30.")
@click.option("--force", is_flag=True, help="Take rates above 1000 dollars for a million tokens.")
@JSON
@click.argument("model")
def set_price(config: Path, input_: str, force: bool, as_json: bool, **fields: Any) -> None:
    """Print a price of your own for a model.

    It is in US dollars; MODEL may have a `*`. The output is a `[[prices]]` table to paste into the
    configuration, where it wins over the shipped prices. The first table that fits a request
    counts, so paste it before those that are more general. A running gateway takes it over with
    `dragoman reload`, what was counted with `dragoman prices reprice`.
    """
    from dragoman.config.checks import HIGH_PRICE, high_rates
    from dragoman.config.settings import OwnPrice
    from dragoman.operations.inputs import converted

    given = {"model": fields.pop("model"), "input": input_}
    given |= {name: value for name, value in fields.items() if value is not None}
    settings = read_config(config)
    with failures_reported():
        price: OwnPrice = converted(given, OwnPrice)
    if price.upstream not in (None, *(upstream.name for upstream in settings.upstreams)):
        raise click.ClickException(f"no upstream named {price.upstream}")
    for rate in () if force else high_rates(price):
        message = f"{rate} is more than {HIGH_PRICE} dollars for a million tokens"
        raise click.ClickException(f"{message}, which --force takes")
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    report({"set": given}, as_json, "\n".join(["[[prices]]", *lines]))


def _replace(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it meanwhile reads the old one or the new one. Its rights
    stay.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    file = file.resolve()
    made = file.with_name(f".{file.name}.new")
    try:
        if file.exists():
            shutil.copy2(file, made)
        made.write_bytes(data)
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)


def _read(place: str) -> Text:
    """What is at a URL, or in a file."""
    from dragoman.lab.prices.making import Text
    from dragoman.prices.table import PriceError

    if not place.startswith("https://"):
        try:
            return Text(Path(place).name, Path(place).read_bytes())
        except OSError as error:
            raise PriceError(f"cannot read {place}: {error.strerror}") from None
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(place, timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
    except HTTPError as error:
        with error:
            raise PriceError(f"cannot read {place}: {error.code} {error.reason}") from None
    except HTTPException:
        raise PriceError(f"cannot read {place}: the answer is not whole") from None
    except (URLError, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise PriceError(f"cannot read {place}: {reason}") from None
    if len(body) > _MOST_BYTES:
        raise PriceError(f"{place} is larger than {_MOST_BYTES} bytes")
    return Text(place, body)


def _print_check(made: Made) -> None:
    if made.check is None:
        return
    check = made.check
    click.echo(f"compared: {count(check.equal, 'rate')} agree, {len(check.different)} do not")
    _print_some(
        "the sources differ by more than 1 %",
        [
            f"{one.provider}/{one.model} {one.rate}: {one.ours}, the other says {one.theirs}"
            for one in check.different
        ],
    )
    _print_some(
        "filled in from the second source",
        [f"{one.provider}/{one.names[0]}" for one in check.missing],
    )


def _print_some(what: str, lines: list[str]) -> None:
    if not lines:
        return
    click.echo(f"{what} ({len(lines)}):")
    for line in lines[:_SHOWN]:
        click.echo(f"  {line}")
    if len(lines) > _SHOWN:
        click.echo(f"  and {len(lines) - _SHOWN} more")


def _print_repriced(done: Repriced, asked: Reprice) -> None:
    verb = "would be priced" if asked.dry_run else "are priced"
    click.echo(f"{done.changed} of {count(done.rows, 'row')} {verb} anew")
    click.echo(f"cost: {done.before_usd} -> {done.after_usd} US dollars")
    if done.unpriced:
        click.echo(f"{count(done.unpriced, 'answer')} without a known price")


add_commands(prices, OPERATIONS, {"prices.reprice": Form(_print_repriced)})

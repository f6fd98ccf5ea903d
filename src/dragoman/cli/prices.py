"""`dragoman prices`: what models cost, a newer table of it, and pricing anew what was counted."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.common import (
    CONFIG,
    FILE,
    JSON,
    failures_told,
    print_json,
    read_config,
    table,
    tell,
    time_span,
)
from dragoman.printable import count

if TYPE_CHECKING:
    from dragoman.lab.prices.making import Made, Text

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
    """Show what models cost, and price anew."""


@contextmanager
def _told() -> Iterator[None]:
    from dragoman.prices.table import PriceError

    try:
        yield
    except PriceError as error:
        raise click.ClickException(str(error)) from None


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

    with _told():
        if provider is not None:
            own = read_config(config, serving=False).pricing.table if config.exists() else None
            used, found = load_table(own), None
            names = used.lists_for(provider)
            lists = [[one for one in used.models if one.provider == name] for name in names]
            places = {provider: PriceList((), lists)}
        else:
            settings = read_config(config, serving=False)
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
@click.option("--against", type=FILE, help="Table to tell changes from.  [default: the shipped]")
@click.option(
    "--force",
    is_flag=True,
    help="Take rates above 1000 dollars for a million tokens, and a table without most models.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
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

    with _told():
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
        _tell("changed", list(changes(old, made.table)))
        _tell_check(made)
        _tell("cannot be told in a table", list(made.left_out))
        _tell("read off a page, and known to a source by now", list(made.known))
        if made.high and not force:
            _tell("above 1000 dollars for a million tokens", list(made.high))
    if made.high and not force:
        raise click.ClickException("nothing was written: --force takes these rates as they are")
    if lacking > known / 2 and not force:
        told = f"{lacking} of {count(known, 'model')} are gone, which --force takes"
        raise click.ClickException(f"nothing was written: {told}")
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

    OLD is compared with NEW, or with the table that the configuration uses. Prices are told as
    those of input, of cached input and of output, in US dollars for a million tokens.
    """
    from dragoman.config.files import read_file
    from dragoman.lab.prices.making import changes
    from dragoman.prices.loading import load_table

    with _told():
        before = load_table(read_file(str(old)))
        if new is not None:
            after = load_table(read_file(str(new)))
        else:
            after = load_table(read_config(config, serving=False).pricing.table)
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
@click.option("--above", type=int, help="Tokens of a prompt above which it holds.")
@click.option("--since", help="Day (UTC) from which on it holds, 2027-01-01.")
@click.option("--hours", help="Hours of the day (UTC) in which it holds, 16:30-00:30.")
@click.option("--force", is_flag=True, help="Take rates above 1000 dollars for a million tokens.")
@JSON
@click.argument("model")
def set_price(config: Path, input_: str, force: bool, as_json: bool, **fields: Any) -> None:
    """Set a price of your own for a model.

    It is in US dollars; MODEL may have a `*`. It is written to the configuration file, as
    `[[prices]]` before those that are there, and wins over the table and over them; `*` alone is
    written behind them, and is the price of what has no other. One for the same model, upstream,
    tier, length, day and hours is replaced. A running gateway takes it over with
    `dragoman reload`, what was counted with `dragoman prices reprice`.
    """
    from dragoman.operations.own_prices import HighPrice, PricesInline, with_price

    given = {"model": fields.pop("model"), "input": input_}
    given |= {name: value for name, value in fields.items() if value is not None}
    read_config(config, serving=False)
    file = config.resolve()
    try:
        with _alone_in(file.parent):
            # Bytes: lines may end as on Windows.
            text = with_price(file.read_bytes().decode("utf-8-sig"), given, force=force)
            _replace(file, text.encode(), check=_check)
    except (HighPrice, PricesInline) as error:
        raise click.ClickException(f"nothing was written: {error}") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {config}: {error.strerror}") from None
    tell({"set": given}, as_json)


@prices.command()
@CONFIG
@click.option("--since", default="24h", show_default=True, help="24h, 7d, a date, or Unix seconds.")
@click.option("--until", default="now", show_default=True, help="As --since.")
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@JSON
def reprice(config: Path, since: str, until: str, dry_run: bool, as_json: bool) -> None:
    """Price anew what was counted, by the prices of the configuration.

    Whole hours are priced that begin in the time asked for, each as of its beginning. What has no
    price stays as it is.
    """
    from dragoman.operations import pricing
    from dragoman.prices.loading import load_prices
    from dragoman.storage.opening import store_for

    begin, end = time_span(since, until)
    settings = read_config(config, serving=False)
    store = store_for(settings)
    if store is None:
        raise click.ClickException('[storage] path is "", so nothing was counted')
    with _told(), failures_told():
        try:
            done = pricing.reprice(
                store,
                load_prices(settings),
                begin,
                end,
                pricing.hours_since(settings),
                dry_run=dry_run,
            )
        finally:
            store.close()
    if as_json:
        print_json(done)
        return
    verb = "would be priced" if dry_run else "are priced"
    click.echo(f"{done.changed} of {count(done.rows, 'row')} {verb} anew")
    click.echo(f"cost: {done.before_usd} -> {done.after_usd} US dollars")
    if done.unpriced:
        click.echo(f"{count(done.unpriced, 'answer')} without a known price")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Other commands that change a file of the folder wait meanwhile: none undoes what another
    did."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check(config: Path) -> None:
    """Refuse a configuration that cannot be used, of whose file nobody knows."""
    from dragoman.config import ConfigError
    from dragoman.config import read_config as read

    try:
        read(config, secrets_needed=False)
    except ConfigError as error:
        told = "; ".join(f"{one.key}: {one.message}" for one in error.problems)
        raise click.ClickException(f"nothing was written: {told}") from None


def _replace(file: Path, data: bytes, check: Callable[[Path], None] | None = None) -> None:
    """Write a file, unless `check` refuses what was written. Who reads it meanwhile reads the whole
    of one of the two; its rights stay.

    Raises:
        OSError: it cannot be written, and is as it was.
    """
    file = file.resolve()
    made = file.with_name(f".{file.name}.new")
    try:
        if file.exists():
            shutil.copy2(file, made)
        made.write_bytes(data)
        if check is not None:
            check(made)
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


def _tell_check(made: Made) -> None:
    if made.check is None:
        return
    check = made.check
    click.echo(f"compared: {count(check.equal, 'rate')} agree, {len(check.different)} do not")
    _tell(
        "the sources differ by more than 1 %",
        [
            f"{one.provider}/{one.model} {one.rate}: {one.ours}, the other says {one.theirs}"
            for one in check.different
        ],
    )
    _tell(
        "filled in from the second source",
        [f"{one.provider}/{one.names[0]}" for one in check.missing],
    )


def _tell(what: str, lines: list[str]) -> None:
    if not lines:
        return
    click.echo(f"{what} ({len(lines)}):")
    for line in lines[:_SHOWN]:
        click.echo(f"  {line}")
    if len(lines) > _SHOWN:
        click.echo(f"  and {len(lines) - _SHOWN} more")

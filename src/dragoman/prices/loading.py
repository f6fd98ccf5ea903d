"""The prices of a configuration, from the shipped table or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

from dragoman.config import Config, OwnPrice, Upstream
from dragoman.config.files import FileText
from dragoman.prices.lookup import PriceList, Prices, version_with
from dragoman.prices.rates import PER_MILLION, Price, pico_per_token
from dragoman.prices.table import PriceError, Table, read_table
from dragoman.prices.units import UnitPrice

SNAPSHOT = "snapshot.json"
"""File of the package with the shipped table."""

NO_LIST = "none"
"""Stands for a provider: no list applies."""

_PER_THOUSAND = 1000


def load_table(file: FileText | None = None) -> Table:
    """The table in a file, or the shipped one.

    Raises:
        PriceError: the file cannot be read, or is no table.
    """
    if file is None:
        return read_table(Path(__file__).with_name(SNAPSHOT).read_bytes())
    if file.problem:
        raise PriceError(f"cannot read {file.path}: {file.problem}")
    return read_table(file.text)


def load_prices(config: Config, unknown: Callable[[str, str], None] | None = None) -> Prices:
    """The prices of a configuration's upstreams. `unknown` is as for `Prices`.

    Raises:
        PriceError: its table cannot be read, or lacks the provider of an upstream.
    """
    table = load_table(config.pricing.table)
    lists = {upstream.name: _list_of(upstream, table, config) for upstream in config.upstreams}
    subscriptions = [one.name for one in config.upstreams if one.billing == "subscription"]
    version = version_with(table, config.prices)
    return Prices(lists, version, unknown, subscriptions, table.sources)


def price_faults(config: Config) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Faults that prevent loading the prices of a configuration, each with its path."""
    try:
        table = load_table(config.pricing.table)
    except PriceError as error:
        yield ("pricing", "table"), str(error)
        return
    for index, upstream in enumerate(config.upstreams):
        try:
            _lists_of(upstream, table)
        except PriceError as error:
            yield ("upstreams", index, "prices"), str(error)


def provider_of(upstream: Upstream, table: Table) -> str | None:
    """The provider whose price list applies to an upstream; None if none does."""
    if upstream.prices is None:
        # The region of an account says nothing of whose service it is.
        return table.provider_of(upstream.base_url.replace("{", "").replace("}", ""))
    return None if upstream.prices == NO_LIST else upstream.prices


def _list_of(upstream: Upstream, table: Table, config: Config) -> PriceList:
    try:
        names = _lists_of(upstream, table)
    except PriceError as error:
        raise PriceError(f"upstream {upstream.name}: {error}") from None
    own: dict[tuple[str, str | None], list[Price]] = {}
    for price in config.prices:
        if price.upstream in (None, upstream.name):
            own.setdefault((price.model, price.upstream), []).append(_own(price))
    for prices in own.values():
        # The last of those that apply is used.
        prices.sort(key=lambda one: (one.since, one.begins != one.ends))
    lists = [[model for model in table.models if model.provider == name] for name in names]
    units = [
        (price.model, _units(price))
        for price in config.prices
        if price.upstream in (None, upstream.name)
    ]
    return PriceList(((model, prices) for (model, _), prices in own.items()), lists, units)


def _lists_of(upstream: Upstream, table: Table) -> Sequence[str]:
    provider = provider_of(upstream, table)
    return () if provider is None else table.lists_for(provider)


def _own(price: OwnPrice) -> Price:
    def rate(amount: str | None, otherwise: int = 0) -> int:
        return otherwise if amount is None else pico_per_token(Decimal(amount))

    begins, ends = (0, 0) if price.hours is None else map(_minute, price.hours.split("-"))
    since = 0
    if price.since is not None:
        since = int(datetime.combine(price.since, time(), UTC).timestamp())
    read, made = rate(price.input), rate(price.output)
    written = rate(price.cache_write, read)
    return Price(
        since=since,
        tier=price.tier or "",
        above=price.above,
        begins=begins,
        ends=ends,
        input=read,
        cached=rate(price.cached, read),
        cache_write=written,
        cache_write_1h=rate(price.cache_write_1h, written),
        output=made,
        reasoning=rate(price.reasoning, made),
        search=rate(price.search) * _PER_THOUSAND,
    )


def _units(price: OwnPrice) -> UnitPrice:
    def rate(amount: str | None, per: int = 1) -> int | None:
        return None if amount is None else pico_per_token(Decimal(amount)) * PER_MILLION // per

    return UnitPrice(
        image=rate(price.image),
        character=rate(price.character, PER_MILLION),
        second=rate(price.second),
        request=rate(price.request, _PER_THOUSAND),
        image_input=rate(price.image_input, PER_MILLION),
        image_output=rate(price.image_output, PER_MILLION),
        audio_input=rate(price.audio_input, PER_MILLION),
        audio_output=rate(price.audio_output, PER_MILLION),
    )


def _minute(clock: str) -> int:
    """The minute of the day of a time such as `16:30`."""
    hour, minute = clock.split(":")
    return int(hour) * 60 + int(minute)

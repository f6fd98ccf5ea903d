"""Prices that were read by hand off vendors' pages, in `pages.toml`."""

from __future__ import annotations

import tomllib
from datetime import date
from decimal import Decimal
from importlib.resources import files

import msgspec
from msgspec import Struct

from dragoman.prices.rates import Price, pico_per_token
from dragoman.prices.table import ModelPrices

_PER_THOUSAND = 1000


class Page(Struct, frozen=True):
    """A vendor's page about one model, the day on which it was read, and its prices: those of the
    usual service tier first, or those of one that is not usual alone."""

    address: str
    day: str
    model: ModelPrices


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A price in dollars, as in `[[prices]]` of a configuration."""

    input: str
    cached: str
    cache_write: str
    output: str
    search: str
    tier: str = ""
    above: int = 0

    def price(self) -> Price:
        written, output = _rate(self.cache_write), _rate(self.output)
        return Price(
            since=0,
            tier=self.tier,
            above=self.above,
            begins=0,
            ends=0,
            input=_rate(self.input),
            cached=_rate(self.cached),
            cache_write=written,
            cache_write_1h=written,
            output=output,
            reasoning=output,
            search=_rate(self.search) * _PER_THOUSAND,
        )


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    address: str
    day: date
    provider: str
    names: tuple[str, ...]
    prices: tuple[_Row, ...]


def _rate(dollars: str) -> int:
    return pico_per_token(Decimal(dollars))


def _read(text: str) -> tuple[Page, ...]:
    entries = msgspec.convert(tomllib.loads(text)["pages"], list[_Entry])
    return tuple(
        Page(
            one.address,
            one.day.isoformat(),
            ModelPrices(one.provider, one.names, tuple(row.price() for row in one.prices)),
        )
        for one in entries
    )


PAGES = _read(files(__package__).joinpath("pages.toml").read_text("utf-8"))

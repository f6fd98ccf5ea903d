"""Making a price table from two sources, and describing changes. Pure: the day is given."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from dragoman.lab.prices.genai import read_genai
from dragoman.lab.prices.litellm import Check, check_against_litellm
from dragoman.lab.prices.pages import PAGES, Page
from dragoman.prices.lookup import PriceList
from dragoman.prices.rates import PER_MILLION, Price, dollars
from dragoman.prices.table import ModelPrices, PriceError, Source, Table, make_table

_HIGH = 1000 * PER_MILLION
"""A thousand dollars for a million tokens: more is usually a mistake of units."""


class Text(Struct, frozen=True):
    """The content of a source, and its address."""

    address: str
    body: bytes


class Made(Struct, frozen=True):
    """A table, the comparison with the second source (None without one), what a table cannot
    express of the first, implausibly high rates, and models of vendors' pages that a source has by
    now."""

    table: Table
    check: Check | None
    left_out: tuple[str, ...]
    high: tuple[str, ...]
    known: tuple[str, ...] = ()


def make_from(first: Text, second: Text | None, now: float) -> Made:
    """A table from genai-prices' data, compared with LiteLLM's file and filled up from it, and from
    the vendors' pages.

    Raises:
        PriceError: one of them does not have its format.
    """
    reading = read_genai(first.body)
    for provider in reading.providers:
        try:
            re.compile(provider.url)
        except re.error as error:
            raise PriceError(f"the addresses of {provider.name}: {error}") from None
    sources = [_source("genai-prices", first)]
    models = list(reading.models)
    check = None
    if second is not None:
        check = check_against_litellm(second.body, _lists(models), now)
        sources.append(_source("litellm", second))
        models += check.missing
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    table = make_table(day, sources, reading.providers, models)
    known = tuple([_called(page.model) for page in PAGES if _has(_found(models, page), page)])
    return Made(with_pages(table), check, reading.left_out, tuple(_high(models)), known)


def with_pages(table: Table) -> Table:
    """A table with the models and service tiers of vendors' pages that it lacks."""
    models, read = list(table.models), list(table.sources)
    for page in PAGES:
        found = _found(models, page)
        if _has(found, page) or (not found and page.model.prices[0].tier):
            continue
        if found:
            at = next(at for at, one in enumerate(models) if one.prices is found)
            models[at] = replace(models[at], prices=(*found, *page.model.prices))
        else:
            models.append(page.model)
        digest = hashlib.sha256(encode(page.model)).hexdigest()
        read.append(Source(f"page of {page.day}", page.address, digest))
    day = table.version.rpartition(".")[0]
    return make_table(day, read, table.providers, models)


def _found(models: Iterable[ModelPrices], page: Page) -> Sequence[Price]:
    """The known prices of a page's model."""
    provider, name = page.model.provider, page.model.names[0]
    return PriceList((), [[one for one in models if one.provider == provider]]).prices(name)


def _has(found: Sequence[Price], page: Page) -> bool:
    """Whether the known prices make a page unnecessary: they have its first service tier."""
    return page.model.prices[0].tier in {price.tier for price in found}


def changes(old: Table, new: Table) -> Iterator[str]:
    """The differences between two tables, a line for each model."""
    before, after = _by_name(old), _by_name(new)
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one == other:
            continue
        if one is None:
            yield f"+ {name}: {_brief(other or ())}"
        elif other is None:
            yield f"- {name}"
        elif _brief(one) == _brief(other):
            yield f"~ {name}: other tiers or dates"
        else:
            yield f"~ {name}: {_brief(one)} -> {_brief(other)}"


def gone(old: Table, new: Table) -> tuple[int, int]:
    """How many names of models a table no longer has, and how many there were."""
    before = _by_name(old)
    return len(before.keys() - _by_name(new).keys()), len(before)


def _by_name(table: Table) -> dict[str, tuple[Price, ...]]:
    found: dict[str, tuple[Price, ...]] = {}
    for model in table.models:
        for name in model.names:
            found.setdefault(f"{model.provider}/{name}", model.prices)
    return found


def _brief(prices: Iterable[Price]) -> str:
    """The latest default-tier price for short prompts: input, cached and output."""
    usual = [price for price in prices if not price.tier and not price.above]
    if not usual:
        return "no usual price"
    last = usual[-1]
    rates = (last.input, last.cached, last.output)
    return "/".join(dollars(rate * PER_MILLION) for rate in rates)


def _source(name: str, text: Text) -> Source:
    return Source(name, text.address, hashlib.sha256(text.body).hexdigest())


def _lists(models: Iterable[ModelPrices]) -> dict[str, PriceList]:
    by_provider: dict[str, list[ModelPrices]] = {}
    for model in models:
        by_provider.setdefault(model.provider, []).append(model)
    return {name: PriceList((), [some]) for name, some in by_provider.items()}


def _high(models: Iterable[ModelPrices]) -> Iterator[str]:
    for model in models:
        top = max(max(price.rates) for price in model.prices)
        if top > _HIGH:
            yield f"{_called(model)}: {dollars(top * PER_MILLION)}"


def _called(model: ModelPrices) -> str:
    return f"{model.provider}/{model.names[0]}"

"""A table of prices: providers, models, and their prices over time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec import Struct

from dragoman.jsontext import JsonError, decoder
from dragoman.prices.rates import Price


class PriceError(ValueError):
    """A table of prices cannot be used."""


class Source(Struct, frozen=True):
    """Where prices came from: a name, its address or file, and the SHA-256 of the content."""

    name: str
    address: str
    sha256: str


class Provider(Struct, frozen=True):
    """A provider with a price list. `url` is a regular expression for the beginning of its base
    URLs; models that its list lacks are looked up in those of `others`."""

    name: str
    url: str
    others: tuple[str, ...] = ()


class ModelPrices(Struct, frozen=True):
    """The prices of one model of a provider, under each of its names.

    In a name `*` matches any text and `#` one digit; case does not count. Of `prices`, a later one
    takes precedence over an earlier one that applies at the same time.
    """

    provider: str
    names: tuple[str, ...]
    prices: tuple[Price, ...]


class Table(Struct, frozen=True, kw_only=True):
    """A whole table. `version` is the day on which it was made, and a digest of its prices."""

    version: str
    sources: tuple[Source, ...] = ()
    providers: tuple[Provider, ...] = ()
    models: tuple[ModelPrices, ...] = ()

    def provider_of(self, base_url: str) -> str | None:
        """The provider of the service at a URL; None if it is unknown."""
        for provider in self.providers:
            if re.match(provider.url, base_url):
                return provider.name
        return None

    def lists_for(self, provider: str) -> tuple[str, ...]:
        """The providers whose lists apply to one, in order: its own first.

        Raises:
            PriceError: there is none of this name.
        """
        for known in self.providers:
            if known.name == provider:
                return (provider, *known.others)
        raise PriceError(f"no provider named {provider} is in the table of prices")


def make_table(
    day: str,
    sources: Iterable[Source],
    providers: Iterable[Provider],
    models: Iterable[ModelPrices],
) -> Table:
    """A table made on `day` (as 2026-11-22)."""
    rows = tuple(models)
    digest = hashlib.sha256(msgspec.json.encode(rows)).hexdigest()
    return Table(
        version=f"{day}.{digest[:8]}",
        sources=tuple(sources),
        providers=tuple(providers),
        models=rows,
    )


_read_table = decoder(Table)


def read_table(text: bytes) -> Table:
    """The table in a file.

    Raises:
        PriceError: it is no table, or was edited by hand.
    """
    try:
        table = _read_table(text)
    except JsonError as error:
        raise PriceError(f"not a table of prices: {error}") from None
    digest = hashlib.sha256(msgspec.json.encode(table.models)).hexdigest()
    if table.version.rpartition(".")[2] != digest[:8]:
        raise PriceError("the table's prices are not those of its version: it was changed by hand")
    return table


def write_table(table: Table) -> bytes:
    """A table as a file, a line for each model, so that changes can be read."""
    head = msgspec.json.encode(msgspec.structs.replace(table, providers=(), models=()))
    head = head.removesuffix(b',"providers":[],"models":[]}')
    return b"\n".join((head + b",", *_lines("providers", table.providers, b"],"), b"")) + (
        b"\n".join((*_lines("models", table.models, b"]}"), b""))
    )


def _lines(name: str, rows: Iterable[Struct], end: bytes) -> Iterator[bytes]:
    yield b'"%b":[' % name.encode()
    encoded = [msgspec.json.encode(row) for row in rows]
    yield from (row + b"," for row in encoded[:-1])
    yield from encoded[-1:]
    yield end


def literal_length(pattern: str) -> int:
    """The number of literal characters of a pattern; the more, the more specific it is."""
    return len(pattern) - pattern.count("*")


def is_pattern(name: str) -> bool:
    """Whether a name matches several models."""
    return "*" in name or "#" in name


@lru_cache(maxsize=8192)
def _expression(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern.lower()).replace(r"\*", ".*").replace(r"\#", "[0-9]")
    return re.compile(escaped, re.DOTALL)


def names_model(pattern: str, model: str) -> bool:
    """Whether `pattern` matches the model of this name, in lower case."""
    if not is_pattern(pattern):
        return pattern.lower() == model
    return _expression(pattern).fullmatch(model) is not None

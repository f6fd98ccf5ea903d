"""Prices from the data of genai-prices (github.com/pydantic/genai-prices, MIT).

Its format (`prices/new_data/v2/data.json`): a list of providers, each with models. A model has a
rule that matches names, its `prices` (one set, or several with the date or time of day from which
each applies, the later taking precedence), and `price_variants` for service tiers and batches,
which replace some of them. A price is dollars for a million tokens, or a base and the prompt
lengths above which others apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.jsontext import JsonError
from dragoman.prices.rates import BATCH, FAST, TIERS, Price, pico_per_token
from dragoman.prices.table import ModelPrices, PriceError, Provider

_SEARCHES_PER_PRICE = 1000
_LONGEST_PATTERN = 200


class _Constraint(Struct):
    start_date: date | None = None
    start_time: time | None = None
    end_time: time | None = None


class _Tier(Struct):
    start: int
    price: Decimal


class _Tiered(Struct):
    base: Decimal
    tiers: list[_Tier]


_Rates = dict[str, Decimal | _Tiered | None]


class _Conditional(Struct):
    prices: _Rates
    constraint: _Constraint | None = None


class _Variant(Struct):
    when: dict[str, str]
    prices: _Rates
    constraint: _Constraint | None = None


class _Model(Struct):
    id: str
    match: Any
    prices: _Rates | list[_Conditional]
    price_variants: list[_Variant] | None = None


class _Provider(Struct):
    id: str
    api_pattern: str
    models: list[_Model]
    fallback_model_providers: list[str] | None = None


_decoder = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)


class Reading(Struct, frozen=True):
    """The result of reading: providers, the prices of their models, and descriptions of what a
    table cannot express."""

    providers: tuple[Provider, ...]
    models: tuple[ModelPrices, ...]
    left_out: tuple[str, ...]


def read_genai(text: bytes) -> Reading:
    """The prices in genai-prices' data.

    Raises:
        PriceError: it does not have the format above.
    """
    try:
        # Numbers are read as decimals: a float may differ from the vendor's page.
        found = msgspec.convert(_decoder.decode(text), list[_Provider], strict=False)
    except (msgspec.MsgspecError, JsonError) as error:
        raise PriceError(f"not the data of genai-prices: {error}") from None
    models: list[ModelPrices] = []
    left_out: list[str] = []
    for provider in found:
        for model in provider.models:
            where = f"{provider.id}/{model.id}"
            names = tuple(dict.fromkeys(_names(model.match, where, left_out)))
            prices = tuple(_prices(model, where, left_out))
            if not all(price.is_possible for price in prices):
                left_out.append(f"{where}: an impossible rate")
            elif names and prices:
                models.append(ModelPrices(provider.id, names, prices))
    if not models:
        raise PriceError("not the data of genai-prices: no model has a price in it")
    providers = tuple(
        Provider(one.id, one.api_pattern, tuple(one.fallback_model_providers or ()))
        for one in found
    )
    return Reading(providers, tuple(models), tuple(left_out))


def _names(rule: object, where: str, left_out: list[str]) -> Iterator[str]:
    """Patterns for the names that a rule matches."""
    match rule:
        case {"equals": str(text)}:
            yield _literal(text)
        case {"starts_with": str(text)}:
            yield _literal(text) + "*"
        case {"ends_with": str(text)}:
            yield "*" + _literal(text)
        case {"contains": str(text)}:
            yield "*" + _literal(text) + "*"
        case {"or": [*rules]}:
            for one in rules:
                yield from _names(one, where, left_out)
        case {"and": [first, *_]}:
            # The rest of such a rule excludes names that have entries of their own.
            yield from _names(first, where, left_out)
        case {"regex": str(text)} if (choice := _CHOICE.search(text)) is not None:
            for letter in choice[1]:
                one = text[: choice.start()] + re.escape(letter) + text[choice.end() :]
                yield from _names({"regex": one}, where, left_out)
        case {"regex": str(text)} if (pattern := _pattern(text)) is not None:
            yield pattern
        case _:
            left_out.append(f"{where}: names that match {_rule(rule)!r}")


def _rule(rule: object) -> object:
    """The content of a rule, without its kind if it is a simple one."""
    return rule["regex"] if isinstance(rule, dict) and "regex" in rule else rule


def _literal(text: str) -> str:
    if "*" in text or "#" in text:
        raise PriceError(f"a name that looks like a pattern: {text}")
    return text


_CHOICE = re.compile(r"\[([-@_/:]+)\]")
_PIECE = re.compile(r"\\d(?:\{(?P<digits>\d)\})?|\\(?P<escaped>[.\-/])|(?P<plain>[\w/@:-])")


def _pattern(expression: str) -> str | None:
    """A pattern for a simple regular expression such as `^name-\\d{8}$`. None for others."""
    rest = expression
    pattern = "" if rest.startswith("^") else "*"
    rest = rest.removeprefix("^")
    end = "" if rest.endswith("$") else "*"
    rest = rest.removesuffix("$")
    if len(rest) > _LONGEST_PATTERN:
        return None
    while rest:
        piece = _PIECE.match(rest)
        if piece is None:
            return None
        if piece["escaped"] or piece["plain"]:
            pattern += piece["escaped"] or piece["plain"]
        else:
            pattern += "#" * int(piece["digits"] or 1)
        rest = rest[piece.end() :]
    return pattern + end


def _prices(model: _Model, where: str, left_out: list[str]) -> Iterator[Price]:
    """The prices of a model, later ones taking precedence."""
    usual = model.prices if isinstance(model.prices, list) else [_Conditional(model.prices)]
    variants: dict[str, list[_Variant]] = {"": []}
    for variant in model.price_variants or ():
        tier = _tier_of(variant.when)
        if tier is None:
            if variant.when != {"service_tier": "default"}:
                left_out.append(f"{where}: prices where {variant.when}")
        else:
            variants.setdefault(tier, []).append(variant)
    for tier, replacing in variants.items():
        yield from _prices_of_tier(usual, tier, replacing, where, left_out)


def _tier_of(when: Mapping[str, str]) -> str | None:
    """The service tier of a variant; None if it is for something else."""
    if when == {"processing": "batch"}:
        return BATCH
    if when == {"speed": "fast"}:
        return FAST
    tier = when.get("service_tier") if len(when) == 1 else None
    return tier if tier in TIERS else None


def _prices_of_tier(
    usual: list[_Conditional],
    tier: str,
    variants: list[_Variant],
    where: str,
    left_out: list[str],
) -> Iterator[Price]:
    if any(variant.constraint and variant.constraint.start_time for variant in variants):
        left_out.append(f"{where}: prices of the tier {tier} at times of the day")
        return
    starts = {_since(one.constraint) for one in usual}
    starts |= {_since(one.constraint) for one in variants}
    for start in sorted(starts):
        base = [one for one in usual if not _by_the_day(one) and _since(one.constraint) <= start]
        active = [one for one in variants if _since(one.constraint) <= start]
        if (tier and not active) or not base:
            continue
        yield from _steps(_merged(base[-1].prices, active), tier, (start, 0, 0), where, left_out)
    for one in usual:
        if _by_the_day(one) and one.constraint is not None:
            begins, ends = _minute(one.constraint.start_time), _minute(one.constraint.end_time)
            if tier and not variants:
                continue
            start = min((_since(variant.constraint) for variant in variants), default=0)
            rates = _merged(one.prices, variants)
            yield from _steps(rates, tier, (start, begins, ends), where, left_out)


def _merged(usual: _Rates, variants: Iterable[_Variant]) -> _Rates:
    """The usual rates with those that variants replace; the first variant takes precedence."""
    rates = dict(usual)
    for variant in reversed(list(variants)):
        rates |= {name: rate for name, rate in variant.prices.items() if rate is not None}
    return rates


def _by_the_day(one: _Conditional) -> bool:
    return one.constraint is not None and one.constraint.start_time is not None


def _since(constraint: _Constraint | None) -> int:
    if constraint is None or constraint.start_date is None:
        return 0
    return int(datetime.combine(constraint.start_date, time(), UTC).timestamp())


def _minute(moment: time | None) -> int:
    if moment is None:
        return 0
    if moment.tzinfo is not None:
        moment = datetime.combine(date(2000, 1, 2), moment).astimezone(UTC).time()
    return moment.hour * 60 + moment.minute


_KNOWN_RATES = {
    "input_mtok",
    "output_mtok",
    "cache_read_mtok",
    "cache_write_mtok",
    "cache_write_1h_mtok",
    "output_reasoning_mtok",
    "web_searches_kcount",
    "requests_kcount",
}


def _steps(
    rates: _Rates, tier: str, period: tuple[int, int, int], where: str, left_out: list[str]
) -> Iterator[Price]:
    """A price for each prompt length from which another applies."""
    given = {name: rate for name, rate in rates.items() if rate is not None}
    if "input_mtok" not in given and "output_mtok" not in given:
        return
    for name in sorted(given.keys() - _KNOWN_RATES):
        if (message := f"{where}: {name}") not in left_out:
            left_out.append(message)
    since, begins, ends = period
    lengths = {0}
    for rate in given.values():
        if isinstance(rate, _Tiered):
            lengths |= {step.start for step in rate.tiers}
    for above in sorted(lengths):

        def at(name: str, otherwise: Decimal, above: int = above) -> Decimal:
            rate = given.get(name)
            if rate is None:
                return otherwise
            if not isinstance(rate, _Tiered):
                return rate
            higher = [step for step in rate.tiers if step.start <= above]
            return max(higher, key=lambda step: step.start).price if higher else rate.base

        zero = Decimal(0)
        input_rate, output_rate = at("input_mtok", zero), at("output_mtok", zero)
        written = at("cache_write_mtok", input_rate)
        yield Price(
            since=since,
            tier=tier,
            above=above,
            begins=begins,
            ends=ends,
            input=pico_per_token(input_rate),
            cached=pico_per_token(at("cache_read_mtok", input_rate)),
            cache_write=pico_per_token(written),
            cache_write_1h=pico_per_token(at("cache_write_1h_mtok", written)),
            output=pico_per_token(output_rate),
            reasoning=pico_per_token(at("output_reasoning_mtok", output_rate)),
            search=pico_per_token(at("web_searches_kcount", zero)) * _SEARCHES_PER_PRICE,
            request=pico_per_token(at("requests_kcount", zero)) * _SEARCHES_PER_PRICE,
        )

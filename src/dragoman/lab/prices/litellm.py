"""A second source: LiteLLM's `model_prices_and_context_window.json` (github.com/BerriAI/litellm,
MIT). It is compared with the first, and provides models that the first lacks.

Its format: an object by model name, each with its provider and the dollars for one token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.prices.lookup import PriceList
from dragoman.prices.rates import PER_MILLION, Price, dollars, pico_per_token
from dragoman.prices.table import ModelPrices, PriceError

PROVIDERS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "groq": "groq",
    "xai": "x-ai",
    "gemini": "google",
    "cerebras": "cerebras",
    "moonshot": "moonshotai",
    "zai": "zai",
}
"""LiteLLM's names of the compared providers, and ours."""

_MODES = frozenset({"chat", "responses", "completion", "embedding"})
_APART = Decimal("0.01")

_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


class Difference(Struct, frozen=True):
    """A rate on which the sources differ by more than one percent, in dollars for a million
    tokens."""

    provider: str
    model: str
    rate: str
    ours: str
    theirs: str


class Check(Struct, frozen=True):
    """The result of a comparison: the number of equal rates, the different ones, and models that
    only the second source has, with their prices."""

    equal: int
    different: tuple[Difference, ...]
    missing: tuple[ModelPrices, ...]


def check_against_litellm(text: bytes, models: Mapping[str, PriceList], at: float) -> Check:
    """Compare prices by provider (`models`) at a time (Unix seconds) with LiteLLM's file.

    Raises:
        PriceError: it does not have the format above.
    """
    try:
        entries = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise PriceError(f"not LiteLLM's prices: {error}") from None
    equal = 0
    different: list[Difference] = []
    missing: list[ModelPrices] = []
    for name, entry in sorted(entries.items()):
        match entry:
            case {"litellm_provider": str(prefix), "mode": str(mode)} if mode in _MODES:
                provider = PROVIDERS.get(prefix)
            case _:
                continue
        if provider is None:
            continue
        theirs = _price(entry)
        if theirs is None:
            continue
        name = name.removeprefix(f"{prefix}/")
        ours = models[provider].prices(name) if provider in models else ()
        applying = _applying(ours, at)
        if not applying:
            if "*" not in name and "#" not in name:
                missing.append(ModelPrices(provider, (name,), (theirs,)))
            continue
        for rate in _compared(entry):
            known, other = {getattr(row, rate) for row in applying}, getattr(theirs, rate)
            if any(abs(one - other) <= _APART * max(one, other) for one in known):
                equal += 1
                continue
            amounts = " or ".join(dollars(one * PER_MILLION) for one in sorted(known))
            found = Difference(provider, name, rate, amounts, dollars(other * PER_MILLION))
            if found not in different:
                different.append(found)
    if not equal and not different and not missing:
        raise PriceError("not LiteLLM's prices: no model has a price in it that could be compared")
    return Check(equal, tuple(different), tuple(missing))


_HALF_HOURS = 48


def _applying(prices: Sequence[Price], at: float) -> list[Price]:
    """The default-tier prices of short prompts that apply at some time of the day from `at` on."""
    rows = [row for row in prices if not row.tier and not row.above]
    found: list[Price] = []
    for half_hour in range(_HALF_HOURS):
        last = [row for row in rows if row.applies(at + half_hour * 1800)][-1:]
        found += [row for row in last if row not in found]
    return found


_RATES = {
    "input": "input_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "output": "output_cost_per_token",
}


def _compared(entry: Mapping[str, Any]) -> Iterator[str]:
    """The rates of an entry. Some entries have 0 for what is not charged at present."""
    return (rate for rate, name in _RATES.items() if _dollars(entry.get(name)))


def _dollars(value: object) -> Decimal | None:
    """The value of a rate; None if it is not a number."""
    if type(value) not in (int, str, Decimal):
        return None
    try:
        amount = Decimal(value)  # type: ignore[arg-type]
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def _price(entry: Mapping[str, Any]) -> Price | None:
    """The default-tier price of an entry; None if it has no valid one for tokens."""

    def rate(name: str, otherwise: int) -> int:
        value = _dollars(entry.get(_RATES[name]))
        return otherwise if value is None else pico_per_token(value * PER_MILLION)

    if not any(_dollars(entry.get(_RATES[name])) for name in ("input", "output")):
        return None
    plain, made = rate("input", 0), rate("output", 0)
    written = rate("cache_write", plain)
    price = Price(
        since=0,
        tier="",
        above=0,
        begins=0,
        ends=0,
        input=plain,
        cached=rate("cached", plain),
        cache_write=written,
        cache_write_1h=rate("cache_write_1h", written),
        output=made,
        reasoning=made,
    )
    return price if price.is_possible else None

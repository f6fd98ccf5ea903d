"""Prices that a vendor's own page has and no source does yet, read by hand: of whole models, and of
service tiers of models that sources have. What a source has by now is told when a table is made,
and is to be taken out here."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from msgspec import Struct

from dragoman.prices.rates import BATCH, FAST, PER_MILLION, PRIORITY, ULTRAFAST, Price
from dragoman.prices.table import ModelPrices


class Page(Struct, frozen=True):
    """A vendor's page about one model, the day on which it was read, and what it says: the usual
    service tier first, or one that is not usual alone."""

    address: str
    day: str
    model: ModelPrices


def _gpt_6_2(sols: int) -> Iterator[Price]:
    """The prices of a model that costs so many times what `gpt-6.2-sol` does: 2 dollars for a
    million tokens of input, 0.10 cached, 2.50 written to the cache, 10 of output; above 272,000
    tokens of input these double and output costs half as much again. Batch costs half, Fast, which
    is also called priority, twice as much. Web searches are as for its predecessor."""
    long_prompts = ((0, 1, Fraction(1)), (272_000, 2, Fraction(3, 2)))
    for tier, factor in ("", Fraction(1)), (PRIORITY, 2), (FAST, 2), (BATCH, Fraction(1, 2)):
        for above, given, made in long_prompts:
            one = sols * factor * given * PER_MILLION
            written = int(one * Fraction(5, 2))
            output = int(10 * sols * factor * made * PER_MILLION)
            yield Price(
                0,
                tier,
                above,
                0,
                0,
                input=int(2 * one),
                cached=int(one / 10),
                cache_write=written,
                cache_write_1h=written,
                output=output,
                reasoning=output,
                search=10_000 * PER_MILLION,
            )


def _ultrafast(read: Fraction, cached: Fraction, made: Fraction) -> Iterator[Price]:
    """Six times what the usual tier costs, above 272,000 tokens of input as there: of a model that
    costs so many dollars for a million tokens of input, cached, and of output."""
    for above, factor, more in ((0, 6, Fraction(6)), (272_000, 12, Fraction(9))):
        written = int(factor * read * PER_MILLION * Fraction(5, 4))
        output = int(more * made * PER_MILLION)
        yield Price(
            0,
            ULTRAFAST,
            above,
            0,
            0,
            input=int(factor * read * PER_MILLION),
            cached=int(factor * cached * PER_MILLION),
            cache_write=written,
            cache_write_1h=written,
            output=output,
            reasoning=output,
            search=10_000 * PER_MILLION,
        )


PAGES = (
    Page(
        "https://developers.openai.com/api/docs/models/gpt-6.2-sol",
        "2026-11-23",
        ModelPrices("openai", ("gpt-6.2-sol", "gpt-6.2-sol-####-##-##"), tuple(_gpt_6_2(1))),
    ),
    # The page has 8 and 40 dollars. That the cache costs 60 % less than for GPT-6 Astra is of
    # LiteLLM's announcement of the model; all else is in proportion to Sol.
    Page(
        "https://developers.openai.com/api/docs/models",
        "2026-11-25",
        ModelPrices("openai", ("gpt-6.2-astra", "gpt-6.2-astra-####-##-##"), tuple(_gpt_6_2(4))),
    ),
    Page(
        "https://developers.openai.com/api/docs/guides/ultrafast-mode",
        "2026-11-25",
        ModelPrices(
            "openai",
            ("gpt-6-astra", "gpt-6-astra-####-##-##"),
            tuple(_ultrafast(Fraction(10), Fraction(1), Fraction(50))),
        ),
    ),
    # 12 and 60 dollars, as resellers have it: six times as much here, too.
    Page(
        "https://developers.openai.com/api/docs/models/gpt-6.1-sol",
        "2026-11-25",
        ModelPrices(
            "openai",
            ("gpt-6.1-sol", "gpt-6.1-sol-####-##-##"),
            tuple(_ultrafast(Fraction(2), Fraction(1, 10), Fraction(10))),
        ),
    ),
)

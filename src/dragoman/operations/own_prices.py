"""Prices of one's own, written into the text of a configuration. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from itertools import dropwhile
from typing import Any

from dragoman.config.checks import HIGH_PRICE
from dragoman.config.toml_lines import TomlLines

_IDENTITY = ("model", "upstream", "tier", "above", "since", "hours")
_HEADER = re.compile(r"[ \t]*\[\[[ \t]*prices[ \t]*\]\]")
_OTHERS = "*"
_NO_RATES = (*_IDENTITY, "search")


class HighPrice(ValueError):
    """A rate is too high to be believed."""


class PricesInline(ValueError):
    """The prices of the file are no `[[prices]]` tables, so that none can be put among them."""


def with_price(text: str, price: Mapping[str, Any], *, force: bool = False) -> str:
    """The text of a configuration with a `[[prices]]` table of these fields (see
    `dragoman.config.OwnPrice`) before all others, one for `*` behind them, or in place of the one
    for the same model, upstream, tier, length of a prompt, day and hours. All else stays as it is.
    `force`: whatever the rate.

    Raises:
        HighPrice: a rate is above `HIGH_PRICE`.
        PricesInline: the file has prices, but not as tables.
    """
    for name, value in price.items():
        if name not in _NO_RATES and not force and _amount(value) > HIGH_PRICE:
            told = f"{name} is more than {HIGH_PRICE} dollars for a million tokens"
            raise HighPrice(f"{told}, which --force takes")
    known = tomllib.loads(text).get("prices", [])
    # Lines of TOML end in no other way: `splitlines` knows more.
    found, lines = TomlLines(text), re.findall(r"[^\n]*\n|[^\n]+", text)
    begins = [found.line(("prices", place)) - 1 for place in range(len(known))]
    if not all(_HEADER.match(lines[begin]) for begin in begins):
        raise PricesInline("prices are no [[prices]] tables in this file")
    made = [
        "[[prices]]\n",
        *(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in price.items()),
    ]
    for begin, one in zip(begins, known, strict=True):
        if _identity(one) == _identity(price):
            return "".join([*lines[:begin], *made, *lines[_end(lines, begin) :]])
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    # The first that fits counts: what fits all goes before what does so, too.
    others = [begin for begin, one in zip(begins, known, strict=True) if one["model"] == _OTHERS]
    following = others if price["model"] == _OTHERS else begins
    if following:
        at, before, after = following[0], [], ["\n"]
    else:
        at, before, after = _end(lines, begins[-1]) if begins else len(lines), ["\n"], []
    return "".join([*lines[:at], *before, *made, *after, *lines[at:]])


def _amount(value: object) -> Decimal:
    """A rate; 0 for what is none, which the configuration tells of."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)
    return Decimal(0) if amount.is_nan() else amount


def _identity(price: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(price.get(name, 0 if name == "above" else None)) for name in _IDENTITY)


def _end(lines: list[str], begin: int) -> int:
    """Where a table ends that begins in a line: what stands in comments right before the next one
    belongs to that."""
    end = begin + 1
    while end < len(lines) and not lines[end].lstrip().startswith("["):
        end += 1
    own = dropwhile(lambda line: not line.partition("#")[0].strip(), reversed(lines[begin:end]))
    return begin + len(list(own))

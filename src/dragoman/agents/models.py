"""A model as agents are shown it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from dragoman.prices.rates import Price

UNKNOWN_WINDOW: Final = 128_000
"""The context window, in tokens, that agents get for a model whose window is not known."""


class ShownModel(Struct, frozen=True, kw_only=True):
    """One model under the name by which clients ask for it.

    `label` is what people read in its place. `behaves_as` is the model of Anthropic whose requests
    suit it, empty for the one of its own name. `context_window` and `max_output` are tokens, None
    where they are not known, as is `price`. `efforts` are the effort words that may be chosen. With
    `summarises` its reasoning can be summarised; `is_claude`: a model of Anthropic serves it.
    """

    name: str
    label: str
    description: str = ""
    behaves_as: str = ""
    context_window: int | None = None
    max_output: int | None = None
    images: bool = True
    efforts: tuple[str, ...] = ()
    summarises: bool = False
    price: Price | None = None
    is_claude: bool = False

"""Prices in other units than tokens of text, in whole pico-dollars."""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.usage import Units
from dragoman.prices.rates import Price


class UnitPrice(Struct, frozen=True):
    """The prices of one model by the image, character, second and request, and of tokens of images
    and sound. None: there is none."""

    image: int | None = None
    character: int | None = None
    second: int | None = None
    request: int | None = None
    image_input: int | None = None
    image_output: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None

    def difference(self, units: Units, price: Price) -> int:
        """By how much tokens of images and sound cost more than others at the same `price`."""
        counts = (
            (units.image_input, self.image_input, price.input),
            (units.audio_input, self.audio_input, price.input),
            (units.image_output, self.image_output, price.output),
            (units.audio_output, self.audio_output, price.output),
        )
        return sum(count * (rate - usual) for count, rate, usual in counts if rate is not None)

    def is_free(self, price: Price) -> bool:
        """Whether nothing has a price: the model costs nothing, whatever is counted."""
        return self == NO_UNITS and not any((*price.rates, price.search, price.request))


NO_UNITS = UnitPrice()

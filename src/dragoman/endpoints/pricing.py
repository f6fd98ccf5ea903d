"""What a request to an endpoint costs."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.endpoints.table import Row
from dragoman.endpoints.usage import Measured
from dragoman.prices.lookup import MOST_COST, Basis, Charge
from dragoman.prices.rates import Price
from dragoman.prices.units import UnitPrice
from dragoman.serving.plan import Plan


def charge_of(row: Row, plan: Plan, measured: Measured, now: float) -> Charge:
    """The cost at `now` (Unix seconds) of what was measured, by the target of a plan. None where
    the unit of the row has no price: it is not free by accident."""
    usage, model = measured.usage, plan.target.model
    if row.unit is None and not model:
        return Charge(Basis(), 0)
    charge = plan.quote.charge(usage, now)
    price = plan.quote.priced(usage.tier, usage.input)[1]
    own = plan.prices.units(plan.upstream.name, model)
    cost = _cost(row, measured, price, own)
    if cost is not None:
        cost += own.request or 0
        cost = cost if 0 <= cost <= MOST_COST else None
    return charge if cost == charge.cost else replace(charge, cost=cost)


def _cost(row: Row, measured: Measured, price: Price | None, own: UnitPrice) -> int | None:
    usage, units = measured.usage, measured.units
    if price is None:
        return 0 if row.unit is None else None
    by_tokens = price.cost_of(usage) + own.difference(units, price)
    if row.unit in (None, "tokens") or own.is_free(price):
        return by_tokens
    if row.unit == "searches":
        return by_tokens if price.search or price.input else None
    count, rate = {
        "images": (units.images, own.image),
        "characters": (units.characters, own.character),
        "seconds": (units.seconds, own.second),
        "requests": (1, own.request and 0),
    }[row.unit]
    if rate is not None:
        return round(count * rate)
    outputs = (price.output, own.image_output, own.audio_output)
    return by_tokens if usage.total and any(outputs) else None

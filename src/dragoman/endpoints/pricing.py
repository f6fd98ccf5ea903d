"""What a request to an endpoint costs."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.endpoints.table import Row
from dragoman.endpoints.usage import Measured
from dragoman.prices.lookup import Basis, Charge
from dragoman.serving.plan import Plan


def charge_of(row: Row, plan: Plan, measured: Measured, now: float) -> Charge:
    """The cost at `now` (Unix seconds) of what was measured, by the target of a plan."""
    target = plan.target
    if row.unit is None and not target.model:
        return Charge(Basis(), 0)
    charge = plan.prices.charge(target.upstream.name, target.model, measured.usage, now)
    if charge.cost is None and row.unit is None:
        return replace(charge, cost=0)
    return charge

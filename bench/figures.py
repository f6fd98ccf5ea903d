"""What several figures together say: ratios, quantiles, and which belong to each other."""

import statistics
from collections.abc import Sequence
from math import nan

from bench.measure import Cell
from bench.plan import Figures, Results, Row


def floor_of(results: Results, row: Row) -> Figures:
    """The figures of the row that a row is compared with; empty ones if there is none."""
    return next((fig for other, fig in results.rows if other.name == row.floor), Figures())


def same_cell(results: Results, target: str, cell: Cell) -> Figures | None:
    """The figures of a target for a cell."""
    for row, figures in results.rows:
        if row.target.name == target and row.cell == cell:
            return figures
    return None


def ratio(figures: Figures, to: Figures, name: str) -> float:
    """The median of the ratios of the rounds, NaN if there is none.

    Two rows are compared within each round, when the machine was in one mood.
    """
    ours: list[float] = getattr(figures, name)
    theirs: list[float] = getattr(to, name)
    ratios = [over(mine, other) for mine, other in zip(ours, theirs, strict=False)]
    return statistics.median(ratios) if ratios else nan


def difference(figures: Figures, to: Figures, name: str) -> float:
    """As `ratio`, for the difference."""
    ours: list[float] = getattr(figures, name)
    theirs: list[float] = getattr(to, name)
    found = [mine - other for mine, other in zip(ours, theirs, strict=False)]
    return statistics.median(found) if found else nan


def over(value: float, floor: float) -> float:
    """A quotient; NaN for none."""
    return value / floor if floor else nan


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of what is sorted; NaN if there is nothing."""
    if not ordered:
        return nan
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

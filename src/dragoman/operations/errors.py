"""What an operator cannot do, and why. The messages hold no secret."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.config.convert import suggestion
from dragoman.operations.rows import BadRow


class UnknownAccount(LookupError):
    """There is no account of this name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        super().__init__(f"no account named {name[:64]}{suggestion(name[:64], known)}")


class Conflict(ValueError):
    """It conflicts with what is there or configured. `field` names the field at fault, if any."""

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(message)


class NoModel(Conflict):
    """It is not known which model to ask an account for."""

    def __init__(self, upstream: str) -> None:
        problem = f"upstream {upstream}: no model to ask for is known"
        super().__init__(f"{problem}: name one, or set upstreams.probe", "model")


class ImportRejected(ValueError):
    """Rows of a list are bad, so nothing was imported."""

    def __init__(self, bad: tuple[BadRow, ...], rows: int) -> None:
        self.bad = bad
        self.rows = rows
        super().__init__(f"{len(bad)} of {rows} rows cannot be used, so nothing was imported")

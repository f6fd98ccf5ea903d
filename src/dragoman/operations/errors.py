"""What an operation cannot do, and why. The messages have no secret in them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.config.convert import suggestion
from dragoman.operations.inputs import FieldError, shortened


class BadRow(Struct, frozen=True):
    """A row of a list that cannot be used, and every fault of it. `name` is empty where there is
    none."""

    at: int
    name: str
    faults: tuple[FieldError, ...]


class Unknown(LookupError):
    """There is no such thing of this name."""

    def __init__(self, what: str, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        super().__init__(f"no {what} named {shortened(name)}{suggestion(name[:64], list(known))}")


class UnknownLimit(Unknown):
    """There is no limit of this number."""

    def __init__(self, name: str, number: int, count: int) -> None:
        message = f"{name} has no limit {number}"
        LookupError.__init__(
            self, f"{message}: they are numbered from 1 to {count}" if count else message
        )


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


class BadFile(ValueError):
    """A file cannot be read as a list; the message says why and repeats no secret."""


class ImportRejected(ValueError):
    """Rows of a list are bad, so nothing was imported."""

    def __init__(self, bad: tuple[BadRow, ...], rows: int) -> None:
        self.bad = bad
        self.rows = rows
        super().__init__(f"{len(bad)} of {rows} rows cannot be used, so nothing was imported")

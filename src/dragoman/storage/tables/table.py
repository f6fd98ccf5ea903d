"""The description of a table, which both databases are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Column(NamedTuple):
    """A column. `kind` is INTEGER, REAL, TEXT, BLOB, BOOLEAN, or SERIAL for a key that the database
    counts up; `rest` are its constraints. A name that PostgreSQL reserves is in quotes."""

    name: str
    kind: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `indexes` have what each is over by the end of its name."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: Mapping[str, str]
    is_clustered: bool
    """Rows are stored in the order of the key, where the database can."""
    fill_percent: int
    """How much of a page new rows take, so that updates of busy rows stay in their page."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def insertion(self) -> str:
        """The statement that inserts a row with a value for each column."""
        places = ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {self.name} ({', '.join(self.names)}) VALUES ({places})"


def make_table(
    name: str,
    columns: str,
    key: str,
    indexes: Mapping[str, str] | None = None,
    *,
    is_clustered: bool = True,
    fill_percent: int = 100,
) -> Table:
    """A table whose columns and key are written as in SQL."""
    return Table(
        name,
        tuple(Column(*definition.split(maxsplit=2)) for definition in columns.split(",")),
        tuple(part.strip() for part in key.split(",")),
        indexes or {},
        is_clustered,
        fill_percent,
    )

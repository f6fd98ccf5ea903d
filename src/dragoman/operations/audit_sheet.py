"""The log of changes as CSV, whose cells spreadsheets read as texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from dragoman.audit import Fields, Line

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that spreadsheets take for formulas (OWASP, CSV injection)."""

_AUDIT = ("number", "time", "who", "from", "action", "kind", "name", "before", "after")


def audit_sheet(lines: Iterable[Line]) -> bytes:
    """One row for each change."""
    return _sheet(_AUDIT, map(_audit_cells, lines))


def _audit_cells(line: Line) -> Sequence[str]:
    return (
        str(line.id),
        datetime.fromtimestamp(line.at, UTC).isoformat(timespec="seconds"),
        line.who,
        line.address or line.origin,
        line.action,
        line.kind,
        line.name,
        _fields(line.before),
        _fields(line.after),
    )


def _fields(fields: Fields | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (fields or {}).items())


def _sheet(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    written = io.StringIO()
    sheet = csv.writer(written)
    sheet.writerow(heading)
    for row in rows:
        sheet.writerow([f"'{cell}" if cell.startswith(_FORMULAS) else cell for cell in row])
    return written.getvalue().encode()

"""Lists of accounts in files: CSV, JSON and JSON lines, read row by row.

    for row in read_csv(lines, resolve):
        ...                                  # a Row, or a BadRow that says what is wrong

A bad row does not end the reading; a file that is no list raises `BadFile`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO, Literal

import msgspec
from msgspec import Struct

from dragoman import jsontext
from dragoman.config.convert import Resolve, suggestion
from dragoman.jsontext import JsonError
from dragoman.operations.account_fields import FIELDS, SECRETS, AccountChanges
from dragoman.operations.account_views import AccountView
from dragoman.operations.errors import BadFile, BadRow
from dragoman.operations.inputs import FieldError, InvalidInput, read_input, shortened

Format = Literal["csv", "json", "jsonl"]

_WHOLE = ("priority", "max_concurrent")
_NUMBERS = ("weight", "balance")
_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 1024 * 1024
_BETWEEN_MODELS = re.compile(r"[;\s]+")


class Row(Struct, frozen=True):
    """`AccountChanges` of one account. `at` is the line it begins on, or in a JSON document its
    number; both from 1."""

    at: int
    changes: Any


def read_csv(lines: Iterable[str], resolve: Resolve) -> Iterator[Row | BadRow]:
    """Rows of a CSV file whose first line names the columns, which are fields of an account.

    Columns are separated by comma, semicolon or tab, as the first line has it. Models are
    separated by blanks or semicolons, headers are a JSON object. An empty cell of a secret leaves
    it as it is; any other empty cell is the default.

    Raises:
        BadFile: no columns are named, or it is not CSV.
    """
    source = iter(lines)
    heading = next(source, "").lstrip("\ufeff")
    delimiter = max(",;\t", key=heading.count)
    try:
        named = next(csv.reader([heading], delimiter=delimiter), [])
    except csv.Error as error:
        raise BadFile(f"line 1: {error}") from None
    columns = [cell.strip().lower() for cell in named]
    _check(columns)
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    while True:
        at = reader.line_num + 2
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise BadFile(f"line {at}: {error}") from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield _of_cells(at, columns, cells, resolve)


def read_json_lines(lines: Iterable[bytes], resolve: Resolve) -> Iterator[Row | BadRow]:
    """Rows of a file with one JSON object on each line; empty lines are skipped."""
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = jsontext.decode(line)
        except JsonError:
            yield BadRow(at, "", (FieldError("", "not JSON"),))
        else:
            yield _of_value(at, value, resolve)


def read_json(document: bytes, resolve: Resolve) -> Iterator[Row | BadRow]:
    """Rows of a JSON document: a list of objects, or an object that has one as `accounts`.

    Raises:
        BadFile: it is no such document.
    """
    try:
        value = jsontext.decode(document)
    except JsonError:
        raise BadFile("not JSON") from None
    entries = value.get("accounts") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise BadFile('expected a list of accounts, or an object with such a list as "accounts"')
    for at, entry in enumerate(entries, 1):
        yield _of_value(at, entry, resolve)


def rows_of(
    file: BinaryIO, resolve: Resolve, *, kind: str | None = None, name: str = ""
) -> Iterator[Row | BadRow]:
    """Rows of a file of the format `kind`, by default recognised by its `name` or else its first
    bytes.

    Raises:
        BadFile: it cannot be read as that.
    """
    beginning = b""
    if kind is None:
        beginning = file.readline(_LONGEST_LINE)
        kind = _kind(name, beginning)
    begun = [beginning] if beginning else []
    if kind == "json":
        yield from read_json(beginning + file.read(), resolve)
    elif kind == "jsonl":
        yield from read_json_lines(chain(begun, file), resolve)
    else:
        try:
            yield from read_csv(_decoded(chain(begun, file)), resolve)
        except UnicodeDecodeError:
            raise BadFile("not UTF-8") from None


def written(views: Iterable[AccountView], kind: str) -> Iterator[str]:
    """A list of accounts without their secrets, in pieces, which `rows_of` reads."""
    if kind == "csv":
        yield csv_line(PLAIN_FIELDS)
    elif kind == "json":
        yield "["
    for number, view in enumerate(views):
        values = {field: getattr(view, field) for field in PLAIN_FIELDS}
        if kind == "csv":
            yield csv_line(_cell(value) for value in values.values())
        else:
            line = msgspec.json.encode(values).decode()
            yield f"{line}\n" if kind == "jsonl" else ("," if number else "") + f"\n{line}"
    if kind == "json":
        yield "\n]\n"


PLAIN_FIELDS = tuple(name for name in FIELDS if name not in SECRETS)
"""Fields of an account that are no secret, in order."""


def _kind(name: str, beginning: bytes) -> Format:
    ending = name.lower().rpartition(".")[2]
    if ending == "csv":
        return "csv"
    if ending in ("jsonl", "ndjson"):
        return "jsonl"
    start = beginning.removeprefix(_BOM).lstrip()
    if start.startswith(b"["):
        return "json"
    if start.startswith(b"{"):
        # A line that is an object by itself, and is not the whole of a document.
        try:
            value = jsontext.decode(start)
        except JsonError:
            return "json"
        return "json" if isinstance(value, dict) and "accounts" in value else "jsonl"
    return "json" if ending == "json" else "csv"


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        yield line.decode()


def csv_line(cells: Iterable[str]) -> str:
    """One line of CSV, with its end."""
    return ",".join(_quoted(cell) for cell in cells) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ";".join(value)
    return repr(value) if isinstance(value, float) else str(value)


def _quoted(cell: str) -> str:
    if re.search(r'[",;\s]', cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _check(columns: list[str]) -> None:
    # The line is not repeated: where the heading is missing it is an account, with its key.
    if "name" not in columns:
        raise BadFile(f"the first line must name the columns: {', '.join(FIELDS)}")
    for column in columns:
        if column not in FIELDS:
            near = suggestion(column[:64], FIELDS)
            raise BadFile(f"no such column: {shortened(column) or '(empty)'}{near}")
        if columns.count(column) > 1:
            raise BadFile(f"the column {column} is there twice")


def _of_cells(at: int, columns: list[str], cells: list[str], resolve: Resolve) -> Row | BadRow:
    values = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
    if len(cells) > len(columns):
        problem = f"{len(cells)} cells for {len(columns)} columns"
        return BadRow(at, _name(values), (FieldError("", problem),))
    faults: list[FieldError] = []
    typed: dict[str, object] = {}
    for column, cell in values.items():
        if cell or column not in SECRETS:
            try:
                typed[column] = _typed(column, cell)
            except ValueError as error:
                faults.append(FieldError(column, str(error)))
    return _row(at, typed, resolve, faults)


_texts = jsontext.decoder(dict[str, str])


def _typed(column: str, cell: str) -> object:
    if not cell:
        return None
    if column == "models":
        return _BETWEEN_MODELS.split(cell.strip("; "))
    if column == "headers":
        try:
            return _texts(cell)
        except JsonError:
            raise ValueError("expected a JSON object of texts") from None
    if column in _WHOLE:
        try:
            return int(cell)
        except ValueError:
            raise ValueError("expected a whole number") from None
    if column in _NUMBERS:
        try:
            return float(cell)
        except ValueError:
            raise ValueError("expected a number") from None
    return cell


def _of_value(at: int, value: Any, resolve: Resolve) -> Row | BadRow:
    if not isinstance(value, dict):
        return BadRow(at, "", (FieldError("", "expected an object"),))
    return _row(at, value, resolve, [])


def _row(
    at: int, values: dict[str, object], resolve: Resolve, faults: list[FieldError]
) -> Row | BadRow:
    try:
        made = read_input(AccountChanges, values, resolve)
    except InvalidInput as error:
        faults.extend(error.faults)
    if faults:
        return BadRow(at, _name(values), tuple(faults))
    return Row(at, made)


def _name(values: dict[str, Any]) -> str:
    name = values.get("name")
    return shortened(name) if isinstance(name, str) else ""

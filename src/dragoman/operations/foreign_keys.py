"""Client keys of other gateways, as these export them: what each row means here.

Sources: LiteLLM's table `LiteLLM_VerificationToken` (schema.prisma; `token` is the SHA-256 of the
whole key, in hexadecimal), new-api's table `tokens` (model/token.go; `key` is the key without its
`sk-`, in plain text), and OpenRouter's list of keys (`GET /api/v1/keys`), which has no key in it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import Any, BinaryIO, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.config.limits import MOST, MOST_DOLLARS
from dragoman.jsontext import JsonError
from dragoman.keys.secrets import digest_of, ending_of
from dragoman.operations.errors import BadFile, BadRow
from dragoman.operations.inputs import FieldError, shortened

Source = Literal["litellm", "new-api", "openrouter"]

Values = Mapping[str, Any]

_LISTS = ("keys", "data", "items", "tokens")
"""Members in which exports have their list."""

_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{64}\Z")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 64
_BETWEEN = re.compile(r"[,;\s]+")
_DURATION = re.compile(r"([1-9][0-9]{0,5})(s|m|h|d|mo)\Z")
_QUOTA_UNITS = 500_000
"""What new-api counts for a US dollar (common.QuotaPerUnit)."""
_SHORTEST_KEY = 8
_UNSET = frozenset({"", "{}", "[]", "0", "0.0", "null", "none", "false", "f"})

_TIMES = ("created_at", "updated_at", "created_by", "updated_by", "last_active")
_MEANINGLESS: Mapping[Source, Collection[str]] = {
    "litellm": (*_TIMES, "user_id", "budget_reset_at", "last_rotation_at", "rotation_count"),
    "new-api": (*_TIMES, "user_id", "created_time", "accessed_time", "used_quota"),
    "openrouter": (
        *(*_TIMES, "creator_user_id", "byok_usage", "usage"),
        *(
            f"{of}_{span}"
            for of in ("usage", "byok_usage")
            for span in ("daily", "weekly", "monthly")
        ),
    ),
}
"""Columns that mean nothing here: when a key was made and by whom, and use that the rest of a limit
includes."""


class ForeignKey(Struct, frozen=True, kw_only=True):
    """A key to be added. `digest` is the SHA-256 of its secret, None where nobody knows that, and
    `ending` its last characters. `team` is its team at the other gateway; `left_out` names what is
    not taken over. Of rows with the same `name`, `id` distinguishes them."""

    at: int
    name: str
    id: str
    digest: bytes | None
    ending: str
    fields: Mapping[str, Any]
    team: str = ""
    left_out: tuple[str, ...] = ()


class _Reader:
    """Reads the values of one row, and collects what is wrong with them in `faults`."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._read: set[str] = set()
        self.faults: list[FieldError] = []

    def fail(self, name: str, message: str) -> None:
        self.faults.append(FieldError(name, message))

    def text(self, name: str) -> str:
        self._read.add(name)
        value = self._values.get(name)
        return "" if value is None else str(value).strip()

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("", "0", "1", "f", "t", "false", "true", "no", "yes"):
            self.fail(name, "expected true or false")
        return text in ("1", "t", "true", "yes")

    def number(self, name: str, most: int = MOST) -> Decimal | None:
        """A number from 0 to `most`."""
        text = self.text(name)
        if not text or text.lower() == "null":
            return None
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal(-1)
        if not (number.is_finite() and 0 <= number <= most):
            self.fail(name, f"expected a number from 0 to {most}")
            return None
        return number

    def moment(self, name: str) -> str | None:
        """A time as text with its zone; UTC where it has none."""
        text = self.text(name)
        if text in ("", "-1", "0") or text.lower() == "null":
            return None
        try:
            if re.fullmatch(r"\d{9,12}", text):
                return datetime.fromtimestamp(int(text), UTC).isoformat()
            moment = datetime.fromisoformat(text)
        except (ValueError, OverflowError, OSError):
            self.fail(name, "expected a time")
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()

    def texts(self, name: str) -> list[str]:
        """A list: of JSON, of PostgreSQL (`{a,b}`), or with commas."""
        self._read.add(name)
        value = self._values.get(name)
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("["):
                try:
                    value = jsontext.decode(text)
                except JsonError:
                    value = None
            else:
                parts = _BETWEEN.split(text.removeprefix("{").removesuffix("}"))
                value = [part.strip('"') for part in parts]
        if value is None or value == {}:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fail(name, "expected a list of texts")
            return []
        return [one for one in value if one]

    def left_out(self, meaningless: Collection[str]) -> tuple[str, ...]:
        """The columns that were not read, without those that are `meaningless`; of an object its
        members."""
        names: list[str] = []
        for name, value in self._values.items():
            if name in self._read or name in meaningless:
                continue
            inner = value
            if isinstance(value, str) and value.lstrip().startswith("{"):
                with suppress(JsonError):
                    inner = jsontext.decode(value)
            if isinstance(inner, dict):
                names += [f"{name}.{member}" for member, one in inner.items() if _is_set(one)]
            elif _is_set(value):
                names.append(name)
        return tuple(shortened(name) for name in names)

    def plain_key(self, name: str, text: str) -> bytes | None:
        """The SHA-256 of a key in plain text."""
        if "*" in text or "..." in text:
            self.fail(name, "is masked: the whole key is needed")
        elif len(text) < _SHORTEST_KEY or not text.isascii() or not text.isprintable():
            self.fail(name, f"expected a key of at least {_SHORTEST_KEY} characters")
        else:
            return digest_of(text.encode())
        return None


def _is_set(value: object) -> bool:
    return str(value).strip().lower() not in _UNSET


def _limit(kind: str, amount: Decimal, window: str | None) -> dict[str, Any]:
    """A limit as the configuration has it."""
    value: int | str = f"{amount:.6f}".rstrip("0").rstrip(".") if kind == "cost" else int(amount)
    limit: dict[str, Any] = {"kind": kind, "amount": value}
    return limit if window is None else {**limit, "window": window}


def _litellm(row: _Reader, at: int) -> ForeignKey:
    token, alias = row.text("token"), row.text("key_alias")
    digest = None
    if _HEXADECIMAL.match(token):
        digest = bytes.fromhex(token)
    elif token.startswith("sk-"):
        digest = row.plain_key("token", token)
    else:
        row.fail("token", "expected the SHA-256 of a key in hexadecimal")
    fields: dict[str, Any] = {"enabled": not row.flag("blocked"), "expires": row.moment("expires")}
    models = row.texts("models")
    if "no-default-models" in models:
        row.fail("models", "no-default-models is not known here: name the models")
    if models and not {"all-proxy-models", "all-team-models"} & set(models):
        fields["models"] = models
    limits = []
    for name, kind, window in (
        ("rpm_limit", "requests", "1m"),
        ("tpm_limit", "tokens", "1m"),
        ("max_parallel_requests", "concurrent", None),
    ):
        if (number := row.number(name)) is not None:
            limits.append(_limit(kind, number, window))
    if (budget := row.number("max_budget", MOST_DOLLARS)) is not None:
        limits.append(_limit("cost", budget, _window(row, "budget_duration")))
    if limits:
        fields["limits"] = limits
    lost = ("models: those of its team",) if "all-team-models" in models else ()
    shown, team = row.text("key_name"), row.text("team_id")
    return ForeignKey(
        at=at,
        name=alias or f"litellm-{token[:8].lower()}",
        id=token[:8].lower(),
        digest=digest,
        ending=ending_of(shown or token) if shown or token.startswith("sk-") else "",
        fields=fields,
        team=row.text("team_alias") or team,
        left_out=lost,
    )


def _window(row: _Reader, name: str) -> str:
    """LiteLLM's span of a budget as the window of a limit."""
    text = row.text(name)
    if not text:
        return "total"
    found = _DURATION.match(text)
    if found is None or (found[2] == "mo" and found[1] != "1"):
        row.fail(name, "expected a span such as 30s, 30m, 24h, 30d or 1mo")
        return "total"
    return "month" if found[2] == "mo" else text


def _new_api(row: _Reader, at: int) -> ForeignKey:
    text, id = row.text("key"), row.text("id")
    key = text if text.startswith("sk-") else f"sk-{text}"
    digest = row.plain_key("key", key if text else "")
    status = row.text("status") or "1"
    fields: dict[str, Any] = {
        "enabled": status == "1",
        "expires": row.moment("expired_time"),
        "addresses": row.texts("allow_ips") or None,
    }
    models = row.texts("model_limits")
    if row.flag("model_limits_enabled"):
        fields["models"] = models
    if not row.flag("unlimited_quota"):
        # A token may have used more than it had.
        spent = row.text("remain_quota").startswith("-")
        most = MOST_DOLLARS * _QUOTA_UNITS
        rest = Decimal() if spent else row.number("remain_quota", most) or Decimal()
        fields["limits"] = [_limit("cost", rest / _QUOTA_UNITS, "total")]
    group = row.text("group")
    return ForeignKey(
        at=at,
        name=row.text("name") or f"token-{id or at}",
        id=id or str(at),
        digest=digest,
        ending=ending_of(key),
        fields=fields,
        left_out=("group",) if group not in ("", "default") else (),
    )


def _openrouter(row: _Reader, at: int) -> ForeignKey:
    key, label, id = row.text("key"), row.text("label"), row.text("hash")[-8:]
    fields: dict[str, Any] = {
        "enabled": not row.flag("disabled"),
        "expires": row.moment("expires_at"),
    }
    amount, reset = row.number("limit", MOST_DOLLARS), row.text("limit_reset").lower()
    windows = {"": "total", "null": "total", "daily": "day", "weekly": "week", "monthly": "month"}
    if reset not in windows:
        row.fail("limit_reset", "expected daily, weekly, monthly or nothing")
    elif amount is not None:
        rest = row.number("limit_remaining", MOST_DOLLARS)
        whole = windows[reset] != "total" or rest is None
        fields["limits"] = [_limit("cost", amount if whole else rest or Decimal(), windows[reset])]
    name = row.text("name") or label
    if not name:
        row.fail("name", "required")
    return ForeignKey(
        at=at,
        name=name,
        id=id or str(at),
        digest=row.plain_key("key", key) if key else None,
        ending=ending_of(key),
        fields=fields,
    )


_READERS: Mapping[str, Callable[[_Reader, int], ForeignKey]] = {
    "litellm": _litellm,
    "new-api": _new_api,
    "openrouter": _openrouter,
}


def read_keys(file: BinaryIO, source: Source) -> list[ForeignKey | BadRow]:
    """The keys of an export: CSV whose first line names the columns, a JSON list of objects or an
    object that has one, or JSON lines. What was deleted there is skipped.

    Raises:
        BadFile: it is none of these. The message repeats nothing of it.
    """
    found: list[ForeignKey | BadRow] = []
    for at, values in _rows(file.read()):
        if not isinstance(values, dict) or None in values:
            problem = (
                "expected as many cells as columns"
                if isinstance(values, dict)
                else "expected an object"
            )
            found.append(BadRow(at, "", (FieldError("", problem),)))
            continue
        if values.get("deleted_at") or values.get("DeletedAt"):
            continue
        row = _Reader(values)
        key = _READERS[source](row, at)
        key = replace(key, left_out=(*key.left_out, *row.left_out(_MEANINGLESS[source])))
        if row.faults:
            found.append(BadRow(at, shortened(key.name), tuple(row.faults)))
        else:
            found.append(key)
    return found


def fitting_name(key: ForeignKey, taken: Iterable[str]) -> str:
    """The name of a key in the characters that names have here, unlike others in the same list."""
    name = _NOT_IN_NAMES.sub("-", key.name).strip("-_.")[:_LONGEST_NAME] or f"key-{key.id}"
    if name not in taken:
        return name
    ending = f"-{_NOT_IN_NAMES.sub('-', key.id)}"
    return name[: _LONGEST_NAME - len(ending)] + ending


def _rows(document: bytes) -> Iterator[tuple[int, Any]]:
    try:
        text = document.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("not UTF-8") from None
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        yield from _csv_rows(text)
        return
    try:
        value = jsontext.decode(text)
    except JsonError:
        yield from _json_lines(text)
        return
    if isinstance(value, dict):
        lists = [value[name] for name in _LISTS if isinstance(value.get(name), list)]
        inner = value.get("data")
        if isinstance(inner, dict):
            lists += [inner[name] for name in _LISTS if isinstance(inner.get(name), list)]
        value = lists[0] if lists else [value]
    yield from enumerate(value, 1)


def _lines(text: str) -> StringIO:
    """The lines of a file with their ends, of whatever system. Other characters that Unicode calls
    the end of a line, such as U+2028, are part of texts."""
    return StringIO(text, newline="")


def _json_lines(text: str) -> Iterator[tuple[int, Any]]:
    for at, line in enumerate(_lines(text), 1):
        if line.strip():
            try:
                yield at, jsontext.decode(line)
            except JsonError:
                raise BadFile(f"line {at}: not JSON") from None


def _csv_rows(text: str) -> Iterator[tuple[int, Any]]:
    lines = list(_lines(text))
    heading = lines[0] if lines else ""
    delimiter = max(",;\t", key=heading.count)
    reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
    try:
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        if not {"token", "key", "hash", "name"} & set(columns):
            # The line is not repeated: where the heading is missing it has a key.
            raise BadFile("the first line must name the columns")
        reader.fieldnames = columns
        for values in reader:
            if None in values.values():
                # What is cut off may be the limits of a key: it is marked like what is too long.
                values[None] = []
            yield reader.line_num, values
    except csv.Error as error:
        raise BadFile(f"line {reader.line_num}: {error}") from None

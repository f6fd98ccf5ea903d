"""Finds the differences of two observations, and groups them by the place where they are.

An observation is made of dictionaries, lists and scalars. Text that holds JSON or server-sent
events is compared by its bytes first; where these differ, by what they hold.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

ABSENT = "(absent)"
_MOST = 40
"""Differences that are reported of one observation."""

_VARIABLE = re.compile(
    r"\b(?P<prefix>[a-z]{2,8}[_-])(?P<id>[0-9a-f]{24,32}|[a-p]{24})\b"
    r"|\b(?P<date>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?)"
    r"|(?P<second>\b1[78]\d{8}\b)"
    r"|127\.0\.0\.1:(?P<port>\d+)"
    r"|(?P<folder>/tmp/differential-\w+/\w+-gateway)"
    r"|\bsk-drg-(?P<secret>\w+)"
    r"|back in (?P<back>\d+ (?:s|min|h))"
)


class Normaliser:
    """Replaces what differs from run to run: ids by their order, times, ports, folders, keys."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.now = time.time()

    def __call__(self, value: Any) -> Any:
        """The observation with nothing in it that only this run has."""
        if isinstance(value, str):
            return _VARIABLE.sub(self._replace, value)
        if isinstance(value, dict):
            return {self(name): self(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self(inner) for inner in value]
        return value

    def _replace(self, found: re.Match[str]) -> str:
        text = found.group()
        match found.lastgroup:
            case "id":
                return self.ids.setdefault(text, f"{found['prefix']}#{len(self.ids)}")
            case "date":
                return "<time>"
            case "second":
                return "<now>" if abs(int(text) - self.now) < 100_000 else text
            case kind:
                return f"<{kind}>"


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places at which two observations differ, with what stands there in each."""
    if isinstance(old, str) and isinstance(new, str):
        if old == new:
            return
        held = _held(old), _held(new)
        if held == (old, new):
            yield place, old, new
        elif not list(differences(*held)):
            at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
            yield (
                f"{place} (spelling)",
                old[max(0, at - 40) : at + 40],
                new[max(0, at - 40) : at + 40],
            )
        else:
            yield from differences(*held, place)
    elif isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            inner = old.get(name, ABSENT), new.get(name, ABSENT)
            yield from differences(*inner, f"{place}.{name}" if place else str(name))
        if old.keys() == new.keys() and list(old) != list(new):
            yield f"{place} (order of members)", list(old), list(new)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, place)
    elif type(old) is not type(new) or old != new:
        yield place, old, new


def _of_lists(old: list[Any], new: list[Any], place: str) -> Iterator[tuple[str, Any, Any]]:
    """Differences of lists: of items with names by these, of others in order, up to the first that
    are not of one kind."""
    named = _by_name(old), _by_name(new)
    if named[0] and named[1]:
        yield from differences(*named, place)
        return
    for before, after in zip(old, new, strict=False):
        kinds = _kind(before), _kind(after)
        if kinds[0] != kinds[1]:
            yield f"{place}[*] (kind)", kinds[0], kinds[1]
            return
        yield from differences(before, after, f"{place}[{kinds[0] or '*'}]")
    if len(old) != len(new):
        more = old[len(new) :] or new[len(old) :]
        which = "missing" if len(old) > len(new) else "added"
        yield (
            f"{place}[{_kind(more[0]) or '*'}] ({which})",
            old[len(new) :][:2],
            new[len(old) :][:2],
        )


def _by_name(items: list[Any]) -> dict[str, Any]:
    """The items by their names; nothing if one has none, or two have the same."""
    for member in ("key", "name"):
        names = [item.get(member) for item in items if isinstance(item, dict)]
        if len({name for name in names if isinstance(name, str)}) == len(items):
            return {f"[{name}]": item for name, item in zip(names, items, strict=True)}
    return {}


def _kind(item: Any) -> str:
    """The kind of a list's item: an event's or a block's type, a loss's kind."""
    if not isinstance(item, dict):
        return ""
    inner = item.get("data")
    named = inner.get("type") if isinstance(inner, dict) else None
    return str(item.get("type") or item.get("event") or named or item.get("kind") or "")


def _held(text: str) -> Any:
    """What a text holds: events or JSON, or itself."""
    if re.match(r"(event|data|id|retry)?:", text):
        return [_frame(frame) for frame in re.split(r"\r?\n\r?\n", text) if frame]
    try:
        return msgspec.json.decode(text) if text[:1] in ("{", "[") else text
    except (msgspec.DecodeError, UnicodeError):
        return text


def _frame(frame: str) -> dict[str, Any]:
    lines = [line.partition(":") for line in frame.splitlines()]
    found: dict[str, Any] = {}
    for name, _, value in lines:
        key = name or "comment"
        found[key] = f"{found[key]}\n{value.strip()}" if key in found else value.strip()
    if "data" in found:
        found["data"] = _held(found["data"])
    return found


@dataclass(frozen=True, slots=True)
class Expected:
    """Differences that are intended: patterns of a group, cell and place, and the reason. Those
    with `new` are only of observations whose new version holds this text."""

    place: str
    reason: str
    group: str = "*"
    cell: str = "*"
    new: str = ""

    def fits(self, key: tuple[str, str, str]) -> bool:
        """Whether a difference is one of these."""
        patterns = self.group, self.cell, self.place
        return all(fnmatchcase(text, pattern) for text, pattern in zip(key, patterns, strict=True))


def expected_in(path: Path) -> list[Expected]:
    """The expected differences that a file lists."""
    return [Expected(**entry) for entry in tomllib.loads(path.read_text()).get("expected", [])]


@dataclass(slots=True)
class Found:
    """A kind of difference: how often it was found, and one example."""

    old: Any
    new: Any
    source: bytes
    count: int = 0
    cells: set[str] = field(default_factory=set)


class Report:
    """The differences that were found, grouped by where they are."""

    def __init__(self, expected: list[Expected]) -> None:
        self.expected = expected
        self.count = 0
        """Observations that were compared."""
        self.unexpected: dict[tuple[str, str], Found] = {}
        self.explained: dict[str, int] = {}

    def compare(self, group: str, cell: str, old: Any, new: Any, source: bytes) -> None:
        """Add the differences of two observations of the request in `source`."""
        old, new = Normaliser()(old), Normaliser()(new)
        text = str(new)
        for number, (place, before, after) in enumerate(differences(old, new)):
            if number == _MOST:
                break
            reason = self._reason((group, cell, place), text)
            if reason:
                self.explained[reason] = self.explained.get(reason, 0) + 1
            else:
                self._add(group, cell, place, before, after, source)

    def _reason(self, key: tuple[str, str, str], text: str) -> str:
        """The reason of an expected difference, empty if it is none."""
        reasons = (one.reason for one in self.expected if one.fits(key) and one.new in text)
        return next(reasons, "")

    def _add(self, group: str, cell: str, place: str, old: Any, new: Any, source: bytes) -> None:
        found = self.unexpected.setdefault((group, place), Found(old, new, source))
        found.count += 1
        found.cells.add(cell)

    def text(self, length: int) -> str:
        """The report for a terminal: the most frequent differences first."""
        lines = [f"{self.count} compared"]
        lines += [f"expected, {count} times: {reason}" for reason, count in self.explained.items()]
        ranked = sorted(self.unexpected.items(), key=lambda item: -item[1].count)
        for (group, place), found in ranked:
            lines += ["", f"{found.count} x {group}: {place}   [{', '.join(sorted(found.cells))}]"]
            for name, value in (("old", found.old), ("new", found.new), ("of", found.source)):
                shown = value if isinstance(value, str) else repr(value)
                lines.append(f"    {name}: {shown[:length]}")
        lines += ["", f"{len(ranked)} kinds of differences that are not expected"]
        return "\n".join(lines) + "\n"

"""The difference between two configurations, and what of it needs a restart. Pure.

Only names are listed, never values: a value may be a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from dragoman.config.settings import Config, OwnPrice

MOST_NAMES = 50
"""Names that are listed of one kind of change; further ones are only counted."""


class Names(Struct, frozen=True, omit_defaults=True):
    """Names of entries, at most `MOST_NAMES`, and how many more there are."""

    names: tuple[str, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.names)

    def __str__(self) -> str:
        listed = ", ".join(self.names)
        return f"{listed} and {self.more} more" if self.more else listed


_NONE = Names()
"""Defaults are omitted by identity; `__reduce__` keeps the singleton across processes."""


def _names(names: tuple[str, ...], more: int) -> Names:
    return Names(names, more) if names else _NONE


class TableChanges(Struct, frozen=True, omit_defaults=True):
    """The entries of one list of tables that were added, removed and changed."""

    added: Names = _NONE
    removed: Names = _NONE
    changed: Names = _NONE

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


_UNCHANGED = TableChanges()


def _table_changes(added: Names, removed: Names, changed: Names) -> TableChanges:
    return TableChanges(added, removed, changed) if added or removed or changed else _UNCHANGED


class Changes(Struct, frozen=True, omit_defaults=True):
    """All differences. `settings` are the dotted names of other changed settings, `restart` those
    that take effect after a restart."""

    clients: TableChanges = _UNCHANGED
    teams: TableChanges = _UNCHANGED
    upstreams: TableChanges = _UNCHANGED
    accounts: TableChanges = _UNCHANGED
    routes: TableChanges = _UNCHANGED
    prices: TableChanges = _UNCHANGED
    settings: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)

    def __str__(self) -> str:
        return "; ".join(self.lines()) or "nothing changed"

    def lines(self) -> Iterator[str]:
        """The changes as text, one kind to a line."""
        for table in TABLES:
            found: TableChanges = getattr(self, table)
            for how in ("added", "removed", "changed"):
                names: Names = getattr(found, how)
                if names:
                    yield f"{table} {how}: {names}"
        if self.settings:
            yield f"settings changed: {', '.join(self.settings)}"
        if self.restart:
            yield f"needs a restart: {', '.join(self.restart)}"


TABLES = ("clients", "teams", "upstreams", "accounts", "routes", "prices")
"""The lists of tables whose entries are listed by name."""


def changes(old: Config, new: Config) -> Changes:
    """The changes from `old` to `new`."""
    found: list[str] = []
    restart: list[str] = []
    for name, kind in _settings():
        if name in TABLES:
            continue
        before, after = getattr(old, name), getattr(new, name)
        if needs_restart(kind):
            restart += _different(name, before, after)
            continue
        marked = restart_fields(type(after)) if isinstance(after, Struct) else ()
        for path in _different(name, before, after):
            (restart if path.rpartition(".")[2] in marked else found).append(path)
    if new.request_log.enabled and new.admin.is_served and not old.admin.is_served:
        # It is only written from the start.
        restart.append("request_log")
    routes = _table(_routes(old), _routes(new))
    if _is_reordered([*_routes(old)], [*_routes(new)]):
        found.append("order of routes")
    return Changes(
        clients=_table(_named(old.clients), _named(new.clients)),
        teams=_table(_named(old.teams), _named(new.teams)),
        upstreams=_table(_named(old.upstreams), _named(new.upstreams)),
        accounts=_table(_named(old.accounts), _named(new.accounts)),
        routes=routes,
        prices=_table(
            {_price_name(price): price for price in old.prices},
            {_price_name(price): price for price in new.prices},
        ),
        settings=tuple(found),
        restart=tuple(restart),
    )


def usable_now(old: Config, new: Config) -> Config:
    """`new` with the settings of `old` where a change needs a restart: what a running gateway can
    adopt."""
    unchanged: dict[str, Any] = {}
    for name, kind in _settings():
        before, after = getattr(old, name), getattr(new, name)
        if needs_restart(kind):
            unchanged[name] = before
        elif isinstance(after, Struct) and (marked := restart_fields(type(after))):
            unchanged[name] = replace(after, **{field: getattr(before, field) for field in marked})
    return replace(new, **unchanged)


def needs_restart(kind: Any) -> bool:
    """Whether a setting of this type is marked `RESTART`."""
    if get_origin(kind) is not Annotated:
        return False
    return any(
        isinstance(part, Meta) and bool(part.extra) and "restart" in (part.extra or {})
        for part in get_args(kind)[1:]
    )


def restart_fields(table: type[Struct]) -> frozenset[str]:
    """The settings of a table that are marked `RESTART`."""
    return frozenset(
        info.name for info in msgspec.structs.fields(table) if needs_restart(info.type)
    )


def _settings() -> Iterator[tuple[str, Any]]:
    for info in msgspec.structs.fields(Config):
        yield info.name, info.type


def _different(name: str, before: object, after: object) -> list[str]:
    """The dotted names of the settings that differ."""
    if before == after:
        return []
    if not isinstance(before, Struct) or not isinstance(after, Struct):
        return [name]
    fields = [info.name for info in msgspec.structs.fields(type(after))]
    return [
        f"{name}.{field}" for field in fields if getattr(before, field) != getattr(after, field)
    ] or [name]


def _named(entries: Iterable[Any]) -> dict[str, Any]:
    return {entry.name: entry for entry in entries}


def _routes(config: Config) -> dict[str, Any]:
    """Routes by their pattern; a further one of the same pattern has its number too."""
    seen: Counter[str] = Counter()
    found: dict[str, Any] = {}
    for route in config.routes:
        seen[route.match] += 1
        number = seen[route.match]
        found[route.match if number == 1 else f"{route.match} ({number})"] = route
    return found


def _price_name(price: OwnPrice) -> str:
    parts = [price.model]
    if price.upstream is not None:
        parts.append(f"at {price.upstream}")
    if price.tier is not None:
        parts.append(price.tier)
    if price.above:
        parts.append(f"above {price.above}")
    if price.since is not None:
        parts.append(f"since {price.since}")
    if price.hours is not None:
        parts.append(price.hours)
    return " ".join(parts)


def _table(old: Mapping[str, object], new: Mapping[str, object]) -> TableChanges:
    return _table_changes(
        _shortened(name for name in new if name not in old),
        _shortened(name for name in old if name not in new),
        _shortened(name for name in new if name in old and new[name] != old[name]),
    )


def _shortened(names: Iterable[str]) -> Names:
    found = list(names)
    return _names(tuple(found[:MOST_NAMES]), max(0, len(found) - MOST_NAMES))


def _is_reordered(old: list[Hashable], new: list[Hashable]) -> bool:
    """Whether the entries of both lists are in a different order."""
    before, after = set(old), set(new)
    return [one for one in old if one in after] != [one for one in new if one in before]

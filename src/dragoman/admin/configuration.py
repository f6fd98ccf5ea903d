"""The configuration below `/admin`, as it is served: read-only, and without its secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from dragoman.admin.calls import AdminRoute, Call, Note, Refusal, Reply, only
from dragoman.audit import Change
from dragoman.config import Config, Secret
from dragoman.config.changes import needs_restart, restart_fields
from dragoman.operations.configuration import version_of
from dragoman.processes.reload import Pending, Report

MASK = "•••"
"""Stands for a secret, of whatever length."""

_LISTED = ("upstreams", "routes")
_COUNTED = ("accounts", "clients", "teams", "prices")
"""Lists of which the number is told: their entries have paths of their own."""


class ReloadRequest(Struct, frozen=True):
    """How the configuration is read anew: `reload` does it for all workers, `pending` tells what
    that would change of the one that is served, and changes nothing."""

    reload: Callable[[], Awaitable[Report]]
    pending: Callable[[Config], Pending]


class ConfigurationRoutes:
    """What serves `/admin/config` and `/admin/reload`. `reload` is None where the configuration
    came from no file; `note` writes down who has it read."""

    def __init__(self, config: Config, reload: ReloadRequest | None, note: Note) -> None:
        self._config = config
        self._reload = reload
        self._note = note

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("config", {"GET": self._show}),
            AdminRoute("config/pending", {"GET": self._pending}),
            AdminRoute("reload", {"POST": self._read_anew}),
        ]

    async def _show(self, call: Call) -> Reply:
        only(call.query)
        return 200, configuration_view(self._config)

    async def _pending(self, call: Call) -> Reply:
        only(call.query)
        return 200, await self._read()

    async def _read_anew(self, call: Call) -> Reply:
        query = call.query
        only(query, "digest")
        wanted = query.get("digest")
        if wanted is not None:
            found = await self._read()
            # One that cannot be read is refused below, in the same words as ever.
            if not found.problems and found.digest != wanted:
                raise Refusal(412, "changed", "The file was changed meanwhile: look again.")
        asked, version = self._asked(), {"version": version_of(self._config)}
        # What comes of it the gateway itself writes down, which does not know who asked.
        await self._note(Change(action="ask_reload", kind="configuration", after=version))
        report = await asked.reload()
        if report.problems:
            message = "The configuration cannot be used; nothing was changed."
            more = {"problems": report.problems}
            raise Refusal(400, "invalid_configuration", message, more=more)
        return 200, report

    async def _read(self) -> Pending:
        return await asyncio.to_thread(self._asked().pending, self._config)

    def _asked(self) -> ReloadRequest:
        if self._reload is None:
            raise Refusal(409, "conflict", "The configuration came from no file.")
        return self._reload


def configuration_view(config: Config) -> dict[str, object]:
    """All settings with their values; of lists the entries with what they set, or their number.
    `is_set` tells that a value is not the default, `restart` that another needs a restart."""
    sections = []
    for info in fields(Config):
        section = getattr(config, info.name)
        if isinstance(section, Struct):
            sections.append({"name": info.name, "settings": _settings(section, info)})
    lists = {
        name: [{"settings": _set(entry)} for entry in getattr(config, name)] for name in _LISTED
    }
    counts = {name: len(getattr(config, name)) for name in _COUNTED}
    return {"sections": sections, **lists, "counts": counts}


def _settings(section: Struct, of: FieldInfo) -> list[dict[str, object]]:
    whole, marked = needs_restart(of.type), restart_fields(type(section))
    return [
        {
            "key": info.name,
            "value": _shown(getattr(section, info.name)),
            "is_set": not _is_default(section, info),
            "restart": whole or info.name in marked,
        }
        for info in fields(section)
    ]


def _set(entry: Struct) -> list[dict[str, object]]:
    return [
        {"key": info.name, "value": _shown(getattr(entry, info.name))}
        for info in fields(entry)
        if not _is_default(entry, info)
    ]


def _is_default(section: Struct, info: FieldInfo) -> bool:
    default = info.default
    if default is NODEFAULT and info.default_factory is not NODEFAULT:
        default = info.default_factory()
    return bool(getattr(section, info.name) == default)


def _shown(value: object) -> Any:
    return msgspec.to_builtins(value, enc_hook=_masked, str_keys=True)


def _masked(value: object) -> str:
    return MASK if isinstance(value, Secret) else str(value)

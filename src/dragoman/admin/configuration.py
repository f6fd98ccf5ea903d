"""Operations on the configuration, which is shown without its secrets and changed in its file."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from dragoman.admin.call import Call
from dragoman.admin.replies import Refusal
from dragoman.audit import Change
from dragoman.config import Config, Secret
from dragoman.config.changes import needs_restart, restart_fields
from dragoman.operations.configuration_log import version_of
from dragoman.operations.operation import Command, Http, Nothing, operation, operations_in
from dragoman.processes.reload import Pending, ReloadRequest, Report

MASK = "•••"
"""Shown in place of a secret."""

_COUNTED = ("accounts", "clients", "teams", "prices")
"""Lists of which only the length is shown."""


class Setting(Struct, frozen=True):
    """A setting with its value. `is_set` says that it is not the default, `restart` that another
    value needs a restart."""

    key: str
    value: Any
    is_set: bool | UnsetType = UNSET
    restart: bool | UnsetType = UNSET


class Section(Struct, frozen=True):
    """A table of the configuration."""

    name: str
    settings: list[Setting]


class Entry(Struct, frozen=True):
    """An entry of a list, with what it sets."""

    settings: list[Setting]


class ConfigurationView(Struct, frozen=True):
    """The configuration that is served. Of lists whose entries have paths of their own, `counts`
    has the number."""

    sections: list[Section]
    upstreams: list[Entry]
    routes: list[Entry]
    counts: dict[str, int]


class Reload(Struct, frozen=True):
    """With `digest`, only what has that digest is read."""

    digest: str | None = None


@operation("configuration.show", "viewer", Http("GET", "config"))
async def _show(call: Call, _: Nothing) -> ConfigurationView:
    """Show the configuration that is served."""
    return configuration_view(call.gateway.config)


@operation("configuration.pending", "viewer", Http("GET", "config/pending"))
async def _pending(call: Call, _: Nothing) -> Pending:
    """Show what a reload would change."""
    return await _read(call)


@operation(
    "configuration.reload",
    "admin",
    Http("POST", "reload", query=("digest",)),
    audit=("ask_reload configuration",),
    command=Command("reload", is_own=True),
)
async def _reload(call: Call, asked: Reload) -> Report:
    """Read the configuration again, in all workers."""
    request = _reload_of(call)
    if asked.digest is not None:
        found = await _read(call)
        # One that cannot be read is refused below, in the same words as ever.
        if not found.problems and found.digest != asked.digest:
            raise Refusal(412, "changed", "The file was changed meanwhile: look again.")
    # The gateway itself, which does not know who called, records the outcome.
    version = {"version": version_of(call.gateway.config)}
    change = Change(action="ask_reload", kind="configuration", after=version)
    await call.record(change, needs_store=False)
    report = await request.reload()
    if report.problems:
        message = "The configuration cannot be used; nothing was changed."
        more = {"problems": report.problems}
        raise Refusal(400, "invalid_configuration", message, more=more)
    return report


async def _read(call: Call) -> Pending:
    return await asyncio.to_thread(_reload_of(call).pending, call.gateway.config)


def _reload_of(call: Call) -> ReloadRequest:
    request = call.gateway.reload
    if request is None:
        raise Refusal(409, "conflict", "The configuration came from no file.")
    return request


def configuration_view(config: Config) -> ConfigurationView:
    """All settings with their values; of lists the entries with what they set, or their number."""
    sections = [
        Section(info.name, _settings(section, info))
        for info in fields(Config)
        if isinstance(section := getattr(config, info.name), Struct)
    ]
    return ConfigurationView(
        sections,
        [Entry(_set(entry)) for entry in config.upstreams],
        [Entry(_set(entry)) for entry in config.routes],
        {name: len(getattr(config, name)) for name in _COUNTED},
    )


def _settings(section: Struct, of: FieldInfo) -> list[Setting]:
    whole, marked = needs_restart(of.type), restart_fields(type(section))
    return [
        Setting(
            info.name,
            _shown(getattr(section, info.name)),
            not _is_default(section, info),
            whole or info.name in marked,
        )
        for info in fields(section)
    ]


def _set(entry: Struct) -> list[Setting]:
    return [
        Setting(info.name, _shown(getattr(entry, info.name)))
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


OPERATIONS = operations_in(globals())

"""The configuration in the log of changes: it is changed in its file, and recorded when a gateway
begins to use it."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct

from dragoman.audit import Actor, AuditLog, Change
from dragoman.config import Config
from dragoman.operations.terminal import this_user
from dragoman.storage.opening import store_for


def version_of(config: Config) -> str:
    """A fingerprint of a configuration without its secrets: twelve hexadecimal digits."""
    return hashlib.sha256(repr(config).encode()).hexdigest()[:12]


def record_start(config: Config) -> None:
    """Record that a gateway starts with a configuration, unless the last one was the same.

    Raises:
        StoreError: the store cannot be used.
    """
    _record_in_store(config, "start")


def record_reload(config: Config, changes: Struct) -> None:
    """Record that a gateway was given another configuration. `changes` are the names that differ,
    without their values, which may be secrets.

    Raises:
        StoreError: the store cannot be used.
    """
    _record_in_store(config, "reload", changes)


def _record_in_store(config: Config, action: str, changes: Struct | None = None) -> None:
    store = store_for(config)
    if store is None:
        return
    try:
        with store.deciding():
            _record(store, Actor(this_user().who, "gateway"), action, config, changes)
    finally:
        store.close()


def _record(
    log: AuditLog, actor: Actor, action: str, config: Config, changes: Struct | None = None
) -> None:
    version = version_of(config)
    last = log.audit(1, only={"kind": "configuration"})
    before = None if not last else {"version": (last[0].after or {}).get("version")}
    if before == {"version": version} and changes is None:
        return
    after = {"version": version}
    if changes is not None:
        after |= msgspec.to_builtins(changes)
    change = Change(action=action, kind="configuration", before=before, after=after)
    log.record(actor, [change])

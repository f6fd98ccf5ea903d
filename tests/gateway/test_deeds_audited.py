"""Every path below `/admin` that changes something leaves a line of who did it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.admin.table import OPERATIONS
from dragoman.config import Admin, Config, Secret, Storage
from dragoman.keys.people import Identity, StoredPerson, StoredSession
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.processes.reload import Pending, ReloadRequest, Report
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.administration import TOKEN
from tests.gateway.conftest import config_for
from tests.gateway.http import call

LIMIT = {"kind": "requests", "amount": 100, "window": "day"}
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5})

DEEDS: tuple[tuple[str, str, Any], ...] = (
    ("POST accounts", "accounts", {"name": "a", "upstream": "chat", "key": "sk-sim-a"}),
    ("POST accounts/import", "accounts/import?format=json", None),
    ("POST accounts/do", "accounts/do", {"do": "disable", "names": ["b"]}),
    ("PATCH accounts/*", "accounts/a", {"priority": 3}),
    ("POST accounts/*/disable", "accounts/a/disable", {"reason": "moved"}),
    ("POST accounts/*/enable", "accounts/a/enable", None),
    ("POST accounts/test", "accounts/test", {"names": ["a"], "model": "sim-text"}),
    ("POST accounts/*/test", "accounts/a/test", {"model": "sim-text"}),
    ("POST accounts/*/rotate", "accounts/a/rotate", {"key": "sk-sim-n", "model": "sim-text"}),
    ("DELETE accounts/*", "accounts/a", None),
    ("POST teams", "teams", {"name": "t"}),
    ("PATCH teams/*", "teams/t", {"note": "n"}),
    ("POST teams/*/disable", "teams/t/disable", None),
    ("POST teams/*/enable", "teams/t/enable", None),
    ("POST teams/*/limits", "teams/t/limits", LIMIT),
    ("PATCH teams/*/limits/*", "teams/t/limits/1", {"mode": "soft"}),
    ("POST teams/*/limits/*/grant", "teams/t/limits/1/grant", {"amount": 5}),
    ("POST teams/*/limits/*/reset", "teams/t/limits/1/reset", None),
    ("DELETE teams/*/limits/*", "teams/t/limits/1", None),
    ("POST teams/*/limits", "teams/t/limits", LIMIT),
    ("POST teams/*/limits/reset", "teams/t/limits/reset", None),
    ("DELETE teams/*", "teams/t", None),
    ("POST keys", "keys", {"name": "k"}),
    ("POST keys/import", "keys/import?from=openrouter", None),
    ("PATCH keys/*", "keys/k", {"note": "n"}),
    ("POST keys/*/disable", "keys/k/disable", None),
    ("POST keys/*/enable", "keys/k/enable", None),
    ("POST keys/*/limits", "keys/k/limits", LIMIT),
    ("PATCH keys/*/limits/*", "keys/k/limits/1", {"mode": "soft"}),
    ("POST keys/*/limits/*/grant", "keys/k/limits/1/grant", {"amount": 5}),
    ("POST keys/*/limits/*/reset", "keys/k/limits/1/reset", None),
    ("DELETE keys/*/limits/*", "keys/k/limits/1", None),
    ("POST keys/*/limits", "keys/k/limits", LIMIT),
    ("POST keys/*/limits/reset", "keys/k/limits/reset", None),
    ("POST keys/*/rotate", "keys/k/rotate", {"grace_s": 1}),
    ("DELETE keys/*", "keys/k", None),
    ("POST admins", "admins", {"name": "o", "role": "viewer"}),
    ("PATCH admins/*", "admins/o", {"note": "n"}),
    ("POST admins/*/disable", "admins/o/disable", None),
    ("POST admins/*/enable", "admins/o/enable", None),
    ("POST admins/*/rotate", "admins/o/rotate", None),
    ("DELETE admins/*", "admins/o", None),
    ("POST people/*/revoke", "people/ada@example.com/revoke", {}),
    ("POST people/*/disable", "people/ada@example.com/disable", None),
    ("POST people/*/enable", "people/ada@example.com/enable", None),
    ("DELETE people/*", "people/ada@example.com", None),
    ("POST prices/reprice", "prices/reprice", None),
    ("POST reload", "reload", None),
    ("POST doctor", "doctor", {"model": "chat/sim-text", "protocols": ["openai_chat"]}),
    (
        "POST workbench/send",
        "workbench/send",
        {"from": "openai_chat", "body": CHAT, "scenario": "text", "to": "openai_chat"},
    ),
)
"""What is done: by which route, where, with what."""

ROWS = {
    "accounts/import": '[{"name": "b", "upstream": "chat", "key": "sk-sim-b"}]',
    "keys/import": "name,hash\nprod,f00\n",
}
"""Files that are imported."""
CHANGES_NOTHING = {"POST prices/reprice"}
"""Where nothing was charged; `test_costs` has it change something."""


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


async def _served() -> Report:
    return Report(configuration=2)


def _pending(_: Config) -> Pending:
    return Pending()


def _sign_in(gateway: RunningGateway) -> None:
    """A person has signed in once, and has a session."""
    identity = Identity(issuer="i", subject="s", email="ada@example.com")
    person = StoredPerson(
        id=identity.id, name=identity.name, identity=identity, created=1.0, seen=1.0
    )
    session = StoredSession(
        id="00" * 16,
        person=person.id,
        client="codex",
        refresh="",
        rotated=time.time(),
        signed_in=1.0,
        renewed=1.0,
        sealed=b"",
    )
    with closing(SqliteStore(gateway.app.config.storage.path or "")) as store:
        store.people.save_person(person)
        store.people.save_session(session)


def test_each_deed_leaves_a_line(gateway: RunningGateway) -> None:
    admin = gateway.app._current.generation.admin
    assert admin is not None
    admin._gateway = replace(admin._gateway, reload=ReloadRequest(_served, _pending))
    there = {
        f"{http.method} {re.sub(r'{[a-z]+}', '*', http.path)}": operation
        for operation in OPERATIONS
        for http in operation.http
        if http.method != "GET" and operation.role == "admin"
    }
    assert there.keys() == {route for route, _, _ in DEEDS}
    _sign_in(gateway)
    last = 0
    for route, path, given in DEEDS:
        method = route.split()[0]
        text = ROWS.get(path.partition("?")[0], "" if given is None else json.dumps(given))
        sent = text.encode() or None
        media = {"content-type": "application/json"}
        answer = call(gateway.base_url, method, f"/admin/{path}", sent, media, key=TOKEN)
        assert answer.status < 300, (route, answer.body)
        told = call(gateway.base_url, "GET", "/admin/audit?limit=50", key=TOKEN).json["changes"]
        new = [line for line in told if line["id"] > last]
        assert bool(new) == (route not in CHANGES_NOTHING), route
        assert {(line["who"], line["origin"]) for line in new} <= {("admin", "admin")}, route
        assert {f"{line['action']} {line['kind']}" for line in new} <= set(there[route].audit)
        last = told[0]["id"]

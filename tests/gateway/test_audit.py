"""`/admin/audit`: who changed what."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.audit import Line
from dragoman.config import Admin, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.audit_sheet import audit_sheet
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call

TOKEN = "admin-token-of-the-test"


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = config_for(simulator.base_url)
    config = replace(
        config,
        server=replace(config.server, trusted_proxies=("127.0.0.1",)),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a key of the store")),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def admin(gateway: RunningGateway, method: str, path: str, body: Any = None) -> Answer:
    headers = {"x-forwarded-for": "192.0.2.7"}
    return call(gateway.base_url, method, f"/admin{path}", body, headers, key=TOKEN)


def test_changes_over_http(gateway: RunningGateway) -> None:
    made = admin(gateway, "POST", "/keys", {"name": "k", "note": "n"})
    secret = made.json["secret"]
    account = {"name": "a", "upstream": "chat", "key": "sk-secret-of-the-account"}
    assert admin(gateway, "POST", "/accounts", account).status == 201
    assert admin(gateway, "POST", "/accounts/a/disable", {"reason": "x"}).status == 200
    assert admin(gateway, "PATCH", "/keys/k", {"enabled": False}).status == 200
    assert admin(gateway, "PATCH", "/keys/k", {"enabled": "perhaps"}).status == 400
    answer = admin(gateway, "GET", "/audit")
    assert answer.status == 200
    lines = answer.json["changes"]
    assert [(line["action"], line["kind"], line["name"]) for line in lines] == [
        ("change", "key", "k"),
        ("disable", "account", "a"),
        ("add", "account", "a"),
        ("add", "key", "k"),
    ]
    assert {(line["who"], line["origin"], line["address"]) for line in lines} == {
        ("admin", "admin", "192.0.2.7")
    }
    assert answer.json["next"] is None
    assert secret.encode() not in answer.body
    assert b"sk-secret" not in answer.body


def test_pages_and_filters(gateway: RunningGateway) -> None:
    for number in range(5):
        admin(gateway, "POST", "/keys", {"name": f"k{number}"})
    first = admin(gateway, "GET", "/audit?limit=3").json
    rest = admin(gateway, "GET", f"/audit?limit=3&before={first['next']}").json
    names = [line["name"] for line in (*first["changes"], *rest["changes"])]
    assert names == ["k4", "k3", "k2", "k1", "k0"]
    assert rest["next"] is None
    found = admin(gateway, "GET", "/audit?name=k2&kind=key&since=1h").json["changes"]
    assert [line["name"] for line in found] == ["k2"]
    assert admin(gateway, "GET", "/audit?kind=team").json["changes"] == []


def test_a_sheet(gateway: RunningGateway) -> None:
    """All of it, and what people named so runs nowhere."""
    for number in range(120):
        admin(gateway, "POST", "/keys", {"name": f"k{number}"})
    admin(gateway, "PATCH", "/keys/k7", {"note": '=HYPERLINK("x"), "y"\nz'})
    answer = admin(gateway, "GET", "/audit?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    heading, last, *rest = csv.reader(io.StringIO(answer.body.decode(), newline=""))
    assert heading[:7] == ["number", "time", "who", "from", "action", "kind", "name"]
    assert last[2:7] == ["admin", "192.0.2.7", "change", "key", "k7"]
    assert last[8] == 'note==HYPERLINK("x"), "y"\nz'
    assert len(rest) == 120
    made = Line(
        id=1, at=0, who="=1+1", origin="command", address="", action="add", kind="key", name="-x"
    )
    assert audit_sheet([made]).splitlines()[1] == (
        b"1,1970-01-01T00:00:00+00:00,'=1+1,command,add,key,'-x,,"
    )
    assert len(admin(gateway, "GET", "/audit?format=csv&name=k7").body.splitlines()) >= 3
    viewer = admin(gateway, "POST", "/admins", {"name": "v", "role": "viewer"}).json["secret"]
    seen = call(gateway.base_url, "GET", "/admin/audit?format=csv", key=viewer)
    assert b"192.0.2.7" not in seen.body


@pytest.mark.parametrize(
    "query", ["format=xml", "limit=0", "before=x", "since=soonish", "nonsense=1"]
)
def test_bad_questions(gateway: RunningGateway, query: str) -> None:
    assert admin(gateway, "GET", f"/audit?{query}").status == 400


def test_only_the_administration_asks(gateway: RunningGateway) -> None:
    assert call(gateway.base_url, "GET", "/admin/audit").status == 401

"""The administration over HTTP."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Secret, Server, Storage
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.administration import (
    SECRET,
    STORE_KEY,
    TOKEN,
    admin,
    error,
    eventually,
    gateway,
)
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, Connection, call
from tests.small_servers import Handler, handling

__all__ = ["gateway"]


def ask(gateway: RunningGateway, model: str = "chat/sim-text") -> Answer:
    return call(gateway.base_url, "POST", "/v1/chat/completions", body("chat", model))


def test_the_life_of_an_account(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    added = admin(
        gateway,
        "POST",
        "/accounts",
        {"name": "new", "upstream": "chat", "key": SECRET, "priority": -1, "balance": 5e5},
    )
    assert added.status == 201
    assert added.json["secrets"] == ["key"]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key == SECRET)
    shown = eventually(
        lambda: (
            (found := admin(gateway, "GET", "/accounts/new").json["account"])["requests"] and found
        )
    )
    assert shown["state"] == "active"
    assert shown["last_used"] <= time.time()
    assert shown["balance"] < 5e5

    changed = admin(gateway, "PATCH", "/accounts/new", {"priority": 7, "models": ["sim-*"]})
    assert (changed.status, changed.json["priority"]) == (200, 7)
    assert changed.json["secrets"] == ["key"]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key != SECRET)

    disabled = admin(gateway, "POST", "/accounts/chat-0/disable", {"reason": "a  holiday\n"})
    assert disabled.json["state"] == "disabled"
    assert disabled.json["reasons"] == [{"why": "a holiday"}]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key == SECRET)
    history = admin(gateway, "GET", "/accounts/chat-0").json["history"]
    assert [(entry["change"], entry["source"]) for entry in history] == [("disabled", "operator")]
    enabled = admin(gateway, "POST", "/accounts/chat-0/enable")
    assert enabled.json["state"] == "active"
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key != SECRET)

    assert admin(gateway, "DELETE", "/accounts/new").json == {"removed": 1}
    error(admin(gateway, "GET", "/accounts/new"), 404, "not_found", "name")
    error(admin(gateway, "DELETE", "/accounts/new"), 404, "not_found", "name")


ROUTES = [
    ("GET", "/accounts"),
    ("POST", "/accounts"),
    ("POST", "/accounts/import"),
    ("GET", "/accounts/chat-0"),
    ("PATCH", "/accounts/chat-0"),
    ("DELETE", "/accounts/chat-0"),
    ("POST", "/accounts/chat-0/enable"),
    ("POST", "/accounts/chat-0/disable"),
    ("POST", "/accounts/chat-0/test"),
    ("GET", "/usage"),
    ("GET", "/health"),
    ("GET", "/nothing"),
]


@pytest.mark.parametrize("key", [None, KEY, "", "x" * 10_000, TOKEN[:-1], f"{TOKEN}x"])
def test_only_its_own_token_opens_it(gateway: RunningGateway, key: str | None) -> None:
    for method, path in ROUTES:
        answer = admin(gateway, method, path, key=key)
        error(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.body.decode()


def test_its_token_is_no_clients_key(gateway: RunningGateway) -> None:
    made = body("chat", "chat/sim-text")
    answer = call(gateway.base_url, "POST", "/v1/chat/completions", made, key=TOKEN)
    assert answer.status == 401


def test_browsers_of_other_origins_get_nothing(gateway: RunningGateway) -> None:
    asked = {"origin": "http://evil", "access-control-request-method": "DELETE"}
    for method in ("OPTIONS", "GET"):
        for path in ("/accounts", "/accounts/chat-0"):
            answer = admin(gateway, method, path, headers=asked)
            assert not [name for name in answer.headers if name.startswith("access-control")]
    metrics = call(gateway.base_url, "GET", "/metrics", headers=asked)
    assert not [name for name in metrics.headers if name.startswith("access-control")]


def test_without_a_token_there_is_no_administration(simulator: RunningSimulator) -> None:
    with running_gateway(config_for(simulator.base_url)) as plain:
        answer = admin(plain, "GET", "/accounts")
        assert answer.status == 404
        assert answer.json["error"]["code"] == "not_found"
        for path in ("/ui", "/admin/accounts"):
            told = call(plain.base_url, "GET", path).json["error"]["message"]
            assert "switch it on with [admin] key" in told


def test_without_a_store_nothing_is_administered(simulator: RunningSimulator) -> None:
    config = replace(config_for(simulator.base_url), admin=Admin(key=Secret(TOKEN)))
    with running_gateway(config) as plain:
        error(admin(plain, "GET", "/accounts"), 409, "conflict")
        assert admin(plain, "GET", "/health").json["store"] == "none"


@pytest.mark.parametrize(
    ("method", "path", "value", "status", "kind", "param"),
    [
        ("GET", "/accounts?state=happy", None, 400, "invalid_request", "state"),
        ("GET", "/accounts?upstream=chta", None, 400, "invalid_request", "upstream"),
        ("GET", "/accounts?upstream=" + "x" * 5000, None, 400, "invalid_request", "upstream"),
        ("GET", "/accounts?limit=0", None, 400, "invalid_request", "limit"),
        ("GET", "/accounts?limit=1001", None, 400, "invalid_request", "limit"),
        ("GET", "/accounts?limit=%d9%a3", None, 400, "invalid_request", "limit"),
        ("GET", "/accounts?colour=red", None, 400, "invalid_request", "colour"),
        ("GET", "/accounts?" + "&".join("a=1" * 100), None, 400, "invalid_request", None),
        ("GET", "/accounts/nobody", None, 404, "not_found", "name"),
        ("GET", "/accounts/" + "n" * 5000, None, 404, "not_found", "name"),
        ("GET", "/accounts/%00%ff%e2%80%ae", None, 404, "not_found", "name"),
        ("PUT", "/accounts", None, 405, "method_not_allowed", None),
        ("GET", "/accounts/chat-0/test", None, 405, "method_not_allowed", None),
        ("GET", "/", None, 404, "not_found", None),
        ("GET", "/accounts/a/b/c", None, 404, "not_found", None),
        ("POST", "/accounts", b"", 400, "invalid_request", None),
        ("POST", "/accounts", b"{", 400, "invalid_request", None),
        ("POST", "/accounts", b"\xff", 400, "invalid_request", None),
        ("POST", "/accounts", b"[" * 100_000, 413, "too_large", None),
        ("POST", "/accounts", [], 400, "invalid_request", None),
        ("POST", "/accounts", {}, 400, "invalid_request", "name"),
        ("POST", "/accounts", {"name": "a"}, 400, "invalid_request", "upstream"),
        ("POST", "/accounts", {"name": "a", "upstream": "x"}, 400, "invalid_request", "upstream"),
        ("POST", "/accounts", {"name": "chat-0", "upstream": "chat"}, 409, "conflict", "name"),
        ("POST", "/accounts", {"name": "n" * 10_000}, 400, "invalid_request", "name"),
        ("POST", "/accounts", {"name": "\ud83d\ude00"}, 400, "invalid_request", "name"),
        ("POST", "/accounts", {"name": "a\n"}, 400, "invalid_request", "name"),
        ("POST", "/accounts", {"name": "a", "colour": 1}, 400, "invalid_request", "colour"),
        ("POST", "/accounts", {"name": "a", "key": "env:PATH"}, 400, "invalid_request", "key"),
        ("POST", "/accounts", {"name": "a", "key": 3}, 400, "invalid_request", "key"),
        ("POST", "/accounts", {"name": "a", "weight": 0}, 400, "invalid_request", "weight"),
        ("POST", "/accounts", {"name": "a", "proxy": "ftp://h"}, 400, "invalid_request", "proxy"),
        ("PATCH", "/accounts/chat-0", {"weight": 2}, 409, "conflict", "name"),
        ("PATCH", "/accounts/chat-0", {"name": "other"}, 400, "invalid_request", "name"),
        ("PATCH", "/accounts/nobody", {"weight": 2}, 404, "not_found", "name"),
        ("DELETE", "/accounts/chat-0", None, 409, "conflict", "name"),
        ("POST", "/accounts/nobody/enable", None, 404, "not_found", "name"),
        ("POST", "/accounts/chat-0/disable", {"reason": 3}, 400, "invalid_request", "reason"),
        ("POST", "/accounts/chat-0/disable", {"why": "x"}, 400, "invalid_request", "why"),
        ("POST", "/accounts/chat-0/test", {"model": 3}, 400, "invalid_request", "model"),
        ("POST", "/accounts/import", b"a,chat,sk-x\n", 400, "invalid_request", None),
        ("POST", "/accounts/import?format=xml", b"", 400, "invalid_request", "format"),
        ("POST", "/accounts/import?replace=yes", b"", 400, "invalid_request", "replace"),
        ("GET", "/usage?since=yesterday", None, 400, "invalid_request", "since"),
        ("GET", "/usage?since=200&until=100", None, 400, "invalid_request", "since"),
        ("GET", "/usage?until=", None, 400, "invalid_request", "until"),
        ("GET", "/usage?by=colour", None, 400, "invalid_request", "by"),
    ],
)
def test_what_cannot_be_done(
    gateway: RunningGateway,
    method: str,
    path: str,
    value: Any,
    status: int,
    kind: str,
    param: str | None,
) -> None:
    answer = admin(gateway, method, path, value)
    error(answer, status, kind, param)
    assert len(answer.body) < 2000
    assert (status == 405) == ("allow" in answer.headers)
    assert admin(gateway, "GET", "/accounts").json["total"] == 3


def test_bodies_are_bounded(gateway: RunningGateway) -> None:
    large = b" " * (1024 * 1024 + 1)
    error(admin(gateway, "POST", "/accounts", large), 413, "too_large")
    with Connection(gateway.base_url) as connection:
        head = {"authorization": f"Bearer {TOKEN}", "content-length": str(10**12)}
        connection.send("POST", "/admin/accounts/import", b"", head)
        error(connection.answer(), 413, "too_large")


def test_every_fault_is_told_at_once(gateway: RunningGateway) -> None:
    value = {"name": "a b", "weight": -1, "headers": {"x y": "z"}, "key": ""}
    found = error(admin(gateway, "POST", "/accounts", value), 400, "invalid_request", "name")
    assert [fault["field"] for fault in found["faults"]] == [
        "name",
        "weight",
        'headers."x y"',
        "key",
    ]


def listing(count: int) -> bytes:
    lines = [f"a-{number:05},chat,{SECRET}-{number},{number % 2}" for number in range(count)]
    return ("name,upstream,key,priority\n" + "\n".join(lines)).encode()


def test_import_and_pages(gateway: RunningGateway) -> None:
    csv = {"content-type": "text/csv; charset=utf-8"}
    done = admin(gateway, "POST", "/accounts/import", listing(25), csv)
    assert (done.status, done.json["rows"], done.json["added"]) == (200, 25, 25)
    names: list[str] = []
    after = ""
    while True:
        page = admin(gateway, "GET", f"/accounts?upstream=chat&limit=10{after}").json
        names += [view["name"] for view in page["accounts"]]
        assert page["total"] == 26
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert names == [f"a-{number:05}" for number in range(25)] + ["chat-0"]
    again = admin(gateway, "POST", "/accounts/import", listing(30), csv)
    found = error(again, 400, "bad_rows")
    assert (found["rows"], len(found["bad"])) == (30, 25)
    assert found["bad"][0] == {
        "at": 2,
        "name": "a-00000",
        "faults": [
            {"field": "name", "message": "there is an account of this name already"},
        ],
    }
    done = admin(gateway, "POST", "/accounts/import?skip_bad=true", listing(30), csv)
    assert (done.json["added"], len(done.json["bad"])) == (5, 25)
    done = admin(gateway, "POST", "/accounts/import?replace=true", listing(30), csv)
    assert (done.json["added"], done.json["replaced"], done.json["bad"]) == (0, 30, [])
    entry = json.dumps({"name": "json", "upstream": "chat", "key": SECRET}).encode()
    for text, media in ((b"[" + entry + b"]", "application/json"), (entry, "application/x-ndjson")):
        done = admin(
            gateway, "POST", "/accounts/import?replace=true", text, {"content-type": media}
        )
        assert done.json["rows"] == 1


def test_thousands_of_accounts_while_clients_are_served(gateway: RunningGateway) -> None:
    csv = {"content-type": "text/csv"}
    assert admin(gateway, "POST", "/accounts/import", listing(3_000), csv).json["added"] == 3_000
    assert ask(gateway).status == 200
    eventually(lambda: b'state="active"} 3001' in metrics(gateway))
    page = admin(gateway, "GET", "/accounts?limit=3&after=a-02998").json
    assert [view["name"] for view in page["accounts"]] == ["a-02999", "chat-0", "messages-0"]
    assert admin(gateway, "GET", "/health").json["accounts"]["chat"]["active"] == 3_001


@pytest.mark.parametrize(
    ("key", "status", "state"),
    [
        ("sk-sim-429", 429, "cooling"),
        ("sk-sim-402", 402, "exhausted"),
        ("sk-sim-401", 401, "disabled"),
        ("sk-sim-500", 500, "cooling"),
        ("sk-sim-reset", 0, "active"),
        ("sk-sim-fine", 200, "active"),
    ],
)
def test_a_test_tells_what_came_back_and_takes_note(
    gateway: RunningGateway, key: str, status: int, state: str
) -> None:
    admin(gateway, "POST", "/accounts", {"name": "new", "upstream": "messages", "key": key})
    found = admin(gateway, "POST", "/accounts/new/test").json
    assert (found["status"], found["passed"]) == (status, status == 200)
    assert key not in json.dumps(found)
    eventually(lambda: admin(gateway, "GET", "/accounts/new").json["account"]["state"] == state)
    admin(gateway, "PATCH", "/accounts/new", {"key": "sk-sim-good-again"})
    assert admin(gateway, "POST", "/accounts/new/test").json["passed"]
    if state != "cooling":
        eventually(
            lambda: admin(gateway, "GET", "/accounts/new").json["account"]["state"] == "active"
        )


def test_clients_cannot_lock_the_operator_out(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = replace(
        config_for(simulator.base_url, server=Server(max_concurrent=1, shutdown_grace_s=1.0)),
        storage=Storage(path=str(tmp_path / "store.db")),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as busy, Connection(busy.base_url) as connection:
        slow = body("chat", "chat/sim-text?head_ms=3000")
        connection.send("POST", "/v1/chat/completions", slow, {"authorization": f"Bearer {KEY}"})
        eventually(lambda: ask(busy).status == 503)
        assert admin(busy, "GET", "/accounts").status == 200
        health = admin(busy, "GET", "/health").json
        assert (health["in_flight"], health["workers"], health["store"]) == (1, 1, "working")
        eventually(
            lambda: (
                sum(view["in_flight"] for view in admin(busy, "GET", "/accounts").json["accounts"])
                == 1
            )
        )


def metrics(gateway: RunningGateway) -> bytes:
    answer = call(gateway.base_url, "GET", "/metrics", key=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.body


def test_metrics_are_for_this_machine_or_the_token(gateway: RunningGateway) -> None:
    metrics(gateway)
    through = {"x-forwarded-for": "203.0.113.7"}
    for key in (None, KEY):
        answer = call(gateway.base_url, "GET", "/metrics", headers=through, key=key)
        assert answer.status == 401
    assert call(gateway.base_url, "GET", "/metrics", headers=through, key=TOKEN).status == 200
    assert call(gateway.base_url, "HEAD", "/metrics").status == 200
    assert call(gateway.base_url, "POST", "/metrics").status == 405


def test_usage_and_metrics_of_what_was_served(gateway: RunningGateway) -> None:
    ask(gateway, "chat/sim-text?input=100&output=7&cached=40&written=0&reasoning_tokens=3")
    call(gateway.base_url, "POST", "/v1/messages", body("messages", "messages/sim-text"))
    counted = body("messages", "messages/sim-text")
    call(gateway.base_url, "POST", "/v1/messages/count_tokens", counted)
    ask(gateway, "nowhere/at-all")
    ask(gateway, "chat/sim-400")

    def rows() -> list[dict[str, Any]]:
        query = "since=1h&by=client,route"
        found: list[dict[str, Any]] = admin(gateway, "GET", f"/usage?{query}").json["rows"]
        return found if sum(row["requests"] for row in found) >= 5 else []

    by_route = {row["by"]["route"]: row for row in eventually(rows)}
    assert {row["by"]["client"] for row in by_route.values()} == {"tester"}
    chat = by_route["/v1/chat/completions"]
    assert (chat["requests"], chat["errors"]) == (3, 2)
    assert (chat["input"], chat["cached"], chat["output"], chat["reasoning"]) == (100, 40, 7, 3)
    assert by_route["/v1/messages"]["input"] > 0
    assert by_route["/v1/messages/count_tokens"]["requests"] == 1
    assert by_route["/v1/messages/count_tokens"]["input"] == 0
    total = admin(gateway, "GET", "/usage?since=1h&account=chat-0").json["total"]
    assert (total["requests"], total["input"]) == (2, 100)
    text = metrics(gateway).decode()
    assert 'dragoman_tokens_total{upstream="chat",kind="input"} 100\n' in text
    assert (
        'dragoman_requests_total{route="/v1/chat/completions",status="2xx",upstream="chat"} 1\n'
    ) in text
    assert 'dragoman_errors_total{upstream="",fault="caller",kind="model_not_found"} 1\n' in text


def test_names_that_clients_invent_make_no_series(gateway: RunningGateway) -> None:
    lines: list[int] = []
    for beginning in (0, 1, 30):
        for number in range(beginning, 2 * beginning + 1):
            call(gateway.base_url, "GET", f"/v1/models/invented-{number}")
            call(gateway.base_url, "GET", f"/invented/{number}")
            ask(gateway, f"invented-{number}")
        text = metrics(gateway)
        assert b"invented" not in text
        # Whether the store was written yet is a matter of time.
        series = [line for line in text.splitlines() if b"dragoman_store_" not in line]
        lines.append(len(series))
    assert lines[1] == lines[2]


def test_a_probe_brings_an_account_back(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """An exhausted account is probed, and used again by the way of any good answer."""
    key = "sk-sim-account"
    simulator.app.keys.behaviours[key] = KeyBehaviour(Fault("error", failure=Failure(402), times=3))
    ask(gateway)
    eventually(
        lambda: admin(gateway, "GET", "/accounts/chat-0").json["account"]["state"] == "exhausted"
    )
    asked = len(simulator.requests)
    eventually(
        lambda: admin(gateway, "GET", "/accounts/chat-0").json["account"]["state"] == "active"
    )
    probes = simulator.requests[asked:]
    assert probes
    assert all(len(request.body) < 300 for request in probes)
    history = admin(gateway, "GET", "/accounts/chat-0").json["history"]
    assert (history[0]["change"], history[0]["source"]) == ("restored", "probe")
    assert b'dragoman_probes_total{upstream="chat",result="passed"} 1\n' in metrics(gateway)


def test_the_worker_that_was_asked_obeys_when_it_answers(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    for number in range(10):
        name = f"k{number}"
        secret = admin(gateway, "POST", "/keys", {"name": name}).json["secret"]

        def status(key: str = secret) -> int:
            chat = body("chat", "chat/sim-text")
            return call(gateway.base_url, "POST", "/v1/chat/completions", chat, key=key).status

        assert status() == 200
        admin(gateway, "POST", f"/keys/{name}/disable")
        assert status() == 401
        admin(gateway, "POST", "/accounts/chat-0/disable")
        assert status(KEY) == 403
        admin(gateway, "POST", "/accounts/chat-0/enable")
        assert status(KEY) == 200


def test_what_a_person_disabled_is_not_probed(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    admin(gateway, "POST", "/accounts/chat-0/disable")
    asked = len(simulator.requests)
    time.sleep(2.5)
    assert len(simulator.requests) == asked


def test_no_secret_is_told_or_kept_in_clear(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    value = {
        "name": "new",
        "upstream": "chat",
        "key": SECRET,
        "headers": {"x-secret": f"{SECRET}-header"},
        "proxy": f"http://user:{SECRET}-proxy@127.0.0.1:9",
    }
    told = [admin(gateway, "POST", "/accounts", value)]
    told += [admin(gateway, "POST", "/accounts", value)]
    told += [admin(gateway, "PATCH", "/accounts/new", {"priority": -5})]
    told += [admin(gateway, "POST", "/accounts/new/test")]
    told += [ask(gateway), admin(gateway, "POST", "/accounts/import", listing(3) + b"\nb b,x,y,z")]
    told += [admin(gateway, "GET", path) for path in ("/accounts", "/accounts/new", "/usage")]
    told += [call(gateway.base_url, "GET", "/metrics")]
    bad = {**value, "name": "bad", "key": f"{SECRET}\n", "headers": {"x y": SECRET}}
    told += [admin(gateway, "POST", "/accounts", bad)]
    assert admin(gateway, "GET", "/accounts/new").json["account"]["secrets"] == [
        "key",
        "headers",
        "proxy",
    ]
    for answer in told:
        assert "zebra" not in f"{answer.headers}{answer.body.decode()}"
    assert caplog.text
    for word in ("zebra", TOKEN, STORE_KEY):
        assert word not in caplog.text
    store = Path(str(gateway.app.config.storage.path))
    kept = list(filter(Path.is_file, store.parent.rglob("*")))
    assert store in kept
    for path in kept:
        for secret in (b"zebra", TOKEN.encode(), STORE_KEY.encode()):
            assert secret not in path.read_bytes()


class Quoting(Handler):
    """An upstream that repeats what it was sent."""

    def post(self) -> None:
        self.taken()
        message = f"bad\r\nkey: {self.headers['authorization']} {self.headers['x-secret']}"
        told = {"error": {"type": "invalid_request_error", "message": message}}
        self.reply(json.dumps(told).encode(), status=401)


def test_what_an_upstream_quotes_is_not_told(
    simulator: RunningSimulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with handling(Quoting) as url:
        config = replace(
            config_for(url, keys=(SECRET,)),
            storage=Storage(path=str(tmp_path / "store.db"), key=Secret(STORE_KEY)),
            admin=Admin(key=Secret(TOKEN)),
        )
        with running_gateway(config) as quoted:
            value = {"name": "new", "upstream": "chat", "headers": {"x-secret": f"{SECRET}-2"}}
            admin(quoted, "POST", "/accounts", {**value, "key": SECRET})
            found = admin(quoted, "POST", "/accounts/new/test", {"model": "m"})
            assert found.json["status"] == 401
            assert (found.json["message"], found.json["why"]) != ("", "")
            shown = eventually(
                lambda: (now := admin(quoted, "GET", "/accounts/new")).json["history"] and now
            )
            for answer in (found, shown, admin(quoted, "GET", "/accounts")):
                assert "zebra" not in answer.body.decode()
    assert "zebra" not in caplog.text
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert b"zebra" not in path.read_bytes()


def test_a_store_that_cannot_be_used(gateway: RunningGateway) -> None:
    path = str(gateway.app.config.storage.path)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        found = error(admin(gateway, "POST", "/accounts/chat-0/disable"), 503, "store_unavailable")
        assert path not in json.dumps(found)
    finally:
        other.close()
    assert ask(gateway).status == 200
    eventually(lambda: admin(gateway, "POST", "/accounts/chat-0/disable").status == 200)
    eventually(lambda: admin(gateway, "GET", "/health").json["store"] == "working")


def test_a_response_made_in_the_background_is_counted_once(gateway: RunningGateway) -> None:
    made = body("responses", "responses/sim-text?input=90&output=8", background=True)
    begun = call(gateway.base_url, "POST", "/v1/responses", made).json
    assert begun["status"] == "queued"
    path = f"/v1/responses/{begun['id']}"
    eventually(lambda: call(gateway.base_url, "GET", path).json["status"] == "completed")

    def total() -> dict[str, Any]:
        found: dict[str, Any] = admin(gateway, "GET", "/usage?since=1h").json["total"]
        return found if found["requests"] else {}

    found = eventually(total)
    assert (found["requests"], found["unmetered"]) == (1, 0)
    assert (found["input"], found["output"]) == (90, 8)
    assert b'{upstream="responses",kind="output"} 8\n' in metrics(gateway)


def test_secrets_go_nowhere_else_without_being_given_again(gateway: RunningGateway) -> None:
    """A proxy is sent the key, if the upstream is called over plain HTTP."""
    made = {"name": "new", "upstream": "chat", "key": SECRET, "headers": {"x-team": "blue"}}
    assert admin(gateway, "POST", "/accounts", made).status == 201
    proxy, path = {"proxy": "http://elsewhere.example:3128"}, "/accounts/new"
    error(admin(gateway, "PATCH", path, proxy), 400, "invalid_request", "key")
    error(admin(gateway, "PATCH", path, {"upstream": "messages"}), 400, "invalid_request", "key")
    error(
        admin(gateway, "PATCH", path, {**proxy, "key": SECRET}), 400, "invalid_request", "headers"
    )
    secrets = {"key": SECRET, "headers": {"x-team": "blue"}}
    assert admin(gateway, "PATCH", path, {**proxy, **secrets}).status == 200
    # What sends them nowhere else needs none of them.
    for change in (proxy, {"weight": 2}, {"proxy": None}):
        assert admin(gateway, "PATCH", path, change).status == 200
    listed = b"name,upstream,proxy\nnew,chat,http://elsewhere.example:3128\n"
    answer = admin(
        gateway, "POST", "/accounts/import?replace=true", listed, {"content-type": "text/csv"}
    )
    assert error(answer, 400, "bad_rows")["bad"][0]["faults"][0]["field"] == "key"


def test_a_test_of_an_account_reads_nothing_out(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """Neither of an upstream nor of whatever a proxy leads to: status and cause."""
    made = {"name": "new", "upstream": "chat", "key": SECRET}
    assert admin(gateway, "POST", "/accounts", made).status == 201
    model = {"model": "sim-error?status=418&message=inner%20words"}
    shown = call(
        gateway.base_url, "POST", "/v1/chat/completions", body("chat", f"chat/{model['model']}")
    )
    assert b"inner words" in shown.body
    answers = [
        admin(gateway, "POST", "/accounts/new/test", model),
        admin(gateway, "POST", "/accounts/test", {"names": ["new"], **model}),
        admin(gateway, "POST", "/accounts/new/rotate", {"key": f"{SECRET}-2", **model}),
    ]
    assert [answer.status for answer in answers] == [200, 200, 409]
    for answer in answers:
        assert b"418" in answer.body
        assert b"inner words" not in answer.body

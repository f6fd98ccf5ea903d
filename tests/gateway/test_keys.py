"""Client keys over sockets: made, changed and taken away while the gateway serves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Fallback, Route, Secret, Team
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.opening import store_for
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.http import KEY, Answer, call
from tests.gateway.stored_keys import PROMISE_S, TOKEN, admin, ask, becomes, made, settings


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    with running_gateway(settings(simulator.base_url, tmp_path)) as running:
        yield running


def test_the_life_of_a_key(gateway: RunningGateway) -> None:
    secret = made(gateway, "ci", note="builds")
    assert ask(gateway, secret).status == 200
    assert ask(gateway, None, x_api_key=secret).status == 200
    assert admin(gateway, "POST", "/keys/ci/disable").json["state"] == "disabled"
    becomes(gateway, secret, {401}, "is disabled")
    admin(gateway, "POST", "/keys/ci/enable")
    becomes(gateway, secret, {200})
    second = admin(gateway, "POST", "/keys/ci/rotate", {"grace_s": 60}).json["secret"]
    becomes(gateway, second, {200})
    assert ask(gateway, secret).status == 200, "both go on for a time"
    third = admin(gateway, "POST", "/keys/ci/rotate", {"grace_s": 0}).json["secret"]
    becomes(gateway, third, {200})
    becomes(gateway, secret, {401}, "was replaced")
    becomes(gateway, second, {401}, "was replaced")
    assert admin(gateway, "DELETE", "/keys/ci").json == {"removed": 1}
    becomes(gateway, third, {401}, "is not valid")
    # Usage is one client's, whatever its secrets were.
    usage = admin(gateway, "GET", "/usage?by=client").json
    assert {row["by"]["client"] for row in usage["rows"]} <= {"ci", "tester"}
    taken = admin(gateway, "POST", "/keys", {"name": "ci"})
    assert (taken.status, taken.json["error"]["type"]) == (409, "conflict")


@pytest.mark.parametrize("api", APIS)
def test_refusals_are_in_the_clients_words(gateway: RunningGateway, api: str) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    rows: list[tuple[dict[str, Any], int, str]] = [
        ({"expires": past}, 401, "has expired"),
        ({"addresses": ["10.0.0.0/8"]}, 403, "from this address"),
        ({"addresses_denied": ["127.0.0.0/8"]}, 403, "from this address"),
    ]
    for number, (fields, status, told) in enumerate(rows):
        secret = made(gateway, f"{api}-{number}", **fields)
        answer = ask(gateway, secret, api=api)
        assert answer.status == status, answer.body
        message = error_of(api, answer)["message"]
        assert told in message
        assert "10.0" not in message
        assert secret not in message
    mistyped = ask(gateway, secret[:-1] + "!", api=api)
    assert (mistyped.status, "check sum" in error_of(api, mistyped)["message"]) == (401, True)


def test_models_and_upstreams(simulator: RunningSimulator, tmp_path: Path) -> None:
    routes = (Route(match="plain", upstream="messages", model="sim-text"),)
    config = settings(simulator.base_url, tmp_path, routes=routes)
    with running_gateway(config) as gateway:
        one = made(gateway, "one", upstreams=["chat"])
        two = made(gateway, "two", models=["plain"])
        for key, model, status in (
            (one, "chat/sim-text", 200),
            (one, "messages/sim-text", 404),
            (one, "plain", 404),
            (two, "plain", 200),
            (two, "chat/sim-text", 404),
        ):
            assert ask(gateway, key, model).status == status, (model, status)
        listed = call(gateway.base_url, "GET", "/v1/models", key=two).json["data"]
        assert [model["id"] for model in listed] == ["plain"]
        listed = call(gateway.base_url, "GET", "/v1/models", key=one).json["data"]
        names = {model["id"] for model in listed}
        assert names
        assert all(name.startswith("chat/") for name in names)
        counted = {"model": "messages/sim-text", "messages": [{"role": "user", "content": "Hi"}]}
        path = "/v1/messages/count_tokens"
        assert call(gateway.base_url, "POST", path, counted, key=one).status == 404


def test_paths(gateway: RunningGateway) -> None:
    """Of a key and its team, both; what tells of models and the key itself is for all."""
    assert admin(gateway, "POST", "/teams", {"name": "writers", "paths": ["/v1/*"]}).status == 201
    key = made(gateway, "one", team="writers", paths=["/v1/messages*", "/v1/responses"])
    counted = {"model": "messages/sim-text", "messages": [{"role": "user", "content": "Hi"}]}
    stored = ask(gateway, key, api="responses")
    assert stored.status == 200
    refused = ask(gateway, key)
    assert (refused.status, refused.json["error"]["code"]) == (403, "path_not_allowed")
    assert "may not be used for /v1/chat/completions" in refused.json["error"]["message"]
    for method, path, given, status in (
        ("POST", "/v1/messages/count_tokens", counted, 200),
        ("POST", "/messages", {**counted, "max_tokens": 9}, 200),
        ("POST", "/chat/completions", counted, 403),
        ("GET", f"/v1/responses/{stored.json['id']}", None, 403),
        ("GET", "/v1/models", None, 200),
        ("GET", "/v1/key", None, 200),
        ("GET", "/v1/usage", None, 200),
    ):
        answer = call(gateway.base_url, method, path, given, key=key)
        assert answer.status == status, (path, answer.body)
    assert ask(gateway, key, api="messages").status == 200
    admin(gateway, "PATCH", "/teams/writers", {"paths": ["/v1/chat/*"]})
    deadline = time.monotonic() + PROMISE_S
    while ask(gateway, key, api="messages").status != 403:
        assert time.monotonic() < deadline
    wrong = admin(gateway, "POST", "/keys", {"name": "two", "paths": ["messages"]})
    assert wrong.status == 400
    assert "'messages' is no path such as /v1/chat/*" in wrong.json["error"]["message"]


def test_denied_models(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Whatever name leads to one, and also what a request names besides, or falls back to."""
    fallback = Fallback(upstream="chat", model="sim-text")
    routes = (
        Route(match="plain", upstream="chat", model="sim-text"),
        Route(match="late", upstream="messages", model="sim-503", fallbacks=(fallback,)),
        Route(match="other", upstream="messages", model="sim-reasoning"),
    )
    config = settings(simulator.base_url, tmp_path, routes=routes)
    with running_gateway(config) as gateway:
        admin(gateway, "POST", "/teams", {"name": "t", "models_denied": ["*reasoning*"]})
        key = made(gateway, "one", team="t", models_denied=["sim-text"])
        below = made(gateway, "two", models=["*"], models_denied=["chat/*"])
        for who, model, status in (
            (key, "plain", 404),
            (key, "chat/sim-text", 404),
            (key, "messages/sim-text", 404),
            (key, "late", 503),
            (key, "other", 404),
            (key, "messages/sim-multibyte", 200),
            (below, "plain", 404),
            (below, "chat/sim-multibyte", 404),
            (below, "messages/sim-text", 200),
            (below, "late", 503),
        ):
            assert ask(gateway, who, model).status == status, model
        besides = body("chat", "messages/sim-multibyte", models=["sim-text"])
        assert call(gateway.base_url, "POST", PATHS["chat"], besides, key=key).status == 404
        listed = call(gateway.base_url, "GET", "/v1/models", key=key).json["data"]
        names = {model["id"] for model in listed}
        assert "late" in names
        assert not {"plain", "other"} & names
        explained = admin(gateway, "GET", "/explain?model=plain&key=one").json
        assert explained["permission"]["allowed"] is False, explained


def test_no_detour_leads_past_a_keys_upstreams(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Not of the route's upstream, nor of a fallback."""
    fallback = Fallback(upstream="chat", model="sim-text")
    routes = (
        Route(match="late", upstream="messages", model="sim-503", fallbacks=(fallback,)),
        Route(match="soon", upstream="chat", model="sim-text"),
    )
    config = settings(simulator.base_url, tmp_path, routes=routes)
    upstreams = tuple(
        replace(one, reasoning_with_tools_via="responses") if one.name == "chat" else one
        for one in config.upstreams
    )
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with running_gateway(replace(config, upstreams=upstreams)) as gateway:
        key = made(gateway, "one", upstreams=["messages", "chat"])
        for model, status in (("late", 503), ("soon", 404)):
            simulator.requests.clear()
            thinking = body("chat", model, tools=[tool], reasoning_effort="high")
            told = call(gateway.base_url, "POST", PATHS["chat"], thinking, key=key)
            assert told.status == status, told.body
            assert b"sim-text" not in told.body
            assert all("responses" not in request.path for request in simulator.requests)


def test_a_team_holds_for_its_keys(gateway: RunningGateway) -> None:
    assert admin(gateway, "POST", "/teams", {"name": "t", "models": ["chat/*"]}).status == 201
    secret = made(gateway, "member", team="t")
    assert ask(gateway, secret).status == 200
    assert ask(gateway, secret, "messages/sim-text").status == 404
    assert admin(gateway, "GET", "/teams/t").json["keys"] == 1
    assert admin(gateway, "DELETE", "/teams/t").status == 409
    admin(gateway, "PATCH", "/teams/t", {"enabled": False})
    becomes(gateway, secret, {401}, "is disabled")
    admin(gateway, "PATCH", "/teams/t", {"enabled": None})
    becomes(gateway, secret, {200})
    admin(gateway, "PATCH", "/keys/member", {"team": None})
    assert admin(gateway, "DELETE", "/teams/t").status == 200


def test_clients_of_the_file_are_shown_and_not_changed(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    clients = (
        Client(name="old", keys=(Secret("first-key-of-old"), Secret("second-key-of-old"))),
        Client(name="staff", key=Secret("key-of-the-staff"), team="people"),
    )
    teams = (Team(name="people", upstreams=("chat",)),)
    config = settings(simulator.base_url, tmp_path, clients=clients, teams=teams)
    with running_gateway(config) as gateway:
        for key in ("first-key-of-old", "second-key-of-old", "key-of-the-staff"):
            assert ask(gateway, key).status == 200
        assert ask(gateway, "key-of-the-staff", "messages/sim-text").status == 404
        assert ask(gateway, KEY).status == 401
        shown = admin(gateway, "GET", "/keys").json["keys"]
        assert [(view["name"], view["origin"]) for view in shown] == [
            ("old", "configuration"),
            ("staff", "configuration"),
        ]
        assert b"key-of" not in admin(gateway, "GET", "/keys").body
        for method, path, value in (
            ("PATCH", "/keys/old", {"note": "x"}),
            ("POST", "/keys/old/rotate", None),
            ("DELETE", "/keys/old", None),
            ("POST", "/keys", {"name": "old"}),
            ("DELETE", "/teams/people", None),
        ):
            assert admin(gateway, method, path, value).status == 409, path


def test_nothing_of_a_secret_is_kept_or_told(gateway: RunningGateway, tmp_path: Path) -> None:
    secret = made(gateway, "quiet")
    ask(gateway, secret)
    body_of_secret = secret[7:-4]
    for path in ("/keys", "/keys/quiet"):
        shown = admin(gateway, "GET", path).body.decode()
        assert secret[-4:] in shown
        assert body_of_secret not in shown
    kept = b"".join(map(Path.read_bytes, filter(Path.is_file, tmp_path.rglob("*"))))
    assert b"quiet" in kept
    assert body_of_secret.encode() not in kept


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a b"}, "name"),
        ({}, "name"),
        ({"name": "k", "expires": "soon"}, "expires"),
        ({"name": "k", "expires": "2027-01-31T00:00:00"}, "expires"),
        ({"name": "k", "addresses": ["10.0.0.0/33"]}, "addresses"),
        ({"name": "k", "upstreams": ["nowhere"]}, "upstreams"),
        ({"name": "k", "team": "nobody"}, "team"),
        ({"name": "k", "policy": "mild"}, "policy"),
        ({"name": "k", "colour": "red"}, "colour"),
        ({"name": "k", "enabled": "yes"}, "enabled"),
        (
            {"name": "k", "not_before": "2027-01-31T00:00:00Z", "expires": "2027-01-30T00:00:00Z"},
            "expires",
        ),
    ],
)
def test_bad_fields_are_told(gateway: RunningGateway, fields: Any, field: str) -> None:
    answer = admin(gateway, "POST", "/keys", fields)
    assert answer.status == 400, answer.body
    assert field in [fault["field"] for fault in answer.json["error"]["faults"]]
    assert admin(gateway, "GET", "/keys/k").status == 404, "nothing half done"


def test_without_any_key_everyone_may_call_until_there_is_one(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    config = settings(simulator.base_url, tmp_path, clients=())
    with running_gateway(config) as gateway:
        assert ask(gateway, None).status == 200
        secret = made(gateway, "first")
        becomes(gateway, None, {401})
        assert ask(gateway, secret).status == 200
        admin(gateway, "DELETE", "/keys/first")
        becomes(gateway, secret, {401})
        assert ask(gateway, None).status == 401, "removing the last key opens nothing"
    with running_gateway(config) as gateway:
        assert ask(gateway, None).status == 401


def test_no_key_inherits_what_was_stored_without_one(gateway: RunningGateway) -> None:
    answer = admin(gateway, "POST", "/keys", {"name": "anyone"})
    assert answer.status == 409, answer.body
    assert "is the name of clients without a key" in answer.body.decode()


def test_keys_can_be_required_from_the_start(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = settings(simulator.base_url, tmp_path, clients=())
    server = replace(config.server, require_key=True)
    with running_gateway(replace(config, server=server)) as gateway:
        assert ask(gateway, None).status == 401
        assert ask(gateway, made(gateway, "k")).status == 200


def test_uses_are_written_at_the_end(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = settings(simulator.base_url, tmp_path)
    with running_gateway(config) as gateway:
        secret = made(gateway, "k")
        for _ in range(3):
            ask(gateway, secret)
    store = store_for(config)
    assert store is not None
    (key,) = store.client_keys.all_keys()
    assert key.secrets[0].uses >= 3
    assert key.secrets[0].used is not None
    store.close()


def test_a_client_does_not_see_what_another_stored(gateway: RunningGateway) -> None:
    one, two = made(gateway, "one"), made(gateway, "two")
    answer = call(
        gateway.base_url, "POST", "/v1/responses", body("responses", "chat/sim-text"), key=one
    )
    name = answer.json["id"]
    assert call(gateway.base_url, "GET", f"/v1/responses/{name}", key=one).status == 200
    assert call(gateway.base_url, "GET", f"/v1/responses/{name}", key=two).status == 404


def test_limits_are_set_reset_and_taken_away_while_it_serves(gateway: RunningGateway) -> None:
    secret = made(gateway, "ci")
    limit = {"kind": "requests", "amount": 1, "window": "day"}
    added = admin(gateway, "POST", "/keys/ci/limits", limit)
    assert added.status == 201, added.body
    assert added.json["limits"][0]["number"] == 1
    becomes(gateway, secret, {429})
    again = admin(gateway, "POST", "/keys/ci/limits/1/reset").json
    assert "since" in again["limits"][0]["limit"]
    becomes(gateway, secret, {200})
    becomes(gateway, secret, {429})
    admin(gateway, "PATCH", "/keys/ci", {"note": "the same limits"})
    becomes(gateway, secret, {429})
    # Another secret of the key has no more.
    second = admin(gateway, "POST", "/keys/ci/rotate").json["secret"]
    becomes(gateway, second, {429})
    assert admin(gateway, "DELETE", "/keys/ci/limits/1").json == {"limits": []}
    becomes(gateway, secret, {200})


def test_limits_that_cannot_be_are_told(gateway: RunningGateway) -> None:
    made(gateway, "ci")
    for path, value, status in (
        ("/keys/none/limits", {"kind": "requests", "amount": 1, "window": "day"}, 404),
        ("/teams/none/limits", {"kind": "requests", "amount": 1, "window": "day"}, 404),
        ("/keys/ci/limits", {"kind": "requests", "amount": -1, "window": "day"}, 400),
        ("/keys/ci/limits", {"kind": "requests", "amount": 1.5, "window": "day"}, 400),
        ("/keys/ci/limits", {"kind": "requests", "amount": 1, "window": "day", "zone": "M"}, 400),
        ("/keys/ci/limits", {"amount": 1, "window": "day"}, 400),
        ("/keys/ci/limits", {"kind": "requests", "amount": 1, "window": "day", "x": 1}, 400),
        ("/keys/ci/limits/1/reset", None, 404),
        ("/keys/ci/limits/0/reset", None, 404),
        ("/keys/ci/limits/x/reset", None, 404),
    ):
        answer = admin(gateway, "POST", path, value)
        assert answer.status == status, (path, value, answer.body)
    assert admin(gateway, "GET", "/keys/ci/limits").json == {"limits": []}


def test_lists_of_keys_and_teams_come_in_pages(gateway: RunningGateway) -> None:
    names = ["Zoe", "a", "a-b", "b", "tester"]
    limits = [{"kind": "requests", "amount": 3, "window": "day"}]
    for name in names[:-1]:
        assert admin(gateway, "POST", "/keys", {"name": name, "limits": limits}).status == 201
        assert admin(gateway, "POST", "/teams", {"name": name}).status == 201
    for kind, known in (("keys", names), ("teams", names[:-1])):
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = admin(gateway, "GET", f"/{kind}?limit=2&after={after}&state=true").json
            assert len(page[kind]) == 2 or page["next"] is None
            assert all(isinstance(one["limits"], list) for one in page[kind])
            found += [one["name"] for one in page[kind]]
            after = page["next"]
        assert found == known
        assert "next" not in admin(gateway, "GET", f"/{kind}").json
        for wrong in ("0", "1001", "x"):
            assert admin(gateway, "GET", f"/{kind}?limit={wrong}").status == 400


def test_keys_of_another_gateway_are_imported(gateway: RunningGateway) -> None:
    def post(query: str, data: str) -> Answer:
        path = f"/admin/keys/import?{query}"
        return call(gateway.base_url, "POST", path, data.encode(), key=TOKEN)

    def names() -> list[str]:
        return [one["name"] for one in admin(gateway, "GET", "/keys").json["keys"]]

    token = "abcdefghijklmnop"
    good = f"key,name,unlimited_quota,remain_quota,group\n{token},one,0,500000,vip\n"
    tried = post("from=new-api&dry_run=true", good)
    assert (tried.status, tried.json["added"], names()) == (200, ["one"], ["tester"])
    broken = good + "no,two,1,0,\n" + f"{token},three,1,0,\n"
    refused = post("from=new-api", broken)
    assert refused.status == 400
    assert [row["at"] for row in refused.json["error"]["bad"]] == [3, 4]
    assert token not in refused.body.decode()
    assert names() == ["tester"]
    done = post("from=new-api&limits=false", good).json
    assert done["left_out"] == {"one": ["group", "limits"]}
    becomes(gateway, f"sk-{token}", {200})
    made_anew = post("from=openrouter", "name,hash\nprod,f00\n").json["made"]
    assert made_anew[0]["name"] == "prod"
    becomes(gateway, made_anew[0]["secret"], {200})
    for query, told in (
        ("", "from"),
        ("from=me", "from"),
        ("from=litellm&team=nobody", "team"),
        ("from=litellm&skip_bad=true", "skip_bad"),
    ):
        wrong = post(query, f'[{{"token": "{"0a" * 32}", "key_alias": "a"}}]')
        assert (wrong.status, told in wrong.body.decode()) == (400, True), query
    assert post("from=litellm", "nothing").status == 400
    assert sorted(names()) == ["one", "prod", "tester"]

"""`dragoman key` and `dragoman team`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cli.conftest import Shop
from tests.cli.serving import serving
from tests.gateway.clients import body
from tests.gateway.http import call


def shown(shop: Shop, name: str) -> Any:
    return json.loads(shop.run("key", "show", name).stdout)


def test_a_key_is_made_listed_changed_and_removed(shop: Shop) -> None:
    shop.run("team", "add", "people", "--model", "sim-*", "--note", "all of us")
    made = shop.run(
        "key", "add", "ci", "--team", "people", "--expires", "30d", "--address", "10.0.0.0/8",
        "--address", "::1", "--upstream", "chat", "--policy", "strict", "--note", "builds",
    )  # fmt: skip
    secret = made.stdout.strip()
    assert secret.startswith("sk-drg-")
    assert secret not in made.stderr
    found = shown(shop, "ci")
    assert found["rules"]["addresses"] == ["10.0.0.0/8", "::1"]
    assert found["secrets"][0]["ending"] == secret[-4:]
    assert secret not in json.dumps(found)
    listed = shop.run("key", "list").stdout
    assert "ci" in listed
    assert "people" in listed
    shop.run("key", "set", "ci", "--address", "none", "--note", "none", "--expires", "none")
    assert shown(shop, "ci")["rules"] == {
        "team": "people",
        "upstreams": ["chat"],
        "policy": "strict",
    }
    shop.run("key", "disable", "ci")
    assert shown(shop, "ci")["state"] == "disabled"
    shop.run("key", "enable", "ci")
    second = json.loads(shop.run("key", "rotate", "ci", "--grace", "1h", "--json").stdout)
    assert second["secret"] != secret
    old, new = second["key"]["secrets"]
    assert "revoked" in old
    assert "revoked" not in new
    assert "still has keys: 1" in shop.run("team", "remove", "people", status=1).stderr
    assert "1 key removed" in shop.run("key", "remove", "ci").stdout
    assert "is, or was, the name of a key" in shop.run("key", "add", "ci", status=1).stderr
    shop.run("team", "remove", "people")
    assert json.loads(shop.run("team", "list", "--json").stdout) == []
    assert secret.encode() not in shop.bytes_of_store()


def test_rotating_again_and_again_keeps_few_secrets_and_ends_none_later(shop: Shop) -> None:
    shop.run("key", "add", "k")
    shop.run("key", "rotate", "k", "--grace", "0")
    first = shown(shop, "k")["secrets"][0]["revoked"]
    for _ in range(12):
        shop.run("key", "rotate", "k")
    secrets = shown(shop, "k")["secrets"]
    assert len(secrets) == 10
    assert all(one.get("revoked", "9") >= first for one in secrets)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("key", "add", "a b"), "name: expected at most 64"),
        (("key", "add", "k", "--address", "here"), "addresses: 'here' is no address"),
        (("key", "add", "k", "--team", "nobody"), "team: no team named nobody"),
        (("key", "add", "k", "--upstream", "cat"), "did you mean chat"),
        (("key", "add", "k", "--policy", "mild"), "policy: "),
        (("key", "show", "k"), "no key named k"),
        (("key", "rotate", "k"), "no key named k"),
        (("key", "remove", "k"), "no key named k"),
        (("team", "show", "t"), "no team named t"),
    ],
)
def test_what_cannot_be_done(shop: Shop, arguments: tuple[str, ...], told: str) -> None:
    assert told in shop.run(*arguments, status=1).stderr
    assert json.loads(shop.run("key", "list", "--json").stdout) == []


def test_what_changes_nothing_is_no_change(shop: Shop) -> None:
    shop.run("key", "add", "k", "--note", "n" * 200)
    shop.run("team", "add", "t")
    for what in (("key", "set", "k"), ("team", "set", "t")):
        assert "name at least one rule" in shop.run(*what, status=2).stderr
    assert f"{'n' * 60}...\n" in shop.run("key", "list").stdout


def test_a_key_that_is_refused_from_the_first_is_warned_of(shop: Shop) -> None:
    assert "k is expired" in shop.run("key", "add", "k", "--expires", "2020-01-01").stderr
    shop.run("key", "add", "m")
    shop.run("key", "disable", "m")
    assert "m is disabled" in shop.run("key", "rotate", "m").stderr
    assert "warning" not in shop.run("key", "add", "n", "--not-before", "1d").stderr


def test_of_several_keys_all_are_changed_or_none(shop: Shop) -> None:
    def states() -> list[str]:
        return [one["state"] for one in json.loads(shop.run("key", "list", "--json").stdout)]

    for name in ("a", "b"):
        shop.run("key", "add", name)
    assert "no key named c" in shop.run("key", "disable", "a", "c", status=1).stderr
    assert states() == ["active", "active"]
    shop.run("key", "disable", "a", "b")
    assert "no key named c" in shop.run("key", "enable", "a", "c", status=1).stderr
    assert states() == ["disabled", "disabled"]


def test_bad_times_are_told(shop: Shop) -> None:
    for arguments in (("add", "k", "--expires", "soon"), ("rotate", "k", "--grace", "soon")):
        assert "expected a" in shop.run("key", *arguments, status=2).stderr


def test_all_workers_obey_within_a_second(shop: Shop) -> None:
    with serving(shop, workers=3) as gateway:

        def statuses(key: str) -> set[int]:
            path, asked = "/v1/chat/completions", body("chat", "sim-text")
            return {call(gateway.url, "POST", path, asked, key=key).status for _ in range(30)}

        secret = shop.run("key", "add", "k").stdout.strip()
        time.sleep(1.0)
        assert statuses(secret) == {200}
        assert statuses("nobody's-key") <= {401}
        shop.run("key", "disable", "k")
        time.sleep(1.0)
        assert statuses(secret) == {401}
        shop.run("key", "enable", "k")
        time.sleep(1.0)
        assert statuses(secret) == {200}
        gateway.stop()
        assert secret.encode() not in gateway.log
    assert shown(shop, "k")["secrets"][0]["uses"] >= 60
    rows = json.loads(shop.run("usage", "--by", "client", "--json").stdout)["rows"]
    assert [row["by"]["client"] for row in rows if row["requests"] >= 60] == ["k"]


@pytest.mark.parametrize("span", ["9999999999w", "999999999999999999d", "9" * 5000 + "s"])
def test_a_span_of_more_than_there_is_changes_nothing(shop: Shop, span: str) -> None:
    shop.run("key", "add", "k")
    before = shown(shop, "k")
    assert "expected a span" in shop.run("key", "rotate", "k", "--grace", span, status=2).stderr
    assert "expected a time" in shop.run("key", "set", "k", "--expires", span, status=2).stderr
    assert shown(shop, "k") == before


def test_keys_of_another_gateway(shop: Shop) -> None:
    tokens = shop.folder / "tokens.csv"
    tokens.write_text("key,name,unlimited_quota,group\nabcdefghijklmnop,one,1,vip\n")
    told = shop.run("key", "import", str(tokens), "--from", "new-api", "--dry-run")
    assert "1 key would be added" in told.stderr
    assert json.loads(shop.run("key", "list", "--json").stdout) == []
    told = shop.run("key", "import", str(tokens), "--from", "new-api")
    assert "warning: one: not taken over: group" in told.stderr
    assert shown(shop, "one")["secrets"][0]["ending"] == "mnop"
    again = shop.run("key", "import", str(tokens), "--from", "new-api", status=1).stderr
    assert "tokens.csv:2: one: name: is, or was, the name of a key" in again
    assert "nothing was imported" in again
    listed = "name,hash\nprod,f00\ntest,f01\n"
    made = shop.run("key", "import", "-", "--from", "openrouter", given=listed).stdout.splitlines()
    assert [line.split(",")[0] for line in made] == ["prod", "test"]
    assert all(line.split(",")[1].startswith("sk-drg-") for line in made)
    assert b"abcdefghijklmnop" not in shop.bytes_of_store()


def test_the_longest_answer_of_a_key(shop: Shop) -> None:
    shop.run("key", "add", "k", "--max-output-tokens", "500")
    assert shown(shop, "k")["rules"]["max_output_tokens"] == 500
    for wrong, status in (("many", 2), ("0", 1)):
        told = shop.run("key", "set", "k", "--max-output-tokens", wrong, status=status).stderr
        assert "max" in told
    assert shown(shop, "k")["rules"]["max_output_tokens"] == 500
    shop.run("key", "set", "k", "--max-output-tokens", "none")
    assert shown(shop, "k")["rules"].get("max_output_tokens") is None

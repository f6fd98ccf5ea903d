"""`dragoman audit`, and usage by what it is counted by, on a store."""

from __future__ import annotations

import getpass
import json
import time

import pytest

from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.storage.sqlite import SqliteStore
from tests.cli.conftest import Shop


def test_changes_at_a_terminal_are_told(shop: Shop) -> None:
    secret = shop.run("key", "add", "ci", "--note", "builds").stdout.strip()
    shop.run("key", "disable", "ci")
    shop.run("accounts", "add", "a1", "--upstream", "chat", "--key", "-", given="sk-of-account\n")
    shop.run("accounts", "disable", "a1", "--reason", "too slow")
    page = json.loads(shop.run("audit", "--json").stdout)
    lines = page["changes"]
    assert [(line["action"], line["kind"], line["name"]) for line in lines] == [
        ("disable", "account", "a1"),
        ("add", "account", "a1"),
        ("change", "key", "ci"),
        ("add", "key", "ci"),
    ]
    assert all(line["who"].startswith(f"{getpass.getuser()}@") for line in lines)
    assert lines[0]["after"] == {"state": "disabled", "why": "too slow"}
    assert lines[2]["after"] == {"enabled": False}
    shown = shop.run("audit", "--kind", "key", "--since", "1h").stdout
    assert "note=builds" in shown
    assert "a1" not in shown
    for text in (json.dumps(page), shown):
        assert secret not in text
        assert "sk-of-account" not in text
    assert "expected a time" in shop.run("audit", "--since", "soonish", status=1).stderr


def test_usage_by_several_dimensions(shop: Shop) -> None:
    hour = int(time.time()) // 3600 * 3600
    store = SqliteStore(shop.folder / "dragoman.db")
    keys = [
        UsageKey(hour, "fixed", "me", "m", "/", "chat", "team", f"u{number}", "a,b")
        for number in range(2)
    ]
    store.exchange("w", Batch(usage={key: UsageCount(1, estimated=1) for key in keys}), 0)
    store.close()
    told = shop.run("usage", "--from", "2d", "--by", "key,team", "--by", "tag,day", "--json").stdout
    rows = json.loads(told)["rows"]
    day = time.strftime("%Y-%m-%d", time.gmtime(hour))
    assert [row["by"] for row in rows] == [
        {"key": "me", "team": "team", "tag": tag, "day": day} for tag in ("a", "b")
    ]
    assert [(row["requests"], row["estimated"]) for row in rows] == [(2, 2), (2, 2)]
    heading, _, _, total = shop.run("usage", "--by", "user,upstream").stdout.splitlines()
    assert heading.split()[:2] == ["USER", "UPSTREAM"]
    assert total.split()[:2] == ["total", "2"]


@pytest.mark.parametrize(
    ("by", "told"), [("colour", "expected one of key"), ("key,key", "key is given twice")]
)
def test_what_usage_cannot_be_told_by(shop: Shop, by: str, told: str) -> None:
    assert told in shop.run("usage", "--by", by, status=1).stderr

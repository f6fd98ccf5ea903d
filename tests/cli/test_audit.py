"""`dragoman audit`, and usage by what it is counted by, on a store."""

from __future__ import annotations

import getpass
import json
import time

import pytest

from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.storage.sqlite import SqliteStore
from tests.cli.conftest import Shop

DAY = 86_400


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


def test_days_of_usage_are_those_of_a_zone(shop: Shop) -> None:
    """Days are summed from hours; what is old is stored by the day (UTC), and keeps its date."""
    midnight = (int(time.time()) // DAY - 2) * DAY
    hours = [midnight + hour * 3600 for hour in (18, 19)] + [midnight - 90 * DAY]
    store = SqliteStore(shop.folder / "dragoman.db")
    keys = [UsageKey(hour, "fixed", f"k{n}", "m", "/") for hour in hours for n in range(2)]
    store.exchange("w", Batch(usage={key: UsageCount(1, input=7) for key in keys}), 0)
    store.close()

    def days(*asked: str) -> list[tuple[str, int]]:
        told = shop.run("usage", "--since", "0", "--by", "day,key", "--json", *asked).stdout
        report = json.loads(told)
        assert (report["total"]["requests"], report["total"]["input"]) == (6, 42)
        assert {row["by"]["key"] for row in report["rows"]} == {"k0", "k1"}
        rows = [row for row in report["rows"] if row["by"]["key"] == "k0"]
        return [(row["by"]["day"], row["requests"]) for row in rows]

    def date(days: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(midnight + days * DAY))

    assert days() == [(date(-90), 1), (date(0), 2)]
    # 18:00 UTC is 23:45 there.
    assert days("--zone", "Asia/Kathmandu") == [(date(-90), 1), (date(0), 1), (date(1), 1)]
    assert days("--zone", "Pacific/Honolulu") == [(date(-90), 1), (date(0), 2)]
    told = shop.run("usage", "--by", "day", "--zone", "Berlin", status=1).stderr
    assert "zone: no time zone named 'Berlin'" in told


@pytest.mark.parametrize(
    ("by", "told"), [("colour", "expected one of key"), ("key,key", "key is given twice")]
)
def test_what_usage_cannot_be_told_by(shop: Shop, by: str, told: str) -> None:
    assert told in shop.run("usage", "--by", by, status=1).stderr

"""`dragoman limit`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Shop


def listed(shop: Shop, *arguments: str) -> Any:
    found = json.loads(shop.run("limit", "list", *arguments, "--json").stdout)
    for one in found:
        assert one.pop("state")["reserved"] in (0, "0")
    return found


def test_limits_are_added_listed_reset_and_removed(shop: Shop) -> None:
    shop.run("key", "add", "ci", "--note", "builds")
    shop.run("limit", "add", "ci", "--kind", "requests", "--amount", "500", "--window", "1m")
    shop.run(
        "limit", "add", "ci", "--kind", "cost", "--amount", "12.50", "--window", "month",
        "--zone", "Europe/Berlin", "--anchor", "15", "--mode", "soft",
        "--model", "gpt-*", "--model", "o4",
    )  # fmt: skip
    shop.run("limit", "add", "ci", "--kind", "concurrent", "--amount", "3", "--queue", "2.5")
    assert listed(shop, "ci") == [
        {"number": 1, "limit": {"kind": "requests", "amount": 500, "window": "1m"}},
        {
            "number": 2,
            "limit": {
                "kind": "cost",
                "amount": "12.50",
                "window": "month",
                "zone": "Europe/Berlin",
                "anchor": "15",
                "mode": "soft",
                "models": ["gpt-*", "o4"],
            },
        },
        {"number": 3, "limit": {"kind": "concurrent", "amount": 3, "queue_s": 2.5}},
    ]
    shown = shop.run("limit", "list", "ci").stdout
    assert "$12.50" in shown
    assert "Europe/Berlin 15" in shown
    shop.run("limit", "reset", "ci", "2")
    assert ["since" in one["limit"] for one in listed(shop, "ci")] == [False, True, False]
    shop.run("limit", "reset", "ci")
    assert ["since" in one["limit"] for one in listed(shop, "ci")] == [True, True, False]
    shop.run("limit", "remove", "ci", "1")
    assert [one["limit"]["kind"] for one in listed(shop, "ci")] == ["cost", "concurrent"]
    rules = json.loads(shop.run("key", "show", "ci").stdout)["rules"]
    assert rules["note"] == "builds"
    assert len(rules["limits"]) == 2


def test_limits_of_a_team(shop: Shop) -> None:
    shop.run("team", "add", "t")
    weights = ("--weight", "output=5", "--weight", "cached=2")
    shop.run(
        "limit", "add", "t", "--team", "--kind", "tokens", "--amount", "9", "--window", "day",
        *weights,
    )  # fmt: skip
    added = listed(shop, "t", "--team")[0]["limit"]
    assert added["amount"] == 9
    assert added["weights"] == {"output": 5, "cached": 2}
    assert "no key named t" in shop.run("limit", "list", "t", status=1).stderr


OF_THE_FILE = """
[[teams]]
name = "crew"
limits = [{ kind = "requests", amount = 5, window = "day" }]

[[clients]]
name = "written"
key = "sk-written"
team = "crew"
limits = [
    { kind = "requests", amount = 9, window = "day" },
    { kind = "tokens", amount = 9, window = "total", since = 2026-01-01T00:00:00Z },
    { kind = "concurrent", amount = 2 },
]
"""


def test_limits_of_the_configuration_are_reset_in_the_store(shop: Shop) -> None:
    with shop.file.open("a") as file:
        file.write(OF_THE_FILE)
    written = listed(shop, "written")
    assert ["since" in one["limit"] for one in written] == [False, True, False]
    shop.run("limit", "reset", "written", "1")
    first = listed(shop, "written")
    assert first[1:] == written[1:]
    assert first[0]["limit"].pop("since") > "2026-01-01"
    assert first[0] == written[0]
    shop.run("limit", "reset", "written")
    assert listed(shop, "written")[1]["limit"]["since"] > "2026-01-01T00:00:00Z"
    assert "since" not in listed(shop, "written")[2]["limit"]
    assert "since" not in listed(shop, "crew", "--team")[0]["limit"]
    shop.run("limit", "reset", "crew", "--team")
    assert "since" in listed(shop, "crew", "--team")[0]["limit"]
    assert "1 to 3" in shop.run("limit", "reset", "written", "4", status=1).stderr
    changes = shop.run("audit").stdout
    assert "written" in changes
    # All else of them is changed in the file.
    assert "change it there" in shop.run("limit", "remove", "written", "1", status=1).stderr
    # One that counts something else is another limit.
    shop.file.write_text(shop.file.read_text().replace('9, window = "day"', '9, window = "week"'))
    assert "since" not in listed(shop, "written")[0]["limit"]


WRONG = [
    (("--kind", "requests", "--amount", "-5", "--window", "1m"), "limits[0].amount: expected"),
    (("--kind", "requests", "--amount", "5.5", "--window", "1m"), "limits[0].amount: expected"),
    (("--kind", "cost", "--amount", "1,50", "--window", "1m"), "US dollars"),
    (("--kind", "cost", "--amount", "-1", "--window", "1m"), "US dollars"),
    (("--kind", "wishes", "--amount", "5", "--window", "1m"), "kind: expected one of"),
    (("--kind", "requests", "--amount", "5", "--window", "fortnight"), "expected a window"),
    (("--kind", "requests", "--amount", "5"), "limits[0].window: required"),
    (("--kind", "requests", "--amount", "5", "--window", "day", "--zone", "X/Y"), "no time zone"),
    (("--kind", "concurrent", "--amount", "5", "--window", "day"), "has no effect"),
    (("--kind", "requests", "--amount", "5", "--window", "1m", "--clamp"), "has no effect"),
    (("--kind", "requests", "--amount", "5", "--window", "1m", "--queue", "-1"), "queue_s"),
    (
        ("--kind", "requests", "--amount", "5", "--window", "1m", "--mode", "strict"),
        "one of enforce",
    ),
    (("--kind", "tokens", "--amount", "5", "--window", "1m", "--weight", "output=0.5"), "output"),
    (("--kind", "tokens", "--amount", "5", "--window", "1m", "--weight", "prompt=5"), "prompt"),
]


@pytest.mark.parametrize(("options", "told"), WRONG)
def test_what_is_wrong_is_told_and_changes_nothing(
    shop: Shop, options: tuple[str, ...], told: str
) -> None:
    shop.run("key", "add", "ci")
    assert told in shop.run("limit", "add", "ci", *options, status=1).stderr
    assert listed(shop, "ci") == []


def test_numbers_that_there_are_not(shop: Shop) -> None:
    shop.run("key", "add", "ci")
    assert "ci has no limit 1" in shop.run("limit", "remove", "ci", "1", status=1).stderr
    shop.run("limit", "add", "ci", "--kind", "requests", "--amount", "5", "--window", "1m")
    for number in ("0", "2"):
        told = shop.run("limit", "reset", "ci", number, status=1).stderr
        assert "numbered from 1 to 1" in told
    twice = ("--kind", "requests", "--amount", "9", "--window", "1m")
    assert "counts the same" in shop.run("limit", "add", "ci", *twice, status=1).stderr


def test_the_command_grants(shop: Shop) -> None:
    shop.run("key", "add", "ci")
    shop.run("limit", "add", "ci", "--kind", "cost", "--amount", "10", "--window", "month")
    shop.run("limit", "add", "ci", "--kind", "concurrent", "--amount", "1")
    shop.run("limit", "grant", "ci", "1", "--amount", "5.50")
    told = shop.run("limit", "grant", "ci", "2", "--amount", "4", "--until", "2h", "--json").stdout
    cost, concurrent = [one["limit"] for one in json.loads(told)]
    assert cost["granted"] == "5.50"
    assert concurrent["granted"] == 4
    assert "$5.50" in shop.run("limit", "list", "ci").stdout
    shop.run("limit", "grant", "ci", "2", "--amount", "none")
    assert "granted" not in listed(shop, "ci")[1]["limit"]
    for options, fault in (
        (("3", "--amount", "1"), "ci has no limit 3"),
        (("1", "--amount", "x"), "US dollars"),
        (("1", "--amount", "1", "--windows", "0"), "windows"),
    ):
        assert fault in shop.run("limit", "grant", "ci", *options, status=1).stderr


def test_it_is_told_whether_a_request_would_pass(shop: Shop) -> None:
    shop.run("key", "add", "ci")
    shop.run("limit", "add", "ci", "--kind", "tokens", "--amount", "1000", "--window", "day")
    shop.run("limit", "add", "ci", "--kind", "cost", "--amount", "1", "--window", "month",
             "--mode", "soft")  # fmt: skip
    asked = ("limit", "simulate", "ci", "--model", "sim-text", "--input-tokens", "400")
    assert "would be admitted" in shop.run(*asked, "--output-tokens", "600").stdout
    told = shop.run(*asked, "--output-tokens", "601", status=1).stdout
    assert "key:tokens:day refuses it" in told
    answer = json.loads(shop.run(*asked, "--output-tokens", "601", "--json", status=1).stdout)
    first, second = answer["limits"]
    assert (answer["admitted"], answer["upstream"], answer["cost_usd"]) == (False, "chat", None)
    assert (first["asks"], first["remaining"], first["admits"]) == (1001, 1000, False)
    assert (second["limit"], second["mode"], second["admits"]) == ("key:cost:month", "soft", True)
    assert not (shop.folder / "dragoman.db-limits").exists(), "whoever looks makes no file"
    for options, told in (
        (("--model", "no-such"), "does not exist"),
        (("--model", "sim-text", "--tier", "gold"), "tier"),
        (("--model", "sim-text", "--address", "here"), "address"),
        (("--model", "sim-text", "--input-tokens", "-1"), "input_tokens"),
    ):
        run = shop.run("limit", "simulate", "ci", *options, status=1)
        assert told in run.stdout + run.stderr
    shop.run("key", "disable", "ci")
    assert "disabled" in shop.run(*asked, status=1).stdout
    assert "no key named x" in shop.run("limit", "simulate", "x", "--model", "m", status=1).stderr


def test_a_share_of_what_accounts_have_was_removed(shop: Shop) -> None:
    shop.run("key", "add", "ci")
    wanted = ("limit", "add", "ci", "--kind", "cost", "--share", "40%", "--window", "5h")
    assert "set an amount in US dollars" in shop.run(*wanted, status=2).output
    answer = shop.run("limit", "add", "ci", "--kind", "requests", "--window", "1m", status=2)
    assert "--amount" in answer.output


def test_a_limit_is_changed_in_place(shop: Shop) -> None:
    shop.run("key", "add", "ci")
    shop.run(
        "limit", "add", "ci", "--kind", "cost", "--amount", "12.50", "--window", "month",
        "--model", "gpt-*", "--clamp",
    )  # fmt: skip
    shop.run("limit", "add", "ci", "--kind", "requests", "--amount", "500", "--window", "1m")
    shop.run("limit", "set", "ci", "2", "--amount", "600", "--mode", "shadow")
    shop.run("limit", "set", "ci", "1", "--amount", "20", "--model", "none", "--no-clamp")
    assert [one["limit"] for one in listed(shop, "ci")] == [
        {"kind": "cost", "amount": "20", "window": "month"},
        {"kind": "requests", "amount": 600, "window": "1m", "mode": "shadow"},
    ]
    assert "at least one setting" in shop.run("limit", "set", "ci", "1", status=2).output
    assert "no limit" in shop.run("limit", "set", "ci", "3", "--amount", "1", status=1).output
    refused = shop.run("limit", "set", "ci", "2", "--amount", "-1", status=1).output
    assert "amount" in refused
    assert listed(shop, "ci")[1]["limit"]["amount"] == 600
    shop.run("team", "add", "t")
    shop.run("limit", "add", "t", "--team", "--kind", "concurrent", "--amount", "3")
    shop.run("limit", "set", "t", "1", "--team", "--queue", "1.5")
    assert listed(shop, "t", "--team")[0]["limit"]["queue_s"] == 1.5

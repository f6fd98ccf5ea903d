"""What the dashboard does with accounts: previews of lists, tests of many, new keys."""

from __future__ import annotations

import json

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.administration import SECRET, admin, gateway

__all__ = ["gateway"]

ROWS = [
    {"name": "good", "upstream": "chat", "key": SECRET},
    {"name": "chat-0", "upstream": "chat", "key": "sk-x"},
    {"name": "lost", "upstream": "nowhere", "key": "sk-x"},
    {"name": "twin", "upstream": "chat", "key": SECRET},
]


def names(gateway: RunningGateway) -> set[str]:
    return {one["name"] for one in admin(gateway, "GET", "/accounts").json["accounts"]}


def test_a_preview_says_what_an_import_would_and_stores_nothing(gateway: RunningGateway) -> None:
    before = names(gateway)
    preview = admin(gateway, "POST", "/accounts/import?format=json&dry_run=true", ROWS)
    assert preview.status == 200, preview.body
    assert (preview.json["rows"], preview.json["added"]) == (4, 2)
    assert [row["name"] for row in preview.json["bad"]] == ["chat-0", "lost"]
    assert preview.json["same_keys"] == [["good", "twin"]]
    assert SECRET not in preview.body.decode()
    assert names(gateway) == before
    assert admin(gateway, "GET", "/audit").json["changes"] == []

    refused = admin(gateway, "POST", "/accounts/import?format=json", ROWS)
    assert (refused.status, refused.json["error"]["bad"]) == (400, preview.json["bad"])
    done = admin(gateway, "POST", "/accounts/import?format=json&skip_bad=true", ROWS)
    assert done.json == preview.json
    assert names(gateway) == before | {"good", "twin"}


def test_many_are_tested_and_each_outcome_is_told(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    for number in range(10):
        made = {"name": f"t{number}", "upstream": "chat", "key": f"sk-sim-t{number}"}
        assert admin(gateway, "POST", "/accounts", made).status == 201
    limited = Fault("error", failure=Failure(status=401))
    simulator.app.keys.behaviours["sk-sim-t3"] = KeyBehaviour(limited)
    wanted = [*(f"t{number}" for number in range(10)), "nobody", "t1"]
    answer = admin(gateway, "POST", "/accounts/test", {"names": wanted, "model": "sim-text"})
    assert answer.status == 200
    told = [json.loads(one[6:]) for one in answer.body.decode().split("\n\n") if one]
    by_name = {one.get("account") or one["name"]: one for one in told}
    assert len(told) == len(by_name) == 11
    assert [name for name, one in by_name.items() if not one.get("passed")] == sorted(
        ["t3", "nobody"], key=list(by_name).index
    )
    assert by_name["t3"]["status"] == 401
    assert admin(gateway, "GET", "/accounts/t3").json["account"]["state"] == "disabled"


def test_a_new_key_is_tried_before_it_replaces_the_old(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    made = {"name": "turns", "upstream": "chat", "key": "sk-sim-old"}
    assert admin(gateway, "POST", "/accounts", made).status == 201
    simulator.app.keys.behaviours["sk-sim-bad"] = KeyBehaviour(
        Fault("error", failure=Failure(status=401))
    )

    def tested_with() -> str | None:
        tested = admin(gateway, "POST", "/accounts/turns/test", {"model": "sim-text"})
        assert tested.json["passed"]
        return simulator.last.key

    asked = {"key": "sk-sim-bad", "model": "sim-text"}
    refused = admin(gateway, "POST", "/accounts/turns/rotate", asked)
    assert (refused.status, refused.json["error"]["param"]) == (409, "key")
    assert refused.json["error"]["finding"]["status"] == 401
    assert tested_with() == "sk-sim-old"
    assert admin(gateway, "GET", "/accounts/turns").json["account"]["state"] == "active"

    taken = admin(
        gateway, "POST", "/accounts/turns/rotate", {"key": "sk-sim-new", "model": "sim-text"}
    )
    assert (taken.status, taken.json["finding"]["passed"]) == (200, True)
    assert tested_with() == "sk-sim-new"
    audit = admin(gateway, "GET", "/audit").body.decode()
    assert "sk-sim-new" not in audit
    assert "sk-sim-bad" not in audit
    asked_before = len(simulator.requests)
    fixed = admin(gateway, "POST", "/accounts/chat-0/rotate", {"key": "sk-y", "model": "sim-text"})
    assert fixed.status == 409
    assert len(simulator.requests) == asked_before
    for wrong in ({}, {"key": ""}, {"key": 7}, {"key": "a", "test": 1}, {"key": "a", "x": 1}):
        assert admin(gateway, "POST", "/accounts/turns/rotate", wrong).status == 400

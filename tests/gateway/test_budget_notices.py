"""How clients with budgets are told of them, in the headers and errors that their programs read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Secret
from dragoman.config.limits import Limit
from dragoman.config.windows import Fixed, span_of
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.limits.messages import Refused
from dragoman.limits.rules import Rule
from dragoman.protocols.budgets import BudgetUse
from dragoman.protocols.settings import make_options
from dragoman.server.testing import RunningGateway
from dragoman.serving.limits.responses import is_held_back
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.http import KEY, Answer, call
from tests.gateway.limited import OTHER_KEY, config, limit, serving
from tests.gateway.processes import until

CLAUDE_CODE = {"x-claude-code-session-id": "c0ffee"}
CODEX = {"x-codex-window-id": "thread:0"}
UNIFIED = "anthropic-ratelimit-unified-"
BUDGET = limit("cost", "100", "month")
"""A token costs $0.001: 100,000 of them."""
THIRD_KEY = "sk-of-whoever-may-not-know-amounts"


def ask(
    gateway: RunningGateway,
    api: str,
    tokens: int = 0,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Answer:
    """A request of a program, whose answer is said to have used so many tokens."""
    text = f"[[sim: input={tokens} output=1]]" if tokens else "Hello"
    made = body(api, "chat/sim-text", text, **more)
    return call(gateway.base_url, "POST", PATHS[api], made, headers)


def unified(answer: Answer) -> dict[str, str]:
    found = answer.headers.items()
    return {name.removeprefix(UNIFIED): value for name, value in found if name.startswith(UNIFIED)}


def codex(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("x-codex-")}


def month_ends() -> int:
    return int(span_of(Fixed("month"), time.time())[1])


@pytest.fixture
def gateway(simulator: RunningSimulator) -> Iterator[RunningGateway]:
    with serving(config(simulator.base_url, BUDGET)) as (running, _):
        yield running


def test_a_messages_client_is_told_of_its_budget_from_the_answer_to_its_admission(
    gateway: RunningGateway,
) -> None:
    """Its share, when it begins anew, and from 75 and 95 % on which threshold is passed; what the
    answer itself came to is in it where that is known before its head is sent."""
    ends = str(month_ends())
    seen = []
    for tokens in (10_000, 64_999, 9_998, 9_999, 3_999):
        answer = ask(gateway, "messages", tokens, CLAUDE_CODE)
        found = unified(answer)
        assert found.pop("representative-claim") == "overage"
        assert found.pop("reset") == found.pop("overage-reset") == ends
        assert found.pop("status") == found.pop("overage-status")
        seen.append((found["overage-utilization"], found.get("overage-surpassed-threshold")))
    assert seen == [
        ("0.10", None),
        ("0.75", "0.75"),
        ("0.85", "0.75"),
        ("0.95", "0.95"),
        ("0.99", "0.95"),
    ]
    streamed = unified(ask(gateway, "messages", 1, CLAUDE_CODE, stream=True, max_tokens=16))
    assert streamed["status"] == "allowed_warning"
    assert streamed["overage-surpassed-threshold"] == "0.95"


def test_claude_code_is_told_of_a_spent_budget_so_that_it_stops_with_our_words(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    assert ask(gateway, "messages", 100_000).status == 200
    asked = len(simulator.requests)
    answer = ask(gateway, "messages", headers=CLAUDE_CODE)
    assert len(simulator.requests) == asked, "no upstream was asked"
    error = answer.json["error"]
    assert (answer.status, error["type"]) == (429, "billing_error")
    assert "budget of this API key per month is used up" in error["message"]
    assert answer.headers["x-should-retry"] == "false"
    ends = month_ends()
    assert abs(int(answer.headers["retry-after"]) - (ends - time.time())) < 60
    assert unified(answer) == {
        "status": "rejected",
        "reset": str(ends),
        "overage-reset": str(ends),
        "overage-utilization": "1",
        "overage-surpassed-threshold": "1",
        "overage-period": "monthly",
        "overage-disabled-reason": "org_spend_cap_reached",
    }


def test_the_budget_of_a_team_is_told_as_one_of_several(simulator: RunningSimulator) -> None:
    made = config(simulator.base_url, limit("cost", "900", "week"), team=(BUDGET,))
    with serving(made) as (gateway, _):
        answer = ask(gateway, "messages", 80_000, CLAUDE_CODE)
        assert unified(answer)["overage-utilization"] == "0.80", "the fullest of both"
        assert codex(ask(gateway, "responses", 19_999, CODEX))["x-codex-limit-name"] == (
            "team budget per month"
        )
        refused = unified(ask(gateway, "messages", headers=CLAUDE_CODE))
        assert refused["overage-scope"] == "group_pool"


def test_codex_is_told_of_its_budget_and_of_its_end(gateway: RunningGateway) -> None:
    ends = month_ends()
    begins = span_of(Fixed("month"), time.time())[0]
    shown = {
        "x-codex-limit-name": "budget per month",
        "x-codex-primary-used-percent": "83",
        "x-codex-primary-window-minutes": str(round((ends - begins) / 60)),
        "x-codex-primary-reset-at": str(ends),
    }
    assert codex(ask(gateway, "responses", 83_000, CODEX, store=False)) == shown
    assert codex(ask(gateway, "responses", 16_998, store=False)) == {}, "to Codex only"
    refused = ask(gateway, "responses", headers=CODEX, store=False)
    error = refused.json["error"]
    assert (refused.status, error["type"]) == (429, "usage_limit_reached")
    assert error["resets_at"] == ends
    assert refused.headers["x-should-retry"] == "false"
    found = codex(refused)
    assert found.pop("x-codex-promo-message") == error["message"].rstrip(".")
    del shown["x-codex-limit-name"]
    assert found == {**shown, "x-codex-primary-used-percent": "100"}, "none hides our words"


@pytest.mark.parametrize("api", APIS)
def test_clients_that_show_no_budgets_are_told_as_before(gateway: RunningGateway, api: str) -> None:
    more: Any = {"store": False} if api == "responses" else {}
    assert ask(gateway, api, 100_000, **more).status == 200
    refused = ask(gateway, api, **more)
    status, kind = (402, "billing_error") if api == "messages" else (429, "insufficient_quota")
    assert (refused.status, refused.json["error"]["type"]) == (status, kind)
    assert not unified(refused)
    assert not codex(refused)


@pytest.mark.parametrize("limits", [(), (limit("requests", 50, "1m"),)])
@pytest.mark.parametrize(("api", "program"), [("messages", CLAUDE_CODE), ("responses", CODEX)])
def test_whoever_has_no_budget_is_sent_nothing_of_one(
    simulator: RunningSimulator, limits: tuple[Limit, ...], api: str, program: dict[str, str]
) -> None:
    """Nor anything of an upstream's account."""
    made = config(simulator.base_url, *limits)
    accounts = tuple(replace(one, key=Secret("sk-sim-max-1")) for one in made.accounts)
    with serving(replace(made, accounts=accounts)) as (gateway, _):
        answer = call(gateway.base_url, "POST", PATHS[api], body(api, f"{api}/sim-text"), program)
        assert answer.status == 200
        assert not unified(answer)
        assert not codex(answer)


def test_a_status_that_a_program_needs_is_not_that_of_the_options(
    simulator: RunningSimulator,
) -> None:
    made = config(simulator.base_url, limit("cost", "0", "day"))
    made = replace(made, options=make_options(budget_status=402))
    with serving(made) as (gateway, _):
        statuses = [
            ask(gateway, api, headers=headers).status
            for api, headers in (
                ("messages", CLAUDE_CODE),
                ("responses", CODEX),
                ("messages", {}),
                ("responses", {}),
            )
        ]
        assert statuses == [429, 429, 402, 402]


def test_a_program_asks_what_it_may_spend(simulator: RunningSimulator, tmp_path: Path) -> None:
    """In cents, with the instants of the headers; without a budget what was spent."""
    made = config(simulator.base_url, BUDGET, store=str(tmp_path / "store.db"))
    hidden = Client(name="third", key=Secret(THIRD_KEY), limits=(BUDGET,), show_amounts=False)
    made = replace(
        made,
        clients=(*made.clients, hidden),
        storage=replace(made.storage, sync_s=0.05),
    )
    with serving(made) as (gateway, _):

        def spending(key: str = KEY) -> Any:
            answer = call(gateway.base_url, "GET", "/api/oauth/usage", key=key)
            assert answer.status == 200
            assert answer.headers["cache-control"] == "no-store"
            return answer.json

        header = unified(ask(gateway, "messages", 81_999, CLAUDE_CODE))["reset"]
        until(lambda: spending()["extra_usage"]["used_credits"] == 8200)
        moment = f"{datetime.fromtimestamp(int(header), UTC):%Y-%m-%dT%H:%M:%S}.000Z"
        assert spending() == {
            "extra_usage": {
                "is_enabled": True,
                "monthly_limit": 10_000,
                "used_credits": 8200,
                "utilization": 82,
                "currency": "USD",
            },
            "limits": [
                {
                    "kind": "spend",
                    "group": "monthly",
                    "percent": 82,
                    "resets_at": moment,
                    "severity": "warning",
                    "is_active": True,
                }
            ],
        }
        call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"), key=OTHER_KEY)
        until(lambda: spending(OTHER_KEY)["extra_usage"]["used_credits"] > 0)
        uncapped = spending(OTHER_KEY)
        spent = uncapped["extra_usage"]["used_credits"]
        assert uncapped["limits"] == []
        assert uncapped["extra_usage"]["monthly_limit"] is None
        for name in ("daily", "weekly"):
            own = {"limit": None, "used_credits": spent, "utilization": None}
            assert uncapped["extra_usage"][name] == own
        secret = spending(THIRD_KEY)
        assert secret["extra_usage"]["monthly_limit"] is secret["extra_usage"]["used_credits"]
        assert secret["limits"][0]["percent"] == 0
        assert call(gateway.base_url, "GET", "/api/oauth/usage", key="sk-wrong").status == 401


def test_a_budget_that_cannot_be_counted_stops_claude_code(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.link.messages import LinkClosed
    from dragoman.serving.limits.client import Limits

    async def gone(*_: object) -> None:
        raise LinkClosed

    monkeypatch.setattr(Limits, "admit", gone)
    answer = ask(gateway, "messages", headers=CLAUDE_CODE)
    assert answer.status == 429
    assert unified(answer) == {"overage-disabled-reason": "fetch_error"}
    assert answer.headers["x-should-retry"] == "false"
    assert not {"retry-after", "retry-after-ms"} & answer.headers.keys()
    assert ask(gateway, "messages").headers["retry-after"] == "1", "others come again"


def test_what_is_used_up_is_told_apart_from_what_cannot_be_counted() -> None:
    """While the database that machines share is away."""
    now = time.time()
    refusal = Refused(0, amount=10**12, left=0, used=10**12, free_at=now, resets_at=now)
    for amount, when_away, is_held in (("100", "closed", True), ("1", "closed", False),
                                       ("100", "share", False)):  # fmt: skip
        rule = Rule(limit("cost", amount, "month", when_away=when_away), "key")
        assert is_held_back(rule, refusal, now) is is_held


def test_a_share_of_just_so_many_percent_is_told_as_that() -> None:
    told = [BudgetUse(0.0, percent / 100, 1.0, 1.0, "").percent for percent in range(120)]
    assert told == [*range(100), *[100] * 20]

"""What each failure of an account means: the same on every path, by the account-pool procedure to
the letter and by the rules that are shipped as the default."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal, NamedTuple

import pytest
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.steering import FORBIDDEN_TEXTS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, streamed_text, text_of
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call

Rules = Literal["sop", "default"]
Standing = Literal["active", "cooling", "avoided", "exhausted", "disabled"]

PATHS_AND_MODES = [
    (client, upstream, stream)
    for client, upstream in itertools.product(APIS, APIS)
    for stream in (False, True)
]
BAD, GOOD = "sk-sim-bad", "sk-sim-good"


class Meaning(NamedTuple):
    """Whether the next account is tried, and what becomes of this one."""

    tries_next: bool
    standing: Standing


BACK = Meaning(False, "active")
NEXT = Meaning(True, "active")
DISABLED = Meaning(True, "disabled")


def error(status: int, message: str | None = None, code: str | None = None) -> Fault:
    failure = Failure(status=status, message=message or "Told so.", code=code)
    return Fault("error", failure=failure)


TIERS: dict[str, tuple[Fault, Meaning, Meaning]] = {
    "estimated cost": (error(403, FORBIDDEN_TEXTS["estimated_cost"]), BACK, BACK),
    **{
        name: (error(403, FORBIDDEN_TEXTS[name]), NEXT, NEXT)
        for name in ("insufficient_tokens", "upgrade", "limit")
    },
    "429": (error(429), DISABLED, Meaning(True, "cooling")),
    "402": (error(402), DISABLED, Meaning(True, "exhausted")),
    "429 for quota": (error(429, code="insufficient_quota"), DISABLED, Meaning(True, "exhausted")),
    "401": (error(401), DISABLED, DISABLED),
    **{str(status): (error(status), BACK, BACK) for status in (400, 404, 413, 422)},
    **{str(status): (error(status), BACK, Meaning(True, "avoided")) for status in (500, 503, 529)},
    "closed": (Fault("close", after=0), NEXT, NEXT),
    "reset": (Fault("reset", after=0), NEXT, NEXT),
}
"""A failure, and what it means by the procedure and by default."""


def made_for(simulator: RunningSimulator, rules: Rules, *keys: str) -> Config:
    """Accounts that are used in the order of their keys."""
    config = config_for(simulator.base_url, keys=keys)
    return replace(
        config,
        upstreams=tuple(replace(entry, account_rules=rules) for entry in config.upstreams),
        accounts=tuple(
            replace(account, priority=int(account.name.rpartition("-")[2]))
            for account in config.accounts
        ),
    )


@pytest.fixture(scope="module")
def gateways(_simulator: RunningSimulator) -> Iterator[dict[Rules, RunningGateway]]:
    """A gateway by each set of rules."""
    with ExitStack() as stack:
        every: tuple[Rules, ...] = ("sop", "default")
        yield {
            rules: stack.enter_context(running_gateway(made_for(_simulator, rules, BAD, GOOD)))
            for rules in every
        }


def ask(gateway: RunningGateway, client: str, upstream: str, stream: bool) -> Answer:
    made = body(client, f"{upstream}/sim-text?text=Good", stream=stream)
    return call(gateway.base_url, "POST", PATHS[client], made)


def is_good(client: str, answer: Answer, stream: bool) -> bool:
    if answer.status != 200:
        return False
    if stream:
        return completed(client, answer.body) and streamed_text(client, answer.body) == "Good"
    return text_of(client, answer) == "Good"


def standing_of(gateway: RunningGateway, account: str) -> Standing:
    state = gateway.app.pool.state(account)
    if state.disabled:
        return "disabled"
    if state.exhausted is not None:
        return "exhausted"
    for rest in state.cooling.values():
        return "avoided" if rest.soft else "cooling"
    return "active"


@pytest.mark.parametrize("rules", ["sop", "default"])
@pytest.mark.parametrize(("client", "upstream", "stream"), PATHS_AND_MODES)
def test_every_tier(
    gateways: dict[Rules, RunningGateway],
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    stream: bool,
    rules: Rules,
) -> None:
    """req: 133, 134, 135, 136, 137, 141, 142"""
    gateway = gateways[rules]
    for tier, (fault, by_procedure, by_default) in TIERS.items():
        meaning = by_procedure if rules == "sop" else by_default
        simulator.app.requests.clear()
        simulator.app.keys.behaviours[BAD] = KeyBehaviour(fault)
        gateway.app.pool.enable(f"{upstream}-0")
        answer = ask(gateway, client, upstream, stream)
        asked = [request.key for request in simulator.requests]
        assert asked == ([BAD, GOOD] if meaning.tries_next else [BAD]), tier
        assert is_good(client, answer, stream) is meaning.tries_next, (tier, answer)
        assert standing_of(gateway, f"{upstream}-0") == meaning.standing, tier
        assert standing_of(gateway, f"{upstream}-1") == "active", tier
        assert gateway.app.pool.in_flight(f"{upstream}-0") == 0
        if not meaning.tries_next:
            # The upstream's own words and status, in the client's shape: an overload has a status
            # of its own in each.
            assert fault.failure is not None
            status = fault.failure.status
            shown = {503, 529} if status in (503, 529) else {status}
            assert answer.status in shown, tier
            assert (fault.failure.message or "") in answer.json["error"]["message"], tier


@pytest.mark.parametrize("rules", ["sop", "default"])
@pytest.mark.parametrize(("client", "upstream", "stream"), PATHS_AND_MODES)
def test_no_account_is_left(
    gateways: dict[Rules, RunningGateway],
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    stream: bool,
    rules: Rules,
) -> None:
    """At the first attempt: 503 (529 to Messages clients), why, and when it may work again.
    At a later one the procedure says the same, the default tells the upstream's last words.
    req: 139, 144"""
    gateway = gateways[rules]
    for number in (0, 1):
        gateway.app.pool.enable(f"{upstream}-{number}")
    failure = Failure(status=429, retry_after="20", message="Slow down.")
    behaviour = KeyBehaviour(Fault("error", failure=failure))
    simulator.app.keys.behaviours.update({BAD: behaviour, GOOD: behaviour})
    busy = 529 if client == "messages" else 503
    later, first = (ask(gateway, client, upstream, stream) for _ in range(2))
    assert later.status == (busy if rules == "sop" else 429)
    assert first.status == busy
    for answer in (later, first):
        message = error_of(client, answer)["message"]
        assert "No active accounts available" in message
        assert ("out of quota: 2" if rules == "sop" else "rate limited: 2") in message
        assert answer.headers["content-type"] == "application/json"
        if rules == "default":
            assert 0 < int(answer.headers["retry-after"]) <= 20
            assert "One may be back in " in message
    assert len(simulator.requests) == 2
    for number in (0, 1):
        gateway.app.pool.enable(f"{upstream}-{number}")


@pytest.mark.parametrize(("client", "upstream", "stream"), PATHS_AND_MODES)
def test_ten_attempts(
    simulator: RunningSimulator, client: str, upstream: str, stream: bool
) -> None:
    """No account twice, and no more than ten. req: 138, 139"""
    keys = tuple(f"sk-sim-poor{number}" for number in range(12))
    fault = error(403, FORBIDDEN_TEXTS["upgrade"])
    simulator.app.keys.behaviours.update(dict.fromkeys(keys, KeyBehaviour(fault)))
    with running_gateway(made_for(simulator, "sop", *keys)) as gateway:
        answer = ask(gateway, client, upstream, stream)
    assert answer.status == (529 if client == "messages" else 503)
    assert error_of(client, answer)["message"].startswith("All accounts exhausted")
    assert [request.key for request in simulator.requests] == list(keys[:10])


@pytest.mark.parametrize(("client", "upstream", "stream"), PATHS_AND_MODES)
def test_usage_is_told(
    gateways: dict[Rules, RunningGateway],
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    stream: bool,
) -> None:
    """In the answer, or in a stream's last events; none from upstream is no error. req: 143"""
    model = f"{upstream}/sim-text?input=7&output=3"
    if upstream == "chat":
        model += "&quirks=usage_none"
    made = body(client, model, stream=stream)
    if client == "chat" and stream:
        made["stream_options"] = {"include_usage": True}
    answer = call(gateways["sop"].base_url, "POST", PATHS[client], made)
    assert answer.status == 200
    if upstream != "chat":
        names = ("prompt_tokens", "completion_tokens") if client == "chat" else ("put_tokens",)
        for name in names:
            assert name.encode() in answer.body
        assert b":7" in answer.body
        assert b":3" in answer.body
    if stream:
        assert completed(client, answer.body)

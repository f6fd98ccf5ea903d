"""What is decided about accounts, over real sockets: the same on all six paths."""

from __future__ import annotations

import itertools
import time

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.decisions import active_rest
from dragoman.accounts.decide.states import FOREVER, Enabled, Transition
from dragoman.config import Config
from dragoman.config.settings import AccountRules
from dragoman.failing import Rule, Verdict
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import call

BAD, GOOD = "sk-sim-bad", "sk-sim-good"
UPSTREAMS = {"chat": "messages", "messages": "responses", "responses": "chat"}
SIX = pytest.mark.parametrize(("api", "stream"), list(itertools.product(APIS, (False, True))))
HOUR = 3600.0

OWN = (
    Rule(Verdict.EXHAUST, "the budget is spent", (418,), texts=("budget",)),
    Rule(Verdict.TRY_NEXT, "another may have it", (404,)),
    Rule(Verdict.COOL, "told so", headers=("retry-after: 7",), every_model=True),
)

Case = tuple[Failure, int, str | None, float]
"""A failure, the client's status, and what keeps the account out then: why, and for how long."""

CASES: dict[AccountRules, list[Case]] = {
    "default": [
        (Failure(400), 400, None, 0.0),
        (Failure(404, code="model_not_found"), 404, None, 0.0),
        (Failure(413), 413, None, 0.0),
        (Failure(422), 422, None, 0.0),
        (Failure(429, retry_after="9"), 200, "rate limited", 9.0),
        (Failure(429, "Please try again in 8s."), 200, "rate limited", 8.0),
        (Failure(429, retry_after="99999"), 200, "rate limited", HOUR),
        (Failure(402, retry_after="7200"), 200, "out of quota", 2 * HOUR),
        (Failure(401), 200, "the upstream refused its key", FOREVER),
        (Failure(403, "Insufficient tokens"), 200, None, 0.0),
        (Failure(403, "Estimated cost"), 403, None, 0.0),
    ],
    "sop": [
        (Failure(429), 200, "out of quota", FOREVER),
        (Failure(402), 200, "out of quota", FOREVER),
        (Failure(401), 200, "the upstream refused its key", FOREVER),
        (Failure(403, "Insufficient tokens"), 200, None, 0.0),
        (Failure(403, "Upgrade your plan"), 200, None, 0.0),
        (Failure(403, "Limit reached"), 200, None, 0.0),
        (Failure(403, "Estimated cost"), 403, None, 0.0),
        (Failure(403, "Something else"), 403, None, 0.0),
        (Failure(400), 400, None, 0.0),
        (Failure(422), 422, None, 0.0),
    ],
    "none": [
        (Failure(418, "No budget left", retry_after="600"), 200, "the budget is spent", 600.0),
        (Failure(404), 200, None, 0.0),
        (Failure(429, retry_after="7"), 200, "told so", 7.0),
        (Failure(429, retry_after="8"), 429, None, 0.0),
    ],
}


def configured(base_url: str, rules: AccountRules) -> Config:
    """Two accounts for each upstream, the bad one always first."""
    config = config_for(base_url, keys=(BAD, GOOD))
    own = OWN if rules == "none" else ()
    upstreams = tuple(
        replace(entry, account_rules=rules, rules=own, affinity="off") for entry in config.upstreams
    )
    accounts = tuple(
        replace(entry, priority=0 if entry.name.endswith("-0") else 1) for entry in config.accounts
    )
    return replace(config, upstreams=upstreams, accounts=accounts)


@pytest.mark.parametrize("rules", ["default", "sop", "none"])
@SIX
def test_failures_are_decided_upon_alike_on_every_path(
    start: Start, simulator: RunningSimulator, api: str, stream: bool, rules: AccountRules
) -> None:
    """req: 133, 134, 135, 136, 137, 142"""
    upstream = UPSTREAMS[api]
    gateway = start(configured(simulator.base_url, rules))
    pool, account = gateway.app.pool, f"{upstream}-0"
    made = body(api, f"{upstream}/sim-text", stream=stream)
    for failure, status, why, length in CASES[rules]:
        simulator.app.keys.behaviours[BAD] = KeyBehaviour(Fault("error", failure=failure))
        began = time.time()
        answer = call(gateway.base_url, "POST", PATHS[api], made)
        ended = time.time()
        assert answer.status == status, failure
        rest = active_rest(pool.state(account), "sim-text", ended)
        assert (rest.why if rest is not None else None) == why, failure
        if rest is not None:
            assert began + length - 0.01 <= rest.until <= ended + length + 0.01, failure
        pool.observe(Transition(account, Enabled(), time.time()))

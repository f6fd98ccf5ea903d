"""Upstreams quote what they refuse: the words of a client are no sign of what an account lacks."""

from __future__ import annotations

import json

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, rested
from tests.faults.upstream import Upstream, answer, good
from tests.gateway.clients import PATHS, body
from tests.gateway.http import JSON, call
from tests.upstream.servers import Call

KEYS = ("key-1", "key-2", "key-3")


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(*KEYS)


async def quoting(call: Call) -> None:
    """A handler that refuses a `user` and a beta that say "quota", and quotes them."""
    wrong = json.loads(call.body).get("user") or dict(call.headers).get("anthropic-beta", "")
    if not wrong:
        await good(call)
        return
    error = {"message": f"Unexpected value: '{wrong}'.", "type": "invalid_request_error"}
    await call.send(answer(json.dumps({"type": "error", "error": error}).encode(), 400))


def is_out(gateway: RunningGateway, account: str) -> bool:
    state = gateway.app.pool.state(account)
    return bool(state.disabled or state.exhausted or state.cooling)


CLAIMS = {
    "out of quota": "You exceeded your current quota",
    "for a month": "You exceeded your current quota. Try again in 30 days",
    "disabled": "This organization has been disabled",
    "plan": "Not available on your plan",
}


@pytest.mark.parametrize("place", ["plain", "escaped", "header"])
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_quoted_claim(
    claim: str, place: str, gateway: RunningGateway, upstream: Upstream
) -> None:
    rested(gateway)
    upstream.behaviours.update(dict.fromkeys(KEYS, quoting))
    client = "messages" if place == "header" else "chat"
    own = {} if place == "header" else {"user": claim}
    asked = json.dumps(body(client, f"{client}/m", **own))
    if place == "escaped":
        asked = asked.replace("our", "\\u006fur").replace("been", "b\\u0065en")
    headers = {**JSON, "anthropic-beta": claim} if place == "header" else JSON
    told = call(gateway.base_url, "POST", PATHS[client], asked.encode(), headers)
    assert told.status == 400
    assert claim in told.json["error"]["message"]
    assert not any(is_out(gateway, f"{client}-{number}") for number in range(len(KEYS)))
    good_one = call(gateway.base_url, "POST", PATHS[client], body(client, f"{client}/m"))
    assert good_one.status == 200


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_of_the_upstreams_own(
    claim: str, gateway: RunningGateway, upstream: Upstream
) -> None:
    async def claiming(call: Call) -> None:
        error = {"message": f"{claim}.", "type": "invalid_request_error"}
        await call.send(answer(json.dumps({"error": error}).encode(), 400))

    rested(gateway)
    upstream.behaviours.update({KEYS[0]: claiming, KEYS[1]: claiming})
    for _ in KEYS:
        asked = body("chat", "chat/m", user="You exceeded it. This is not your plan.")
        assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 200
    assert [is_out(gateway, f"chat-{number}") for number in range(2)] == [True, True]
